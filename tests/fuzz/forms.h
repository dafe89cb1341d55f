/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The forms of instructions in the kernels' text (tests/roundtrip writes them), and which forms
 * can be tried in a program.
 */
#ifndef JIFL_FUZZ_FORMS_H
#define JIFL_FUZZ_FORMS_H

#include "../roundtrip/forms.h"

struct insn {
	u8 bytes[15];
	ZydisDecodedInstruction zi;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
};

/* Why a form is not tried. */
enum form_use {
	FORM_USED,
	FORM_BRANCH,		/* the shapes of control flow have them */
	FORM_SYSTEM,		/* privileged, or touches what the process needs */
	FORM_STACK,		/* replaces rsp */
	FORM_VARIES,		/* two runs give two results: clocks, random numbers, ... */
	FORM_ADDRESS,		/* an address that cannot be led into the sandbox */
	FORM_LACKING,		/* this processor does not have it */
	FORM_USES,
};
extern const char *const form_use_names[FORM_USES];

/* Reads a file of forms; may be called for several. Exits when it cannot. */
void forms_read(const char *path);

/* Decodes; false if that cannot be done. */
bool insn_decode(const u8 *bytes, u32 len, struct insn *i);

/* May it stand in a program, whatever form it came from? */
enum form_use insn_use(const struct insn *i);

/* The forms that are tried. */
struct fuzz_form {
	struct insn insn;
	u64 generated, executed;
};
extern struct fuzz_form *fuzz_forms;
extern u32 fuzz_nforms;
/* Of all that were read, by use. */
extern u32 form_uses[FORM_USES];

/* Sets aside a form that the processor refuses. */
void form_set_aside(u32 form, enum form_use use);

#endif
