/* SPDX-License-Identifier: GPL-2.0 */
/* What stops a recording (trigger.c). */
#ifndef JIFL_HOST_FLIGHT_TRIGGER_H
#define JIFL_HOST_FLIGHT_TRIGGER_H

#include <linux/jump_label.h>
#include <linux/types.h>
#include "write.h"

struct jifl_flight_head;

DECLARE_STATIC_KEY_FALSE(jifl_flight_may_stop);

/*
 * Begins to look at what is recorded, if the request says what to stop at; at the time between two
 * events from jifl_flight_aim_resume on. 0; -ENOMEM. Nobody records. Sleeps.
 */
int jifl_flight_aim(struct jifl_flight_head *head, const struct jifl_flight *req);
/*
 * Around what makes a gap in the recording: a first event from before the second function has no
 * second one behind it. Process context, under request.c's lock; the first sleeps.
 */
void jifl_flight_aim_pause(void);
void jifl_flight_aim_resume(void);
/* Stops it at that event, too, or not any more. Sleeps. */
void jifl_flight_aim_at(u32 event, bool stops);
/* Ends it. Nobody records, nor is anybody on the way in who will. Sleeps. */
void jifl_flight_aim_away(void);
/*
 * Looks at a recorded event, with its first two arguments and its time. nmi: it comes from an NMI;
 * a breakpoint, which the kernel counts as one, is none. Where records are written.
 */
void jifl_flight_look(u32 event, u64 a, u64 b, u64 time, bool nmi);
/* It is to stop, for this reason, so many ticks from now. nmi: as above. Any context. */
void jifl_flight_trip(enum jifl_flight_stop why, u32 event, u64 after, bool nmi);
/* Has it stopped, or is it to stop? Then it has stopped now. Any context. */
bool jifl_flight_cut_short(struct jifl_flight_head *head);
/* Nanoseconds in ticks of the counter. */
u64 jifl_flight_ticks(u64 ns);

/* Records an event, in that context, and looks at it. */
static __always_inline void jifl_flight_tell(u16 context, u32 event, u64 a, u64 b, u64 c, u64 d,
					     u64 e)
{
	struct jifl_flight_place at;

	if (!jifl_flight_write(&at, context, event, a, b, c, d, e))
		return;
	if (static_branch_unlikely(&jifl_flight_may_stop))
		jifl_flight_look(event, a, b, jifl_flight_time(&at), context & JIFL_FLIGHT_NMI);
}

#endif
