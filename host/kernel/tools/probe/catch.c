// SPDX-License-Identifier: GPL-2.0
/*
 * Breakpoints at the instructions that a session of the tool probe is about: they catch what comes
 * to an instruction in native code. That is a thread that has entered the function before the
 * session, or past its door (an NMI, an idle task); that came back natively, behind what cannot be
 * copied or behind the fixup of an exception; or that jumped into the middle of the function. So a
 * count does not depend on a complete control flow graph.
 *
 * A breakpoint is a kprobe. The kernel refuses it where it changes the text itself (jump labels,
 * static calls, alternatives, ftrace), where probes are forbidden, and where no instruction begins.
 * Copies have none (text/overlay.c).
 *
 * A thread that is caught goes on in the copy, so it is caught once and not at each instruction.
 * The copy counts. Where it must not go there, the handler counts and the thread goes on natively.
 *
 * Why a thread may go on in the cache, from an exception in its middle:
 *
 * 1. It goes on at the beginning of a block that stands for the instruction, with all registers,
 *    flags and the stack as they were. There a block needs nothing else (step 3 in the head of
 *    session/adopt.c; jifl_engine_landing asks for exactly that).
 * 2. The block is of the session's own context, which exists until after jifl_evict for the
 *    session. When jifl_probe_clear has returned no handler runs, and it is called before
 *    jifl_evict. So each thread that was sent to the cache is there, or has left, when jifl_evict
 *    begins. A session that is refused after all has sent nobody (jifl_probe.leads).
 * 3. The same for a flush: the handler runs with interrupts off, and asks jifl_mix_is_paused. If
 *    the answer is no, jifl_evict's stop of the machine comes after the return from this exception.
 * 4. The exception is as an NMI to the kernel. What it has interrupted is told by what is beneath:
 *    one NMI level and one of interrupts are the exception's own. An NMI, an idle task, a thread
 *    that stops the machine and the module's own code stay native (enter/guard.c).
 * 5. Step 4 says that the interrupted code does not hold the engine lock or jifl_entry_lock: each
 *    is held with jifl_own_begin. So the handler may take the engine lock.
 * 6. A copy that begins with the instruction would not come to the breakpoint again. Text that is
 *    not copied is told by jifl_engine_warm, which makes no block for it, and jifl_engine_landing,
 *    which finds no exact place in a block that only leaves. So there is no loop.
 * 7. If another kprobe is there, its handler has to see the execution: the thread goes on natively.
 *
 * What is not caught: an execution inside the handler of another kprobe. The kernel tells how often
 * that was, and so does the session.
 */
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../store/percpu.h"
#include "../../call/whose.h"
#include "../../enter/guard.h"
#include "../../session/mix.h"
#include "../../session/warm.h"
#include "../../text/overlay.h"
#include "probe.h"

/* Room on a task's stack for a translation. */
#define JIFL_PROBE_STACK	(THREAD_SIZE / 2)

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

static bool jifl_probe_in_own_code(void)
{
	enum jifl_level level;

	for (level = JIFL_LEVEL_TASK; level < JIFL_NR_LEVELS; level++)
		if (this_cpu_read(jifl_cpu.own[level]))
			return true;
	return false;
}

/* Step 4. */
static bool jifl_probe_may_enter(enum jifl_level level)
{
	if ((preempt_count() & NMI_MASK) != NMI_OFFSET || jifl_probe_in_own_code())
		return false;
	if (IS_ENABLED(CONFIG_PREEMPT_RT) && level == JIFL_LEVEL_SOFTIRQ)
		return false;
	return level != JIFL_LEVEL_TASK ||
	       (current->pid && current->sched_class != jifl_guard_stop_class);
}

/* Where the thread goes on in the cache; 0: natively. */
static u64 jifl_probe_landing(const struct jifl_probe_site *site, const struct pt_regs *regs)
{
	const unsigned long address = (unsigned long)site->probe.addr;
	const struct jifl_probe *p = site->owner;
	const enum jifl_level level = jifl_probe_level(regs);
	u64 landing;
	u8 byte;

	if (!READ_ONCE(p->leads) || !jifl_probe_may_enter(level) || jifl_mix_is_paused() ||
	    !jifl_overlay_is_own(address, &byte))
		return 0;
	landing = jifl_engine_landing(p->session->alone.context, jifl_orig_at(address), false);
	if (landing || level != JIFL_LEVEL_TASK ||
	    regs->sp - (unsigned long)task_stack_page(current) < JIFL_PROBE_STACK)
		return landing;
	jifl_warm_address(p->places[site->first].aim, address);
	return jifl_engine_landing(p->session->alone.context, jifl_orig_at(address), false);
}

/* --- counting natively ---------------------------------------------------------------------- */

/* Does a jcc with this condition branch? Intel SDM, volume 1, appendix B. */
static bool jifl_probe_branches(u8 cc, const struct pt_regs *regs)
{
	const bool cf = regs->flags & X86_EFLAGS_CF, zf = regs->flags & X86_EFLAGS_ZF;
	const bool sf = regs->flags & X86_EFLAGS_SF, of = regs->flags & X86_EFLAGS_OF;
	bool holds = false;

	if (cc == JIFL_PROBE_JRCXZ)
		return !regs->cx;
	if (cc == JIFL_PROBE_JECXZ)
		return !(u32)regs->cx;
	switch (cc >> 1) {
	case 0:
		holds = of;
		break;
	case 1:
		holds = cf;
		break;
	case 2:
		holds = zf;
		break;
	case 3:
		holds = cf || zf;
		break;
	case 4:
		holds = sf;
		break;
	case 5:
		holds = regs->flags & X86_EFLAGS_PF;
		break;
	case 6:
		holds = sf != of;
		break;
	case 7:
		holds = zf || sf != of;
		break;
	}
	return holds != (cc & 1);
}

static void jifl_probe_count_native(const struct jifl_probe_site *site, const struct pt_regs *regs)
{
	const struct jifl_probe *p = site->owner;
	u32 i;

	for (i = site->first; i < site->first + site->n; i++) {
		const struct jifl_probe_place *place = &p->places[i];

		if (place->where == JIFL_SPLICE_BEFORE ||
		    jifl_probe_branches(place->cc, regs) == (place->where == JIFL_SPLICE_TAKEN))
			this_cpu_inc(*place->counter);
	}
}

int jifl_probe_caught(struct kprobe *kp, struct pt_regs *regs)
{
	struct jifl_probe_site *site = container_of(kp, struct jifl_probe_site, probe);
	u64 landing;

	if (JIFL_HOST_PLANTED(natives_not_caught))
		return 0;
	atomic64_inc(&site->caught);
	landing = jifl_probe_landing(site, regs);
	if (!landing) {
		jifl_probe_count_native(site, regs);
		return 0;
	}
	atomic64_inc(&site->owner->moved);
	regs->ip = landing;
	return 1;
}

/*
 * A kprobe with such a handler is not replaced by a jump (kernel/kprobes.c, optimize_kprobe). The
 * handler of a jump cannot send the thread elsewhere.
 */
static void jifl_probe_behind(struct kprobe *kp, struct pt_regs *regs, unsigned long flags)
{
}

/* --- setting --------------------------------------------------------------------------------- */

/* The condition of the branch there; negative: none stands there that is known. */
static int jifl_probe_condition(unsigned long address)
{
	u8 b[3];

	if (copy_from_kernel_nofault(b, (void *)address, sizeof(b)))
		return -EINVAL;
	preempt_disable();
	jifl_overlay_is_own(address, &b[0]);
	preempt_enable();
	if ((b[0] & 0xf0) == 0x70)
		return b[0] & 0xf;
	if (b[0] == 0x0f && (b[1] & 0xf0) == 0x80)
		return b[1] & 0xf;
	if (b[0] == 0xe3)
		return JIFL_PROBE_JRCXZ;
	if (b[0] == 0x67 && b[1] == 0xe3)
		return JIFL_PROBE_JECXZ;
	return -EINVAL;
}

static enum jifl_splice_refusal jifl_probe_learn(struct jifl_probe *p,
						 const struct jifl_probe_site *site)
{
	u32 i;

	for (i = site->first; i < site->first + site->n; i++) {
		struct jifl_probe_place *place = &p->places[i];
		int cc;

		if (place->where == JIFL_SPLICE_BEFORE)
			continue;
		cc = jifl_probe_condition(place->address);
		if (cc < 0)
			return JIFL_SPLICE_BRANCH;
		place->cc = cc;
	}
	return JIFL_SPLICE_OK;
}

static enum jifl_splice_refusal jifl_probe_reason(int err)
{
	switch (err) {
	case -EILSEQ:
		return JIFL_SPLICE_BOUNDARY;
	case -EINVAL:
	case -EOPNOTSUPP:
		return JIFL_SPLICE_OWNED;
	default:
		return JIFL_SPLICE_FAILED;
	}
}

int jifl_probe_set(struct jifl_probe *p, u32 *bad, enum jifl_splice_refusal *why)
{
	u32 i;
	int err;

	for (i = 0; i < p->nsites; i++) {
		struct jifl_probe_site *site = &p->sites[i];

		*bad = i;
		*why = jifl_probe_learn(p, site);
		if (*why)
			return -EILSEQ;
		site->probe.addr = (kprobe_opcode_t *)p->places[site->first].address;
		site->probe.pre_handler = jifl_probe_caught;
		site->probe.post_handler = jifl_probe_behind;
		err = JIFL_TRY(register_kprobe(&site->probe));
		if (err == -ENOMEM)
			return err;
		*why = err ? jifl_probe_reason(err) : JIFL_SPLICE_OK;
		if (err)
			return -EILSEQ;
		site->set = true;
	}
	return 0;
}

void jifl_probe_clear(struct jifl_probe *p)
{
	struct kprobe **all = kvmalloc_array(p->nsites, sizeof(*all), GFP_KERNEL);
	u32 i, n = 0;

	for (i = 0; i < p->nsites; i++) {
		if (!p->sites[i].set)
			continue;
		p->sites[i].set = false;
		if (all)
			all[n++] = &p->sites[i].probe;
		else
			unregister_kprobe(&p->sites[i].probe);
	}
	if (n)
		unregister_kprobes(all, n);
	kvfree(all);
}

u64 jifl_probe_missed(const struct jifl_probe *p)
{
	u64 missed = 0;
	u32 i;

	for (i = 0; i < p->nsites; i++)
		missed += READ_ONCE(p->sites[i].probe.nmissed);
	return missed;
}
