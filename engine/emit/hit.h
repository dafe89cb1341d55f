/* SPDX-License-Identifier: GPL-2.0 */
/* Records of numbers, see ir/hits.h. */
#ifndef JIFL_EMIT_HIT_H
#define JIFL_EMIT_HIT_H

#include "numbers.h"

/* Bytes of what is neither condition nor values: appending, saves and restores, the call. */
#define HIT_CODE	540
_Static_assert(2 * TERMS_CODE + HIT_CODE <= IR_INSERT_LONG * EMIT_INSERT, "a HIT is a long insert");

/* The values, and what appending needs besides. */
struct hit_values {
	struct terms_code code;
	struct ir_value value[IR_HIT_VALUES];
	u8 place, ring;		/* registers that hold no value; ring: or IR_REG_NONE */
};

/*
 * Can the record be compiled, wherever it stands, with its condition, if any? Under the engine
 * lock.
 */
bool emit_hit_has_code(const struct ir_hit *hit, const struct ir_terms *condition);
/*
 * Emits what computes the values, as emit_terms does; code->unknown has the branches for what
 * cannot be read. false: the values have no code. A line has none of them in rax or rdx.
 */
bool emit_hit_values(struct x86_writer *w, const struct ir_hit *hit, const struct emit_saved *saved,
		     u16 regs, struct hit_values *values);
/* Before the values, behind the condition. The flags of before are on the stack. */
void emit_hit_begin(struct x86_writer *w, const struct emit_config *config);
/*
 * Emits what counts, and appends the record, behind the values. It changes rax, rdx and flags.
 * Returns the rel32 of the branch that is taken where there is no room.
 */
u32 emit_hit_append(struct x86_writer *w, const struct ir_insert *ins,
		    const struct hit_values *values);

#endif
