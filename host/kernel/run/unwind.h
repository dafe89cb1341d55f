/* SPDX-License-Identifier: GPL-2.0 */
/* Has stack walks see original addresses. */
#ifndef JIFL_HOST_UNWIND_H
#define JIFL_HOST_UNWIND_H

#include <linux/types.h>

/*
 * The original of a return address: of the call, or what is behind it. The address itself if it is
 * not in the code cache. Any context.
 */
unsigned long jifl_unwind_original(unsigned long addr);
/*
 * Around a walk of the module's own that may stand inside another one of the same context: keeps
 * what that one has. Any context, interrupts off.
 */
u64 jifl_unwind_keep(void);
void jifl_unwind_give_back(u64 outer);
int jifl_unwind_init(void);
void jifl_unwind_exit(void);

/*
 * `original` tells of an address in a copy of a single instruction where the original is; 0: no
 * such copy is there. It is called in any context, NMI too, preemption off. NULL: no copies are
 * there. Any context.
 */
void jifl_unwind_know_copies(unsigned long (*original)(unsigned long addr));

#endif
