// SPDX-License-Identifier: GPL-2.0
/*
 * Which instructions must run natively, and why: instructions that mean something else in a copy,
 * and instructions after which inserted code could not run. All functions are about the
 * instruction in jifl_zi; under the engine lock.
 */
#include "zydis.h"
#include "decode.h"

/* The processor's number of the register in ModRM.reg. */
static u8 modrm_reg(void)
{
	return jifl_zi.raw.modrm.reg | (jifl_zi.raw.rex.R << 3);
}

u8 jifl_zydis_modrm_rm(void)
{
	if (jifl_zi.raw.modrm.mod != 3)
		return IR_REG_NONE;
	return jifl_zi.raw.modrm.rm | (jifl_zi.raw.rex.B << 3);
}

/*
 * True when the instruction puts rsp on another stack: a move, exchange or pop into rsp. Ordinary
 * code grows, shrinks and aligns the stack, restores rsp from the frame pointer, and leaves a
 * realigned frame by lea. Where it takes rsp from another register the host is asked (decode.c).
 */
static bool switches_stack(void)
{
	if (jifl_zi.opcode_map != ZYDIS_OPCODE_MAP_DEFAULT)
		return false;
	switch (jifl_zi.mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
		if (jifl_zi.opcode == 0x89)
			return jifl_zydis_modrm_rm() == IR_RSP && modrm_reg() != IR_RBP;
		if (jifl_zi.opcode == 0x8b)
			return modrm_reg() == IR_RSP && jifl_zydis_modrm_rm() != IR_RBP;
		if (jifl_zi.opcode == 0xc7)
			return jifl_zydis_modrm_rm() == IR_RSP;
		return (jifl_zi.opcode & 0xf8) == 0xb8 &&
		       ((jifl_zi.opcode & 7) | (jifl_zi.raw.rex.B << 3)) == IR_RSP;
	case ZYDIS_MNEMONIC_POP:
		if (jifl_zi.opcode == 0x8f)
			return jifl_zydis_modrm_rm() == IR_RSP;
		return (jifl_zi.opcode & 0xf8) == 0x58 &&
		       ((jifl_zi.opcode & 7) | (jifl_zi.raw.rex.B << 3)) == IR_RSP;
	case ZYDIS_MNEMONIC_XCHG:
		if (jifl_zi.opcode == 0x87)
			return modrm_reg() == IR_RSP || jifl_zydis_modrm_rm() == IR_RSP;
		return (jifl_zi.opcode & 0xf8) == 0x90 &&
		       ((jifl_zi.opcode & 7) | (jifl_zi.raw.rex.B << 3)) == IR_RSP;
	default:
		return false;
	}
}

enum jifl_cause jifl_zydis_native_cause(void)
{
	switch (jifl_zi.mnemonic) {
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
	/* Between two swapgs instructions a gs-relative counter is the user's memory. */
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
	if (jifl_zi.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return JIFL_CAUSE_PRIVILEGED;
	/* mov to ss (2), which delays interrupts, or to gs (5), as above */
	if (jifl_zi.mnemonic == ZYDIS_MNEMONIC_MOV && jifl_zi.opcode == 0x8e &&
	    jifl_zi.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT &&
	    (jifl_zi.raw.modrm.reg == 2 || jifl_zi.raw.modrm.reg == 5))
		return JIFL_CAUSE_PRIVILEGED;
	/* pop to gs */
	if (jifl_zi.mnemonic == ZYDIS_MNEMONIC_POP && jifl_zi.opcode == 0xa9 &&
	    jifl_zi.opcode_map == ZYDIS_OPCODE_MAP_0F)
		return JIFL_CAUSE_PRIVILEGED;
	return switches_stack() ? JIFL_CAUSE_STACK : JIFL_CAUSE_NONE;
}
