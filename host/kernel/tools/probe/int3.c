// SPDX-License-Identifier: GPL-2.0
/*
 * Breakpoints that the module sets itself, for sessions with so many places that a kprobe for each
 * would take minutes: register_kprobe reads the function from its beginning twice, interrupts all
 * processors, and all kprobes are in 64 lists. Here all breakpoints of a session are set, and taken
 * away, between two interrupts of all processors.
 *
 * Why it is right to write an int3 there:
 *
 * 1. An instruction begins there: the function is decoded from its beginning (jifl_int3_begins).
 * 2. The kernel does not change the instruction itself: place.c has asked for static keys and
 *    static calls. An instruction of the list of alternatives, which changes on a machine with one
 *    processor, is refused here, and so is text that is not plain code (jifl_step_find): noinstr,
 *    what forbids kprobes, warnings. What the door skips has no breakpoint.
 * 3. Nobody else has changed it: no kprobe is there, or so little before it that its jump could
 *    reach here. This is asked once more where all int3s are written, with kprobe_mutex held. One
 *    that comes later cannot get in the way: the kernel refuses a kprobe at an int3 that it does
 *    not know, and a kprobe whose jump would overwrite one stays an int3. A jump in place is not
 *    there (set.c asks for one first), and does not come: its bytes are compared before (step 4 in
 *    the head of text/jump.c).
 * 4. One byte is written, so each processor executes the old instruction or the int3.
 *
 * What is missing in step 3. The kernel decides that a kprobe may become a jump when it is
 * registered, by decoding its function. An int3 that it does not know may hide a branch into the
 * bytes of that jump. So a kprobe of somebody else's that comes later, into a function with int3s
 * at some instructions but not at all, can be made a jump that is not right. So sessions have such
 * breakpoints only if the parameter own_breakpoints asks for them.
 *
 * Wherever one of these is not certain the place has a kprobe. These are set first: the kernel sets
 * none behind an int3 that it does not know. For the same reason a small session has breakpoints of
 * the module's own in a function where such stand.
 *
 * Why each execution of the original text meets the breakpoint, from jifl_int3_arm to
 * jifl_int3_disarm: text_poke_sync makes each processor forget what it has fetched. No switch takes
 * these breakpoints away. An exception finds its breakpoint in the table: it is there before the
 * byte is written, and until text_poke_sync after the byte is back, whose interrupt waits for each
 * handler. Linux 6.12 does not look whether the int3 is still there (kprobe_int3_handler), so no
 * breakpoint may leave the table before.
 *
 * Copies of instructions. A thread that stays native may be interrupted, and preempted, in a copy.
 * All copies are kept until no breakpoint of the module's own is left, and the last session that
 * had one is behind jifl_evict or jifl_probe_wait: the machine was stopped, and RCU tasks passed.
 * So no thread is in a copy. jifl_int3_free asks under jifl_session_mutex, which a session holds
 * from its breakpoints' end to that point. A walk of a stack sees the original (run/unwind.c).
 *
 * What is called between the exception and the copy has no breakpoint (place.c), and what is called
 * where an event before the handler is recorded has a kprobe (jifl_notrace_is_met_by_int3). If the
 * list lacks a function, an exception in the handler counts and stays native, and calls nothing
 * (catch.c).
 *
 * Context: process, under jifl_session_mutex, but for jifl_int3_met and jifl_int3_beneath.
 */
#include <linux/kdebug.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <asm/alternative.h>
#include <asm/text-patching.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/compat.h"
#include "../../compat/import.h"
#include "../../compat/ksym.h"
#include "../../compat/poke.h"
#include "../../search.h"
#include "../../run/unwind.h"
#include "../../enter/target.h"
#include "../../call/tool.h"
#include "../../call/whose.h"
#include "../../session/session.h"
#include "../../text/poke.h"
#include "probe.h"

/* Off unless asked for: the head of this file has the reason. */
static unsigned int own_breakpoints = UINT_MAX;
module_param(own_breakpoints, uint, 0644);
MODULE_PARM_DESC(own_breakpoints,
		 "sessions with more places set breakpoints themselves, not by kprobes");

/* Copies of instructions of one session. */
struct jifl_int3_copies {
	struct list_head list;
	u8 *mem;
	u32 size;
	u32 n;
	struct jifl_int3_original {	/* n, in the order of the copies */
		u32 at;			/* in mem */
		s32 address;		/* all text is in the highest 2 GiB */
	} originals[];
};

static LIST_HEAD(jifl_int3_copies);	/* jifl_session_mutex */
static u32 jifl_int3_number;		/* of breakpoints; jifl_session_mutex */
static bool jifl_int3_works;		/* the kernel has what is needed */

/*
 * Sessions with programs, and plugins, ask for none: what they call is not known here. They join
 * those that stand. What they call then does not come here again (jifl_act_runs,
 * jifl_probe_in_own_code).
 */
static bool jifl_int3_fits(const struct jifl_probe *p)
{
	return jifl_int3_works && !p->session->programs && !p->session->tool->calls_functions;
}

bool jifl_int3_wanted(const struct jifl_probe *p)
{
	return p->nsites > READ_ONCE(own_breakpoints) && jifl_int3_fits(p);
}

bool jifl_int3_stand(void)
{
	return jifl_int3_number;
}

bool jifl_int3_instead(const struct jifl_probe *p, int err)
{
	return (err == -EILSEQ || err == -EINVAL) && jifl_int3_number && jifl_int3_fits(p);
}

/* Step 1. Sites come in the order of their addresses. */
static bool jifl_int3_begins(struct jifl_int3_walk *walk, unsigned long address)
{
	unsigned long flags, size, cookie;
	bool found;
	u32 len;

	if (address - walk->begin >= walk->size) {
		local_irq_save(flags);
		found = jifl_ksym_range(address, &walk->begin, &size);
		local_irq_restore(flags);
		walk->size = found ? size : 0;
		walk->at = walk->begin;
		walk->refused = found && jifl_notrace_is_met_by_int3(walk->begin);
	}
	while (walk->size && walk->at < address) {
		cookie = jifl_host_lock();
		len = jifl_engine_insn_length(jifl_orig_at(walk->at));
		jifl_host_unlock(cookie);
		if (!len)
			return false;
		walk->at += len;
	}
	return walk->size && !walk->refused && walk->at == address;
}

/* Step 3. */
static bool jifl_int3_is_free(unsigned long address)
{
	unsigned long at;
	bool found = false;

	preempt_disable();
	for (at = address - DISP32_SIZE; at <= address; at++)
		found |= jifl_import(get_kprobe)((void *)at) != NULL;
	preempt_enable();
	return !found;
}

/* Step 2. The kernel's list of modules with alternatives is under text_mutex. */
static bool jifl_int3_is_alternative(unsigned long address)
{
	bool is;

	jifl_poke_lock();
	is = jifl_compat_poke_reserved(address, address);
	jifl_poke_unlock();
	return is;
}

bool jifl_int3_may(struct jifl_int3_walk *walk, unsigned long address, struct jifl_step *step)
{
	if (!jifl_int3_begins(walk, address) || !jifl_int3_is_free(address) ||
	    !jifl_step_find(address, step) || jifl_int3_is_alternative(address))
		return false;
	walk->copies += jifl_step_size(step);
	walk->made++;
	return true;
}

/* It is in the table, and its int3 is not written yet. */
static bool jifl_int3_waits(const struct jifl_breakpoint *b)
{
	return b && b->kind == JIFL_BREAKPOINT_OWN && !b->is_armed;
}

static int jifl_int3_copy_all(const struct jifl_probe *p, struct jifl_int3_copies *copies)
{
	u32 i, at = 0;

	for (i = 0; i < p->nsites; i++) {
		struct jifl_breakpoint *b = p->sites[i].breakpoint;

		cond_resched();
		if (!jifl_int3_waits(b) || b->step.kind != JIFL_STEP_COPY)
			continue;
		if (!jifl_step_copy(b->address, &b->step, copies->mem + at))
			return -EBUSY;
		copies->originals[copies->n++] = (struct jifl_int3_original){ at, b->address };
		at += jifl_step_size(&b->step);
	}
	return jifl_compat_exec_protect(copies->mem, copies->size) ? -ENOMEM : 0;
}

/* What an unwinder is told. Any context, preemption off. */
static unsigned long jifl_int3_original(unsigned long addr)
{
	const struct jifl_int3_copies *copies;
	u32 at, k;

	list_for_each_entry_rcu(copies, &jifl_int3_copies, list, true)
		if (addr - (unsigned long)copies->mem < copies->size)
			break;
	if (list_entry_is_head(copies, &jifl_int3_copies, list) || !copies->n)
		return 0;
	at = addr - (unsigned long)copies->mem;
	/* The first copy is at 0. */
	k = jifl_first(i, copies->n, copies->originals[i].at <= at) - 1;
	at -= copies->originals[k].at;
	/* Behind the instruction stands the jump. */
	return (s64)copies->originals[k].address + at;
}

int jifl_int3_copy(struct jifl_probe *p, const struct jifl_int3_walk *walk)
{
	struct jifl_int3_copies *copies;
	int ret;

	if (!walk->copies)
		return 0;
	copies = JIFL_ALLOC(kvzalloc(struct_size(copies, originals, walk->made), GFP_KERNEL));
	if (!copies)
		return -ENOMEM;
	copies->size = PAGE_ALIGN(walk->copies);
	copies->mem = JIFL_ALLOC(jifl_compat_exec_alloc(copies->size));
	if (!copies->mem) {
		kvfree(copies);
		return -ENOMEM;
	}
	memset(copies->mem, INT3_INSN_OPCODE, copies->size);
	ret = jifl_int3_copy_all(p, copies);
	list_add_rcu(&copies->list, &jifl_int3_copies);
	jifl_unwind_know_copies(jifl_int3_original);
	return ret;
}

void jifl_int3_free(void)
{
	struct jifl_int3_copies *copies, *next;
	LIST_HEAD(gone);

	mutex_lock(&jifl_session_mutex);
	if (!jifl_int3_number) {
		jifl_unwind_know_copies(NULL);
		list_splice_init_rcu(&jifl_int3_copies, &gone, synchronize_rcu);
	}
	mutex_unlock(&jifl_session_mutex);
	list_for_each_entry_safe(copies, next, &gone, list) {
		vfree(copies->mem);
		kvfree(copies);
	}
}

/* The byte at the address becomes another. Under jifl_poke_lock. */
static void jifl_int3_write(unsigned long address, u8 old, u8 new)
{
	jifl_poke(address, &new, 1);
	jifl_import(perf_event_text_poke)((void *)address, &old, 1, &new, 1);
	cond_resched();
}

/* Step 3 again, under kprobe_mutex: no kprobe comes from here on. *bad: a site where one has. */
static bool jifl_int3_are_free(const struct jifl_probe *p, u32 *bad)
{
	u32 i;

	for (i = 0; i < p->nsites; i++) {
		const struct jifl_breakpoint *b = p->sites[i].breakpoint;

		*bad = i;
		if (jifl_int3_waits(b) && (!jifl_int3_is_free(b->address) ||
					   READ_ONCE(*(u8 *)b->address) != b->step.byte))
			return false;
	}
	return true;
}

int jifl_int3_arm(struct jifl_probe *p, u32 *bad)
{
	int err;
	u32 i;

	jifl_poke_lock();
	err = jifl_int3_are_free(p, bad) ? 0 : -EBUSY;
	for (i = 0; i < p->nsites && !err; i++) {
		struct jifl_breakpoint *b = p->sites[i].breakpoint;

		if (!jifl_int3_waits(b))
			continue;
		jifl_int3_write(b->address, b->step.byte, INT3_INSN_OPCODE);
		b->is_armed = true;
		jifl_int3_number++;
	}
	jifl_poke_sync();
	jifl_poke_unlock();
	return err;
}

void jifl_int3_disarm(struct kprobe **leaving, u32 n)
{
	u32 i;

	if (!n)
		return;
	jifl_poke_lock();
	for (i = 0; i < n; i++) {
		struct jifl_breakpoint *b = container_of(leaving[i], struct jifl_breakpoint,
							 probe[0]);

		if (b->kind != JIFL_BREAKPOINT_OWN || !b->is_armed)
			continue;
		jifl_int3_write(b->address, INT3_INSN_OPCODE, b->step.byte);
		jifl_int3_number--;
	}
	jifl_poke_sync();
	jifl_poke_unlock();
}

static int jifl_int3_met(struct notifier_block *nb, unsigned long val, void *data)
{
	struct pt_regs *regs = ((struct die_args *)data)->regs;
	struct jifl_breakpoint *b;
	u64 landing;

	if (val != DIE_INT3 || user_mode(regs))
		return NOTIFY_DONE;
	b = jifl_probe_find(regs->ip - INT3_INSN_SIZE);
	if (!b || b->kind != JIFL_BREAKPOINT_OWN)
		return NOTIFY_DONE;
	landing = jifl_probe_meet(b, regs);
	if (landing)
		regs->ip = landing;
	else
		jifl_step(b->address, &b->step, regs);
	return NOTIFY_STOP;
}

bool jifl_int3_beneath(unsigned long address, u8 *byte)
{
	const struct jifl_breakpoint *b = jifl_probe_find(address);

	if (!b || b->kind != JIFL_BREAKPOINT_OWN)
		return false;
	*byte = b->step.byte;
	return true;
}

/* Behind that of run/trap.c, which is asked about int3s in the code cache. */
static struct notifier_block jifl_int3_notifier = {
	.notifier_call = jifl_int3_met,
	.priority = INT_MAX - 1,
};

int jifl_int3_init(void)
{
	jifl_int3_works = jifl_poke_works() && jifl_imported(search_exception_tables) &&
			  jifl_imported(jump_label_text_reserved) &&
			  jifl_imported(static_call_text_reserved);
	return JIFL_TRY(register_die_notifier(&jifl_int3_notifier));
}

void jifl_int3_exit(void)
{
	unregister_die_notifier(&jifl_int3_notifier);
}
