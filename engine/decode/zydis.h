/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The one decoder and its scratch memory, for the files of this folder; form.c defines them.
 * Include this before other headers: in a kernel, Zydis includes its own types.
 */
#ifndef JIFL_DECODE_ZYDIS_H
#define JIFL_DECODE_ZYDIS_H

#include <Zydis/Zydis.h>

#include "../base/types.h"
#include "jifl_causes.h"

/* Over 1 KB together: too much for a kernel stack. Under the engine lock. */
extern ZydisDecodedInstruction jifl_zi;
extern ZydisDecodedOperand jifl_zops[ZYDIS_MAX_OPERAND_COUNT];

/* Decodes into both of these; false: not an instruction. */
bool jifl_zydis_decode(const u8 *bytes, u32 n);

/* The hardware number of the general register that contains reg; 0xff: none. */
u8 jifl_zydis_gpr(ZydisRegister reg);

/* --- native.c, about the instruction in jifl_zi --------------------------------------- */

/* The processor's number of the register in ModRM.rm; IR_REG_NONE for memory. */
u8 jifl_zydis_modrm_rm(void);

/* Why the instruction must run natively; JIFL_CAUSE_NONE: it may be copied. */
enum jifl_cause jifl_zydis_native_cause(void);

#endif
