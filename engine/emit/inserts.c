// SPDX-License-Identifier: GPL-2.0
/* Inserts of a block; see inserts.h. */
#include "inserts.h"
#include "guarded.h"
#include "inlined.h"
#include "record.h"
#include "when.h"
#include "../base/plant.h"

void emit_map_add(struct emit_unit *u, u32 from, u32 to, u8 src)
{
	const bool inserted = emit_map_is_inserted(src) && !JIFL_PLANTED(long_run_unknown);
	u32 len = to - from, part;

	/*
	 * Runs of inserted code may be long: behind a pair with 255 the next pair continues the
	 * run. Each says what it is: readers ask the first.
	 */
	do {
		part = len < EMIT_MAP_GOES_ON ? len : EMIT_MAP_GOES_ON;
		if (u->nmap + 2 > sizeof(u->map)) {
			u->full = true;
			return;
		}
		u->map[u->nmap++] = part;
		u->map[u->nmap++] = part < EMIT_MAP_GOES_ON || inserted ? src : 0;
		len -= part;
	} while (part == EMIT_MAP_GOES_ON);
}

void emit_map_inserted(struct emit_unit *u, u32 from, u32 to, u8 what)
{
	if (from == to)
		return;
	emit_map_add(u, from, to, what | (u->continues ? EMIT_MAP_CONTINUES : 0));
	u->continues = true;
}

/* Notes the code of a body that neither pushes nor pops, between its saves and restores. */
static void map_saved(struct emit_unit *u, u32 from, const struct inlined *code)
{
	emit_map_inserted(u, from, code->body, EMIT_MAP_WALKED);
	emit_map_inserted(u, code->body, code->restore, EMIT_MAP_FIXED | code->pushed);
	emit_map_inserted(u, code->restore, code->end, EMIT_MAP_WALKED | code->pushed);
}

/* Returns true when *code says where the body is. Such a body neither pushes nor pops. */
static bool emit_kind(struct emit_unit *u, const struct emit_config *config,
		      const struct ir_insert *ins, u8 flags, u16 regs, struct inlined *code)
{
	enum jifl_inline verdict;

	if (ins->kind == IR_INSERT_RECORD) {
		emit_record(&u->hot, config, ins, flags, regs, code);
		return true;
	}
	if (ins->kind == IR_INSERT_CALL && !(ins->without & IR_WITHOUT_INLINING)) {
		verdict = emit_inlined(&u->hot, config, ins, flags, regs, code);
		emit_inlined_note(ins->fn, verdict);
		if (verdict == JIFL_INLINE_YES)
			return true;
	}
	emit_insert(&u->hot, config, ins, flags, regs);
	return false;
}

/* Emits ins with its condition around it. */
static bool emit_conditional(struct emit_unit *u, const struct ir_insert *ins, u8 flags, u16 regs,
			     struct inlined *code)
{
	struct emit_when when;
	bool has_body;

	emit_when_begin(&u->hot, u->config, ins, flags, regs, &when);
	code->pushed = when.saved.pushed;
	has_body = emit_kind(u, &when.config, &when.ins, when.flags, when.regs, code);
	emit_when_end(&u->hot, u->config, &when);
	code->end = x86_here(&u->hot);
	return has_body;
}

JIFL_NOINLINE void emit_with_body(struct emit_unit *u, const struct ir_insert *ins, u8 flags,
				  u16 regs)
{
	u32 from = x86_here(&u->hot);
	struct inlined code = { 0 };

	if (ins->when.width ? emit_conditional(u, ins, flags, regs, &code) :
			      emit_kind(u, u->config, ins, flags, regs, &code))
		map_saved(u, from, &code);
	else
		emit_map_inserted(u, from, x86_here(&u->hot), EMIT_MAP_WALKED);
}

static bool is_plain(const struct ir_insert *ins)
{
	return !ins->when.width && ins->kind != IR_INSERT_CALL && ins->kind != IR_INSERT_RECORD;
}

/* Emits ins in its cheapest form. */
static void emit_one(struct emit_unit *u, const struct ir_insert *ins, u8 flags, u16 regs)
{
	u32 from = x86_here(&u->hot);

	if (ins->without & IR_WITHOUT_LIVENESS) {
		flags |= IR_FLAGS;
		regs = 0xffff;
	}
	flags |= ins->keeps_flags ? IR_FLAGS : 0;
	regs |= ins->keeps;
	if (ins->kind == IR_INSERT_HIT) {
		emit_guarded_hit(u, ins, flags, regs);
		return;
	}
	if (ins->terms) {
		emit_guarded_terms(u, ins, flags, regs);
		return;
	}
	if (!is_plain(ins)) {
		emit_with_body(u, ins, flags, regs);
		return;
	}
	emit_insert(&u->hot, u->config, ins, flags, regs);
	emit_map_inserted(u, from, x86_here(&u->hot), EMIT_MAP_WALKED);
}

/*
 * No place on an edge of a branch is exact. On the taken edge a thread is not at the place that the
 * map gives. On the other edge it is, but if it went on from there in another copy, what is
 * inserted on the edge would be left out.
 */
static bool is_edge(const struct ir_block *b, enum ir_place place, u16 i)
{
	return place == IR_TAKEN ||
	       (place == IR_AFTER && ir_kind_is_conditional(b->insns[i].kind));
}

void emit_inserts_at(struct emit_unit *u, const struct ir_block *b, const struct jifl_liveness *l,
		     enum ir_place place, u16 i)
{
	u16 entry = jifl_liveness_at(i, place), regs = jifl_liveness_regs(l, entry);
	u32 from = x86_here(&u->hot);
	const struct ir_insert *ins;

	/* Nor is one exact in an entry piece before its inserts: the call has not begun there. */
	u->continues = (is_edge(b, place, i) && !JIFL_PLANTED(taken_edge_exact)) ||
		       (b->in_piece && !i && place == IR_BEFORE);
	if (u->config->poison) {
		emit_poison(&u->hot, u->config, l->flags[entry], regs);
		emit_map_inserted(u, from, x86_here(&u->hot), EMIT_MAP_WALKED);
	}
	for (ins = b->inserts; ins < b->inserts + b->ninserts; ins++)
		if (ins->place == place && ins->at == i)
			emit_one(u, ins, l->flags[entry], regs);
}

/* True when the code of the inserts depends on live registers, wherever the inserts are put. */
static bool needs_registers(const struct emit_unit *u, const struct ir_block *b)
{
	const struct ir_insert *ins;

	if (u->config->poison)
		return true;
	for (ins = b->inserts; ins < b->inserts + b->ninserts; ins++) {
		if (ins->kind == IR_INSERT_CALL ? emit_inlined_needs_registers(ins) :
		    ins->kind == IR_INSERT_HIST ||
		    ins->kind == IR_INSERT_HIT ||
		    ((ins->kind == IR_INSERT_COUNT || ins->kind == IR_INSERT_RECORD) &&
		     !ins->convention))
			return true;
	}
	return false;
}

/* Chooses a place for an insert that may stand at several. */
static void choose_place(const struct ir_block *b, const struct jifl_liveness *l,
			 struct ir_insert *ins)
{
	if (ins->place == IR_ANYWHERE) {
		ins->from = 0;
		ins->at = b->ninsns - 1;
	} else if (ins->place != IR_BETWEEN) {
		return;
	}
	ins->place = IR_BEFORE;
	ins->at = ins->without & IR_WITHOUT_LIVENESS ? ins->from :
		jifl_liveness_cheapest(l, ins->from, ins->at, ins->kind == IR_INSERT_CALL);
}

/* True when ins stands where flags are live, and may have to save them. */
static bool meets_flags(const struct ir_insert *ins, const struct jifl_liveness *l)
{
	return l->flags[jifl_liveness_at(ins->at, ins->place)] &&
	       ((ins->kind != IR_INSERT_STORE && ins->kind != IR_INSERT_GARBAGE) ||
		ins->when.width);
}

/* Registers are looked at only where that pays. */
void emit_place_inserts(const struct emit_unit *u, struct ir_block *b, struct jifl_liveness *l)
{
	bool with_registers = needs_registers(u, b), meets = false;
	struct ir_insert *ins;

	jifl_liveness_compute(b, with_registers ? JIFL_LIVENESS_AHEAD : JIFL_LIVENESS_FLAGS, l);
	for (ins = b->inserts; ins < b->inserts + b->ninserts; ins++) {
		choose_place(b, l, ins);
		meets |= meets_flags(ins, l);
	}
	if (meets && !with_registers)
		jifl_liveness_compute(b, JIFL_LIVENESS_BLOCK, l);
}
