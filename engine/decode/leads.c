// SPDX-License-Identifier: GPL-2.0
/*
 * Tells whether code reaches one instruction from another within a few instructions. This tells a
 * loop from code that runs once.
 *
 * The answer holds for the text as it is now; the text may change later.
 */
#include "decode.h"

enum {
	INSNS = 64,		/* instructions looked at, on all ways together */
	WAYS = 16,		/* places that branches lead to */
};

/* A place is looked at once: a small loop would else use up all instructions. */
struct search {
	jifl_orig ways[WAYS];
	u32 n, looked, insns;
};

static void add_way(struct search *s, jifl_orig addr)
{
	u32 i;

	for (i = 0; i < s->n; i++)
		if (s->ways[i].v == addr.v)
			return;
	if (s->n < WAYS)
		s->ways[s->n++] = addr;
}

/*
 * Where the instruction leads; v 0: nowhere that is known. Adds a way where the instruction
 * branches.
 */
static jifl_orig step(struct search *s, const struct ir_insn *insn)
{
	const jifl_orig behind = jifl_orig_at(insn->addr.v + insn->len);

	switch (insn->kind) {
	case IR_PLAIN:
	case IR_NOP:
	case IR_CALL:
	case IR_CALL_IND:
		return behind;
	case IR_JMP:
		return insn->target;
	case IR_JCC:
	case IR_JCXZ:
		add_way(s, insn->target);
		return behind;
	default:
		return jifl_orig_at(0);
	}
}

bool jifl_decode_reaches(jifl_orig from, jifl_orig to)
{
	struct search s = { .ways = { from }, .n = 1 };
	struct ir_insn insn;
	jifl_orig addr;

	while (s.looked < s.n) {
		addr = s.ways[s.looked++];
		for (; addr.v; addr = step(&s, &insn)) {
			if (addr.v == to.v)
				return true;
			if (s.insns++ == INSNS)
				return false;
			jifl_decode_insn(addr, &insn);
		}
	}
	return false;
}
