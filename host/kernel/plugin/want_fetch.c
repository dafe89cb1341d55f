// SPDX-License-Identifier: GPL-2.0
/*
 * Turns arguments of plugins (ARG_REG and those after it in jifl.h) into fetches of the engine, or
 * into constants if they follow from the place of the insertion.
 *
 * Context: inside callbacks; interrupts are off. The engine lock is held, except at entries and
 * exits of system calls, where no argument is about an instruction.
 */
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/stddef.h>

#include "../compat/compat.h"
#include "plugin.h"

static_assert(INS_REG_NONE == IR_REG_NONE);

static struct ir_fetch *jifl_fetch_begin(struct jifl_wanted *w, u32 i, enum ir_fetch_how how)
{
	w->ins.fetched |= 1u << i;
	w->ins.fetches[i] = (struct ir_fetch){ .how = how, .base = IR_REG_NONE,
						.index = IR_REG_NONE, .scale = 1 };
	return &w->ins.fetches[i];
}

/* A register, or memory to which one points. Conditions and histograms have the same values. */
static const char *jifl_fetch_value(struct jifl_wanted *w, u32 i, int value)
{
	struct ir_fetch *f;
	struct ir_source s;

	if (!jifl_want_source(w->at, value, &s))
		return "there is no such value there";
	if (s.memory)
		f = jifl_fetch_begin(w, i, s.width == 4 ? IR_FETCH_LOAD32 : IR_FETCH_LOAD);
	else
		f = jifl_fetch_begin(w, i, s.width == 4 ? IR_FETCH_REG32 : IR_FETCH_REG);
	f->base = s.reg;
	f->disp = s.disp;
	w->needs_return |= (value & ~JIFL_VALUE_LOW) == VALUE_RETVAL;
	return NULL;
}

/* Address at which the kernel goes on: the instruction's, the next one's, or its target. */
static u64 jifl_fetch_ip(const struct jifl_wanted *w)
{
	if (!w->insn || w->place == IR_BEFORE)
		return w->address;
	return w->place == IR_TAKEN ? w->insn->target.v : w->insn->addr.v + w->insn->len;
}

/* All registers. At a system call's entry: those of its caller, its handler's argument. */
static const char *jifl_fetch_context(struct jifl_wanted *w, u32 i)
{
	if (w->at == JIFL_AT_EXIT || w->at == JIFL_AT_CALL)
		return w->functions ? "there are no registers where a function is entered or left" :
				      "there are no registers at the exit of a system call";
	if (w->at == JIFL_AT_ENTRY) {
		jifl_fetch_begin(w, i, IR_FETCH_REG)->base = IR_RDI;
		return NULL;
	}
	if (ir_insert_context(&w->ins))
		return "ARG_CONTEXT more than once";
	if (w->ins.when.width)
		return "ARG_CONTEXT with IF_EQUAL";
	jifl_fetch_begin(w, i, IR_FETCH_CONTEXT)->disp = (s32)jifl_fetch_ip(w);
	return NULL;
}

/* If the session has several system calls, the number comes from the task's stack. */
static const char *jifl_fetch_nr(struct jifl_wanted *w, u32 i)
{
	if (w->functions)
		return "a function may be called by any system call, or by none";
	if (w->nr >= 0) {
		w->ins.args[i] = w->nr;
		return NULL;
	}
	if (w->ins.then[0])
		return "ARG_SYSCALL_NR more than once";
	jifl_fetch_begin(w, i, IR_FETCH_THEN)->disp = jifl_compat_current_cell();
	w->ins.then[0] = offsetof(struct task_struct, stack);
	w->ins.then[1] = THREAD_SIZE - TOP_OF_KERNEL_STACK_PADDING - sizeof(struct pt_regs) +
			 offsetof(struct pt_regs, orig_ax);
	return NULL;
}

/* how: fetches the address of the operand, or its value. */
static const char *jifl_fetch_memory(struct jifl_wanted *w, u32 i, const struct ins_memory *m,
				      enum ir_fetch_how how)
{
	struct ir_fetch *f;

	if (m->segment != INS_SEGMENT_NONE)
		return "its address is relative to a segment";
	if (w->after)
		return "registers may have changed: ask before the instruction";
	if (how == IR_FETCH_ADDRESS && m->base == IR_REG_NONE && m->index == IR_REG_NONE) {
		w->ins.args[i] = m->disp;
		return NULL;
	}
	f = jifl_fetch_begin(w, i, how);
	f->base = m->base;
	f->index = m->index;
	f->scale = m->scale;
	f->disp = (s32)m->disp;
	return NULL;
}

static const char *jifl_fetch_operand(struct jifl_wanted *w, u32 i, int type)
{
	struct ins_memory m;

	if (!w->insn || !jifl_engine_memory(w->insn, &m, 1))
		return "there is no operand in memory";
	if (type == ARG_MEMORY_ADDRESS && jifl_engine_bit_register(w->insn) != IR_REG_NONE)
		return "its address depends on a bit's number in a register";
	if (type == ARG_MEMORY_ADDRESS)
		return jifl_fetch_memory(w, i, &m, IR_FETCH_ADDRESS);
	w->ins.args[i] = m.size;
	return NULL;
}

static const char *jifl_fetch_target(struct jifl_wanted *w, u32 i)
{
	struct ins_memory m;

	switch (w->insn ? w->insn->kind : IR_PLAIN) {
	case IR_JMP:
	case IR_JCC:
	case IR_JCXZ:
	case IR_CALL:
		w->ins.args[i] = w->insn->target.v;
		return NULL;
	case IR_JMP_IND:
	case IR_CALL_IND:
		if (w->insn->reg != IR_REG_NONE)
			jifl_fetch_begin(w, i, IR_FETCH_REG)->base = w->insn->reg;
		else if (jifl_engine_memory(w->insn, &m, 1))
			return jifl_fetch_memory(w, i, &m, IR_FETCH_LOAD);
		return NULL;
	default:
		return "there is no branch whose target is known";
	}
}

/* Before a conditional jump this is unknown: see jifl_wanted.taken. */
static const char *jifl_fetch_taken(struct jifl_wanted *w, u32 i)
{
	if (!w->insn || !ir_kind_ends_block(w->insn->kind))
		return "there is no branch";
	w->ins.args[i] = w->place != IR_AFTER;
	if (ir_kind_is_conditional(w->insn->kind) && w->place == IR_BEFORE)
		w->taken |= 1u << i;
	return NULL;
}

const char *jifl_want_fetch(struct jifl_wanted *w, u32 i, int type, int value)
{
	switch (type) {
	case ARG_REG:
		return jifl_fetch_value(w, i, value);
	case ARG_SYSCALL_NR:
		return jifl_fetch_nr(w, i);
	case ARG_TASK:
		jifl_fetch_begin(w, i, IR_FETCH_CELL)->disp = jifl_compat_current_cell();
		return NULL;
	case ARG_CONTEXT:
		return jifl_fetch_context(w, i);
	case ARG_INS_ADDRESS:
		w->ins.args[i] = w->address;
		return w->address ? NULL : "there is no instruction";
	case ARG_BRANCH_TARGET:
		return jifl_fetch_target(w, i);
	case ARG_BRANCH_TAKEN:
		return jifl_fetch_taken(w, i);
	default:
		return jifl_fetch_operand(w, i, type);
	}
}
