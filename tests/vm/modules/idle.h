/* SPDX-License-Identifier: GPL-2.0 */
/* The context "idle" of jifl_contexts.c: a thread that injects idle time. */
#ifndef JIFL_TESTS_IDLE_H
#define JIFL_TESTS_IDLE_H

#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/kthread.h>
#include <linux/sched.h>

static DECLARE_COMPLETION(idle_done);

/* A thread that runs the loop of idle tasks, for a millisecond each time. */
static int idle_thread(void *n)
{
	unsigned long i;

	for (i = 0; i < (unsigned long)n; i++) {
		play_idle_precise(NSEC_PER_MSEC, U64_MAX);
		cond_resched();
	}
	contexts_exit(&idle_done);
	return 0;
}

static int run_idle(struct context *context, unsigned int n)
{
	struct task_struct *task;

	reinit_completion(&idle_done);
	task = kthread_create(idle_thread, (void *)(unsigned long)n, "jifl_idle");
	if (IS_ERR(task))
		return PTR_ERR(task);
	kthread_bind(task, raw_smp_processor_id());
	sched_set_fifo(task);
	wake_up_process(task);
	wait_for_completion(&idle_done);
	atomic_long_add(n, &context->calls[TASK]);
	return 0;
}

#endif
