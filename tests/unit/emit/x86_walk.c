// SPDX-License-Identifier: GPL-2.0
/* The code that x86_enc.c writes is read back: its length, and what it pushes. */
#include "../unit.h"
#include "../../../engine/emit/emit.h"

static u8 buf[256];

static struct x86_writer writer(void)
{
	memset(buf, 0xcc, sizeof(buf));
	return (struct x86_writer){ .buf = buf, .cap = sizeof(buf), .start = 0,
				    .code_base = 0x40000000 };
}

/* The bytes that emit... writes are one instruction, which pushes so many bytes. */
#define WALKS(bytes, emit) \
	do { \
		struct x86_writer w_ = writer(), *w = &w_; \
		s32 pushed_ = 0; \
		emit; \
		CHECK_EQ_IN(#emit, x86_walk(buf, &pushed_), w->len); \
		CHECK_EQ_IN(#emit, (u32)pushed_, (u32)(bytes)); \
	} while (0)

static void walk_source(const struct ir_source *s)
{
	u8 reg;

	WALKS(0, x86_cmp_source_imm(w, s, 5));
	WALKS(0, x86_cmp_source_imm(w, s, 500));
	for (reg = 0; reg < 16; reg++) {
		WALKS(0, x86_cmp_source(w, s, reg));
		WALKS(0, x86_bsr(w, reg, s));
		WALKS(0, x86_load32(w, reg, s));
	}
}

UNIT_TEST(each, "emit/x86_walk: every instruction of inserted code and stubs")
{
	const struct ir_operand cell = { .disp = 0x12345678 };
	const struct ir_operand shared = { .disp = 0x12345678, .locked = true };
	const struct ir_operand percpu = { .disp = (s32)0x80001000, .gs = true };
	struct ir_source s;
	u8 reg, memory;

	for (reg = 0; reg < 16; reg++) {
		WALKS(8, x86_push(w, reg));
		WALKS(-8, x86_pop(w, reg));
		WALKS(0, x86_mov_imm(w, reg, 5));
		WALKS(0, x86_mov_imm(w, reg, -5ull));
		WALKS(0, x86_mov_imm(w, reg, 0x123456789abcull));
		WALKS(0, x86_add_cell_reg(w, cell, reg, false));
		WALKS(0, x86_add_cell_reg(w, shared, reg, false));
		WALKS(0, x86_add_cell_reg(w, percpu, reg, true));
		WALKS(0, x86_cmp_imm(w, reg, 0x1234567));
		WALKS(0, x86_load_stack(w, reg, 16));
		WALKS(0, x86_store_stack(w, reg, 16));
		WALKS(0, x86_store_stack_imm(w, 8 * (s8)reg, 0x1234567));
		WALKS(0, x86_add_stack_imm(w, 8 * (s8)reg, 0x1234567));
		WALKS(0, x86_count_cell(w, percpu, reg));
		WALKS(0, x86_count_cell(w, cell, reg));
		if (reg != IR_RSP && reg != IR_R12)
			WALKS(0, x86_lea_twice_and_1(w, reg));
		if ((reg & 7) != IR_RSP && (reg & 7) != IR_RBP)
			WALKS(0, x86_count_at(w, reg));
		for (memory = 0; memory < 2; memory++) {
			s = (struct ir_source){ .width = 8, .reg = reg, .memory = memory,
						.disp = 8 };
			if (memory && (reg == IR_RSP || reg == IR_R12))
				continue;
			walk_source(&s);
			s.width = 4;
			walk_source(&s);
		}
	}
	WALKS(0, x86_jcc_short(w, X86_CC_NE));
	WALKS(0, x86_jcc_short(w, X86_CC_LE));
	WALKS(8, x86_push_imm(w, 5));
	WALKS(8, x86_push_imm(w, 500));
	WALKS(8, x86_pushf(w));
	WALKS(8, x86_push_top(w));
	WALKS(-8, x86_popf(w));
	WALKS(0, x86_cld(w));
	WALKS(0, x86_endbr64(w));
	WALKS(16, x86_move_stack(w, -16));
	WALKS(-16, x86_move_stack(w, 16));
	WALKS(512, x86_move_stack(w, -512));
	WALKS(0, x86_add_cell(w, cell, 5));
	WALKS(0, x86_add_cell(w, cell, 500));
	WALKS(0, x86_add_cell(w, shared, 5));
	WALKS(0, x86_add_cell(w, percpu, 5));
	WALKS(0, x86_add_cell(w, percpu, 500));
	WALKS(0, x86_store_cell(w, percpu, 5));
	/* Wherever its offset makes it want prefixes. */
	for (reg = 0; reg < 8; reg++)
		WALKS(0, { w->start = reg; x86_call_out(w, 0x40001000); });
}

/* All code of an insert is read, and is balanced at its end. */
UNIT_TEST(inserts, "emit/x86_walk: inserted calls are balanced")
{
	const struct emit_config config = { 0 };
	const struct ir_insert call = { .kind = IR_INSERT_CALL, .fn = 0x40001000, .nargs = 3,
					.args = { 1, -1ull, 0x123456789abcull } };
	const struct ir_insert context = { .kind = IR_INSERT_CALL, .fn = 0x40001000, .nargs = 1,
					   .fetched = 1,
					   .fetches = { { .how = IR_FETCH_CONTEXT,
							  .disp = 0x1234567 } } };
	const struct ir_insert add = { .kind = IR_INSERT_ADD, .imm = 7,
				       .cell = { .disp = 0x1000 } };
	const struct ir_insert *const each[] = { &call, &context, &add };
	u32 i, flags;

	for (i = 0; i < JIFL_ARRAY_LEN(each); i++) {
		for (flags = 0; flags < 2; flags++) {
			struct x86_writer w = writer();
			s32 pushed = 0, most = 0;
			u32 at = 0, len;

			emit_insert(&w, &config, each[i], flags ? 0xff : 0, flags ? 0xffff : 0);
			while (at < w.len) {
				len = x86_walk(buf + at, &pushed);
				REQUIRE(len);
				at += len;
				most = pushed > most ? pushed : most;
			}
			CHECK_EQ(at, w.len);
			CHECK_EQ(pushed, 0);
			CHECK_EQ(most, i == 1 ? 21 * 8 : flags ? 8 + (i ? 0 : 72) : 0);
		}
	}
}
