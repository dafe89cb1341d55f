/* SPDX-License-Identifier: GPL-2.0 */
/* The memory of gates (jump.h), for C and assembly. */
#ifndef JIFL_HOST_GATES_H
#define JIFL_HOST_GATES_H

#define JIFL_GATES		8192
#define JIFL_GATE_BYTES		32

#endif
