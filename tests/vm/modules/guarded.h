/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The contexts of jifl_contexts.c that doors keep out: an NMI, a thread that stops the machine, an
 * idle task, and threads that inject idle time.
 */
#ifndef JIFL_TESTS_GUARDED_H
#define JIFL_TESTS_GUARDED_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/context_tracking.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/stop_machine.h>
#include <linux/version.h>
#include <trace/events/power.h>
#include <asm/ibt.h>
#include <asm/nmi.h>
#include <asm/text-patching.h>

#include "work.h"

/* The calls that are to be made where a guard is; NULL: they have been. */
static struct context *guarded;
static unsigned int guarded_calls;

static void make_guarded_calls(void)
{
	struct context *context = xchg(&guarded, NULL);

	if (context)
		work(context, guarded_calls);
}

static void want_guarded_calls(struct context *context, unsigned int n)
{
	guarded_calls = n;
	smp_store_release(&guarded, context);
}

/* --- an NMI ------------------------------------------------------------------------------ */

static const struct task_struct *nmi_task;

static int on_nmi(unsigned int type, struct pt_regs *regs)
{
	if (current != nmi_task)
		return NMI_DONE;
	make_guarded_calls();
	return NMI_HANDLED;
}

/* Interrupt 2 is an NMI to the kernel, whoever causes it. */
static int run_nmi(struct context *context, unsigned int n)
{
	const int err = register_nmi_handler(NMI_LOCAL, on_nmi, 0, "jifl_contexts");

	if (err)
		return err;
	preempt_disable();
	nmi_task = current;
	want_guarded_calls(context, n);
	asm volatile("int $2" : : : "memory");
	nmi_task = NULL;
	preempt_enable();
	unregister_nmi_handler(NMI_LOCAL, "jifl_contexts");
	return xchg(&guarded, NULL) ? -EIO : 0;
}

/* --- the thread that stops the machine ----------------------------------------------------- */

static int while_stopped(void *unused)
{
	make_guarded_calls();
	return 0;
}

static int run_stopper(struct context *context, unsigned int n)
{
	want_guarded_calls(context, n);
	return stop_machine(while_stopped, NULL, NULL);
}

/* --- idle tasks and threads that inject idle time -------------------------------------------- */

static const struct task_struct *injector;	/* NULL: idle tasks are meant */

/*
 * Where the CPU is about to idle, with interrupts off. RCU still watches, but not where a thread
 * injects idle time makes the calls: it has become idle for it first.
 */
static void on_idle(void *unused, unsigned int state, unsigned int cpu)
{
	if (state == PWR_EVENT_EXIT || !READ_ONCE(guarded))
		return;
	if (injector && current == injector) {
		ct_idle_enter();
		make_guarded_calls();
		ct_idle_exit();
	} else if (!injector && !current->pid) {
		make_guarded_calls();
	}
}

#define IDLE_MS	5000

static int run_idle_task(struct context *context, unsigned int n)
{
	int ms, err = register_trace_cpu_idle(on_idle, NULL);

	if (err)
		return err;
	injector = NULL;
	want_guarded_calls(context, n);
	for (ms = 0; ms < IDLE_MS && READ_ONCE(guarded); ms++)
		msleep(1);
	unregister_trace_cpu_idle(on_idle, NULL);
	tracepoint_synchronize_unregister();
	return xchg(&guarded, NULL) ? -ETIMEDOUT : 0;
}

static struct context *injected;	/* of the thread */
static unsigned int injected_calls;
static DECLARE_COMPLETION(injected_done);
/* In between, where play_idle_precise has begun and the thread is not idle yet. */
static bool injected_between;

static int before_idle(struct kprobe *kp, struct pt_regs *regs)
{
	if (current == injector && READ_ONCE(guarded))
		work(injected, injected_calls);
	return 0;
}

/* The first instruction behind the call of the tracer. */
static struct kprobe between = {
	.symbol_name = "play_idle_precise",
	.offset = ENDBR_INSN_SIZE + CALL_INSN_SIZE,
	.pre_handler = before_idle,
};

/* Calls before, so that the thread's stack is known, and calls while it idles. */
static int inject(void *unused)
{
	int ms;

	if (!injected_between)
		work(injected, injected_calls);
	for (ms = 0; ms < IDLE_MS && READ_ONCE(guarded); ms++) {
		play_idle_precise(NSEC_PER_MSEC, U64_MAX);
		cond_resched();
	}
	contexts_exit(&injected_done);
	return 0;
}

static int start_injector(struct context *context, unsigned int n)
{
	struct task_struct *task = kthread_create(inject, NULL, "jifl_injector");

	if (IS_ERR(task))
		return PTR_ERR(task);
	injected = context;
	injected_calls = n;
	injector = task;
	reinit_completion(&injected_done);
	want_guarded_calls(context, n);
	kthread_bind(task, raw_smp_processor_id());
	sched_set_fifo(task);
	wake_up_process(task);
	wait_for_completion(&injected_done);
	return 0;
}

static int run_injected(struct context *context, unsigned int n)
{
	int err = register_trace_cpu_idle(on_idle, NULL);

	if (err)
		return err;
	err = start_injector(context, n);
	unregister_trace_cpu_idle(on_idle, NULL);
	tracepoint_synchronize_unregister();
	injector = NULL;
	return xchg(&guarded, NULL) ? -ETIMEDOUT : err;
}

/* The handler of a kprobe that is a jump runs at task level, on the thread's stack. */
static int run_injecting(struct context *context, unsigned int n)
{
	int ms, err;

	between.addr = NULL;
	between.flags = 0;
	err = register_kprobe(&between);
	if (err)
		return err;
	for (ms = 0; ms < IDLE_MS && READ_ONCE(*between.addr) != JMP32_INSN_OPCODE; ms++)
		msleep(1);
	if (READ_ONCE(*between.addr) == JMP32_INSN_OPCODE) {
		injected_between = true;
		err = run_injected(context, n);
		injected_between = false;
	} else {
		err = -EAGAIN;
	}
	unregister_kprobe(&between);
	return err;
}

#define GUARDED_CONTEXTS \
	{ "nmi", run_nmi }, \
	{ "stopper", run_stopper }, \
	{ "idle-task", run_idle_task }, \
	{ "injected", run_injected }, \
	{ "injecting", run_injecting }, \
	{ "bare-nmi", run_nmi, .bare = true }, \
	{ "bare-stopper", run_stopper, .bare = true }, \
	{ "bare-idle-task", run_idle_task, .bare = true }, \
	{ "bare-injected", run_injected, .bare = true }, \
	{ "bare-injecting", run_injecting, .bare = true }

#endif
