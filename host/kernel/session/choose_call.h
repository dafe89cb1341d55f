/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What has to be known of a call that comes to a door, or that a copy asks about. Context: as in
 * choose.c.
 */
#ifndef JIFL_HOST_CHOOSE_CALL_H
#define JIFL_HOST_CHOOSE_CALL_H

#include <linux/types.h>
#include "../call/whose.h"
#include "../store/level.h"
#include "../store/percpu.h"

struct jifl_facts;

/*
 * Finds the aims whose sessions' filters match a call that is made here, and whose conditions hold.
 * facts: NULL for a system call, which has no conditions. Returns their lanes; aims of other lanes
 * are not filled, here and where aims are handed on.
 */
u32 jifl_choose_match(const struct jifl_target *t, enum jifl_level level,
		      const struct jifl_facts *facts, struct jifl_aim *aims[JIFL_LANES]);
/*
 * Leaves out each session whose call the task is in already, but those of jifl_choose_inner. The
 * new call is a part of that one. It counts as missed.
 */
u32 jifl_choose_outermost(struct jifl_aim *const aims[JIFL_LANES], u32 lanes);
/* Those whose call the task is in already, and that count the new one apart. */
u32 jifl_choose_inner(struct jifl_aim *const aims[JIFL_LANES], u32 lanes);

/* Returns those of the lanes whose sessions follow their calls to the end. */
static inline u32 jifl_choose_followed(struct jifl_aim *const aims[JIFL_LANES], u32 lanes)
{
	unsigned int lane;
	u32 followed = 0;

	for_each_lane(lane, lanes)
		if (aims[lane]->session->slot)
			followed |= BIT(lane);
	return followed;
}

/*
 * If there are followed calls, hooks their return. level: theirs; above: the lanes become those of
 * that level. False: no hook is free.
 */
bool jifl_choose_hook(unsigned long *slot, u32 followed, enum jifl_level level, bool above);
/* Counts the call as missed by each. */
void jifl_choose_miss(struct jifl_aim *const aims[JIFL_LANES], u32 lanes, enum jifl_miss why);
/*
 * Why there was no piece for a call. The aim was matched in this lane. w: NULL: one of its sessions
 * has ended meanwhile.
 */
enum jifl_miss jifl_choose_reason(const struct jifl_way *w, const struct jifl_aim *aim,
				  unsigned int lane);

#endif
