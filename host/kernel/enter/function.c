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
 * Doors are attached in batches (batch.c). A batch has one ftrace_ops. It stays until no session
 * has any of its targets attached.
 *
 * Who can be in the stub, and what may be freed when:
 *
 * 1. A thread comes to the stub by a site alone: straight, or by an ftrace trampoline, if another
 *    tracer has the same site. After jifl_compat_direct_unregister no site leads there.
 * 2. In the stub preemption is on where it reads the table of doors, before jifl_choose_copy has
 *    looked the target up, and behind it, when the thread has nothing but the address to go to. In
 *    between preemption is off.
 *    The stub and the trampolines never sleep.
 * 3. jifl_function_close unregisters. After that the machine is stopped for a moment, and RCU tasks
 *    is waited for. Then jifl_function_closed frees.
 *    To stop the machine each CPU switches to its stopper. So nothing that ran with preemption
 *    off, in an interrupt, in a softirq or in the idle task is in the stub any more.
 *    RCU tasks waits for tasks that were preempted in the stub or on the way to it. An idle task
 *    is never preempted there, because idle tasks run with preemption off.
 *    Which of the two comes first does not matter, because nobody comes to the stub meanwhile.
 *    ftrace itself waits for RCU tasks when it unregisters (compat/direct.c). jifl_function_close
 *    says so, and then that wait is this one.
 * 4. So in jifl_function_closed no thread is in the stub for a site of this batch. The batch
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
#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <asm/ibt.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/ksym.h"
#include "../run/stubs.h"
#include "batch.h"
#include "door_table.h"
#include "function.h"
#include "entry.h"
#include "target.h"

/* By the address that is entered. Written under target.c's mutex. */
static DEFINE_HASHTABLE(functions, 13);
static u32 nfunctions;			/* in it */

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

static struct jifl_target *function_find(u64 begin, u64 address)
{
	return jifl_function_find(address);
}

/* Functions in which tasks end, as the system calls exit and exit_group. */
static bool ends_task(u64 begin)
{
	static const char *const names[] = { "do_exit", "do_group_exit", "make_task_dead" };
	/* Looked up once: a look-up takes some 37,000 instructions. Under target.c's mutex. */
	static u64 begins[ARRAY_SIZE(names)];
	u32 i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (!begins[i])
			begins[i] = jifl_ksym(names[i]) ?: ~0ULL;
		if (begins[i] == begin)
			return true;
	}
	return false;
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
	const u32 natively = t->address;

	if (!t->door || (asks && *t->door != natively && JIFL_HOST_PLANTED(doors_kept)))
		return;
	/* The kernel calls thousands of doors while they are attached, and no session is armed. */
	WRITE_ONCE(*t->door, to ? jifl_function_place_of(to) : natively);
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

/* The table of doors goes when no site leads to the stub and no thread is in it. */
void jifl_function_close_doors(void)
{
	if (!jifl_batch_any() && !jifl_notrace_has_doors())
		jifl_doors_close();
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
	struct jifl_function_batch *b = jifl_batch_make(targets, n);
	bool kept = false;
	int err;
	u32 i;

	if (!b)
		return -ENOMEM;
	err = jifl_doors_open() ?: jifl_batch_take_doors(b);
	if (!err && b->n)
		err = jifl_batch_register(b, b->n);
	if (err == -EBUSY) {
		*busy = index_of(targets, b->targets[jifl_batch_find_busy(b, &kept)]);
	} else if (err && jifl_batch_has_site(b)) {
		jifl_batch_keep_for_good(b, err);
		kept = true;
	}
	if ((err && !kept) || !b->n) {
		jifl_batch_drop(b);
		b = NULL;
	}
	if (err) {
		jifl_function_close_doors();
		return err;
	}
	if (b)
		jifl_batch_keep(b);
	for (i = 0; i < n; i++)
		if (!targets[i]->users++)
			targets[i]->batch->used++;
	return 0;
}

bool jifl_function_close(struct jifl_target **targets, u32 n, struct jifl_closed *c)
{
	struct jifl_function_batch *b, *next;
	bool waited, all = true;
	u32 i;

	for (i = 0; i < n; i++) {
		b = targets[i]->batch;
		if (!--targets[i]->users && !--b->used)
			list_add(&b->list, &c->batches);
	}
	if (!list_empty(&c->batches))
		jifl_plant_close_door();
	list_for_each_entry_safe(b, next, &c->batches, list) {
		if (jifl_batch_unregister(b, &waited))
			all &= waited;
		else
			list_del(&b->list);
	}
	if (list_empty(&c->batches))
		return false;
	if (JIFL_HOST_PLANTED(doors_freed_early))
		jifl_function_closed(c);
	else
		jifl_batch_stop();
	return all;
}

void jifl_function_closed(struct jifl_closed *c)
{
	struct jifl_function_batch *b, *next;

	list_for_each_entry_safe(b, next, &c->batches, list)
		jifl_batch_free(b);
	INIT_LIST_HEAD(&c->batches);
	jifl_function_close_doors();
}

void jifl_function_wait(void)
{
	jifl_batch_wait();
}
