// SPDX-License-Identifier: GPL-2.0
/*
 * Appends a record to a ring, without a call, a lock or a branch:
 *
 *	mov	$n << (32 - order), %r11d
 *	xadd	%r11, %gs:cell
 *	rol	$order, %r11d
 *	mov	%rdi, rings + 8(, %r11, 8)
 *	lea	(%rsi, %rdx, 4), %r10
 *	mov	%r10, rings + 16(, %r11, 8)
 *	mov	%esp, rings + 4(, %r11, 8)
 *	movl	$imm, rings(, %r11, 8)
 *
 * n is 1 plus the number of looked-up words, here two. The words may lie behind the ring's end,
 * where there must be room for them. A time stamp counter among the words is stored as the two
 * halves that rdtsc gives.
 *
 * The low half of the cell holds, from the top, `order` bits of position, and below them the
 * processor's number times the distance of two rings. The carry out of the low half counts how
 * often the ring was filled. One instruction takes the place in the ring. So the place belongs to
 * this record alone, whatever comes between that instruction and the stores: an interrupt, another
 * thread or another processor.
 *
 * A record is complete when its first word is not 0, because everything else is stored before.
 */
#include "args.h"
#include "record.h"
#include "save.h"

#define SECOND	4	/* offset of a record's second word */
#define WORD	8	/* offset of the first looked-up word, and the distance of these words */

struct record_regs {
	enum ir_reg place, value;
};

/* True when the value can be stored from where it is. */
static bool is_direct(const struct ir_fetch *l)
{
	return l->how == IR_FETCH_REG && l->base != IR_RSP;
}

static bool has_tsc(const struct ir_insert *ins)
{
	return ins->nargs && ins->fetches[ins->nargs - 1].how == IR_FETCH_TSC;
}

static bool needs_value(const struct ir_insert *ins)
{
	u32 i;

	for (i = 0; i < ins->nargs; i++)
		if (!is_direct(&ins->fetches[i]) && ins->fetches[i].how != IR_FETCH_TSC)
			return true;
	return false;
}

static void store_tsc(struct x86_writer *w, s32 at, enum ir_reg place)
{
	x86_rdtsc(w);
	x86_store_word(w, at, place, IR_RAX);
	x86_store_word(w, at + SECOND, place, IR_RDX);
}

static void store_words(struct x86_writer *w, const struct ir_insert *ins,
			const struct record_regs *r)
{
	u32 i;

	for (i = 0; i < ins->nargs; i++) {
		const struct ir_fetch *l = &ins->fetches[i];
		const s32 at = ins->rings + WORD * (s32)(i + 1);

		if (l->how == IR_FETCH_TSC) {
			store_tsc(w, at, r->place);
			continue;
		}
		if (!is_direct(l))
			emit_arg(w, ins, l, r->value);
		x86_store_quad(w, at, r->place, is_direct(l) ? l->base : r->value);
	}
}

static void append(struct x86_writer *w, const struct ir_insert *ins, const struct record_regs *r)
{
	x86_mov_imm(w, r->place, (u64)(ins->nargs + 1) << (32 - ins->order));
	x86_xadd_cell(w, ins->cell, r->place);
	x86_rol32(w, r->place, ins->order);
	store_words(w, ins, r);
	x86_store_word(w, ins->rings + SECOND, r->place, IR_RSP);
	if (ins->pushed)
		x86_add_word_imm(w, ins->rings + SECOND, r->place, ins->pushed * 8);
	x86_store_word_imm(w, ins->rings, r->place, ins->imm);
}

void emit_record(struct x86_writer *w, const struct emit_config *config,
		 const struct ir_insert *ins, u8 flags, u16 regs, struct inlined *code)
{
	const u16 tsc = has_tsc(ins) ? 1u << IR_RAX | 1u << IR_RDX : 0;
	u16 reads = ir_insert_reads(ins);
	struct record_regs r;
	struct emit_body body = { .flags = !ins->convention, .reads = reads };
	struct ir_insert with = *ins;
	struct emit_saved saved;

	if (ins->convention)
		regs &= ~(1u << IR_R11);
	r.place = emit_scratch(regs, reads | tsc);
	r.value = r.place;
	if (needs_value(ins) && r.place != IR_REG_NONE)
		r.value = emit_scratch(regs, reads | tsc | 1u << r.place);
	if (r.place == IR_REG_NONE || r.value == IR_REG_NONE) {
		w->full = true;
		return;
	}
	body.changes = 1u << r.place | 1u << r.value | tsc;
	emit_save(w, config, &body, flags & IR_FLAGS, regs, &saved);
	with.pushed = code->pushed;
	emit_saved_lookups(&saved, &with);
	code->pushed += saved.pushed;
	code->body = x86_here(w);
	append(w, &with, &r);
	code->restore = x86_here(w);
	emit_restore(w, config, &saved);
	code->end = x86_here(w);
}
