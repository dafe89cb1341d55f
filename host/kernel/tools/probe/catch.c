// SPDX-License-Identifier: GPL-2.0
/*
 * What happens to a thread that meets a breakpoint (set.c). It came to an instruction in native
 * code. That is a thread that has entered the function before the session, or past its door (an
 * NMI, an idle task); that came back natively, behind what cannot be copied or behind the fixup of
 * an exception; or that jumped into the middle of the function. So a count does not depend on a
 * complete control flow graph. Copies have no breakpoint (text/overlay.c).
 *
 * A thread that is caught goes on in the copy, so it is caught once and not at each instruction.
 * The copy counts. Where it must not go there, the handler counts and the thread goes on natively.
 *
 * Why each session that has places there counts the execution once:
 *
 *  a. The handler decides once for all sessions: the copy counts for all, or the handler does.
 *  b. A session is in the table of places (table.c) before it is on the list of the breakpoint, and
 *     copies from before are dropped in between. So a block that the handler finds has the counters
 *     of all that are on the list, or it is dropped. In a dropped block the thread meets an int3 at
 *     once, and goes on in a new one. A block that has found no room for a counter of theirs is not
 *     used (jifl_probe_place.refused).
 *  c. Where the handler counts it walks the list once, and RCU shows it each session at most once.
 *  d. A session that begins or ends meanwhile may have the execution or not: START has not
 *     returned, or STOP has begun.
 *
 * Why a thread may go on in the cache, from an exception in its middle:
 *
 *  1. It goes on at the beginning of a block that stands for the instruction, with all registers,
 *     flags and the stack as they were. There a block needs nothing else (step 3 in the head of
 *     session/adopt.c; jifl_engine_landing asks for exactly that).
 *  2. The block is of the own context of a session on the list. The context exists until after
 *     jifl_evict for that session. When jifl_probe_clear has returned no handler runs any more that
 *     has found the session on the list, and it is called before jifl_evict. So each thread that
 *     was sent to the context is there, or has left, when jifl_evict begins. A session that is
 *     refused after all has sent nobody (jifl_probe.leads).
 *  3. The same for a flush: the handler runs with interrupts off, and asks jifl_mix_is_paused. If
 *     the answer is no, jifl_evict stops the machine only after the return from this exception.
 *  4. The exception is as an NMI to the kernel. What it has interrupted is told by what is beneath:
 *     one NMI level and one of interrupts are the exception's own. An NMI, an idle task, a thread
 *     that stops the machine and the module's own code stay native (enter/guard.c). So does a
 *     thread that injects idle time (PF_IDLE): it runs code of the idle loop, where RCU may not
 *     watch. The handler cannot ask, because RCU watches in the exception itself.
 *  5. Step 4 says that the interrupted code does not hold the engine lock or jifl_entry_lock: each
 *     is held with jifl_own_begin. So the handler may take the engine lock.
 *  6. A copy that begins with the instruction would not come to the breakpoint again. Text that is
 *     not copied is told by jifl_engine_warm, which makes no block for it, and jifl_engine_landing,
 *     which finds no exact place in a block that only leaves. So there is no loop.
 *  7. If a kprobe of somebody else's is there, its handler has to see the execution: the thread
 *     stays native.
 *  8. In softirqs and interrupts the lanes of this CPU may be of a level below. The session follows
 *     no calls, so its copies leave the lanes alone (call/levels.c, step 3), and nothing is needed
 *     at the function's return. With PREEMPT_RT softirqs stay native (enter/guard.c).
 *  9. A block that is missing is translated on the dispatcher's stack, as deep as any translation.
 *     Interrupts are off, as the dispatcher has them. The dispatcher does not run on this CPU: what
 *     the exception has interrupted was on the task's stack, because the level is that of a task
 *     (store/level.h).
 *
 *  10. A breakpoint of the module's own (int3.c), and one in a gate, may be met inside this
 *     handler, which the kernel does not allow for kprobes. There the thread stays native
 *     (jifl_probe_meeting). What is counted are words of this CPU. The places of a breakpoint of
 *     the module's own have no programs and no plugin's functions. Those of one in a gate may: no
 *     program runs inside another one (act.c), and no plugin's function is called (call.c).
 *  11. The block at a function's first instruction counts a call for other sessions
 *     (session/nested.c, step 10). The door has decided about this call already. So the thread
 *     stays native there, and goes on in the cache from the next breakpoint.
 *
 * An int3 in the gate of a jump (text/jump.h) is met as a breakpoint in the text is. The thread
 * came natively to the instruction, and has its registers. Where it stays native the gate has the
 * instruction. Such an int3 is none of kprobes: all that they do around a handler is missing, so
 * the handler of a kprobe may meet it, and is caught.
 *
 * What is not caught: an execution of a kprobe inside the handler of a kprobe, of others or of the
 * module's own. The kernel counts those for each kprobe, and the session tells of them. They are
 * executed as single steps. If an NMI comes in such a step and meets a kprobe, too, the kernel
 * gives up (BUG in reenter_kprobe). So no breakpoint is set in what the handler itself calls
 * (place.c). What a BPF program of a place calls is not known here, nor what a plugin's function
 * calls. A kprobe with such a program has that case, too.
 */
#include <linux/kprobes.h>
#include <linux/preempt.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../store/percpu.h"
#include "../../run/dispatch.h"
#include "../../call/tool.h"
#include "../../call/whose.h"
#include "../../enter/guard.h"
#include "../../enter/target.h"
#include "../../session/mix.h"
#include "../../session/warm.h"
#include "../../text/overlay.h"
#include "probe.h"
#include "act.h"

/* The sites of a breakpoint. Preemption is off. */
#define for_each_site(site, b) \
	list_for_each_entry_rcu((site), &(b)->sites, node, true)

/* --- who is caught -------------------------------------------------------------------------- */

static bool jifl_probe_on_task_stack(unsigned long sp)
{
	return sp - (unsigned long)task_stack_page(current) < THREAD_SIZE;
}

/* The level of what the exception has interrupted: jifl_level there. */
static enum jifl_level jifl_probe_level(const struct pt_regs *regs)
{
	if ((preempt_count() & HARDIRQ_MASK) > HARDIRQ_OFFSET)
		return JIFL_LEVEL_IRQ;
	if (in_serving_softirq())
		return JIFL_LEVEL_SOFTIRQ;
	return jifl_probe_on_task_stack(regs->sp) ? JIFL_LEVEL_TASK : JIFL_LEVEL_IRQ;
}

bool jifl_probe_in_own_code(void)
{
	enum jifl_level level;

	for (level = JIFL_LEVEL_TASK; level < JIFL_NR_LEVELS; level++)
		if (this_cpu_read(jifl_cpu.own[level]))
			return true;
	return false;
}

/* Steps 4 and 8. */
static bool jifl_probe_may_enter(enum jifl_level level)
{
	if ((preempt_count() & NMI_MASK) != NMI_OFFSET || jifl_probe_in_own_code())
		return false;
	if (IS_ENABLED(CONFIG_PREEMPT_RT) && level == JIFL_LEVEL_SOFTIRQ)
		return false;
	return level != JIFL_LEVEL_TASK ||
	       (current->pid && !is_idle_task(current) &&
		current->sched_class != jifl_guard_stop_class);
}

/* --- where it goes on ----------------------------------------------------------------------- */

static u64 jifl_probe_block(const struct jifl_probe_site *site)
{
	const struct jifl_probe *p = site->owner;

	return jifl_engine_landing(p->session->alone.context,
				   jifl_orig_at(p->places[site->first].address), false);
}

/* Does each copy count for the site? */
static bool jifl_probe_is_whole(const struct jifl_probe_site *site)
{
	const struct jifl_probe *p = site->owner;
	u32 i;

	for (i = site->first; i < site->first + site->n; i++)
		if (READ_ONCE(p->places[i].refused))
			return false;
	return true;
}

static bool jifl_probe_are_whole(const struct jifl_breakpoint *b)
{
	const struct jifl_probe_site *site;

	for_each_site(site, b)
		if (!jifl_probe_is_whole(site))
			return false;
	return true;
}

/* On the dispatcher's stack. */
static void jifl_probe_warm(void *arg)
{
	const struct jifl_probe_site *site = arg;
	const struct jifl_probe_place *place = &site->owner->places[site->first];

	jifl_warm_address(place->aim, place->address);
}

/* A block there, of any session that may lead. 0: there is none, and none can be made now. */
static u64 jifl_probe_any_block(const struct jifl_breakpoint *b, enum jifl_level level)
{
	struct jifl_probe_site *site, *leader = NULL;
	u64 block;

	for_each_site(site, b) {
		if (!READ_ONCE(site->owner->leads))
			continue;
		block = jifl_probe_block(site);
		if (block)
			return block;
		leader = leader ?: site;
	}
	if (!leader || level != JIFL_LEVEL_TASK)
		return 0;
	jifl_dispatch_call(jifl_probe_warm, leader);
	/* The new block may have had no room for a counter. */
	return jifl_probe_are_whole(b) ? jifl_probe_block(leader) : 0;
}

/* Step 7. */
static bool jifl_probe_is_alone(const struct jifl_breakpoint *b)
{
	u8 byte;

	if (b->kind == JIFL_BREAKPOINT_GATE)
		return !jifl_overlay_has(b->address);
	return jifl_overlay_is_own(b->address, &byte);
}

/*
 * Step 11. Does a session without places have the function that begins there, behind its endbr64?
 */
static bool jifl_probe_is_called(const struct jifl_breakpoint *b)
{
	const struct jifl_target *t;
	unsigned int lane;

	if (b->kind != JIFL_BREAKPOINT_GATE)
		return false;
	t = jifl_notrace_entered_at(b->address);
	for (lane = 0; t && lane < JIFL_LANES; lane++) {
		const struct jifl_aim *aim = READ_ONCE(t->armed[lane]);

		if (aim && !aim->session->tool->places)
			return true;
	}
	return false;
}

/* Where the thread goes on in the cache; 0: natively. For all sessions of the breakpoint. */
static u64 jifl_probe_landing(const struct jifl_breakpoint *b, const struct pt_regs *regs)
{
	const enum jifl_level level = jifl_probe_level(regs);

	if (!jifl_probe_may_enter(level) || jifl_mix_is_paused() || !jifl_probe_is_alone(b) ||
	    !jifl_probe_are_whole(b) || jifl_probe_is_called(b))
		return 0;
	return jifl_probe_any_block(b, level);
}

/* --- counting natively ---------------------------------------------------------------------- */

static void jifl_probe_count_native(const struct jifl_probe_site *site, struct pt_regs *regs)
{
	const struct jifl_probe *p = site->owner;
	u32 i;

	/* START has not returned. The condition of the branch may not be known. */
	if (!smp_load_acquire(&p->leads))
		return;
	for (i = site->first; i < site->first + site->n; i++) {
		struct jifl_probe_place *place = &p->places[i];
		const bool taken = jifl_probe_branches(READ_ONCE(place->cc), regs);

		if (place->where != JIFL_SPLICE_BEFORE &&
		    taken != (place->where == JIFL_SPLICE_TAKEN))
			continue;
		if (jifl_probe_call(place))
			jifl_probe_call_native(place, regs, taken);
		else if (jifl_probe_program(place))
			jifl_act_native(place, regs, jifl_probe_level(regs));
		else
			this_cpu_inc(*place->counter);
	}
}

/* How many handlers run on this CPU, one inside the other. */
static DEFINE_PER_CPU(u32, jifl_probe_meeting);

u64 jifl_probe_meet(const struct jifl_breakpoint *b, struct pt_regs *regs)
{
	struct jifl_probe_site *site;
	u64 landing = 0;

	if (JIFL_HOST_PLANTED(natives_not_caught))
		return 0;
	if (this_cpu_inc_return(jifl_probe_meeting) == 1)
		landing = jifl_probe_landing(b, regs);
	for_each_site(site, b) {
		/* As jifl_probe_count_native: nothing before the session leads. */
		if (READ_ONCE(site->owner->leads))
			atomic64_inc(&site->caught);
		if (landing)
			atomic64_inc(&site->owner->moved);
		if (!landing || (JIFL_HOST_PLANTED(sites_apart) && !jifl_probe_block(site)))
			jifl_probe_count_native(site, regs);
	}
	this_cpu_dec(jifl_probe_meeting);
	return landing;
}

int jifl_probe_caught(struct kprobe *kp, struct pt_regs *regs)
{
	u64 landing = jifl_probe_meet(container_of(kp, struct jifl_breakpoint, probe[0]), regs);

	if (landing)
		regs->ip = landing;
	return landing != 0;
}

bool jifl_probe_caught_in_gate(unsigned long address, struct pt_regs *regs)
{
	const struct jifl_breakpoint *b = jifl_probe_find(address);
	u64 landing = 0;

	if (b && b->kind == JIFL_BREAKPOINT_GATE)
		landing = jifl_probe_meet(b, regs);
	if (landing)
		regs->ip = landing;
	return landing;
}
