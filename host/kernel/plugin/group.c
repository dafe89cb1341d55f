// SPDX-License-Identifier: GPL-2.0
/*
 * Starts and stops probes of plugins (include/jifl_probe.h). What is started at once is a group: it
 * has one session of the tool probe (tools/probe/call.c, whose head says why no function is called
 * when its plugin is gone). A probe that is stopped alone is lifted out of its session. The session
 * ends when all of its probes are stopped.
 *
 * Doors. A function with a door is entered in the cache, without a breakpoint on the way. Sessions
 * with doors are few, because each takes a lane of its own (session/session.c). So only the first
 * groups have doors, and functions of the others are targets of the kind JIFL_TARGET_INSIDE. So are
 * all of a group whose doors are refused: they may be had by a tracer, or by a session of another
 * scope.
 *
 * Probes that are to be stopped later. probe_stop_later sets a flag, and nothing else, so that it
 * can be called anywhere. While there are groups a work item looks at all flags.
 *
 * Context: process, under the mutex of probe.c; sleeps.
 */
#include <linux/list.h>
#include <linux/workqueue.h>

#include "../kernel.h"
#include "../leave/evict.h"
#include "../tools/probe/calls.h"
#include "group.h"

#define JIFL_GROUPS_WITH_DOORS	2
#define JIFL_LATER_PERIOD	(HZ / 20)

static LIST_HEAD(jifl_probe_groups);		/* of all plugins */
static unsigned int jifl_groups_with_doors;

static void jifl_group_look(struct work_struct *work);
static DECLARE_DELAYED_WORK(jifl_group_work, jifl_group_look);

/* --- starting ------------------------------------------------------------------------------- */

/* Says in the log why the session was refused, and returns ret. */
static int jifl_group_tell(const struct jifl_probe_group *g, const struct jifl_session *s,
			   struct jifl_plugin *p, int ret)
{
	static const char *const texts[] = {
#define TEXT(id, text) text,
		JIFL_SPLICE_REFUSALS(TEXT)
#undef TEXT
	};
	static const char what[] = "probe_start";

	if (ret == -EILSEQ)
		return jifl_plugin_probe_mistake(g->members[s->refused_splice].probe, ret, what,
						 texts[s->splices[s->refused_splice].refused]);
	if (ret == -EBUSY)
		return jifl_plugin_mistake(p, ret, what, "as many sessions run as can be");
	return ret;
}

/* *again: it may be that it can start without doors. */
static int jifl_group_try(struct jifl_probe_group *g, struct jifl_plugin *p, bool doors,
			  bool *again)
{
	struct jifl_session *s;
	u64 busy_session;
	u32 busy_target;
	int ret;

	*again = false;
	s = jifl_group_session(g, p, doors, &ret);
	if (!s)
		return ret;
	ret = jifl_session_start(s, &busy_target, &busy_session);
	if (!ret) {
		g->session = s;
		g->doors = s->nfunctions;
		return 0;
	}
	*again = s->nfunctions && (ret == -EBUSY || ret == -EXDEV || ret == -EOPNOTSUPP);
	if (!*again)
		jifl_group_tell(g, s, p, ret);
	/* It was not opened. */
	if (s->tool_data == g->calls)
		s->tool_data = NULL;
	jifl_session_free(s);
	return ret;
}

static void jifl_group_join(struct jifl_probe_group *g, struct jifl_plugin *p)
{
	u32 i;

	for (i = 0; i < g->n; i++) {
		probe_t *probe = g->members[i].probe;

		probe->group = g;
		probe->index = i;
	}
	g->left = g->n;
	jifl_groups_with_doors += g->doors;
	list_add_tail(&g->list, &p->probes);
	list_add_tail(&g->all, &jifl_probe_groups);
	queue_delayed_work(system_long_wq, &jifl_group_work, JIFL_LATER_PERIOD);
}

/* Can all of them be started? */
static int jifl_group_check(struct jifl_plugin *p, const probe_t *probes, unsigned int n)
{
	static const char what[] = "probe_start";
	unsigned int i;

	if (READ_ONCE(p->expelled))
		return -EPERM;
	if (!jifl_plugin_is_started(p))
		return jifl_plugin_mistake(p, -EPERM, what, "the plugin is not started");
	if (!n || n > JIFL_SPLICES_MAX)
		return jifl_plugin_mistake(p, -EINVAL, what, "no probes, or too many");
	for (i = 0; i < n; i++) {
		if (probes[i].plugin != p)
			return jifl_plugin_mistake(p, -EINVAL, what,
						   "the probe_t was not initialised");
		if (probes[i].group)
			return jifl_plugin_probe_mistake(&probes[i], -EALREADY, what,
							 "it is started");
		if (!probes[i].has_call)
			return jifl_plugin_probe_mistake(&probes[i], -EINVAL, what,
							 "it has no call");
	}
	return 0;
}

static int jifl_group_start(struct jifl_plugin *p, probe_t *probes, unsigned int n)
{
	struct jifl_probe_group *g;
	bool again;
	u32 i;
	int ret = jifl_group_check(p, probes, n);

	if (ret)
		return ret;
	g = jifl_group_alloc(probes, n);
	if (!g)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		probes[i].stop_later = false;
	ret = jifl_group_try(g, p, jifl_groups_with_doors < JIFL_GROUPS_WITH_DOORS, &again);
	if (again)
		ret = jifl_group_try(g, p, false, &again);
	if (ret)
		jifl_group_free(g);
	else
		jifl_group_join(g, p);
	return ret;
}

int jifl_plugin_probe_start_all(struct jifl_plugin *p, probe_t *probes, unsigned int n)
{
	int ret = jifl_plugin_probe_enter(p, probes, "probe_start");

	return ret ?: jifl_plugin_probe_leave(jifl_group_start(p, probes, n));
}
EXPORT_SYMBOL_GPL(jifl_plugin_probe_start_all);

/* --- stopping ------------------------------------------------------------------------------- */

/* Says in the log if executions of the member's place have not called, and nobody knows of it. */
static void jifl_group_tell_loss(const struct jifl_probe_group *g, u32 i)
{
	const probe_t *probe = g->members[i].probe;
	u64 missed;
	const char *why = jifl_probe_loss(g->session, i, &missed);

	if (missed)
		pr_warn("plugin %s: %pS: %llu executions have not called its function: %s\n",
			probe->plugin->name, (void *)probe->address, missed, why);
	else if (why)
		pr_warn("plugin %s: %pS: executions may not have called its function: %s\n",
			probe->plugin->name, (void *)probe->address, why);
}

/* Of its functions none is called any more, and none runs. Frees the group. */
static void jifl_group_end(struct jifl_probe_group *g)
{
	struct jifl_drain drain;
	u32 i;

	jifl_session_stop(g->session, &drain);
	for (i = 0; i < g->n; i++) {
		if (g->members[i].state == JIFL_MEMBER_STOPPED)
			continue;
		jifl_group_tell_loss(g, i);
		g->members[i].probe->group = NULL;
	}
	jifl_session_free(g->session);
	jifl_groups_with_doors -= g->doors;
	list_del(&g->list);
	list_del(&g->all);
	jifl_group_free(g);
}

static bool jifl_group_goes(void *arg, u32 index)
{
	const struct jifl_probe_group *g = arg;

	return g->members[index].goes;
}

/* Lifts the members that go. With wait, they are stopped. */
static void jifl_group_lift(struct jifl_probe_group *g, bool wait)
{
	u32 i;

	jifl_probe_lift(g->session, jifl_group_goes, g, wait);
	for (i = 0; i < g->n; i++) {
		struct jifl_member *m = &g->members[i];

		if (!m->goes)
			continue;
		m->goes = false;
		m->state = JIFL_MEMBER_LIFTED;
		if (!wait)
			continue;
		jifl_group_tell_loss(g, i);
		m->state = JIFL_MEMBER_STOPPED;
		m->probe->group = NULL;
		m->probe = NULL;
	}
}

/* Stops those members of the group that are among the probes. */
static void jifl_group_stop_some(struct jifl_probe_group *g, const probe_t *probes,
				 unsigned int n)
{
	u32 i;

	for (i = 0; i < g->n; i++) {
		struct jifl_member *m = &g->members[i];

		m->goes = m->probe >= probes && m->probe < probes + n;
		g->left -= m->goes;
	}
	if (g->left)
		jifl_group_lift(g, true);
	else
		jifl_group_end(g);
}

static int jifl_group_stop(struct jifl_plugin *p, probe_t *probes, unsigned int n)
{
	static const char what[] = "probe_stop";
	bool any = false;
	unsigned int i;

	for (i = 0; i < n; i++)
		if (probes[i].plugin != p)
			return jifl_plugin_mistake(p, -EINVAL, what,
						   "the probe_t was not initialised");
	for (i = 0; i < n; i++) {
		if (!probes[i].group)
			continue;
		jifl_group_stop_some(probes[i].group, probes, n);
		any = true;
	}
	return any || READ_ONCE(p->expelled) ? 0 :
	       jifl_plugin_mistake(p, -ENOENT, what, "it is not started");
}

int jifl_plugin_probe_stop_all(struct jifl_plugin *p, probe_t *probes, unsigned int n)
{
	int ret = jifl_plugin_probe_enter(p, probes, "probe_stop");

	return ret ?: jifl_plugin_probe_leave(jifl_group_stop(p, probes, n));
}
EXPORT_SYMBOL_GPL(jifl_plugin_probe_stop_all);

void jifl_plugin_end_probes(struct jifl_plugin *p)
{
	struct jifl_probe_group *g, *next;

	jifl_plugin_probe_lock();
	list_for_each_entry_safe(g, next, &p->probes, list)
		jifl_group_end(g);
	jifl_plugin_probe_leave(0);
}

/* --- later ---------------------------------------------------------------------------------- */

/* Lifts what has been told to stop later. */
static void jifl_group_look_at(struct jifl_probe_group *g)
{
	bool any = false;
	u32 i;

	for (i = 0; i < g->n; i++) {
		struct jifl_member *m = &g->members[i];

		m->goes = m->state == JIFL_MEMBER_RUNS && READ_ONCE(m->probe->stop_later);
		any |= m->goes;
	}
	if (any)
		jifl_group_lift(g, false);
}

static void jifl_group_look(struct work_struct *work)
{
	struct jifl_probe_group *g;

	jifl_plugin_probe_lock();
	list_for_each_entry(g, &jifl_probe_groups, all)
		jifl_group_look_at(g);
	if (!list_empty(&jifl_probe_groups))
		queue_delayed_work(system_long_wq, &jifl_group_work, JIFL_LATER_PERIOD);
	jifl_plugin_probe_leave(0);
}

/* No plugin is there, so the work item does not queue itself again. */
void jifl_plugin_probe_exit(void)
{
	cancel_delayed_work_sync(&jifl_group_work);
}

/* --- asking --------------------------------------------------------------------------------- */

u64 jifl_plugin_probe_count_uncalled(struct jifl_plugin *p, probe_t *probe)
{
	u64 uncalled = 0;

	if (jifl_plugin_probe_enter(p, probe, "probe_uncalled"))
		return 0;
	if (probe->plugin == p && probe->group)
		uncalled = jifl_probe_uncalled(probe->group->session, probe->index);
	jifl_plugin_probe_leave(0);
	return uncalled;
}
EXPORT_SYMBOL_GPL(jifl_plugin_probe_count_uncalled);
