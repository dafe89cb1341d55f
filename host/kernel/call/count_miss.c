// SPDX-License-Identifier: GPL-2.0
/*
 * Calls that are counted as missed, and the records of running calls of a CPU. See count.h.
 *
 * Context: any.
 */
#include <linux/atomic.h>

#include "../kernel.h"
#include "../store/percpu.h"
#include "count.h"
#include "tool.h"

static atomic64_t jifl_count_missed_ever[JIFL_NR_MISSES];

void jifl_count_miss(struct jifl_aim *aim, enum jifl_miss why)
{
	if (aim->session->tool->passes) {
		aim->session->tool->passes(aim);
		return;
	}
	atomic64_inc(&aim->missed[why]);
	atomic64_inc(&jifl_count_missed_ever[why]);
}

void jifl_count_miss_unknown(enum jifl_miss why)
{
	atomic64_inc(&jifl_count_missed_ever[why]);
}

u64 jifl_count_missed(enum jifl_miss why)
{
	return atomic64_read(&jifl_count_missed_ever[why]);
}

void jifl_count_miss_call(u64 call, enum jifl_miss why)
{
	struct jifl_session *s = call ? jifl_count_session(call) : NULL;

	if (s)
		jifl_count_miss(jifl_count_aim(s, call), why);
}

void jifl_count_put_aside(u64 calls[JIFL_LANES])
{
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++)
		calls[lane] = this_cpu_read(jifl_cpu.lanes[lane].call);
}

void jifl_count_put_back(const u64 calls[JIFL_LANES])
{
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++)
		this_cpu_write(jifl_cpu.lanes[lane].call, calls[lane]);
}

void jifl_count_translate_begin(const struct jifl_aim *aim)
{
	const struct jifl_session *s = aim->session;

	if (s->slot)
		this_cpu_write(jifl_cpu.lanes[s->lane].call, jifl_count_id(aim));
}

void jifl_count_attribute(struct jifl_session *s)
{
	u64 call = this_cpu_read(jifl_cpu.lanes[s->lane].call);

	if (call && jifl_count_session(call) == s)
		jifl_count_aim(s, call)->blocks++;
}
