/* SPDX-License-Identifier: GPL-2.0 */
/* Values that inserted code counts in a histogram of the processor on which it runs. */
#ifndef JIFL_EMIT_HIST_H
#define JIFL_EMIT_HIST_H

#include "emit.h"

/* Emits ins, an IR_INSERT_HIST, where flags and regs are live. */
void emit_hist(struct x86_writer *w, const struct emit_config *config,
	       const struct ir_insert *ins, u8 flags, u16 regs);

#endif
