/* SPDX-License-Identifier: GPL-2.0 */
/* The module's data of each CPU, within reach of one gs-relative instruction. */
#ifndef JIFL_HOST_PERCPU_H
#define JIFL_HOST_PERCPU_H

#include <linux/percpu.h>
#include <linux/types.h>
#include "../../../engine/engine.h"

/*
 * Sessions that may have the same target at a time; each then has a lane. Each lane costs every
 * switch of tasks two words, and each set of sessions on one target is a context of the engine.
 */
#define JIFL_LANES	4

/* What one session counts about the call that runs on a CPU; see count.c. */
struct jifl_lane {
	u64 count;
	u64 call;		/* 0: none; else session and target */
};

struct jifl_cpu {
	struct jifl_lane lanes[JIFL_LANES];
	u64 exits[JIFL_CAUSES_MAX];
	u64 stack_top;		/* of the private stack on which the dispatcher runs */
	u64 ring;		/* the cell of ring.c */
	u64 ring_limit;		/* from this value on the ring is too full */
	s64 training[JIFL_TRAINING_CELLS]; /* the engine's */
};
DECLARE_PER_CPU(struct jifl_cpu, jifl_cpu);

/* gs-relative operand of a field of struct jifl_cpu. */
#define jifl_cpu_operand(field) \
	((struct ir_operand){ .disp = (s32)(unsigned long)&jifl_cpu.field, .gs = true })

#endif
