/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place that knows how instructions are encoded. A writer fills a buffer with code that
 * will run at a known position of the code cache. When the buffer is full the writer only notes
 * so, and the caller aborts at the end.
 *
 * Encodings: Intel SDM vol. 2. Direct branches always have 32-bit offsets, and the offset never
 * crosses an 8-byte boundary, so that one store patches it as a whole on all processors (SDM vol.
 * 3, 9.1.1; AMD64 vol. 2, 7.3.2). Where the offset would cross one, cs prefixes, which near
 * branches ignore, move it on: no nop is ever executed.
 */
#ifndef JIFL_EMIT_X86_ENC_H
#define JIFL_EMIT_X86_ENC_H

#include "../ir/routine.h"

struct x86_writer {
	u8 *buf;
	u32 cap;
	u32 len;
	u32 start;		/* cache offset of buf[0] */
	u64 code_base;		/* address of cache offset 0 */
	bool full;
};

static inline u32 x86_here(const struct x86_writer *w)
{
	return w->start + w->len;
}

void x86_bytes(struct x86_writer *w, const void *bytes, u32 n);

static inline void x86_u8(struct x86_writer *w, u8 v)
{
	if (w->len < w->cap)
		w->buf[w->len++] = v;
	else
		w->full = true;
}

/* The low n bytes of v, where there is no room for 8 bytes. */
void x86_put_last(struct x86_writer *w, u64 v, u32 n);

/* Writes the low n bytes of v, at most 8, the lowest first: one move. */
static inline void x86_put(struct x86_writer *w, u64 v, u32 n)
{
	if (w->len + sizeof(v) > w->cap) {
		x86_put_last(w, v, n);
		return;
	}
	memcpy(w->buf + w->len, &v, sizeof(v));
	w->len += n;
}

static inline void x86_u32(struct x86_writer *w, u32 v)
{
	if (w->len + sizeof(v) > w->cap) {
		w->full = true;
		return;
	}
	memcpy(w->buf + w->len, &v, sizeof(v));
	w->len += sizeof(v);
}

/*
 * Branches to a cache offset. Each returns the cache offset of its rel32
 * field. x86_set_rel32 changes one that is still in the buffer.
 */
u32 x86_jmp(struct x86_writer *w, u32 to);
u32 x86_call(struct x86_writer *w, u32 to);
u32 x86_jcc(struct x86_writer *w, u8 cc, u32 to);
void x86_set_rel32(struct x86_writer *w, u32 field, u32 to);
/* A jmp that nobody patches while it runs: without prefixes. */
u32 x86_jmp_unlinked(struct x86_writer *w);
enum { X86_JMP_LEN = 5 };

/* The rel32 with which the branch whose field is at `field` goes to `to`. */
static inline u32 x86_rel32(u32 field, u32 to)
{
	return to - (field + 4);
}

/* Branches to an address outside the cache, within 2 GiB. */
void x86_jmp_out(struct x86_writer *w, u64 to);
void x86_call_out(struct x86_writer *w, u64 to);
void x86_jcc_out(struct x86_writer *w, u8 cc, u64 to);

/* Short branch; returns where its rel8 is, for x86_set_rel8_here. */
u32 x86_jcc_short(struct x86_writer *w, u8 cc);
u32 x86_jmp_short(struct x86_writer *w);
void x86_set_rel8_here(struct x86_writer *w, u32 at);
/* Sets the rel8 at `at` to another place of the buffer. */
void x86_set_rel8(struct x86_writer *w, u32 at, u32 to);

enum { X86_CC_AE = 3, X86_CC_E = 4, X86_CC_NE = 5, X86_CC_S = 8, X86_CC_LE = 14 };

void x86_push(struct x86_writer *w, enum ir_reg reg);
void x86_pop(struct x86_writer *w, enum ir_reg reg);
void x86_push_imm(struct x86_writer *w, s32 imm);
void x86_pushf(struct x86_writer *w);
void x86_popf(struct x86_writer *w);
/*
 * Status flags in rax: lahf puts all of them but OF into ah; seto %al saves OF. Back: add $127,
 * %al overflows where al is 1, and comes before sahf.
 */
void x86_lahf(struct x86_writer *w);
void x86_sahf(struct x86_writer *w);
void x86_seto_al(struct x86_writer *w);
void x86_overflow_al(struct x86_writer *w);
/* xorl $mask, (%rsp) */
void x86_xor_top(struct x86_writer *w, u32 mask);
void x86_cld(struct x86_writer *w);
void x86_cli(struct x86_writer *w);
void x86_rdtsc(struct x86_writer *w);
void x86_ret(struct x86_writer *w);
void x86_jmp_rax(struct x86_writer *w);
void x86_retpoline_call(struct x86_writer *w);	/* to behind what is speculated */
bool x86_is_retpoline_call(const u8 *p);
void x86_ret_imm(struct x86_writer *w, u16 n);
void x86_endbr64(struct x86_writer *w);

/* lea n(%rsp), %rsp: moves the stack without touching flags. */
void x86_move_stack(struct x86_writer *w, s32 n);
/* mov from, to */
void x86_mov(struct x86_writer *w, enum ir_reg to, enum ir_reg from);
/* mov $value, reg in its shortest form */
void x86_mov_imm(struct x86_writer *w, enum ir_reg reg, u64 value);
/* mov n(%rsp), reg and mov reg, n(%rsp); n fits a signed byte */
void x86_load_stack(struct x86_writer *w, enum ir_reg reg, s8 n);
void x86_store_stack(struct x86_writer *w, enum ir_reg reg, s8 n);
/* The word at n(%rsp) becomes imm, or imm is added to it. */
void x86_store_stack_imm(struct x86_writer *w, s8 n, s32 imm);
void x86_add_stack_imm(struct x86_writer *w, s8 n, s32 imm);
/* Pushes a copy of the word on top. */
void x86_push_top(struct x86_writer *w);
/* cmp $imm, reg and cmpq $imm, (%rsp) */
void x86_cmp_imm(struct x86_writer *w, enum ir_reg reg, s32 imm);
void x86_cmp_top_imm(struct x86_writer *w, s32 imm);
/* addq $imm, cell and movq $imm, cell */
void x86_add_cell(struct x86_writer *w, struct ir_operand cell, s32 imm);
/* addq reg, cell or subq reg, cell */
void x86_add_cell_reg(struct x86_writer *w, struct ir_operand cell, enum ir_reg reg, bool subtract);
/* mov cell, reg */
void x86_load_cell(struct x86_writer *w, enum ir_reg reg, struct ir_operand cell);
/* xadd reg, cell */
void x86_xadd_cell(struct x86_writer *w, struct ir_operand cell, enum ir_reg reg);
/* rol $n, reg32 */
void x86_rol32(struct x86_writer *w, enum ir_reg reg, u8 n);
/*
 * W is the 32-bit word at table + 8 * index, an absolute address: mov reg32, W; addl $imm, W; movl
 * $imm, W.
 */
void x86_store_word(struct x86_writer *w, s32 table, enum ir_reg index, enum ir_reg reg);
void x86_add_word_imm(struct x86_writer *w, s32 table, enum ir_reg index, s32 imm);
void x86_store_word_imm(struct x86_writer *w, s32 table, enum ir_reg index, s32 imm);
/* mov reg64, the 64-bit word at that address */
void x86_store_quad(struct x86_writer *w, s32 table, enum ir_reg index, enum ir_reg reg);
void x86_store_cell(struct x86_writer *w, struct ir_operand cell, s32 imm);
/*
 * V is a value of the kernel's: cmp $imm, V; cmp reg, V, 64 bits; bsr V, reg, of 64 bits; mov V,
 * reg32.
 */
void x86_cmp_source_imm(struct x86_writer *w, const struct ir_source *s, s32 imm);
void x86_cmp_source(struct x86_writer *w, const struct ir_source *s, enum ir_reg reg);
void x86_bsr(struct x86_writer *w, enum ir_reg reg, const struct ir_source *s);
void x86_load32(struct x86_writer *w, enum ir_reg reg, const struct ir_source *s);
/* lea 1(reg, reg), reg; not rsp or r12 */
void x86_lea_twice_and_1(struct x86_writer *w, enum ir_reg reg);
/* addq $1, cell(, index, 8) */
void x86_count_cell(struct x86_writer *w, struct ir_operand cell, enum ir_reg index);
/* addq $1, %gs:(reg); not rsp, rbp, r12 or r13 */
void x86_count_at(struct x86_writer *w, enum ir_reg reg);
/* mov reg, cell and mov cell, reg, for a cell of the thread's own: relative to fs */
void x86_store_thread(struct x86_writer *w, s32 cell, enum ir_reg reg);
void x86_load_thread(struct x86_writer *w, enum ir_reg reg, s32 cell);
/* call or jmp *cell, unprotected, for a cell of the thread's own */
void x86_branch_thread(struct x86_writer *w, bool call, s32 cell);
/* reg = 1 if the condition holds, else 0; leaves flags */
void x86_setcc(struct x86_writer *w, u8 cc, enum ir_reg reg);
/* xadd reg, memory: 64 bits */
void x86_xadd(struct x86_writer *w, struct ir_value to, enum ir_reg reg);
/* imul from, to: 64 bits */
void x86_imul(struct x86_writer *w, enum ir_reg to, enum ir_reg from);
/* test $imm32, %eax. Returns where its imm32 is, for x86_set_rel32. */
u32 x86_test_eax(struct x86_writer *w);
/* lock addq $1, (%rax) */
void x86_count_shared_at_rax(struct x86_writer *w);
void x86_call_reg(struct x86_writer *w, enum ir_reg reg);
/* mov table(, reg, 4), reg32; test reg32, reg32 */
void x86_load_entry(struct x86_writer *w, enum ir_reg reg, s32 table);
void x86_test(struct x86_writer *w, enum ir_reg reg);
/*
 * For the memory operand of an original indirect branch. First: push operand, where rsp is
 * rsp_moved lower than at the branch. Second: mov operand, reg.
 */
void x86_push_operand_of(struct x86_writer *w, const struct ir_insn *insn, s32 rsp_moved);
void x86_load_operand_of(struct x86_writer *w, enum ir_reg reg, const struct ir_insn *insn);
/*
 * x86_walk.c: the length of the instruction at p, if inserted code or stubs use such an
 * instruction; adds to *pushed the bytes that it pushes. 0: another instruction, or one that goes
 * elsewhere.
 */
u32 x86_walk(const u8 *p, s32 *pushed);
/* Bytes of the operand whose ModRM is at p, with its SIB and displacement: SDM vol. 2, table 2-2 */
u32 x86_operand_len(const u8 *p);
/* x86_op.c: a step of an analysis routine whose operands were changed */
void x86_op(struct x86_writer *w, const struct ir_step *s);
/* an original instruction, its rip-relative operand relocated */
void x86_copy(struct x86_writer *w, const struct ir_insn *insn);

#endif
