// SPDX-License-Identifier: GPL-2.0
/*
 * The list of the kernel's loaded modules. Plugins are told of them when they begin to listen. JIFL
 * reads the kernel's own list once, when JIFL is loaded; from then on the kernel's notifier reports
 * each module. So a plugin is told of each module exactly once, and once of its removal.
 *
 * Context: process, under jifl_event_mutex.
 */
#include <linux/list.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../plant.h"
#include "../compat/compat.h"
#include "../compat/ksym.h"
#include "plugin.h"

struct jifl_module {
	struct list_head list;
	struct module_event event;
	char name[MODULE_NAME_LEN];
};

static LIST_HEAD(jifl_modules);	/* in the order of loading */

static struct jifl_module *jifl_modules_find(unsigned long text)
{
	struct jifl_module *m;

	list_for_each_entry(m, &jifl_modules, list)
		if (m->event.text == text)
			return m;
	return NULL;
}

static struct jifl_module *jifl_modules_new(const struct module *mod, gfp_t gfp)
{
	struct jifl_module *m = JIFL_ALLOC(kzalloc(sizeof(*m), gfp));

	if (!m)
		return NULL;
	strscpy(m->name, mod->name, sizeof(m->name));
	m->event.name = m->name;
	jifl_compat_module_text(mod, &m->event.text, &m->event.size);
	return m;
}

void jifl_modules_coming(const struct module *mod)
{
	unsigned long text, size;
	struct jifl_module *m;

	jifl_compat_module_text(mod, &text, &size);
	/* It was coming when the list was read. */
	if (jifl_modules_find(text))
		return;
	m = jifl_modules_new(mod, GFP_KERNEL);
	if (m)
		list_add_tail(&m->list, &jifl_modules);
	else
		pr_warn_once("no memory to keep the name of module %s: plugins that start later are not told of it\n",
			     mod->name);
}

void jifl_modules_going(const struct module *mod)
{
	unsigned long text, size;
	struct jifl_module *m;

	jifl_compat_module_text(mod, &text, &size);
	m = jifl_modules_find(text);
	if (!m)
		return;
	list_del(&m->list);
	kfree(m);
}

void jifl_modules_each(module_callback fn, void *arg)
{
	const struct jifl_module *m;

	list_for_each_entry(m, &jifl_modules, list)
		fn(&m->event, arg);
}

static bool jifl_modules_is_new(const struct module *mod)
{
	unsigned long text, size;

	jifl_compat_module_text(mod, &text, &size);
	return (mod->state == MODULE_STATE_LIVE || mod->state == MODULE_STATE_COMING) &&
	       !jifl_modules_find(text);
}

/* The kernel's list has the newest module first. */
int jifl_modules_read(void)
{
	const struct list_head *all = (const struct list_head *)jifl_ksym("modules");
	const struct module *mod;
	struct jifl_module *m;
	int ret = 0;

	if (!all) {
		pr_err("this kernel tells no list of its modules; it needs CONFIG_KALLSYMS_ALL\n");
		return -EOPNOTSUPP;
	}
	rcu_read_lock();
	list_for_each_entry_rcu(mod, all, list) {
		if (!jifl_modules_is_new(mod))
			continue;
		m = jifl_modules_new(mod, GFP_ATOMIC);
		if (!m) {
			ret = -ENOMEM;
			break;
		}
		list_add(&m->list, &jifl_modules);
	}
	rcu_read_unlock();
	return ret;
}

void jifl_modules_forget(void)
{
	struct jifl_module *m, *next;

	list_for_each_entry_safe(m, next, &jifl_modules, list) {
		list_del(&m->list);
		kfree(m);
	}
}
