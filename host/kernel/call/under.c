// SPDX-License-Identifier: GPL-2.0
/*
 * Calls that are made under something: a system call that the task is in, or a function that is on
 * the stack. So kmalloc is counted under execve, and not elsewhere.
 *
 * What is meant, and why it is found:
 *
 * 1. A task is in a system call from the kernel's entry until it is back at user mode. Its saved
 *    registers have the number: orig_ax. Exceptions and interrupts from user mode leave -1 there
 *    (arch/x86/entry/entry_64.S), and a 32-bit call has TS_COMPAT set. Kernel threads and the
 *    workers of io_uring are in none; what stands there is nothing, or their creator's.
 * 2. A function is on the stack if a frame returns into it. The unwinder finds these frames: the
 *    module has it see those of the code cache as their originals (run/unwind.c), and it resolves
 *    what return hooks have replaced. A function that ended in a jump (a
 *    tail call) is not on the stack.
 * 3. The frame of the call itself does not count: a function is not called under itself. Frames
 *    count from the one whose return address is the call's. It is the first frame whose word on
 *    the stack is that address: the frames further in are of this module, of ftrace's trampoline,
 *    and of the called function, whose word it is.
 * 4. A return address may be that of the next function, behind a call that does not return. So the
 *    byte before it is looked at; not where an exception has interrupted the frame's code.
 * 5. In softirqs and hard interrupts the task that was interrupted is not the caller. There the walk
 *    ends at the first frame that was interrupted, and a system call is none.
 * 6. If the walk ends early, for a frame that the unwinder does not know, the call does not count.
 *
 * The list is made before the session is armed, freed with the session, and does not change.
 */
#include <linux/bitmap.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/sort.h>
#include <linux/uaccess.h>
#include <asm/syscall.h>
#include <asm/unwind.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/ksym.h"
#include "../text/ranges.h"
#include "../run/unwind.h"
#include "../leave/walk.h"
#include "../store/level.h"
#include "under.h"

struct jifl_under {
	DECLARE_BITMAP(calls, JIFL_NR_MAX);
	u32 nfunctions;
	struct text_range functions[];	/* sorted */
};

static int add(struct jifl_under *u, const struct jifl_target_spec *spec)
{
	if (spec->kind == JIFL_TARGET_SYSCALL && spec->id < JIFL_NR_MAX) {
		__set_bit(spec->id, u->calls);
		return 0;
	}
	if (spec->kind != JIFL_TARGET_FUNCTION)
		return -EINVAL;
	u->functions[u->nfunctions] = (struct text_range){
		.start = spec->address, .end = jifl_ksym_end(spec->address),
	};
	return u->functions[u->nfunctions++].end ? 0 : -ENOENT;
}

struct jifl_under *jifl_under_open(const struct jifl_target_spec __user *list, u32 n)
{
	struct jifl_target_spec spec;
	struct jifl_under *u;
	int ret = 0;
	u32 i;

	if (!n)
		return NULL;
	if (n > JIFL_UNDER_MAX)
		return ERR_PTR(-EINVAL);
	u = JIFL_ALLOC(kvzalloc(struct_size(u, functions, n), GFP_KERNEL));
	if (!u)
		return ERR_PTR(-ENOMEM);
	for (i = 0; i < n && !ret; i++)
		ret = copy_from_user(&spec, &list[i], sizeof(spec)) ? -EFAULT : add(u, &spec);
	if (ret) {
		kvfree(u);
		return ERR_PTR(ret);
	}
	sort(u->functions, u->nfunctions, sizeof(*u->functions), jifl_text_compare, NULL);
	return u;
}

void jifl_under_close(struct jifl_under *u)
{
	kvfree(u);
}

static bool is_in_call(const struct jifl_under *u)
{
	const struct pt_regs *regs = current_pt_regs();

	if (current->flags & (PF_KTHREAD | PF_IO_WORKER) ||
	    current_thread_info()->status & TS_COMPAT)
		return false;
	return regs->orig_ax < JIFL_NR_MAX && test_bit(regs->orig_ax, u->calls);
}

static bool is_in_function(const struct jifl_under *u, const struct unwind_state *state)
{
	/* The module has the kernel see the original only when that goes on to the next frame. */
	const unsigned long ip = jifl_unwind_original(state->ip);

	return jifl_text_find(u->functions, u->nfunctions, ip - !state->regs);
}

static bool is_on_stack(const struct jifl_under *u, unsigned long caller, bool task)
{
	struct unwind_state state;
	bool outside = false;

	for (unwind_start(&state, current, NULL, NULL); !unwind_done(&state);
	     unwind_next_frame(&state)) {
		if (state.regs && (!task || user_mode(state.regs)))
			return false;
		outside = outside || JIFL_HOST_PLANTED(under_itself) ||
			  READ_ONCE_NOCHECK(*jifl_walk_slot(&state)) == caller;
		if (outside && is_in_function(u, &state))
			return true;
	}
	return false;
}

bool jifl_under_holds(const struct jifl_under *u, unsigned long caller)
{
	const bool task = jifl_level() == JIFL_LEVEL_TASK;

	return (task && is_in_call(u)) ||
	       (u->nfunctions && is_on_stack(u, caller, task)) || JIFL_HOST_PLANTED(under_ignored);
}
