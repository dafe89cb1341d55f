/* SPDX-License-Identifier: GPL-2.0 */
/* The calls that jifl_contexts.c makes in a context, and what it does with its other functions. */
#ifndef JIFL_TESTS_WORK_H
#define JIFL_TESTS_WORK_H

#include <linux/kprobes.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include <asm/msr.h>

#include "contexts.h"

#define SEED	0x1234567812345678ull
#define DEPTH	7

struct context {
	const char *name;
	int (*run)(struct context *context, unsigned int n);
	bool bare;		/* contexts_bare is called instead of contexts_work */
	bool checks;		/* contexts_check is */
	atomic_long_t calls[LEVELS];
	u64 least[LEVELS];	/* ticks of the time stamp counter around a call; 0: none */
	atomic_long_t wrong;
};

/*
 * What contexts_work finds in registers that nobody passes it. Behind a lock it would be what
 * others have left there who were scheduled meanwhile.
 */
static __always_inline void fill_registers(void)
{
	asm volatile("mov $0x8888, %%r8d\n\tmov $0x9999, %%r9d" ::: "r8", "r9");
}

/* Part of its callers: tests name the function that calls contexts_work. */
static __always_inline bool is_right(const struct context *context, u64 seed)
{
	if (context->checks)
		return contexts_check(seed) == (seed & 1 ? -EAGAIN : 0);
	return called(context->bare, seed) == worked(seed);
}

/*
 * Calls are timed. Else each call costs `work` the same: which of them is the shortest so far does
 * not depend on the code alone.
 */
static bool timed;

static bool is_right_timed(struct context *context, u64 seed)
{
	u64 *least = &context->least[level()];
	const u64 began = rdtsc();
	const bool right = is_right(context, seed);
	const u64 ticks = rdtsc() - began;

	if (!*least || ticks < *least)
		*least = ticks;
	return right;
}

/* The function is called so often here and now. */
static void work(struct context *context, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (!(timed ? is_right_timed(context, SEED + i) : is_right(context, SEED + i)))
			atomic_long_inc(&context->wrong);
	atomic_long_add(n, &context->calls[level()]);
}

#define BARE_BYTES	(1 << 20)

/* Calls contexts_slow n times. Returns how many results were wrong, or -ENOMEM. */
static int bare_fill(unsigned int n)
{
	u8 *bytes = vmalloc(BARE_BYTES);
	int wrong = 0;

	if (!bytes)
		return -ENOMEM;
	while (n--) {
		/* Not the result of the call before, which may still be in rax. */
		const u64 some = BARE_BYTES - n % 2;

		wrong += contexts_slow(bytes, some) != (u64)bytes + some;
		cond_resched();
	}
	vfree(bytes);
	return wrong;
}

/* The same with contexts_looped. */
static int bare_add(unsigned int n)
{
	int wrong = 0;

	while (n--)
		wrong += contexts_looped(DEPTH) != DEPTH * (DEPTH + 1) / 2;
	return wrong;
}

/* A kprobe at contexts_bare. Kprobe events refuse functions without a call of the tracer. */
static atomic_long_t bare_hooked;
static struct kprobe bare_kprobe;

static int bare_on_hook(struct kprobe *kp, struct pt_regs *regs)
{
	atomic_long_inc(&bare_hooked);
	return 0;
}

/* Sets the kprobe, or takes it away. */
static int bare_hook(bool on)
{
	int ret = 0;

	if (bare_kprobe.addr)
		unregister_kprobe(&bare_kprobe);
	bare_kprobe = (struct kprobe){ .symbol_name = "contexts_bare",
				       .pre_handler = bare_on_hook };
	if (on)
		ret = register_kprobe(&bare_kprobe);
	if (ret)
		bare_kprobe.addr = NULL;
	return ret;
}

/* Returns how many results were wrong, or -errno. */
static int bare_run(const char *what, unsigned int n)
{
	if (!strcmp(what, "slow"))
		return bare_fill(n);
	if (!strcmp(what, "looped"))
		return bare_add(n);
	return bare_hook(!strcmp(what, "hook"));
}

static int run_bare(struct context *context, unsigned int n)
{
	const int wrong = bare_run(context->name, n);

	atomic_long_add(wrong, &context->wrong);
	atomic_long_add(n, &context->calls[level()]);
	return min(wrong, 0);
}

#endif
