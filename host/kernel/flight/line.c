// SPDX-License-Identifier: GPL-2.0
/*
 * Records that inserted code writes itself (engine/emit/line.c), instead of calling what runs the
 * place's program.
 *
 * Each event of programs that such code records has a cell. It has the address of a time, from
 * which on there are no records. Three times are led to: that of the recording, one that is always
 * past, and 0, which leaves the event to the program.
 *
 * 1. A line is what write.h would have written: the words are the same, made in the same order, and
 *    interrupts are off. The context is what preempt_count() says, as the kernel counts: where it
 *    counts otherwise there are no cells.
 * 2. What a recording is to stop at has to be looked at, and inserted code does not look. Then all
 *    cells have 0. What was under way meanwhile was before.
 * 3. Code of a session may run after its recording, and its event's number may be another event's
 *    then. So a cell is that of one event of one recording. It is no other's while a session has
 *    it: `users`. When the recording ends its cells lead to the time that is past, for good.
 * 4. Who has asked a cell before it was led away writes with interrupts off. jifl_flight_lead(NULL)
 *    interrupts each processor after that, and the memory goes later.
 * 5. Without a cell, because there are too many or the recording is not that one, the program does
 *    it.
 *
 * Context: process; sleeps.
 */
#include <linux/jump_label.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/sched.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/current.h"
#include "../store/flight.h"
#include "../../../engine/engine.h"
#include "flight.h"
#include "line.h"
#include "trigger.h"
#include "write.h"

#define JIFL_FLIGHT_CELLS	256
#define JIFL_FLIGHT_NO_CELL	(-1)

static const u64 jifl_line_left, jifl_line_past = 1;

/* What inserted code reads. */
static const u64 *jifl_line_cells[JIFL_FLIGHT_CELLS];

static DEFINE_MUTEX(jifl_line_mutex);
/* Under it. */
static u32 jifl_line_users[JIFL_FLIGHT_CELLS];
static struct {
	u32 recording;
	const struct jifl_flight_head *head;	/* NULL: none runs */
	u64 mask;				/* events that are recorded */
	bool rests;				/* none is */
	s16 cells[JIFL_FLIGHT_EVENTS_MAX];	/* by event */
} jifl_line_now;

static struct ir_line jifl_line __ro_after_init;

/* --- cells ------------------------------------------------------------------------------------ */

static void jifl_line_lead(u32 event)
{
	const s16 cell = jifl_line_now.cells[event];
	const u64 *to = &jifl_line_past;

	if (cell == JIFL_FLIGHT_NO_CELL)
		return;
	if (!jifl_line_now.rests && jifl_line_now.mask >> event & 1)
		to = static_key_enabled(&jifl_flight_may_stop) ? &jifl_line_left :
								 &jifl_line_now.head->stop_at;
	if (JIFL_HOST_PLANTED(cells_kept) && to == &jifl_line_past &&
	    jifl_line_cells[cell] == &jifl_line_now.head->stop_at)
		return;
	WRITE_ONCE(jifl_line_cells[cell], to);
}

static s16 jifl_line_find_cell(void)
{
	s16 i;

	for (i = 0; i < JIFL_FLIGHT_CELLS; i++)
		if (!jifl_line_users[i])
			return i;
	return JIFL_FLIGHT_NO_CELL;
}

static s32 jifl_line_take(u32 event, u32 recording, struct ir_hit *hit)
{
	s16 *cell = &jifl_line_now.cells[event];

	if (!jifl_line_now.head || jifl_line_now.recording != recording)
		return -ENOENT;
	if (*cell == JIFL_FLIGHT_NO_CELL) {
		*cell = jifl_line_find_cell();
		if (*cell == JIFL_FLIGHT_NO_CELL)
			return -ENOSPC;
		/* The recording's own. */
		jifl_line_users[*cell] = 1;
		WRITE_ONCE(jifl_line_cells[*cell], &jifl_line_past);
		jifl_line_lead(event);
	}
	jifl_line_users[*cell]++;
	hit->line = &jifl_line;
	hit->stop = (s32)(unsigned long)&jifl_line_cells[*cell];
	hit->event = event ^ JIFL_HOST_PLANTED(cells_mixed);
	return *cell;
}

/* --- what sessions ask for -------------------------------------------------------------------- */

s32 (*jifl_flight_take_cell)(u32 event, u32 recording, struct ir_hit *hit) __ro_after_init;
void (*jifl_flight_put_cell)(s32 cell) __ro_after_init;

static s32 jifl_line_on_take(u32 event, u32 recording, struct ir_hit *hit)
{
	s32 cell;

	if (event >= JIFL_FLIGHT_EVENTS_MAX || !JIFL_FLIGHT_COUNTS_SO)
		return -ENOENT;
	mutex_lock(&jifl_line_mutex);
	cell = jifl_line_take(event, recording, hit);
	mutex_unlock(&jifl_line_mutex);
	return cell;
}

static void jifl_line_on_put(s32 cell)
{
	mutex_lock(&jifl_line_mutex);
	jifl_line_users[cell]--;
	mutex_unlock(&jifl_line_mutex);
}

/* --- what the recording does ------------------------------------------------------------------ */

void jifl_flight_lines_begin(u32 recording, const struct jifl_flight_head *head)
{
	u32 i;

	mutex_lock(&jifl_line_mutex);
	jifl_line_now.recording = recording;
	jifl_line_now.head = head;
	jifl_line_now.mask = 0;
	jifl_line_now.rests = false;
	for (i = 0; i < JIFL_FLIGHT_EVENTS_MAX; i++)
		jifl_line_now.cells[i] = JIFL_FLIGHT_NO_CELL;
	mutex_unlock(&jifl_line_mutex);
}

static void jifl_line_lead_all(void)
{
	u32 i;

	for (i = 0; jifl_line_now.head && i < JIFL_FLIGHT_EVENTS_MAX; i++)
		jifl_line_lead(i);
}

void jifl_flight_lines_lead(u64 mask)
{
	mutex_lock(&jifl_line_mutex);
	jifl_line_now.mask = mask;
	jifl_line_lead_all();
	mutex_unlock(&jifl_line_mutex);
}

void jifl_flight_lines_rest(bool rests)
{
	mutex_lock(&jifl_line_mutex);
	jifl_line_now.rests = rests;
	jifl_line_lead_all();
	mutex_unlock(&jifl_line_mutex);
}

void jifl_flight_lines_end(void)
{
	u32 i;

	mutex_lock(&jifl_line_mutex);
	jifl_line_now.mask = 0;
	for (i = 0; jifl_line_now.head && i < JIFL_FLIGHT_EVENTS_MAX; i++) {
		const s16 cell = jifl_line_now.cells[i];

		if (cell == JIFL_FLIGHT_NO_CELL)
			continue;
		jifl_line_lead(i);
		jifl_line_users[cell]--;
	}
	jifl_line_now.head = NULL;
	mutex_unlock(&jifl_line_mutex);
}

bool jifl_flight_lines_lead_to(const struct jifl_flight_head *head)
{
	u32 i;

	for (i = 0; i < JIFL_FLIGHT_CELLS; i++)
		if (READ_ONCE(jifl_line_cells[i]) == &head->stop_at)
			return true;
	return false;
}

void jifl_flight_lines_init(void)
{
	static_assert(offsetof(struct jifl_flight_cpu, mask) -
		      offsetof(struct jifl_flight_cpu, count) ==
		      offsetof(struct ir_line_cpu, mask) - offsetof(struct ir_line_cpu, count));
	static_assert(offsetof(struct jifl_flight_cpu, records) -
		      offsetof(struct jifl_flight_cpu, count) ==
		      offsetof(struct ir_line_cpu, lines) - offsetof(struct ir_line_cpu, count));
	static_assert(offsetof(struct jifl_flight_cpu, number) -
		      offsetof(struct jifl_flight_cpu, count) ==
		      offsetof(struct ir_line_cpu, number) - offsetof(struct ir_line_cpu, count));
	static_assert(JIFL_FLIGHT_FACTOR == IR_LINE_FACTOR && JIFL_FLIGHT_ARGS == IR_LINE_VALUES);

	jifl_line = (struct ir_line){
		.cpu = (s32)(unsigned long)&jifl_flight_cpu.count,
		.task = (s32)(unsigned long)JIFL_CURRENT_CELL,
		.tid = offsetof(struct task_struct, pid),
		/* See jifl_flight_context. */
		.context = { (s32)(unsigned long)JIFL_PREEMPT_CELL + 1,
			     (s32)(unsigned long)JIFL_PREEMPT_CELL + HARDIRQ_SHIFT / 8 },
	};
	jifl_flight_take_cell = jifl_line_on_take;
	jifl_flight_put_cell = jifl_line_on_put;
}
