// SPDX-License-Identifier: GPL-2.0
/*
 * What tools ask of an instruction beyond its class (jifl_ins.h): operands in memory,
 * registers, prefixes. Decoded anew each time: translation itself needs none of it.
 */
#include "zydis.h"
#include "decode.h"

#define PREFIX_NOT_TAKEN 0x2e
#define PREFIX_TAKEN	0x3e

static bool decode(const struct ir_insn *insn)
{
	return jifl_zydis_decode(insn->bytes, insn->len);
}

static u8 gpr(ZydisRegister reg)
{
	return reg == ZYDIS_REGISTER_NONE ? IR_REG_NONE : jifl_zydis_gpr(reg);
}

/* Read or written at least sometimes. */
static bool does_read(const ZydisDecodedOperand *op)
{
	return op->actions & ZYDIS_OPERAND_ACTION_MASK_READ;
}

static bool does_write(const ZydisDecodedOperand *op)
{
	return op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
}

/* Is it memory that is accessed? lea and nop only name some. */
static bool is_accessed(const ZydisDecodedOperand *op)
{
	return op->type == ZYDIS_OPERAND_TYPE_MEMORY && op->mem.type != ZYDIS_MEMOP_TYPE_AGEN &&
	       (does_read(op) || does_write(op));
}

static u8 segment_of(const ZydisDecodedOperand *op)
{
	switch (op->mem.segment) {
	case ZYDIS_REGISTER_FS:
		return INS_SEGMENT_FS;
	case ZYDIS_REGISTER_GS:
		return INS_SEGMENT_GS;
	default:
		return INS_SEGMENT_NONE;
	}
}

static void take(const struct ir_insn *insn, const ZydisDecodedOperand *op, struct ins_memory *m)
{
	*m = (struct ins_memory){
		.base = gpr(op->mem.base),
		.index = gpr(op->mem.index),
		.scale = op->mem.index == ZYDIS_REGISTER_NONE ? 1 : op->mem.scale,
		.segment = segment_of(op),
		.loads = does_read(op),
		.stores = does_write(op),
		.size = op->size / 8,
		.disp = op->mem.disp.value,
	};
	/* Its own address is known: an absolute one, then. */
	if (op->mem.base == ZYDIS_REGISTER_RIP)
		m->disp += (s64)(insn->addr.v + insn->len);
}

/* Those of push, pop, call and ret are the stack's. */
static bool is_implicit_stack(const ZydisDecodedOperand *op)
{
	return op->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN && op->mem.base == ZYDIS_REGISTER_RSP;
}

u32 jifl_decode_memory(const struct ir_insn *insn, struct ins_memory *m, u32 max)
{
	u32 n = 0;
	u8 i;

	if (insn->kind == IR_NOP || !decode(insn) || jifl_zi.address_width != 64)
		return 0;
	for (i = 0; i < jifl_zi.operand_count && n < max; i++)
		if (is_accessed(&jifl_zops[i]) && !is_implicit_stack(&jifl_zops[i]))
			take(insn, &jifl_zops[i], &m[n++]);
	return n;
}

void jifl_decode_uses(const struct ir_insn *insn, u16 *reads, u16 *writes)
{
	const ZydisDecodedOperand *op;
	u8 i, reg;

	*reads = *writes = 0;
	if (insn->kind == IR_NOP || !decode(insn))
		return;
	for (i = 0; i < jifl_zi.operand_count; i++) {
		op = &jifl_zops[i];
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			reg = gpr(op->mem.base);
			*reads |= reg < 16 ? 1u << reg : 0;
			reg = gpr(op->mem.index);
			*reads |= reg < 16 ? 1u << reg : 0;
		} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
			reg = gpr(op->reg.value);
			*reads |= reg < 16 && does_read(op) ? 1u << reg : 0;
			*writes |= reg < 16 && does_write(op) ? 1u << reg : 0;
		}
	}
}

static bool is_compare_and_exchange(void)
{
	return jifl_zi.mnemonic == ZYDIS_MNEMONIC_CMPXCHG ||
	       jifl_zi.mnemonic == ZYDIS_MNEMONIC_CMPXCHG8B ||
	       jifl_zi.mnemonic == ZYDIS_MNEMONIC_CMPXCHG16B;
}

static u32 of_memory(void)
{
	u32 p = 0;
	u8 i;

	for (i = 0; i < jifl_zi.operand_count; i++) {
		if (!is_accessed(&jifl_zops[i]))
			continue;
		p |= does_read(&jifl_zops[i]) ? INS_LOADS : 0;
		p |= does_write(&jifl_zops[i]) ? INS_STORES : 0;
	}
	return p;
}

/* xchg with memory is locked without saying so (SDM vol. 2, XCHG). */
static bool is_locked(u32 memory)
{
	return jifl_zi.attributes & ZYDIS_ATTRIB_HAS_LOCK ||
	       (jifl_zi.mnemonic == ZYDIS_MNEMONIC_XCHG && memory);
}

/* The last of the two prefixes counts, for a jcc alone. */
static u32 hint_of(const struct ir_insn *insn)
{
	u32 hint = 0;
	u8 i;

	for (i = 0; insn->kind == IR_JCC && i < insn->len; i++) {
		if (insn->bytes[i] == PREFIX_TAKEN)
			hint = INS_HINT_TAKEN;
		else if (insn->bytes[i] == PREFIX_NOT_TAKEN)
			hint = INS_HINT_NOT_TAKEN;
		else
			break;
	}
	return hint;
}

u32 jifl_decode_properties(const struct ir_insn *insn)
{
	u32 memory, p = hint_of(insn);

	if (insn->kind == IR_NOP || !decode(insn))
		return p;
	memory = of_memory();
	p |= memory;
	p |= is_locked(memory) ? INS_LOCKED : 0;
	p |= insn->repeat != IR_REPEAT_NONE ? INS_REPEATED : 0;
	return p | (is_compare_and_exchange() ? INS_CMPXCHG : 0);
}
