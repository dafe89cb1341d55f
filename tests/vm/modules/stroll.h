/* SPDX-License-Identifier: GPL-2.0 */
/* The context "stroll" of jifl_contexts.c: two calls that go on until they are told to end. */
#ifndef JIFL_TESTS_STROLL_H
#define JIFL_TESTS_STROLL_H

#include <linux/moduleparam.h>
#include <linux/workqueue.h>

/* The calls go on while it is set, so that a session starts before they end on any machine. */
static bool strolling;
module_param(strolling, bool, 0600);
static struct context *stroll_context;

/* Takes some seconds, and as much again while it shall go on. */
static KNOWN void contexts_stroll(struct work_struct *item)
{
	do {
		if (contexts_steps(SEED) != worked(SEED))
			atomic_long_inc(&stroll_context->wrong);
	} while (READ_ONCE(strolling));
	atomic_long_inc(&stroll_context->calls[TASK]);
}

static DECLARE_WORK(stroll, contexts_stroll);

/* As a work item and by the task itself, at the same time. */
static int run_stroll(struct context *context, unsigned int n)
{
	stroll_context = context;
	schedule_work(&stroll);
	contexts_stroll(&stroll);
	flush_work(&stroll);
	return 0;
}

#endif
