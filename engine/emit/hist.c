// SPDX-License-Identifier: GPL-2.0
/*
 * Counts a value in a histogram, without a call. Bucket 0 is for 0, bucket n for values from 2^(n
 * - 1) on. Values beyond the last bucket count in the last bucket. For 64 bits, and for 32:
 *
 *	mov	$-1, %r11			mov	value, %r11d
 *	bsr	value, %r11			lea	1(%r11, %r11), %r11
 *						bsr	%r11, %r11
 *	addq	$1, %gs:cell + 8(, %r11, 8)	addq	$1, %gs:cell(, %r11, 8)
 *
 * bsr of 0 leaves its destination as it was (AMD64 vol. 3; Intel's processors do so too, and
 * Linux' fls64 relies on it). No interrupt can divide the one addition. A thread that moves to
 * another processor before the addition counts on that processor.
 *
 * Where there are fewer buckets than powers of two, a branch puts in the last bucket for larger
 * values: cmov would need one register more.
 */
#include "hist.h"
#include "save.h"

/* Leaves in reg the index of the bucket, relative to the cell that the function returns. */
static struct ir_operand find_bucket(struct x86_writer *w, const struct ir_insert *ins,
				     const struct ir_source *value, enum ir_reg reg)
{
	struct ir_operand cells = ins->cell;

	if (value->width == 8) {
		cells.disp += 8;
		x86_mov_imm(w, reg, -1ull);
		x86_bsr(w, reg, value);
	} else {
		x86_load32(w, reg, value);
		x86_lea_twice_and_1(w, reg);
		x86_bsr(w, reg, &(struct ir_source){ .width = 8, .reg = reg });
	}
	return cells;
}

/* Puts max into reg if reg has more. */
static void clamp(struct x86_writer *w, enum ir_reg reg, u8 max)
{
	u32 around;

	x86_cmp_source_imm(w, &(struct ir_source){ .width = 4, .reg = reg }, max);
	around = x86_jcc_short(w, X86_CC_LE);
	x86_mov_imm(w, reg, max);
	x86_set_rel8_here(w, around);
}

void emit_hist(struct x86_writer *w, const struct emit_config *config,
	       const struct ir_insert *ins, u8 flags, u16 regs)
{
	u16 reads = ir_insert_reads(ins);
	enum ir_reg reg = emit_scratch(regs, reads);
	struct emit_body body = { .flags = true, .changes = 1u << reg, .reads = reads };
	struct ir_source value = ins->value;
	struct ir_operand cells;
	struct emit_saved saved;
	u8 first = value.width == 8;

	emit_save(w, config, &body, flags & IR_FLAGS, regs, &saved);
	value.reg = emit_saved_at(&saved, value.reg);
	cells = find_bucket(w, ins, &value, reg);
	if (ins->buckets <= 8 * value.width)
		clamp(w, reg, ins->buckets - 1 - first);
	x86_count_cell(w, cells, reg);
	emit_restore(w, config, &saved);
}
