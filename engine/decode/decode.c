// SPDX-License-Identifier: GPL-2.0
/*
 * Decoding of instructions and basic blocks; see decode.h.
 *
 * The rule for what is not listed: an instruction that Zydis decodes and that
 * neither branches nor replaces rsp, a segment base or the instruction pointer
 * does the same at any address, and is IR_PLAIN.
 */
#include <Zydis/Zydis.h>

#include "decode.h"
#include "thunk.h"
#include "../base/plant.h"
#include "../host.h"

/* From an std to its cld, with some to spare. */
#define BACKWARDS_INSNS 16

static ZydisDecoder decoder;
/* Over 1 KB together: too much for a kernel stack. */
static ZydisDecodedInstruction zi;
static ZydisDecodedOperand zops[ZYDIS_MAX_OPERAND_COUNT];

int jifl_decode_init(void)
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
	if (zi.attributes & ZYDIS_ATTRIB_HAS_REP)
		return IR_REPEAT_COUNT;
	if (zi.attributes & (ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE))
		return IR_REPEAT_WHILE;
	return IR_REPEAT_NONE;
}

/*
 * Shifts and rotates by cl and repeated string instructions leave the flags
 * alone when their count is zero (SDM vol. 2, SHL: "if the count is 0, the
 * flags are not affected"), so they never end a flag's life.
 */
static bool writes_flags_always(void)
{
	if (JIFL_PLANTED(flags_dead_after_shift))
		return true;
	if (zi.meta.category == ZYDIS_CATEGORY_SHIFT || zi.meta.category == ZYDIS_CATEGORY_ROTATE)
		return false;
	return repeat_of() == IR_REPEAT_NONE;
}

static void set_flags(struct ir_insn *insn)
{
	const ZydisAccessedFlags *f = zi.cpu_flags;

	insn->flags_read = 0;
	insn->flags_written = 0;
	if (!f)
		return;
	insn->flags_read = status_flags(f->tested);
	if (writes_flags_always())
		insn->flags_written = status_flags(f->modified | f->set_0 | f->set_1 |
						   f->undefined);
	else
		insn->flags_read |= status_flags(f->modified | f->undefined);
}

/* The processor's number of the register in ModRM.reg. */
static u8 modrm_reg(void)
{
	return zi.raw.modrm.reg | (zi.raw.rex.R << 3);
}

/* ... and in ModRM.rm, where that is a register; IR_REG_NONE for memory. */
static u8 modrm_rm(void)
{
	if (zi.raw.modrm.mod != 3)
		return IR_REG_NONE;
	return zi.raw.modrm.rm | (zi.raw.rex.B << 3);
}

/*
 * True when the instruction puts rsp on another stack: a move, exchange or pop
 * into it. Growing, shrinking and aligning the stack are ordinary, and so are the
 * frame pointer's restore and lea, by which compilers leave a realigned frame.
 */
static bool switches_stack(void)
{
	if (zi.opcode_map != ZYDIS_OPCODE_MAP_DEFAULT)
		return false;
	switch (zi.mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
		if (zi.opcode == 0x89)
			return modrm_rm() == IR_RSP && modrm_reg() != IR_RBP;
		if (zi.opcode == 0x8b)
			return modrm_reg() == IR_RSP && modrm_rm() != IR_RBP;
		if (zi.opcode == 0xc7)
			return modrm_rm() == IR_RSP;
		return (zi.opcode & 0xf8) == 0xb8 &&
		       ((zi.opcode & 7) | (zi.raw.rex.B << 3)) == IR_RSP;
	case ZYDIS_MNEMONIC_POP:
		if (zi.opcode == 0x8f)
			return modrm_rm() == IR_RSP;
		return (zi.opcode & 0xf8) == 0x58 &&
		       ((zi.opcode & 7) | (zi.raw.rex.B << 3)) == IR_RSP;
	case ZYDIS_MNEMONIC_XCHG:
		if (zi.opcode == 0x87)
			return modrm_reg() == IR_RSP || modrm_rm() == IR_RSP;
		return (zi.opcode & 0xf8) == 0x90 &&
		       ((zi.opcode & 7) | (zi.raw.rex.B << 3)) == IR_RSP;
	default:
		return false;
	}
}

/*
 * Instructions that mean something else in a copy, or after which inserted
 * code could not run. Returns JIFL_CAUSE_NONE for all others.
 */
static enum jifl_cause native_cause(void)
{
	switch (zi.mnemonic) {
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
		return JIFL_CAUSE_UD2;
	case ZYDIS_MNEMONIC_INT3:
		return JIFL_CAUSE_INT3;
	case ZYDIS_MNEMONIC_INT:
	case ZYDIS_MNEMONIC_INT1:
	case ZYDIS_MNEMONIC_INTO:
	case ZYDIS_MNEMONIC_IRET:
	case ZYDIS_MNEMONIC_IRETD:
	case ZYDIS_MNEMONIC_IRETQ:
	case ZYDIS_MNEMONIC_SYSCALL:
	case ZYDIS_MNEMONIC_SYSRET:
	case ZYDIS_MNEMONIC_SYSENTER:
	case ZYDIS_MNEMONIC_SYSEXIT:
	case ZYDIS_MNEMONIC_RSM:
	/* Between two swapgs a gs-relative counter is the user's memory. */
	case ZYDIS_MNEMONIC_SWAPGS:
	case ZYDIS_MNEMONIC_WRGSBASE:
	case ZYDIS_MNEMONIC_LGS:
	case ZYDIS_MNEMONIC_LSS:
	case ZYDIS_MNEMONIC_XBEGIN:
	case ZYDIS_MNEMONIC_VMLAUNCH:
	case ZYDIS_MNEMONIC_VMRESUME:
	case ZYDIS_MNEMONIC_VMRUN:
	case ZYDIS_MNEMONIC_UIRET:
		return JIFL_CAUSE_PRIVILEGED;
	default:
		break;
	}
	if (zi.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return JIFL_CAUSE_PRIVILEGED;
	/* mov to ss (2), which shadows interrupts, or gs (5), as above */
	if (zi.mnemonic == ZYDIS_MNEMONIC_MOV && zi.opcode == 0x8e &&
	    zi.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT &&
	    (zi.raw.modrm.reg == 2 || zi.raw.modrm.reg == 5))
		return JIFL_CAUSE_PRIVILEGED;
	return switches_stack() ? JIFL_CAUSE_STACK : JIFL_CAUSE_NONE;
}

static bool is_nop(void)
{
	if (zi.mnemonic == ZYDIS_MNEMONIC_ENDBR64)
		return true;
	/* The category holds endbr-space hints too; only plain nops go. */
	return zi.mnemonic == ZYDIS_MNEMONIC_NOP;
}

static void set_native(struct ir_insn *insn, enum jifl_cause cause)
{
	insn->kind = IR_NATIVE;
	insn->cause = cause;
}

/*
 * A direct branch. Where it goes to a thunk it is the branch the thunk stands
 * for; where it goes to what is not known text, it runs natively (the caller of a
 * trampoline is identified by its return address).
 */
static void classify_direct(struct ir_insn *insn, u8 kind)
{
	enum jifl_cause cause = JIFL_CAUSE_FOREIGN;
	struct jifl_thunk thunk;

	insn->kind = kind;
	insn->target = jifl_orig_at(insn->addr.v + insn->len + (u64)zi.raw.imm[0].value.s);
	switch (jifl_host_classify(insn->target, &cause)) {
	case JIFL_TEXT_CODE:
	case JIFL_TEXT_NATIVE:
		return;
	case JIFL_TEXT_FOREIGN:
		set_native(insn, cause);
		return;
	case JIFL_TEXT_THUNK:
		break;
	}
	if (kind != IR_CALL && kind != IR_JMP)
		return;
	jifl_thunk_follow(insn->target, &thunk);
	if (thunk.kind == JIFL_THUNK_INDIRECT) {
		insn->kind = kind == IR_CALL ? IR_CALL_IND : IR_JMP_IND;
		insn->reg = thunk.reg;
		insn->folded = thunk.insns;
	} else if (thunk.kind == JIFL_THUNK_RETURN && kind == IR_JMP) {
		insn->kind = IR_RET_THUNK;
		insn->folded = thunk.insns;
	}
}

static void classify_indirect(struct ir_insn *insn, u8 kind)
{
	insn->kind = kind;
	insn->reg = modrm_rm();
	/* With rsp as the target or an index nothing sensible is meant. */
	if (insn->reg == IR_RSP)
		set_native(insn, JIFL_CAUSE_PRIVILEGED);
}

static void classify(struct ir_insn *insn)
{
	enum jifl_cause cause = native_cause();

	if (cause != JIFL_CAUSE_NONE) {
		set_native(insn, cause);
		return;
	}
	insn->kind = is_nop() ? IR_NOP : IR_PLAIN;
	/* xabort and xend are in the branches' categories, and are none. */
	if (zi.meta.branch_type == ZYDIS_BRANCH_TYPE_NONE)
		return;
	switch (zi.meta.category) {
	case ZYDIS_CATEGORY_UNCOND_BR:
		if (zi.raw.imm[0].is_relative)
			classify_direct(insn, IR_JMP);
		else
			classify_indirect(insn, IR_JMP_IND);
		return;
	case ZYDIS_CATEGORY_CALL:
		if (zi.raw.imm[0].is_relative)
			classify_direct(insn, IR_CALL);
		else
			classify_indirect(insn, IR_CALL_IND);
		return;
	case ZYDIS_CATEGORY_COND_BR:
		insn->cc = zi.opcode & 0xf;
		classify_direct(insn, zi.opcode >= 0xe0 ? IR_JCXZ : IR_JCC);
		return;
	case ZYDIS_CATEGORY_RET:
		insn->kind = IR_RET;
		return;
	default:
		return;
	}
}

static enum jifl_ins_type type_of(const struct ir_insn *insn)
{
	switch (insn->kind) {
	case IR_NOP:
		return INS_TYPE_NOP;
	case IR_JMP:
		return INS_TYPE_JUMP;
	case IR_JCC:
	case IR_JCXZ:
		return INS_TYPE_COND_JUMP;
	case IR_CALL:
		return INS_TYPE_CALL;
	case IR_JMP_IND:
		return INS_TYPE_JUMP_INDIRECT;
	case IR_CALL_IND:
		return INS_TYPE_CALL_INDIRECT;
	case IR_RET:
	case IR_RET_THUNK:
		return INS_TYPE_RETURN;
	default:
		return jifl_decode_ins_type(&zi);
	}
}

void jifl_decode_insn(jifl_orig addr, struct ir_insn *insn)
{
	u32 n;

	memset(insn, 0, sizeof(*insn));
	insn->addr = addr;
	insn->reg = IR_REG_NONE;
	n = jifl_host_fetch(addr, insn->bytes, sizeof(insn->bytes));
	if (!n || !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, insn->bytes, n, &zi))) {
		set_native(insn, JIFL_CAUSE_UNDECODED);
		return;
	}
	insn->len = zi.length;
	insn->modrm_at = (zi.attributes & ZYDIS_ATTRIB_HAS_MODRM) ? zi.raw.modrm.offset : 0;
	if (insn->modrm_at && zi.raw.modrm.mod == 0 && zi.raw.modrm.rm == 5)
		insn->disp_at = zi.raw.disp.offset;
	/* Half an address size: no kernel code, and eip-relative is not rip-relative. */
	if (zi.address_width != 64 && insn->disp_at) {
		set_native(insn, JIFL_CAUSE_UNDECODED);
		return;
	}
	set_flags(insn);
	insn->repeat = repeat_of();
	insn->sets_df = zi.mnemonic == ZYDIS_MNEMONIC_STD;
	insn->clears_df = zi.mnemonic == ZYDIS_MNEMONIC_CLD;
	classify(insn);
	insn->type = type_of(insn);
}

enum jifl_cause jifl_decode_block(jifl_orig addr, struct ir_block *b)
{
	struct ir_insn *insn;

	b->addr = addr;
	b->next = jifl_orig_at(0);
	b->ninsns = 0;
	b->ninserts = 0;
	b->count = 0;
	b->src_len = 0;
	b->inserts_full = false;
	for (;;) {
		insn = &b->insns[b->ninsns];
		jifl_decode_insn(addr, insn);
		if (insn->kind == IR_NATIVE) {
			b->next = addr;
			return b->ninsns ? JIFL_CAUSE_NONE : insn->cause;
		}
		/* Liveness sees DF in the block that sets it: no cut before it is cleared. */
		if (insn->sets_df && b->ninsns > IR_BLOCK_INSNS - BACKWARDS_INSNS) {
			b->next = addr;
			return JIFL_CAUSE_NONE;
		}
		b->ninsns++;
		b->count += 1 + insn->folded;
		b->src_len += insn->len;
		addr.v += insn->len;
		if (ir_kind_ends_block(insn->kind))
			break;
		if (b->ninsns == IR_BLOCK_INSNS) {
			b->next = addr;
			return JIFL_CAUSE_NONE;
		}
	}
	switch (insn->kind) {
	case IR_JCC:
	case IR_JCXZ:
	case IR_CALL:
	case IR_CALL_IND:
		b->next = addr;
		break;
	default:
		break;
	}
	return JIFL_CAUSE_NONE;
}

static u16 gpr_mask(ZydisRegister reg)
{
	ZydisRegister wide = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (wide < ZYDIS_REGISTER_RAX || wide > ZYDIS_REGISTER_R15)
		return 0;
	return 1u << (wide - ZYDIS_REGISTER_RAX);
}

/*
 * Only an unconditional write of 32 or 64 bits ends the old value of a
 * register; narrower ones keep part of it.
 */
static void add_operand(const ZydisDecodedOperand *op, struct ir_insn *insn)
{
	bool whole;

	if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		insn->regs_read |= gpr_mask(op->mem.base);
		if (!JIFL_PLANTED(index_register_dead))
			insn->regs_read |= gpr_mask(op->mem.index);
		return;
	}
	if (op->type != ZYDIS_OPERAND_TYPE_REGISTER)
		return;
	whole = op->size >= 32 && (op->actions & ZYDIS_OPERAND_ACTION_WRITE) &&
		!(op->actions & ZYDIS_OPERAND_ACTION_CONDWRITE);
	if ((op->actions & (ZYDIS_OPERAND_ACTION_READ | ZYDIS_OPERAND_ACTION_CONDREAD)) || !whole)
		insn->regs_read |= gpr_mask(op->reg.value);
	if (whole)
		insn->regs_written |= gpr_mask(op->reg.value);
}

/*
 * The bit scans leave their destination alone when the source is 0: AMD64 vol. 3
 * says so, Intel's processors do so, and ffs() counts on it. What lacks tzcnt and
 * lzcnt executes these as bit scans.
 */
static bool may_keep_destination(void)
{
	return zi.mnemonic == ZYDIS_MNEMONIC_BSF || zi.mnemonic == ZYDIS_MNEMONIC_BSR ||
	       zi.mnemonic == ZYDIS_MNEMONIC_TZCNT || zi.mnemonic == ZYDIS_MNEMONIC_LZCNT;
}

/*
 * True when it may fault and go on elsewhere, by way of an exception table: there
 * any register may be needed, such as one that is overwritten right behind it.
 * That is not so for the stack and for addresses known when the kernel is built.
 */
static bool may_fault(void)
{
	const ZydisDecodedOperand *op;
	u8 k;

	if (zi.meta.category == ZYDIS_CATEGORY_SYSTEM)
		return true;
	for (k = 0; k < zi.operand_count; k++) {
		op = &zops[k];
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    op->mem.type != ZYDIS_MEMOP_TYPE_AGEN &&
		    (gpr_mask(op->mem.base) | gpr_mask(op->mem.index)) & ~(1u << IR_RSP))
			return true;
	}
	return false;
}

void jifl_decode_registers(struct ir_block *b)
{
	ZydisDecoderContext context;
	struct ir_insn *insn;
	u16 i;
	u8 k;

	for (i = 0; i < b->ninsns; i++) {
		insn = &b->insns[i];
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, &context, insn->bytes,
								insn->len, &zi)) ||
		    !ZYAN_SUCCESS(ZydisDecoderDecodeOperands(&decoder, &context, &zi, zops,
							     zi.operand_count))) {
			insn->regs_read = 0xffff;
			continue;
		}
		for (k = 0; k < zi.operand_count; k++)
			add_operand(&zops[k], insn);
		if (may_keep_destination())
			insn->regs_read |= insn->regs_written;
		if (may_fault())
			insn->regs_read = 0xffff;
	}
}
