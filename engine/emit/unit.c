// SPDX-License-Identifier: GPL-2.0
/* Emission of blocks, native blocks and entry pieces into a unit; see emit.h. */
#include "inlined.h"
#include "record.h"
#include "when.h"
#include "../base/plant.h"

void emit_unit_begin(struct emit_unit *u, const struct emit_config *config, u64 code_base,
		     u32 hot_start, u32 cold_start, u32 exit_base, u32 lookup)
{
	u->config = config;
	u->hot = (struct x86_writer){ .buf = u->hot_buf, .cap = sizeof(u->hot_buf),
				      .start = hot_start, .code_base = code_base };
	u->cold = (struct x86_writer){ .buf = u->cold_buf, .cap = sizeof(u->cold_buf),
				       .start = cold_start, .code_base = code_base };
	u->exit_base = exit_base;
	u->lookup = lookup;
	u->nexits = 0;
	u->nblocks = 0;
	u->nmap = 0;
	u->full = false;
}

/* Notes that hot code [from, to) was made from src original bytes, or is enum emit_map. */
static void map_add(struct emit_unit *u, u32 from, u32 to, u8 src)
{
	u32 len = to - from, part;

	/* Runs of inserted code may be long: a pair with 255 is gone on with. */
	do {
		part = len < EMIT_MAP_GOES_ON ? len : EMIT_MAP_GOES_ON;
		if (u->nmap + 2 > sizeof(u->map)) {
			u->full = true;
			return;
		}
		u->map[u->nmap++] = part;
		u->map[u->nmap++] = part < EMIT_MAP_GOES_ON ? src : 0;
		len -= part;
	} while (part == EMIT_MAP_GOES_ON);
}

static struct emit_exit *exit_add(struct emit_unit *u, u8 kind)
{
	struct emit_exit *e;

	if (u->nexits == EMIT_UNIT_EXITS) {
		u->full = true;
		return &u->exits[0];
	}
	e = &u->exits[u->nexits++];
	e->kind = kind;
	e->reg = IR_REG_NONE;
	e->block = u->nblocks;
	return e;
}

static struct emit_exit *direct_exit(struct emit_unit *u, jifl_orig target)
{
	struct emit_exit *e = exit_add(u, EMIT_EXIT_DIRECT);

	e->target = target;
	e->stub = emit_direct_stub(u, u->exit_base + (u32)(e - u->exits));
	return e;
}

static void emit_jmp_exit(struct emit_unit *u, jifl_orig target)
{
	struct emit_exit *e = direct_exit(u, target);

	e->site = x86_jmp(&u->hot, e->stub);
}

static void emit_jcc_exit(struct emit_unit *u, const struct ir_insn *insn)
{
	struct emit_exit *e = direct_exit(u, insn->target);

	e->site = x86_jcc(&u->hot, insn->cc, e->stub);
}

/* jrcxz and the loops have only 8-bit offsets: over the jump behind it, 2 bytes or 5 */
static void emit_jcxz_over(struct emit_unit *u, const struct ir_insn *insn, u8 over)
{
	x86_bytes(&u->hot, insn->bytes, insn->len - 1);
	x86_u8(&u->hot, JIFL_PLANTED(jrcxz_never_taken) ? 0 : over);
}

/*
 * They branch around a jump that is skipped otherwise.
 *	jrcxz 1f; jmp 2f; 1: jmp target; 2:
 */
static void emit_jcxz_exit(struct emit_unit *u, const struct ir_insn *insn)
{
	struct emit_exit *e = direct_exit(u, insn->target);
	u32 around;

	emit_jcxz_over(u, insn, 2);
	x86_u8(&u->hot, 0xeb);
	x86_u8(&u->hot, 0);
	around = u->hot.len - 1;
	e->site = x86_jmp(&u->hot, e->stub);
	x86_set_rel8_here(&u->hot, around);
}

static void emit_call_exit(struct emit_unit *u, const struct ir_insn *insn)
{
	struct emit_exit *e = direct_exit(u, insn->target);

	e->site = x86_call(&u->hot, e->stub);
}

static void emit_indirect(struct emit_unit *u, const struct ir_insn *insn)
{
	struct emit_exit *e = NULL;
	u32 stub, site;

	if (emit_has_chain(u->config, insn))
		e = exit_add(u, EMIT_EXIT_INDIRECT);
	stub = emit_indirect_stub(u, insn, e ? u->exit_base + (u32)(e - u->exits) : 0);
	if (insn->kind == IR_CALL_IND)
		site = x86_call(&u->hot, stub);
	else
		site = x86_jmp(&u->hot, stub);
	if (!e)
		return;
	e->reg = insn->reg;
	e->stub = stub;
	e->site = site;
}

static void emit_insn(struct emit_unit *u, const struct ir_insn *insn, bool followed)
{
	switch (insn->kind) {
	case IR_NOP:
		break;
	case IR_JMP:
		if (!followed)
			emit_jmp_exit(u, insn->target);
		break;
	case IR_JCC:
		if (JIFL_PLANTED(short_jump_kept) && insn->len == 2)
			x86_copy(&u->hot, insn);
		else
			emit_jcc_exit(u, insn);
		break;
	case IR_JCXZ:
		emit_jcxz_exit(u, insn);
		break;
	case IR_CALL:
		emit_call_exit(u, insn);
		break;
	case IR_CALL_IND:
	case IR_JMP_IND:
		emit_indirect(u, insn);
		break;
	case IR_RET_THUNK:
		/* Even to a bare ret: what counts may be the place at which it stands. */
		x86_jmp_out(&u->hot, insn->target.v);
		break;
	default:
		x86_copy(&u->hot, insn);
		break;
	}
}

/* Notes a piece of inserted code from there to here. */
static void map_inserted(struct emit_unit *u, u32 from, u32 to, u8 what, bool *continues)
{
	if (from == to)
		return;
	map_add(u, from, to, what | (*continues ? EMIT_MAP_CONTINUES : 0));
	*continues = true;
}

/* ... of a body that neither pushes nor pops, between saves and restores */
static void map_saved(struct emit_unit *u, u32 from, const struct inlined *code, bool *continues)
{
	map_inserted(u, from, code->body, EMIT_MAP_WALKED, continues);
	map_inserted(u, code->body, code->restore, EMIT_MAP_FIXED | code->pushed, continues);
	map_inserted(u, code->restore, code->end, EMIT_MAP_WALKED | code->pushed, continues);
}

/* True: code says where the body is, which neither pushes nor pops. */
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

/* With its condition round it. */
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

/* Emits it as it costs least. */
static void emit_one(struct emit_unit *u, const struct ir_insert *ins, u8 flags, u16 regs,
		     bool *continues)
{
	u32 from = x86_here(&u->hot);
	struct inlined code = { 0 };

	if (ins->without & IR_WITHOUT_LIVENESS) {
		flags |= IR_FLAGS;
		regs = 0xffff;
	}
	if (ins->when.width ? emit_conditional(u, ins, flags, regs, &code) :
			      emit_kind(u, u->config, ins, flags, regs, &code))
		map_saved(u, from, &code, continues);
	else
		map_inserted(u, from, x86_here(&u->hot), EMIT_MAP_WALKED, continues);
}

static bool is_at(const struct ir_insert *ins, enum ir_place place, u16 i)
{
	return ins->place == place && ins->at == i;
}

/* Most blocks have one insert, and nothing to be looked for elsewhere. */
static bool may_be_at(const struct ir_block *b, enum ir_place place, u16 i)
{
	return b->ninserts == 1 ? is_at(b->inserts, place, i) : b->ninserts;
}

/* Inserts of the given place at instruction i, in the order they were added. */
static void emit_inserts(struct emit_unit *u, const struct ir_block *b,
			 const struct jifl_liveness *l, enum ir_place place, u16 i)
{
	const struct ir_insert *ins;
	/* A thread that stands on a taken edge is not where the map would have it: nowhere exact. */
	bool continues = place == IR_TAKEN && !JIFL_PLANTED(taken_edge_exact), first = true;
	u16 k, live = jifl_liveness_at(i, place);
	u32 from;

	for (k = 0; k < b->ninserts; k++) {
		ins = &b->inserts[k];
		if (!is_at(ins, place, i))
			continue;
		if (first && u->config->poison) {
			from = x86_here(&u->hot);
			emit_poison(&u->hot, u->config, l->flags[live], l->regs[live]);
			map_inserted(u, from, x86_here(&u->hot), EMIT_MAP_WALKED, &continues);
		}
		first = false;
		emit_one(u, ins, l->flags[live], l->regs[live], &continues);
	}
}

/* Branches where insn does not. Returns the rel32. */
static u32 emit_not_taken(struct emit_unit *u, const struct ir_insn *insn)
{
	if (insn->kind == IR_JCC)
		return x86_jcc(&u->hot, insn->cc ^ 1, 0);
	/* The jump may begin with prefixes: its place must not depend on what is before it. */
	emit_jcxz_over(u, insn, X86_JMP_LEN);
	return x86_jmp_unlinked(&u->hot);
}

/*
 * A branch with inserts on the edge that it takes, in line:
 *	jcc, inverted 1f; inserts; jmp target; 1:
 */
static void emit_taken(struct emit_unit *u, const struct ir_block *b,
		       const struct jifl_liveness *l, u16 i)
{
	const struct ir_insn *insn = &b->insns[i];
	u32 from = x86_here(&u->hot), around = emit_not_taken(u, insn);
	bool continues = true;

	map_add(u, from, x86_here(&u->hot), insn->len);
	emit_inserts(u, b, l, IR_TAKEN, i);
	from = x86_here(&u->hot);
	emit_jmp_exit(u, insn->target);
	map_inserted(u, from, x86_here(&u->hot), EMIT_MAP_WALKED, &continues);
	x86_set_rel32(&u->hot, around, x86_here(&u->hot));
}

static bool has_taken(const struct ir_block *b, u16 i)
{
	u16 k;

	for (k = 0; k < b->ninserts; k++)
		if (is_at(&b->inserts[k], IR_TAKEN, i))
			return true;
	return false;
}

/* Inserts that may stand at several places get theirs. */
static void choose_places(struct ir_block *b, const struct jifl_liveness *l)
{
	struct ir_insert *ins;
	u16 k;

	for (k = 0; k < b->ninserts; k++) {
		ins = &b->inserts[k];
		if (ins->place == IR_ANYWHERE) {
			ins->from = 0;
			ins->at = b->ninsns - 1;
		} else if (ins->place != IR_BETWEEN) {
			continue;
		}
		ins->place = IR_BEFORE;
		ins->at = ins->without & IR_WITHOUT_LIVENESS ? ins->from :
			jifl_liveness_cheapest(l, ins->from, ins->at, ins->kind == IR_INSERT_CALL);
	}
}

/* Does the code of inserts depend on registers, wherever they are put? */
static bool needs_registers(const struct emit_unit *u, const struct ir_block *b)
{
	const struct ir_insert *ins;
	u16 k;

	if (u->config->poison)
		return true;
	for (k = 0; k < b->ninserts; k++) {
		ins = &b->inserts[k];
		if (ins->kind == IR_INSERT_CALL ? emit_inlined_needs_registers(ins) :
		    ins->kind == IR_INSERT_HIST ||
		    (ins->kind == IR_INSERT_RECORD && !ins->convention))
			return true;
	}
	return false;
}

/* Do any stand where flags are live, and may have to save them? */
static bool meets_flags(const struct ir_block *b, const struct jifl_liveness *l)
{
	const struct ir_insert *ins;
	u16 k;

	for (k = 0; k < b->ninserts; k++) {
		ins = &b->inserts[k];
		if ((ins->kind != IR_INSERT_STORE || ins->when.width) &&
		    l->flags[jifl_liveness_at(ins->at, ins->place)])
			return true;
	}
	return false;
}

/* Puts inserts where they cost least. Registers are looked at where that pays. */
static void place_inserts(const struct emit_unit *u, struct ir_block *b, struct jifl_liveness *l)
{
	bool with_registers = needs_registers(u, b);

	jifl_liveness_compute(b, with_registers ? JIFL_LIVENESS_AHEAD : JIFL_LIVENESS_FLAGS, l);
	choose_places(b, l);
	if (!with_registers && meets_flags(b, l))
		jifl_liveness_compute(b, JIFL_LIVENESS_BLOCK, l);
}

static struct emit_block *block_begin(struct emit_unit *u)
{
	struct emit_block *eb;

	if (u->nblocks == EMIT_UNIT_BLOCKS) {
		u->full = true;
		return &u->blocks[0];
	}
	eb = &u->blocks[u->nblocks];
	eb->start = x86_here(&u->hot);
	eb->map = u->nmap;
	return eb;
}

static void block_end(struct emit_unit *u, struct emit_block *eb)
{
	eb->end = x86_here(&u->hot);
	eb->map_len = u->nmap - eb->map;
	u->nblocks++;
}

void emit_block(struct emit_unit *u, struct ir_block *b, bool followed)
{
	static struct jifl_liveness l;	/* under the engine lock, like all scratch */
	struct emit_block *eb = block_begin(u);
	u32 from;
	u16 i;

	if (b->ninserts)
		place_inserts(u, b, &l);
	for (i = 0; i < b->ninsns; i++) {
		if (may_be_at(b, IR_BEFORE, i))
			emit_inserts(u, b, &l, IR_BEFORE, i);
		if (ir_kind_is_conditional(b->insns[i].kind) && has_taken(b, i)) {
			emit_taken(u, b, &l, i);
		} else {
			from = x86_here(&u->hot);
			emit_insn(u, &b->insns[i], followed);
			map_add(u, from, x86_here(&u->hot), b->insns[i].len);
		}
		if (may_be_at(b, IR_AFTER, i))
			emit_inserts(u, b, &l, IR_AFTER, i);
	}
	if (b->next.v && !followed) {
		from = x86_here(&u->hot);
		emit_jmp_exit(u, b->next);
		map_add(u, from, x86_here(&u->hot), 0);
	}
	block_end(u, eb);
}

void emit_native_block(struct emit_unit *u, jifl_orig addr, enum jifl_cause cause)
{
	struct emit_block *eb = block_begin(u);
	struct ir_operand cell = u->config->exit_counters;
	u32 from = x86_here(&u->hot);

	cell.disp += (s32)cause * 8;
	if (u->config->red_zone)
		x86_move_stack(&u->hot, -(s32)u->config->red_zone);
	x86_pushf(&u->hot);
	x86_add_cell(&u->hot, cell, 1);
	x86_popf(&u->hot);
	if (u->config->red_zone)
		x86_move_stack(&u->hot, (s32)u->config->red_zone);
	map_add(u, from, x86_here(&u->hot), 0);
	x86_jmp_out(&u->hot, addr.v);
	block_end(u, eb);
}

/* Flags and r11 have no value at the start and after the return of a function. */
#define LIVE_AT_POINT (0xffff & ~(1u << IR_R11))

static void emit_at_point(struct emit_unit *u, const struct ir_insert *ins)
{
	struct emit_when when;

	if (ins->kind == IR_INSERT_CALL)
		emit_inlined_note(ins->fn, JIFL_INLINE_PLACE);
	if (u->config->poison)
		emit_poison(&u->hot, u->config, 0, LIVE_AT_POINT);
	if (!ins->when.width) {
		emit_insert(&u->hot, u->config, ins, 0, LIVE_AT_POINT);
		return;
	}
	emit_when_begin(&u->hot, u->config, ins, 0, LIVE_AT_POINT, &when);
	emit_insert(&u->hot, &when.config, &when.ins, when.flags, when.regs);
	emit_when_end(&u->hot, u->config, &when);
}

u32 emit_entry(struct emit_unit *u, jifl_orig target,
	       const struct ir_insert *entry, u32 nentry,
	       const struct ir_insert *exit, u32 nexit)
{
	struct emit_block *eb = block_begin(u);
	struct emit_exit *e = direct_exit(u, target);
	u32 i, after = 0;

	if (u->config->endbr)
		x86_endbr64(&u->hot);
	for (i = 0; i < nentry; i++)
		emit_at_point(u, &entry[i]);
	if (!nexit) {
		e->site = x86_jmp(&u->hot, e->stub);
	} else {
		if (u->config->align_stack)
			x86_move_stack(&u->hot, -8);
		e->site = x86_call(&u->hot, e->stub);
		after = x86_here(&u->hot);
		if (u->config->align_stack)
			x86_move_stack(&u->hot, 8);
		for (i = 0; i < nexit; i++)
			emit_at_point(u, &exit[i]);
		if (u->config->return_thunk)
			x86_jmp_out(&u->hot, u->config->return_thunk);
		else
			x86_ret(&u->hot);
	}
	block_end(u, eb);
	return after;
}
