// SPDX-License-Identifier: GPL-2.0
/*
 * Where the kernel forbids probes, and so instrumentation: kprobes' list for the kernel's text and
 * for modules' text, and the sections that the list may lack.
 *
 * init and exit: process context. jifl_blacklist_has: any context but NMI, interrupts off; takes
 * no lock. Disabled interrupts keep a replaced list alive: it is freed only after an RCU grace
 * period.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/ksym.h"
#include "blacklist.h"

/* Sorted and disjoint. */
struct list {
	u32 n;
	struct text_range ranges[];
};

static struct {
	struct list __rcu *list;
	bool stale;			/* a module's part is missing */
	struct list_head *kprobes;	/* kprobe_blacklist */
	struct mutex *mutex;		/* kprobe_mutex, which guards the list */
} blacklist;

static void add_section(struct list *b, const char *start, const char *end)
{
	struct text_range *r = &b->ranges[b->n];

	r->start = jifl_ksym(start);
	r->end = jifl_ksym(end);
	if (r->start && r->start < r->end)
		b->n++;
}

/* Joins ranges that touch, so that a binary search finds the only one. */
static void sort_list(struct list *b)
{
	struct text_range *r = b->ranges;
	u32 i, n = 0;

	sort(r, b->n, sizeof(*r), jifl_text_compare, NULL);
	for (i = 0; i < b->n; i++) {
		if (n && r[i].start <= r[n - 1].end)
			r[n - 1].end = max(r[n - 1].end, r[i].end);
		else
			r[n++] = r[i];
	}
	b->n = n;
}

#define NR_SECTIONS	4

/* Joins the kernel's list with the sections that the list may lack. */
static struct list *make_list(void)
{
	struct kprobe_blacklist_entry *e;
	struct list *b;
	u32 i, n = NR_SECTIONS;

	mutex_lock(blacklist.mutex);
	list_for_each_entry(e, blacklist.kprobes, list)
		n++;
	b = JIFL_ALLOC(kvzalloc(struct_size(b, ranges, n), GFP_KERNEL));
	if (!b) {
		mutex_unlock(blacklist.mutex);
		return NULL;
	}
	list_for_each_entry(e, blacklist.kprobes, list) {
		b->ranges[b->n].start = e->start_addr;
		b->ranges[b->n++].end = e->end_addr;
	}
	mutex_unlock(blacklist.mutex);

	add_section(b, "__noinstr_text_start", "__noinstr_text_end");
	add_section(b, "__entry_text_start", "__entry_text_end");
	add_section(b, "__kprobes_text_start", "__kprobes_text_end");
	add_section(b, "__cpuidle_text_start", "__cpuidle_text_end");
	for (i = 0; i < b->n; i++) {
		b->ranges[i].type = JIFL_TEXT_NATIVE;
		b->ranges[i].cause = JIFL_CAUSE_NOINSTR;
	}
	sort_list(b);
	return b;
}

static void renew(void)
{
	struct list *new = make_list();
	struct list *old;

	WRITE_ONCE(blacklist.stale, !new);
	if (!new)
		return;
	old = rcu_replace_pointer(blacklist.list, new, true);
	/* Pairs with the disabled interrupts in jifl_blacklist_has. */
	synchronize_rcu();
	kvfree(old);
}

/* Runs after kprobes' own notifier, which adds a module's entries to the list. */
static int module_changed(struct notifier_block *nb, unsigned long state, void *data)
{
	struct module *mod = data;

	if ((state == MODULE_STATE_COMING || state == MODULE_STATE_GOING) &&
	    (mod->num_kprobe_blacklist || mod->kprobes_text_size || mod->noinstr_text_size))
		renew();
	return NOTIFY_OK;
}

static struct notifier_block module_notifier = {
	.notifier_call = module_changed,
	.priority = -10,
};

static void free_list(void)
{
	kvfree(rcu_dereference_protected(blacklist.list, true));
	RCU_INIT_POINTER(blacklist.list, NULL);
}

int jifl_blacklist_init(void)
{
	struct list *list;
	int err;

	blacklist.kprobes = (struct list_head *)jifl_ksym("kprobe_blacklist");
	blacklist.mutex = (struct mutex *)jifl_ksym("kprobe_mutex");
	if (!blacklist.kprobes || !blacklist.mutex) {
		pr_err("kallsyms lacks symbols that say which text may be copied: use a kernel built with CONFIG_KALLSYMS_ALL\n");
		return -EOPNOTSUPP;
	}
	list = make_list();
	if (!list)
		return -ENOMEM;
	RCU_INIT_POINTER(blacklist.list, list);
	err = JIFL_TRY(register_module_notifier(&module_notifier));
	if (err) {
		free_list();
		return err;
	}
	/* A module may have come between the copy and the notifier. */
	renew();
	return 0;
}

void jifl_blacklist_exit(void)
{
	unregister_module_notifier(&module_notifier);
	free_list();
}

void jifl_blacklist_visit(void (*visit)(const struct text_range *ranges, u32 n))
{
	const struct list *list;

	rcu_read_lock();
	list = rcu_dereference(blacklist.list);
	visit(list->ranges, list->n);
	rcu_read_unlock();
}

bool jifl_blacklist_has(unsigned long addr)
{
	const struct list *list = rcu_dereference_sched(blacklist.list);

	return jifl_text_find(list->ranges, list->n, addr);
}

bool jifl_blacklist_is_stale(void)
{
	return READ_ONCE(blacklist.stale);
}
