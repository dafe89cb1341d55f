// SPDX-License-Identifier: GPL-2.0
/*
 * Block-local liveness; see liveness.h. Method: one walk from the last
 * instruction to the first (JIFL paper, section 3.5.1).
 */
#include "liveness.h"
#include "../decode/decode.h"

/* How far ahead of a block's end to look for the end of its flags' lives. */
#define LOOK_AHEAD_INSNS 6
#define LOOK_AHEAD_BRANCHES 2

static bool drops_flags(u8 kind)
{
	return kind == IR_CALL || kind == IR_CALL_IND || kind == IR_RET ||
	       kind == IR_RET_THUNK || kind == IR_JMP_IND;
}

/*
 * Flags live at addr, seen from a few instructions there; all of them when
 * these do not tell.
 */
static u8 flags_live_at(jifl_orig addr, u8 wanted, u32 branches)
{
	struct ir_insn insn;
	u8 live = 0;
	u32 i;

	for (i = 0; i < LOOK_AHEAD_INSNS && wanted; i++) {
		jifl_decode_insn(addr, &insn);
		live |= wanted & insn.flags_read;
		wanted &= ~(insn.flags_written | insn.flags_read);
		if (!wanted || drops_flags(insn.kind))
			return live;
		switch (insn.kind) {
		case IR_PLAIN:
		case IR_NOP:
			addr.v += insn.len;
			break;
		case IR_JMP:
			addr = insn.target;
			break;
		case IR_JCC:
			if (!branches)
				return live | wanted;
			live |= flags_live_at(insn.target, wanted, branches - 1);
			addr.v += insn.len;
			branches--;
			break;
		default:
			return live | wanted;
		}
	}
	return live | wanted;
}

static u8 flags_after(const struct ir_block *b)
{
	const struct ir_insn *last = &b->insns[b->ninsns - 1];
	u8 live;

	if (drops_flags(last->kind))
		return 0;
	live = b->next.v ? flags_live_at(b->next, IR_FLAGS, LOOK_AHEAD_BRANCHES) : 0;
	if (last->kind == IR_JMP || last->kind == IR_JCC || last->kind == IR_JCXZ)
		live |= flags_live_at(last->target, IR_FLAGS & ~live, LOOK_AHEAD_BRANCHES);
	return live;
}

/* An insert that reads a register reads it before anything else changes it. */
static u16 inserts_read(const struct ir_block *b, u16 at)
{
	const struct ir_insert *ins;
	u16 k, regs = 0;

	for (k = 0; k < b->ninserts; k++) {
		ins = &b->inserts[k];
		if (ins->kind == IR_INSERT_ADD_REG && ins->at + (ins->place == IR_AFTER) == at)
			regs |= 1u << ins->reg;
	}
	return regs;
}

static void walk(const struct ir_block *b, bool with_registers, struct jifl_liveness *l)
{
	const struct ir_insn *insn;
	u16 i;

	for (i = b->ninsns; i-- > 0;) {
		insn = &b->insns[i];
		l->flags[i] = (l->flags[i + 1] & ~insn->flags_written) | insn->flags_read;
		l->regs[i] = with_registers ? (l->regs[i + 1] & ~insn->regs_written) |
			insn->regs_read | inserts_read(b, i) : 0xffff;
	}
}

/*
 * C code wants DF clear and must give back a set one. Assembly sets it for one
 * string instruction, within one block.
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
	if (df)
		l->flags[b->ninsns] |= IR_DF;
}

static bool has_dead_point(const struct ir_block *b, const struct jifl_liveness *l)
{
	u16 i;

	for (i = 0; i < b->ninsns; i++)
		if (!l->flags[i])
			return true;
	return false;
}

void jifl_liveness_compute(struct ir_block *b, bool with_registers, struct jifl_liveness *l)
{
	if (with_registers)
		jifl_decode_registers(b);
	l->regs[b->ninsns] = 0xffff;
	l->flags[b->ninsns] = drops_flags(b->insns[b->ninsns - 1].kind) ? 0 : IR_FLAGS;
	walk(b, with_registers, l);
	/* Looking past the end costs decoding: only where it can help. */
	if (b->ninserts && !has_dead_point(b, l)) {
		l->flags[b->ninsns] = flags_after(b);
		walk(b, with_registers, l);
	}
	mark_backwards(b, l);
}

u16 jifl_liveness_cheapest(const struct ir_block *b, const struct jifl_liveness *l)
{
	u16 i;

	for (i = 0; i < b->ninsns; i++)
		if (!l->flags[i])
			return i;
	return 0;
}
