/* SPDX-License-Identifier: GPL-2.0 */
/* Loads arguments of analysis routines that are looked up at each call into their registers. */
#ifndef JIFL_EMIT_ARGS_H
#define JIFL_EMIT_ARGS_H

#include "emit.h"

/* Loads the arguments of ins that are in the mask. Flags stay; ins->pushed says where rsp was. */
void emit_args(struct x86_writer *w, const struct ir_insert *ins, u8 mask);

/* Loads one argument into a register, under the same conditions. */
void emit_arg(struct x86_writer *w, const struct ir_insert *ins, const struct ir_fetch *from,
	      enum ir_reg to);

/* The registers that emit_args changes. */
u16 emit_args_changed(const struct ir_insert *ins, u8 mask);

#endif
