/* SPDX-License-Identifier: GPL-2.0 */
/* Chooses where a call goes if its door leads to jifl_entry_slow. */
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
 * Called by jifl_function_stub, at the fentry site of a function. address: behind the site; *slot:
 * the return address of the function's caller; arg0: the function's first argument. Returns where
 * to go on: address, or an entry piece. Any context; does not sleep.
 */
unsigned long jifl_choose_copy(unsigned long address, unsigned long *slot,
				  unsigned long arg0);
/*
 * Called by jifl_inside_stub, where a copy of a function begins. address: in that copy's block,
 * where it goes on; slot and arg0 as of jifl_choose_copy. Returns where to go on: address, or an
 * entry piece. Any context; does not sleep.
 */
unsigned long jifl_choose_inside(unsigned long address, unsigned long *slot, unsigned long arg0);
/*
 * The way's entry piece, which is made if it does not exist; 0: there can be none now.
 * Does not sleep. The caller sees to
 * it that the way's sessions do not end meanwhile, or the task is in jifl_choose.
 */
u64 jifl_choose_way_in(struct jifl_way *w);

#endif
