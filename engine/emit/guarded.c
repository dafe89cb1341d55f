// SPDX-License-Identifier: GPL-2.0
/* Inserts with a condition of terms, and records of numbers; see guarded.h. */
#include "count.h"
#include "guarded.h"
#include "hit.h"
#include "inserts.h"
#include "line.h"
#include "terms.h"
#include "../base/plant.h"

/* Notes code that pushes or pops; pushed: words on the stack at its beginning. */
static void map_walked(struct emit_unit *u, u32 from, u8 pushed)
{
	emit_map_inserted(u, from, x86_here(&u->hot), EMIT_MAP_WALKED | pushed);
}

/* Notes code that neither pushes nor pops. */
static void map_fixed(struct emit_unit *u, u32 from, u8 pushed)
{
	emit_map_inserted(u, from, x86_here(&u->hot), EMIT_MAP_FIXED | pushed);
}

/* A jump to behind the insert, where all is as the kernel left it. Returns its rel32. */
static u32 emit_jump_on(struct emit_unit *u)
{
	const u32 from = x86_here(&u->hot), field = x86_jmp_unlinked(&u->hot);

	map_fixed(u, from, 0);
	return field;
}

/* --- conditions ----------------------------------------------------------------------------- */

/* Where a LOAD has failed. rax was saved for LOADs. */
static void emit_unknown(struct x86_writer *w, const struct ir_insert *ins,
			 const struct terms_code *code)
{
	u32 i;

	for (i = 0; i < code->nunknown && !JIFL_PLANTED(unknown_held); i++)
		x86_set_rel32(w, code->unknown[i], x86_here(w));
	x86_mov_imm(w, IR_RAX, ins->unknown);
	x86_count_shared_at_rax(w);
}

static void fails_here(struct x86_writer *w, const struct terms_code *code)
{
	u32 i;

	for (i = 0; i < code->nfails; i++)
		x86_set_rel32(w, code->fails[i], x86_here(w));
}

/* save; terms; count; jmp 1f; where it is unknown: count that; 1: restore */
static void emit_count_if(struct emit_unit *u, const struct ir_insert *ins,
			  const struct emit_saved *saved, enum ir_reg reg,
			  const struct terms_code *code)
{
	struct x86_writer *w = &u->hot;
	u32 around;

	emit_count_by(w, ins, reg);
	if (code->nunknown) {
		around = x86_jmp_short(w);
		emit_unknown(w, ins, code);
		x86_set_rel8_here(w, around);
	}
	fails_here(w, code);
}

/*
 * save; terms; restore; insert; jmp 2f; where it is unknown: count that; 1: restore; 2:
 * The insert stands where all is as the kernel left it. x86_walk does not read this code from end
 * to end: each piece has in the map what is on the stack at its beginning.
 */
static void emit_insert_if(struct emit_unit *u, const struct ir_insert *ins, u8 flags, u16 regs,
			   const struct emit_saved *saved, const struct terms_code *code)
{
	struct x86_writer *w = &u->hot;
	struct ir_insert plain = *ins;
	u32 from = x86_here(w), around;

	plain.terms = NULL;
	emit_restore(w, u->config, saved);
	map_walked(u, from, saved->pushed);
	emit_with_body(u, &plain, flags, regs);
	around = emit_jump_on(u);
	from = x86_here(w);
	if (code->nunknown)
		emit_unknown(w, ins, code);
	fails_here(w, code);
	map_fixed(u, from, saved->pushed);
	from = x86_here(w);
	emit_restore(w, u->config, saved);
	map_walked(u, from, saved->pushed);
	x86_set_rel32(w, around, x86_here(w));
}

/* What the code of the terms changes: it is made once to learn that. 0xffff: there is none. */
static u16 changed_by_terms(const struct emit_unit *u, const struct ir_insert *ins, u16 regs,
			    struct terms_code *code)
{
	static u8 scratch[TERMS_CODE + 64];
	const struct emit_saved none = { 0 };
	struct x86_writer w = u->hot;

	w.buf = scratch;
	w.cap = sizeof(scratch);
	w.len = 0;
	return emit_terms(&w, ins->terms, &none, regs, code) ? code->changes : 0xffff;
}

void emit_guarded_terms(struct emit_unit *u, const struct ir_insert *ins, u8 flags, u16 regs)
{
	static struct terms_code code;	/* under the engine lock, like all scratch */
	struct emit_body body = { .flags = true, .calls = ins->terms->calls,
				  .changes = changed_by_terms(u, ins, regs, &code),
				  .reads = ins->terms->reads };
	/* The terms are behind it. */
	enum ir_reg reg = emit_scratch(regs, 0);
	const bool counts = ins->kind == IR_INSERT_COUNT;
	struct emit_saved saved;
	u32 from = x86_here(&u->hot);

	if (body.changes == 0xffff) {
		u->full = true;
		return;
	}
	if (counts && !emit_count_is_near(ins))
		body.changes |= 1u << reg;
	/* A walk from what is called finds r10 where it was saved (run/unwind.c), if it is live. */
	if (ins->terms->calls)
		body.changes |= regs & 1u << IR_R10;
	emit_save(&u->hot, u->config, &body, flags, regs, &saved);
	if (ins->terms->calls && (flags & IR_DF))
		x86_cld(&u->hot);
	map_walked(u, from, 0);
	from = x86_here(&u->hot);
	emit_terms(&u->hot, ins->terms, &saved, regs, &code);
	if (counts)
		emit_count_if(u, ins, &saved, reg, &code);
	map_fixed(u, from, saved.pushed);
	if (!counts) {
		emit_insert_if(u, ins, flags, regs, &saved, &code);
		return;
	}
	from = x86_here(&u->hot);
	emit_restore(&u->hot, u->config, &saved);
	map_walked(u, from, saved.pushed);
}

/* --- records of numbers ---------------------------------------------------------------------- */

/* As changed_by_terms: what the condition, the values and appending change. */
static u16 changed_by_hit(const struct emit_unit *u, const struct ir_insert *ins, u16 regs,
			  struct terms_code *condition, struct hit_values *values)
{
	static u8 scratch[TERMS_CODE + 64];
	const struct emit_saved none = { 0 };
	struct x86_writer w = u->hot;
	u16 changes = ins->terms ? changed_by_terms(u, ins, regs, condition) : 0;

	w.buf = scratch;
	w.cap = sizeof(scratch);
	w.len = 0;
	if (changes == 0xffff || !emit_hit_values(&w, ins->hit, &none, regs, values))
		return 0xffff;
	return changes | values->code.changes;
}

/* The host's function does it all, where all is as the kernel left it. */
static void emit_hit_call(struct emit_unit *u, const struct ir_insert *ins, u8 flags, u16 regs)
{
	struct ir_insert call = *ins;

	call.kind = IR_INSERT_CALL;
	call.terms = NULL;
	call.hit = NULL;
	call.nargs = 2;
	call.fetched = 1u << 1;
	call.fetches[1] = (struct ir_fetch){ .how = IR_FETCH_CONTEXT, .base = IR_REG_NONE,
					     .index = IR_REG_NONE, .scale = 1,
					     .disp = (s32)ins->args[1] };
	emit_with_body(u, &call, flags, regs);
}

/* Where there is no room, or a value cannot be read. */
static void emit_hit_left(struct emit_unit *u, const struct ir_insert *ins, u8 flags, u16 regs,
			  const struct emit_saved *saved, const struct hit_values *values, u8 depth)
{
	struct x86_writer *w = &u->hot;
	u32 from = x86_here(w), i;

	for (i = 0; i < values->code.nunknown; i++)
		x86_set_rel32(w, values->code.unknown[i], from);
	x86_popf(w);
	emit_restore(w, u->config, saved);
	map_walked(u, from, depth);
	emit_hit_call(u, ins, flags, regs);
}

/* Where the condition does not hold: interrupts are as they were. */
static void emit_hit_fails(struct emit_unit *u, const struct ir_insert *ins,
			   const struct emit_saved *saved, const struct terms_code *condition,
			   u8 depth)
{
	struct x86_writer *w = &u->hot;
	u32 from = x86_here(w);

	if (condition->nunknown) {
		emit_unknown(w, ins, condition);
		map_fixed(u, from, depth);
		from = x86_here(w);
	}
	fails_here(w, condition);
	x86_move_stack(w, 8);
	emit_restore(w, u->config, saved);
	map_walked(u, from, depth);
}

/* Where a line is not written: it is left to the host, to which this returns the branch, or: */
static u32 emit_hit_stopped(struct emit_unit *u, const struct ir_insert *ins,
			    const struct emit_saved *saved, const struct hit_values *values,
			    u8 depth)
{
	struct x86_writer *w = &u->hot;
	u32 from = x86_here(w), left;

	left = emit_line_stopped(w, ins, values);
	map_fixed(u, from, depth);
	from = x86_here(w);
	x86_popf(w);
	emit_restore(w, u->config, saved);
	map_walked(u, from, depth);
	return left;
}

/*
 * save; pushf; condition; cli; values; append; popf; restore; jmp 3f;
 * of a line, where there is none: popf; restore; jmp 3f;
 * no room, or a value that is unknown: popf; restore; the host's function; jmp 3f;
 * the condition is unknown: count that; it does not hold: drop the flags; restore; 3:
 *
 * The piece right before the values pushes r10, if it is live: a walk from what they call looks
 * there (cache/pushed.c).
 */
void emit_guarded_hit(struct emit_unit *u, const struct ir_insert *ins, u8 flags, u16 regs)
{
	static struct terms_code condition;	/* under the engine lock, like all scratch */
	static struct hit_values values;
	/* Without a condition each way has the popf of what is pushed here. */
	struct emit_body body = { .flags = ins->terms, .calls = true,
				  .reads = ir_insert_reads(ins) };
	struct x86_writer *w = &u->hot;
	u32 from = x86_here(w), done[3], ndone = 0, full;
	struct emit_saved saved;
	u8 depth;

	body.changes = changed_by_hit(u, ins, regs, &condition, &values);
	if (body.changes == 0xffff) {
		u->full = true;
		return;
	}
	if (ins->hit->values.calls)
		body.changes |= regs & 1u << IR_R10;
	emit_save(w, u->config, &body, flags, regs, &saved);
	x86_pushf(w);
	if (ins->hit->values.calls && (flags & IR_DF))
		x86_cld(w);
	map_walked(u, from, 0);
	depth = saved.pushed + !JIFL_PLANTED(hit_depth_flat);
	from = x86_here(w);
	if (ins->terms)
		emit_terms(w, ins->terms, &saved, regs, &condition);
	emit_hit_begin(w, u->config);
	emit_hit_values(w, ins->hit, &saved, regs, &values);
	full = ins->hit->line ? emit_line(w, ins, &values) : emit_hit_append(w, ins, &values);
	map_fixed(u, from, depth);
	from = x86_here(w);
	x86_popf(w);
	emit_restore(w, u->config, &saved);
	map_walked(u, from, depth);
	done[ndone++] = emit_jump_on(u);
	x86_set_rel32(w, full, x86_here(w));
	if (ins->hit->line) {
		full = emit_hit_stopped(u, ins, &saved, &values, depth);
		done[ndone++] = emit_jump_on(u);
		x86_set_rel32(w, full, x86_here(w));
	}
	emit_hit_left(u, ins, flags, regs, &saved, &values, depth);
	if (ins->terms) {
		done[ndone++] = emit_jump_on(u);
		emit_hit_fails(u, ins, &saved, &condition, depth);
	}
	while (ndone)
		x86_set_rel32(w, done[--ndone], x86_here(w));
}

bool emit_hit_has_code(const struct ir_hit *hit, const struct ir_terms *condition)
{
	static u8 scratch[TERMS_CODE];
	static struct hit_values values;
	const struct emit_saved none = { 0 };
	struct x86_writer w = { .buf = scratch, .cap = sizeof(scratch) };

	if (condition && !emit_terms_have_code(condition))
		return false;
	/* The ring may be far: where it is is not known yet. */
	return emit_hit_values(&w, hit, &none, 0xffff, &values) && !w.full &&
	       (values.ring != IR_REG_NONE || emit_numbers_scratch() != IR_REG_NONE);
}
