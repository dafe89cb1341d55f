/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The form of an instruction: all that its bytes say of it, wherever it stands.
 * Displacements and immediates are no part of it, so that few thousand forms
 * make up a kernel, and a small memory of them (memo.c) answers most of what
 * translation asks; decoding proper is Zydis's (form.c) and costs about a thousand
 * instructions.
 *
 * Not reentrant: works in static scratch memory, under the engine lock.
 */
#ifndef JIFL_DECODE_FORM_H
#define JIFL_DECODE_FORM_H

#include "../ir/ir.h"

struct decode_form {
	u64 key;		/* memo.c's: of its first key_len bytes what makes a form */
	u8 key_len;		/* 0: has no form of its own, must not be remembered */
	u8 rel_at, rel_len;	/* where a direct branch has its offset; bytes, 0: none */
	u8 count_at;		/* offset of a shift's immediate count, 0: none */
	u8 flags_counted;	/* written when that is not zero, and then not read */
	/* kind and type: thunks are still the branches to them */
	union {
		struct {
			IR_TRAITS
		};
		struct ir_traits traits;
	};
};

int jifl_form_init(void);

/*
 * The form of the instruction of which n bytes are at bytes, with its registers
 * if asked for, else without any. NULL: not an instruction. Good until the next call.
 */
const struct decode_form *jifl_form_decode(const u8 *bytes, u32 n, bool with_registers);

/* --- memo.c: the same, remembered ----------------------------------------------------- */

void jifl_form_memo_init(void);

/* Its form without registers. bytes: at least 8 may be read, whatever n is. */
const struct decode_form *jifl_form_of(const u8 *bytes, u32 n);

/* Its registers, as in struct ir_insn; the bytes hold all of it. False: not an instruction. */
bool jifl_form_registers(const u8 *bytes, u32 n, u16 *read, u16 *written);

#endif
