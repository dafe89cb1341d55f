// SPDX-License-Identifier: GPL-2.0
/*
 * Writes a line, 64 bytes, over the oldest one of the processor's:
 *
 *	pushf
 *	cli
 *	values, each in a register, or constants
 *	rdtsc
 *	shl	$32, %rdx
 *	or	%rdx, %rax
 *	mov	stop, %r11
 *	cmp	(%r11), %rax
 *	jae	they have stopped, or it is the host's
 *	mov	%gs:count, %r11
 *	mov	$1, %edx
 *	xadd	%rdx, (%r11)
 *	mov	%rdx, %r10
 *	and	%gs:mask, %r10
 *	shl	$6, %r10
 *	add	%gs:lines, %r10
 *	mov	%rax, (%r10)			the time
 *	mov	%edx, %edx
 *	mov	$event << 32, %r11
 *	or	%r11, %rdx
 *	or	%gs:number, %rdx
 *	mov	%rdx, 8(%r10)
 *	lea	1(%rax, %rdx), %rax		the sum begins, with values that are constants
 *	movzwl	%gs:context, %r11d		or movzbl, shl $8, movb
 *	add	%r11, %rax
 *	mov	%r11w, 20(%r10)
 *	mov	%gs:task, %r11
 *	mov	tid(%r11), %r11d
 *	add	%r11, %rax
 *	mov	%r11d, 16(%r10)
 *	mov	value, 24(%r10)			each of five; 0 where there is none
 *	add	value, %rax			if it is no constant
 *	mov	%rdx, 8(%r10)
 *	mov	$factor, %r11
 *	imul	%r11, %rax
 *	shr	$48, %rax
 *	mov	%ax, 22(%r10)			the check
 *	addq	$1, %gs:counter
 *	popf
 *
 * Why a line is whole, or known not to be, is said where the host's own code writes the same
 * (host/kernel/flight/write.h). What that asks of its writers holds here:
 *
 * 1. Interrupts are off from before `stop` is read until the line is written. So the thread stays
 *    on its processor, and no other thread and no interrupt writes there meanwhile. An NMI may: it
 *    takes another line, because xadd is one instruction.
 * 2. The time is written first, the check last, behind the second word, which is written twice. The
 *    check is made of what was to be written, not of what stands there.
 * 3. Who makes lines stop writes to `stop`, or to where it leads, and interrupts each processor
 *    afterwards. A line that has asked before is written then, by step 1.
 * 4. Between reading `stop` and the end the code reads and writes memory that is the kernel's own
 *    and there: it does not fault. Values are computed before, as for a record (hit.c, step 3).
 */
#include "count.h"
#include "line.h"
#include "../base/plant.h"

enum { PREFIX_GS = 0x65, CC_O = 0 };
enum {
	LINE_NUMBER = 8, LINE_TID = 16, LINE_CONTEXT = 20, LINE_CHECK = 22, LINE_VALUES = 24,
	LINE_SHIFT = 6,		/* of its bytes */
};

static struct ir_value at(u8 base, s64 disp)
{
	return (struct ir_value){ .kind = IR_VALUE_MEM, .reg = base, .index = IR_REG_NONE,
				  .scale = 1, .value = disp };
}

static void op(struct x86_writer *w, u8 code, u8 width, struct ir_value dst, struct ir_value src)
{
	const struct ir_step s = { .op = code, .width = width, .dst = dst, .src = src };

	x86_op(w, &s);
}

static void op_reg(struct x86_writer *w, u8 code, u8 width, u8 reg, struct ir_value src)
{
	op(w, code, width, number_in_reg(reg), src);
}

/* With a word of the processor's. */
static void op_cell(struct x86_writer *w, u8 code, u8 width, u8 reg, s64 disp)
{
	const struct ir_step s = { .op = code, .width = width, .segment = PREFIX_GS,
				   .dst = number_in_reg(reg), .src = at(IR_REG_NONE, disp) };

	x86_op(w, &s);
}

#define op_cpu(w, code, reg, line, field) \
	op_cell(w, code, 8, reg, (line)->cpu + (s64)__builtin_offsetof(struct ir_line_cpu, field))

static void store(struct x86_writer *w, u8 width, u8 place, s64 to, struct ir_value value)
{
	op(w, IR_OP_MOV, width, at(place, to), value);
}

/* The time is in rax. Returns the branch. */
static u32 ask(struct x86_writer *w, const struct ir_hit *hit, u8 reg)
{
	x86_rdtsc(w);
	op_reg(w, IR_OP_SHL, 8, IR_RDX, number_constant(32));
	op_reg(w, IR_OP_OR, 8, IR_RAX, number_in_reg(IR_RDX));
	op_reg(w, IR_OP_MOV, 8, reg, at(IR_REG_NONE, hit->stop));
	op_reg(w, IR_OP_CMP, 8, IR_RAX, at(reg, 0));
	return x86_jcc(w, JIFL_PLANTED(line_goes_on) ? CC_O : X86_CC_AE, 0);
}

/* Takes a place, and writes the first two words. The second is in rdx then. */
static void begin(struct x86_writer *w, const struct ir_hit *hit, u8 reg, u8 place)
{
	const struct ir_line *line = hit->line;

	op_cpu(w, IR_OP_MOV, reg, line, count);
	x86_mov_imm(w, IR_RDX, 1);
	x86_xadd(w, at(reg, 0), IR_RDX);
	x86_mov(w, place, IR_RDX);
	op_cpu(w, IR_OP_AND, place, line, mask);
	op_reg(w, IR_OP_SHL, 8, place, number_constant(LINE_SHIFT));
	op_cpu(w, IR_OP_ADD, place, line, lines);
	store(w, 8, place, 0, number_in_reg(IR_RAX));
	op_reg(w, IR_OP_MOV, 4, IR_RDX, number_in_reg(IR_RDX));
	x86_mov_imm(w, reg, (u64)hit->event << 32);
	op_reg(w, IR_OP_OR, 8, IR_RDX, number_in_reg(reg));
	op_cpu(w, IR_OP_OR, IR_RDX, line, number);
	store(w, 8, place, LINE_NUMBER, number_in_reg(IR_RDX));
}

/*
 * The sum so far, in rax: of the first two words, of the values that are constants, and 1. These
 * have 32 bits each, and five of them may have more.
 */
static void begin_sum(struct x86_writer *w, s64 constants, u8 reg)
{
	const bool fits = jifl_fits_s32(constants + 1);
	const struct ir_step sum = {
		.op = IR_OP_LEA, .width = 8, .dst = number_in_reg(IR_RAX),
		.src = { .kind = IR_VALUE_MEM, .reg = IR_RAX, .index = IR_RDX, .scale = 1,
			 .value = fits ? constants + 1 : 1 },
	};

	x86_op(w, &sum);
	if (fits)
		return;
	x86_mov_imm(w, reg, constants);
	op_reg(w, IR_OP_ADD, 8, IR_RAX, number_in_reg(reg));
}

/* Both bytes, if they stand side by side, or else one after the other. */
static void load_context(struct x86_writer *w, const struct ir_line *line, u8 reg)
{
	const bool both = line->context[1] == line->context[0] + 1;
	const struct ir_step load = {
		.op = IR_OP_MOVZX, .width = 4, .src_width = both ? 2 : 1, .segment = PREFIX_GS,
		.dst = number_in_reg(reg), .src = at(IR_REG_NONE, line->context[!both]),
	};

	x86_op(w, &load);
	if (both)
		return;
	op_reg(w, IR_OP_SHL, 4, reg, number_constant(8));
	op_cell(w, IR_OP_MOV, 1, reg, line->context[0]);
}

/* Who it is, and in which context. */
static void tell_who(struct x86_writer *w, const struct ir_line *line, u8 reg, u8 place)
{
	const struct ir_value value = number_in_reg(reg);

	load_context(w, line, reg);
	op_reg(w, IR_OP_ADD, 8, IR_RAX, value);
	store(w, 2, place, LINE_CONTEXT, value);
	op_cell(w, IR_OP_MOV, 8, reg, line->task);
	op_reg(w, IR_OP_MOV, 4, reg, at(reg, line->tid));
	op_reg(w, IR_OP_ADD, 8, IR_RAX, value);
	store(w, 4, place, LINE_TID, value);
}

/* The five. Returns the sum of those that are constants. */
static s64 values_of(const struct ir_insert *ins, const struct hit_values *values,
		     struct ir_value all[IR_LINE_VALUES])
{
	const struct ir_hit *hit = ins->hit;
	s64 constants = 0;
	u32 n = 0, i;

	if (hit->place)
		all[n++] = number_constant((s32)ins->args[1]);
	for (i = 0; i < hit->nvalues; i++)
		all[n++] = values->value[i];
	while (n < IR_LINE_VALUES)
		all[n++] = number_constant(0);
	for (i = 0; i < IR_LINE_VALUES; i++)
		if (all[i].kind == IR_VALUE_IMM)
			constants += all[i].value;
	return constants;
}

static void put_all(struct x86_writer *w, const struct ir_value all[IR_LINE_VALUES], u8 place)
{
	u32 i;

	for (i = 0; i < IR_LINE_VALUES; i++) {
		store(w, 8, place, LINE_VALUES + 8 * (s64)i, all[i]);
		if (all[i].kind != IR_VALUE_IMM)
			op_reg(w, IR_OP_ADD, 8, IR_RAX, all[i]);
	}
}

u32 emit_line(struct x86_writer *w, const struct ir_insert *ins, const struct hit_values *values)
{
	const u8 reg = values->ring, place = values->place;
	const struct ir_hit *hit = ins->hit;
	const u32 stopped = ask(w, hit, reg);
	struct ir_value all[IR_LINE_VALUES];
	const s64 constants = values_of(ins, values, all);

	begin(w, hit, reg, place);
	begin_sum(w, constants, reg);
	tell_who(w, hit->line, reg, place);
	put_all(w, all, place);
	store(w, 8, place, LINE_NUMBER, number_in_reg(IR_RDX));
	x86_mov_imm(w, reg, IR_LINE_FACTOR);
	x86_imul(w, IR_RAX, reg);
	op_reg(w, IR_OP_SHR, 8, IR_RAX, number_constant(48));
	store(w, 2, place, LINE_CHECK, number_in_reg(IR_RAX));
	emit_count_by(w, ins, IR_RAX);
	return stopped;
}

u32 emit_line_stopped(struct x86_writer *w, const struct ir_insert *ins,
		      const struct hit_values *values)
{
	u32 left;

	op(w, IR_OP_CMP, 8, at(values->ring, 0), number_constant(0));
	left = x86_jcc(w, X86_CC_E, 0);
	emit_count_by(w, ins, IR_RAX);
	return left;
}
