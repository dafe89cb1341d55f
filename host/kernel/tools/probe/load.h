/* SPDX-License-Identifier: GPL-2.0 */
/* What load.S and C share. */
#ifndef JIFL_HOST_PROBE_LOAD_H
#define JIFL_HOST_PROBE_LOAD_H

/* Addresses from here on are not read at once: VSYSCALL_ADDR - 8, signed. */
#define JIFL_LOAD_END	(-0xa00008)

#endif
