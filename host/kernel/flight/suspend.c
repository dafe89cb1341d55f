// SPDX-License-Identifier: GPL-2.0
/*
 * A recording that has stopped stays so when the machine is suspended, or hibernated.
 *
 * Each event compares the time stamp counter with the time at which the recording stops (write.h,
 * 4). Behind a suspension the counter may begin at 0 again. So before tasks are frozen, and after
 * they go on, a recording that has stopped, or is to stop, is put to rest: no event looks at the
 * time any more. Whoever has the recording go on (JIFL_FLIGHT_THAW) ends that.
 *
 * A recording that was to stop some time later stops at once. If it is told to stop in between, it
 * stops when the machine is back.
 *
 * Context: process; sleeps.
 */
#include <linux/notifier.h>
#include <linux/suspend.h>

#include "../kernel.h"
#include "../plant.h"
#include "flight.h"
#include "line.h"
#include "trigger.h"

static bool jifl_flight_rests;	/* under request.c's lock */

void jifl_flight_rest(const struct jifl_region *region, bool rests)
{
	if (rests == jifl_flight_rests)
		return;
	jifl_flight_rests = rests;
	if (!region)
		return;
	jifl_flight_lines_rest(rests);
	jifl_flight_lead(rests ? NULL : region);
}

bool jifl_flight_is_resting(void)
{
	return jifl_flight_rests;
}

static void jifl_flight_rest_stopped(const struct jifl_region *region)
{
	/* It has stopped, by the counter of before. */
	if (jifl_flight_rests)
		return;
	if (jifl_flight_cut_short(region->base) && !JIFL_HOST_PLANTED(stopped_by_counter))
		jifl_flight_rest(region, true);
}

static int jifl_flight_suspends(struct notifier_block *block, unsigned long event, void *unused)
{
	jifl_flight_show(jifl_flight_rest_stopped);
	return NOTIFY_DONE;
}

static struct notifier_block jifl_flight_suspend_notifier = {
	.notifier_call = jifl_flight_suspends,
};

void jifl_flight_suspend_init(void)
{
	register_pm_notifier(&jifl_flight_suspend_notifier);
}

void jifl_flight_suspend_exit(void)
{
	unregister_pm_notifier(&jifl_flight_suspend_notifier);
}
