// SPDX-License-Identifier: GPL-2.0
/*
 * Tells plugins of events while one of their target_t is instrumenting: a module is there, comes
 * or goes, the code cache is emptied, instrumentation has ended.
 *
 * Callbacks run one at a time under jifl_event_mutex. When the cache is emptied, jifl_session_mutex
 * is held, too; the kernel's module notifier holds no mutex of JIFL. So after jifl_event_ignore no
 * callback of that target_t runs, and a callback must not call a function that takes a mutex which
 * is taken before jifl_event_mutex.
 *
 * Context: process.
 */
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/sched.h>

#include "../plant.h"
#include "../compat/compat.h"
#include "plugin.h"

static DEFINE_MUTEX(jifl_event_mutex);
static LIST_HEAD(jifl_event_list);	/* of target_t; under jifl_event_mutex */
static struct task_struct *jifl_event_task; /* it runs a callback; written under the mutex */

int jifl_event_may_sleep(struct jifl_plugin *p, const char *what)
{
	if (!preemptible())
		return jifl_plugin_mistake(p, -EPERM, what, "not in process context");
	if (READ_ONCE(jifl_event_task) == current)
		return jifl_plugin_mistake(p, -EPERM, what, "inside the callback of an event");
	return 0;
}

static void jifl_event_call(const target_t *t, enum jifl_callback_kind kind,
			    const struct module_event *event)
{
	const struct jifl_callback *c = t->callbacks[kind];
	unsigned int i;

	lockdep_assert_held(&jifl_event_mutex);
	WRITE_ONCE(jifl_event_task, current);
	for (i = 0; i < t->ncallbacks[kind]; i++) {
		if (kind == JIFL_CALLBACK_MODULE)
			((module_callback)c[i].fn)(event, c[i].arg);
		else
			((event_callback)c[i].fn)(c[i].arg);
	}
	WRITE_ONCE(jifl_event_task, NULL);
}

/* Under jifl_event_mutex. */
static void jifl_event_tell(enum jifl_callback_kind kind, const struct module_event *event)
{
	const target_t *t;

	list_for_each_entry(t, &jifl_event_list, events)
		jifl_event_call(t, kind, event);
}

static void jifl_event_tell_there(const struct module_event *module, void *arg)
{
	struct module_event event = *module;

	event.there = true;
	jifl_event_call(arg, JIFL_CALLBACK_MODULE, &event);
}

void jifl_event_listen(target_t *t)
{
	mutex_lock(&jifl_event_mutex);
	if (t->ncallbacks[JIFL_CALLBACK_MODULE])
		jifl_modules_each(jifl_event_tell_there, t);
	list_add_tail(&t->events, &jifl_event_list);
	mutex_unlock(&jifl_event_mutex);
}

void jifl_event_ignore(target_t *t)
{
	mutex_lock(&jifl_event_mutex);
	list_del(&t->events);
	mutex_unlock(&jifl_event_mutex);
}

void jifl_event_end(target_t *t)
{
	mutex_lock(&jifl_event_mutex);
	list_del(&t->events);
	jifl_event_call(t, JIFL_CALLBACK_END, NULL);
	mutex_unlock(&jifl_event_mutex);
}

void jifl_event_modules(module_callback fn, void *arg)
{
	mutex_lock(&jifl_event_mutex);
	jifl_modules_each(fn, arg);
	mutex_unlock(&jifl_event_mutex);
}

void jifl_plugin_flushed(void)
{
	mutex_lock(&jifl_event_mutex);
	if (!JIFL_HOST_PLANTED(flushes_untold))
		jifl_event_tell(JIFL_CALLBACK_FLUSH, NULL);
	mutex_unlock(&jifl_event_mutex);
	jifl_plugin_calls_flushed();
}

/* COMING comes before the module's init. text.c lets no text be translated before LIVE. */
static int jifl_event_module(struct notifier_block *nb, unsigned long state, void *data)
{
	const struct module *mod = data;
	struct module_event event = {
		.name = mod->name,
		.going = state == MODULE_STATE_GOING,
	};

	if (state != MODULE_STATE_COMING && state != MODULE_STATE_GOING)
		return NOTIFY_DONE;
	jifl_compat_module_text(mod, &event.text, &event.size);
	mutex_lock(&jifl_event_mutex);
	jifl_event_tell(JIFL_CALLBACK_MODULE, &event);
	if (event.going)
		jifl_modules_going(mod);
	else
		jifl_modules_coming(mod);
	mutex_unlock(&jifl_event_mutex);
	return NOTIFY_OK;
}

static struct notifier_block jifl_event_notifier = {
	.notifier_call = jifl_event_module,
};

int jifl_event_init(void)
{
	int ret = JIFL_TRY(register_module_notifier(&jifl_event_notifier));

	if (ret)
		return ret;
	/* After the registration: a module that comes meanwhile is told of at least once. */
	mutex_lock(&jifl_event_mutex);
	ret = jifl_modules_read();
	mutex_unlock(&jifl_event_mutex);
	if (ret)
		jifl_event_exit();
	return ret;
}

void jifl_event_exit(void)
{
	unregister_module_notifier(&jifl_event_notifier);
	jifl_modules_forget();
}
