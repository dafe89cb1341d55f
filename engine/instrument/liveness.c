// SPDX-License-Identifier: GPL-2.0
/*
 * Liveness in a block; see liveness.h. Method: one walk from the last instruction to the first
 * (JIFL paper, section 3.5.1). ahead.c says what is live behind the last instruction.
 */
#include "liveness.h"
#include "ahead.h"
#include "conventions.h"

#define ALL_REGS 0xffff

/*
 * Registers that the inserts at an entry of liveness read. Such an insert reads a register before
 * anything else changes it.
 */
static u16 inserts_read(const struct ir_block *b, u16 at)
{
	const struct ir_insert *ins;
	u16 k, regs = 0;

	for (k = 0; k < b->ninserts; k++) {
		ins = &b->inserts[k];
		if (jifl_liveness_at(ins->at, ins->place) == at)
			regs |= ir_insert_reads(ins);
	}
	return regs;
}

/* Is an insert there given all registers, the flags too? */
static bool shows_flags(const struct ir_block *b, u16 at)
{
	const struct ir_insert *ins;

	for (ins = b->inserts; ins < b->inserts + b->ninserts; ins++)
		if (ir_insert_context(ins) && jifl_liveness_at(ins->at, ins->place) == at)
			return true;
	return false;
}

/* Few blocks have such an insert, and one look at each insert tells. */
static bool has_contexts(const struct ir_block *b)
{
	const struct ir_insert *ins;

	for (ins = b->inserts; ins < b->inserts + b->ninserts; ins++)
		if (ir_insert_context(ins))
			return true;
	return false;
}

/* True when flags are dead before one of the instructions. */
static bool walk_flags(const struct ir_block *b, struct jifl_liveness *l)
{
	const struct ir_insn *insn = &b->insns[b->ninsns];
	u8 *at = &l->flags[b->ninsns], live;
	const bool contexts = has_contexts(b);
	bool dead = false;

	/* Behind the last, and where it branches. */
	if (contexts && (shows_flags(b, b->ninsns) || shows_flags(b, b->ninsns + 1)))
		*at = IR_FLAGS;
	live = *at;
	while (insn-- > b->insns) {
		live = (live & ~insn->flags_written) | insn->flags_read;
		if (contexts && shows_flags(b, insn - b->insns))
			live = IR_FLAGS;
		*--at = live;
		dead |= !live;
	}
	return dead;
}

static void walk_registers(const struct ir_block *b, struct jifl_liveness *l)
{
	const struct ir_insn *insn;
	u16 i;

	for (i = b->ninsns; i-- > 0;) {
		insn = &b->insns[i];
		l->regs[i] = (l->regs[i + 1] & ~insn->regs_written) | insn->regs_read |
			     inserts_read(b, i);
	}
}

static const struct ir_insn *last_of(const struct ir_block *b, u16 n)
{
	return b->ninsns < n ? NULL : &b->insns[b->ninsns - n];
}

/* The flags behind the block, without a look at the code there. */
static u8 flags_behind(const struct ir_block *b)
{
	return jifl_convention_ends_flags(last_of(b, 1), last_of(b, 2)) ? 0 : IR_FLAGS;
}

/* Looks at the code behind the block's end, which costs decoding. */
static void look_behind(const struct ir_block *b, struct jifl_live asked, struct jifl_liveness *l)
{
	struct jifl_live live = jifl_ahead_after(last_of(b, 1), last_of(b, 2), b->next, asked);

	if (asked.flags)
		l->flags[b->ninsns] = live.flags;
	if (asked.regs)
		l->regs[b->ninsns] = live.regs | inserts_read(b, b->ninsns) |
				     inserts_read(b, b->ninsns + 1);
}

/* Looks at the target of the last branch, before anything inserted on that edge. */
static void look_at_target(const struct ir_block *b, struct jifl_live asked,
			   struct jifl_liveness *l)
{
	struct jifl_live live = jifl_ahead_taken(last_of(b, 1), asked);
	u16 taken = b->ninsns + 1;

	l->flags[taken] = shows_flags(b, taken) ? IR_FLAGS : live.flags;
	l->regs[taken] = asked.regs ? live.regs | inserts_read(b, taken) : ALL_REGS;
}

/*
 * C code needs DF clear, and a DF that was set must be set again after it. Assembly sets it for
 * one string instruction, within one block.
 */
static void mark_backwards(const struct ir_block *b, struct jifl_liveness *l)
{
	bool df = false;
	u16 i;

	for (i = 0; i < b->ninsns; i++) {
		if (df)
			l->flags[i] |= IR_DF;
		df = (df || b->insns[i].sets_df) && !b->insns[i].clears_df;
	}
	if (df) {
		l->flags[b->ninsns] |= IR_DF;
		l->flags[b->ninsns + 1] |= IR_DF;
	}
}

/* The places with inserts at the last instruction, which may be a branch: 1 << enum ir_place. */
static u32 places_at_end(const struct ir_block *b)
{
	const struct ir_insert *ins;
	u32 places = 0;

	for (ins = b->inserts; ins < b->inserts + b->ninserts; ins++)
		if (ins->at + 1 == b->ninsns)
			places |= 1u << ins->place;
	return places;
}

void jifl_liveness_compute(struct ir_block *b, enum jifl_liveness_of of, struct jifl_liveness *l)
{
	struct jifl_live asked = { of == JIFL_LIVENESS_AHEAD ? ALL_REGS : 0, IR_FLAGS };
	u32 at_end = places_at_end(b);
	u16 i;

	l->without_regs = of == JIFL_LIVENESS_FLAGS;
	l->regs[b->ninsns] = ALL_REGS;
	l->flags[b->ninsns + 1] = IR_FLAGS;
	l->flags[b->ninsns] = flags_behind(b);
	for (i = 0; i < b->ninsns && !l->without_regs; i++)
		jifl_ahead_registers(&b->insns[i]);
	if (at_end & 1u << IR_TAKEN)
		look_at_target(b, asked, l);
	if (!walk_flags(b, l) || asked.regs || at_end & (1u << IR_TAKEN | 1u << IR_AFTER)) {
		look_behind(b, asked, l);
		walk_flags(b, l);
	}
	if (!l->without_regs)
		walk_registers(b, l);
	if (b->sets_df)
		mark_backwards(b, l);
}

u16 jifl_liveness_flags_dead(const struct ir_block *b)
{
	const struct ir_insn *insn = &b->insns[b->ninsns], *dead = insn;
	u8 live = flags_behind(b);

	while (insn-- > b->insns) {
		live = (live & ~insn->flags_written) | insn->flags_read;
		if (!live)
			dead = insn;
	}
	return dead - b->insns;
}

static u32 count_bits(u32 bits)
{
	u32 n = 0;

	for (; bits; bits &= bits - 1)
		n++;
	return n;
}

/* In instructions, about: flags go into rax, OF separately; a register is pushed and popped. */
static u32 cost_at(const struct jifl_liveness *l, u16 i, bool calls)
{
	u32 cost = calls ? 2 * count_bits(jifl_liveness_regs(l, i) & IR_CALLER_SAVED) : 0;

	if (l->flags[i])
		cost += 4 + (l->flags[i] & IR_OF ? 2 : 0);
	/* Only pushf saves DF, and popf takes as long as everything else together. */
	return l->flags[i] & IR_DF ? cost + 20 : cost;
}

u16 jifl_liveness_cheapest(const struct jifl_liveness *l, u16 from, u16 to, bool calls)
{
	u32 cost, least = cost_at(l, from, calls);
	u16 i, best = from;

	for (i = from + 1; i <= to && least; i++) {
		cost = cost_at(l, i, calls);
		if (cost < least) {
			least = cost;
			best = i;
		}
	}
	return best;
}
