/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The context "cut" of jifl_contexts.c: a softirq in a task's function, which lasts for so long that
 * the text of what it executes can be changed meanwhile. The module's parameter `key` does so.
 */
#ifndef JIFL_TESTS_CUT_H
#define JIFL_TESTS_CUT_H

#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/jump_label.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/timex.h>
#include <asm/tsc.h>

#include "contexts.h"
#include "work.h"

#define CUT_MS		20
#define CUT_CALLS	10

static DEFINE_STATIC_KEY_FALSE(cut_key);
static bool cut_key_on;
static unsigned long cut_flips;

static u8 cut_bytes[1 << 18];

/*
 * Executes a block again and again in which is a jump label. Nearly all of the time is that of one
 * instruction in the middle of the block.
 */
static KNOWN u64 contexts_held(u64 seed)
{
	const u64 end = get_cycles() + (u64)tsc_khz * CUT_MS;

	do {
		u64 n = sizeof(cut_bytes);
		u8 *to = cut_bytes;

		asm volatile("rep stosb" : "+c" (n), "+D" (to) : "a" (seed) : "memory");
		if (static_branch_unlikely(&cut_key))
			cut_flips++;
	} while (get_cycles() < end);
	return seed;
}

static bool cut_done;

static void cut_function(struct tasklet_struct *unused)
{
	int i;

	for (i = 0; i < CUT_CALLS; i++)
		contexts_held(SEED + i);
	WRITE_ONCE(cut_done, true);
}

static DECLARE_TASKLET(cut_tasklet, cut_function);

static void cut_begin(struct irq_work *unused)
{
	tasklet_schedule(&cut_tasklet);
}

static DEFINE_IRQ_WORK(cut_work, cut_begin);

static KNOWN void contexts_cut(struct context *context, unsigned int n)
{
	WRITE_ONCE(cut_done, false);
	irq_work_queue(&cut_work);
	while (!READ_ONCE(cut_done))
		cond_resched();
	work(context, n);
}

static int run_cut(struct context *context, unsigned int n)
{
	contexts_cut(context, n);
	return 0;
}

static int cut_set_key(const char *value, const struct kernel_param *param)
{
	const int ret = param_set_bool(value, param);

	if (ret)
		return ret;
	if (cut_key_on)
		static_branch_enable(&cut_key);
	else
		static_branch_disable(&cut_key);
	return 0;
}

static const struct kernel_param_ops cut_key_ops = {
	.set = cut_set_key,
	.get = param_get_bool,
};
module_param_cb(key, &cut_key_ops, &cut_key_on, 0600);

#endif
