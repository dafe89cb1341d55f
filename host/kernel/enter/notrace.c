// SPDX-License-Identifier: GPL-2.0
/*
 * The kind JIFL_TARGET_NOTRACE: functions that are entered by jumps. Most have no fentry site. The
 * kernel has many such: inline functions that were not inlined, which it compiles with notrace;
 * whole files, as those of its tracers; assembly. Others have a site, but somebody else has that:
 * ftrace allows one direct call a site, and a BPF program or another tracer has it.
 *
 * Where the text allows it, such a function has a door: a jump in place leads from its first
 * instruction, or the one behind the site, to a gate (text/jump.c), whose call of jifl_jump_stub is
 * what an fentry site's call is to others. The proof of function.c holds for it with these words:
 * the site is the call in the gate, the address behind the site is the gate's (jifl_gate_door),
 * ftrace's registration is jifl_jumps_get, and jifl_jumps_put gives that back: step 3 waits, also
 * for the stub, before jifl_jumps_free. Its place in the table of doors is that of the gate's
 * address. The places of all gates have memory before the first jump comes (open_doors), and while
 * any jump is in the text, also one that nobody uses (jifl_notrace_has_doors).
 *
 * What comes to the jump is a call, or the function is refused to all tools but those of places: a
 * loop that leads back to the first instruction would be one more call (jifl_jumps_may). A door
 * skips no instruction but an endbr64 and a site, which have been executed. The entry piece has the
 * others that the jump replaces (session/nested.c, step 10).
 *
 * Whoever has the site may give it back, and others may take it, while the jump stands behind it.
 * It stays a target of this kind until no session has it: a function is a target of one kind, as
 * its calls would come to one of two doors alone (add). Copies: session/nested.c, step 11.
 *
 * While somebody else has a kprobe on the jump, all calls pass: copies end before the kprobe, and
 * would lead back to the jump. They are counted as missed.
 *
 * Tools of places need no door: their breakpoints stand in the text itself (tools/probe/set.c), and
 * a thread that meets one goes on in the cache (tools/probe/catch.c). A call that passes meets the
 * breakpoints in the gate. So it counts as each native execution does.
 *
 * A function of a module: the target holds the module, as function.c does.
 *
 * The kind JIFL_TARGET_INSIDE: a function that is not entered at all, and each session has targets
 * of its own. Probes of plugins have them: any number of sessions may have a function
 * then. limit.c does not find such a target. So a jump to the function's beginning leaves the
 * session's context, as in each other function, and meets the breakpoint, if there is one. A jump
 * that stands already stays for such a target, too: its breakpoints may be in the gate.
 *
 * Context: process, sleeps; under target.c's mutex. jifl_notrace_starting: interrupts off.
 */
#include <linux/hashtable.h>
#include <linux/kallsyms.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/ibt.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../compat/ksym.h"
#include "../text/jump.h"
#include "door_table.h"
#include "function.h"
#include "target.h"

/* By the address where they begin. Translation asks for each block; there may be thousands. */
static DEFINE_HASHTABLE(notrace_functions, 12);

static bool jumps_wanted = true;
module_param_named(jumps, jumps_wanted, bool, 0644);
MODULE_PARM_DESC(jumps, "functions without an ftrace site are entered by jumps in place");

/* Targets with doors, and jumps used; jifl_session_mutex. */
static u32 ndoors;

static u64 inside_address(u64 begin)
{
	u32 insn;

	if (copy_from_kernel_nofault(&insn, (void *)(unsigned long)begin, sizeof(insn)))
		return 0;
	return begin + (jifl_compat_is_endbr(insn) ? ENDBR_INSN_SIZE : 0);
}

/* Where its jump stands: jifl_jump_begin. */
static u64 notrace_address(u64 begin)
{
	const unsigned long site = jifl_ksym_fentry(begin);

	return site ? site + CALL_INSN_SIZE : inside_address(begin);
}

struct jifl_target *jifl_notrace_starting(unsigned long begin)
{
	struct jifl_target *t;

	hash_for_each_possible_rcu_notrace(notrace_functions, t, node, begin)
		if (t->id == begin)
			return t;
	return NULL;
}

struct jifl_target *jifl_notrace_entered_at(unsigned long address)
{
	static const u8 before[] = {
		0, ENDBR_INSN_SIZE, CALL_INSN_SIZE, ENDBR_INSN_SIZE + CALL_INSN_SIZE,
	};
	struct jifl_target *t;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(before); i++) {
		t = jifl_notrace_starting(address - before[i]);
		if (t && t->address == address)
			return t;
	}
	return NULL;
}

static struct jifl_target *notrace_find(u64 begin, u64 address)
{
	return jifl_notrace_starting(begin);
}

static int notrace_add(struct jifl_target *t)
{
	int err = jifl_function_starting(t->id) ? -EBUSY : jifl_ksym_hold(t->id, &t->module);

	if (!err)
		hash_add_rcu(notrace_functions, &t->node, t->id);
	return err;
}

static void notrace_drop(struct jifl_target *t)
{
	hash_del_rcu(&t->node);
	module_put(t->module);
	kfree_rcu(t, rcu);
}

static void notrace_redirect(const struct jifl_target *t, u64 to)
{
	if (!t->door)
		return;
	WRITE_ONCE(*t->door, jifl_function_place_of(to));
	/* Pairs with jifl_jump_changes: one of the two sees what the other has written. */
	smp_mb();
	if (READ_ONCE(t->jump->taken))
		WRITE_ONCE(*t->door, 0);
}

static struct jifl_target *inside_find(u64 begin, u64 address)
{
	return NULL;
}

static int inside_add(struct jifl_target *t)
{
	return jifl_ksym_hold(t->id, &t->module);
}

static void inside_drop(struct jifl_target *t)
{
	module_put(t->module);
	kfree_rcu(t, rcu);
}

/* --- doors ------------------------------------------------------------------------------- */

struct jifl_target *jifl_notrace_find(unsigned long door)
{
	const struct jifl_jump *j = jifl_gate_at(door);

	/* Pairs with the release where the target is written. */
	return j ? smp_load_acquire(&j->owner) : NULL;
}

/* Functions without a jump. They have breakpoints alone. */
static const char *const without_jump[] = {
	/* Called from the stub, before jifl_own_begin or behind jifl_own_end: without end. */
	"rcu_is_watching", "preempt_schedule_notrace*",
	/*
	 * On a processor that comes online, resumes or leaves for another kernel, where no int3 has
	 * a handler or gs is not set: one stands there while a jump comes or goes, and in the gate
	 * while somebody has a breakpoint.
	 */
	"secondary_startup*", "common_startup*", "startup_*", "verify_cpu*", "start_secondary*",
	"start_cpu0", "cr4_init*", "native_write_cr*", "cpu_init*", "load_*", "switch_gdt*",
	"switch_to_new_gdt*", "setup_*", "tss_*", "save_processor_state*", "__save_processor_state*",
	"restore_processor_state*", "__restore_processor_state*", "fix_processor_context*",
	"wakeup_*", "do_suspend_lowlevel*", "restore_*", "machine_kexec*", "relocate_*", "idt_*",
	/* Never called: padding, and what sites call before the kernel has made nops of them. */
	"__pfx_*", "__fentry__",
};

/* The same of a processor that comes online, also behind a site. */
static const char *const before_int3[] = { "load_current_idt", "early_setup_idt*" };

/*
 * Linux 6.12 has an event before each notifier, also before those that are asked about an int3.
 * What is called while it is recorded may have no int3 of the module's own: without end.
 */
static const char *const tracers[] = {
	"trace_*", "__trace*", "tracing_*", "tracer_*", "perf_trace_*", "perf_tp_*", "event_*",
	"filter_*", "ftrace_*",
	/* The ring buffer's, but not those of red-black trees. */
	"ring_buffer_*", "__rb_*", "rb_add_*", "rb_advance*", "rb_calculate*", "rb_check_*",
	"rb_commit*", "rb_decrement*", "rb_end_*", "rb_event_*", "rb_fix_*", "rb_handle_*",
	"rb_head_*", "rb_inc_*", "rb_is_*", "rb_move_*", "rb_page_*", "rb_reserve*", "rb_reset*",
	"rb_set_*", "rb_start_*", "rb_tail_*", "rb_time_*", "rb_try_*", "rb_update*", "rb_wake*",
};

/* The chain of notifiers calls these for each int3, before any handler, or before the module's. */
static const char *const around_handlers[] = {
	"__rcu_read_*", "rcu_read_unlock_special", "hw_breakpoint_exceptions_notify",
	"arch_uprobe_exception_notify",
	/* A sanitizer's: compiled into the chain, the handlers, and what the stub calls. */
	"__asan_*", "__kasan_*", "kasan_*", "__tsan_*", "__kcsan_*", "kcsan_*", "__sanitizer_*",
	"__ubsan_*",
#ifdef CONFIG_DEBUG_LOCK_ALLOC	/* lockdep looks at RCU's readers */
	"lock_acquire", "lock_release", "verify_lock_unused", "lockdep_nmi", "rcu_is_watching",
	"rcu_read_lock_held_common", "rcu_read_lock_sched_held", "rcu_lockdep_current_cpu_online",
#endif
#ifdef CONFIG_DEBUG_NOTIFIERS	/* is the notifier in text? */
	"func_ptr_is_kernel_text", "core_kernel_text", "is_module_text_address",
	"__module_text_address", "__module_address", "mod_find", "in_gate_area_no_mm",
#endif
};

static bool is_met_by_int3(const char *name)
{
	return jifl_function_name_is_among(name, tracers, ARRAY_SIZE(tracers)) ||
	       jifl_function_name_is_among(name, around_handlers, ARRAY_SIZE(around_handlers));
}

bool jifl_notrace_is_met_by_int3(unsigned long begin)
{
	char name[KSYM_NAME_LEN];

	return jifl_ksym_begins(begin, name, sizeof(name)) && is_met_by_int3(name);
}

/* May the function that begins there have a jump, by its name? */
static bool may_have_jump(unsigned long begin)
{
	char name[KSYM_NAME_LEN];

	if (!READ_ONCE(jumps_wanted))
		return false;
	/* A part that the compiler has put aside is jumped to. */
	if (!jifl_ksym_begins(begin, name, sizeof(name)) || strstr(name, ".cold") ||
	    is_met_by_int3(name))
		return false;
	/* What else has no jump has no site: functions of such names that have one are others. */
	return !jifl_function_name_is_among(name, before_int3, ARRAY_SIZE(before_int3)) &&
	       (jifl_ksym_fentry(begin) ||
		!jifl_function_name_is_among(name, without_jump, ARRAY_SIZE(without_jump)));
}

/* Is it attached by others, without a jump? None is made meanwhile. */
static bool is_without(unsigned long begin)
{
	const struct jifl_target *t;
	bool is;

	rcu_read_lock();
	t = jifl_notrace_starting(begin);
	is = t && READ_ONCE(t->users) && !READ_ONCE(t->jump);
	rcu_read_unlock();
	return is;
}

int jifl_notrace_may(const unsigned long *functions, u32 n, bool *may,
		     struct jifl_jumps_looked **looked)
{
	u32 i;
	int ret = jifl_jumps_may(functions, n, may, looked);

	for (i = 0; i < n && !ret; i++) {
		may[i] = may[i] && may_have_jump(functions[i]) && !is_without(functions[i]);
		cond_resched();
	}
	return ret;
}

bool jifl_notrace_has_doors(void)
{
	return ndoors || jifl_jumps_any();
}

static void take_door(struct jifl_target *t, struct jifl_jump *j)
{
	t->jump = j;
	ndoors++;
	if (t->kind != JIFL_TARGET_NOTRACE)
		return;
	refcount_inc(&t->refs);
	t->door = jifl_doors_take(jifl_gate_door(j));
	WRITE_ONCE(j->straight, t->door);
	smp_store_release(&j->owner, t);
}

/*
 * Which gates the jumps will have is not known yet: the places of all gates' doors get memory. They
 * are on a few pages.
 */
static int open_doors(void)
{
	unsigned long at, last;
	int err;

	if (!jifl_gate_doors(&at, &last))
		return 0;
	err = jifl_doors_open() ?: jifl_doors_reserve(last);
	for (; at < last && !err; at += PAGE_SIZE)
		err = jifl_doors_reserve(at);
	return err;
}

/* The targets of the list that have no user yet. Returns how many they are. */
static u32 find_first(struct jifl_target **targets, u32 n, struct jifl_target **first)
{
	u32 i, k = 0;

	for (i = 0; i < n; i++)
		if (!targets[i]->users)
			first[k++] = targets[i];
	return k;
}

/* What is asked for the targets, which are n at most, and what is answered. */
struct request {
	struct jifl_target **first;
	struct jifl_jump **jumps;
	unsigned long *at;
	bool *make;
};

static bool alloc_request(struct request *r, u32 n)
{
	r->first = JIFL_ALLOC(kvcalloc(n, sizeof(*r->first), GFP_KERNEL));
	r->jumps = JIFL_ALLOC(kvcalloc(n, sizeof(*r->jumps), GFP_KERNEL));
	r->at = JIFL_ALLOC(kvcalloc(n, sizeof(*r->at), GFP_KERNEL));
	r->make = JIFL_ALLOC(kvcalloc(n, sizeof(*r->make), GFP_KERNEL));
	return r->first && r->jumps && r->at && r->make;
}

static void free_request(const struct request *r)
{
	kvfree(r->make);
	kvfree(r->at);
	kvfree(r->jumps);
	kvfree(r->first);
}

/* 0; -ENOMEM. */
static int attach_first(const struct request *r, u32 k, const struct jifl_jumps_looked *looked)
{
	bool any = false;
	int err;
	u32 i;

	for (i = 0; i < k; i++) {
		r->at[i] = r->first[i]->id;
		r->make[i] = r->first[i]->kind == JIFL_TARGET_NOTRACE &&
			     may_have_jump(r->first[i]->id);
		any |= r->make[i];
	}
	err = any ? open_doors() : 0;
	if (!err) {
		jifl_jumps_get(r->at, r->make, k, (unsigned long)jifl_jump_stub, looked, r->jumps);
		for (i = 0; i < k; i++)
			if (r->jumps[i])
				take_door(r->first[i], r->jumps[i]);
	}
	jifl_function_close_doors();
	return err;
}

int jifl_notrace_attach(struct jifl_target **targets, u32 n,
			const struct jifl_jumps_looked *looked)
{
	struct request r;
	int err = -ENOMEM;
	u32 i;

	if (alloc_request(&r, n))
		err = attach_first(&r, find_first(targets, n, r.first), looked);
	for (i = 0; i < n && !err; i++)
		targets[i]->users++;
	free_request(&r);
	return err;
}

static void give_door(struct jifl_target *t)
{
	jifl_doors_give(t->door);
	t->door = NULL;
	t->jump = NULL;
	ndoors--;
	if (t->kind == JIFL_TARGET_NOTRACE)
		jifl_target_put(t);
}

void jifl_notrace_close(struct jifl_target **targets, struct jifl_jump **jumps, u32 n,
			struct jifl_closed *c)
{
	u32 i, k = 0;

	/* Those that lose their doors go to the front. */
	for (i = 0; i < n; i++) {
		struct jifl_target *t = targets[i];

		if (--t->users || !t->jump)
			continue;
		if (t->kind == JIFL_TARGET_NOTRACE) {
			WRITE_ONCE(t->jump->straight, NULL);
			WRITE_ONCE(t->jump->owner, NULL);
		}
		jumps[k] = t->jump;
		swap(targets[i], targets[k]);
		k++;
	}
	c->targets = k;
	c->jumps = k ? jifl_jumps_put(jumps, k) : 0;
}

void jifl_notrace_closed(struct jifl_target **targets, struct jifl_jump **jumps,
			 const struct jifl_closed *c)
{
	u32 i;

	if (c->targets)
		jifl_jumps_free(jumps, c->jumps, c->targets);
	for (i = 0; i < c->targets; i++)
		give_door(targets[i]);
	jifl_function_close_doors();
}

const struct jifl_target_type jifl_target_inside = {
	.address = inside_address,
	.find = inside_find,
	.add = inside_add,
	.drop = inside_drop,
	.redirect = notrace_redirect,
};

const struct jifl_target_type jifl_target_notrace = {
	.address = notrace_address,
	.find = notrace_find,
	.add = notrace_add,
	.drop = notrace_drop,
	.redirect = notrace_redirect,
};
