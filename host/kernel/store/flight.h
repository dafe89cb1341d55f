/* SPDX-License-Identifier: GPL-2.0 */
/* The flight recorder, which stands above what programs of places belong to (flight/event.c). */
#ifndef JIFL_HOST_STORE_FLIGHT_H
#define JIFL_HOST_STORE_FLIGHT_H

#include <linux/types.h>
#include "../../../include/uapi/jifl.h"

/* Records an event of a program of a place. Interrupts are off. Set at load. */
extern void (*jifl_flight_program)(u32 event, const u64 args[JIFL_FLIGHT_ARGS]);

#endif
