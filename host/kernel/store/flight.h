/* SPDX-License-Identifier: GPL-2.0 */
/* The flight recorder, which stands above what programs of places belong to (flight/event.c). */
#ifndef JIFL_HOST_STORE_FLIGHT_H
#define JIFL_HOST_STORE_FLIGHT_H

#include <linux/types.h>
#include "../../../include/uapi/jifl.h"

/*
 * Records an event of a program of a place, if that recording runs. count: preempt_count(), as the
 * code of the place has it: in the handler of a breakpoint it is not the CPU's. Interrupts are off.
 * Set at load.
 */
extern void (*jifl_flight_program)(u32 event, u32 recording, const u64 args[JIFL_FLIGHT_ARGS],
				   unsigned int count);

#endif
