/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Liveness inside one block: which flags and registers still matter before
 * each instruction, so that inserted code saves no others.
 *
 * After the block everything is live, with one exception: the System V ABI
 * gives the flags no value at calls and returns (section 3.2.1), and the
 * kernel's assembly keeps to that. Registers are not trusted there, because
 * assembly routines with conventions of their own (__get_user_*, __sw_hweight*)
 * keep more than the ABI asks. For the same reason, and for exception tables,
 * all registers are live before an instruction that may fault.
 */
#ifndef JIFL_INSTRUMENT_LIVENESS_H
#define JIFL_INSTRUMENT_LIVENESS_H

#include "../ir/ir.h"

struct jifl_liveness {
	/*
	 * Live right before instruction i; entry ninsns: after the block. IR_DF
	 * among the flags says that it may be set there.
	 */
	u8 flags[IR_BLOCK_INSNS + 1];
	u16 regs[IR_BLOCK_INSNS + 1];
};

/*
 * Fills l for b. The register sets are exact only when with_registers is set
 * (it decodes operands), else everything counts as live.
 */
void jifl_liveness_compute(struct ir_block *b, bool with_registers, struct jifl_liveness *l);

/*
 * The instruction before which an IR_ANYWHERE insert costs least: the first
 * where no flag is live, else the first of all.
 */
u16 jifl_liveness_cheapest(const struct ir_block *b, const struct jifl_liveness *l);

#endif
