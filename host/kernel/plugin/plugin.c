// SPDX-License-Identifier: GPL-2.0
/*
 * The plugin API, include/jifl.h: this file registers, unregisters, starts and stops plugins.
 * target.c has what they instrument.
 *
 * Context: process, under jifl_plugin_mutex, except jifl_plugin_expel, which runs in any context.
 *
 * Locks: jifl_plugin_mutex is taken first, before target.c's mutex, jifl_session_mutex and
 * event.c's mutex.
 */
#include <linux/irq_work.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "plugin.h"
#include "plugins.h"

enum {
	JIFL_PLUGIN_STOPPED,
	JIFL_PLUGIN_STARTED,	/* or it is being started or stopped */
};

static DEFINE_MUTEX(jifl_plugin_mutex);		/* the list, states */
static LIST_HEAD(jifl_plugins);

/* --- plugins that insert too much --------------------------------------------- */

static void jifl_plugin_expel_all(struct work_struct *work);
static DECLARE_WORK(jifl_plugin_expel_work, jifl_plugin_expel_all);

static void jifl_plugin_expel_later(struct irq_work *work)
{
	schedule_work(&jifl_plugin_expel_work);
}

static struct irq_work jifl_plugin_expel_irq = IRQ_WORK_INIT(jifl_plugin_expel_later);

void jifl_plugin_expel(struct jifl_plugin *p)
{
	WRITE_ONCE(p->expelled, true);
	irq_work_queue(&jifl_plugin_expel_irq);
}

bool jifl_plugin_is_started(const struct jifl_plugin *p)
{
	return READ_ONCE(p->state) == JIFL_PLUGIN_STARTED;
}

/* --- plugins ---------------------------------------------------------------------------------- */

static struct jifl_plugin *jifl_plugin_find(const char *name)
{
	struct jifl_plugin *p;

	list_for_each_entry(p, &jifl_plugins, list)
		if (!strncmp(p->name, name, JIFL_NAME_MAX))
			return p;
	return NULL;
}

static void jifl_plugin_expel_all(struct work_struct *work)
{
	struct jifl_plugin *p;

	mutex_lock(&jifl_plugin_mutex);
	list_for_each_entry(p, &jifl_plugins, list) {
		if (!p->expelled || p->told || p->state != JIFL_PLUGIN_STARTED)
			continue;
		p->told = true;
		jifl_plugin_end_probes(p);
		jifl_plugin_end_targets(p);
		pr_warn("plugin %s: a callback goes on inserting where there is no room: all that it instruments is ended\n",
			p->name);
	}
	mutex_unlock(&jifl_plugin_mutex);
}

/* Ends all that plugin_start or plugin_stop left. all: frees objects that outlive a stop, too. */
static void jifl_plugin_end(struct jifl_plugin *p, bool all)
{
	/*
	 * First: other threads of the plugin may wait to start something, and look at the state
	 * under the mutex that each of these takes.
	 */
	WRITE_ONCE(p->state, JIFL_PLUGIN_STOPPED);
	jifl_plugin_end_probes(p);
	jifl_plugin_end_targets(p);
	jifl_store_log_refused(p);
	jifl_store_release(p, all);
	module_put(p->owner);
}

static int jifl_plugin_start_locked(struct jifl_plugin *p)
{
	int ret;

	if (p->state == JIFL_PLUGIN_STARTED)
		return -EALREADY;
	if (!try_module_get(p->owner))
		return -ENOENT;
	WRITE_ONCE(p->complained, false);
	WRITE_ONCE(p->expelled, false);
	p->told = false;
	jifl_store_release(p, true);
	WRITE_ONCE(p->state, JIFL_PLUGIN_STARTED);
	ret = p->start();
	if (!ret)
		return 0;
	jifl_plugin_end(p, true);
	return ret < 0 ? ret : -EINVAL;
}

static int jifl_plugin_stop_locked(struct jifl_plugin *p)
{
	if (p->state != JIFL_PLUGIN_STARTED)
		return -EALREADY;
	p->stop();
	jifl_plugin_end(p, false);
	return 0;
}

int jifl_plugin_ctl(const char *name, bool start)
{
	struct jifl_plugin *p;
	int ret = -ENOENT;

	mutex_lock(&jifl_plugin_mutex);
	p = jifl_plugin_find(name);
	if (p)
		ret = start ? jifl_plugin_start_locked(p) : jifl_plugin_stop_locked(p);
	mutex_unlock(&jifl_plugin_mutex);
	return ret;
}

int jifl_plugin_info(unsigned int index, struct jifl_plugin_info *info)
{
	struct jifl_plugin *p;
	int ret = -ENOENT;

	mutex_lock(&jifl_plugin_mutex);
	list_for_each_entry(p, &jifl_plugins, list) {
		if (index--)
			continue;
		info->started = p->state == JIFL_PLUGIN_STARTED;
		info->reserved = 0;
		strscpy_pad(info->name, p->name, sizeof(info->name));
		ret = 0;
		break;
	}
	mutex_unlock(&jifl_plugin_mutex);
	return ret;
}

int jifl_plugin_read(struct jifl_plugin_read *req)
{
	struct jifl_plugin *p;
	int ret = -ENOENT;

	mutex_lock(&jifl_plugin_mutex);
	p = jifl_plugin_find(req->name);
	if (p) {
		req->started = jifl_plugin_is_started(p);
		ret = jifl_plugin_ring_read(p, req);
	}
	mutex_unlock(&jifl_plugin_mutex);
	return ret;
}

static int jifl_plugin_check(const struct jifl_plugin *p)
{
	if (p->size != sizeof(*p) || p->abi != JIFL_PLUGIN_ABI) {
		pr_warn("a plugin was built for another version of jifl.h\n");
		return -EINVAL;
	}
	if (strlen(p->name) >= JIFL_NAME_MAX) {
		pr_warn("plugin %s: its name is longer than %d characters\n", p->name,
			JIFL_NAME_MAX - 1);
		return -EINVAL;
	}
	if (jifl_plugin_find(p->name)) {
		pr_warn("plugin %s: there is one of that name already\n", p->name);
		return -EEXIST;
	}
	return 0;
}

int jifl_plugin_register(struct jifl_plugin *p)
{
	int ret;

	mutex_lock(&jifl_plugin_mutex);
	ret = jifl_plugin_check(p);
	if (ret)
		goto out;
	INIT_LIST_HEAD(&p->targets);
	INIT_LIST_HEAD(&p->stores);
	INIT_LIST_HEAD(&p->probes);
	p->state = JIFL_PLUGIN_STOPPED;
	p->complained = false;
	p->expelled = false;
	p->told = false;
	ret = p->init();
	if (!ret)
		list_add_tail(&p->list, &jifl_plugins);
	else if (ret > 0)
		ret = -EINVAL;
out:
	mutex_unlock(&jifl_plugin_mutex);
	return ret;
}
EXPORT_SYMBOL_GPL(jifl_plugin_register);

void jifl_plugin_unregister(struct jifl_plugin *p)
{
	mutex_lock(&jifl_plugin_mutex);
	/* The module of a started plugin is in use, but rmmod -f may have removed it. */
	if (p->state == JIFL_PLUGIN_STARTED)
		jifl_plugin_stop_locked(p);
	jifl_store_release(p, true);
	list_del(&p->list);
	p->exit();
	mutex_unlock(&jifl_plugin_mutex);
}
EXPORT_SYMBOL_GPL(jifl_plugin_unregister);

int jifl_plugin_init(void)
{
	jifl_task_init();
	jifl_group_init();
	jifl_calls_init();
	jifl_session_flushed = jifl_plugin_flushed;
	return jifl_event_init();
}

void jifl_plugin_exit(void)
{
	jifl_event_exit();
	jifl_plugin_probe_exit();
	jifl_plugin_mistake_exit();
	irq_work_sync(&jifl_plugin_expel_irq);
	cancel_work_sync(&jifl_plugin_expel_work);
}
