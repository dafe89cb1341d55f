// SPDX-License-Identifier: GPL-2.0
/*
 * The stages of translation, in their order. Read this first.
 *
 *	decode		original bytes -> instructions of one basic block
 *	instrument	the context's callback adds inserts
 *	emit		liveness; inserts and copied instructions -> code
 *	commit		code and side tables become part of the cache
 *	link		exits to blocks that exist, blocks to exits that wait
 *
 * A unit is translated straight ahead. Behind a conditional branch comes the code that runs when
 * the branch is not taken. Behind a call comes the code to which the call returns. A jump to
 * untranslated code is left out in favour of that code. So the fall-through path executes no jump
 * of the engine's. The price is code that may never run.
 *
 * A unit of a layout (jifl_translate_chain) has the blocks that the host names instead, in its
 * order.
 */
#include "translate.h"
#include "base/plant.h"
#include "decode/decode.h"
#include "host.h"

struct jifl_translated jifl_translated;
jifl_instrument_fn jifl_translate_everywhere;

/* Scratch memory; under the engine lock. */
static struct ir_block ir_pair[2];
static struct emit_unit unit;
static struct cache_source source[EMIT_UNIT_BLOCKS];

/* Which blocks are to follow. Not `named`: those on the way straight ahead. */
static struct {
	bool named;
	const jifl_orig *next;
	u32 left;
} course;

/* Where b goes on if nothing branches away; v 0: nowhere. */
static jifl_orig way_on(const struct ir_block *b)
{
	const struct ir_insn *last = &b->insns[b->ninsns - 1];

	return last->kind == IR_JMP ? last->target : b->next;
}

/* Does b end with a branch to addr that can be turned round? */
static bool may_turn_to(const struct ir_block *b, jifl_orig addr)
{
	const struct ir_insn *last = &b->insns[b->ninsns - 1];

	return last->kind == IR_JCC && !last->leaves && b->next.v && last->target.v == addr.v;
}

/*
 * Turns the branch at the end of b round: it is taken where it was not, and b goes on where it led.
 * False: something is inserted on one of its edges.
 */
static bool turn(struct ir_block *b)
{
	const u16 at = b->ninsns - 1;
	struct ir_insn *last = &b->insns[at];
	const jifl_orig target = last->target;
	const struct ir_insert *ins;

	for (ins = b->inserts; ins < b->inserts + b->ninserts; ins++)
		if (ins->at == at && (ins->place == IR_AFTER || ins->place == IR_TAKEN))
			return false;
	if (!JIFL_PLANTED(branch_not_turned))
		last->cc ^= 1;
	last->target = b->next;
	b->next = target;
	return true;
}

/* The block that is to lie right behind b; v 0: none. */
static jifl_orig follower(const struct ir_block *b)
{
	const jifl_orig on = way_on(b);

	if (!course.named)
		return on;
	if (!course.left || (course.next->v != on.v && !may_turn_to(b, *course.next)))
		return jifl_orig_at(0);
	return *course.next;
}

static bool in_unit(jifl_orig addr)
{
	u32 i;

	for (i = 0; i < unit.nblocks; i++)
		if (source[i].addr.v == addr.v)
			return true;
	return false;
}

static enum jifl_cause decode_at(jifl_orig addr, struct ir_block *b)
{
	enum jifl_cause cause = JIFL_CAUSE_FOREIGN;
	enum jifl_text text = jifl_host_classify(addr, &cause);

	if (text == JIFL_TEXT_THUNK)
		return JIFL_CAUSE_NOINSTR;
	return text == JIFL_TEXT_CODE ? jifl_decode_block(addr, b) : cause;
}

static bool leaves(int context, jifl_orig from, jifl_orig to, bool call)
{
	const struct cache_context *c = &cache.contexts[context];

	return c->leaves ? c->leaves(from, to, call, c->arg) : c->limited && call;
}

/* Notes whether the branch at the block's end leaves the context. */
static void note_leaving(int context, struct ir_block *b)
{
	struct ir_insn *last = &b->insns[b->ninsns - 1];

	if (!cache.contexts[context].limited)
		return;
	switch (last->kind) {
	case IR_CALL_IND:
		/* A call of a thunk stays one. */
		last->leaves = last->target.v || cache.config.indirect_jumps;
		break;
	case IR_CALL:
	case IR_JMP:
	case IR_JCC:
		last->leaves = leaves(context, b->addr, last->target, last->kind == IR_CALL);
		break;
	}
}

/* Decodes into next the block with which b goes on, if it can lie right behind b. */
static bool decode_follower(int context, const struct ir_block *b, struct ir_block *next)
{
	const u32 blocks = course.named ? EMIT_UNIT_BLOCKS : EMIT_UNIT_AHEAD;
	jifl_orig addr = follower(b);

	/* Where little room is left, units are short: each unit that fits is worth having. */
	if (!addr.v || !emit_unit_has_room(&unit, blocks) ||
	    !jifl_cache_may_grow(unit.hot.len) ||
	    addr.v == b->addr.v || in_unit(addr) ||
	    jifl_cache_find(context, addr) != CACHE_NONE || leaves(context, b->addr, addr, false))
		return false;
	return decode_at(addr, next) == JIFL_CAUSE_NONE;
}

static void turn_inserts(struct ir_block *b, u16 from, u16 to)
{
	struct ir_insert one;

	while (from + 1 < to) {
		one = b->inserts[from];
		b->inserts[from++] = b->inserts[--to];
		b->inserts[to] = one;
	}
}

/*
 * The context's inserts are made first: the others tell what they find no room for. They run after
 * the others, which see registers as the instruction finds them.
 */
static void instrument(int context, struct ir_block *b)
{
	const struct cache_context *c = &cache.contexts[context];
	const u16 first = b->ninserts;
	u16 own;

	if (c->fn)
		c->fn(b, c->arg);
	own = b->ninserts;
	if (!jifl_translate_everywhere)
		return;
	jifl_translate_everywhere(b, NULL);
	if (own == first || own == b->ninserts)
		return;
	turn_inserts(b, first, own);
	turn_inserts(b, own, b->ninserts);
	turn_inserts(b, first, b->ninserts);
}

static void note_source(jifl_orig addr, u32 len, u8 flags)
{
	source[unit.nblocks] = (struct cache_source){ .addr = addr, .len = len, .flags = flags };
}

/* Decodes, instruments and emits from b on. b is decoded already. */
static void emit_straight_ahead(int context, struct ir_block *b, struct ir_block *next)
{
	struct ir_block *t;
	bool followed;

	do {
		jifl_translated.blocks++;
		jifl_translated.insns += b->count;
		note_source(b->addr, b->src_len, 0);
		note_leaving(context, b);
		followed = decode_follower(context, b, next);
		instrument(context, b);
		if (followed && way_on(b).v != next->addr.v)
			followed = turn(b);
		if (followed) {
			source[unit.nblocks].flags |= CACHE_BLOCK_FALLS;
			course.next++;
			course.left--;
		}
		source[unit.nblocks].flags |= b->asks ? CACHE_BLOCK_ASKS : 0;
		emit_block(&unit, b, followed);
		t = b;
		b = next;
		next = t;
	} while (followed);
}

static void begin(int context)
{
	emit_unit_begin(&unit, &cache.config, cache.code_base, cache.hot, cache.cold,
			cache.nexits, cache.contexts[context].lookup,
			(s32)cache.contexts[context].targets);
}

/* Commits the unit if it is whole and fits. */
static u32 finish(int context, enum jifl_cause *cause)
{
	if (emit_unit_is_full(&unit) || !jifl_cache_has_room(unit.hot.len, unit.cold.len)) {
		jifl_translated.refused++;
		*cause = JIFL_CAUSE_MEMORY;
		return CACHE_NONE;
	}
	return jifl_cache_commit(&unit, context, source);
}

/* Makes room for the side tables of any unit, and the context's ways to what it has. */
static bool prepare(int context, enum jifl_cause *cause)
{
	if (jifl_cache_has_room(0, 0) && !jifl_cache_lookup_create(context) &&
	    jifl_cache_targets_create(context))
		return true;
	jifl_translated.refused++;
	*cause = JIFL_CAUSE_MEMORY;
	return false;
}

/* An indirect jump has come to code outside of the context. */
static u32 translate_leaving(int context, jifl_orig addr, enum jifl_cause *cause)
{
	begin(context);
	/* Watched, because the context may have other limits when these bytes change. */
	note_source(addr, 1, CACHE_BLOCK_NATIVE);
	emit_leaving_block(&unit, addr);
	return finish(context, cause);
}

static u32 translate(int context, jifl_orig addr, enum jifl_cause *cause)
{
	if (!prepare(context, cause))
		return CACHE_NONE;
	if (leaves(context, jifl_orig_at(0), addr, false))
		return translate_leaving(context, addr, cause);
	*cause = decode_at(addr, &ir_pair[0]);
	/* An int3 goes away again. No rel32 reaches bytes that are out of reach. */
	if (*cause == JIFL_CAUSE_INT3 || !jifl_fits_s32((s64)addr.v))
		return CACHE_NONE;
	begin(context);
	if (*cause == JIFL_CAUSE_NONE) {
		emit_straight_ahead(context, &ir_pair[0], &ir_pair[1]);
	} else {
		/* Watched like other bytes: if they change, the engine looks at them again. */
		note_source(addr, 1, CACHE_BLOCK_NATIVE);
		emit_native_block(&unit, addr, *cause);
	}
	return finish(context, cause);
}

u32 jifl_translate(int context, jifl_orig addr, enum jifl_cause *cause)
{
	u64 start = jifl_host_clock();
	u32 block = translate(context, addr, cause);

	jifl_translated.ns += jifl_host_clock() - start;
	return block;
}

u32 jifl_translate_chain(int context, const jifl_orig *chain, u32 n, u32 *laid,
			 enum jifl_cause *cause)
{
	u32 block;

	course.named = true;
	course.next = chain + 1;
	course.left = n - 1;
	block = jifl_translate(context, chain[0], cause);
	course.named = false;
	*laid = block == CACHE_NONE ? 0 : unit.nblocks;
	return block;
}

bool jifl_translate_matches(jifl_orig addr, jifl_block_matches_fn is, const void *arg)
{
	return decode_at(addr, &ir_pair[0]) == JIFL_CAUSE_NONE && is(&ir_pair[0], arg);
}

/* Leaves the instructions in the block's first len bytes. False: the block ends before. */
static bool cut(struct ir_block *b, u32 len)
{
	u32 at = 0;
	u16 n = 0;

	while (n < b->ninsns && at < len)
		at += b->insns[n++].len;
	if (at != len)
		return false;
	/* Instructions that are folded belong to the block's last one, a branch. */
	if (n < b->ninsns) {
		b->ninsns = n;
		b->count = n;
		b->src_len = len;
		b->next = jifl_orig_at(b->addr.v + len);
	}
	return true;
}

u32 jifl_translate_beginning(int context, jifl_orig target, u32 len, const struct ir_insert *entry,
			     u32 nentry, enum jifl_cause *cause)
{
	struct ir_block *b = &ir_pair[0];
	struct ir_insert *ins;
	u32 i;

	if (!prepare(context, cause))
		return CACHE_NONE;
	*cause = decode_at(target, b);
	if (*cause != JIFL_CAUSE_NONE)
		return CACHE_NONE;
	if (!cut(b, len)) {
		*cause = JIFL_CAUSE_STALE;
		return CACHE_NONE;
	}
	b->in_piece = true;
	for (i = 0; i < nentry; i++) {
		ins = ir_block_insert(b, IR_BEFORE, 0);
		*ins = entry[i];
		ins->place = IR_BEFORE;
		ins->at = 0;
		/* It may be assembly, which is called with any register in use. */
		ins->convention = false;
	}
	instrument(context, b);
	begin(context);
	note_source(target, len, CACHE_BLOCK_BEGINS);
	emit_block(&unit, b, false);
	return finish(context, cause);
}

u32 jifl_translate_entry(int context, jifl_orig target,
			 const struct ir_insert *entry, u32 nentry,
			 const struct ir_insert *exit, u32 nexit, enum jifl_cause *cause)
{
	u32 after;

	if (!prepare(context, cause))
		return CACHE_NONE;
	begin(context);
	note_source(target, 0, CACHE_BLOCK_ENTRY);
	after = emit_entry(&unit, target, entry, nentry, exit, nexit);
	source[0].len = after ? after - unit.blocks[0].start : 0;
	return finish(context, cause);
}
