/* SPDX-License-Identifier: GPL-2.0 */
/* The functions that jifl_contexts.c calls: sessions have them as targets. */
#ifndef JIFL_TESTS_CONTEXTS_H
#define JIFL_TESTS_CONTEXTS_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/errno.h>
#include <linux/kthread.h>
#include <linux/linkage.h>
#include <linux/types.h>

/*
 * A kernel's dump shows the bytes around an instruction only if it can read all of them. In front
 * of a module's code there may be nothing; so the first function does not begin there.
 */
asm(".text\n"
    "	.skip	64, 0x90\n");

enum level { TASK, SOFTIRQ, HARDIRQ, LEVELS };

static enum level level(void)
{
	if (in_hardirq())
		return HARDIRQ;
	return in_serving_softirq() ? SOFTIRQ : TASK;
}

/* As it stands: not cloned, not inlined, no tail of another. */
#define KNOWN __attribute__((noipa, optimize("no-optimize-sibling-calls")))

struct wide {
	u64 low, high;
};

/* About 30 instructions, a loop, no branch that depends on anything but its count. */
static KNOWN u64 contexts_work(u64 seed)
{
	u64 x = seed;
	int i;

	for (i = 0; i < 3; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

/*
 * Two functions without a call of the tracer. contexts_slow is nearly all of the time at its second
 * instruction, which fills n bytes. In contexts_looped a branch leads to the second instruction;
 * the function adds the numbers up to n.
 */
u64 contexts_slow(u8 *to, u64 n);
u64 contexts_looped(u64 n);
asm(".text\n"
    "	.p2align 4\n"
    "	.type	contexts_slow, @function\n"
    "contexts_slow:\n"
    "	mov	%rsi, %rcx\n"
    "	rep stosb\n"
    "	mov	%rdi, %rax\n"
    "	" ASM_RET
    "	.size	contexts_slow, . - contexts_slow\n"
    "	.p2align 4\n"
    "	.type	contexts_looped, @function\n"
    "contexts_looped:\n"
    "	xor	%eax, %eax\n"
    "1:	add	%rdi, %rax\n"
    "	dec	%rdi\n"
    "	jnz	1b\n"
    "	" ASM_RET
    "	.size	contexts_looped, . - contexts_looped\n");

/* The same without a call of the tracer: it has no site. */
static __attribute__((noipa)) notrace u64 contexts_bare(u64 seed)
{
	u64 x = seed;
	int i;

	for (i = 0; i < 3; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

static atomic64_t contexts_tries;

/*
 * Fails for odd numbers. Loads and stores contexts_tries by a cmpxchg that does not exchange at its
 * first try: it expects what is not there.
 */
static KNOWN long contexts_check(u64 seed)
{
	s64 old = ~atomic64_read(&contexts_tries);

	while (!atomic64_try_cmpxchg(&contexts_tries, &old, old + 1))
		;
	if (seed & 1) {
		barrier();	/* so that it is a branch */
		return -EAGAIN;
	}
	return 0;
}

static u64 called(bool bare, u64 seed)
{
	return bare ? contexts_bare(seed) : contexts_work(seed);
}

static u64 worked(u64 x)
{
	int i;

	for (i = 0; i < 3; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

/* Three of its arguments are on the stack. */
static KNOWN u64 contexts_many(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i)
{
	return contexts_work(a) + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i;
}

/* What it returns is in two registers. */
static KNOWN struct wide contexts_wide(u64 seed)
{
	struct wide wide = { contexts_work(seed), ~seed };

	return wide;
}

static KNOWN u64 contexts_recurse(unsigned int depth, u64 seed)
{
	u64 x = contexts_work(seed);

	if (depth)
		x += contexts_recurse(depth - 1, seed);
	return x;
}

/* Jumps to contexts_work, which returns in its place. */
static __attribute__((noipa)) u64 contexts_tail(u64 seed)
{
	return contexts_work(seed);
}

/*
 * The compiler puts the call of a cold function aside: contexts_aside makes it from
 * contexts_aside.cold.
 */
static KNOWN __attribute__((cold)) u64 contexts_seldom(u64 seed)
{
	return contexts_work(seed);
}

static KNOWN u64 contexts_aside(u64 seed)
{
	if (unlikely(seed))
		return contexts_seldom(seed);
	return contexts_work(0);
}

/* Its name is like those of functions that make doors, which are refused. */
static KNOWN __used u64 ftrace_of_contexts(u64 seed)
{
	return contexts_work(seed);
}

/* Which of two names the kernel tells depends on their order. */
static KNOWN __used u64 contexts_named(u64 seed)
{
	return contexts_work(seed);
}

static u64 ftrace_of_named(u64 seed) __attribute__((alias("contexts_named"), used));

static KNOWN u64 contexts_sleep(u64 seed)
{
	usleep_range(200, 400);
	return contexts_work(seed);
}

#define STEP		msleep(20);
#define STEPS(N)	N N N N N N N N N N

/*
 * Takes some seconds, in a hundred steps, each of which is code of its own. So wherever a code
 * cache becomes full, the rest of it runs natively.
 */
static KNOWN u64 contexts_steps(u64 seed)
{
	STEPS(STEPS(STEP))
	return contexts_work(seed);
}

/* Sleeps until a signal comes. */
static KNOWN u64 contexts_stay(u64 seed)
{
	schedule_timeout_interruptible(MAX_SCHEDULE_TIMEOUT);
	return contexts_work(seed);
}

/* Jumps there. */
static __attribute__((noipa)) u64 contexts_leave(u64 seed)
{
	return contexts_stay(seed);
}

#define SLOT	0x18ul		/* as the ss in an interrupt's frame */
#define SLOT_MS	3000

/*
 * While it sleeps, the place of its return address holds something else. So it does for a moment in
 * each hooked return: in the trampoline that the return has gone to.
 */
static KNOWN bool contexts_slot(void)
{
	unsigned long *slot = (unsigned long *)__builtin_frame_address(0) + 1;
	const unsigned long address = READ_ONCE(*slot);
	bool kept;

	WRITE_ONCE(*slot, SLOT);
	msleep(SLOT_MS);
	kept = READ_ONCE(*slot) == SLOT;
	WRITE_ONCE(*slot, address);
	return kept;
}

/* Ends the thread that calls it. */
static KNOWN __noreturn void contexts_exit(struct completion *done)
{
	kthread_complete_and_exit(done, 0);
}

#endif
