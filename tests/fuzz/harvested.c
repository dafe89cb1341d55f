// SPDX-License-Identifier: GPL-2.0
/*
 * One harvested instruction, changed (draft.h). The code before it leads it: memory operands into
 * the sandbox or to the guard; counts, divisors and flags to values that make its result certain.
 * An instruction that cannot be led is left out.
 */
#include <string.h>

#include "draft.h"

static u16 mask_of(ZydisRegister reg)
{
	ZydisRegister wide = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (wide < ZYDIS_REGISTER_RAX || wide > ZYDIS_REGISTER_R15)
		return 0;
	return 1u << (wide - ZYDIS_REGISTER_RAX);
}

static u8 number_of(ZydisRegister reg)
{
	return (u8)(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg) -
		    ZYDIS_REGISTER_RAX);
}

static u16 written_by(const struct insn *i)
{
	u16 regs = 0;
	u32 k;

	for (k = 0; k < i->zi.operand_count; k++)
		if (i->ops[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    (i->ops[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			regs |= mask_of(i->ops[k].reg.value);
	return regs;
}

static bool same_shape(const struct insn *a, const struct insn *b)
{
	u32 k;

	if (a->zi.mnemonic != b->zi.mnemonic || a->zi.length != b->zi.length ||
	    a->zi.operand_count != b->zi.operand_count)
		return false;
	for (k = 0; k < a->zi.operand_count; k++)
		if (a->ops[k].type != b->ops[k].type || a->ops[k].size != b->ops[k].size)
			return false;
	return true;
}

static void change_modrm(u8 *b, const struct insn *i)
{
	u8 at = i->zi.raw.modrm.offset;

	if (below(2))
		b[at] = (b[at] & 0xc7) | below(8) << 3;
	if (below(2) && (b[at] >> 6 == 3 || (b[at] & 7) != 4))
		b[at] = (b[at] & 0xf8) | below(8);
	if ((i->zi.attributes & ZYDIS_ATTRIB_HAS_SIB) && below(2))
		b[i->zi.raw.sib.offset] = below(256);
	if ((i->zi.attributes & ZYDIS_ATTRIB_HAS_REX) && below(2))
		b[i->zi.raw.rex.offset] ^= below(8);
}

/* Other registers, immediates and displacements, as far as it stays the same form. */
static void change(struct insn *i)
{
	u8 b[15];
	struct insn new;
	u32 k, n;

	memcpy(b, i->bytes, sizeof(b));
	if (i->zi.attributes & ZYDIS_ATTRIB_HAS_MODRM)
		change_modrm(b, i);
	else if (i->ops[0].encoding == ZYDIS_OPERAND_ENCODING_OPCODE)
		b[i->zi.length - 1 - i->zi.raw.imm[0].size / 8] ^= below(8);
	for (k = 0; k < 2; k++)
		for (n = 0; n < i->zi.raw.imm[k].size / 8u; n++)
			b[i->zi.raw.imm[k].offset + n] = below(256);
	for (n = 0; n < i->zi.raw.disp.size / 8u; n++)
		b[i->zi.raw.disp.offset + n] = below(256);
	if (insn_decode(b, i->zi.length, &new) && same_shape(i, &new) &&
	    insn_use(&new) == FORM_USED)
		*i = new;
}

/* An address in the sandbox for so many bytes, or one that faults. */
u64 draft_somewhere(u32 size, bool string)
{
	u32 room = SANDBOX_SIZE / 2 - size - STRING_MAX * 8, off = below(room);

	/* Aligned: a locked access across two lines may trap for ever instead. */
	if (draft.faulty && !below(16))
		return address(draft.guard) + 64 * below(32);
	/* Strings may go up or down. */
	if (string)
		return address(fuzz_sandbox) + SANDBOX_SIZE / 4 + off;
	if (below(8) || size >= 8)
		off &= size >= 8 && below(16) ? ~63u : ~7u;
	return address(fuzz_sandbox) + off;
}

static void set_disp(struct insn *i, u64 value)
{
	memcpy(i->bytes + i->zi.raw.disp.offset, &value, i->zi.raw.disp.size / 8);
}

/* disp(%rsp,index): within the function's own words */
static bool lead_stack(struct insn *i, const ZydisDecodedOperand *op)
{
	u32 size = op->size / 8, room = draft.frame + 8 * draft.depth;

	if (i->zi.raw.disp.size && i->zi.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return false;
	if (op->mem.index != ZYDIS_REGISTER_NONE) {
		if (mask_of(op->mem.index) & draft.avoid)
			return false;
		load(number_of(op->mem.index), 0);
	}
	/* pop reaches its operand from where it leaves rsp. */
	if (i->zi.meta.category == ZYDIS_CATEGORY_POP)
		room = room < 8 ? 0 : room - 8;
	if (size > room)
		return false;
	if (i->zi.raw.disp.size)
		set_disp(i, below(room - size + 1) & 0x7f & (size > 1 ? ~7u : ~0u));
	return true;
}

static bool lead_registers(struct insn *i, const ZydisDecodedOperand *op, bool string)
{
	/* A locked access across two cache lines costs milliseconds. */
	bool locked = (i->zi.attributes & ZYDIS_ATTRIB_HAS_LOCK) ||
		      i->zi.mnemonic == ZYDIS_MNEMONIC_XCHG;
	u64 to = draft_somewhere(locked && op->size < 64 ? 8 : op->size / 8, string), index = 0;
	ZydisRegister base = op->mem.base;

	if ((mask_of(base) | mask_of(op->mem.index)) & draft.avoid)
		return false;
	if (op->mem.index != ZYDIS_REGISTER_NONE) {
		if (op->mem.index == base)
			return false;
		index = below(5) - 2ull;
		load(number_of(op->mem.index), index);
	}
	if (base != ZYDIS_REGISTER_NONE)
		load(number_of(base), to - (u64)op->mem.disp.value - index * op->mem.scale);
	else
		set_disp(i, to - index * op->mem.scale);
	return true;
}

/* Emits what makes operand k reach the sandbox. False when that cannot be. */
static bool lead_operand(struct insn *i, u32 k)
{
	const ZydisDecodedOperand *op = &i->ops[k];
	bool string = op->visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT;

	if (op->type != ZYDIS_OPERAND_TYPE_MEMORY)
		return true;
	if (op->mem.base == ZYDIS_REGISTER_RIP)
		return true;	/* when its place is known */
	if (op->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
		return true;
	if (op->mem.base == ZYDIS_REGISTER_RSP)
		return string || lead_stack(i, op);
	return lead_registers(i, op, string);
}

static bool has_rip_operand(const struct insn *i)
{
	u32 k;

	for (k = 0; k < i->zi.operand_count; k++)
		if (i->ops[k].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    i->ops[k].mem.base == ZYDIS_REGISTER_RIP)
			return true;
	return false;
}

/* Registers whose values matter: counts of strings, bits in memory, dividends. */
static bool prepare_registers(const struct insn *i)
{
	const u32 repeats = ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE;

	switch (i->zi.mnemonic) {
	case ZYDIS_MNEMONIC_BT:
	case ZYDIS_MNEMONIC_BTS:
	case ZYDIS_MNEMONIC_BTR:
	case ZYDIS_MNEMONIC_BTC:
		if (i->ops[0].type != ZYDIS_OPERAND_TYPE_MEMORY ||
		    i->ops[1].type != ZYDIS_OPERAND_TYPE_REGISTER)
			return true;
		if ((mask_of(i->ops[0].mem.base) | mask_of(i->ops[0].mem.index) | draft.avoid |
		     1u << IR_RSP) & mask_of(i->ops[1].reg.value))
			return false;
		/* On the stack, not beyond the operand: a return address may be there. */
		load(number_of(i->ops[1].reg.value),
		     below(i->ops[0].mem.base == ZYDIS_REGISTER_RSP ? 16 : 256));
		return true;
	case ZYDIS_MNEMONIC_DIV:
	case ZYDIS_MNEMONIC_IDIV:
		if (draft.avoid || (i->ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
				    (mask_of(i->ops[0].mem.base) | mask_of(i->ops[0].mem.index)) &
				    (1u << IR_RAX | 1u << IR_RDX)))
			return false;
		if (below(8)) {
			load(IR_RDX, 0);
			load(IR_RAX, below(128));
		}
		return true;
	default:
		break;
	}
	if (i->zi.meta.category == ZYDIS_CATEGORY_STRINGOP && (i->zi.attributes & repeats)) {
		if (draft.avoid & (1u << IR_RCX))
			return false;
		load(IR_RCX, below(STRING_MAX));
	}
	return true;
}

static u8 status(u32 zydis)
{
	return ((zydis & ZYDIS_CPUFLAG_CF) ? IR_CF : 0) | ((zydis & ZYDIS_CPUFLAG_PF) ? IR_PF : 0) |
	       ((zydis & ZYDIS_CPUFLAG_AF) ? IR_AF : 0) | ((zydis & ZYDIS_CPUFLAG_ZF) ? IR_ZF : 0) |
	       ((zydis & ZYDIS_CPUFLAG_SF) ? IR_SF : 0) | ((zydis & ZYDIS_CPUFLAG_OF) ? IR_OF : 0);
}

/* Shifts by nothing and strings of no length leave flags as they are. */
static bool may_keep_flags(const struct insn *i)
{
	return i->zi.meta.category == ZYDIS_CATEGORY_SHIFT ||
	       i->zi.meta.category == ZYDIS_CATEGORY_ROTATE ||
	       (i->zi.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE |
				    ZYDIS_ATTRIB_HAS_REPNE));
}

static void follow_flags(const struct insn *i)
{
	const ZydisAccessedFlags *f = i->zi.cpu_flags;

	if (!f)
		return;
	if (!may_keep_flags(i))
		draft.valid |= status(f->modified | f->set_0 | f->set_1);
	draft.valid &= ~status(f->undefined);
}

static bool follow_stack(const struct insn *i)
{
	bool push = i->zi.meta.category == ZYDIS_CATEGORY_PUSH;

	if (!push && i->zi.meta.category != ZYDIS_CATEGORY_POP)
		return true;
	if (draft.level || (push ? draft.depth == MAX_DEPTH : !draft.depth))
		return false;
	draft.depth += push ? 1 : -1;
	return true;
}

static u8 flags_needed(const struct insn *i)
{
	if (i->zi.mnemonic == ZYDIS_MNEMONIC_PUSHFQ)
		return IR_FLAGS;
	return i->zi.cpu_flags ? status(i->zi.cpu_flags->tested) : 0;
}

bool draft_insn(struct insn *i)
{
	u32 k, start = fuzz_len;

	if (written_by(i) & draft.avoid)
		return false;
	for (k = 0; k < i->zi.operand_count; k++)
		if (!lead_operand(i, k))
			goto no;
	if (!prepare_registers(i) || !follow_stack(i))
		goto no;
	need_flags(flags_needed(i));
	/* rip-relative: from behind this instruction to the sandbox */
	if (has_rip_operand(i))
		set_disp(i, draft_somewhere(64, false) -
			 (address(fuzz_text) + fuzz_len + i->zi.length));
	draft.valid_at[fuzz_len] = draft.valid;
	bytes(i->bytes, i->zi.length);
	follow_flags(i);
	return true;
no:
	fuzz_len = start;
	return false;
}

static void harvested(void)
{
	u32 form = below(fuzz_nforms);
	struct insn i = fuzz_forms[form].insn;

	change(&i);
	if (!has_room() || !draft_insn(&i))
		return;
	fuzz_forms[form].generated++;
	draft.used[draft.nused++] = form;
}

void draft_some(u32 n)
{
	n = 1 + below(n);
	while (n--)
		harvested();
}
