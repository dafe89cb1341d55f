// SPDX-License-Identifier: GPL-2.0
/*
 * Jumps in place. A jump replaces the first instructions of a function and leads to a gate
 * (jump.h), which has them, too. jump_check.c says where there may be one.
 *
 * Why no thread ever executes a part of a jump, or of the instructions beneath it:
 *
 * 1. First an int3 replaces the first byte. It is a store of one byte, which each processor sees
 *    as a whole. From the end of text_poke_sync on each thread that comes to the first instruction
 *    meets the int3. Its handler (jifl_jump_trap) sends the thread to the gate, in any context.
 *    So no thread comes to the second instruction through the first one any more, and
 *    jump_check.c says that there is no other way.
 * 2. Threads may stand between the replaced instructions from before. The machine is stopped for a
 *    moment: each CPU switches to its stopper, so what ran with preemption off, in an interrupt or
 *    in an idle task has left them. RCU tasks waits for tasks that were preempted there: such a
 *    task has then given up its CPU by itself, and none of the instructions does that. A handler
 *    of a kprobe there would come back between them: there is no kprobe (step 4).
 * 3. Now nobody stands between the instructions and nobody comes. The bytes behind the int3 are
 *    written, each processor drops what it has fetched, and the first byte replaces the int3. So
 *    a processor executes the int3 or the whole jump.
 * 4. Whoever else changes text: sites of ftrace, jump labels, static calls and alternatives are
 *    not there (jump_check.c). A kprobe is looked for with kprobe_mutex held, whenever the text is
 *    written. The bytes are compared before each change, so an int3 of the module's own keeps the
 *    jump away, too (tools/probe/int3.c). While the jump comes the kernel refuses a kprobe at the
 *    int3, as at any int3 that is not a kprobe's. If one comes between meanwhile, the jump goes
 *    again: until then that kprobe is not met. No int3 of the module's own comes where a jump is
 *    (step 5 in the head of tools/probe/set.c).
 * 5. A kprobe that comes later can stand at the beginning alone, because all of the jump is one
 *    instruction. The kernel then emulates the jump. The jump cannot go meanwhile: its first byte
 *    is kept by the kprobe. It stays, with its gate, until the kprobe has gone, and so does the
 *    module (jump_kept). Calls pass through the gate then. It stays, too, while it is held, for a
 *    breakpoint in the gate: of a session that began when it was kept, and is no user of it.
 * 6. The engine never decodes a jump: it sees the text as it was (jifl_host_lift_text). Where the
 *    engine sends a thread to the text between the instructions, the thread goes to the gate
 *    instead (jifl_jump_native): from the dispatcher, which has found no block, and in jifl_evict,
 *    which puts threads back that were interrupted in a copy. Blocks that jump to the text by
 *    themselves (emit_native_block) are dropped when the int3 stands, and the wait of step 2 is for
 *    the threads in them, too. The engine makes no more of them: it decodes what can move.
 * 7. A jump goes as it came: the int3, the bytes behind it, the first byte. Nobody stands in its
 *    middle at any time, so there is no wait. The handler of the int3 leads to the gate.
 *    In the gate single bytes change between nop and int3 (gate.c). Each is an instruction.
 * 8. A gate is used again when nobody is in it. Nobody comes to it after 7, and the state GOES
 *    ends 6. The machine is stopped, which ends all handlers of the int3 and all dispatchers that
 *    have read the state before. Then RCU tasks waits for tasks in the gate and in the stub. They
 *    do not sleep there. An int3 of a gate is executed there, too. Who puts jumps does both, and
 *    then jifl_jumps_free: a session's end waits once for all (session/session.c). A jump that goes
 *    leaves the table at once: nobody meets its int3 after the last text_poke_sync of 7, no target
 *    that has users has it, and for all else that is asked no jump is as good as one that goes.
 *    Who has found it before is waited for by RCU, whose grace period begins there.
 * 9. Somebody else's kprobe on a jump: copies end before it (jifl_host_lift_text), and what comes
 *    to it natively is counted in the gate. So no call may be led on to a copy from the gate: it
 *    would come back. The kernel tells perf of the kprobe's int3, and jifl_jump_changes marks the
 *    jump before copies are dropped. A thread that was led on before meets the kprobe twice.
 * 10. Copies of the function outlive its jump for a while: at a session's end the jump goes first
 *    (7), then jifl_evict takes the copies away, and then the gate is freed (8). They do not need
 *    the jump. They were made of the text as it was, which stands there again, and other copies
 *    call them without the gate.
 * 11. What jifl_evict writes leads to the gate of a jump that stands. So a task may sleep with an
 *    address in a gate: in a tracer's function at the site before it, which a copy has called. 8
 *    does not wait for it. But a gate is freed after jifl_evict has been there once more, and has
 *    put the text's address in the place of the gate's (leave/gate_returns.c).
 *
 * The kernel tells perf what it changes in its text. Nobody tells perf of jumps in place: its
 * decoder of Intel PT does not know them.
 *
 * jump_mutex guards who uses what; poke.h has the order of locks. Context: process.
 */
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/stop_machine.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/ksym.h"
#include "jump.h"
#include "overlay.h"
#include "poke.h"

#define KEPT_PERIOD	HZ

static DEFINE_MUTEX(jump_mutex);

static bool works;		/* else there are no jumps */
static unsigned long left;	/* RCU's state since the last jump left the table; jump_mutex */

/* --- writing -------------------------------------------------------------------------------- */

static int nothing(void *unused)
{
	return 0;
}

/* Steps 2 and 8. */
static void wait_for_threads(void)
{
	stop_machine(nothing, NULL, NULL);
	synchronize_rcu_tasks();
}

/* Has the text there these bytes, but for the first, and no kprobe? Under jifl_poke_lock. */
static bool is_free(const struct jifl_jump *j, u8 first, const u8 *bytes)
{
	const u8 *text = (const u8 *)j->begin;
	u32 i;

	for (i = 0; i < j->len; i++)
		if (jifl_overlay_has(j->begin + i))
			return false;
	return text[0] == first && !memcmp(text + 1, bytes + 1, j->len - 1);
}

/*
 * The text is as it was. What was translated meanwhile does not have what others put there. No int3
 * is met there any more, and nothing else needs to find a jump that goes: step 8.
 */
static void leave_text(struct jifl_jump *j)
{
	WRITE_ONCE(j->state, JIFL_JUMP_GOES);
	jifl_engine_invalidate(jifl_orig_at(j->begin), j->len);
	jifl_jump_remove(j);
}

/* From the int3 to the bytes: the last part of 3 and of 7. */
static void put_behind_int3(struct jifl_jump **list, u32 n, bool jump)
{
	u32 i;

	for (i = 0; i < n; i++) {
		if (!list[i]->refused)
			jifl_poke(list[i]->begin + 1, (jump ? list[i]->new : list[i]->old) + 1,
				  list[i]->len - 1);
		cond_resched();
	}
	jifl_poke_sync();
	for (i = 0; i < n; i++) {
		if (!list[i]->refused)
			jifl_poke(list[i]->begin, jump ? list[i]->new : list[i]->old, 1);
		cond_resched();
	}
	jifl_poke_sync();
}

static void put_int3(struct jifl_jump **list, u32 n, bool jump)
{
	static const u8 int3 = INT3_INSN_OPCODE;
	u32 i;

	for (i = 0; i < n; i++) {
		const u8 *bytes = jump ? list[i]->new : list[i]->old;

		list[i]->refused |= !is_free(list[i], bytes[0], bytes);
		if (list[i]->refused)
			continue;
		if (!jump) {
			WRITE_ONCE(list[i]->state, JIFL_JUMP_COMES);
			jifl_jump_add(list[i]);
		}
		jifl_poke(list[i]->begin, &int3, INT3_INSN_SIZE);
		cond_resched();
	}
	jifl_poke_sync();
	/* Step 6: copies that leave for the text between. */
	for (i = 0; i < n && !jump; i++)
		if (!list[i]->refused)
			jifl_engine_invalidate(jifl_orig_at(list[i]->begin), list[i]->len);
}

/* Steps 1 to 4. `refused` says where there is no jump, and the text is as it was. */
static void jumps_come(struct jifl_jump **list, u32 n)
{
	u32 i;

	jifl_poke_lock();
	put_int3(list, n, false);
	jifl_poke_unlock();
	if (!JIFL_HOST_PLANTED(jumps_at_once))
		wait_for_threads();
	jifl_poke_lock();
	for (i = 0; i < n; i++) {
		if (list[i]->refused || is_free(list[i], INT3_INSN_OPCODE, list[i]->old))
			continue;
		/* Somebody has put a kprobe between. The byte of the int3 is still ours. */
		list[i]->refused = true;
		jifl_poke(list[i]->begin, list[i]->old, 1);
	}
	put_behind_int3(list, n, true);
	for (i = 0; i < n; i++)
		if (!list[i]->refused)
			WRITE_ONCE(list[i]->state, JIFL_JUMP_STANDS);
		else if (list[i]->state == JIFL_JUMP_COMES)
			leave_text(list[i]);
	jifl_poke_unlock();
	left = start_poll_synchronize_rcu();
}

/* Steps 7 and 8. Nobody uses them. Those that cannot go are `refused` afterwards. */
static void jumps_go(struct jifl_jump **list, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		list[i]->refused = list[i]->held && !JIFL_HOST_PLANTED(held_let_go);
	jifl_poke_lock();
	put_int3(list, n, true);
	put_behind_int3(list, n, false);
	for (i = 0; i < n; i++)
		if (!list[i]->refused)
			leave_text(list[i]);
	jifl_poke_unlock();
	left = start_poll_synchronize_rcu();
}

/* The gates of these are free again: of jumps that have gone, or have never come (NEW). */
static void free_gates(struct jifl_jump **list, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (list[i]->state == JIFL_JUMP_GOES)
			jifl_jump_forget();
	cond_synchronize_rcu(left);
	for (i = 0; i < n; i++) {
		module_put(list[i]->module);
		memset(list[i], 0, sizeof(*list[i]));
	}
}

/* --- jumps that somebody else keeps: step 5 ------------------------------------------------- */

static u32 nkept;		/* jump_mutex */

static void keep(struct jifl_jump *j)
{
	jifl_ksym_hold(j->begin, &j->module);
	if (!nkept++)
		__module_get(THIS_MODULE);
	pr_info("a kprobe stands on a jump at %pS: the jump and the module stay until the kprobe goes\n",
		(void *)j->begin);
}

static void jump_kept(struct work_struct *work);
static DECLARE_DELAYED_WORK(kept_work, jump_kept);
static void jump_kept(struct work_struct *work)
{
	struct jifl_jump *j = NULL;

	mutex_lock(&jump_mutex);
	while ((j = jifl_gate_next(j))) {
		if (j->users || !j->evicted || j->state != JIFL_JUMP_STANDS)
			continue;
		jumps_go(&j, 1);
		if (j->refused)
			continue;
		wait_for_threads();
		free_gates(&j, 1);
		if (!--nkept)
			module_put(THIS_MODULE);
		break;
	}
	if (nkept)
		schedule_delayed_work(&kept_work, KEPT_PERIOD);
	mutex_unlock(&jump_mutex);
}

/* --- who uses them -------------------------------------------------------------------------- */

/* One of jumps that exist, for the function: another user. */
static struct jifl_jump *join(unsigned long function)
{
	struct jifl_jump *j = jifl_jump_at(jifl_jump_begin(function));

	if (!j || j->state != JIFL_JUMP_STANDS)
		return NULL;
	if (!j->users++) {
		/* It was kept. */
		j->refused = false;
		module_put(j->module);
		j->module = NULL;
		if (!--nkept)
			module_put(THIS_MODULE);
	}
	if (!j->taken)
		return j;
	/* The kprobe may have gone. */
	jifl_poke_lock();
	if (!jifl_overlay_has(j->begin))
		WRITE_ONCE(j->taken, false);
	jifl_poke_unlock();
	return j;
}

/* A jump that is not in the text yet. looked: what was learned of it; NULL: nothing. */
static struct jifl_jump *prepare(unsigned long function, const struct jifl_jump *looked,
				 unsigned long stub)
{
	struct jifl_jump *j = jifl_gate_take();

	if (!j)
		return NULL;
	if (((looked && jifl_jump_learn_again(j, looked)) || jifl_jump_learn(j, function)) &&
	    jifl_gate_write(j, stub)) {
		j->users = 1;
		return j;
	}
	memset(j, 0, sizeof(*j));
	return NULL;
}

/* Puts the refused ones behind the others. Returns how many others there are. */
static u32 set_apart(struct jifl_jump **list, u32 n)
{
	u32 i, k = 0;

	for (i = 0; i < n; i++)
		if (!list[i]->refused) {
			swap(list[i], list[k]);
			k++;
		}
	return k;
}

/* Of n that are prepared, those that then stand are not refused. */
static void make_all(struct jifl_jump **list, u32 n)
{
	u32 i, k;

	jifl_jumps_check(list, n);
	k = set_apart(list, n);
	for (i = k; i < n; i++)
		memset(list[i], 0, sizeof(*list[i]));
	if (!k)
		return;
	jumps_come(list, k);
	i = set_apart(list, k);
	if (i == k)
		return;
	wait_for_threads();
	free_gates(list + i, k - i);
}

void jifl_jumps_get(const unsigned long *functions, const bool *make, u32 n, unsigned long stub,
		    const struct jifl_jumps_looked *looked, struct jifl_jump **result)
{
	struct jifl_jump **list = JIFL_ALLOC(kvcalloc(n, sizeof(*list), GFP_KERNEL));
	u32 i, k = 0, at = 0;

	mutex_lock(&jump_mutex);
	for (i = 0; i < n; i++) {
		result[i] = join(functions[i]);
		if (result[i] || !works || !list || !make[i])
			continue;
		result[i] = prepare(functions[i], jifl_jumps_find_looked(looked, &at, functions[i]),
				    stub);
		if (result[i])
			list[k++] = result[i];
		cond_resched();
	}
	if (k)
		make_all(list, k);
	/* What does not stand was forgotten. */
	for (i = 0; i < n; i++)
		if (result[i] && !result[i]->begin)
			result[i] = NULL;
	mutex_unlock(&jump_mutex);
	kvfree(list);
}

int jifl_jumps_may(const unsigned long *functions, u32 n, bool *may,
		   struct jifl_jumps_looked **looked)
{
	int ret = 0;

	mutex_lock(&jump_mutex);
	if (works)
		ret = jifl_jumps_look(functions, n, may, looked);
	else
		memset(may, 0, n * sizeof(*may));
	mutex_unlock(&jump_mutex);
	return ret;
}

bool jifl_jump_hold(unsigned long addr, bool held)
{
	struct jifl_jump *j;

	mutex_lock(&jump_mutex);
	j = jifl_jump_of(addr);
	if (j)
		j->held += held ? 1 : -1;
	mutex_unlock(&jump_mutex);
	return j;
}

void jifl_jump_arm(const unsigned long *addresses, u32 n, bool armed)
{
	mutex_lock(&jump_mutex);
	jifl_gates_arm(addresses, n, armed);
	mutex_unlock(&jump_mutex);
}

u32 jifl_jumps_put(struct jifl_jump **list, u32 n)
{
	u32 i, k = 0, gone;

	mutex_lock(&jump_mutex);
	for (i = 0; i < n; i++)
		if (!--list[i]->users) {
			list[i]->evicted = false;
			swap(list[i], list[k]);
			k++;
		}
	if (k)
		jumps_go(list, k);
	gone = set_apart(list, k);
	for (i = gone; i < k; i++)
		keep(list[i]);
	if (nkept)
		schedule_delayed_work(&kept_work, KEPT_PERIOD);
	mutex_unlock(&jump_mutex);
	return gone;
}

void jifl_jumps_free(struct jifl_jump **list, u32 gone, u32 n)
{
	mutex_lock(&jump_mutex);
	while (n-- > gone)
		list[n]->evicted = true;
	free_gates(list, gone);
	mutex_unlock(&jump_mutex);
}

/* --- coming up ------------------------------------------------------------------------------ */

int jifl_jump_init(void)
{
	works = jifl_poke_works() && jifl_gates_open();
	return 0;
}

void jifl_jump_exit(void)
{
	cancel_delayed_work_sync(&kept_work);
	jifl_gates_close();
}
