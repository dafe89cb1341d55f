/* SPDX-License-Identifier: GPL-2.0 */
/* System calls for the flight recorder. Process context; sleep. */
#ifndef JIFL_HOST_FLIGHT_CALLS_H
#define JIFL_HOST_FLIGHT_CALLS_H

#include <linux/types.h>

/* At load. */
void jifl_flight_find_calls(void);
/* Were they found? Otherwise tracepoints have to do. */
bool jifl_flight_has_calls(void);
/* The events that cannot be recorded any more, by their bits, because a call was not restored. */
u64 jifl_flight_lost_calls(void);
/* Records calls, or their results, from now on, or does not. 0; -EBUSY, -EIO, -ENOMEM. */
int jifl_flight_set_enters(bool listens);
int jifl_flight_set_results(bool listens);

#endif
