/* SPDX-License-Identifier: GPL-2.0 */
/*
 * More functions without a call of the tracer, and the contexts that call them. A jump in place can
 * stand at each of them. But at contexts_again it is met without a call, too.
 */
#ifndef JIFL_TESTS_BARE_H
#define JIFL_TESTS_BARE_H

#include "work.h"

/*
 * contexts_again counts n down to 0: its loop leads to its first instruction. contexts_marked
 * begins with an endbr64 and returns three times n, by four instructions. contexts_passed jumps to
 * it.
 * contexts_mixed keeps to no calling convention: it adds r10, r11 and the carry to rax, which
 * contexts_mixing fills, so that n + 13 is returned.
 */
u64 contexts_again(u64 n);
u64 contexts_marked(u64 n);
u64 contexts_passed(u64 n);
u64 contexts_mixed(void);
u64 contexts_mixing(u64 n);
asm(".text\n"
    "	.p2align 4\n"
    "	.type	contexts_again, @function\n"
    "contexts_again:\n"
    "	lea	-1(%rdi), %rdi\n"
    "	test	%rdi, %rdi\n"
    "	jnz	contexts_again\n"
    "	mov	%rdi, %rax\n"
    "	" ASM_RET
    "	.size	contexts_again, . - contexts_again\n"
    "	.p2align 4\n"
    "	.type	contexts_marked, @function\n"
    "contexts_marked:\n"
    "	endbr64\n"
    "	lea	(%rdi,%rdi), %rax\n"
    "	add	%rdi, %rax\n"
    "	" ASM_RET
    "	.size	contexts_marked, . - contexts_marked\n"
    "	.p2align 4\n"
    "	.type	contexts_passed, @function\n"
    "contexts_passed:\n"
    "	mov	%rdi, %rax\n"
    "	test	%rdi, %rdi\n"
    "	jmp	contexts_marked\n"
    "	.size	contexts_passed, . - contexts_passed\n"
    "	.p2align 4\n"
    "	.type	contexts_mixed, @function\n"
    "contexts_mixed:\n"
    "	lea	(%rax,%r10), %rax\n"
    "	lea	(%rax,%r11), %rax\n"
    "	adc	$0, %rax\n"
    "	" ASM_RET
    "	.size	contexts_mixed, . - contexts_mixed\n"
    "	.p2align 4\n"
    "	.type	contexts_mixing, @function\n"
    "contexts_mixing:\n"
    "	mov	%rdi, %rax\n"
    "	mov	$5, %r10d\n"
    "	mov	$7, %r11d\n"
    "	stc\n"
    "	call	contexts_mixed\n"
    "	" ASM_RET
    "	.size	contexts_mixing, . - contexts_mixing\n");

/* As contexts_stay. */
static __attribute__((noipa)) notrace u64 contexts_doze(u64 seed)
{
	schedule_timeout_interruptible(MAX_SCHEDULE_TIMEOUT);
	return worked(seed);
}

static u64 run_one(const char *name, u64 i)
{
	if (!strcmp(name, "again"))
		return contexts_again(i) + i;
	if (!strcmp(name, "marked"))
		return contexts_marked(i) / 3;
	if (!strcmp(name, "passed"))
		return contexts_passed(i) / 3;
	if (!strcmp(name, "mixed"))
		return contexts_mixing(i) - 13;
	return contexts_doze(i) == worked(i) ? i : 0;
}

static int run_more_bare(struct context *context, unsigned int n)
{
	unsigned int i;

	for (i = 1; i <= n; i++)
		if (run_one(context->name, i) != i)
			atomic_long_inc(&context->wrong);
	atomic_long_add(n, &context->calls[level()]);
	return 0;
}

#define BARE_CONTEXTS \
	{ "bare-task", run_task, .bare = true }, \
	{ "bare-preempt-off", run_preempt_off, .bare = true }, \
	{ "bare-bh-off", run_bh_off, .bare = true }, \
	{ "bare-irq-off", run_irq_off, .bare = true }, \
	{ "bare-spinlock", run_spinlock, .bare = true }, \
	{ "bare-kthread", run_kthread, .bare = true }, \
	{ "bare-work", run_work, .bare = true }, \
	{ "bare-timer", run_timer, .bare = true }, \
	{ "bare-tasklet", run_tasklet, .bare = true }, \
	{ "bare-hrtimer", run_hrtimer, .bare = true }, \
	{ "bare-irq-work", run_irq_work, .bare = true }, \
	{ "bare-ipi", run_ipi, .bare = true }, \
	{ "bare-nested", run_nested, .bare = true }, \
	{ "again", run_more_bare }, \
	{ "marked", run_more_bare }, \
	{ "passed", run_more_bare }, \
	{ "mixed", run_more_bare }, \
	{ "doze", run_more_bare }

#endif
