/* SPDX-License-Identifier: GPL-2.0 */
/* Conditions of inserts that are ops of a stack machine (ir/terms.h), as machine code. */
#ifndef JIFL_EMIT_TERMS_H
#define JIFL_EMIT_TERMS_H

#include "save.h"
#include "../ir/routine.h"

/* More branches than the ops of one condition have. */
#define TERMS_BRANCHES	(2 * IR_TERMS_MAX + 2)
/* Bytes of their code, without what prefixes a branch may need more. */
#define TERMS_CODE	400

struct terms_code {
	u16 changes;			/* registers */
	u16 nfails, nunknown;
	/* rel32s of branches: where the condition does not hold, and where it is unknown */
	u32 fails[TERMS_BRANCHES], unknown[IR_TERMS_MAX];
};

/*
 * Emits the ops, where regs are live and saved says where the kernel's registers are. The code goes
 * on at its end if the condition holds. It neither pushes nor pops, but calls, if there are LOADs
 * or ASKs. false: the ops have no such code. Which registers the code changes depends on regs and
 * the ops alone, so the code can be made once to learn that.
 */
bool emit_terms(struct x86_writer *w, const struct ir_terms *terms, const struct emit_saved *saved,
		u16 regs, struct terms_code *code);
/*
 * The same for ops that leave n numbers; there may be no ops. values: where they are, for an
 * instruction's operand; none is in rax, unless the kernel left it there.
 */
bool emit_numbers(struct x86_writer *w, const struct ir_terms *terms,
		  const struct emit_saved *saved, u16 regs, struct terms_code *code,
		  u32 n, struct ir_value *values);
/*
 * Right behind emit_numbers: a register that holds none of them, and is not rax or rdx. It counts
 * as changed. IR_REG_NONE: there is none.
 */
u8 emit_numbers_scratch(void);
/* Can the ops be compiled, wherever they stand? Under the engine lock. */
bool emit_terms_have_code(const struct ir_terms *terms);

#endif
