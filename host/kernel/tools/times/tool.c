// SPDX-License-Identifier: GPL-2.0
/*
 * The tool times: how often functions were called, and how long tasks were in them: running,
 * blocked, or runnable without running. For all callers, in all contexts.
 *
 * Its places are the beginning of each function, behind its site, and each instruction with which
 * it returns or jumps to another function. They are places as those of the tool probe, with a call
 * that is inlined (account.c). Each task has a record (record.c), which the scheduler's hooks lead
 * its CPU to (switch.c). sum.c reads them.
 *
 * Who is inside at the start. When all places are there the machine is stopped, and each listed
 * task's stack is walked: what is found there has begun. From then on beginnings and ends are
 * counted, each once (tools/probe/tool.c). What is not found: calls of idle tasks, calls that are
 * in NAME.cold, and stacks that cannot be walked from end to end. Their ends are strays. A task
 * that is preempted between a counter and its instruction at that moment is told by the
 * instruction. So its call may be taken for inside when it has ended, or the other way round: then
 * it is one too many of those that have not ended, or a stray.
 *
 * At the end nothing is counted from one moment on (jifl_times_freeze), before the places go. Who
 * is inside then is counted until then.
 *
 * Context: process, under jifl_session_mutex; reading takes no lock.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <asm/msr.h>

#include "../../kernel.h"
#include "../../call/program.h"
#include "../../call/whose.h"
#include "../../store/answer.h"
#include "../../store/moment.h"
#include "../probe/probe.h"
#include "../tools.h"
#include "times.h"

/* Bounds what is done while a run queue is locked: a task that dies has so many rows. */
#define JIFL_TIMES_ROWS_MAX	512

static struct jifl_times *jifl_times_of_session(const struct jifl_session *s)
{
	const struct jifl_probe *p = s->tool_data;

	return p ? p->times : NULL;
}

/*
 * Where calls begin are programs that tell what they are about, or none. There, and where calls
 * end, programs may add values up.
 */
static bool jifl_times_may_run(const struct jifl_session *s, const struct jifl_times *t,
			       const struct jifl_splice *splice)
{
	const u32 program = splice->action / JIFL_TIMES_PROGRAM;
	/* Then the programs that begin calls say what they are about. */
	const bool objects = t->objects && splice->action & JIFL_TIMES_ENTER;

	if (!program)
		return !objects;
	return s->programs && program <= s->programs->n &&
	       jifl_times_is_about(t, &s->programs->programs[program - 1], objects);
}

static int jifl_times_fill_all(struct jifl_session *s, struct jifl_times *t)
{
	u32 i;

	for (i = 0; i < s->nsplices; i++) {
		const u32 action = s->splices[i].action % JIFL_TIMES_PROGRAM;

		cond_resched();
		if (s->splices[i].target >= s->ntargets || !action || action > JIFL_TIMES_ALL ||
		    (action & JIFL_TIMES_JUMP && !(action & JIFL_TIMES_LEAVE)) ||
		    !jifl_times_may_run(s, t, &s->splices[i]))
			return -EINVAL;
		if (jifl_times_fill(t, &s->splices[i], &t->places[i]))
			continue;
		s->splices[i].refused = JIFL_SPLICE_BOUNDARY;
		s->refused_splice = i;
		return -EILSEQ;
	}
	return 0;
}

static int jifl_times_open(struct jifl_session *s, u64 *busy_session)
{
	struct jifl_times *t;
	struct jifl_probe *p;
	u32 i;
	int ret;

	if (!jifl_moment_is_steady() || check_tsc_unstable())
		return -ENODEV;
	/* First: it tells of each place whether it can be, also if these are too many functions. */
	ret = jifl_probe_open(s, busy_session);
	if (ret)
		return ret;
	if (s->ntargets > JIFL_TIMES_ROWS_MAX)
		return -E2BIG;
	p = s->tool_data;
	t = JIFL_ALLOC(kzalloc(sizeof(*t), GFP_KERNEL));
	p->times = t;
	if (!t)
		return -ENOMEM;
	t->session = s;
	t->nrows = s->ntargets;
	t->places = JIFL_ALLOC(kvcalloc(s->nsplices, sizeof(*t->places), GFP_KERNEL));
	if (!t->places)
		return -ENOMEM;
	t->ncounters = s->nmeters;
	/* Counters come first: a switch counts for the task that is switched away. */
	ret = jifl_times_open_objects(t);
	t->keeps = t->objects || jifl_times_has_took(s);
	ret = ret ?: jifl_times_open_records(t) ?: jifl_times_open_counters(t) ?:
	      jifl_times_open_distributions(t) ?: jifl_times_open_tasks(t) ?:
	      jifl_times_fill_all(s, t);
	for (i = 0; !ret && i < p->nplaces; i++)
		if (!p->works[i].program)
			p->works[i].call = &t->places[i].call;
	return ret;
}

static void jifl_times_close(struct jifl_session *s)
{
	struct jifl_times *t = jifl_times_of_session(s);

	if (t) {
		jifl_times_close_counters(t);
		jifl_times_close_tasks(t);
		jifl_times_close_numbers(t);
		jifl_times_close_records(t);
		jifl_times_close_distributions(t);
		jifl_times_close_objects(t);
		kvfree(t->places);
		kfree(t);
	}
	jifl_probe_close(s);
}

static void jifl_times_detach(struct jifl_session *s)
{
	jifl_times_freeze(jifl_times_of_session(s));
	jifl_probe_detach(s);
}

static void jifl_times_begins(struct jifl_session *s)
{
	jifl_times_lead(jifl_times_of_session(s));
}

static void jifl_times_insider(struct jifl_session *s, struct task_struct *task, u32 index)
{
	jifl_times_is_inside(jifl_times_of_session(s), task, index);
}

/* --- reading -------------------------------------------------------------------------------- */

static u32 jifl_times_end(const void *table)
{
	const struct jifl_probe *p = table;

	return p->times->nrows;
}

static void jifl_times_answer(const void *table, u32 i, void *answer)
{
	const struct jifl_probe *p = table;

	jifl_times_sum(p->times, i, answer);
}

/* Calls whose values could not be asked for there. */
static u64 jifl_times_unvalued(const struct jifl_probe *p, u32 i)
{
	return p->times->has_values ? atomic64_read(&p->works[i].nested) : 0;
}

static void jifl_times_rest(const void *table, struct jifl_table_read *req)
{
	const struct jifl_probe *p = table;
	const struct jifl_times *t = p->times;
	u32 i;

	req->rest[JIFL_TIMES_ELAPSED] = jifl_times_ns((t->end ?: rdtsc()) - t->begin);
	req->rest[JIFL_TIMES_UNWATCHED] = atomic64_read(&t->refused);
	req->rest[JIFL_TIMES_MISSED] = jifl_probe_missed(p);
	for (i = 0; i < p->nplaces; i++)
		req->rest[JIFL_TIMES_MISSED] += READ_ONCE(p->places[i].refused) +
						jifl_times_unvalued(p, i);
}

static const struct jifl_answer jifl_times_table = {
	.size = sizeof(struct jifl_time),
	.end = jifl_times_end,
	.fill = jifl_times_answer,
	.rest = jifl_times_rest,
};

static const struct jifl_answer *jifl_times_other(const struct jifl_session *s, u32 table,
						  const void **of)
{
	const struct jifl_times *t = jifl_times_of_session(s);

	if (table != JIFL_TABLE_OBJECTS && table != JIFL_TABLE_DISTRIBUTIONS)
		return jifl_probe_other(s, table, of);
	*of = s->tool_data;
	if (table == JIFL_TABLE_DISTRIBUTIONS)
		return t && t->ndistributions ? &jifl_times_distributions_answer : NULL;
	return t && t->objects ? &jifl_times_objects_answer : NULL;
}

const struct jifl_tool jifl_tool_times = {
	.name = "times",
	.kind = JIFL_KIND_TIMES,
	.flags = JIFL_FLAG_ADOPT,
	.calls = JIFL_CALLS_UNCOUNTED,
	.alone = true,
	.places = true,
	.calls_functions = true,
	.counters = true,
	.watches = true,
	.objects = true,
	.table = &jifl_times_table,
	.other_table = jifl_times_other,
	.init = jifl_times_switch_init,
	.open = jifl_times_open,
	.close = jifl_times_close,
	.attach = jifl_probe_attach,
	.detach = jifl_times_detach,
	.ended = jifl_probe_ended,
	.begins = jifl_times_begins,
	.insider = jifl_times_insider,
	.passes = jifl_probe_passes,
	.entry = jifl_probe_entry,
};
