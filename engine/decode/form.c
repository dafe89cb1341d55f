// SPDX-License-Identifier: GPL-2.0
/*
 * What Zydis says about an instruction, in the form that translation needs; see form.h.
 *
 * The rule for instructions that are not listed: an instruction that Zydis decodes and that
 * neither branches nor replaces rsp, a segment base or the instruction pointer does the same at
 * any address, and is IR_PLAIN.
 */
#include "zydis.h"
#include "decode.h"
#include "form.h"
#include "../base/plant.h"

ZydisDecodedInstruction jifl_zi;
ZydisDecodedOperand jifl_zops[ZYDIS_MAX_OPERAND_COUNT];

static ZydisDecoder decoder;
static ZydisDecoderContext context;
/* The bytes that jifl_zi and its operands were decoded from; n 0: they hold something else. */
static struct { u8 bytes[IR_INSN_MAX]; u32 n; } decoded;

int jifl_form_init(void)
{
	return ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64,
					     ZYDIS_STACK_WIDTH_64)) ? 0 : -JIFL_EINVAL;
}

static u8 status_flags(u32 zydis)
{
	return ((zydis & ZYDIS_CPUFLAG_CF) ? IR_CF : 0) |
	       ((zydis & ZYDIS_CPUFLAG_PF) ? IR_PF : 0) |
	       ((zydis & ZYDIS_CPUFLAG_AF) ? IR_AF : 0) |
	       ((zydis & ZYDIS_CPUFLAG_ZF) ? IR_ZF : 0) |
	       ((zydis & ZYDIS_CPUFLAG_SF) ? IR_SF : 0) |
	       ((zydis & ZYDIS_CPUFLAG_OF) ? IR_OF : 0);
}

static enum ir_repeat repeat_of(void)
{
	if (jifl_zi.attributes & ZYDIS_ATTRIB_HAS_REP)
		return IR_REPEAT_COUNT;
	if (jifl_zi.attributes & (ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE))
		return IR_REPEAT_WHILE;
	return IR_REPEAT_NONE;
}

/* Shifts and rotates by one: opcodes d0 and d1. */
static bool shifts_by_one(void)
{
	return jifl_zi.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && (jifl_zi.opcode & 0xfe) == 0xd0;
}

/*
 * Shifts and rotates by cl and repeated string instructions leave the flags alone when their count
 * is zero (SDM vol. 2, SHL: "if the count is 0, the flags are not affected"). So these
 * instructions never end the life of a flag.
 */
static bool writes_flags_always(void)
{
	if (JIFL_PLANTED(flags_dead_after_shift))
		return true;
	if (jifl_zi.meta.category == ZYDIS_CATEGORY_SHIFT ||
	    jifl_zi.meta.category == ZYDIS_CATEGORY_ROTATE)
		return shifts_by_one();
	return repeat_of() == IR_REPEAT_NONE;
}

/*
 * A shift by an immediate count writes the flags unless the count is zero. The immediate is no
 * part of the form: the caller that sees the immediate has to decide.
 */
static void set_counted_flags(struct decode_form *form, u8 written)
{
	if (jifl_zi.meta.category != ZYDIS_CATEGORY_SHIFT || jifl_zi.raw.imm[0].size != 8)
		return;
	form->count_at = jifl_zi.raw.imm[0].offset;
	form->flags_counted = written;
}

static void set_flags(struct decode_form *form)
{
	const ZydisAccessedFlags *f = jifl_zi.cpu_flags;
	u8 written;

	if (!f)
		return;
	written = status_flags(f->modified | f->set_0 | f->set_1 | f->undefined);
	form->flags_read = status_flags(f->tested);
	if (writes_flags_always()) {
		form->flags_written = written;
		return;
	}
	form->flags_read |= written;
	set_counted_flags(form, written);
}

static bool is_nop(void)
{
	if (jifl_zi.mnemonic == ZYDIS_MNEMONIC_ENDBR64)
		return true;
	/* The category holds the hints of the endbr space, too; only plain nops are left out. */
	return jifl_zi.mnemonic == ZYDIS_MNEMONIC_NOP;
}

u8 jifl_zydis_gpr(ZydisRegister reg)
{
	ZydisRegister wide = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (wide < ZYDIS_REGISTER_RAX || wide > ZYDIS_REGISTER_R15)
		return IR_REG_NONE;
	return wide - ZYDIS_REGISTER_RAX;
}

static u16 gpr_mask(ZydisRegister reg)
{
	u8 gpr = jifl_zydis_gpr(reg);

	return gpr == IR_REG_NONE ? 0 : 1u << gpr;
}

/*
 * Only an unconditional write of 32 or 64 bits ends the old value of a register; narrower writes
 * keep part of the value.
 */
static void add_operand(const ZydisDecodedOperand *op, struct decode_form *form)
{
	bool whole;

	if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		form->regs_read |= gpr_mask(op->mem.base);
		if (!JIFL_PLANTED(index_register_dead))
			form->regs_read |= gpr_mask(op->mem.index);
		return;
	}
	if (op->type != ZYDIS_OPERAND_TYPE_REGISTER)
		return;
	whole = op->size >= 32 && (op->actions & ZYDIS_OPERAND_ACTION_WRITE) &&
		!(op->actions & ZYDIS_OPERAND_ACTION_CONDWRITE);
	if ((op->actions & (ZYDIS_OPERAND_ACTION_READ | ZYDIS_OPERAND_ACTION_CONDREAD)) || !whole)
		form->regs_read |= gpr_mask(op->reg.value);
	if (whole)
		form->regs_written |= gpr_mask(op->reg.value);
}

/*
 * The bit scans leave their destination alone when the source is 0: AMD64 vol. 3 says so, Intel's
 * processors do so, and ffs() relies on it. Processors without tzcnt and lzcnt execute these as
 * bit scans.
 */
static bool may_keep_destination(void)
{
	return jifl_zi.mnemonic == ZYDIS_MNEMONIC_BSF || jifl_zi.mnemonic == ZYDIS_MNEMONIC_BSR ||
	       jifl_zi.mnemonic == ZYDIS_MNEMONIC_TZCNT || jifl_zi.mnemonic == ZYDIS_MNEMONIC_LZCNT;
}

/* xor or sub of a register and itself: the register's old value does not matter. */
static bool is_zeroing(void)
{
	return (jifl_zi.mnemonic == ZYDIS_MNEMONIC_XOR || jifl_zi.mnemonic == ZYDIS_MNEMONIC_SUB) &&
	       jifl_zops[0].type == ZYDIS_OPERAND_TYPE_REGISTER && jifl_zops[0].size >= 32 &&
	       jifl_zops[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       jifl_zops[0].reg.value == jifl_zops[1].reg.value;
}

/*
 * False for an instruction that may take registers that its encoding does not name, such as a call
 * of a hypervisor or an enclave, and for an instruction that goes on elsewhere when it is refused
 * (rdmsr). Only ordinary instructions are known not to do this.
 */
static bool names_its_registers(void)
{
	switch (jifl_zi.meta.category) {
	case ZYDIS_CATEGORY_BINARY:
	case ZYDIS_CATEGORY_BITBYTE:
	case ZYDIS_CATEGORY_BMI1:
	case ZYDIS_CATEGORY_BMI2:
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_CMOV:
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_CONVERT:
	case ZYDIS_CATEGORY_DATAXFER:
	case ZYDIS_CATEGORY_FLAGOP:
	case ZYDIS_CATEGORY_LOGICAL:
	case ZYDIS_CATEGORY_LZCNT:
	case ZYDIS_CATEGORY_NOP:
	case ZYDIS_CATEGORY_POP:
	case ZYDIS_CATEGORY_PUSH:
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_ROTATE:
	case ZYDIS_CATEGORY_SEMAPHORE:
	case ZYDIS_CATEGORY_SETCC:
	case ZYDIS_CATEGORY_SHIFT:
	case ZYDIS_CATEGORY_STRINGOP:
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_WIDENOP:
		return true;
	default:
		/* These are instructions of categories that hold instructions of many kinds. */
		return jifl_zi.mnemonic == ZYDIS_MNEMONIC_LEA ||
		       jifl_zi.mnemonic == ZYDIS_MNEMONIC_CPUID ||
		       jifl_zi.mnemonic == ZYDIS_MNEMONIC_XGETBV ||
		       jifl_zi.mnemonic == ZYDIS_MNEMONIC_ENDBR64;
	}
}

/*
 * True when the instruction may fault and go on elsewhere, by way of an exception table. There any
 * register may be needed, even a register that is overwritten right behind the instruction.
 * Accesses of the stack, and of addresses that are known when the kernel is built, do not fault.
 */
static bool may_fault(void)
{
	const ZydisDecodedOperand *op;
	u8 k;

	for (k = 0; k < jifl_zi.operand_count; k++) {
		op = &jifl_zops[k];
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    op->mem.type != ZYDIS_MEMOP_TYPE_AGEN &&
		    (gpr_mask(op->mem.base) | gpr_mask(op->mem.index)) & ~(1u << IR_RSP))
			return true;
	}
	return false;
}

static u8 branch_kind(struct decode_form *form)
{
	bool direct = jifl_zi.raw.imm[0].is_relative;

	/* xabort and xend are in the branches' categories, and are no branches. */
	if (jifl_zi.meta.branch_type == ZYDIS_BRANCH_TYPE_NONE)
		return IR_PLAIN;
	switch (jifl_zi.meta.category) {
	case ZYDIS_CATEGORY_UNCOND_BR:
		return direct ? IR_JMP : IR_JMP_IND;
	case ZYDIS_CATEGORY_CALL:
		return direct ? IR_CALL : IR_CALL_IND;
	case ZYDIS_CATEGORY_COND_BR:
		form->cc = jifl_zi.opcode & 0xf;
		return jifl_zi.opcode >= 0xe0 ? IR_JCXZ : IR_JCC;
	case ZYDIS_CATEGORY_RET:
		return IR_RET;
	default:
		return IR_PLAIN;
	}
}

static enum jifl_ins_type type_of(u8 kind, u8 cc)
{
	switch (kind) {
	case IR_NOP:
		return ins_nop;
	case IR_JMP:
		return ins_jmp;
	case IR_JCC:
		return ins_jo + cc;
	case IR_JCXZ:
		return ins_jrcxz;
	case IR_CALL:
		return ins_call;
	case IR_JMP_IND:
		return ins_jmp_indirect;
	case IR_CALL_IND:
		return ins_call_indirect;
	case IR_RET:
		return ins_ret;
	default:
		return jifl_decode_ins_type(&jifl_zi);
	}
}

static void classify(struct decode_form *form)
{
	form->cause = jifl_zydis_native_cause();
	if (form->cause != JIFL_CAUSE_NONE) {
		form->kind = IR_NATIVE;
		return;
	}
	form->kind = is_nop() ? IR_NOP : branch_kind(form);
	if (form->kind == IR_JMP_IND || form->kind == IR_CALL_IND)
		form->reg = jifl_zydis_modrm_rm();
	/* A branch with rsp as its target or index is not sensible code. */
	if (form->reg == IR_RSP) {
		form->kind = IR_NATIVE;
		form->cause = JIFL_CAUSE_PRIVILEGED;
	}
}

/*
 * How many of the first bytes decide all that a form says. 3DNow has its opcode behind the
 * displacement. Other instructions of that kind, and prefixes longer than REX, are rare in kernels
 * and are left out together with 3DNow.
 */
static u8 key_len(void)
{
	if (jifl_zi.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return 0;
	if (jifl_zi.raw.disp.size)
		return jifl_zi.raw.disp.offset;
	return jifl_zi.raw.imm[0].size ? jifl_zi.raw.imm[0].offset : jifl_zi.length;
}

static bool decode_operands(void)
{
	return ZYAN_SUCCESS(ZydisDecoderDecodeOperands(&decoder, &context, &jifl_zi, jifl_zops,
						       jifl_zi.operand_count));
}

/*
 * Callers ask several questions about one instruction, one after the other: the instruction is
 * decoded once for all of them.
 */
bool jifl_zydis_decode(const u8 *bytes, u32 n)
{
	if (n && n == decoded.n && !memcmp(decoded.bytes, bytes, n))
		return true;
	decoded.n = 0;
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, &context, bytes, n, &jifl_zi)) ||
	    !decode_operands())
		return false;
	if (n <= IR_INSN_MAX) {
		memcpy(decoded.bytes, bytes, n);
		decoded.n = n;
	}
	return true;
}

static bool set_registers(struct decode_form *form)
{
	u8 k;

	/* A long nop seems to address memory; that does not count either. */
	if (is_nop())
		return true;
	if (!decode_operands())
		return false;
	for (k = 0; k < jifl_zi.operand_count; k++)
		add_operand(&jifl_zops[k], form);
	if (may_keep_destination())
		form->regs_read |= form->regs_written;
	if (is_zeroing())
		form->regs_read = 0;
	if (!names_its_registers() || may_fault())
		form->regs_read = 0xffff;
	return true;
}

static void set_layout(struct decode_form *form)
{
	form->len = jifl_zi.length;
	form->key_len = key_len();
	form->modrm_at = (jifl_zi.attributes & ZYDIS_ATTRIB_HAS_MODRM) ?
			 jifl_zi.raw.modrm.offset : 0;
	if (form->modrm_at && jifl_zi.raw.modrm.mod == 0 && jifl_zi.raw.modrm.rm == 5)
		form->disp_at = jifl_zi.raw.disp.offset;
	if (jifl_zi.raw.imm[0].is_relative) {
		form->rel_at = jifl_zi.raw.imm[0].offset;
		form->rel_len = jifl_zi.raw.imm[0].size / 8;
	}
}

const struct decode_form *jifl_form_decode(const u8 *bytes, u32 n, bool with_registers)
{
	static struct decode_form form;

	decoded.n = 0;
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, &context, bytes, n, &jifl_zi)))
		return NULL;
	memset(&form, 0, sizeof(form));
	form.reg = IR_REG_NONE;
	set_layout(&form);
	set_flags(&form);
	form.repeat = repeat_of();
	form.sets_df = jifl_zi.mnemonic == ZYDIS_MNEMONIC_STD;
	form.clears_df = jifl_zi.mnemonic == ZYDIS_MNEMONIC_CLD;
	classify(&form);
	form.type = type_of(form.kind, form.cc);
	/*
	 * Addresses of half the size: no kernel code has them, and eip-relative is not
	 * rip-relative.
	 */
	if (jifl_zi.address_width != 64 && form.disp_at) {
		form.kind = IR_NATIVE;
		form.cause = JIFL_CAUSE_UNDECODED;
	}
	if (with_registers && !set_registers(&form))
		form.regs_read = 0xffff;
	return &form;
}
