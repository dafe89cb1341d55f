// SPDX-License-Identifier: GPL-2.0
/*
 * What plugins are told of what a handle stands for.
 *
 * Context: inside callbacks; interrupts are off.
 */
#include <linux/module.h>

#include "../compat/ksym.h"
#include "../text/function.h"
#include "plugin.h"

/* Where the routine begins that the round is about. */
static unsigned long jifl_round_routine(const struct jifl_round *r)
{
	return r->enters ? r->block->addr.v : jifl_function_at(r->block->addr.v)->start;
}

int jifl_syscall_nr(struct jifl_plugin *p, syscall_point_s *point)
{
	struct jifl_round *r = jifl_handle_round(p, point, JIFL_HANDLE_POINT, "syscall_nr");

	return r ? r->nr : -EPERM;
}
EXPORT_SYMBOL_GPL(jifl_syscall_nr);

unsigned long jifl_routine_address(struct jifl_plugin *p, routine_s *routine)
{
	struct jifl_round *r = jifl_handle_round(p, routine, JIFL_HANDLE_ROUTINE,
						 "routine_address");

	return r ? jifl_round_routine(r) : 0;
}
EXPORT_SYMBOL_GPL(jifl_routine_address);

int jifl_routine_name(struct jifl_plugin *p, routine_s *routine, char *name, size_t size)
{
	struct jifl_round *r = jifl_handle_round(p, routine, JIFL_HANDLE_ROUTINE, "routine_name");

	if (!r)
		return -EPERM;
	if (!name || !size)
		return jifl_plugin_mistake(p, -EINVAL, "routine_name", "no room for a name");
	jifl_ksym_name(jifl_round_routine(r), name, size);
	return 0;
}
EXPORT_SYMBOL_GPL(jifl_routine_name);

int jifl_routine_module(struct jifl_plugin *p, routine_s *routine, char *name, size_t size)
{
	struct jifl_round *r = jifl_handle_round(p, routine, JIFL_HANDLE_ROUTINE, "routine_module");

	if (!r)
		return -EPERM;
	if (!name || !size)
		return jifl_plugin_mistake(p, -EINVAL, "routine_module", "no room for a name");
	jifl_ksym_module(jifl_round_routine(r), name, size);
	return 0;
}
EXPORT_SYMBOL_GPL(jifl_routine_module);

int jifl_bb_size(struct jifl_plugin *p, bb_s *bb)
{
	struct jifl_round *r = jifl_handle_round(p, bb, JIFL_HANDLE_BB, "bb_size");

	return r ? r->block->count : -EPERM;
}
EXPORT_SYMBOL_GPL(jifl_bb_size);

unsigned long jifl_bb_address(struct jifl_plugin *p, bb_s *bb)
{
	struct jifl_round *r = jifl_handle_round(p, bb, JIFL_HANDLE_BB, "bb_address");

	return r ? r->block->addr.v : 0;
}
EXPORT_SYMBOL_GPL(jifl_bb_address);

/* NULL when the block has no such instruction; -1 comes as a large number. */
static ins_s *jifl_ins_at(struct jifl_round *r, u32 index)
{
	if (index >= r->block->ninsns)
		return NULL;
	return jifl_handle(r, JIFL_HANDLE_INS, index);
}

ins_s *jifl_ins_first(struct jifl_plugin *p, bb_s *bb)
{
	struct jifl_round *r = jifl_handle_round(p, bb, JIFL_HANDLE_BB, "ins_first");

	return r ? jifl_ins_at(r, 0) : NULL;
}
EXPORT_SYMBOL_GPL(jifl_ins_first);

ins_s *jifl_ins_last(struct jifl_plugin *p, bb_s *bb)
{
	struct jifl_round *r = jifl_handle_round(p, bb, JIFL_HANDLE_BB, "ins_last");

	return r ? jifl_ins_at(r, r->block->ninsns - 1) : NULL;
}
EXPORT_SYMBOL_GPL(jifl_ins_last);

ins_s *jifl_ins_next(struct jifl_plugin *p, ins_s *ins)
{
	struct jifl_round *r = jifl_handle_round(p, ins, JIFL_HANDLE_INS, "ins_next");

	return r ? jifl_ins_at(r, jifl_handle_index(ins) + 1) : NULL;
}
EXPORT_SYMBOL_GPL(jifl_ins_next);

ins_s *jifl_ins_prev(struct jifl_plugin *p, ins_s *ins)
{
	struct jifl_round *r = jifl_handle_round(p, ins, JIFL_HANDLE_INS, "ins_prev");

	return r ? jifl_ins_at(r, jifl_handle_index(ins) - 1) : NULL;
}
EXPORT_SYMBOL_GPL(jifl_ins_prev);

unsigned long jifl_ins_address(struct jifl_plugin *p, ins_s *ins)
{
	struct jifl_round *r = jifl_handle_round(p, ins, JIFL_HANDLE_INS, "ins_address");

	return r ? r->block->insns[jifl_handle_index(ins)].addr.v : 0;
}
EXPORT_SYMBOL_GPL(jifl_ins_address);

enum jifl_ins_type jifl_ins_type(struct jifl_plugin *p, ins_s *ins)
{
	struct jifl_round *r = jifl_handle_round(p, ins, JIFL_HANDLE_INS, "ins_type");

	if (!r)
		return INS_TYPE_OTHER;
	return r->block->insns[jifl_handle_index(ins)].type;
}
EXPORT_SYMBOL_GPL(jifl_ins_type);

static const struct ir_insn *jifl_ins_of(struct jifl_plugin *p, ins_s *ins, const char *what)
{
	struct jifl_round *r = jifl_handle_round(p, ins, JIFL_HANDLE_INS, what);

	return r ? &r->block->insns[jifl_handle_index(ins)] : NULL;
}

unsigned long jifl_ins_target(struct jifl_plugin *p, ins_s *ins)
{
	const struct ir_insn *insn = jifl_ins_of(p, ins, "ins_target");

	return insn ? insn->target.v : 0;
}
EXPORT_SYMBOL_GPL(jifl_ins_target);

enum jifl_ins_condition jifl_ins_condition(struct jifl_plugin *p, ins_s *ins)
{
	const struct ir_insn *insn = jifl_ins_of(p, ins, "ins_condition");

	if (!insn || !ir_kind_is_conditional(insn->kind))
		return INS_IF_NONE;
	return insn->kind == IR_JCC ? insn->cc : INS_IF_COUNT;
}
EXPORT_SYMBOL_GPL(jifl_ins_condition);

unsigned int jifl_ins_properties(struct jifl_plugin *p, ins_s *ins)
{
	const struct ir_insn *insn = jifl_ins_of(p, ins, "ins_properties");

	return insn ? jifl_engine_properties(insn) : 0;
}
EXPORT_SYMBOL_GPL(jifl_ins_properties);

/* Is value a register, and one of those that the instruction reads, or writes? */
static bool jifl_ins_uses(struct jifl_plugin *p, ins_s *ins, int value, bool writes, const char *what)
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

bool jifl_ins_reads_reg(struct jifl_plugin *p, ins_s *ins, int value)
{
	return jifl_ins_uses(p, ins, value, false, "ins_reads_reg");
}
EXPORT_SYMBOL_GPL(jifl_ins_reads_reg);

bool jifl_ins_writes_reg(struct jifl_plugin *p, ins_s *ins, int value)
{
	return jifl_ins_uses(p, ins, value, true, "ins_writes_reg");
}
EXPORT_SYMBOL_GPL(jifl_ins_writes_reg);

int jifl_ins_memory_operands(struct jifl_plugin *p, ins_s *ins, struct ins_memory *m, int max)
{
	const struct ir_insn *insn = jifl_ins_of(p, ins, "ins_memory_operands");

	if (!insn)
		return -EPERM;
	if (!m || max < 0)
		return jifl_plugin_mistake(p, -EINVAL, "ins_memory_operands", "no room for them");
	return jifl_engine_memory(insn, m, max);
}
EXPORT_SYMBOL_GPL(jifl_ins_memory_operands);
