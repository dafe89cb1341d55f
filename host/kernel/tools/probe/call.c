// SPDX-License-Identifier: GPL-2.0
/*
 * Calls functions of plugins where places are executed: in copies as inserted code, natively in the
 * handler of a breakpoint (catch.c). The arguments are the same.
 *
 * Why no function of a plugin is called, or runs, when the plugin's code and data may be gone:
 *
 * 1. The module of a started plugin is in use, so it is not unloaded. Sessions of its probes start
 *    and end while it is started: plugin/plugin.c ends what the plugin has left, before it gives
 *    the module back. With rmmod -f the same is done in the module's exit, before its text goes.
 * 2. Two things call the function: a copy that has the insert, and the handler. jifl_probe_withdraw
 *    takes the rows away, so no new copy has the insert. It drops the copies that have it: a thread
 *    in such a copy meets an int3 at the next instruction, and goes on in a new one.
 * 3. When jifl_probe_clear has returned no handler runs that has found the place on a list.
 * 4. Then a thread may be between the beginning of the insert and its end, or in the function.
 *    jifl_evict stops the machine: no interrupt is there any more. And it waits for RCU tasks: no
 *    task is. Therefore the function must not sleep: a task that sleeps there would have left
 *    in the eyes of RCU. Inlined code lies in the copy, and uses the plugin's data meanwhile.
 * 5. After that no thread comes to the insert: the copy is dropped, and return addresses on stacks
 *    lead to instructions, not to inserted code.
 *
 * One place of a session can go alone (jifl_probe_lift): steps 2 and 3 are done for it, and with
 * `wait` step 4. Its struct jifl_probe_call is read when an insert is written, by the handler, and
 * by jifl_probe_guarded, which copies call. So it may go when step 4 is done.
 *
 * Why the function is called once for each execution: tool.c says why a place's counter counts it
 * once. The call stands where the counter would, and the handler calls where it would count. But
 * the handler does not call while code of the module runs on the CPU. That is an execution by the
 * module itself, or by what a plugin's function has called. Such code may hold a lock of the
 * plugin's objects. Nor does it in an NMI, which may have interrupted such code, or the function
 * itself. These executions are counted as not called, if the call's condition holds.
 *
 * Why no function is called inside another one of the same CPU and level: a function without a
 * guard is a leaf: no call stands in it, and no jump out of it (jifl_engine_inlines). A copy that
 * has no room for it calls it as it is, with interrupts on, and it is a leaf there, too. So does
 * each copy where the function is given all registers: it is not inlined then. Any other function
 * is called by jifl_probe_guarded, or by the handler. Both do so with interrupts off, and as code
 * of the module (jifl_own_begin): what the function calls passes its door, and natively meets the
 * handler, which does not call. So there is no recursion.
 *
 * The function may walk the stack, and be called inside somebody's walk. What that walk keeps for
 * itself is kept (jifl_unwind_keep). Leaves walk nothing.
 *
 * Why copies and the handler give the same arguments: the insert is made once, of the instruction
 * that stood there at the start. A copy of another instruction gets no insert, so the place counts
 * as one without room, and is native. The handler has the registers as they are before the
 * instruction. A copy's insert on a way of a branch reads them behind it, but no branch changes
 * what an insert may read.
 *
 * Contexts: inserting: under the engine lock; calling: an int3 exception; lifting: process, sleeps.
 */
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/string.h>
#include <asm/irqflags.h>
#include <asm/processor-flags.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/preempt.h"
#include "../../run/unwind.h"
#include "../../store/percpu.h"
#include "../../session/session.h"
#include "probe.h"
#include "act.h"
#include "calls.h"

bool jifl_probe_decode(unsigned long address, struct ir_insn *insn)
{
	enum jifl_cause cause;
	unsigned long cookie;
	bool known;

	cookie = jifl_host_lock();
	known = jifl_host_classify(jifl_orig_at(address), &cause) != JIFL_TEXT_FOREIGN;
	if (known)
		jifl_engine_insn(jifl_orig_at(address), insn);
	jifl_host_unlock(cookie);
	return known && insn->len;
}

/* --- calls with a guard --------------------------------------------------------------------- */

typedef void (*jifl_probe_fn)(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f);

/* Called from copies, and by the handler. */
static void jifl_probe_guarded(const struct jifl_probe_call *call, u64 a, u64 b, u64 c, u64 d,
			       u64 e)
{
	const unsigned long before = native_save_fl(), flags = jifl_own_irq_save();
	const u64 outer = jifl_unwind_keep();

	((jifl_probe_fn)(unsigned long)call->fn)(a, b, c, d, e, 0);
	jifl_unwind_give_back(outer);
	jifl_own_irq_restore(flags);
	/* A place may stand where the kernel accesses user memory. The function has ended that. */
	if (before & X86_EFLAGS_AC)
		jifl_preempt_set_flags(before);
}

int jifl_probe_guard(struct jifl_probe_call *call)
{
	struct ir_insert *ins = &call->insert;
	const unsigned long cookie = jifl_host_lock();
	const bool is_leaf = jifl_engine_inlines(ins->fn);

	jifl_host_unlock(cookie);
	if (is_leaf || call->fn)
		return 0;
	if (ins->nargs == IR_CALL_ARGS)
		return -E2BIG;
	memmove(&ins->args[1], &ins->args[0], ins->nargs * sizeof(ins->args[0]));
	ins->args[0] = (unsigned long)call;
	ins->nargs++;
	ins->fetched <<= 1;
	call->taken <<= 1;
	call->fn = ins->fn;
	ins->fn = (unsigned long)jifl_probe_guarded;
	return 0;
}

/* --- copies --------------------------------------------------------------------------------- */

/* Is it the instruction that the arguments were made for? */
static bool jifl_probe_same(const struct ir_insn *insn, const struct jifl_probe_call *call)
{
	return insn->len == call->insn.len && insn->kind == call->insn.kind &&
	       !memcmp(insn->bytes, call->insn.bytes, insn->len);
}

static bool jifl_probe_put(struct ir_block *b, enum ir_place at_place, u16 at,
			   const struct ir_insert *insert)
{
	struct ir_insert *ins = ir_block_insert(b, at_place, at);

	if (!ins)
		return false;
	*ins = *insert;
	ins->place = at_place;
	ins->at = at;
	jifl_probe_keep_all(ins);
	return true;
}

/* A call that is told which way the branch goes stands on both. */
static bool jifl_probe_put_both(struct ir_block *b, u16 at, const struct jifl_probe_call *call)
{
	struct ir_insert insert = call->insert;
	u32 i;

	if (!ir_block_has_room(b, 2) || !jifl_probe_put(b, IR_TAKEN, at, &insert))
		return false;
	for (i = 0; i < insert.nargs; i++)
		if (call->taken & 1u << i)
			insert.args[i] = 0;
	return jifl_probe_put(b, IR_AFTER, at, &insert);
}

void jifl_probe_insert_call(struct ir_block *b, struct jifl_probe_place *place, u16 at)
{
	static const u8 places[] = {
		[JIFL_SPLICE_BEFORE] = IR_BEFORE,
		[JIFL_SPLICE_TAKEN] = IR_TAKEN,
		[JIFL_SPLICE_NOT_TAKEN] = IR_AFTER,
	};
	const struct jifl_probe_call *call = place->work->call;

	if (!jifl_probe_same(&b->insns[at], call) ||
	    !(call->taken ? jifl_probe_put_both(b, at, call) :
			    jifl_probe_put(b, places[place->where], at, &call->insert)))
		WRITE_ONCE(place->refused, true);
}

/* --- natively ------------------------------------------------------------------------------- */

static u64 jifl_probe_cell(s32 disp)
{
	u64 value;

	asm volatile("movq %%gs:(%1), %0" : "=r" (value) : "r" ((long)disp));
	return value;
}

/* Memory that the instruction itself is about to read, or that is the kernel's own. */
static u64 jifl_probe_load(u64 address, u8 width)
{
	u64 value = 0;

	jifl_peek_number(address, width, false, &value);
	return value;
}

/* What emit/args.c fetches in copies. */
static u64 jifl_probe_fetch(const struct ir_insert *ins, const struct ir_fetch *f,
			    struct pt_regs *regs)
{
	u64 value = f->base == IR_REG_NONE ? 0 : jifl_number_reg(regs, f->base);
	u32 i;

	switch (f->how) {
	case IR_FETCH_REG:
		return value;
	case IR_FETCH_REG32:
		return (u32)value;
	case IR_FETCH_CONTEXT:
		return (unsigned long)regs;
	case IR_FETCH_CELL:
		return jifl_probe_cell(f->disp);
	case IR_FETCH_THEN:
		value = jifl_probe_cell(f->disp);
		for (i = 0; i < ARRAY_SIZE(ins->then); i++)
			value = jifl_probe_load(value + ins->then[i], 8);
		return value;
	default:
		break;
	}
	if (f->index != IR_REG_NONE)
		value += jifl_number_reg(regs, f->index) * f->scale;
	value += (s64)f->disp;
	if (f->how == IR_FETCH_ADDRESS)
		return value;
	return jifl_probe_load(value, f->how == IR_FETCH_LOAD32 ? 4 : 8);
}

static bool jifl_probe_holds(const struct ir_insert *ins, const struct pt_regs *regs)
{
	const struct ir_source *when = &ins->when;
	u64 value;

	if (!when->width)
		return true;
	value = jifl_number_reg(regs, when->reg);
	if (when->memory)
		value = jifl_probe_load(value + when->disp, when->width);
	return when->width == 4 ? (u32)value == (u32)ins->equals : value == ins->equals;
}

static void jifl_probe_call_fn(const struct jifl_probe_call *call, struct pt_regs *regs, bool taken)
{
	const struct ir_insert *ins = &call->insert;
	u64 args[IR_CALL_ARGS] = {};
	u32 i;

	for (i = 0; i < ins->nargs; i++) {
		if (ins->fetched & 1u << i)
			args[i] = jifl_probe_fetch(ins, &ins->fetches[i], regs);
		else
			args[i] = call->taken & 1u << i ? taken : ins->args[i];
	}
	((jifl_probe_fn)(unsigned long)ins->fn)(args[0], args[1], args[2], args[3], args[4],
						args[5]);
}

void jifl_probe_call_native(struct jifl_probe_place *place, struct pt_regs *regs, bool taken)
{
	const struct jifl_probe_call *call = place->work->call;
	/* The kernel says where the int3 ends. */
	const unsigned long ip = regs->ip;
	const struct ir_fetch *context;
	u64 outer;

	if (READ_ONCE(place->stopped) || JIFL_HOST_PLANTED(natives_uncalled) ||
	    !jifl_probe_holds(&call->insert, regs))
		return;
	if (call->natively) {
		call->natively(call);
		return;
	}
	/* The exception itself is one NMI level. */
	if (jifl_probe_in_own_code() || (preempt_count() & NMI_MASK) != NMI_OFFSET) {
		atomic64_inc(&place->work->nested);
		return;
	}
	context = ir_insert_context(&call->insert);
	regs->ip = context ? (long)context->disp : place->address;
	jifl_own_begin();
	outer = jifl_unwind_keep();
	jifl_probe_call_fn(call, regs, taken);
	jifl_unwind_give_back(outer);
	jifl_own_end();
	regs->ip = ip;
}

/* --- lifting -------------------------------------------------------------------------------- */

void jifl_probe_lift(struct jifl_session *s, bool (*goes)(void *arg, u32 index), void *arg,
		     bool wait)
{
	struct jifl_probe *p = s->tool_data;
	u32 i;

	mutex_lock(&jifl_session_mutex);
	for (i = 0; i < p->nplaces; i++)
		if (goes(arg, i))
			WRITE_ONCE(p->places[i].stopped, true);
	jifl_probe_withdraw_stopped(p);
	jifl_probe_clear_stopped(p);
	for (i = 0; i < p->nplaces; i++)
		p->places[i].lifted = p->places[i].stopped;
	/* Copies of instructions go when no int3 of the module's own is left (int3.c). */
	if (wait || p->had_own)
		jifl_probe_wait();
	mutex_unlock(&jifl_session_mutex);
}

const char *jifl_probe_loss(const struct jifl_session *s, u32 index, u64 *missed)
{
	const struct jifl_probe *p = s->tool_data;
	const struct jifl_probe_place *place = &p->places[index];

	*missed = 0;
	if (READ_ONCE(place->refused))
		return "a copy had no room for the call, or was of another instruction";
	if (!place->site)
		return NULL;
	if (READ_ONCE(place->site->lifted))
		return "kprobes were switched off";
	*missed = jifl_probe_site_missed(place->site);
	return *missed ? "in the handler of a kprobe" : NULL;
}

u64 jifl_probe_uncalled(const struct jifl_session *s, u32 index)
{
	const struct jifl_probe *p = s->tool_data;

	return atomic64_read(&p->works[index].nested);
}
