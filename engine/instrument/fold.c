// SPDX-License-Identifier: GPL-2.0
/* Evaluation of instructions whose operands are known; see fold.h. */
#include "fold.h"

static u64 truncate(u64 value, u8 width)
{
	return width >= 8 ? value : value & ((1ull << 8 * width) - 1);
}

static u64 extend(u64 value, u8 width)
{
	u32 shift = 64 - 8 * width;

	return (u64)((s64)(value << shift) >> shift);
}

void fold_set(struct fold_state *state, u8 reg, u64 value)
{
	state->known |= 1u << reg;
	state->values[reg] = value;
}

void fold_forget(struct fold_state *state, u16 regs)
{
	state->known &= ~regs;
}

void fold_forget_flags(struct fold_state *state)
{
	state->flags_known = 0;
}

bool fold_meet(struct fold_state *into, const struct fold_state *from)
{
	u16 known = into->known;
	u8 flags = into->flags_known, reg;

	if (!into->reached) {
		*into = *from;
		into->reached = true;
		return true;
	}
	for (reg = 0; reg < 16; reg++)
		if (!(from->known & 1u << reg) || from->values[reg] != into->values[reg])
			into->known &= ~(1u << reg);
	into->flags_known &= from->flags_known & ~(into->flags ^ from->flags);
	return known != into->known || flags != into->flags_known;
}

static bool value_of(const struct ir_value *v, const struct fold_state *state, u64 *value)
{
	if (v->kind == IR_VALUE_IMM) {
		*value = (u64)v->value;
		return true;
	}
	if (v->kind != IR_VALUE_REG || !(state->known & 1u << v->reg))
		return false;
	*value = state->values[v->reg];
	return true;
}

static bool address_of(const struct ir_value *v, const struct fold_state *state, u64 *value)
{
	u64 address = (u64)v->value;

	if (v->reg != IR_REG_NONE) {
		if (!(state->known & 1u << v->reg))
			return false;
		address += state->values[v->reg];
	}
	if (v->index != IR_REG_NONE) {
		if (!(state->known & 1u << v->index))
			return false;
		address += state->values[v->index] * v->scale;
	}
	*value = address;
	return true;
}

static u8 flag(bool set, u8 which)
{
	return set ? which : 0;
}

/* SDM vol. 1, 3.4.3.1. AF is not kept, because no condition asks for it. */
static u8 flags_of(u64 result, u8 width, bool carry, bool overflow)
{
	u64 r = truncate(result, width);

	return flag(!r, IR_ZF) | flag(r >> (8 * width - 1), IR_SF) | flag(carry, IR_CF) |
	       flag(overflow, IR_OF) | flag(!__builtin_parity((u32)(r & 0xff)), IR_PF);
}

/* Evaluates dst and src, both known and of that width. False: not evaluated. */
static bool evaluate(const struct ir_step *s, u64 a, u64 b, u64 *result, u8 *flags)
{
	u64 sign = 1ull << (8 * s->width - 1), r;

	switch (s->op) {
	case IR_OP_ADD:
		r = truncate(a + b, s->width);
		*flags = flags_of(r, s->width, r < a, ~(a ^ b) & (a ^ r) & sign);
		break;
	case IR_OP_SUB:
	case IR_OP_CMP:
		r = truncate(a - b, s->width);
		*flags = flags_of(r, s->width, a < b, (a ^ b) & (a ^ r) & sign);
		break;
	case IR_OP_AND:
	case IR_OP_TEST:
		r = a & b;
		*flags = flags_of(r, s->width, false, false);
		break;
	case IR_OP_OR:
		r = a | b;
		*flags = flags_of(r, s->width, false, false);
		break;
	case IR_OP_XOR:
		r = a ^ b;
		*flags = flags_of(r, s->width, false, false);
		break;
	default:
		return false;
	}
	*result = r;
	return true;
}

/* Instructions that make a register of one operand; the flags that they leave are not followed. */
static bool make(const struct ir_step *s, const struct fold_state *state, u64 *result)
{
	u64 a, b = 0;

	switch (s->op) {
	case IR_OP_LEA:
		return address_of(&s->src, state, result);
	case IR_OP_MOV:
		return value_of(&s->src, state, result);
	case IR_OP_MOVZX:
		if (!value_of(&s->src, state, &a))
			return false;
		*result = truncate(a, s->src_width);
		return true;
	case IR_OP_MOVSX:
		if (!value_of(&s->src, state, &a))
			return false;
		*result = extend(a, s->src_width);
		return true;
	default:
		break;
	}
	if (!value_of(&s->dst, state, &a))
		return false;
	a = truncate(a, s->width);
	switch (s->op) {
	case IR_OP_INC:
		*result = a + 1;
		return true;
	case IR_OP_DEC:
		*result = a - 1;
		return true;
	case IR_OP_NOT:
		*result = ~a;
		return true;
	case IR_OP_NEG:
		*result = 0 - a;
		return true;
	default:
		break;
	}
	if (!value_of(&s->src, state, &b))
		return false;
	b &= s->width == 8 ? 63 : 31;
	switch (s->op) {
	case IR_OP_SHL:
		*result = a << b;
		return true;
	case IR_OP_SHR:
		*result = a >> b;
		return true;
	case IR_OP_SAR:
		*result = (u64)((s64)extend(a, s->width) >> b);
		return true;
	default:
		return false;
	}
}

static bool is_zeroing(const struct ir_step *s)
{
	return (s->op == IR_OP_XOR || s->op == IR_OP_SUB) && s->dst.kind == IR_VALUE_REG &&
	       s->src.kind == IR_VALUE_REG && s->dst.reg == s->src.reg;
}

static bool both_known(const struct ir_step *s, const struct fold_state *state, u64 *a, u64 *b)
{
	if (is_zeroing(s)) {
		*a = *b = 0;
		return true;
	}
	if (!value_of(&s->dst, state, a) || !value_of(&s->src, state, b))
		return false;
	*a = truncate(*a, s->width);
	*b = truncate(*b, s->width);
	return true;
}

void fold_step(const struct ir_step *s, struct fold_state *state)
{
	const struct fold_state old = *state;
	bool known = false, writes = s->dst.kind == IR_VALUE_REG && s->op != IR_OP_CMP &&
				     s->op != IR_OP_TEST;
	u64 a, b, result = 0;
	u8 flags = 0;

	fold_forget(state, s->writes);
	if (s->flags_touched)
		fold_forget_flags(state);
	if (ir_op_is_other(s))
		return;
	if (both_known(s, &old, &a, &b) && evaluate(s, a, b, &result, &flags)) {
		known = true;
		state->flags_known = IR_FLAGS & ~IR_AF;
		state->flags = flags;
	} else {
		known = make(s, &old, &result);
	}
	/*
	 * A write of 32 bits clears the upper 32 (SDM vol. 1, 3.4.1.1); narrower writes keep the
	 * other bits.
	 */
	if (known && writes && s->width >= 4)
		fold_set(state, s->dst.reg, truncate(result, s->width));
}

/* SDM vol. 1, appendix B: the conditions; the lowest bit negates. */
int fold_condition(const struct fold_state *state, u8 cc)
{
	static const u8 needs[8] = { IR_OF, IR_CF, IR_ZF, IR_CF | IR_ZF, IR_SF, IR_PF,
				     IR_SF | IR_OF, IR_ZF | IR_SF | IR_OF };
	u8 f = state->flags;
	bool holds, differ = !(f & IR_SF) != !(f & IR_OF);

	if (needs[cc >> 1] & ~state->flags_known)
		return -1;
	if (cc >> 1 < 6)
		holds = f & needs[cc >> 1];
	else
		holds = differ || (cc >> 1 == 7 && (f & IR_ZF));
	return holds != (cc & 1);
}

/* --- operands ------------------------------------------------------------------------------ */

static bool put_base(struct ir_value *v, const struct fold_state *state)
{
	s64 value;

	if (v->reg == IR_REG_NONE || !(state->known & 1u << v->reg))
		return false;
	value = (s64)((u64)v->value + state->values[v->reg]);
	if (!jifl_fits_s32(value))
		return false;
	v->value = value;
	v->reg = IR_REG_NONE;
	return true;
}

static bool put_index(struct ir_value *v, const struct fold_state *state)
{
	s64 value;

	if (v->index == IR_REG_NONE || !(state->known & 1u << v->index))
		return false;
	value = (s64)((u64)v->value + state->values[v->index] * v->scale);
	if (!jifl_fits_s32(value))
		return false;
	v->value = value;
	v->index = IR_REG_NONE;
	return true;
}

static void put_memory(struct ir_step *s, struct ir_value *v, const struct fold_state *state)
{
	if (v->kind != IR_VALUE_MEM)
		return;
	/* The index first: a base alone is shorter. */
	s->changed |= put_index(v, state);
	s->changed |= put_base(v, state);
}

static bool takes_immediate(const struct ir_step *s)
{
	return s->op <= IR_OP_MOV;
}

/* Immediates have 32 bits at most, extended by their sign. */
static void put_source(struct ir_step *s, const struct fold_state *state)
{
	u64 value;

	if (s->src.kind != IR_VALUE_REG || !takes_immediate(s) || !value_of(&s->src, state, &value))
		return;
	value = extend(value, s->width);
	if (!jifl_fits_s32((s64)value))
		return;
	s->src = (struct ir_value){ .kind = IR_VALUE_IMM, .value = (s64)value };
	s->changed = true;
}

static u16 uses(const struct ir_value *v)
{
	u16 regs = 0;

	if (v->kind == IR_VALUE_REG || (v->kind == IR_VALUE_MEM && v->reg != IR_REG_NONE))
		regs |= 1u << v->reg;
	if (v->kind == IR_VALUE_MEM && v->index != IR_REG_NONE)
		regs |= 1u << v->index;
	return regs;
}

static bool reads_destination(const struct ir_step *s)
{
	return s->width < 4 ||
	       !(s->op == IR_OP_MOV || s->op == IR_OP_MOVZX || s->op == IR_OP_MOVSX ||
		 s->op == IR_OP_LEA);
}

u16 fold_operands(struct ir_step *s, const struct fold_state *state)
{
	u16 regs;

	/* An address that is too far away to be written without rip stays as it is. */
	if (ir_op_is_other(s) || (s->insn.disp_at &&
				  !jifl_fits_s32(s->dst.kind == IR_VALUE_MEM ? s->dst.value :
						 s->src.value)))
		return s->reads;
	put_memory(s, &s->dst, state);
	put_memory(s, &s->src, state);
	put_source(s, state);
	regs = uses(&s->src);
	if (s->dst.kind != IR_VALUE_REG || reads_destination(s))
		regs |= uses(&s->dst);
	return regs;
}
