/* SPDX-License-Identifier: GPL-2.0 */
/* Walks of the stack of a task that does not run, and does not begin to: eviction, adoption. */
#ifndef JIFL_HOST_WALK_H
#define JIFL_HOST_WALK_H

#include <linux/compiler.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <asm/unwind.h>

#include "../compat/import.h"
#include "../plant.h"

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

/* Bytes of a program of BPF in which it is called by its tracer, and by nobody else. */
#define JIFL_BPF_ENTRY	10

/* The frame from which a walk goes on. */
struct jifl_walked {
	unsigned long ip;
	bool interrupted;
};

static inline struct jifl_walked jifl_walked(const struct unwind_state *state)
{
	return (struct jifl_walked){ .ip = state->ip, .interrupted = state->regs };
}

/*
 * Has the last step of a walk, from frame `from`, only guessed where the next frame is? Then frames
 * may have been left out before it.
 *
 * Where the unwinder has no table for code it goes by rbp, and sets an error (unwind_next_frame in
 * arch/x86/kernel/unwind_orc.c). Programs of BPF and its trampolines keep their frames in rbp. So
 * behind a call of theirs the frame is the right one, and this function takes the error back. It
 * is not behind the call at a program's beginning, by which another program traces it: rbp is set
 * later (emit_prologue in arch/x86/net/bpf_jit_comp.c). That call ends 9 bytes behind the beginning
 * at most, any other one 14 at least, and there are 8 bytes of no program before one.
 *
 * Where BPF's code was interrupted rbp may not be set yet, or not any more. Other code without a
 * table, as a kprobe's copies of instructions, keeps no frames. Nor is code known as BPF's once it
 * is gone.
 */
static inline bool jifl_walk_guessed(struct unwind_state *state, struct jifl_walked from)
{
	if (unwind_error(state) && !from.interrupted &&
	    jifl_import(is_bpf_text_address)(from.ip - JIFL_BPF_ENTRY) &&
	    jifl_import(is_bpf_text_address)(from.ip))
		state->error = false;
	return unwind_error(state) && !JIFL_HOST_PLANTED(guess_believed);
}

/* Is the task switched out? Else it is a CPU's stopper, which runs, or dead and not reaped. */
static inline bool jifl_walk_may(struct task_struct *task)
{
	return !task->on_cpu && refcount_read(&task->stack_refcount);
}

#endif
