// SPDX-License-Identifier: GPL-2.0
/* Instruction encodings; see x86_enc.h. AT&T syntax in comments. */
#include "x86_enc.h"
#include "x86_prefix.h"
#include "../base/plant.h"

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

/* Writes prefixes until a field that follows `opcode_len` bytes lies within 8 aligned bytes. */
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

void x86_jcc_out(struct x86_writer *w, u8 cc, u64 to)
{
	x86_u8(w, 0x0f);
	branch_out(w, 0x80 | cc, to);
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

void x86_cli(struct x86_writer *w)
{
	x86_u8(w, 0xfa);
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

/* With what keeps the processor from going on behind it by speculation. */
void x86_jmp_rax(struct x86_writer *w)
{
	x86_u8(w, 0xff);
	x86_u8(w, 0xe0);
	x86_u8(w, 0xcc);
}

/*
 * The loop to which the processor predicts a retpoline's return. Nothing ends it but that the
 * return turns out to go elsewhere. As in the kernel.
 */
static const u8 speculation_trap[] = { 0xf3, 0x90, 0x0f, 0xae, 0xe8, 0xeb, 0xf9 };

void x86_retpoline_call(struct x86_writer *w)
{
	u32 site = x86_call(w, 0);

	x86_bytes(w, speculation_trap, sizeof(speculation_trap));
	x86_set_rel32(w, site, x86_here(w));
}

bool x86_is_retpoline_call(const u8 *p)
{
	return *p == 0xe8 && !memcmp(p + 5, speculation_trap, sizeof(speculation_trap));
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
