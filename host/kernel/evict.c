// SPDX-License-Identifier: GPL-2.0
/*
 * Nobody is left inside what goes of the code cache, be it all of it or the code
 * of destroyed contexts: every return address into it, on every kernel stack,
 * becomes the original one. Called in process context, under
 * jifl_session_mutex, when no entry leads there any more.
 *
 * Invariant at the end: no register, stack or tracer's record of any thread
 * holds an address of code that goes and will ever be executed.
 */
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/stop_machine.h>
#include <asm/text-patching.h>
#include <asm/unwind.h>

#include "kernel.h"
#include "plant.h"
#include "../../engine/host.h"
#include "compat/compat.h"

#define RETRY_MS	5

/* Where an entry piece's return address goes instead. */
static u64 return_site;

struct scan {
	unsigned int threads;	/* that had an address of the cache */
	unsigned int left;	/* of these, still inside */
	bool found, inside;	/* in the thread that is looked at */
	bool all;		/* else only code of destroyed contexts */
	const struct task_struct *caller;
};

static bool in_cache(unsigned long addr)
{
	return addr - jifl_codemem_base() < jifl_codemem_size();
}

/* Does code go that stands at addr? */
static bool goes(unsigned long addr, const struct scan *scan)
{
	return in_cache(addr) && (scan->all || jifl_engine_is_doomed(addr));
}

/*
 * A word that holds a point at which all registers are the original's is
 * changed in place, be it a return address, the address of an interrupted
 * instruction, a tracer's record or a copy of one of these in a saved register.
 * Nothing but the processor and tracers put such addresses onto a stack.
 * Of a whole stack words are looked at that belong to nobody, which KASAN minds.
 */
static __no_sanitize_address void scan_word(unsigned long *word, void *arg)
{
	struct scan *scan = arg;
	jifl_orig orig;

	if (!goes(*word, scan))
		return;
	switch (jifl_engine_where(*word, &orig)) {
	case JIFL_WHERE_EXACT:
		*word = orig.v;
		scan->found = true;
		break;
	case JIFL_WHERE_INSIDE:
		scan->inside = true;
		break;
	case JIFL_WHERE_OUTSIDE:
		break;
	}
}

static void scan_stack(struct task_struct *task, struct scan *scan)
{
	unsigned long *stack = task_stack_page(task);
	unsigned long *end = stack + THREAD_SIZE / sizeof(*stack);
	unsigned long *word = (unsigned long *)READ_ONCE(task->thread.sp);

	if (word < stack || word >= end)
		return;
	for (; word < end; word++)
		scan_word(word, scan);
}

/* Interrupted registers from which a thread goes on. */
static bool regs_inside(const struct pt_regs *regs, const struct scan *scan)
{
	const unsigned long *reg = (const unsigned long *)regs;

	for (; reg <= &regs->ip; reg++) {
		if (goes(*reg, scan))
			return true;
	}
	return false;
}

enum verdict { STALE, LIVE, UNKNOWN };

/*
 * Will the thread use an address inside inserted code that its stack holds, or
 * is it left over from an earlier call in a slot no frame has written since?
 * All exact addresses have been replaced, so any one that the unwinder comes
 * across is of the other kind. Our own text counts as inside: jifl_entry_stub
 * and what it calls carry the address of a piece they are about to jump to.
 */
static enum verdict unwind_inside(struct task_struct *task, const struct scan *scan)
{
	struct unwind_state state;

	for (unwind_start(&state, task, NULL, NULL); !unwind_done(&state);
	     unwind_next_frame(&state)) {
		if (goes(state.ip, scan) || within_module_core(state.ip, THIS_MODULE))
			return LIVE;
		if (state.regs && state.full_regs && !user_mode(state.regs) &&
		    regs_inside(state.regs, scan))
			return LIVE;
	}
	return unwind_error(&state) ? UNKNOWN : STALE;
}

/*
 * Only a thread that was preempted can be inside: neither inserted code nor the
 * stubs sleep. Whoever ends a session stands in our text for another reason, and
 * may be about to wait for the stop rather than waiting already.
 */
static bool is_inside(struct task_struct *task, const struct scan *scan)
{
	return task != scan->caller && task->on_rq && unwind_inside(task, scan) != STALE;
}

static void scan_task(struct task_struct *task, struct scan *scan)
{
	/* Running: only the stopper of a CPU. No stack: dead, not reaped yet. */
	if (task->on_cpu || !refcount_read(&task->stack_refcount))
		return;
	scan->found = false;
	scan->inside = false;
	scan_stack(task, scan);
	if (!JIFL_HOST_PLANTED(records_not_visited))
		jifl_compat_visit_records(task, scan_word, scan);

	if (scan->inside) {
		if (is_inside(task, scan))
			scan->left++;
		else
			scan->inside = false;
	}
	if (scan->found)
		jifl_count_cut(task);
	if (scan->found || scan->inside)
		scan->threads++;
}

static int scan_all(void *arg)
{
	struct task_struct *group, *task;

	for_each_process_thread(group, task)
		scan_task(task, arg);
	return 0;
}

/*
 * 1. No entry leads into what goes, so nobody new comes in.
 * 2. All CPUs are stopped. Each runs its stopper, which is in no system call;
 *    interrupt stacks are empty, since a stopper is a thread. All other threads
 *    are switched out with everything they will go on with on their kernel
 *    stacks (at and above thread.sp, which saved registers of a switch or an
 *    interrupt are) or in tracers' records. What is exact there is replaced:
 *    callers' return addresses, faults and preemption at copied instructions.
 * 3. Remaining are threads preempted inside inserted code, a stub, or between
 *    reading the entry table and jumping to what it said. These few
 *    instructions end at an exact point, or in a call whose return address is
 *    one; each needs only to run for a moment, and can come in only once. All
 *    CPUs go on, and from 2 again after a while. That ends: a thread is inside
 *    again at the next stop only if it was stopped there by chance, and what it
 *    has returned from meanwhile is gone for good.
 * 4. A thread that reaps itself leaves the list of tasks while it still runs
 *    do_exit(), so it can be missed by 2. It never sleeps again before its
 *    last switch, which synchronize_rcu_tasks() waits for.
 */
void jifl_evict(struct jifl_drain *drain, bool all)
{
	u64 start = ktime_get_ns();
	struct scan scan;

	drain->threads = 0;
	if (JIFL_HOST_PLANTED(drain_skipped))
		return;
	for (;;) {
		scan = (struct scan){ .caller = current, .all = all };
		stop_machine(scan_all, &scan, NULL);
		drain->threads = max(drain->threads, scan.threads);
		if (!scan.left)
			break;
		msleep(RETRY_MS);
	}
	synchronize_rcu_tasks();
	drain->ns = ktime_get_ns() - start;
}

static bool is_thunk(u64 addr)
{
	enum jifl_cause cause;
	enum jifl_text text;

	local_irq_disable();
	text = jifl_host_classify(jifl_orig_at(addr), &cause);
	local_irq_enable();
	return text == JIFL_TEXT_THUNK;
}

/*
 * A return instruction that the stack is right for, as is the unwinder's idea
 * of the stack at the instruction before it: `mov $-ENOSYS, %rax; ret` in
 * __x64_sys_ni_syscall, in whichever form the kernel runs returns. It is in no
 * way the way out of a system call that x64_sys_call jumped to, but does the
 * same.
 */
static u64 find_return_site(void)
{
	static const u8 mov[] = { 0x48, 0xc7, 0xc0, 0xda, 0xff, 0xff, 0xff };
	const u8 *p = (const u8 *)jifl_ksym("__x64_sys_ni_syscall");
	const u8 *end = p + 16;
	u64 target;

	if (!p)
		return 0;
	while (p < end && memcmp(p, mov, sizeof(mov)))
		p++;
	p += sizeof(mov);
	if (p >= end + sizeof(mov))
		return 0;
	if (*p == RET_INSN_OPCODE)
		return (unsigned long)p;
	target = (unsigned long)p + JMP32_INSN_SIZE + *(const s32 *)(p + 1);
	return *p == JMP32_INSN_OPCODE && is_thunk(target) ? (unsigned long)p : 0;
}

int jifl_evict_init(void)
{
	return_site = find_return_site();
	if (return_site)
		return 0;
	pr_err("__x64_sys_ni_syscall is not as expected: this kernel needs a newer JIFL\n");
	return -EOPNOTSUPP;
}

u64 jifl_evict_return_site(void)
{
	return return_site;
}
