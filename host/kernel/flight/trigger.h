/* SPDX-License-Identifier: GPL-2.0 */
/* What stops a recording (trigger.c). */
#ifndef JIFL_HOST_FLIGHT_TRIGGER_H
#define JIFL_HOST_FLIGHT_TRIGGER_H

#include <linux/jump_label.h>
#include <linux/types.h>
#include "../../../include/uapi/jifl.h"

struct jifl_flight_head;

DECLARE_STATIC_KEY_FALSE(jifl_flight_may_stop);

/*
 * Begins to look at what is recorded, if the request says what to stop at. 0; -ENOMEM. Nobody
 * records. Sleeps.
 */
int jifl_flight_aim(struct jifl_flight_head *head, const struct jifl_flight *req);
/* Stops it at that event, too. Sleeps. */
void jifl_flight_aim_at(u32 event);
/* Ends it. Nobody records, nor is anybody on the way in who will. Sleeps. */
void jifl_flight_aim_away(void);
/* Looks at a recorded event, with its first two arguments. Where records are written. */
void jifl_flight_look(u32 event, u64 a, u64 b);
/* It is to stop, for this reason, so many ticks from now. Any context. */
void jifl_flight_trip(enum jifl_flight_stop why, u32 event, u64 after);
/* Nanoseconds in ticks of the counter. */
u64 jifl_flight_ticks(u64 ns);

static __always_inline void jifl_flight_triggers(u32 event, u64 a, u64 b)
{
	if (static_branch_unlikely(&jifl_flight_may_stop))
		jifl_flight_look(event, a, b);
}

#endif
