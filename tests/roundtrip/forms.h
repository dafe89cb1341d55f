/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Forms: instructions that differ only in the values of registers, immediates and displacements.
 * They are counted over the text, and written out for the fuzzer.
 */
#ifndef JIFL_ROUNDTRIP_FORMS_H
#define JIFL_ROUNDTRIP_FORMS_H

#include <Zydis/Zydis.h>

#include "../../engine/base/types.h"

struct form {
	u64 key;
	u64 count;
	u8 len;
	u8 bytes[15];		/* the first instruction met */
};

void form_add(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *ops,
	      const u8 *bytes);
u32 form_total(void);

/* Writes all as an array of struct form. Exits when it cannot. */
void form_write(const char *path);

#endif
