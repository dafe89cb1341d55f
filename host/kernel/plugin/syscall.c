// SPDX-License-Identifier: GPL-2.0
/*
 * What plugins instrument: this file prepares, starts and stops each syscall_t of include/jifl.h.
 * round.c calls its callbacks.
 *
 * Context: process. Locks: jifl_plugin_api_mutex is taken after jifl_plugin_mutex and before
 * jifl_session_mutex.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../leave/evict.h"
#include "../enter/target.h"
#include "../session/aim.h"
#include "plugin.h"

static DEFINE_MUTEX(jifl_plugin_api_mutex);	/* every syscall_t */

/*
 * Each function of the API on a syscall_t begins with this. 0, with jifl_plugin_api_mutex held, or
 * a logged mistake. Callbacks and analysis functions must not call these functions, because they
 * sleep and wait for events to end.
 */
static int jifl_plugin_enter(struct jifl_plugin *p, syscall_t *s, const char *what)
{
	if (!preemptible())
		return jifl_plugin_mistake(p, -EPERM, what, "not in process context");
	if (jifl_event_runs_here())
		return jifl_plugin_mistake(p, -EPERM, what, "inside the callback of an event");
	if (!s)
		return jifl_plugin_mistake(p, -EINVAL, what, "NULL instead of a syscall_t");
	mutex_lock(&jifl_plugin_api_mutex);
	return 0;
}

/* jifl_plugin_enter for functions that need an initialised syscall_t. */
static int jifl_plugin_enter_ready(struct jifl_plugin *p, syscall_t *s, const char *what)
{
	int ret = jifl_plugin_enter(p, s, what);

	if (ret || s->plugin == p)
		return ret;
	mutex_unlock(&jifl_plugin_api_mutex);
	return jifl_plugin_mistake(p, -EINVAL, what, "the syscall_t was not initialised");
}

static int jifl_plugin_leave(int ret)
{
	mutex_unlock(&jifl_plugin_api_mutex);
	return ret;
}

static int jifl_syscall_prepare(struct jifl_plugin *p, syscall_t *s, int nr,
				const char *what)
{
	int ret = jifl_plugin_enter(p, s, what);

	if (ret)
		return ret;
	if (s->plugin && s->session)
		return jifl_plugin_leave(jifl_plugin_mistake(p, -EBUSY, what,
							     "it is instrumenting"));
	if (s->plugin)
		list_del(&s->list);
	memset(s, 0, sizeof(*s));
	s->plugin = p;
	s->nr = nr;
	list_add_tail(&s->list, &p->syscalls);
	return jifl_plugin_leave(0);
}

int jifl_syscall_init(struct jifl_plugin *p, syscall_t *s, int nr)
{
	static const char what[] = "syscall_init";

	if (nr < 0 || !jifl_target_address(JIFL_TARGET_SYSCALL, nr))
		return jifl_plugin_mistake(p, -EINVAL, what, "no such system call");
	return jifl_syscall_prepare(p, s, nr, what);
}
EXPORT_SYMBOL_GPL(jifl_syscall_init);

int jifl_syscall_init_all(struct jifl_plugin *p, syscall_t *s)
{
	return jifl_syscall_prepare(p, s, -1, "syscall_init_all");
}
EXPORT_SYMBOL_GPL(jifl_syscall_init_all);

int jifl_add_callback(struct jifl_plugin *p, syscall_t *s, enum jifl_callback_kind kind,
		      void *fn, void *arg)
{
	static const char * const names[] = {
		[JIFL_CALLBACK_ENTRY] = "syscall_add_entry_instrumentation",
		[JIFL_CALLBACK_EXIT] = "syscall_add_exit_instrumentation",
		[JIFL_CALLBACK_ROUTINE] = "syscall_add_routine_instrumentation",
		[JIFL_CALLBACK_BB] = "syscall_add_bb_instrumentation",
		[JIFL_CALLBACK_INS] = "syscall_add_ins_instrumentation",
		[JIFL_CALLBACK_MODULE] = "syscall_add_module_callback",
		[JIFL_CALLBACK_FLUSH] = "syscall_add_flush_callback",
		[JIFL_CALLBACK_END] = "syscall_add_end_callback",
	};
	const char *what;
	int ret;

	if ((unsigned int)kind >= JIFL_CALLBACK_KINDS)
		return -EINVAL;
	what = names[kind];
	ret = jifl_plugin_enter_ready(p, s, what);
	if (ret)
		return ret;
	if (!fn)
		ret = jifl_plugin_mistake(p, -EINVAL, what, "a null callback");
	else if (s->session)
		ret = jifl_plugin_mistake(p, -EBUSY, what, "it is instrumenting");
	else if (s->ncallbacks[kind] == JIFL_CALLBACKS_MAX)
		ret = jifl_plugin_mistake(p, -ENOSPC, what, "too many callbacks");
	else
		s->callbacks[kind][s->ncallbacks[kind]++] =
			(struct jifl_callback){ fn, arg };
	return jifl_plugin_leave(ret);
}
EXPORT_SYMBOL_GPL(jifl_add_callback);

/* Adds the targets of s to the session: one system call, or all. */
static int jifl_syscall_aim(syscall_t *s, struct jifl_session *session)
{
	int ret = 0;
	u32 i;

	if (s->nr >= 0)
		return jifl_aim_add(session, 0, JIFL_TARGET_SYSCALL, s->nr);
	for (i = 0; i < session->ntargets && !ret; i++)
		ret = jifl_aim_add(session, i, JIFL_TARGET_SYSCALL, i);
	return ret;
}

static struct jifl_session *jifl_syscall_session(syscall_t *s)
{
	struct jifl_session *session = jifl_session_alloc(s->nr < 0 ? JIFL_NR_MAX : 1);

	if (!session)
		return NULL;
	session->tool = &jifl_plugin_tool;
	session->tool_data = s;
	strscpy(session->name, s->plugin->name, sizeof(session->name));
	if (!jifl_syscall_aim(s, session))
		return session;
	jifl_session_free(session);
	return NULL;
}

int jifl_syscall_start(struct jifl_plugin *p, syscall_t *s)
{
	static const char what[] = "syscall_start_instrumenting";
	int ret = jifl_plugin_enter_ready(p, s, what);
	struct jifl_session *session;
	u64 busy_session;
	u32 busy_target;

	if (ret)
		return ret;
	if (READ_ONCE(p->expelled))
		return jifl_plugin_leave(-EPERM);
	if (!jifl_plugin_is_started(p))
		return jifl_plugin_leave(jifl_plugin_mistake(p, -EPERM, what,
							     "the plugin is not started"));
	if (s->session)
		return jifl_plugin_leave(jifl_plugin_mistake(p, -EALREADY, what,
							     "it is instrumenting"));
	session = jifl_syscall_session(s);
	if (!session)
		return jifl_plugin_leave(-ENOMEM);
	jifl_event_listen(s);
	ret = jifl_session_start(session, &busy_target, &busy_session);
	if (ret) {
		jifl_event_ignore(s);
		jifl_session_free(session);
		if (ret == -EBUSY)
			jifl_plugin_mistake(p, ret, what,
					    "one of the system calls has as many sessions as can be");
		return jifl_plugin_leave(ret);
	}
	s->session = session;
	return jifl_plugin_leave(0);
}
EXPORT_SYMBOL_GPL(jifl_syscall_start);

/* Under jifl_plugin_api_mutex. */
static void jifl_syscall_end(syscall_t *s)
{
	struct jifl_drain drain;

	jifl_session_stop(s->session, &drain);
	jifl_session_free(s->session);
	s->session = NULL;
	jifl_event_end(s);
}

int jifl_syscall_stop(struct jifl_plugin *p, syscall_t *s)
{
	static const char what[] = "syscall_stop_instrumenting";
	int ret = jifl_plugin_enter_ready(p, s, what);

	if (ret)
		return ret;
	if (!s->session)
		return jifl_plugin_leave(READ_ONCE(p->expelled) ? -ENOENT :
					 jifl_plugin_mistake(p, -ENOENT, what,
							     "it is not instrumenting"));
	jifl_syscall_end(s);
	return jifl_plugin_leave(0);
}
EXPORT_SYMBOL_GPL(jifl_syscall_stop);

void jifl_plugin_end_syscalls(struct jifl_plugin *p)
{
	syscall_t *s;

	mutex_lock(&jifl_plugin_api_mutex);
	list_for_each_entry(s, &p->syscalls, list)
		if (s->session)
			jifl_syscall_end(s);
	mutex_unlock(&jifl_plugin_api_mutex);
}
