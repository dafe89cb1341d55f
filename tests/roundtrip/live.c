// SPDX-License-Identifier: GPL-2.0
/* See live.h. */
#include <stdio.h>

#include "../../engine/decode/decode.h"
#include "../../engine/instrument/liveness.h"
#include "live.h"

/* One block in so many: with registers it costs as much as all the rest. */
#define SAMPLE 8

static struct {
	u64 seen, blocks, points, flags_dead, regs_at_start, regs;
} total;

static u32 dead_registers(u16 live)
{
	return (u32)__builtin_popcount(IR_CALLER_SAVED & ~live);
}

void live_add(u64 addr)
{
	static struct jifl_liveness live;
	static struct ir_block b;
	bool flags_dead = false;
	u16 i;

	if (total.seen++ % SAMPLE || jifl_decode_block(jifl_orig_at(addr), &b) != JIFL_CAUSE_NONE)
		return;
	jifl_liveness_compute(&b, JIFL_LIVENESS_AHEAD, &live);
	for (i = 0; i < b.ninsns; i++) {
		total.regs += dead_registers(live.regs[i]);
		flags_dead |= !live.flags[i];
	}
	total.blocks++;
	total.points += b.ninsns;
	total.flags_dead += flags_dead;
	total.regs_at_start += dead_registers(live.regs[0]);
}

void live_report(void)
{
	double blocks = (double)total.blocks;

	printf("of %llu blocks %.2f %% have a place where flags are dead; of the nine caller-saved "
	       "registers %.3f are dead at a block's start, %.3f at an instruction\n", total.blocks,
	       100 * (double)total.flags_dead / blocks, (double)total.regs_at_start / blocks,
	       (double)total.regs / (double)total.points);
}
