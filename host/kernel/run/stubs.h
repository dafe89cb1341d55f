/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Numbers that stubs.S needs of C structures; dispatch.c, enter/entry.c, enter/chain.c and
 * enter/door_table.c check them.
 */
#ifndef JIFL_HOST_STUBS_H
#define JIFL_HOST_STUBS_H

#define JIFL_CPU_STACK_TOP	320	/* offsetof(struct jifl_cpu, stack_top) */
#define JIFL_CPU_OWN		352	/* offsetof(struct jifl_cpu, own) */
#define JIFL_CPU_OWN_ABOVE	356	/* offsetof(struct jifl_cpu, own[JIFL_LEVEL_SOFTIRQ]) */
#define JIFL_CPU_STACK		368	/* offsetof(struct jifl_cpu, stack) */
#define JIFL_ENTRY_TABLE_SIZE	512	/* JIFL_NR_MAX */

/*
 * At most JIFL_CHAIN comparisons before the stubs' indirect jump. Each has two instructions, so
 * with more of them the last would cost about as much as a mispredicted return. JIFL_CHAINS places
 * for their code: one is in use, the others wait for the end of a grace period.
 */
#define JIFL_CHAIN		8
#define JIFL_CHAIN_BYTES	12	/* code of one comparison */
#define JIFL_CHAINS		3
#define JIFL_CHAIN_NOTES	32	/* a power of two */

/* A task's stack has so many bytes, as a power of two, and begins at a multiple of them. */
#define JIFL_STACK_SHIFT	(PAGE_SHIFT + THREAD_SIZE_ORDER)

/* The kernel may count calls in the padding before functions. Linux 6.9 renamed the option. */
#if defined(CONFIG_MITIGATION_CALL_DEPTH_TRACKING) || defined(CONFIG_CALL_DEPTH_TRACKING)
#define JIFL_CALLS_MAY_BE_COUNTED
#endif

/* STATIC_CALL_TRAMP() of enter/entry.c's static calls; its header in the kernel is for C. */
#define JIFL_ENTRY_PASS		__SCT__jifl_entry_pass
#define JIFL_ENTRY_RESUME	__SCT__jifl_entry_resume
#define JIFL_ENTRY_CHAIN	__SCT__jifl_entry_chain	/* of enter/chain.c */

#endif
