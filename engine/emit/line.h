/* SPDX-License-Identifier: GPL-2.0 */
/* Lines of numbers, see ir/hits.h. */
#ifndef JIFL_EMIT_LINE_H
#define JIFL_EMIT_LINE_H

#include "hit.h"

/*
 * Emits what writes the line, and counts, behind the values. It changes rax, rdx, values->ring,
 * values->place and flags. Returns the rel32 of the branch that is taken where there is none.
 */
u32 emit_line(struct x86_writer *w, const struct ir_insert *ins, const struct hit_values *values);
/*
 * Emits what stands where that branch leads. It counts where lines have stopped. Returns the rel32
 * of the branch that is taken where the line is left to the host.
 */
u32 emit_line_stopped(struct x86_writer *w, const struct ir_insert *ins,
		      const struct hit_values *values);

#endif
