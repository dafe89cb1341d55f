/* SPDX-License-Identifier: GPL-2.0 */
/* Moves threads out of code whose original has changed. */
#ifndef JIFL_HOST_TRAP_H
#define JIFL_HOST_TRAP_H

#include <linux/types.h>

int jifl_trap_init(void);
void jifl_trap_exit(void);
u64 jifl_trap_count(void);

#endif
