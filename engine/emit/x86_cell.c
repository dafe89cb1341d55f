// SPDX-License-Identifier: GPL-2.0
/*
 * Encodings that only inserted code needs: it counts in cells and tables of cells, and reads the
 * values that are recorded or counted; see x86_enc.h.
 */
#include "x86_enc.h"
#include "x86_prefix.h"

/* ModRM + SIB of an absolute disp32: mod 0, rm 4; no base, no index */
static void cell_insn(struct x86_writer *w, u16 opcode, u8 reg, struct ir_operand cell, bool locked,
		      u64 imm, u32 imm_len)
{
	/* Bytes up to the displacement, from the last (SIB) to the first. */
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

/* ModRM of a register, or of disp8(base), for a base that needs no SIB. */
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

/* 83 /0, mod 0 */
void x86_count_at(struct x86_writer *w, enum ir_reg reg)
{
	x86_u8(w, PREFIX_GS);
	x86_u8(w, REX_W | (reg >= 8 ? REX_B : 0));
	x86_u8(w, 0x83);
	x86_u8(w, reg & 7);
	x86_u8(w, 1);
}

/* 0f 90 /0; movzx reg8, reg32: 0f b6 /r. A REX prefix names spl to dil. */
void x86_setcc(struct x86_writer *w, u8 cc, enum ir_reg reg)
{
	x86_u8(w, reg >= 8 ? REX_B : REX);
	x86_u8(w, 0x0f);
	x86_u8(w, 0x90 | cc);
	x86_u8(w, 0xc0 | (reg & 7));
	x86_u8(w, reg >= 8 ? REX_R | REX_B : REX);
	x86_u8(w, 0x0f);
	x86_u8(w, 0xb6);
	x86_u8(w, 0xc0 | (reg & 7) << 3 | (reg & 7));
}

/* 0f af /r */
void x86_imul(struct x86_writer *w, enum ir_reg to, enum ir_reg from)
{
	x86_u8(w, REX_W | (to >= 8 ? REX_R : 0) | (from >= 8 ? REX_B : 0));
	x86_u8(w, 0x0f);
	x86_u8(w, 0xaf);
	x86_u8(w, 0xc0 | (to & 7) << 3 | (from & 7));
}

u32 x86_test_eax(struct x86_writer *w)
{
	x86_u8(w, 0xa9);
	x86_u32(w, 0);
	return x86_here(w) - 4;
}

void x86_count_shared_at_rax(struct x86_writer *w)
{
	static const u8 add_1[] = { PREFIX_LOCK, REX_W, 0x83, 0x00, 0x01 };

	x86_bytes(w, add_1, sizeof(add_1));
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
