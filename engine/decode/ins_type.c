// SPDX-License-Identifier: GPL-2.0
/*
 * Classes of plain instructions for tools (jifl_ins.h), from Zydis' category. Categories that only
 * occur with vector registers need not all be listed: every instruction that is encoded with VEX,
 * EVEX or XOP is ins_vector.
 */
#include <Zydis/Zydis.h>

#include "decode.h"

static enum jifl_ins_type by_mnemonic(ZydisMnemonic mnemonic, enum jifl_ins_type otherwise)
{
	switch (mnemonic) {
	case ZYDIS_MNEMONIC_CMP:
	case ZYDIS_MNEMONIC_TEST:
	case ZYDIS_MNEMONIC_BT:
		return ins_compare;
	case ZYDIS_MNEMONIC_CMPXCHG:
	case ZYDIS_MNEMONIC_CMPXCHG8B:
	case ZYDIS_MNEMONIC_CMPXCHG16B:
		return ins_cmpxchg;
	case ZYDIS_MNEMONIC_LEA:
		return ins_move;
	case ZYDIS_MNEMONIC_LEAVE:
	case ZYDIS_MNEMONIC_ENTER:
		return ins_stack;
	default:
		return otherwise;
	}
}

enum jifl_ins_type jifl_decode_ins_type(const struct ZydisDecodedInstruction_ *zi)
{
	if (zi->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return zi->meta.category == ZYDIS_CATEGORY_BMI1 ||
		       zi->meta.category == ZYDIS_CATEGORY_BMI2 ? ins_arith : ins_vector;
	switch (zi->meta.category) {
	case ZYDIS_CATEGORY_NOP:
	case ZYDIS_CATEGORY_WIDENOP:
	case ZYDIS_CATEGORY_PREFETCH:
		return ins_nop;
	case ZYDIS_CATEGORY_DATAXFER:
	case ZYDIS_CATEGORY_CMOV:
	case ZYDIS_CATEGORY_SETCC:
	case ZYDIS_CATEGORY_CONVERT:
		return ins_move;
	case ZYDIS_CATEGORY_PUSH:
	case ZYDIS_CATEGORY_POP:
		return ins_stack;
	case ZYDIS_CATEGORY_BINARY:
	case ZYDIS_CATEGORY_ADOX_ADCX:
	case ZYDIS_CATEGORY_SEMAPHORE:
		return by_mnemonic(zi->mnemonic, ins_arith);
	case ZYDIS_CATEGORY_LOGICAL:
	case ZYDIS_CATEGORY_SHIFT:
	case ZYDIS_CATEGORY_ROTATE:
	case ZYDIS_CATEGORY_BITBYTE:
	case ZYDIS_CATEGORY_BMI1:
	case ZYDIS_CATEGORY_BMI2:
	case ZYDIS_CATEGORY_LZCNT:
		return by_mnemonic(zi->mnemonic, ins_logic);
	case ZYDIS_CATEGORY_MISC:
		return by_mnemonic(zi->mnemonic, ins_system);
	case ZYDIS_CATEGORY_STRINGOP:
		return ins_string;
	case ZYDIS_CATEGORY_SSE:
	case ZYDIS_CATEGORY_MMX:
	case ZYDIS_CATEGORY_LOGICAL_FP:
	case ZYDIS_CATEGORY_AES:
	case ZYDIS_CATEGORY_SHA:
	case ZYDIS_CATEGORY_PCLMULQDQ:
	case ZYDIS_CATEGORY_X87_ALU:
	case ZYDIS_CATEGORY_XSAVE:
	case ZYDIS_CATEGORY_XSAVEOPT:
		return ins_vector;
	case ZYDIS_CATEGORY_SYSTEM:
	case ZYDIS_CATEGORY_FLAGOP:
	case ZYDIS_CATEGORY_SEGOP:
	case ZYDIS_CATEGORY_IO:
	case ZYDIS_CATEGORY_IOSTRINGOP:
	case ZYDIS_CATEGORY_SMAP:
	case ZYDIS_CATEGORY_RDWRFSGS:
	case ZYDIS_CATEGORY_RDRAND:
	case ZYDIS_CATEGORY_RDSEED:
	case ZYDIS_CATEGORY_SERIALIZE:
	case ZYDIS_CATEGORY_VTX:
		return ins_system;
	default:
		return ins_other;
	}
}
