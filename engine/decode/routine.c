// SPDX-License-Identifier: GPL-2.0
/*
 * Decodes analysis routines that may be inlined; see ir/routine.h.
 *
 * The decoder walks a routine straight on from its first byte to the return behind which no branch
 * leads. enum jifl_inline names what a routine may not have.
 */
#include "zydis.h"
#include "decode.h"
#include "../host.h"
#include "../ir/routine.h"

enum {
	PREFIX_DS = 0x3e,
	PREFIX_LOCK = 0xf0,
};

static const struct { u16 mnemonic; u8 op; } ops[] = {
	{ ZYDIS_MNEMONIC_ADD, IR_OP_ADD }, { ZYDIS_MNEMONIC_OR, IR_OP_OR },
	{ ZYDIS_MNEMONIC_ADC, IR_OP_ADC }, { ZYDIS_MNEMONIC_SBB, IR_OP_SBB },
	{ ZYDIS_MNEMONIC_AND, IR_OP_AND }, { ZYDIS_MNEMONIC_SUB, IR_OP_SUB },
	{ ZYDIS_MNEMONIC_XOR, IR_OP_XOR }, { ZYDIS_MNEMONIC_CMP, IR_OP_CMP },
	{ ZYDIS_MNEMONIC_TEST, IR_OP_TEST }, { ZYDIS_MNEMONIC_MOV, IR_OP_MOV },
	{ ZYDIS_MNEMONIC_MOVZX, IR_OP_MOVZX }, { ZYDIS_MNEMONIC_MOVSX, IR_OP_MOVSX },
	{ ZYDIS_MNEMONIC_MOVSXD, IR_OP_MOVSX }, { ZYDIS_MNEMONIC_LEA, IR_OP_LEA },
	{ ZYDIS_MNEMONIC_INC, IR_OP_INC }, { ZYDIS_MNEMONIC_DEC, IR_OP_DEC },
	{ ZYDIS_MNEMONIC_NOT, IR_OP_NOT }, { ZYDIS_MNEMONIC_NEG, IR_OP_NEG },
	{ ZYDIS_MNEMONIC_SHL, IR_OP_SHL }, { ZYDIS_MNEMONIC_SHR, IR_OP_SHR },
	{ ZYDIS_MNEMONIC_SAR, IR_OP_SAR },
};

static u8 op_of(ZydisMnemonic mnemonic)
{
	u32 i;

	for (i = 0; i < JIFL_ARRAY_LEN(ops); i++)
		if (ops[i].mnemonic == mnemonic)
			return ops[i].op;
	return IR_OP_OTHER;
}

/* ah, ch, dh, bh are parts of registers that the register numbers do not express. */
static bool is_high_byte(ZydisRegister reg)
{
	return reg >= ZYDIS_REGISTER_AH && reg <= ZYDIS_REGISTER_BH;
}

/* False for an operand that struct ir_value cannot express. */
static bool memory_value(const ZydisDecodedOperand *op, const struct ir_insn *insn,
			 struct ir_value *v)
{
	v->kind = IR_VALUE_MEM;
	v->value = op->mem.disp.value;
	v->scale = op->mem.scale ? op->mem.scale : 1;
	v->index = op->mem.index ? jifl_zydis_gpr(op->mem.index) : IR_REG_NONE;
	v->reg = IR_REG_NONE;
	if (op->mem.base == ZYDIS_REGISTER_RIP)
		v->value += (s64)insn->addr.v + insn->len;
	else if (op->mem.base)
		v->reg = jifl_zydis_gpr(op->mem.base);
	return jifl_zi.address_width == 64;
}

static bool value_of(const ZydisDecodedOperand *op, const struct ir_insn *insn, struct ir_value *v)
{
	switch (op->type) {
	case ZYDIS_OPERAND_TYPE_REGISTER:
		v->kind = IR_VALUE_REG;
		v->reg = jifl_zydis_gpr(op->reg.value);
		return v->reg != IR_REG_NONE && !is_high_byte(op->reg.value);
	case ZYDIS_OPERAND_TYPE_IMMEDIATE:
		v->kind = IR_VALUE_IMM;
		v->value = op->imm.is_signed ? op->imm.value.s : (s64)op->imm.value.u;
		return true;
	case ZYDIS_OPERAND_TYPE_MEMORY:
		return memory_value(op, insn, v);
	default:
		return false;
	}
}

static u8 segment_of(void)
{
	if (jifl_zi.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS)
		return 0x65;
	return (jifl_zi.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_FS) ? 0x64 : 0;
}

/*
 * On one processor the kernel turns lock prefixes into ds prefixes, and back when there are more
 * processors (alternatives_enable_smp): the copy has the lock.
 */
static bool is_locked(struct ir_insn *insn)
{
	u8 *prefix = memchr(insn->bytes, PREFIX_DS, jifl_zi.raw.prefix_count);

	if (prefix && (jifl_zi.attributes & ZYDIS_ATTRIB_ACCEPTS_LOCK)) {
		*prefix = PREFIX_LOCK;
		return true;
	}
	return jifl_zi.attributes & ZYDIS_ATTRIB_HAS_LOCK;
}

static void set_op(struct ir_step *s)
{
	u8 n = jifl_zi.operand_count_visible;

	s->op = op_of(jifl_zi.mnemonic);
	s->width = (u8)(jifl_zops[0].size / 8);
	s->segment = segment_of();
	s->lock = is_locked(&s->insn);
	if (n > 1)
		s->src_width = (u8)(jifl_zops[1].size / 8);
	if (!n || n > 2 || jifl_zi.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY ||
	    !value_of(&jifl_zops[0], &s->insn, &s->dst) ||
	    (n == 2 && !value_of(&jifl_zops[1], &s->insn, &s->src)))
		s->op = IR_OP_OTHER;
}

static u16 mask_of(ZydisRegister reg)
{
	u8 gpr = jifl_zydis_gpr(reg);

	return gpr == IR_REG_NONE ? 0 : 1u << gpr;
}

static void add_uses(const ZydisDecodedOperand *op, struct ir_step *s)
{
	if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		s->reads |= mask_of(op->mem.base) | mask_of(op->mem.index);
	} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
		/* A register that is written in part keeps the rest of its value. */
		if ((op->actions & ZYDIS_OPERAND_ACTION_MASK_READ) || op->size < 32 ||
		    (op->actions & ZYDIS_OPERAND_ACTION_CONDWRITE))
			s->reads |= mask_of(op->reg.value);
		if (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
			s->writes |= mask_of(op->reg.value);
	}
}

static void set_uses(struct ir_step *s)
{
	const ZydisAccessedFlags *f = jifl_zi.cpu_flags;
	u8 k;

	for (k = 0; k < jifl_zi.operand_count; k++)
		add_uses(&jifl_zops[k], s);
	/* The bit scans keep their destination when the source is 0. */
	if (jifl_zi.mnemonic == ZYDIS_MNEMONIC_BSF || jifl_zi.mnemonic == ZYDIS_MNEMONIC_BSR)
		s->reads |= s->writes;
	if (f && (f->modified | f->set_0 | f->set_1 | f->undefined))
		s->flags_touched = IR_FLAGS;
}

/* nops of the lengths that static branches and probes are made of */
static bool may_be_patched(const struct ir_insn *insn, bool at_entry)
{
	static const u8 endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

	if (insn->kind != IR_NOP || (insn->len == 4 && !memcmp(insn->bytes, endbr64, 4)))
		return false;
	/* The place of the function tracer is not copied, as in any inlined function. */
	return !at_entry && (insn->len == 2 || insn->len == 5);
}

static enum jifl_inline judge(const struct ir_step *s, bool at_entry)
{
	const struct ir_insn *insn = &s->insn;

	if (insn->kind == IR_NATIVE)
		return insn->cause == JIFL_CAUSE_INT3 ? JIFL_INLINE_PATCHED : JIFL_INLINE_SYSTEM;
	if (may_be_patched(insn, at_entry))
		return JIFL_INLINE_PATCHED;
	if (insn->kind == IR_CALL_IND || insn->kind == IR_JMP_IND || insn->kind == IR_JCXZ)
		return JIFL_INLINE_INDIRECT;
	if (insn->kind == IR_PLAIN && ((s->reads | s->writes) & 1u << IR_RSP))
		return JIFL_INLINE_STACK;
	/* Strings need DF clear, which is done for what is called. */
	if (insn->sets_df || insn->clears_df || insn->type == ins_string)
		return JIFL_INLINE_SYSTEM;
	return JIFL_INLINE_YES;
}

static void decode_step(jifl_orig addr, struct ir_step *s)
{
	memset(s, 0, sizeof(*s));
	jifl_decode_insn(addr, &s->insn);
	s->op = IR_OP_OTHER;
	if (s->insn.kind != IR_PLAIN || !jifl_zydis_decode(s->insn.bytes, s->insn.len))
		return;
	set_op(s);
	set_uses(s);
}

static u16 step_at(const struct ir_routine *r, u64 addr)
{
	u16 i;

	for (i = 0; i < r->nsteps; i++)
		if (r->steps[i].insn.addr.v == addr)
			return i;
	return r->nsteps;
}

/*
 * A branch inside the routine gets its step as target, which an int3 is not. A jump elsewhere
 * becomes a call and a return.
 */
static enum jifl_inline set_targets(struct ir_routine *r)
{
	struct ir_step *s;
	u16 i;

	for (i = 0; i < r->nsteps; i++) {
		s = &r->steps[i];
		if (s->insn.kind != IR_JMP && s->insn.kind != IR_JCC)
			continue;
		s->to = (u8)step_at(r, s->insn.target.v);
		if (s->to == r->nsteps && s->insn.kind == IR_JCC)
			return JIFL_INLINE_INDIRECT;
	}
	return JIFL_INLINE_YES;
}

enum jifl_inline jifl_decode_routine(u64 fn, struct ir_routine *r)
{
	enum jifl_inline verdict = JIFL_INLINE_YES;
	jifl_orig addr = jifl_orig_at(fn);
	u64 furthest = fn;
	bool at_entry = true, ends = false;
	struct ir_step *s;

	r->fn = fn;
	r->nsteps = 0;
	do {
		if (r->nsteps == IR_ROUTINE_STEPS)
			return JIFL_INLINE_LONG;
		s = &r->steps[r->nsteps++];
		decode_step(addr, s);
		/* Where the kernel writes a return in a thunk's place, int3s fill up the rest. */
		if (ends && s->insn.kind == IR_NATIVE && s->insn.cause == JIFL_CAUSE_INT3) {
			r->nsteps--;
			addr.v++;
			continue;
		}
		verdict = judge(s, at_entry);
		if (verdict != JIFL_INLINE_YES)
			return verdict;
		at_entry = at_entry && s->insn.kind == IR_NOP && s->insn.len == 4;
		addr.v += s->insn.len;
		if ((s->insn.kind == IR_JCC || s->insn.kind == IR_JMP) &&
		    s->insn.target.v > furthest && s->insn.target.v - fn < IR_ROUTINE_STEPS * 15)
			furthest = s->insn.target.v;
		ends = s->insn.kind == IR_RET || s->insn.kind == IR_RET_THUNK ||
		       s->insn.kind == IR_JMP;
	} while (!ends || furthest >= addr.v);
	return set_targets(r);
}
