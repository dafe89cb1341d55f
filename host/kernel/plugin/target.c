// SPDX-License-Identifier: GPL-2.0
/*
 * What plugins instrument: this file prepares, starts and stops each target_t of include/jifl.h,
 * which is the same as a syscall_t. round.c calls its callbacks; call.c has what is done for calls
 * of functions.
 *
 * Context: process. Locks: jifl_plugin_api_mutex is taken after jifl_plugin_mutex and before
 * jifl_session_mutex.
 */
#include <linux/module.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../leave/evict.h"
#include "../enter/function.h"
#include "../enter/target.h"
#include "../call/condition.h"
#include "../session/aim.h"
#include "names.h"
#include "plugin.h"

static DEFINE_MUTEX(jifl_plugin_api_mutex);	/* every target_t */

/* Texts for the log about a target_t that is, or is to be, about functions or system calls. */
struct texts {
	const char *start, *stop;
	const char *callbacks[JIFL_CALLBACK_KINDS];
};

#define TEXTS(PREFIX) { \
	.start = PREFIX "_start_instrumenting", \
	.stop = PREFIX "_stop_instrumenting", \
	.callbacks = { \
		[JIFL_CALLBACK_ENTRY] = PREFIX "_add_entry_instrumentation", \
		[JIFL_CALLBACK_EXIT] = PREFIX "_add_exit_instrumentation", \
		[JIFL_CALLBACK_ROUTINE] = PREFIX "_add_routine_instrumentation", \
		[JIFL_CALLBACK_BB] = PREFIX "_add_bb_instrumentation", \
		[JIFL_CALLBACK_INS] = PREFIX "_add_ins_instrumentation", \
		[JIFL_CALLBACK_MODULE] = PREFIX "_add_module_callback", \
		[JIFL_CALLBACK_FLUSH] = PREFIX "_add_flush_callback", \
		[JIFL_CALLBACK_END] = PREFIX "_add_end_callback", \
	}, \
}

static const struct texts syscall_texts = TEXTS("syscall");
static const struct texts function_texts = TEXTS("target");

/* What was not initialised may be either: it is taken for a syscall_t. */
static const struct texts *texts_of(const target_t *t)
{
	return t && t->functions ? &function_texts : &syscall_texts;
}

/*
 * Each function of the API on a target_t begins with this. 0, with jifl_plugin_api_mutex held, or
 * a logged mistake. Callbacks and analysis functions must not call these functions, because they
 * sleep and wait for events to end.
 */
static int jifl_plugin_enter(struct jifl_plugin *p, target_t *t, const char *what)
{
	int ret = jifl_event_may_sleep(p, what);

	if (ret)
		return ret;
	if (!t)
		return jifl_plugin_mistake(p, -EINVAL, what, "NULL instead of a target_t or syscall_t");
	mutex_lock(&jifl_plugin_api_mutex);
	return 0;
}

/* jifl_plugin_enter for functions that need an initialised target_t. */
static int jifl_plugin_enter_ready(struct jifl_plugin *p, target_t *t, const char *what)
{
	int ret = jifl_plugin_enter(p, t, what);

	if (ret || t->plugin == p)
		return ret;
	mutex_unlock(&jifl_plugin_api_mutex);
	return jifl_plugin_mistake(p, -EINVAL, what, "it was not initialised");
}

static int jifl_plugin_leave(int ret)
{
	mutex_unlock(&jifl_plugin_api_mutex);
	return ret;
}

/* --- preparing ---------------------------------------------------------------------------- */

/* What the caller has filled of `as` is what t is about. Under jifl_plugin_api_mutex. */
static int prepare(struct jifl_plugin *p, target_t *t, const target_t *as, const char *what)
{
	if (t->plugin && t->session)
		return jifl_plugin_mistake(p, -EBUSY, what, "it is instrumenting");
	if (t->plugin)
		list_del(&t->list);
	*t = *as;
	t->plugin = p;
	list_add_tail(&t->list, &p->targets);
	return 0;
}

int jifl_syscall_init(struct jifl_plugin *p, syscall_t *s, int nr)
{
	static const char what[] = "syscall_init";
	int ret = jifl_plugin_enter(p, s, what);

	if (ret)
		return ret;
	if (nr < 0 || !jifl_target_address(JIFL_TARGET_SYSCALL, nr))
		ret = jifl_plugin_mistake(p, -EINVAL, what, "no such system call");
	return jifl_plugin_leave(ret ?: prepare(p, s, &(target_t){ .nr = nr }, what));
}
EXPORT_SYMBOL_GPL(jifl_syscall_init);

int jifl_syscall_init_all(struct jifl_plugin *p, syscall_t *s)
{
	static const char what[] = "syscall_init_all";
	const int ret = jifl_plugin_enter(p, s, what);

	if (ret)
		return ret;
	return jifl_plugin_leave(prepare(p, s, &(target_t){ .nr = -1 }, what));
}
EXPORT_SYMBOL_GPL(jifl_syscall_init_all);

int jifl_target_init(struct jifl_plugin *p, target_t *t, const char *target)
{
	static const char what[] = "target_init";
	target_t as = { .nr = -1, .functions = true };
	const char *mistake = "no target, or one that is too long";
	int ret = jifl_plugin_enter(p, t, what);

	if (ret)
		return ret;
	ret = -EINVAL;
	if (target && strscpy(as.named, target, sizeof(as.named)) > 0) {
		/* What is written to a module's parameter may end in a new line. */
		strim(as.named);
		ret = jifl_names_check(as.named, &mistake);
	}
	if (ret)
		return jifl_plugin_leave(ret == -ENOMEM ? ret :
					 jifl_plugin_mistake(p, ret, what, mistake));
	return jifl_plugin_leave(prepare(p, t, &as, what));
}
EXPORT_SYMBOL_GPL(jifl_target_init);

int jifl_target_init_address(struct jifl_plugin *p, target_t *t, unsigned long address)
{
	static const char what[] = "target_init_address";
	const target_t as = { .nr = -1, .functions = true, .address = address };
	int ret = jifl_plugin_enter(p, t, what);

	if (ret)
		return ret;
	if (jifl_function_refusal(address) == JIFL_REFUSED_UNKNOWN)
		ret = jifl_plugin_mistake(p, -ENOENT, what, "no function begins there");
	return jifl_plugin_leave(ret ?: prepare(p, t, &as, what));
}
EXPORT_SYMBOL_GPL(jifl_target_init_address);

int jifl_add_callback(struct jifl_plugin *p, target_t *t, enum jifl_callback_kind kind,
		      void *fn, void *arg)
{
	const char *what;
	int ret;

	if ((unsigned int)kind >= JIFL_CALLBACK_KINDS)
		return -EINVAL;
	what = texts_of(t)->callbacks[kind];
	ret = jifl_plugin_enter_ready(p, t, what);
	if (ret)
		return ret;
	if (!fn)
		ret = jifl_plugin_mistake(p, -EINVAL, what, "a null callback");
	else if (t->session)
		ret = jifl_plugin_mistake(p, -EBUSY, what, "it is instrumenting");
	else if (t->ncallbacks[kind] == JIFL_CALLBACKS_MAX)
		ret = jifl_plugin_mistake(p, -ENOSPC, what, "too many callbacks");
	else
		t->callbacks[kind][t->ncallbacks[kind]++] =
			(struct jifl_callback){ fn, arg };
	return jifl_plugin_leave(ret);
}
EXPORT_SYMBOL_GPL(jifl_add_callback);

/* --- starting ----------------------------------------------------------------------------- */

/* A session with room for so many targets. NULL: no memory. */
static struct jifl_session *make_session(target_t *t, u32 ntargets)
{
	struct jifl_session *session = jifl_session_alloc(ntargets);

	if (!session)
		return NULL;
	session->tool = t->functions ? &jifl_plugin_calls_tool : &jifl_plugin_tool;
	session->tool_data = t;
	strscpy(session->name, t->plugin->name, sizeof(session->name));
	return session;
}

/* The targets of t are one system call, or all. 0; -ENOMEM. */
static int aim_at_syscalls(target_t *t, struct jifl_session **session)
{
	struct jifl_session *s = make_session(t, t->nr < 0 ? JIFL_NR_MAX : 1);
	int ret = 0;
	u32 i;

	if (!s)
		return -ENOMEM;
	if (t->nr >= 0)
		ret = jifl_aim_add(s, 0, JIFL_TARGET_SYSCALL, t->nr);
	for (i = 0; t->nr < 0 && i < s->ntargets && !ret; i++)
		ret = jifl_aim_add(s, i, JIFL_TARGET_SYSCALL, i);
	*session = s;
	return ret;
}

/* A function may be entered by the session: adds it. Else *refused says why. 0; -ENOMEM. */
static int add_function(struct jifl_session *s, u32 index, unsigned long begin,
			enum jifl_refusal *refused)
{
	const int ret = jifl_aim_add_function(s, index, begin, s->conditions, refused);

	return ret == -EOPNOTSUPP ? 0 : ret;
}

/* The session's one condition, on all its functions. -ENOMEM. */
static int add_condition(struct jifl_session *s, const struct jifl_condition *condition)
{
	if (!jifl_condition_is_valid(condition))
		return 0;
	s->conditions = JIFL_ALLOC(kvmalloc(sizeof(*s->conditions), GFP_KERNEL));
	if (!s->conditions)
		return -ENOMEM;
	*s->conditions = *condition;
	s->nconditions = 1;
	return 0;
}

/* Logs why the function cannot be entered, and returns error. */
static int refuse(const target_t *t, int error, unsigned long begin, enum jifl_refusal why)
{
	pr_warn("plugin %s: %s: %ps: %s\n", t->plugin->name, function_texts.start,
		(void *)begin, jifl_plugin_refusal(why));
	return error;
}

/* Of functions that are entered by jumps, those stay that can be. *first: why not the first? */
static int leave_out_notrace(struct jifl_session *s, unsigned long begin, enum jifl_refusal *first)
{
	bool *refused = JIFL_ALLOC(kvcalloc(s->ntargets, sizeof(*refused), GFP_KERNEL));
	int ret = refused ? jifl_aim_refuse_notrace(s, refused) : -ENOMEM;

	if (!ret && refused[0])
		*first = jifl_function_without_door(begin);
	kvfree(refused);
	return ret;
}

/* Those of the functions that can be entered. 0; -EOPNOTSUPP after a line in the log; -ENOMEM. */
static int add_functions(target_t *t, struct jifl_session *s, const struct jifl_names *names)
{
	enum jifl_refusal refused = JIFL_REFUSED_UNKNOWN, first = JIFL_REFUSED_UNKNOWN;
	int ret = 0;
	u32 i;

	for (i = 0; i < names->n && !ret; i++) {
		ret = add_function(s, i, names->begins[i], &refused);
		if (!i)
			first = refused;
		cond_resched();
	}
	ret = ret ?: leave_out_notrace(s, names->begins[0], &first);
	if (ret || s->naims)
		return ret;
	return refuse(t, -EOPNOTSUPP, names->begins[0], first);
}

static int aim_at_functions(target_t *t, struct jifl_session **session)
{
	struct jifl_names names = { .begins = &t->address, .n = 1 };
	const char *mistake;
	int ret;

	if (!t->address) {
		ret = jifl_names_find(t->named, &names, &mistake);
		if (ret)
			return ret == -ENOMEM ? ret :
			       jifl_plugin_mistake(t->plugin, ret, function_texts.start, mistake);
	}
	*session = make_session(t, names.n);
	ret = *session ? add_condition(*session, &names.condition) : -ENOMEM;
	ret = ret ?: add_functions(t, *session, &names);
	if (!t->address)
		jifl_names_free(&names);
	return ret;
}

/* Says in the log why the session could not start, and returns ret. */
static int tell(const target_t *t, const struct jifl_session *s, int ret, u32 busy_target)
{
	const struct jifl_aim *aim = jifl_aim_at(s, busy_target);
	const char *what = texts_of(t)->start;

	if (ret == -EBUSY)
		return jifl_plugin_mistake(t->plugin, ret, what,
					   "as many sessions run as can be, on one of its targets or beside functions");
	if (ret == -EXDEV && aim)
		return refuse(t, -EOPNOTSUPP, aim->target->id, JIFL_REFUSED_SCOPE);
	if (ret == -EOPNOTSUPP && aim && s->nfunctions)
		return refuse(t, ret, aim->target->id, s->refused ?: JIFL_REFUSED_TAKEN);
	if (ret == -EOPNOTSUPP)
		return jifl_plugin_mistake(t->plugin, ret, what, "this kernel does not allow it");
	return ret;
}

static int start(target_t *t)
{
	struct jifl_session *session = NULL;
	u64 busy_session;
	u32 busy_target = 0;
	int ret;

	ret = t->functions ? aim_at_functions(t, &session) : aim_at_syscalls(t, &session);
	if (ret) {
		jifl_session_free(session);
		return ret;
	}
	jifl_event_listen(t);
	ret = jifl_session_start(session, &busy_target, &busy_session);
	if (!ret) {
		t->session = session;
		return 0;
	}
	jifl_event_ignore(t);
	ret = tell(t, session, ret, busy_target);
	jifl_session_free(session);
	return ret;
}

int jifl_plugin_target_start(struct jifl_plugin *p, target_t *t)
{
	const char *what = texts_of(t)->start;
	int ret = jifl_plugin_enter_ready(p, t, what);

	if (ret)
		return ret;
	if (READ_ONCE(p->expelled))
		ret = -EPERM;
	else if (!jifl_plugin_is_started(p))
		ret = jifl_plugin_mistake(p, -EPERM, what, "the plugin is not started");
	else if (t->session)
		ret = jifl_plugin_mistake(p, -EALREADY, what, "it is instrumenting");
	else
		ret = start(t);
	return jifl_plugin_leave(ret);
}
EXPORT_SYMBOL_GPL(jifl_plugin_target_start);

/* --- stopping ----------------------------------------------------------------------------- */

/* Under jifl_plugin_api_mutex. */
static void end(target_t *t)
{
	struct jifl_drain drain;

	jifl_session_stop(t->session, &drain);
	jifl_session_free(t->session);
	t->session = NULL;
	jifl_event_end(t);
}

int jifl_plugin_target_stop(struct jifl_plugin *p, target_t *t)
{
	const char *what = texts_of(t)->stop;
	int ret = jifl_plugin_enter_ready(p, t, what);

	if (ret)
		return ret;
	if (!t->session)
		return jifl_plugin_leave(READ_ONCE(p->expelled) ? -ENOENT :
					 jifl_plugin_mistake(p, -ENOENT, what,
							     "it is not instrumenting"));
	end(t);
	return jifl_plugin_leave(0);
}
EXPORT_SYMBOL_GPL(jifl_plugin_target_stop);

u64 jifl_target_missed(struct jifl_plugin *p, target_t *t)
{
	struct jifl_aim *aim;
	struct jifl_stat st;
	u64 missed = 0;
	u32 i;

	if (jifl_plugin_enter_ready(p, t, "target_missed"))
		return 0;
	if (t->session)
		for_each_aim(aim, t->session, i) {
			jifl_stats_read(aim, &st, NULL);
			missed += st.missed;
		}
	jifl_plugin_leave(0);
	return missed;
}
EXPORT_SYMBOL_GPL(jifl_target_missed);

void jifl_plugin_end_targets(struct jifl_plugin *p)
{
	target_t *t;

	mutex_lock(&jifl_plugin_api_mutex);
	list_for_each_entry(t, &p->targets, list)
		if (t->session)
			end(t);
	mutex_unlock(&jifl_plugin_api_mutex);
}
