/* SPDX-License-Identifier: GPL-2.0 */
/* Building blocks of the intermediate representation; see ir.h. */
#include "ir.h"

const u8 ir_arg_regs[IR_CALL_ARGS] = { IR_RDI, IR_RSI, IR_RDX, IR_RCX, IR_R8, IR_R9 };

bool ir_block_has_room(const struct ir_block *b, u32 n)
{
	return b->ninserts + b->nlong * (IR_INSERT_LONG - 1) + n <= IR_BLOCK_INSERTS;
}

struct ir_insert *ir_block_insert(struct ir_block *b, enum ir_place place, u16 at)
{
	struct ir_insert *ins;

	if (!ir_block_has_room(b, 1)) {
		b->inserts_full = true;
		return NULL;
	}
	ins = &b->inserts[b->ninserts++];
	memset(ins, 0, sizeof(*ins));
	ins->place = place;
	ins->at = at;
	return ins;
}

struct ir_insert *ir_block_insert_long(struct ir_block *b, enum ir_place place, u16 at)
{
	if (!ir_block_has_room(b, IR_INSERT_LONG)) {
		b->inserts_full = true;
		return NULL;
	}
	b->nlong++;
	return ir_block_insert(b, place, at);
}

static u16 source_reads(const struct ir_source *s)
{
	return s->width ? 1u << s->reg : 0;
}

u16 ir_fetch_reads(const struct ir_fetch *l)
{
	u16 regs = 0;

	if (l->how >= IR_FETCH_CELL)
		return 0;
	if (l->base != IR_REG_NONE && l->base != IR_RSP)
		regs |= 1u << l->base;
	if (l->how >= IR_FETCH_LOAD && l->index != IR_REG_NONE)
		regs |= 1u << l->index;
	return regs;
}

const struct ir_fetch *ir_insert_context(const struct ir_insert *ins)
{
	u32 i;

	for (i = 0; ins->fetched >> i; i++)
		if (ins->fetched & 1u << i && ins->fetches[i].how == IR_FETCH_CONTEXT)
			return &ins->fetches[i];
	return NULL;
}

u16 ir_insert_reads(const struct ir_insert *ins)
{
	u16 regs = ir_insert_context(ins) ? 0xffff & ~(1u << IR_RSP) : 0;
	u32 i;

	regs |= source_reads(&ins->when) | source_reads(&ins->value);
	if (ins->terms)
		regs |= ins->terms->reads;
	if (ins->hit)
		regs |= ins->hit->values.reads;
	for (i = 0; ins->fetched >> i; i++)
		if (ins->fetched & 1u << i)
			regs |= ir_fetch_reads(&ins->fetches[i]);
	return ins->kind == IR_INSERT_ADD_REG ? regs | 1u << ins->reg : regs;
}
