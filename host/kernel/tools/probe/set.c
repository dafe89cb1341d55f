// SPDX-License-Identifier: GPL-2.0
/*
 * The breakpoints of all sessions of the tool probe. One breakpoint stands at an instruction, and
 * has a list of the sessions that have places there (struct jifl_probe_site). So a thread that
 * meets it is looked at once, and not once for each session.
 *
 * A breakpoint is a kprobe, or, in sessions with many places, an int3 of the module's own (int3.c
 * has what follows for those), or one in the gate of a jump (step 5). The kernel refuses a kprobe
 * where it changes the text itself (jump labels, static calls, alternatives, ftrace), where probes
 * are forbidden, and where no instruction begins.
 *
 * Why each execution of the original text meets the breakpoint, or the session says that some may
 * not have:
 *
 * 1. register_kprobe puts an int3 there, unless all kprobes are switched off
 *    (/sys/kernel/debug/kprobes/enabled): it says nothing of that. So the byte is read afterwards.
 *    If it is not an int3 the session is refused.
 * 2. A kprobe with a post_handler is not replaced by a jump (optimize_kprobe in kernel/kprobes.c),
 *    and the jump of another kprobe at the address, or before it, goes when this one comes.
 * 3. When kprobes are switched off later the kernel takes each int3 away, and tells perf before it
 *    does (arch_disarm_kprobe). text/watch.c hears of that. Each session on the list is told. When
 *    a session ends the byte is read once more, before the session leaves the list.
 * 4. A session is on the list before its breakpoint is registered, and before the byte is read. So
 *    no int3 is lifted between the two steps without the session's knowledge.
 * 5. Where a jump in place has replaced the instruction (text/jump.h), each native execution is one
 *    in the gate, behind a nop for which an int3 stands while the breakpoint is in the table. Each
 *    processor has seen the int3 before the session starts, and the nop before the breakpoint
 *    leaves the table. Nothing else writes there. The jump is held as long as it has a breakpoint
 *    (jifl_jump_hold). A jump comes only where no
 *    other int3 stands (step 4 in the head of text/jump.c), so no breakpoint of another kind is at
 *    its instructions.
 *
 * The list is written under jifl_session_mutex. It is read with preemption off, by the handler and
 * by jifl_probe_lifted. RCU watches in the handler: to RCU an int3 is an NMI. So readers are waited
 * for as follows:
 *
 * 6. When jifl_probe_clear returns no handler runs that has found one of the sites on a list. Of a
 *    kprobe that goes unregister_kprobes has waited for it, and of another breakpoint that goes
 *    text_poke_sync, whose interrupt comes behind the handler. Of a breakpoint that stays, because
 *    another session has it, RCU has been waited for.
 * 7. Handlers at other addresses may be at a breakpoint that went, in the table. So breakpoints are
 *    freed by jifl_probe_cleared, when a grace period of RCU has passed that has begun when they
 *    left the table. At a session's end other waits come in between, so this one takes no time
 *    (session/session.c).
 *
 * Context: process, under jifl_session_mutex, but for jifl_probe_lifted.
 */
#include <linux/hashtable.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/text-patching.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../session/session.h"
#include "../../text/jump.h"
#include "../../text/overlay.h"
#include "probe.h"
#include "calls.h"

/* Written under jifl_session_mutex. */
static DEFINE_HASHTABLE(jifl_breakpoints, 14);

/* See step 2. The handler of a jump could not send the thread elsewhere. */
static void jifl_probe_behind(struct kprobe *kp, struct pt_regs *regs, unsigned long flags)
{
}

struct jifl_breakpoint *jifl_probe_find(unsigned long address)
{
	struct jifl_breakpoint *b;

	hash_for_each_possible_rcu_notrace(jifl_breakpoints, b, node, address)
		if (b->address == address)
			return b;
	return NULL;
}

/* Executions that the kernel has not told of, since the breakpoint was set. */
static unsigned long jifl_probe_nmissed(const struct jifl_breakpoint *b)
{
	return b->kind == JIFL_BREAKPOINT_KPROBE ? READ_ONCE(b->probe[0].nmissed) : 0;
}

static void jifl_probe_join_list(struct jifl_probe_site *site, struct jifl_breakpoint *b)
{
	site->breakpoint = b;
	site->missed = jifl_probe_nmissed(b);
	list_add_tail_rcu(&site->node, &b->sites);
}

static struct jifl_breakpoint *jifl_probe_alloc(unsigned long address, u32 nkprobes)
{
	struct jifl_breakpoint *b;

	b = JIFL_ALLOC(kzalloc(struct_size(b, probe, nkprobes), GFP_KERNEL));
	if (!b)
		return NULL;
	b->address = address;
	INIT_LIST_HEAD(&b->sites);
	return b;
}

/* A kprobe for the site, as the first of its address. 0, or what register_kprobe says. */
static int jifl_probe_make(struct jifl_probe_site *site, unsigned long address)
{
	struct jifl_breakpoint *b = jifl_probe_alloc(address, 1);
	int err;

	if (!b)
		return -ENOMEM;
	b->probe[0].addr = (kprobe_opcode_t *)address;
	b->probe[0].pre_handler = jifl_probe_caught;
	b->probe[0].post_handler = jifl_probe_behind;
	jifl_probe_join_list(site, b);
	err = JIFL_TRY(register_kprobe(&b->probe[0]));
	if (err) {
		/* The kernel has waited for handlers, if there was an int3. */
		site->breakpoint = NULL;
		kfree(b);
		return err;
	}
	hash_add_rcu(jifl_breakpoints, &b->node, address);
	return 0;
}

/* A breakpoint of another kind. One of the module's own is to be armed. */
static int jifl_probe_make_other(struct jifl_probe_site *site, unsigned long address,
				 enum jifl_breakpoint_kind kind, const struct jifl_step *step)
{
	struct jifl_breakpoint *b = jifl_probe_alloc(address, 0);

	if (!b)
		return -ENOMEM;
	b->kind = kind;
	b->step = *step;
	jifl_probe_join_list(site, b);
	hash_add_rcu(jifl_breakpoints, &b->node, address);
	return 0;
}

/* own: the session prefers int3s of the module's own. */
static int jifl_probe_join(struct jifl_probe *p, struct jifl_probe_site *site, bool own,
			   struct jifl_int3_walk *walk)
{
	const unsigned long address = p->places[site->first].address;
	struct jifl_breakpoint *b = jifl_probe_find(address);
	struct jifl_step step = {};
	int err;

	if (b) {
		jifl_probe_join_list(site, b);
		return 0;
	}
	if (jifl_jump_hold(address, true)) {
		err = jifl_probe_make_other(site, address, JIFL_BREAKPOINT_GATE, &step);
		if (err)
			jifl_jump_hold(address, false);
		return err;
	}
	if (own && jifl_int3_may(walk, address, &step))
		return jifl_probe_make_other(site, address, JIFL_BREAKPOINT_OWN, &step);
	err = jifl_probe_make(site, address);
	if (!own && jifl_int3_instead(p, err) && jifl_int3_may(walk, address, &step))
		return jifl_probe_make_other(site, address, JIFL_BREAKPOINT_OWN, &step);
	return err;
}

/* Steps 1, 3 and 5. */
static bool jifl_probe_stands(const struct jifl_breakpoint *b)
{
	u8 byte;

	return JIFL_HOST_PLANTED(lifted_untold) || b->kind == JIFL_BREAKPOINT_GATE ||
	       (!copy_from_kernel_nofault(&byte, (void *)b->address, 1) &&
		byte == INT3_INSN_OPCODE);
}

static enum jifl_splice_refusal jifl_probe_reason(int err)
{
	switch (err) {
	case -EILSEQ:
		/* The kernel decodes the function, with int3s of the module's own in it. */
		return jifl_int3_stand() ? JIFL_SPLICE_FAILED : JIFL_SPLICE_BOUNDARY;
	case -EINVAL:
	case -EOPNOTSUPP:
		return JIFL_SPLICE_OWNED;
	default:
		return JIFL_SPLICE_FAILED;
	}
}

/* Kprobes are set. Int3s of the module's own are not, but have their place in the table. */
static int jifl_probe_join_all(struct jifl_probe *p, struct jifl_int3_walk *walk, u32 *bad,
			       enum jifl_splice_refusal *why)
{
	const bool own = jifl_int3_wanted(p);
	u32 i;
	int err;

	for (i = 0; i < p->nsites; i++) {
		struct jifl_probe_site *site = &p->sites[i];

		*bad = i;
		/* Each kprobe interrupts all processors, and there may be thousands. */
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
		err = jifl_probe_join(p, site, own, walk);
		if (err == -ENOMEM)
			return err;
		if (err) {
			*why = jifl_probe_reason(err);
			return -EILSEQ;
		}
	}
	return 0;
}

/* Breakpoints whose int3s are written together. */
#define JIFL_PROBE_BATCH 32

struct jifl_probe_batch {
	unsigned long addresses[JIFL_PROBE_BATCH];
	u32 n;
};

/* Step 5. b is NULL: those that were given before are written. */
static void jifl_probe_arm_gate(struct jifl_probe_batch *batch, struct jifl_breakpoint *b,
				bool armed)
{
	if (b && b->kind == JIFL_BREAKPOINT_GATE && b->is_armed != armed) {
		batch->addresses[batch->n++] = b->address;
		b->is_armed = armed;
	}
	if (batch->n && (!b || batch->n == JIFL_PROBE_BATCH)) {
		if (!JIFL_HOST_PLANTED(gates_unarmed))
			jifl_jump_arm(batch->addresses, batch->n, armed);
		batch->n = 0;
	}
}

static void jifl_probe_arm_gates(const struct jifl_probe *p)
{
	struct jifl_probe_batch batch = {};
	u32 i;

	for (i = 0; i < p->nsites; i++)
		jifl_probe_arm_gate(&batch, p->sites[i].breakpoint, true);
	jifl_probe_arm_gate(&batch, NULL, true);
}

static void jifl_probe_disarm_gates(struct kprobe **leaving, u32 n)
{
	struct jifl_probe_batch batch = {};
	struct jifl_breakpoint *b;
	u32 i;

	for (i = 0; i < n; i++)
		jifl_probe_arm_gate(&batch, container_of(leaving[i], struct jifl_breakpoint,
							 probe[0]), false);
	jifl_probe_arm_gate(&batch, NULL, false);
	for (i = 0; i < n; i++) {
		b = container_of(leaving[i], struct jifl_breakpoint, probe[0]);
		if (b->kind == JIFL_BREAKPOINT_GATE)
			jifl_jump_hold(b->address, false);
	}
}

int jifl_probe_set(struct jifl_probe *p, u32 *bad, enum jifl_splice_refusal *why)
{
	struct jifl_int3_walk walk = {};
	u32 i;
	int err = jifl_probe_join_all(p, &walk, bad, why);

	if (!err && walk.made) {
		err = jifl_int3_copy(p, &walk);
		if (!err)
			err = jifl_int3_arm(p, bad);
	}
	if (err == -EBUSY) {
		*why = JIFL_SPLICE_OWNED;
		return -EILSEQ;
	}
	if (err)
		return err;
	jifl_probe_arm_gates(p);
	for (i = 0; i < p->nsites; i++) {
		struct jifl_probe_site *site = &p->sites[i];

		*bad = i;
		cond_resched();
		*why = !jifl_probe_stands(site->breakpoint) ? JIFL_SPLICE_SWITCHED_OFF :
		       jifl_probe_learn(p, site);
		if (*why)
			return -EILSEQ;
	}
	return 0;
}

/* Takes the site off the list of its breakpoint. Returns the breakpoint if that has no site now. */
static struct jifl_breakpoint *jifl_probe_leave(struct jifl_probe_site *site)
{
	struct jifl_breakpoint *b = site->breakpoint;

	if (!jifl_probe_stands(b))
		WRITE_ONCE(site->lifted, true);
	list_del_rcu(&site->node);
	if (!list_empty(&b->sites))
		return NULL;
	return b;
}

static bool jifl_probe_is_stopped(const struct jifl_probe *p, const struct jifl_probe_site *site)
{
	u32 i;

	for (i = site->first; i < site->first + site->n; i++)
		if (!p->places[i].stopped)
			return false;
	return true;
}

static void jifl_probe_forget(struct kprobe *kp)
{
	hash_del_rcu(&container_of(kp, struct jifl_breakpoint, probe[0])->node);
}

static void jifl_probe_free(struct kprobe *kp)
{
	kfree(container_of(kp, struct jifl_breakpoint, probe[0]));
}

/* all: each site; else those whose places are all stopped. Steps 6 and 7. */
static void jifl_probe_clear_sites(struct jifl_probe *p, bool all)
{
	struct jifl_breakpoint *b;
	u32 i, n = 0, others = p->nsites;
	bool stays = false;

	for (i = 0; i < p->nsites; i++) {
		struct jifl_probe_site *site = &p->sites[i];

		if (!site->breakpoint || (!all && !jifl_probe_is_stopped(p, site)))
			continue;
		b = jifl_probe_leave(site);
		site->is_leaving = true;
		if (!b) {
			stays = true;
			continue;
		}
		p->leaving[b->kind == JIFL_BREAKPOINT_KPROBE ? n++ : --others] = &b->probe[0];
		p->had_own |= b->kind == JIFL_BREAKPOINT_OWN;
	}
	jifl_int3_disarm(&p->leaving[others], p->nsites - others);
	jifl_probe_disarm_gates(&p->leaving[others], p->nsites - others);
	/* No processor executes one of them from here on, or the kernel executes it again. */
	for (i = 0; i < n; i++)
		jifl_probe_forget(p->leaving[i]);
	for (i = others; i < p->nsites; i++)
		jifl_probe_forget(p->leaving[i]);
	p->nleaving = n;
	p->nothers = p->nsites - others;
	p->left = start_poll_synchronize_rcu();
	unregister_kprobes(p->leaving, n);
	if (stays)
		cond_synchronize_rcu(p->left);
}

void jifl_probe_clear(struct jifl_probe *p)
{
	jifl_probe_clear_sites(p, true);
}

void jifl_probe_cleared(struct jifl_probe *p)
{
	u32 i;

	cond_synchronize_rcu(p->left);
	for (i = 0; i < p->nsites; i++) {
		struct jifl_probe_site *site = &p->sites[i];

		if (!site->is_leaving)
			continue;
		site->missed = jifl_probe_nmissed(site->breakpoint) - site->missed;
		site->breakpoint = NULL;
		site->is_leaving = false;
	}
	for (i = 0; i < p->nleaving; i++)
		jifl_probe_free(p->leaving[i]);
	for (i = p->nsites - p->nothers; i < p->nsites; i++)
		jifl_probe_free(p->leaving[i]);
	p->nleaving = 0;
	p->nothers = 0;
}

void jifl_probe_clear_stopped(struct jifl_probe *p)
{
	jifl_probe_clear_sites(p, false);
	jifl_probe_cleared(p);
}

void jifl_probe_lifted(struct kprobe *kp)
{
	struct jifl_breakpoint *b = container_of(kp, struct jifl_breakpoint, probe[0]);
	struct jifl_probe_site *site;

	/* When the breakpoint goes for good, the list is empty. */
	list_for_each_entry_rcu(site, &b->sites, node, true)
		if (!JIFL_HOST_PLANTED(lifted_untold))
			WRITE_ONCE(site->lifted, true);
}

u64 jifl_probe_site_missed(const struct jifl_probe_site *site)
{
	u64 missed;

	mutex_lock(&jifl_session_mutex);
	missed = site->breakpoint ? jifl_probe_nmissed(site->breakpoint) - site->missed :
				    site->missed;
	mutex_unlock(&jifl_session_mutex);
	return missed;
}

u64 jifl_probe_missed(const struct jifl_probe *p)
{
	u64 missed = 0;
	u32 i;

	for (i = 0; i < p->nsites; i++)
		missed += jifl_probe_site_missed(&p->sites[i]);
	return missed;
}
