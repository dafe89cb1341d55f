// SPDX-License-Identifier: GPL-2.0
/*
 * The kind JIFL_TARGET_FUNCTION, and its doors. The door of a function is its fentry site: a direct
 * call of ftrace leads from there to jifl_function_stub, one stub for all functions. The stub finds
 * where the call goes in the table of doors (door_table.c), or asks jifl_choose_copy
 * (session/choose.c), which finds the target by the address behind the site.
 * The answer replaces the stub's own return address: the stub returns either behind the site, so
 * that the function runs natively, or to an entry piece with the stack as the function's caller
 * left it. The copy begins behind the site, and in copies the site is a nop (jifl_config.door). So
 * copies never come to a door.
 *
 * Doors are attached in batches. A batch has one ftrace_ops. It stays until no session has any of
 * its targets attached.
 *
 * Who can be in the stub, and what may be freed when:
 *
 * 1. A thread comes to the stub by a site alone: straight, or by an ftrace trampoline, if another
 *    tracer has the same site. After jifl_compat_direct_unregister no site leads there.
 * 2. In the stub preemption is on where it reads the table of doors, before jifl_choose_copy has
 *    looked the target up, and behind it, when the thread has nothing but the address to go to. In
 *    between preemption is off.
 *    The stub and the trampolines never sleep.
 * 3. jifl_function_detach unregisters, stops the machine for a moment, and waits for RCU tasks.
 *    To stop the machine each CPU switches to its stopper. So nothing that ran with preemption
 *    off, in an interrupt, in a softirq or in the idle task is in the stub any more.
 *    RCU tasks waits for tasks that were preempted in the stub or on the way to it. An idle task
 *    is never preempted there, because idle tasks run with preemption off. ftrace waits in much
 *    the same way when it unregisters an ops that may be freed (ftrace_shutdown). That is not
 *    relied upon, and not promised for direct calls.
 * 4. So behind jifl_function_detach no thread is in the stub for a site of this batch. The batch
 *    holds references to its targets until then. So a target that jifl_function_find has found is
 *    not freed under the thread. kfree_rcu covers threads that go past a target of another batch in
 *    the hash table: where RCU does not watch, jifl_choose_copy looks nothing up.
 * 5. Aims, ways and pieces that a thread finds from its target stay as the head of session/mix.c
 *    says. In addition, an aim may be found where RCU tasks waits for no task: in interrupts, and
 *    in idle tasks, which count a missed call. jifl_evict stops the machine after the session is
 *    disarmed, so as in 3. none of these has the aim, a way or a piece when the machine goes on.
 * 6. A thread that has the address of a piece is in the stub, with the address in rax or in the
 *    slot of the return address, or it is in the cache. leave/evict.c finds both. It need not look
 *    for interrupts: these have ended when the machine is stopped.
 * 7. A function of a module: the target holds the module. So its text stays until the target goes.
 * 8. The module's own text: a thread is in the stub, or comes back to jifl_choose_copy, only
 *    until 3. is done for the last batch, and the last session's end waits for that. Return hooks
 *    (call/returns.c) say the same of theirs.
 * 9. Tasks that are asleep inside a function are not at its door. Where they are in the cache,
 *    jifl_evict gives them back. Where the function's return is hooked, the kernel's trampoline
 *    returns for them, with or without the module.
 * 10. A task that forks inside a function: the child has a stack of its own, with nothing of ours
 *    on it and no return hooks (copy_process). A task that dies inside one does not return; its
 *    return hooks go with it (rethook_flush_task), and so do its lanes (call/switch.c).
 *
 * Refused by name, because this proof or leave/evict.c needs it (function_refuse.c): functions from
 * which another task's call returns; what runs while the machine is stopped, patches text or waits
 * for RCU tasks; idle loops; what begins at another level (store/level.h) than it ends at, as the
 * functions that begin and end interrupts do; what the module hooks or calls without
 * jifl_own_begin.
 *
 * kernel.ftrace_enabled=0 would switch doors off. The kernel refuses that while the module is
 * loaded, because text/hooks.c has permanent hooks.
 */
#include <linux/ftrace.h>
#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/stop_machine.h>
#include <linux/string.h>
#include <asm/ibt.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/direct.h"
#include "../compat/import.h"
#include "../compat/ksym.h"
#include "../run/stubs.h"
#include "door_table.h"
#include "function.h"
#include "entry.h"
#include "target.h"

/* By the address that is entered. Written under target.c's mutex. */
static DEFINE_HASHTABLE(functions, 13);
static u32 nfunctions;			/* in it */

static unsigned int nbatches;		/* that have doors; jifl_session_mutex */

struct jifl_function_batch {
	struct list_head list;		/* of batches that are about to go */
	struct ftrace_ops ops;
	u32 used;			/* targets with users */
	u32 n;
	struct jifl_target *targets[];	/* references */
};

/* --- the kind of targets --------------------------------------------------------------- */

/* Behind the fentry site of the function that begins at id; 0: it has none. */
static u64 function_address(u64 begin)
{
	const unsigned long site = jifl_ksym_fentry(begin);

	return site ? site + CALL_INSN_SIZE : 0;
}

struct jifl_target *jifl_function_find(unsigned long address)
{
	struct jifl_target *t;

	hash_for_each_possible_rcu_notrace(functions, t, node, address)
		if (t->address == address)
			return t;
	return NULL;
}

/* Its site is at its beginning, or behind an endbr64. */
struct jifl_target *jifl_function_starting(unsigned long begin)
{
	struct jifl_target *t;

	/* Translation asks for each block. */
	if (!READ_ONCE(nfunctions))
		return NULL;
	t = jifl_function_find(begin + CALL_INSN_SIZE);
	if (!t || t->id != begin)
		t = jifl_function_find(begin + ENDBR_INSN_SIZE + CALL_INSN_SIZE);
	return t && t->id == begin ? t : NULL;
}

static struct jifl_target *function_find(u64 begin)
{
	return jifl_function_find(function_address(begin));
}

/* Functions in which tasks end, as the system calls exit and exit_group. */
static bool ends_task(u64 begin)
{
	return begin == jifl_ksym("do_exit") || begin == jifl_ksym("do_group_exit") ||
	       begin == jifl_ksym("make_task_dead");
}

static int function_add(struct jifl_target *t)
{
	/* Its calls would come to one of the two doors alone. */
	const bool other = jifl_notrace_starting(t->id) && !JIFL_HOST_PLANTED(entered_twice);
	int err = other ? -EBUSY : jifl_ksym_hold(t->id, &t->module);

	if (err)
		return err;
	t->ends_task = ends_task(t->id);
	hash_add_rcu(functions, &t->node, t->address);
	WRITE_ONCE(nfunctions, nfunctions + 1);
	return 0;
}

static void function_drop(struct jifl_target *t)
{
	hash_del_rcu(&t->node);
	WRITE_ONCE(nfunctions, nfunctions - 1);
	module_put(t->module);
	kfree_rcu(t, rcu);
}

/* The stubs enter a piece by a return, which needs no endbr64 (jifl_config.endbr). */
u32 jifl_function_place_of(u64 to)
{
	if (!to || to == (u64)(unsigned long)jifl_entry_slow)
		return 0;
	return to + (IS_ENABLED(CONFIG_X86_KERNEL_IBT) ? ENDBR_INSN_SIZE : 0);
}

bool jifl_function_leads(const struct jifl_target *t, u64 to)
{
	return t->door && READ_ONCE(*t->door) == jifl_function_place_of(to);
}

static void function_redirect(const struct jifl_target *t, u64 to)
{
	const bool asks = to == (u64)(unsigned long)jifl_entry_slow;

	if (t->door && !(asks && JIFL_HOST_PLANTED(doors_kept)))
		WRITE_ONCE(*t->door, jifl_function_place_of(to));
}

const struct jifl_target_type jifl_target_functions = {
	.address = function_address,
	.find = function_find,
	.add = function_add,
	.drop = function_drop,
	.redirect = function_redirect,
};

/* --- doors ------------------------------------------------------------------------------- */

unsigned long jifl_function_stub_address(void)
{
#ifdef JIFL_CALLS_MAY_BE_COUNTED
	if (boot_cpu_has(X86_FEATURE_CALL_DEPTH))
		return (unsigned long)jifl_function_stub_counts;
#endif
	return (unsigned long)jifl_function_stub;
}

/* Gives the places of the batch's doors memory. */
static int reserve_places(const struct jifl_function_batch *b)
{
	int err = 0;
	u32 i;

	for (i = 0; i < b->n && !err; i++)
		err = jifl_doors_reserve(b->targets[i]->address);
	return err;
}

/* Attaches the first n targets of the batch. */
static int register_first(struct jifl_function_batch *b, u32 n)
{
	unsigned long *sites = JIFL_ALLOC(kvmalloc_array(n, sizeof(*sites), GFP_KERNEL));
	int err;
	u32 i;

	if (!sites)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		sites[i] = b->targets[i]->address - CALL_INSN_SIZE;
	memset(&b->ops, 0, sizeof(b->ops));
	err = jifl_compat_direct_room(n);
	if (!err)
		err = JIFL_TRY(ftrace_set_filter_ips(&b->ops, sites, n, 0, 1));
	if (!err)
		err = JIFL_TRY(jifl_compat_direct_register(&b->ops, jifl_function_stub_address()));
	if (err)
		ftrace_free_filter(&b->ops);
	kvfree(sites);
	return err;
}

static int nothing(void *unused)
{
	return 0;
}

/* Steps 1 to 4 in the head of this file; more than one batch may have been unregistered. */
static void wait_for_threads(void)
{
	if (JIFL_HOST_PLANTED(doors_freed_early))
		return;
	stop_machine(nothing, NULL, NULL);
	synchronize_rcu_tasks();
}

/*
 * ftrace has met an error of its own and has left sites that lead to the stub. So the module, the
 * table of doors, the batch with its ftrace_ops, and the batch's targets stay until the next boot.
 */
static void keep_for_good(const struct jifl_function_batch *b, int err)
{
	__module_get(THIS_MODULE);
	nbatches++;
	pr_err("ftrace did not give back %u functions (error %d): the module stays until the next boot\n",
	       b->n, err);
}

/* False: the batch must stay. */
static bool unregister(struct jifl_function_batch *b)
{
	int err;

	/* For what may be freed behind it ftrace waits, too. */
	if (JIFL_HOST_PLANTED(doors_freed_early))
		b->ops.flags &= ~FTRACE_OPS_FL_DYNAMIC;
	err = jifl_compat_direct_unregister(&b->ops, jifl_function_stub_address());
	if (err)
		keep_for_good(b, err);
	return !err;
}

/* Whether a site of the batch calls the stub. */
static bool has_site(const struct jifl_function_batch *b)
{
	void *const stub = (void *)jifl_function_stub_address();
	u8 call[CALL_INSN_SIZE];
	u32 i;

	for (i = 0; i < b->n; i++) {
		const unsigned long site = b->targets[i]->address - CALL_INSN_SIZE;

		if (!copy_from_kernel_nofault(call, (void *)site, sizeof(call)) &&
		    !memcmp(call, text_gen_insn(CALL_INSN_OPCODE, (void *)site, stub),
			    sizeof(call)))
			return true;
	}
	return false;
}

/*
 * The target whose site somebody else has: the first without which the others can be attached.
 * *kept: the batch must stay.
 */
static u32 find_busy(struct jifl_function_batch *b, bool *kept)
{
	u32 good = 0, bad = b->n;

	while (bad - good > 1 && !*kept) {
		u32 n = good + (bad - good) / 2;

		if (register_first(b, n)) {
			bad = n;
		} else {
			*kept = !unregister(b);
			wait_for_threads();
			good = n;
		}
	}
	return bad - 1;
}

/* The table of doors goes when no site leads to the stub and no thread is in it. */
void jifl_function_close_doors(void)
{
	if (!nbatches && !jifl_notrace_has_doors())
		jifl_doors_close();
}

static struct jifl_function_batch *make_batch(struct jifl_target **targets, u32 n)
{
	struct jifl_function_batch *b;
	u32 i;

	b = JIFL_ALLOC(kvzalloc(struct_size(b, targets, n), GFP_KERNEL));
	if (!b)
		return NULL;
	for (i = 0; i < n; i++)
		if (!targets[i]->batch)
			b->targets[b->n++] = targets[i];
	return b;
}

/* The batch has its doors: it takes its references. */
static void keep_batch(struct jifl_function_batch *b)
{
	u32 i;

	for (i = 0; i < b->n; i++) {
		refcount_inc(&b->targets[i]->refs);
		b->targets[i]->batch = b;
		b->targets[i]->door = jifl_doors_take(b->targets[i]->address);
	}
	nbatches++;
}

static u32 index_of(struct jifl_target **targets, const struct jifl_target *t)
{
	u32 i = 0;

	while (targets[i] != t)
		i++;
	return i;
}

int jifl_function_attach(struct jifl_target **targets, u32 n, u32 *busy)
{
	struct jifl_function_batch *b = make_batch(targets, n);
	bool kept = false;
	int err;
	u32 i;

	if (!b)
		return -ENOMEM;
	err = jifl_doors_open() ?: reserve_places(b);
	if (!err && b->n)
		err = register_first(b, b->n);
	if (err == -EBUSY) {
		*busy = index_of(targets, b->targets[find_busy(b, &kept)]);
	} else if (err && has_site(b)) {
		keep_for_good(b, err);
		kept = true;
	}
	if ((err && !kept) || !b->n) {
		kvfree(b);
		b = NULL;
	}
	if (err) {
		jifl_function_close_doors();
		return err;
	}
	if (b)
		keep_batch(b);
	for (i = 0; i < n; i++)
		if (!targets[i]->users++)
			targets[i]->batch->used++;
	return 0;
}

/* No thread is at the batch's doors. */
static void free_batch(struct jifl_function_batch *b)
{
	u32 i;

	for (i = 0; i < b->n; i++) {
		b->targets[i]->batch = NULL;
		jifl_doors_give(b->targets[i]->door);
		b->targets[i]->door = NULL;
		jifl_target_put(b->targets[i]);
	}
	kvfree(b);
	nbatches--;
}

void jifl_function_detach(struct jifl_target **targets, u32 n)
{
	struct jifl_function_batch *b, *next;
	LIST_HEAD(unused);
	u32 i;

	for (i = 0; i < n; i++) {
		b = targets[i]->batch;
		if (!--targets[i]->users && !--b->used)
			list_add(&b->list, &unused);
	}
	if (list_empty(&unused))
		return;
	jifl_plant_close_door();
	list_for_each_entry_safe(b, next, &unused, list)
		if (!unregister(b))
			list_del(&b->list);
	wait_for_threads();
	list_for_each_entry_safe(b, next, &unused, list)
		free_batch(b);
	jifl_function_close_doors();
}
