// SPDX-License-Identifier: GPL-2.0
/*
 * What tools ask about an instruction beyond its class (jifl_ins.h): operands in memory,
 * registers, prefixes. The instruction is decoded anew each time, because translation itself needs
 * none of these answers.
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

/* True for memory that is accessed. lea and nop only name memory. */
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
	/* The address of the instruction is known, so this operand has an absolute address. */
	if (op->mem.base == ZYDIS_REGISTER_RIP)
		m->disp += (s64)(insn->addr.v + insn->len);
}

/* True for the memory operands of push, pop, call and ret on the stack. */
static bool is_implicit_stack(const ZydisDecodedOperand *op)
{
	return op->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN &&
	       op->mem.base == ZYDIS_REGISTER_RSP;
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

u8 jifl_decode_bit_register(const struct ir_insn *insn)
{
	/* bt is the one, the others are the other. */
	if ((insn->type != ins_compare && insn->type != ins_logic) || !decode(insn))
		return IR_REG_NONE;
	switch (jifl_zi.mnemonic) {
	case ZYDIS_MNEMONIC_BT:
	case ZYDIS_MNEMONIC_BTS:
	case ZYDIS_MNEMONIC_BTR:
	case ZYDIS_MNEMONIC_BTC:
		break;
	default:
		return IR_REG_NONE;
	}
	if (jifl_zops[0].type != ZYDIS_OPERAND_TYPE_MEMORY ||
	    jifl_zops[1].type != ZYDIS_OPERAND_TYPE_REGISTER)
		return IR_REG_NONE;
	return gpr(jifl_zops[1].reg.value);
}

/*
 * rsp in an address has its value from before the instruction, except in pop's address (SDM vol.
 * 2).
 */
static void take_access(const struct ir_insn *insn, const ZydisDecodedOperand *op,
			struct ins_memory *m)
{
	take(insn, op, m);
	if (is_implicit_stack(op))
		m->disp -= m->stores ? m->size : 0;
	else if (m->base == IR_RSP && jifl_zi.mnemonic == ZYDIS_MNEMONIC_POP)
		m->disp += m->size;
}

u32 jifl_decode_accesses(const struct ir_insn *insn, struct ins_memory *m, u32 max)
{
	u32 n = 0;
	u8 i;

	if (insn->kind == IR_NOP || !decode(insn) || jifl_zi.address_width != 64)
		return 0;
	for (i = 0; i < jifl_zi.operand_count && n < max; i++)
		if (is_accessed(&jifl_zops[i]))
			take_access(insn, &jifl_zops[i], &m[n++]);
	/* The thunk that the instruction jumps to ends in a return. */
	if (insn->kind == IR_RET_THUNK && n < max)
		m[n++] = (struct ins_memory){ .base = IR_RSP, .index = IR_REG_NONE, .scale = 1,
					      .loads = 1, .size = 8 };
	return n;
}

/* The bytes pushed less the bytes popped. No other access of the stack moves rsp. */
static s32 pushed(void)
{
	s32 n = 0;
	u8 i;

	for (i = 0; i < jifl_zi.operand_count; i++)
		if (is_accessed(&jifl_zops[i]) && is_implicit_stack(&jifl_zops[i]))
			n += jifl_zops[i].size / 8 * (does_write(&jifl_zops[i]) ? 1 : -1);
	return n;
}

/* True for pop into rsp. */
static bool is_into_rsp(const ZydisDecodedOperand *op)
{
	return op->type == ZYDIS_OPERAND_TYPE_REGISTER && op->reg.value == ZYDIS_REGISTER_RSP &&
	       op->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT && does_write(op);
}

static bool is_imm(const ZydisDecodedOperand *op)
{
	return op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

bool jifl_decode_stack_moves(const struct ir_insn *insn, s32 *by)
{
	const ZydisDecodedOperand *from = &jifl_zops[1];
	u16 reads, writes;

	*by = 0;
	jifl_decode_uses(insn, &reads, &writes);
	if (!(writes & 1u << IR_RSP))
		return true;
	if (pushed()) {
		*by = -pushed();
		return !is_into_rsp(&jifl_zops[0]) &&
		       jifl_zi.mnemonic != ZYDIS_MNEMONIC_LEAVE;
	}
	switch (jifl_zi.mnemonic) {
	case ZYDIS_MNEMONIC_ADD:
		*by = (s32)from->imm.value.s;
		return is_imm(from);
	case ZYDIS_MNEMONIC_SUB:
		*by = -(s32)from->imm.value.s;
		return is_imm(from);
	case ZYDIS_MNEMONIC_LEA:
		*by = (s32)from->mem.disp.value;
		return from->mem.base == ZYDIS_REGISTER_RSP &&
		       from->mem.index == ZYDIS_REGISTER_NONE;
	default:
		return false;
	}
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

/* xchg with memory is locked without a prefix (SDM vol. 2, XCHG). */
static u32 of_lock(u32 memory)
{
	if (jifl_zi.attributes & ZYDIS_ATTRIB_HAS_LOCK)
		return INS_LOCKED | INS_PREFIX_LOCK;
	return jifl_zi.mnemonic == ZYDIS_MNEMONIC_XCHG && memory ? INS_LOCKED : 0;
}

/* The last of the two prefixes counts, and only for a jcc. */
static u32 hint_of(const struct ir_insn *insn)
{
	u32 hint = 0;
	u8 i;

	for (i = 0; insn->kind == IR_JCC && i < insn->len; i++) {
		if (insn->bytes[i] == PREFIX_TAKEN)
			hint = INS_PREFIX_TAKEN;
		else if (insn->bytes[i] == PREFIX_NOT_TAKEN)
			hint = INS_PREFIX_NOT_TAKEN;
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
	p |= of_lock(memory);
	return p | (insn->repeat != IR_REPEAT_NONE ? INS_REPEATED : 0);
}
