/* SPDX-License-Identifier: GPL-2.0 */
/* Where a call goes whose door asks. */
#ifndef JIFL_HOST_CHOOSE_H
#define JIFL_HOST_CHOOSE_H

#include <linux/ptrace.h>
#include <linux/types.h>

struct jifl_way;

/*
 * Called by jifl_entry_slow: the address to jump to, or 0 to let the call pass. In the task that
 * makes the call; does not sleep.
 */
u64 jifl_choose(const struct pt_regs *regs, unsigned int nr);
/*
 * The way's entry piece, made if need be; 0: there is none now. Sets this CPU's running calls to
 * none when it makes one. Does not sleep. The way's sessions do not end meanwhile, or the task is
 * in jifl_choose.
 */
u64 jifl_choose_way_in(struct jifl_way *w);

#endif
