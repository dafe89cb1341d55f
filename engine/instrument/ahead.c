// SPDX-License-Identifier: GPL-2.0
/* Looks ahead beyond the end of a block; see ahead.h. */
#include "ahead.h"
#include "conventions.h"
#include "../base/plant.h"
#include "../decode/decode.h"

/* Instructions on one path, and branches that may lie on it. Flags end sooner than registers. */
enum {
	FLAGS_INSNS = 6, FLAGS_BRANCHES = 2,
	REGS_INSNS = 12, REGS_BRANCHES = 3,
};

#define ALL_REGS 0xffff
#define MEMO_BITS 9
#define MIX 0x9e3779b1u		/* 2^32 over the golden ratio: Knuth, vol. 3, 6.4 */

/* What is live at some addresses: a direct-mapped table. */
static struct {
	u32 addr;		/* low half: kernel addresses sign-extend; 0: none */
	struct jifl_live live;
	u8 known;		/* enum known */
} memo[1 << MEMO_BITS];

enum known { KNOWN_FLAGS = 1, KNOWN_REGS = 2 };

static bool remembered;		/* anything, since all was forgotten */
static bool fentry;

/* A way through the code. */
struct path {
	u8 insns, branches;	/* instructions and branches that are left of it */
};

static struct jifl_live look(jifl_orig addr, struct jifl_live asked, struct path path);

/* Each change of text comes here, also while nothing is translated. */
void jifl_ahead_forget(void)
{
	if (remembered)
		memset(memo, 0, sizeof(memo));
	remembered = false;
}

void jifl_ahead_set_fentry(bool on)
{
	fentry = on;
}

static struct jifl_live both(struct jifl_live a, struct jifl_live b)
{
	return (struct jifl_live){ .regs = a.regs | b.regs, .flags = a.flags | b.flags };
}

static struct jifl_live without(struct jifl_live a, struct jifl_live b)
{
	return (struct jifl_live){ .regs = a.regs & ~b.regs, .flags = a.flags & ~b.flags };
}

static bool is_empty(struct jifl_live a)
{
	return !a.regs && !a.flags;
}

static struct jifl_live registers(u16 regs)
{
	return (struct jifl_live){ .regs = regs };
}

/* True when compiled code begins at addr: it has a place for tracers there. */
static bool is_compiled(jifl_orig addr)
{
	struct ir_insn insn;

	if (!fentry)
		return false;
	jifl_decode_insn(addr, &insn);
	if (insn.kind == IR_NOP && insn.len == 4)	/* endbr64, or what it was sealed with */
		jifl_decode_insn(jifl_orig_at(addr.v + insn.len), &insn);
	return insn.kind == IR_NOP && insn.len == 5;
}

static struct jifl_live at_target(const struct ir_insn *insn, struct jifl_live asked,
				  struct path path)
{
	struct jifl_live kept = registers(asked.regs & jifl_convention_keeps(insn));

	return both(kept, look(insn->target, without(asked, kept), path));
}

/* For a jump that may belong to a jump label: the instruction that the jump hides counts, too. */
static struct jifl_live behind_jump(const struct ir_insn *insn, struct jifl_live asked,
				    struct path path)
{
	struct jifl_live live, hidden;

	if (!path.branches)
		return asked;
	path.branches--;
	live = at_target(insn, asked, path);
	hidden = registers(asked.regs & ~live.regs);
	return both(live, look(jifl_orig_at(insn->addr.v + insn->len), hidden, path));
}

static struct jifl_live behind(const struct ir_insn *insn, const struct ir_insn *before,
			       jifl_orig next, struct jifl_live asked, struct path path)
{
	struct jifl_live live;

	if (jifl_convention_ends_flags(insn, before))
		asked.flags = 0;
	switch (insn->kind) {
	case IR_CALL:
		if (asked.regs && is_compiled(insn->target))
			asked.regs &= jifl_convention_keeps(insn);
		return asked;
	case IR_JMP:
		return behind_jump(insn, asked, path);
	case IR_JCC:
	case IR_JCXZ:
		if (!path.branches)
			return asked;
		path.branches--;
		live = at_target(insn, asked, path);
		if (JIFL_PLANTED(target_not_looked_at))
			live = (struct jifl_live){ 0 };
		return both(live, look(next, without(asked, live), path));
	case IR_PLAIN:
	case IR_NOP:
		return look(next, asked, path);
	default:
		return asked;
	}
}

/* Takes out of asked what the instruction decides, and adds to live what it needs. */
static void pass(const struct ir_insn *insn, struct jifl_live *asked, struct jifl_live *live)
{
	struct jifl_live read = { .regs = insn->regs_read, .flags = insn->flags_read };
	struct jifl_live written = { .regs = insn->regs_written, .flags = insn->flags_written };

	read.regs &= asked->regs;
	read.flags &= asked->flags;
	*live = both(*live, read);
	*asked = without(without(*asked, read), written);
}

static struct jifl_live walk(jifl_orig addr, struct jifl_live asked, struct path path)
{
	struct jifl_live live = { 0 };
	struct ir_insn pair[2], *insn = &pair[0], *before = NULL;

	while (path.insns && !is_empty(asked)) {
		path.insns--;
		jifl_decode_insn(addr, insn);
		if (insn->kind == IR_NATIVE)
			break;
		if (asked.regs)
			jifl_ahead_registers(insn);
		pass(insn, &asked, &live);
		addr.v += insn->len;
		if (ir_kind_ends_block(insn->kind))
			return both(live, behind(insn, before, addr, asked, path));
		before = insn;
		insn = insn == pair ? pair + 1 : pair;
	}
	return both(live, asked);
}

static u8 known_for(struct jifl_live asked)
{
	return (asked.flags ? KNOWN_FLAGS : 0) | (asked.regs ? KNOWN_REGS : 0);
}

static u32 slot_of(jifl_orig addr)
{
	return (u32)addr.v * MIX >> (32 - MEMO_BITS);
}

/* What is remembered about addr, as far as it is asked for. */
static bool recall(jifl_orig addr, struct jifl_live asked, struct jifl_live *live)
{
	u8 wanted = known_for(asked);
	u32 i = slot_of(addr);

	if (memo[i].addr != (u32)addr.v || (memo[i].known & wanted) != wanted)
		return false;
	live->regs = memo[i].live.regs & asked.regs;
	live->flags = memo[i].live.flags & asked.flags;
	return true;
}

static struct path full_path(struct jifl_live asked)
{
	return asked.regs ? (struct path){ REGS_INSNS, REGS_BRANCHES } :
			    (struct path){ FLAGS_INSNS, FLAGS_BRANCHES };
}

/* The caller may ask for a part; the whole is remembered. */
static struct jifl_live walk_and_remember(jifl_orig addr, struct jifl_live asked)
{
	struct jifl_live all = { asked.regs ? ALL_REGS : 0, asked.flags ? IR_FLAGS : 0 };
	struct jifl_live live = walk(addr, all, full_path(asked));
	u32 i = slot_of(addr);

	remembered = true;
	memo[i].addr = (u32)addr.v;
	memo[i].live = live;
	memo[i].known = known_for(all);
	return (struct jifl_live){ live.regs & asked.regs, live.flags & asked.flags };
}

static struct jifl_live look(jifl_orig addr, struct jifl_live asked, struct path path)
{
	struct jifl_live live = { 0 };

	if (is_empty(asked) || recall(addr, asked, &live))
		return live;
	if (path.insns < full_path(asked).insns)
		return walk(addr, asked, path);
	return walk_and_remember(addr, asked);
}

struct jifl_live jifl_ahead_after(const struct ir_insn *insn, const struct ir_insn *before,
				   jifl_orig next, struct jifl_live asked)
{
	struct path path = full_path(asked);

	path.branches++;		/* insn itself */
	return behind(insn, before, next, asked, path);
}

struct jifl_live jifl_ahead_taken(const struct ir_insn *insn, struct jifl_live asked)
{
	return at_target(insn, asked, full_path(asked));
}

void jifl_ahead_registers(struct ir_insn *insn)
{
	jifl_decode_registers(insn);
	if (jifl_convention_may_change(insn))
		insn->regs_read = ALL_REGS;
}
