// SPDX-License-Identifier: GPL-2.0
/*
 * The sessions whose calls are followed (count.c). Each has a slot, by which a running call's
 * identity names it. While there is one, switches of tasks are hooked (switch.c).
 *
 * Context: process, under jifl_session_mutex; the module's init and exit.
 */
#include <linux/errno.h>
#include <linux/rcupdate.h>

#include "../kernel.h"
#include "../store/percpu.h"
#include "count.h"
#include "stats.h"
#include "switch.h"
#include "tool.h"

struct jifl_session *jifl_count_slots[JIFL_COUNT_SLOTS];
unsigned int jifl_count_recorded = JIFL_LANES;
static unsigned int jifl_count_users;	/* jifl_session_mutex */

int jifl_count_start(struct jifl_session *s)
{
	u32 slot;
	int ret;

	s->slot = 0;
	if (!jifl_count_follows(s))
		return 0;
	for (slot = 1; slot < JIFL_COUNT_SLOTS; slot++)
		if (!jifl_count_slots[slot])
			break;
	if (slot == JIFL_COUNT_SLOTS)
		return -ENOSPC;
	if (!jifl_count_users) {
		ret = jifl_switch_hook();
		if (ret)
			return ret;
	}
	jifl_count_users++;
	jifl_count_slots[slot] = s;
	s->slot = slot;
	if (s->tool->records) {
		WRITE_ONCE(jifl_count_recorded, s->lane);
		jifl_switch_marks(true);
	}
	if (s->nfunctions)
		jifl_switch_threads(1);
	return 0;
}

void jifl_count_stop(struct jifl_session *s)
{
	if (!s->slot)
		return;
	jifl_count_slots[s->slot] = NULL;
	s->slot = 0;
	/* There can be one. */
	if (s->tool->records) {
		WRITE_ONCE(jifl_count_recorded, JIFL_LANES);
		jifl_switch_marks(false);
	}
	if (s->nfunctions)
		jifl_switch_threads(-1);
	if (!--jifl_count_users)
		jifl_switch_unhook();
	else if (s->tool->records)
		/* A switch that has seen that marks are wanted writes to rings that go. */
		synchronize_rcu();
}

int jifl_count_init(void)
{
	int ret;

	/* Reached by inserted code as a sign-extended 32-bit offset from gs. */
	if (!jifl_fits_s32((unsigned long)&jifl_cpu)) {
		pr_err("per-CPU data lies out of reach of inserted code\n");
		return -ENOMEM;
	}
	ret = jifl_stats_init() ?: jifl_switch_init();
	if (ret)
		jifl_count_exit();
	return ret;
}

void jifl_count_exit(void)
{
	jifl_switch_exit();
	jifl_stats_exit();
}
