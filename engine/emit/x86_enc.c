// SPDX-License-Identifier: GPL-2.0
/* Instruction encodings; see x86_enc.h. AT&T syntax in comments. */
#include "x86_enc.h"
#include "../base/plant.h"

enum {
	PREFIX_CS = 0x2e,
	PREFIX_FS = 0x64,
	PREFIX_GS = 0x65,
	PREFIX_LOCK = 0xf0,
	PREFIX_BND = 0xf2,
	REX = 0x40,
	REX_W = 0x48,
	REX_R = 0x44,
	REX_X = 0x42,
	REX_B = 0x41,
};

void x86_bytes(struct x86_writer *w, const void *bytes, u32 n)
{
	if (w->len + n > w->cap) {
		w->full = true;
		return;
	}
	memcpy(w->buf + w->len, bytes, n);
	w->len += n;
}

void x86_put_last(struct x86_writer *w, u64 v, u32 n)
{
	x86_bytes(w, &v, n);
}

/* Prefixes until a field that follows `opcode_len` bytes lies in 8 bytes. */
static void align_field(struct x86_writer *w, u32 opcode_len)
{
	u32 field = (x86_here(w) + opcode_len) % 8;

	if (field > 4 && !JIFL_PLANTED(link_crosses_words))
		x86_put(w, PREFIX_CS * 0x10101ull, 8 - field);
}

/* A branch with an opcode of n bytes, the lowest first. */
static u32 put_branch(struct x86_writer *w, u64 opcode, u32 n, u32 to)
{
	u32 field = x86_here(w) + n;

	x86_put(w, opcode | (u64)x86_rel32(field, to) << 8 * n, n + 4);
	return field;
}

u32 x86_jmp(struct x86_writer *w, u32 to)
{
	align_field(w, 1);
	return put_branch(w, 0xe9, 1, to);
}

u32 x86_jmp_unlinked(struct x86_writer *w)
{
	return put_branch(w, 0xe9, 1, 0);
}

u32 x86_call(struct x86_writer *w, u32 to)
{
	align_field(w, 1);
	return put_branch(w, 0xe8, 1, to);
}

u32 x86_jcc(struct x86_writer *w, u8 cc, u32 to)
{
	align_field(w, 2);
	return put_branch(w, 0x0f | (0x80 | cc) << 8, 2, to);
}

void x86_set_rel32(struct x86_writer *w, u32 field, u32 to)
{
	u32 rel = x86_rel32(field, to);

	if (!w->full)
		memcpy(w->buf + (field - w->start), &rel, 4);
}

static void branch_out(struct x86_writer *w, u8 opcode, u64 to)
{
	s64 rel;

	x86_u8(w, opcode);
	rel = (s64)(to - (w->code_base + x86_here(w) + 4));
	if (!jifl_fits_s32(rel))
		w->full = true;
	x86_u32(w, (u32)rel);
}

void x86_jmp_out(struct x86_writer *w, u64 to)
{
	branch_out(w, 0xe9, to);
}

void x86_call_out(struct x86_writer *w, u64 to)
{
	branch_out(w, 0xe8, to);
}

u32 x86_jcc_short(struct x86_writer *w, u8 cc)
{
	x86_u8(w, 0x70 | cc);
	x86_u8(w, 0);
	return w->len - 1;
}

u32 x86_jmp_short(struct x86_writer *w)
{
	x86_u8(w, 0xeb);
	x86_u8(w, 0);
	return w->len - 1;
}

void x86_set_rel8(struct x86_writer *w, u32 at, u32 to)
{
	s32 rel = (s32)to - (s32)(at + 1);

	if (rel != (s8)rel)
		w->full = true;
	if (!w->full)
		w->buf[at] = (u8)rel;
}

void x86_set_rel8_here(struct x86_writer *w, u32 at)
{
	x86_set_rel8(w, at, w->len);
}

static void rex_b(struct x86_writer *w, u8 base, u8 reg)
{
	if (reg >= 8 || base != REX)
		x86_u8(w, base | (reg >> 3));
}

void x86_push(struct x86_writer *w, enum ir_reg reg)
{
	rex_b(w, REX, reg);
	x86_u8(w, 0x50 | (reg & 7));
}

void x86_pop(struct x86_writer *w, enum ir_reg reg)
{
	rex_b(w, REX, reg);
	x86_u8(w, 0x58 | (reg & 7));
}

void x86_push_imm(struct x86_writer *w, s32 imm)
{
	if (imm == (s8)imm)
		x86_put(w, 0x6a | (u64)(u8)imm << 8, 2);
	else
		x86_put(w, 0x68 | (u64)(u32)imm << 8, 5);
}

void x86_pushf(struct x86_writer *w)
{
	x86_u8(w, 0x9c);
}

void x86_popf(struct x86_writer *w)
{
	x86_u8(w, 0x9d);
}

void x86_lahf(struct x86_writer *w)
{
	x86_u8(w, 0x9f);
}

void x86_sahf(struct x86_writer *w)
{
	x86_u8(w, 0x9e);
}

void x86_seto_al(struct x86_writer *w)
{
	static const u8 seto_al[] = { 0x0f, 0x90, 0xc0 };

	x86_bytes(w, seto_al, sizeof(seto_al));
}

void x86_overflow_al(struct x86_writer *w)
{
	static const u8 add_127_al[] = { 0x04, 0x7f };

	x86_bytes(w, add_127_al, sizeof(add_127_al));
}

void x86_xor_top(struct x86_writer *w, u32 mask)
{
	static const u8 xor_top[] = { 0x81, 0x34, 0x24 };

	x86_bytes(w, xor_top, sizeof(xor_top));
	x86_u32(w, mask);
}

void x86_cld(struct x86_writer *w)
{
	x86_u8(w, 0xfc);
}

void x86_rdtsc(struct x86_writer *w)
{
	x86_u8(w, 0x0f);
	x86_u8(w, 0x31);
}

void x86_ret(struct x86_writer *w)
{
	x86_u8(w, 0xc3);
}

void x86_ret_imm(struct x86_writer *w, u16 n)
{
	x86_u8(w, 0xc2);
	x86_bytes(w, &n, 2);
}

void x86_endbr64(struct x86_writer *w)
{
	x86_u32(w, 0xfa1e0ff3);
}

/* lea disp32(%rsp), %rsp: 48 8d a4 24 disp32; with disp8: 48 8d 64 24 disp8 */
void x86_move_stack(struct x86_writer *w, s32 n)
{
	x86_u8(w, REX_W);
	x86_u8(w, 0x8d);
	x86_u8(w, n == (s8)n ? 0x64 : 0xa4);
	x86_u8(w, 0x24);
	if (n == (s8)n)
		x86_u8(w, (u8)n);
	else
		x86_u32(w, (u32)n);
}

void x86_mov(struct x86_writer *w, enum ir_reg to, enum ir_reg from)
{
	x86_u8(w, REX_W | (from >= 8 ? 4 : 0) | (to >> 3));
	x86_u8(w, 0x89);
	x86_u8(w, 0xc0 | (from & 7) << 3 | (to & 7));
}

void x86_mov_imm(struct x86_writer *w, enum ir_reg reg, u64 value)
{
	if (value == (u32)value) {			/* mov $imm32, %r32 */
		rex_b(w, REX, reg);
		x86_u8(w, 0xb8 | (reg & 7));
		x86_u32(w, (u32)value);
	} else if (jifl_fits_s32((s64)value)) {		/* movq $simm32, %r64 */
		x86_u8(w, REX_W | (reg >> 3));
		x86_u8(w, 0xc7);
		x86_u8(w, 0xc0 | (reg & 7));
		x86_u32(w, (u32)value);
	} else {					/* movabs */
		x86_u8(w, REX_W | (reg >> 3));
		x86_u8(w, 0xb8 | (reg & 7));
		x86_bytes(w, &value, 8);
	}
}

static void stack_operand(struct x86_writer *w, u8 opcode, enum ir_reg reg, s8 n)
{
	x86_u8(w, REX_W | (reg >= 8 ? 4 : 0));
	x86_u8(w, opcode);
	x86_u8(w, 0x44 | (reg & 7) << 3);
	x86_u8(w, 0x24);
	x86_u8(w, (u8)n);
}

void x86_load_stack(struct x86_writer *w, enum ir_reg reg, s8 n)
{
	stack_operand(w, 0x8b, reg, n);
}

void x86_store_stack(struct x86_writer *w, enum ir_reg reg, s8 n)
{
	stack_operand(w, 0x89, reg, n);
}

/* op $imm32, n(%rsp): 64 bits */
static void stack_imm(struct x86_writer *w, u8 opcode, s8 n, s32 imm)
{
	stack_operand(w, opcode, IR_RAX, n);
	x86_u32(w, (u32)imm);
}

void x86_store_stack_imm(struct x86_writer *w, s8 n, s32 imm)
{
	stack_imm(w, 0xc7, n, imm);
}

void x86_add_stack_imm(struct x86_writer *w, s8 n, s32 imm)
{
	stack_imm(w, 0x81, n, imm);
}

void x86_push_top(struct x86_writer *w)
{
	static const u8 push_top[] = { 0xff, 0x34, 0x24 };

	x86_bytes(w, push_top, sizeof(push_top));
}

void x86_cmp_imm(struct x86_writer *w, enum ir_reg reg, s32 imm)
{
	x86_u8(w, REX_W | (reg >> 3));
	if (reg == IR_RAX) {
		x86_u8(w, 0x3d);
	} else {
		x86_u8(w, 0x81);
		x86_u8(w, 0xf8 | (reg & 7));
	}
	x86_u32(w, (u32)imm);
}

void x86_cmp_top_imm(struct x86_writer *w, s32 imm)
{
	static const u8 cmp_top[] = { REX_W, 0x81, 0x3c, 0x24 };

	x86_bytes(w, cmp_top, sizeof(cmp_top));
	x86_u32(w, (u32)imm);
}

/* ModRM + SIB of an absolute disp32: mod 0, rm 4; no base, no index */
static void cell_insn(struct x86_writer *w, u16 opcode, u8 reg, struct ir_operand cell, bool locked,
		      u64 imm, u32 imm_len)
{
	/* Up to the displacement from its last byte, SIB, to its first. */
	u64 bytes = 0x250400 | (reg & 7) << 11 | (u8)opcode;
	u32 n = 4;

	if (opcode > 0xff) {
		bytes = bytes << 8 | opcode >> 8;
		n++;
	}
	bytes = bytes << 8 | REX_W | (reg >= 8 ? REX_R : 0);
	if (cell.gs) {
		bytes = bytes << 8 | PREFIX_GS;
		n++;
	}
	if (locked) {
		bytes = bytes << 8 | PREFIX_LOCK;
		n++;
	}
	x86_put(w, bytes, n);
	x86_put(w, (u32)cell.disp | imm << 32, 4 + imm_len);
}

static void cell_operand_reg(struct x86_writer *w, u16 opcode, u8 reg, struct ir_operand cell)
{
	cell_insn(w, opcode, reg, cell, false, 0, 0);
}

void x86_add_cell_reg(struct x86_writer *w, struct ir_operand cell, enum ir_reg reg, bool subtract)
{
	cell_insn(w, subtract ? 0x29 : 0x01, reg, cell, cell.locked, 0, 0);
}

void x86_add_cell(struct x86_writer *w, struct ir_operand cell, s32 imm)
{
	if (imm == (s8)imm)
		cell_insn(w, 0x83, 0, cell, cell.locked, (u8)imm, 1);
	else
		cell_insn(w, 0x81, 0, cell, cell.locked, (u32)imm, 4);
}

void x86_store_cell(struct x86_writer *w, struct ir_operand cell, s32 imm)
{
	cell_insn(w, 0xc7, 0, cell, false, (u32)imm, 4);
}

void x86_load_cell(struct x86_writer *w, enum ir_reg reg, struct ir_operand cell)
{
	cell_operand_reg(w, 0x8b, reg, cell);
}

void x86_xadd_cell(struct x86_writer *w, struct ir_operand cell, enum ir_reg reg)
{
	cell_operand_reg(w, 0x0fc1, reg, cell);
}

void x86_rol32(struct x86_writer *w, enum ir_reg reg, u8 n)
{
	if (reg >= 8)
		x86_u8(w, REX_B);
	x86_u8(w, 0xc1);
	x86_u8(w, 0xc0 | (reg & 7));
	x86_u8(w, n);
}

/* ModRM + SIB of disp32(, index, 8): mod 0, rm 4; scale 3, base 5 */
static void word_operand(struct x86_writer *w, u8 rex, u8 opcode, u8 reg, s32 table,
			 enum ir_reg index)
{
	rex |= (reg >= 8 ? REX_R : 0) | (index >= 8 ? REX_X : 0);
	if (rex)
		x86_u8(w, rex);
	x86_u8(w, opcode);
	x86_u8(w, 0x04 | (reg & 7) << 3);
	x86_u8(w, 0xc5 | (index & 7) << 3);
	x86_u32(w, (u32)table);
}

void x86_store_word(struct x86_writer *w, s32 table, enum ir_reg index, enum ir_reg reg)
{
	word_operand(w, 0, 0x89, reg, table, index);
}

void x86_store_quad(struct x86_writer *w, s32 table, enum ir_reg index, enum ir_reg reg)
{
	word_operand(w, REX_W, 0x89, reg, table, index);
}

void x86_add_word_imm(struct x86_writer *w, s32 table, enum ir_reg index, s32 imm)
{
	word_operand(w, 0, 0x81, 0, table, index);
	x86_u32(w, (u32)imm);
}

void x86_store_word_imm(struct x86_writer *w, s32 table, enum ir_reg index, s32 imm)
{
	word_operand(w, 0, 0xc7, 0, table, index);
	x86_u32(w, (u32)imm);
}

/* ModRM of a register, or of disp8(base), where no base wants a SIB. */
static void source_operand(struct x86_writer *w, u8 reg, const struct ir_source *s)
{
	x86_u8(w, (s->memory ? 0x40 : 0xc0) | (reg & 7) << 3 | (s->reg & 7));
	if (s->memory)
		x86_u8(w, (u8)s->disp);
}

static void source_rex(struct x86_writer *w, bool wide, u8 reg, const struct ir_source *s)
{
	u8 rex = (wide ? REX_W : 0) | (reg >= 8 ? REX_R : 0) | (s->reg >= 8 ? REX_B : 0);

	if (rex)
		x86_u8(w, rex);
}

void x86_cmp_source_imm(struct x86_writer *w, const struct ir_source *s, s32 imm)
{
	bool is_byte = imm == (s8)imm;

	source_rex(w, s->width == 8, 0, s);
	x86_u8(w, is_byte ? 0x83 : 0x81);
	source_operand(w, 7, s);
	if (is_byte)
		x86_u8(w, (u8)imm);
	else
		x86_u32(w, (u32)imm);
}

void x86_cmp_source(struct x86_writer *w, const struct ir_source *s, enum ir_reg reg)
{
	source_rex(w, true, reg, s);
	x86_u8(w, 0x39);
	source_operand(w, reg, s);
}

void x86_bsr(struct x86_writer *w, enum ir_reg reg, const struct ir_source *s)
{
	source_rex(w, true, reg, s);
	x86_u8(w, 0x0f);
	x86_u8(w, 0xbd);
	source_operand(w, reg, s);
}

void x86_load32(struct x86_writer *w, enum ir_reg reg, const struct ir_source *s)
{
	source_rex(w, false, reg, s);
	x86_u8(w, 0x8b);
	source_operand(w, reg, s);
}

/* 8d /r, mod 1, rm 4; SIB: base and index reg, scale 1 */
void x86_lea_twice_and_1(struct x86_writer *w, enum ir_reg reg)
{
	x86_u8(w, REX_W | (reg >= 8 ? REX_R | REX_X | REX_B : 0));
	x86_u8(w, 0x8d);
	x86_u8(w, 0x44 | (reg & 7) << 3);
	x86_u8(w, (reg & 7) << 3 | (reg & 7));
	x86_u8(w, 1);
}

void x86_count_cell(struct x86_writer *w, struct ir_operand cell, enum ir_reg index)
{
	if (cell.gs)
		x86_u8(w, PREFIX_GS);
	x86_u8(w, REX_W | (index >= 8 ? REX_X : 0));
	x86_u8(w, 0x83);
	x86_u8(w, 0x04);
	x86_u8(w, 0xc5 | (index & 7) << 3);
	x86_u32(w, (u32)cell.disp);
	x86_u8(w, 1);
}

static s32 load_s32(const u8 *p)
{
	s32 v;

	memcpy(&v, p, 4);
	return v;
}

/* The disp32 that reaches from `end` what insn's reaches from its own end. */
static u32 relocated_disp(struct x86_writer *w, const struct ir_insn *insn, u64 end)
{
	u64 operand = insn->addr.v + insn->len + (s64)load_s32(insn->bytes + insn->disp_at);
	s64 disp = (s64)(operand - end) + JIFL_PLANTED(rip_operand_off_by_one);

	if (!jifl_fits_s32(disp))
		w->full = true;
	return (u32)disp;
}

/* Copies all that it may have of bytes, which is two moves; what is too much is written over. */
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
 * Opcode and ModRM.reg before the operand of a branch. One on the stack is further away by what was
 * pushed since: its displacement becomes a disp32 that says so.
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

/* With the branch's prefixes, but for bnd and with another REX. */
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

void x86_store_thread(struct x86_writer *w, s32 cell, enum ir_reg reg)
{
	x86_u8(w, PREFIX_FS);
	cell_operand_reg(w, 0x89, reg, (struct ir_operand){ .disp = cell });
}

void x86_load_thread(struct x86_writer *w, enum ir_reg reg, s32 cell)
{
	x86_u8(w, PREFIX_FS);
	cell_operand_reg(w, 0x8b, reg, (struct ir_operand){ .disp = cell });
}

void x86_branch_thread(struct x86_writer *w, bool call, s32 cell)
{
	static const u8 call_cell[] = { PREFIX_FS, 0xff, 0x14, 0x25 };
	static const u8 jmp_cell[] = { PREFIX_FS, 0xff, 0x24, 0x25 };

	x86_bytes(w, call ? call_cell : jmp_cell, sizeof(call_cell));
	x86_u32(w, (u32)cell);
}

void x86_call_reg(struct x86_writer *w, enum ir_reg reg)
{
	if (reg >= 8)
		x86_u8(w, REX_B);
	x86_u8(w, 0xff);
	x86_u8(w, 0xd0 | (reg & 7));
}

void x86_load_entry(struct x86_writer *w, enum ir_reg reg, s32 table)
{
	if (reg >= 8)
		x86_u8(w, REX_R | REX_X);
	x86_u8(w, 0x8b);
	x86_u8(w, 0x04 | (reg & 7) << 3);
	x86_u8(w, 0x85 | (reg & 7) << 3);
	x86_u32(w, (u32)table);
}

void x86_test(struct x86_writer *w, enum ir_reg reg)
{
	if (reg >= 8)
		x86_u8(w, REX_R | REX_B);
	x86_u8(w, 0x85);
	x86_u8(w, 0xc0 | (reg & 7) << 3 | (reg & 7));
}
