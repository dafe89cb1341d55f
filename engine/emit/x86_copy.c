// SPDX-License-Identifier: GPL-2.0
/* Copies of instructions, and of the operands of branches; see x86_enc.h. */
#include "x86_enc.h"
#include "x86_prefix.h"
#include "../base/plant.h"

static s32 load_s32(const u8 *p)
{
	s32 v;

	memcpy(&v, p, 4);
	return v;
}

/*
 * The disp32 that reaches from `end` the address that insn's disp32 reaches from the end of insn.
 */
static u32 relocated_disp(struct x86_writer *w, const struct ir_insn *insn, u64 end)
{
	u64 operand = insn->addr.v + insn->len + (s64)load_s32(insn->bytes + insn->disp_at);
	s64 disp = (s64)(operand - end) + JIFL_PLANTED(rip_operand_off_by_one);

	if (!jifl_fits_s32(disp))
		w->full = true;
	return (u32)disp;
}

/*
 * Copies as many bytes as an instruction can have, which takes two moves. The next instruction
 * overwrites the excess bytes.
 */
static void put_insn(struct x86_writer *w, const struct ir_insn *insn)
{
	if (w->len + IR_INSN_MAX > w->cap) {
		w->full = true;
		return;
	}
	memcpy(w->buf + w->len, insn->bytes, IR_INSN_MAX);
	w->len += insn->len;
}

void x86_copy(struct x86_writer *w, const struct ir_insn *insn)
{
	u32 disp;

	if (!insn->disp_at) {
		put_insn(w, insn);
		return;
	}
	disp = relocated_disp(w, insn, w->code_base + x86_here(w) + insn->len);
	x86_bytes(w, insn->bytes, insn->disp_at);
	x86_u32(w, disp);
	x86_bytes(w, insn->bytes + insn->disp_at + 4, insn->len - insn->disp_at - 4);
}

/* sib.base is rsp: rm 4 with base 4, and no REX.B in front of the opcode */
static bool based_on_rsp(const struct ir_insn *insn)
{
	const u8 *m = insn->bytes + insn->modrm_at;
	u8 before_opcode = insn->modrm_at >= 2 ? m[-2] : 0;

	return (m[0] & 7) == 4 && (m[1] & 7) == 4 &&
	       !((before_opcode & 0xf0) == 0x40 && (before_opcode & 1));
}

static bool is_rex(u8 byte)
{
	return (byte & 0xf0) == REX;
}

/*
 * Writes the opcode and ModRM.reg before the operand of a branch. An operand on the stack is
 * further away by the bytes pushed since: its displacement becomes a disp32 that includes them.
 */
static void put_operand_of(struct x86_writer *w, const struct ir_insn *insn, s32 rsp_moved,
			   u8 opcode, u8 reg)
{
	const u8 *m = insn->bytes + insn->modrm_at;
	u8 modrm = (m[0] & 0xc7) | (reg & 7) << 3;
	s32 disp = 0;

	x86_u8(w, opcode);
	if (rsp_moved && based_on_rsp(insn) && m[0] >> 6 != 3) {
		if (m[0] >> 6 == 1)
			disp = (s8)m[2];
		else if (m[0] >> 6 == 2)
			disp = load_s32(m + 2);
		x86_u8(w, (modrm & 0x3f) | 0x80);
		x86_u8(w, m[1]);
		x86_u32(w, (u32)(disp + rsp_moved));
		return;
	}
	x86_u8(w, modrm);
	if (insn->disp_at)
		x86_u32(w, relocated_disp(w, insn, w->code_base + x86_here(w) + 4));
	else
		x86_bytes(w, m + 1, x86_operand_len(m) - 1);
}

void x86_push_operand_of(struct x86_writer *w, const struct ir_insn *insn, s32 rsp_moved)
{
	x86_bytes(w, insn->bytes, insn->modrm_at - 1);
	put_operand_of(w, insn, rsp_moved, 0xff, 6);
}

/* Keeps the branch's prefixes, except bnd, and with another REX. */
void x86_load_operand_of(struct x86_writer *w, enum ir_reg reg, const struct ir_insn *insn)
{
	u8 rex = REX_W | (reg >= 8 ? REX_R : 0);
	u32 i;

	for (i = 0; i < insn->modrm_at - 1u; i++) {
		if (is_rex(insn->bytes[i]))
			rex |= insn->bytes[i] & (REX_B | REX_X);
		else if (insn->bytes[i] != PREFIX_BND)
			x86_u8(w, insn->bytes[i]);
	}
	x86_u8(w, rex);
	put_operand_of(w, insn, 0, 0x8b, reg);
}
