// SPDX-License-Identifier: GPL-2.0
/*
 * Classes of plain instructions for tools (jifl_ins.h), from Zydis' category.
 * Categories that only ever occur with vector registers need not all be
 * listed: what is encoded with VEX, EVEX or XOP is INS_TYPE_VECTOR as a whole.
 */
#include <Zydis/Zydis.h>

#include "decode.h"

static enum jifl_ins_type by_mnemonic(ZydisMnemonic mnemonic, enum jifl_ins_type otherwise)
{
	switch (mnemonic) {
	case ZYDIS_MNEMONIC_CMP:
	case ZYDIS_MNEMONIC_TEST:
	case ZYDIS_MNEMONIC_BT:
		return INS_TYPE_COMPARE;
	case ZYDIS_MNEMONIC_LEA:
		return INS_TYPE_MOVE;
	case ZYDIS_MNEMONIC_LEAVE:
	case ZYDIS_MNEMONIC_ENTER:
		return INS_TYPE_STACK;
	default:
		return otherwise;
	}
}

enum jifl_ins_type jifl_decode_ins_type(const struct ZydisDecodedInstruction_ *zi)
{
	if (zi->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return zi->meta.category == ZYDIS_CATEGORY_BMI1 ||
		       zi->meta.category == ZYDIS_CATEGORY_BMI2 ? INS_TYPE_ARITH : INS_TYPE_VECTOR;
	switch (zi->meta.category) {
	case ZYDIS_CATEGORY_NOP:
	case ZYDIS_CATEGORY_WIDENOP:
	case ZYDIS_CATEGORY_PREFETCH:
		return INS_TYPE_NOP;
	case ZYDIS_CATEGORY_DATAXFER:
	case ZYDIS_CATEGORY_CMOV:
	case ZYDIS_CATEGORY_SETCC:
	case ZYDIS_CATEGORY_CONVERT:
		return INS_TYPE_MOVE;
	case ZYDIS_CATEGORY_PUSH:
	case ZYDIS_CATEGORY_POP:
		return INS_TYPE_STACK;
	case ZYDIS_CATEGORY_BINARY:
	case ZYDIS_CATEGORY_ADOX_ADCX:
	case ZYDIS_CATEGORY_SEMAPHORE:
		return by_mnemonic(zi->mnemonic, INS_TYPE_ARITH);
	case ZYDIS_CATEGORY_LOGICAL:
	case ZYDIS_CATEGORY_SHIFT:
	case ZYDIS_CATEGORY_ROTATE:
	case ZYDIS_CATEGORY_BITBYTE:
	case ZYDIS_CATEGORY_BMI1:
	case ZYDIS_CATEGORY_BMI2:
	case ZYDIS_CATEGORY_LZCNT:
		return by_mnemonic(zi->mnemonic, INS_TYPE_LOGIC);
	case ZYDIS_CATEGORY_MISC:
		return by_mnemonic(zi->mnemonic, INS_TYPE_SYSTEM);
	case ZYDIS_CATEGORY_STRINGOP:
		return INS_TYPE_STRING;
	case ZYDIS_CATEGORY_SSE:
	case ZYDIS_CATEGORY_MMX:
	case ZYDIS_CATEGORY_LOGICAL_FP:
	case ZYDIS_CATEGORY_AES:
	case ZYDIS_CATEGORY_SHA:
	case ZYDIS_CATEGORY_PCLMULQDQ:
	case ZYDIS_CATEGORY_X87_ALU:
	case ZYDIS_CATEGORY_XSAVE:
	case ZYDIS_CATEGORY_XSAVEOPT:
		return INS_TYPE_VECTOR;
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
		return INS_TYPE_SYSTEM;
	default:
		return INS_TYPE_OTHER;
	}
}
