// SPDX-License-Identifier: GPL-2.0
/*
 * Encoding of the instructions that specialisation changes: one or two
 * operands of general registers, memory and immediates. Part of x86_enc.h.
 */
#include "x86_enc.h"

enum {
	PREFIX_16 = 0x66,
	PREFIX_LOCK = 0xf0,
	REX = 0x40,
};

/* An instruction with a ModRM byte; reg is a register or a part of the opcode. */
struct encoding {
	u16 opcode;		/* 0x0fxx: two bytes */
	u8 reg;
	const struct ir_value *rm;
	u8 imm_len;
	s64 imm;
	bool bytes;		/* byte registers are named: spl to dil need a REX */
};

static u8 rex_of(const struct ir_step *s, const struct encoding *e)
{
	const struct ir_value *rm = e->rm;
	u8 rex = (s->width == 8 ? 8 : 0) | (e->reg >= 8 ? 4 : 0);

	if (rm->kind == IR_VALUE_MEM && rm->index != IR_REG_NONE && rm->index >= 8)
		rex |= 2;
	if ((rm->kind == IR_VALUE_REG || rm->reg != IR_REG_NONE) && rm->reg >= 8)
		rex |= 1;
	if (rex || e->bytes)
		rex |= REX;
	return rex;
}

static u8 log2_of(u8 scale)
{
	return scale == 8 ? 3 : scale >> 1;
}

/* ModRM, SIB and displacement of memory: SDM vol. 2, tables 2-2 and 2-3. */
static void put_memory(struct x86_writer *w, u8 reg, const struct ir_value *v)
{
	bool has_base = v->reg != IR_REG_NONE, has_index = v->index != IR_REG_NONE;
	u8 mod, base = has_base ? v->reg & 7 : 5;

	if (!jifl_fits_s32(v->value))
		w->full = true;
	if (!has_base)
		mod = 0;
	else if (!v->value && base != 5)
		mod = 0;
	else
		mod = v->value == (s8)v->value ? 1 : 2;
	if (has_index || !has_base || base == 4) {
		x86_u8(w, mod << 6 | (reg & 7) << 3 | 4);
		x86_u8(w, log2_of(v->scale) << 6 | (has_index ? v->index & 7 : 4) << 3 | base);
	} else {
		x86_u8(w, mod << 6 | (reg & 7) << 3 | base);
	}
	if (!has_base || mod == 2)
		x86_u32(w, (u32)v->value);
	else if (mod == 1)
		x86_u8(w, (u8)v->value);
}

static void put(struct x86_writer *w, const struct ir_step *s, const struct encoding *e)
{
	u8 rex = rex_of(s, e);

	if (s->segment && e->rm->kind == IR_VALUE_MEM)
		x86_u8(w, s->segment);
	if (s->lock)
		x86_u8(w, PREFIX_LOCK);
	if (s->width == 2)
		x86_u8(w, PREFIX_16);
	if (rex)
		x86_u8(w, rex);
	if (e->opcode >> 8)
		x86_u8(w, (u8)(e->opcode >> 8));
	x86_u8(w, (u8)e->opcode);
	if (e->rm->kind == IR_VALUE_REG)
		x86_u8(w, 0xc0 | (e->reg & 7) << 3 | (e->rm->reg & 7));
	else
		put_memory(w, e->reg, e->rm);
	x86_bytes(w, &e->imm, e->imm_len);
}

static u8 wide(const struct ir_step *s)
{
	return s->width > 1;
}

/* 80, 81 and 83; f6 and f7 for test; c6 and c7 for mov */
static void immediate(struct x86_writer *w, const struct ir_step *s)
{
	struct encoding e = { .rm = &s->dst, .imm = s->src.value,
			      .imm_len = s->width < 4 ? s->width : 4, .bytes = s->width == 1 };

	switch (s->op) {
	case IR_OP_MOV:
		e.opcode = 0xc6 | wide(s);
		break;
	case IR_OP_TEST:
		e.opcode = 0xf6 | wide(s);
		break;
	default:
		e.reg = s->op;
		e.opcode = 0x80 | wide(s);
		if (wide(s) && e.imm == (s8)e.imm) {
			e.opcode = 0x83;
			e.imm_len = 1;
		}
		break;
	}
	put(w, s, &e);
}

/* Instructions with a register in ModRM.reg and the other operand in ModRM.rm. */
static void two_operands(struct x86_writer *w, const struct ir_step *s)
{
	bool to_memory = s->dst.kind == IR_VALUE_MEM || s->op == IR_OP_TEST;
	struct encoding e = { .reg = to_memory ? s->src.reg : s->dst.reg,
			      .rm = to_memory ? &s->dst : &s->src, .bytes = s->width == 1 };

	switch (s->op) {
	case IR_OP_MOV:
		e.opcode = 0x88 | (to_memory ? 0 : 2) | wide(s);
		break;
	case IR_OP_TEST:
		e.opcode = 0x84 | wide(s);
		break;
	case IR_OP_LEA:
		e.opcode = 0x8d;
		break;
	case IR_OP_MOVZX:
	case IR_OP_MOVSX:
		e.bytes = s->src_width == 1;
		e.opcode = s->src_width == 4 ? 0x63 :
			   (s->op == IR_OP_MOVZX ? 0x0fb6 : 0x0fbe) | (s->src_width == 2);
		break;
	default:
		e.opcode = (u16)(s->op << 3 | (to_memory ? 0 : 2) | wide(s));
		break;
	}
	put(w, s, &e);
}

/* fe and ff, f6 and f7, shifts by a constant or cl */
static void one_operand(struct x86_writer *w, const struct ir_step *s)
{
	static const u8 numbers[] = { [IR_OP_INC] = 0, [IR_OP_DEC] = 1, [IR_OP_NOT] = 2,
				      [IR_OP_NEG] = 3, [IR_OP_SHL] = 4, [IR_OP_SHR] = 5,
				      [IR_OP_SAR] = 7 };
	struct encoding e = { .reg = numbers[s->op], .rm = &s->dst, .bytes = s->width == 1 };

	if (s->op == IR_OP_INC || s->op == IR_OP_DEC) {
		e.opcode = 0xfe;
	} else if (s->op == IR_OP_NOT || s->op == IR_OP_NEG) {
		e.opcode = 0xf6;
	} else if (s->src.kind == IR_VALUE_IMM) {
		e.opcode = 0xc0;
		e.imm = s->src.value;
		e.imm_len = 1;
	} else {
		e.opcode = s->src.kind == IR_VALUE_REG ? 0xd2 : 0xd0;
	}
	e.opcode |= wide(s);
	put(w, s, &e);
}

void x86_op(struct x86_writer *w, const struct ir_step *s)
{
	if (s->op >= IR_OP_INC)
		one_operand(w, s);
	else if (s->src.kind == IR_VALUE_IMM)
		immediate(w, s);
	else
		two_operands(w, s);
}

void x86_xadd(struct x86_writer *w, struct ir_value to, enum ir_reg reg)
{
	const struct ir_step s = { .width = 8, .dst = to };
	const struct encoding e = { .opcode = 0x0fc1, .reg = reg, .rm = &s.dst };

	put(w, &s, &e);
}
