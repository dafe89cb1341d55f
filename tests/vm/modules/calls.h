/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Contexts of jifl_contexts.c that differ in what a task calls: functions with many arguments,
 * large results, calls of themselves, cold parts, jumps at their end, and some that sleep.
 */
#ifndef JIFL_TESTS_CALLS_H
#define JIFL_TESTS_CALLS_H

static int run_many(struct context *context, unsigned int n)
{
	u64 i;

	for (i = 0; i < n; i++)
		if (contexts_many(i, 2, 3, 4, 5, 6, 7, 8, i) != worked(i) + 203 + 9 * i)
			atomic_long_inc(&context->wrong);
	atomic_long_add(n, &context->calls[TASK]);
	return 0;
}

static int run_wide(struct context *context, unsigned int n)
{
	u64 i;

	for (i = 0; i < n; i++) {
		struct wide wide = contexts_wide(i);

		if (wide.low != worked(i) || wide.high != ~i)
			atomic_long_inc(&context->wrong);
	}
	atomic_long_add(n, &context->calls[TASK]);
	return 0;
}

static int run_recursion(struct context *context, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (contexts_recurse(DEPTH, i) != (DEPTH + 1) * worked(i))
			atomic_long_inc(&context->wrong);
	atomic_long_add(n * (DEPTH + 1), &context->calls[TASK]);
	return 0;
}

/* Calls the function with n numbers from this one on. Inlined: the calls are direct ones. */
static __always_inline int calls_each(struct context *context, unsigned int from, unsigned int n,
				      u64 (*function)(u64))
{
	unsigned int i;

	for (i = from; i < from + n; i++)
		if (function(i) != worked(i))
			atomic_long_inc(&context->wrong);
	atomic_long_add(n, &context->calls[TASK]);
	return 0;
}

/* From 1 on: the cold part is not for 0. */
static int run_aside(struct context *context, unsigned int n)
{
	return calls_each(context, 1, n, contexts_aside);
}

static int run_tail(struct context *context, unsigned int n)
{
	return calls_each(context, 0, n, contexts_tail);
}

/* Once. */
static int run_slot(struct context *context, unsigned int n)
{
	if (!contexts_slot())
		atomic_long_inc(&context->wrong);
	atomic_long_inc(&context->calls[TASK]);
	return 0;
}

/* Once, until a signal comes. */
static int run_leave(struct context *context, unsigned int n)
{
	if (contexts_leave(SEED) != worked(SEED))
		atomic_long_inc(&context->wrong);
	atomic_long_inc(&context->calls[TASK]);
	return 0;
}

/* One call of the function. */
static int run_steps(struct context *context, unsigned int n)
{
	if (contexts_steps(SEED) != worked(SEED))
		atomic_long_inc(&context->wrong);
	atomic_long_inc(&context->calls[TASK]);
	return 0;
}

static int run_sleep(struct context *context, unsigned int n)
{
	return calls_each(context, 0, n, contexts_sleep);
}

#endif
