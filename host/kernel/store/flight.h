/* SPDX-License-Identifier: GPL-2.0 */
/* The flight recorder, which stands above what programs of places belong to. */
#ifndef JIFL_HOST_STORE_FLIGHT_H
#define JIFL_HOST_STORE_FLIGHT_H

#include <linux/types.h>
#include "../../../include/uapi/jifl.h"

struct ir_hit;

/*
 * Records an event of a program of a place, if that recording runs. count: preempt_count(), as the
 * code of the place has it: in the handler of a breakpoint it is not the CPU's. Interrupts are off.
 * Set at load (flight/event.c, flight/line.c).
 */
extern void (*jifl_flight_program)(u32 event, u32 recording, const u64 args[JIFL_FLIGHT_ARGS],
				   unsigned int count);

/*
 * Has inserted code write that event's records: the rest of hit, which has its numbers, is filled.
 * Returns a cell, or an error: programs do it then. Set at load. Sleeps.
 */
extern s32 (*jifl_flight_take_cell)(u32 event, u32 recording, struct ir_hit *hit);
/* No such code runs any more. Set at load. Sleeps. */
extern void (*jifl_flight_put_cell)(s32 cell);

#endif
