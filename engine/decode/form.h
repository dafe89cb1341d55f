/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The form of an instruction: all that its bytes say about it, wherever it stands. Displacements
 * and immediates are no part of the form. So a kernel consists of a few thousand forms, and a
 * small memory of them (memo.c) answers most questions of translation. Zydis decodes a form that
 * is not remembered (form.c), which costs about a thousand instructions.
 *
 * Not reentrant: works in static scratch memory, under the engine lock.
 */
#ifndef JIFL_DECODE_FORM_H
#define JIFL_DECODE_FORM_H

#include "../ir/ir.h"

struct decode_form {
	u64 key;		/* memo.c's: the bits of its first key_len bytes that make a form */
	u8 key_len;		/* 0: has no form of its own, must not be remembered */
	u8 rel_at, rel_len;	/* where a direct branch has its offset; bytes, 0: none */
	u8 count_at;		/* offset of a shift's immediate count, 0: none */
	u8 flags_counted;	/* flags written when that count is not zero, and then not read */
	/* kind and type: a branch to a thunk is still the branch to the thunk */
	union {
		struct {
			IR_TRAITS
		};
		struct ir_traits traits;
	};
};

int jifl_form_init(void);

/*
 * The form of the instruction of which n bytes are at bytes, with its registers if with_registers
 * is set, else without any. NULL: not an instruction. Valid until the next call.
 */
const struct decode_form *jifl_form_decode(const u8 *bytes, u32 n, bool with_registers);

/* --- memo.c: the same, remembered ----------------------------------------------------- */

void jifl_form_memo_init(void);

/* The form without registers. The caller may let 8 bytes be read at bytes, whatever n is. */
const struct decode_form *jifl_form_memo_get(const u8 *bytes, u32 n);

/*
 * The registers, as in struct ir_insn; the bytes hold the whole instruction. False: not an
 * instruction.
 */
bool jifl_form_registers(const u8 *bytes, u32 n, u16 *read, u16 *written);

#endif
