/* SPDX-License-Identifier: GPL-2.0 */
/* Walks of the stack of a task that does not run, and does not begin to: eviction, adoption. */
#ifndef JIFL_HOST_WALK_H
#define JIFL_HOST_WALK_H

#include <linux/compiler.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <asm/unwind.h>

/* The words on a thread's stack; none if the thread has no stack. */
struct jifl_words {
	unsigned long *begin, *end;
};

static inline struct jifl_words jifl_walk_words(struct task_struct *task)
{
	unsigned long *stack = task_stack_page(task);
	struct jifl_words words = {
		.begin = (unsigned long *)READ_ONCE(task->thread.sp),
		.end = stack + THREAD_SIZE / sizeof(*stack),
	};

	if (words.begin < stack || words.begin >= words.end)
		words.begin = words.end;
	return words;
}

/* The word from which the unwinder has read where the frame goes on. */
static inline unsigned long *jifl_walk_slot(const struct unwind_state *state)
{
	return state->regs ? &state->regs->ip : (unsigned long *)state->sp - 1;
}

/* Is the task switched out? Else it is a CPU's stopper, which runs, or dead and not reaped. */
static inline bool jifl_walk_may(struct task_struct *task)
{
	return !task->on_cpu && refcount_read(&task->stack_refcount);
}

#endif
