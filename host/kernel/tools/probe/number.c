// SPDX-License-Identifier: GPL-2.0
/*
 * The numbers that programs of places compute with: ops that are neither effects nor skips.
 * Context: any, interrupts off.
 */
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include "../../kernel.h"
#include "../../call/program.h"
#include "../../call/whose.h"
#include "../../enter/target.h"
#include "probe.h"
#include "act.h"

/* --- what programs ask for ----------------------------------------------------------------- */

/* pt_regs by the numbers that instructions use, then rip and flags. */
static const u8 jifl_number_regs[] = {
#define AT(reg) offsetof(struct pt_regs, reg)
	AT(ax), AT(cx), AT(dx), AT(bx), AT(sp), AT(bp), AT(si), AT(di),
	AT(r8), AT(r9), AT(r10), AT(r11), AT(r12), AT(r13), AT(r14), AT(r15), AT(ip), AT(flags),
#undef AT
};

u64 jifl_number_reg(const struct pt_regs *regs, u32 reg)
{
	return *(const u64 *)((const char *)regs + jifl_number_regs[reg]);
}

/* As long as a task's, with zeroes behind them. */
static const char jifl_number_irq[TASK_COMM_LEN] = JIFL_KEY_IRQ;
static const char jifl_number_softirq[TASK_COMM_LEN] = JIFL_KEY_SOFTIRQ;

const char *jifl_number_comm(enum jifl_level level)
{
	if (level == JIFL_LEVEL_TASK)
		return current->comm;
	return level == JIFL_LEVEL_IRQ ? jifl_number_irq : jifl_number_softirq;
}

u64 jifl_number_get(enum jifl_level level, u32 what)
{
	const bool task = level == JIFL_LEVEL_TASK;

	switch (what) {
	case JIFL_GET_PID:
		return task ? task_tgid_nr(current) : 0;
	case JIFL_GET_TID:
		return task ? task_pid_nr(current) : 0;
	case JIFL_GET_CPU:
		return raw_smp_processor_id();
	case JIFL_GET_TIME:
		return ktime_get_mono_fast_ns();
	case JIFL_GET_LEVEL:
		return level;
	case JIFL_GET_TASK:
		return (unsigned long)current;
	default:
		return (unsigned long)jifl_number_comm(level);
	}
}

/* --- numbers ------------------------------------------------------------------------------- */

static u64 jifl_number_extend(u64 value, u32 bits, bool is_signed)
{
	const u32 above = 64 - bits;

	value <<= above;
	return is_signed ? (u64)((s64)value >> above) : value >> above;
}

static u64 jifl_number_compare(const struct jifl_op *op, u64 left, u64 right)
{
	const bool is_signed = op->flags & JIFL_OP_SIGNED;

	switch (op->code) {
	case JIFL_OP_EQ:
		return left == right;
	case JIFL_OP_NE:
		return left != right;
	case JIFL_OP_LT:
		return is_signed ? (s64)left < (s64)right : left < right;
	default:
		return is_signed ? (s64)left <= (s64)right : left <= right;
	}
}

/* DIV and MOD; false: there is no quotient. */
static bool jifl_number_divide(const struct jifl_op *op, u64 left, u64 right, u64 *to)
{
	const bool is_signed = op->flags & JIFL_OP_SIGNED, mod = op->code == JIFL_OP_MOD;

	/* The processor has no quotient for the second, either. */
	if (!right || (is_signed && (s64)right == -1 && (s64)left == S64_MIN))
		return false;
	if (is_signed)
		*to = mod ? (s64)left % (s64)right : (s64)left / (s64)right;
	else
		*to = mod ? left % right : left / right;
	return true;
}

static bool jifl_number_binary(struct jifl_acting *a, const struct jifl_op *op)
{
	const u64 right = a->stack[--a->depth], left = a->stack[a->depth - 1];
	u64 *to = &a->stack[a->depth - 1];

	switch (op->code) {
	case JIFL_OP_ADD:
		*to = left + right;
		return true;
	case JIFL_OP_SUB:
		*to = left - right;
		return true;
	case JIFL_OP_MUL:
		*to = left * right;
		return true;
	case JIFL_OP_DIV:
	case JIFL_OP_MOD:
		return jifl_number_divide(op, left, right, to);
	case JIFL_OP_AND:
		*to = left & right;
		return true;
	case JIFL_OP_OR:
		*to = left | right;
		return true;
	case JIFL_OP_XOR:
		*to = left ^ right;
		return true;
	case JIFL_OP_SHL:
		*to = left << (right & 63);
		return true;
	case JIFL_OP_SHR:
		*to = op->flags & JIFL_OP_SIGNED ? (u64)((s64)left >> (right & 63)) :
						   left >> (right & 63);
		return true;
	default:
		*to = jifl_number_compare(op, left, right);
		return true;
	}
}

static bool jifl_number_is_string(const struct jifl_acting *a, const struct jifl_op *op, u64 *top)
{
	const int is = jifl_peek_is(*top, a->strings + op->imm, op->arg, op->flags & JIFL_OP_CUT);

	*top = is;
	return is >= 0;
}

/* Is it the instruction behind the function's site? */
static bool jifl_number_begins(const struct jifl_probe_place *place)
{
	return place->address == place->aim->target->address &&
	       place->where == JIFL_SPLICE_BEFORE;
}

bool jifl_number_push(struct jifl_acting *a, const struct jifl_op *op)
{
	const bool is_signed = op->flags & JIFL_OP_SIGNED;
	/* Of an op that pushes, where it pushes to. */
	u64 *top = &a->stack[op->code <= JIFL_OP_GET ? a->depth++ : a->depth - 1];

	switch (op->code) {
	case JIFL_OP_CONST:
		*top = op->imm;
		return true;
	case JIFL_OP_REG:
		*top = jifl_number_reg(a->regs, op->arg);
		return true;
	case JIFL_OP_GET:
		if (op->arg == JIFL_GET_CALLER)
			return jifl_peek_caller(a->regs, jifl_number_begins(a->place), top);
		*top = jifl_number_get(a->level, op->arg);
		return true;
	case JIFL_OP_LOAD:
		return jifl_peek_number(*top + op->imm, op->width, is_signed, top);
	case JIFL_OP_EXTEND:
		*top = jifl_number_extend(*top, op->width * 8, is_signed);
		return true;
	case JIFL_OP_BITS:
		*top = jifl_number_extend(*top >> op->imm, op->arg, is_signed);
		return true;
	case JIFL_OP_NEGATE:
		*top = -*top;
		return true;
	case JIFL_OP_INVERT:
		*top = ~*top;
		return true;
	case JIFL_OP_NOT:
		*top = !*top;
		return true;
	case JIFL_OP_STR_EQ:
		return jifl_number_is_string(a, op, top);
	default:
		return jifl_number_binary(a, op);
	}
}

u32 jifl_number_skip(struct jifl_acting *a, const struct jifl_op *op)
{
	const bool zero = !a->stack[a->depth - 1];

	if (zero == (op->code == JIFL_OP_SKIP_ZERO))
		return op->arg;
	a->depth--;
	return 0;
}

bool jifl_number_holds(const struct jifl_programs *p, struct pt_regs *regs, bool *known)
{
	const struct jifl_op *ops = p->programs[0].ops;
	unsigned long flags;
	struct jifl_acting a;
	u32 i;

	a.strings = p->strings;
	a.regs = regs;
	a.depth = 0;
	a.unknown = false;
	flags = jifl_own_irq_save_at(&a.level);
	for (i = 0; ops[i].code < JIFL_OP_IF && !a.unknown; i++) {
		if (ops[i].code >= JIFL_OP_SKIP_ZERO)
			i += jifl_number_skip(&a, &ops[i]);
		else
			a.unknown = !jifl_number_push(&a, &ops[i]);
	}
	jifl_own_irq_restore_at(flags, a.level);
	*known = !a.unknown;
	return *known && a.stack[0];
}
