/* SPDX-License-Identifier: GPL-2.0 */
/* The memory of gates of replaced functions (replaced.h), for C and assembly. */
#ifndef JIFL_HOST_REPLACED_GATES_H
#define JIFL_HOST_REPLACED_GATES_H

#define JIFL_REPLACED_GATES		16
#define JIFL_REPLACED_GATE_BYTES	32

#endif
