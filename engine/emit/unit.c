// SPDX-License-Identifier: GPL-2.0
/* Emission of blocks and native blocks into a unit; see emit.h. */
#include "inlined.h"
#include "inserts.h"
#include "unit.h"
#include "../base/plant.h"

void emit_unit_begin(struct emit_unit *u, const struct emit_config *config, u64 code_base,
		     u32 hot_start, u32 cold_start, u32 exit_base, u32 lookup, s32 targets)
{
	u->config = config;
	u->hot = (struct x86_writer){ .buf = u->hot_buf, .cap = sizeof(u->hot_buf),
				      .start = hot_start, .code_base = code_base };
	u->cold = (struct x86_writer){ .buf = u->cold_buf, .cap = sizeof(u->cold_buf),
				       .start = cold_start, .code_base = code_base };
	u->exit_base = exit_base;
	u->lookup = lookup;
	u->targets = targets;
	u->nexits = 0;
	u->nblocks = 0;
	u->nmap = 0;
	u->full = false;
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

struct emit_exit *emit_direct_exit(struct emit_unit *u, jifl_orig target)
{
	struct emit_exit *e = exit_add(u, EMIT_EXIT_DIRECT);

	e->target = target;
	e->stub = emit_direct_stub(u, u->exit_base + (u32)(e - u->exits));
	return e;
}

static void emit_jmp_exit(struct emit_unit *u, jifl_orig target)
{
	struct emit_exit *e = emit_direct_exit(u, target);

	e->site = x86_jmp(&u->hot, e->stub);
}

static void emit_jcc_exit(struct emit_unit *u, const struct ir_insn *insn)
{
	struct emit_exit *e = emit_direct_exit(u, insn->target);

	e->site = x86_jcc(&u->hot, insn->cc, e->stub);
}

/*
 * jrcxz and the loops have only 8-bit offsets: branches over the jump behind it, of 2 bytes or 5.
 */
static void emit_jcxz_over(struct emit_unit *u, const struct ir_insn *insn, u8 over)
{
	x86_bytes(&u->hot, insn->bytes, insn->len - 1);
	x86_u8(&u->hot, JIFL_PLANTED(jrcxz_never_taken) ? 0 : over);
}

/*
 * These instructions branch around a jump that is skipped otherwise.
 *	jrcxz 1f; jmp 2f; 1: jmp target; 2:
 */
static void emit_jcxz_exit(struct emit_unit *u, const struct ir_insn *insn)
{
	struct emit_exit *e = emit_direct_exit(u, insn->target);
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
	struct emit_exit *e = emit_direct_exit(u, insn->target);

	e->site = x86_call(&u->hot, e->stub);
}

static void emit_indirect(struct emit_unit *u, const struct ir_insn *insn)
{
	struct emit_exit *e = NULL;
	u32 stub, site;

	if (u->targets) {
		emit_jump(u, insn);
		return;
	}
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

/* A branch to native code. */
static void emit_leaving(struct emit_unit *u, const struct ir_insn *insn)
{
	switch (insn->kind) {
	case IR_JMP:
		x86_jmp_out(&u->hot, insn->target.v);
		break;
	case IR_JCC:
		x86_jcc_out(&u->hot, insn->cc, insn->target.v);
		break;
	default:
		/* A call through a thunk is a direct call of the thunk. */
		if (insn->target.v)
			x86_call_out(&u->hot, insn->target.v);
		else
			x86_copy(&u->hot, insn);
		break;
	}
}

static void emit_insn(struct emit_unit *u, const struct ir_insn *insn, bool followed)
{
	if (insn->leaves) {
		emit_leaving(u, insn);
		return;
	}
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
		/* Even to a bare ret: the address of the ret may matter. */
		x86_jmp_out(&u->hot, insn->target.v);
		break;
	default:
		x86_copy(&u->hot, insn);
		break;
	}
}

/* Branches where insn does not. Returns the rel32. */
static u32 emit_not_taken(struct emit_unit *u, const struct ir_insn *insn)
{
	if (insn->kind == IR_JCC)
		return x86_jcc(&u->hot, insn->cc ^ 1, 0);
	/* The jump may begin with prefixes: its place must not depend on the code before it. */
	emit_jcxz_over(u, insn, X86_JMP_LEN);
	return x86_jmp_unlinked(&u->hot);
}

/*
 * A branch with inserts on the edge of the taken branch, in line:
 *	jcc, inverted 1f; inserts; jmp target; 1:
 */
static void emit_taken(struct emit_unit *u, const struct ir_block *b,
		       const struct jifl_liveness *l, u16 i)
{
	const struct ir_insn *insn = &b->insns[i];
	u32 from = x86_here(&u->hot), around = emit_not_taken(u, insn);

	emit_map_add(u, from, x86_here(&u->hot), insn->len);
	emit_inserts(u, b, l, IR_TAKEN, i);
	from = x86_here(&u->hot);
	if (insn->leaves)
		x86_jmp_out(&u->hot, insn->target.v);
	else
		emit_jmp_exit(u, insn->target);
	emit_map_add(u, from, x86_here(&u->hot), EMIT_MAP_WALKED | EMIT_MAP_CONTINUES);
	x86_set_rel32(&u->hot, around, x86_here(&u->hot));
}

struct emit_block *emit_block_begin(struct emit_unit *u)
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

void emit_block_end(struct emit_unit *u, struct emit_block *eb)
{
	eb->end = x86_here(&u->hot);
	eb->map_len = u->nmap - eb->map;
	u->nblocks++;
}

/*
 * Emits instructions from i on, up to end, that are copied as they are, or left out. Most
 * instructions are: each takes two moves, and its pair in the map. Returns the first that is
 * neither.
 */
static u16 emit_run(struct emit_unit *u, const struct ir_block *b, u16 i, u16 end)
{
	const struct ir_insn *insn = &b->insns[i];
	u8 *to = u->hot.buf + u->hot.len, *map = u->map + u->nmap;

	if (u->hot.len + (end - i) * IR_INSN_MAX > u->hot.cap ||
	    u->nmap + (end - i) * 2u > sizeof(u->map))
		return i;
	for (; i < end && insn->kind <= IR_NOP && !insn->disp_at; i++, insn++) {
		map[0] = insn->kind == IR_NOP ? 0 : insn->len;
		map[1] = insn->len;
		/* The next instruction overwrites the excess bytes. */
		memcpy(to, insn->bytes, IR_INSN_MAX);
		to += map[0];
		map += 2;
	}
	u->hot.len = to - u->hot.buf;
	u->nmap = map - u->map;
	return i;
}

/*
 * Emits the code that an indirect branch needs before it. A fault in that code counts as a fault
 * of the original branch.
 */
static void emit_aside(struct emit_unit *u, const struct ir_insn *insn)
{
	u32 from = x86_here(&u->hot);

	if (!u->targets || insn->leaves ||
	    (insn->kind != IR_CALL_IND && insn->kind != IR_JMP_IND))
		return;
	if (emit_jump_begin(u, insn))
		emit_map_add(u, from, x86_here(&u->hot), EMIT_MAP_FIXED);
}

/* Emits instructions from i up to end, with nothing between them. */
static void emit_insns(struct emit_unit *u, const struct ir_block *b, u16 i, u16 end, bool followed)
{
	u32 from;

	for (; i < end; i++) {
		i = emit_run(u, b, i, end);
		if (i == end)
			break;
		emit_aside(u, &b->insns[i]);
		from = x86_here(&u->hot);
		emit_insn(u, &b->insns[i], followed);
		emit_map_add(u, from, x86_here(&u->hot), b->insns[i].len);
	}
}

/* Emits instruction i and what is inserted around it. */
static void emit_at(struct emit_unit *u, const struct ir_block *b, const struct jifl_liveness *l,
		    u16 i, bool followed)
{
	emit_inserts(u, b, l, IR_BEFORE, i);
	if (ir_kind_is_conditional(b->insns[i].kind) && emit_has_inserts(b, IR_TAKEN, i))
		emit_taken(u, b, l, i);
	else
		emit_insns(u, b, i, i + 1, followed);
	emit_inserts(u, b, l, IR_AFTER, i);
}

/* Most blocks have one insert, a counter, and a place where nothing has to be saved for it. */
static bool emit_with_counter(struct emit_unit *u, const struct ir_block *b, bool followed)
{
	const struct ir_insert *ins = &b->inserts[0];
	u32 from;
	u16 at;

	if (b->ninserts != 1 || ins->kind != IR_INSERT_ADD || ins->place != IR_ANYWHERE ||
	    ins->when.width || ins->without || u->config->poison || b->sets_df)
		return false;
	at = jifl_liveness_flags_dead(b);
	if (at == b->ninsns)
		return false;
	emit_insns(u, b, 0, at, followed);
	from = x86_here(&u->hot);
	x86_add_cell(&u->hot, ins->cell, ins->imm);
	emit_map_add(u, from, x86_here(&u->hot), EMIT_MAP_WALKED);
	emit_insns(u, b, at, b->ninsns, followed);
	return true;
}

static void emit_with_inserts(struct emit_unit *u, struct ir_block *b, bool followed)
{
	static struct jifl_liveness l;	/* under the engine lock, like all scratch */
	u16 i;

	emit_place_inserts(u, b, &l);
	for (i = 0; i < b->ninsns; i++)
		emit_at(u, b, &l, i, followed);
}

/* A nop follows: so the return address is inside inserted code, and its frame is the block's. */
static void emit_asks(struct emit_unit *u)
{
	const u32 from = x86_here(&u->hot);

	x86_call_out(&u->hot, u->config->asks);
	x86_u8(&u->hot, 0x90);
	emit_map_add(u, from, x86_here(&u->hot), EMIT_MAP_WALKED);
}

/*
 * A block that has left no code gets a nop, for its last instruction. So its start is a place of
 * its own: a thread that returns there meets the int3 that is put there when the block is dropped,
 * and not the block behind it, whose bytes may be the same still.
 */
static void emit_place(struct emit_unit *u, const struct emit_block *eb)
{
	if (u->full || x86_here(&u->hot) != eb->start || u->nmap == eb->map ||
	    JIFL_PLANTED(empty_not_trapped))
		return;
	x86_u8(&u->hot, 0x90);
	u->map[u->nmap - 2] = 1;
}

void emit_block(struct emit_unit *u, struct ir_block *b, bool followed)
{
	struct emit_block *eb = emit_block_begin(u);
	u32 from;

	if (b->asks)
		emit_asks(u);
	if (b->in_piece && u->config->endbr) {
		from = x86_here(&u->hot);
		x86_endbr64(&u->hot);
		emit_map_add(u, from, x86_here(&u->hot), EMIT_MAP_WALKED | EMIT_MAP_CONTINUES);
	}
	if (!b->ninserts)
		emit_insns(u, b, 0, b->ninsns, followed);
	else if (!emit_with_counter(u, b, followed))
		emit_with_inserts(u, b, followed);
	if (b->next.v && !followed) {
		from = x86_here(&u->hot);
		emit_jmp_exit(u, b->next);
		emit_map_add(u, from, x86_here(&u->hot), 0);
	}
	emit_place(u, eb);
	emit_block_end(u, eb);
}

void emit_native_block(struct emit_unit *u, jifl_orig addr, enum jifl_cause cause)
{
	struct emit_block *eb = emit_block_begin(u);
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
	emit_map_add(u, from, x86_here(&u->hot), 0);
	x86_jmp_out(&u->hot, addr.v);
	emit_block_end(u, eb);
}

void emit_leaving_block(struct emit_unit *u, jifl_orig addr)
{
	struct emit_block *eb = emit_block_begin(u);

	x86_jmp_out(&u->hot, addr.v);
	emit_block_end(u, eb);
}
