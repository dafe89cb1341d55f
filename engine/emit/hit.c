// SPDX-License-Identifier: GPL-2.0
/*
 * Counts, and appends a record of numbers to a ring of the processor:
 *
 *	pushf
 *	cli
 *	values, each in a register
 *	mov	%gs:head, %r10
 *	cmp	%gs:limit, %r10
 *	ja	there is no room
 *	and	$mask, %r10d
 *	add	%gs:data, %r10
 *	mov	value, at(%r10)			each value
 *	rdtsc					and so on: each word
 *	mov	%eax, at(%r10)
 *	mov	%edx, at+4(%r10)
 *	movq	$imm, (%r10)			the size and the place, as the host says
 *	addq	$1, %gs:counter
 *	addq	$size, %gs:head
 *	popf
 *
 * Where no 32-bit offset reaches the ring, its offset is in r11: movabs $ring, %r11, and then
 * %gs:head(%r11) and so on. The counter is reached from there, if that is near enough.
 *
 * Why a ring has one writer at a time, and no record is torn:
 *
 * 1. Interrupts are off from before head is read until it is written. So the thread stays on its
 *    processor, and no other thread and no interrupt runs there. By gs all words of the ring are
 *    that processor's, whether an offset is in the instruction or in r11.
 * 2. An NMI may come. No copy runs in it, and what natively runs there writes to no such ring.
 * 3. Between reading head and writing it the code reads memory that is the kernel's own and there:
 *    it does not fault. Values are computed before, where interrupts are off already: a record and
 *    its values are of one processor. What they call to read memory may fault (load.S), and in the
 *    page fault there may be records, whole ones.
 * 4. The record is complete before head is written: stores of x86 are seen in their order (SDM vol.
 *    3, 9.2.3). Who reads up to head, on whatever processor, reads complete records.
 * 5. The reader alone raises limit, after it has taken records. A limit that is too old refuses a
 *    record, never more. So no record is overwritten before it was taken.
 *
 * A record whose values cannot be read, or that has no room, is made by the host's function, which
 * is called with all registers. It then counts, too: nothing was counted or written before.
 */
#include "count.h"
#include "hit.h"
#include "../base/plant.h"

enum { PREFIX_GS = 0x65, CC_O = 0, CC_A = 7 };

static struct ir_value at(u8 base, s64 disp)
{
	return (struct ir_value){ .kind = IR_VALUE_MEM, .reg = base, .index = IR_REG_NONE,
				  .scale = 1, .value = disp };
}

static void op(struct x86_writer *w, u8 code, u8 width, u8 segment, struct ir_value dst,
	       struct ir_value src)
{
	const struct ir_step s = { .op = code, .width = width, .segment = segment, .dst = dst,
				   .src = src };

	x86_op(w, &s);
}

static void store(struct x86_writer *w, u8 width, u8 place, s64 to, u8 reg)
{
	op(w, IR_OP_MOV, width, 0, at(place, to), number_in_reg(reg));
}

/* A line's values are written behind what changes rax and rdx: from here on none is there. */
static bool leave(struct x86_writer *w, const struct ir_hit *hit, struct hit_values *values, u8 reg)
{
	u8 to = IR_REG_NONE;
	u32 i;

	for (i = 0; i < hit->nvalues; i++) {
		struct ir_value *value = &values->value[i];

		if (value->kind != IR_VALUE_REG || value->reg != reg)
			continue;
		if (to == IR_REG_NONE) {
			to = emit_numbers_scratch();
			if (to == IR_REG_NONE)
				return false;
			x86_mov(w, to, reg);
		}
		value->reg = to;
	}
	return true;
}

/* Do instructions reach the ring, at whatever distance from gs? */
static bool is_near(const struct ir_hit *hit)
{
	return !hit->line && jifl_fits_s32((s64)hit->ring) &&
	       jifl_fits_s32((s64)(hit->ring + sizeof(struct ir_hit_ring)));
}

bool emit_hit_values(struct x86_writer *w, const struct ir_hit *hit, const struct emit_saved *saved,
		     u16 regs, struct hit_values *values)
{
	if (!emit_numbers(w, &hit->values, saved, regs, &values->code, hit->nvalues, values->value))
		return false;
	values->place = emit_numbers_scratch();
	values->ring = is_near(hit) ? IR_REG_NONE : emit_numbers_scratch();
	if (values->place == IR_REG_NONE || (!is_near(hit) && values->ring == IR_REG_NONE))
		return false;
	values->code.changes |= 1u << IR_RAX | 1u << IR_RDX;
	return !hit->line || (leave(w, hit, values, IR_RAX) && leave(w, hit, values, IR_RDX));
}

/* A word of the record, by way of rdx; the task's address is in rax, behind CLOCK. */
static void append_word(struct x86_writer *w, const struct ir_hit_word *word, u8 place)
{
	switch (word->how) {
	case IR_HIT_CLOCK:
		x86_rdtsc(w);
		store(w, 4, place, word->at, IR_RAX);
		store(w, 4, place, word->at + 4, IR_RDX);
		return;
	case IR_HIT_CELL:
		op(w, IR_OP_MOV, 4, PREFIX_GS, number_in_reg(IR_RDX), at(IR_REG_NONE, word->disp));
		store(w, 4, place, word->at, IR_RDX);
		return;
	case IR_HIT_STACK:
		store(w, 8, place, word->at, IR_RSP);
		return;
	default:
		op(w, IR_OP_MOV, 8, 0, number_in_reg(IR_RDX), at(IR_RAX, word->disp));
		store(w, 8, place, word->at, IR_RDX);
	}
}

static void append_words(struct x86_writer *w, const struct ir_hit *hit, u8 place)
{
	bool has_task = false;
	u32 i;

	for (i = 0; i < hit->nwords; i++) {
		const struct ir_hit_word *word = &hit->words[i];

		if (!has_task && word->how == IR_HIT_TASK) {
			op(w, IR_OP_MOV, 8, PREFIX_GS, number_in_reg(IR_RAX),
			   at(IR_REG_NONE, hit->task));
			has_task = true;
		}
		append_word(w, word, place);
	}
}

void emit_hit_begin(struct x86_writer *w, const struct emit_config *config)
{
	if (config->interrupts)
		x86_cli(w);
}

static void op_ring(struct x86_writer *w, u8 code, u8 reg, const struct ir_hit *hit, u8 ring,
		    s64 field)
{
	op(w, code, 8, PREFIX_GS, number_in_reg(reg),
	   at(ring, ring == IR_REG_NONE ? (s64)hit->ring + field : field));
}

/* Adds to a word of the processor's, by the ring's offset in a register if there is one. */
static void add_to_cell(struct x86_writer *w, s64 cell, const struct ir_hit *hit, u8 ring, s32 n)
{
	op(w, IR_OP_ADD, 8, PREFIX_GS,
	   at(ring, ring == IR_REG_NONE ? cell : cell - (s64)hit->ring), number_constant(n));
}

static void count(struct x86_writer *w, const struct ir_insert *ins, u8 ring)
{
	const s64 apart = (s64)(ins->counter - ins->hit->ring);

	if (ring != IR_REG_NONE && !emit_count_is_near(ins) && jifl_fits_s32(apart))
		add_to_cell(w, (s64)ins->counter, ins->hit, ring, 1);
	else
		emit_count_by(w, ins, IR_RAX);
}

u32 emit_hit_append(struct x86_writer *w, const struct ir_insert *ins,
		    const struct hit_values *values)
{
	const u8 ring = values->ring, place = values->place;
	const struct ir_hit *hit = ins->hit;
	u32 full, i;

	if (ring != IR_REG_NONE)
		x86_mov_imm(w, ring, hit->ring);
	op_ring(w, IR_OP_MOV, place, hit, ring, __builtin_offsetof(struct ir_hit_ring, head));
	op_ring(w, IR_OP_CMP, place, hit, ring, __builtin_offsetof(struct ir_hit_ring, limit));
	full = x86_jcc(w, JIFL_PLANTED(hit_without_room) ? CC_O : CC_A, 0);
	op(w, IR_OP_AND, 4, 0, number_in_reg(place), number_constant((s32)hit->mask));
	op_ring(w, IR_OP_ADD, place, hit, ring, __builtin_offsetof(struct ir_hit_ring, data));
	for (i = 0; i < hit->nvalues; i++)
		op(w, IR_OP_MOV, 8, 0, at(place, hit->at + 8 * i), values->value[i]);
	append_words(w, hit, place);
	op(w, IR_OP_MOV, 8, 0, at(place, 0), number_constant(ins->imm));
	count(w, ins, ring);
	add_to_cell(w, (s64)(hit->ring + __builtin_offsetof(struct ir_hit_ring, head)), hit, ring,
		    (s32)hit->size);
	return full;
}
