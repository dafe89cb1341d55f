// SPDX-License-Identifier: GPL-2.0
/*
 * Answers plugins' questions about handles.
 *
 * Context: inside callbacks, with interrupts off; for handles of routines: any but NMI.
 */
#include <linux/module.h>

#include "../compat/ksym.h"
#include "../text/function.h"
#include "plugin.h"

int jifl_syscall_nr(struct jifl_plugin *p, syscall_point_t *point)
{
	struct jifl_round *r = jifl_round_of(p, point, JIFL_HANDLE_POINT, "syscall_nr");

	if (!r)
		return -EPERM;
	if (r->of->functions)
		return jifl_plugin_mistake(p, -EINVAL, "syscall_nr", "it is no system call");
	return r->target->id;
}
EXPORT_SYMBOL_GPL(jifl_syscall_nr);

unsigned long jifl_point_address(struct jifl_plugin *p, target_point_t *point)
{
	struct jifl_round *r = jifl_round_of(p, point, JIFL_HANDLE_POINT, "target_address");

	if (!r)
		return 0;
	return r->of->functions ? r->target->id : r->target->address;
}
EXPORT_SYMBOL_GPL(jifl_point_address);

/* A routine's handle tells the routine for ever, in any context. */
unsigned long jifl_routine_address(struct jifl_plugin *p, routine_t *routine)
{
	return jifl_round_routine(p, routine, "routine_address");
}
EXPORT_SYMBOL_GPL(jifl_routine_address);

static int jifl_routine_ask(struct jifl_plugin *p, routine_t *routine, char *name, size_t size,
			    const char *what,
			    void (*ask)(unsigned long addr, char *name, size_t size))
{
	unsigned long address = jifl_round_routine(p, routine, what);

	if (!address)
		return -EPERM;
	if (!name || !size)
		return jifl_plugin_mistake(p, -EINVAL, what, "no room for a name");
	ask(address, name, size);
	return 0;
}

int jifl_routine_name(struct jifl_plugin *p, routine_t *routine, char *name, size_t size)
{
	return jifl_routine_ask(p, routine, name, size, "routine_name", jifl_ksym_name);
}
EXPORT_SYMBOL_GPL(jifl_routine_name);

int jifl_routine_module(struct jifl_plugin *p, routine_t *routine, char *name, size_t size)
{
	return jifl_routine_ask(p, routine, name, size, "routine_module", jifl_ksym_module);
}
EXPORT_SYMBOL_GPL(jifl_routine_module);

int jifl_bb_size(struct jifl_plugin *p, bb_t *bb)
{
	struct jifl_round *r = jifl_round_of(p, bb, JIFL_HANDLE_BB, "bb_size");

	return r ? r->block->count : -EPERM;
}
EXPORT_SYMBOL_GPL(jifl_bb_size);

unsigned long jifl_bb_address(struct jifl_plugin *p, bb_t *bb)
{
	struct jifl_round *r = jifl_round_of(p, bb, JIFL_HANDLE_BB, "bb_address");

	return r ? r->block->addr.v : 0;
}
EXPORT_SYMBOL_GPL(jifl_bb_address);

/* NULL if the block has no such instruction. An index of -1 arrives as a large number. */
static ins_t *jifl_ins_at(struct jifl_round *r, u32 index)
{
	if (index >= r->block->ninsns)
		return NULL;
	return jifl_round_handle(r, JIFL_HANDLE_INS, index);
}

ins_t *jifl_ins_first(struct jifl_plugin *p, bb_t *bb)
{
	struct jifl_round *r = jifl_round_of(p, bb, JIFL_HANDLE_BB, "ins_first");

	return r ? jifl_ins_at(r, 0) : NULL;
}
EXPORT_SYMBOL_GPL(jifl_ins_first);

ins_t *jifl_ins_last(struct jifl_plugin *p, bb_t *bb)
{
	struct jifl_round *r = jifl_round_of(p, bb, JIFL_HANDLE_BB, "ins_last");

	return r ? jifl_ins_at(r, r->block->ninsns - 1) : NULL;
}
EXPORT_SYMBOL_GPL(jifl_ins_last);

ins_t *jifl_ins_next(struct jifl_plugin *p, ins_t *ins)
{
	struct jifl_round *r = jifl_round_of(p, ins, JIFL_HANDLE_INS, "ins_next");

	return r ? jifl_ins_at(r, jifl_round_index(ins) + 1) : NULL;
}
EXPORT_SYMBOL_GPL(jifl_ins_next);

ins_t *jifl_ins_prev(struct jifl_plugin *p, ins_t *ins)
{
	struct jifl_round *r = jifl_round_of(p, ins, JIFL_HANDLE_INS, "ins_prev");

	return r ? jifl_ins_at(r, jifl_round_index(ins) - 1) : NULL;
}
EXPORT_SYMBOL_GPL(jifl_ins_prev);

unsigned long jifl_ins_address(struct jifl_plugin *p, ins_t *ins)
{
	struct jifl_round *r = jifl_round_of(p, ins, JIFL_HANDLE_INS, "ins_address");

	return r ? r->block->insns[jifl_round_index(ins)].addr.v : 0;
}
EXPORT_SYMBOL_GPL(jifl_ins_address);

static const struct ir_insn *jifl_ins_of(struct jifl_plugin *p, ins_t *ins, const char *what)
{
	struct jifl_round *r = jifl_round_of(p, ins, JIFL_HANDLE_INS, what);

	return r ? &r->block->insns[jifl_round_index(ins)] : NULL;
}

enum jifl_ins_type jifl_ins_type(struct jifl_plugin *p, ins_t *ins)
{
	/* NULL is past an end of the block. */
	const struct ir_insn *insn = ins ? jifl_ins_of(p, ins, "ins_type") : NULL;

	return insn ? insn->type : ins_other;
}
EXPORT_SYMBOL_GPL(jifl_ins_type);

/*
 * ins_type() of the block's conditional jump. A block has at most one, its last instruction.
 * Without one: INS_TYPES, which ins_type() returns for no instruction.
 */
enum jifl_ins_type jifl_ins_jcc(struct jifl_plugin *p)
{
	const struct jifl_round *r = irqs_disabled() ? this_cpu_ptr(&jifl_round) : NULL;
	const struct ir_insn *last;

	if (!r || r->plugin != p || !r->block) {
		jifl_plugin_mistake(p, -EPERM, "ins_jcc",
				    "no callback of a routine, block or instruction runs");
		return INS_TYPES;
	}
	last = &r->block->insns[r->block->ninsns - 1];
	return ir_kind_is_conditional(last->kind) ? last->type : INS_TYPES;
}
EXPORT_SYMBOL_GPL(jifl_ins_jcc);

unsigned long jifl_ins_target(struct jifl_plugin *p, ins_t *ins)
{
	const struct ir_insn *insn = jifl_ins_of(p, ins, "ins_target");

	return insn ? insn->target.v : 0;
}
EXPORT_SYMBOL_GPL(jifl_ins_target);

static unsigned int jifl_ins_ask(struct jifl_plugin *p, ins_t *ins, const char *what)
{
	const struct ir_insn *insn = jifl_ins_of(p, ins, what);

	return insn ? jifl_engine_properties(insn) : 0;
}

unsigned int jifl_ins_properties(struct jifl_plugin *p, ins_t *ins)
{
	return jifl_ins_ask(p, ins, "ins_properties") & (INS_PREFIX_LOCK - 1);
}
EXPORT_SYMBOL_GPL(jifl_ins_properties);

bool jifl_ins_lock_prefix(struct jifl_plugin *p, ins_t *ins)
{
	return jifl_ins_ask(p, ins, "ins_lock_prefix") & INS_PREFIX_LOCK;
}
EXPORT_SYMBOL_GPL(jifl_ins_lock_prefix);

bool jifl_ins_branch_hint(struct jifl_plugin *p, ins_t *ins)
{
	return jifl_ins_ask(p, ins, "ins_branch_hint") & (INS_PREFIX_TAKEN | INS_PREFIX_NOT_TAKEN);
}
EXPORT_SYMBOL_GPL(jifl_ins_branch_hint);

bool jifl_ins_bnt_prefix(struct jifl_plugin *p, ins_t *ins)
{
	return jifl_ins_ask(p, ins, "ins_bnt_prefix") & INS_PREFIX_NOT_TAKEN;
}
EXPORT_SYMBOL_GPL(jifl_ins_bnt_prefix);

/* True if value is a register, and the instruction reads it, or writes it. */
static bool jifl_ins_uses(struct jifl_plugin *p, ins_t *ins, int value, bool writes,
			  const char *what)
{
	const struct ir_insn *insn = jifl_ins_of(p, ins, what);
	u16 read, written;

	if (!insn)
		return false;
	if (value < VALUE_RAX || value > VALUE_R15) {
		jifl_plugin_mistake(p, -EINVAL, what, "not a register");
		return false;
	}
	jifl_engine_uses(insn, &read, &written);
	return (writes ? written : read) >> (value - VALUE_RAX) & 1;
}

bool jifl_ins_reads_reg(struct jifl_plugin *p, ins_t *ins, int value)
{
	return jifl_ins_uses(p, ins, value, false, "ins_reads_reg");
}
EXPORT_SYMBOL_GPL(jifl_ins_reads_reg);

bool jifl_ins_writes_reg(struct jifl_plugin *p, ins_t *ins, int value)
{
	return jifl_ins_uses(p, ins, value, true, "ins_writes_reg");
}
EXPORT_SYMBOL_GPL(jifl_ins_writes_reg);

int jifl_ins_memory_operands(struct jifl_plugin *p, ins_t *ins, struct ins_memory *m, int max)
{
	const struct ir_insn *insn = jifl_ins_of(p, ins, "ins_memory_operands");

	if (!insn)
		return -EPERM;
	if (!m || max < 0)
		return jifl_plugin_mistake(p, -EINVAL, "ins_memory_operands", "no room for them");
	return jifl_engine_memory(insn, m, max);
}
EXPORT_SYMBOL_GPL(jifl_ins_memory_operands);
