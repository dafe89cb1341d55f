// SPDX-License-Identifier: GPL-2.0
/*
 * Targets of plugins that are functions under other names, or some calls of functions:
 * "softirq:NAME", "irq:NR", "irq:NAME", "work:FUNCTION", "timer:FUNCTION". In: the text. Out: the
 * functions, and the condition that their calls have to meet (call/condition.c). The command finds
 * the same by itself (crates/jifl/src/session/kinds.rs): the lists of callers stand there, too.
 *
 * 1. A softirq's function stands in softirq_vec, which is written when the kernel boots, and by
 *    modules as they come. It is read once, at the start of the target.
 * 2. A work item is called by process_one_work alone, a timer by one of the functions below. Which
 *    of them are inlined differs by kernel, so one at least has to be there. A call from a part
 *    that the compiler has put aside (.cold), or from a variant (.isra.0), counts.
 * 3. An interrupt's handlers get its number as their first argument. A descriptor is freed by RCU,
 *    and its actions come and go under its lock, as device/irq.c says. An interrupt whose handling
 *    a thread does has the thread's function.
 * 4. Of interrupts of one name all must have one function. Then a call is meant exactly if its
 *    number is one of theirs.
 *
 * Context: process; sleeps.
 */
#include <linux/ctype.h>
#include <linux/glob.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/irqflags.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/import.h"
#include "../compat/ksym.h"
#include "kinds.h"
#include "names.h"
#include "plugin.h"

/* More than an interrupt's number is: kernel/irq/internals.h has this limit. */
#define JIFL_KINDS_IRQS	(NR_IRQS + 8196)

static int refused(const char **mistake, int error, const char *text)
{
	*mistake = text;
	return error;
}

/* --- softirqs ---------------------------------------------------------------------------- */

static int find_softirqs(const char *of, struct jifl_names *names, const char **mistake)
{
	const struct softirq_action *vector = (void *)jifl_ksym("softirq_vec");
	const char *const *to_name = (void *)jifl_ksym("softirq_to_name");
	char pattern[32];
	bool known = false;
	int ret = 0;
	u32 i;

	if (!vector || !to_name)
		return refused(mistake, -ENOENT,
			       "this kernel does not tell which functions softirqs have");
	/* What is cut is the name of none. */
	for (i = 0; of[i] && i < sizeof(pattern) - 1; i++)
		pattern[i] = toupper(of[i]);
	pattern[i] = '\0';
	for (i = 0; i < NR_SOFTIRQS && !ret; i++) {
		const unsigned long begin = (unsigned long)READ_ONCE(vector[i].action);

		if (!glob_match(pattern, to_name[i]))
			continue;
		known = true;
		if (begin)
			ret = jifl_names_add(names, begin);
	}
	if (ret || names->n)
		return ret;
	return refused(mistake, -ENOENT, known ? "nothing handles that softirq now" :
						 "no such softirq: /proc/softirqs has all");
}

/* --- work items and timers ----------------------------------------------------------------- */

static const char *const work_callers[] = { "process_one_work", NULL };
static const char *const timer_callers[] = {
	"call_timer_fn", "__run_hrtimer", "__hrtimer_run_queues", NULL,
};

/* What is looked for, and where it is. */
struct callers {
	const char *const *names;
	struct jifl_condition *condition;
};

/* False: there is no room for more. */
static bool note_caller(unsigned long begin, unsigned long end, void *arg)
{
	struct callers *callers = arg;
	struct jifl_condition *c = callers->condition;
	char name[KSYM_NAME_LEN];
	unsigned long flags;
	u32 i;

	local_irq_save(flags);
	jifl_ksym_name(begin, name, sizeof(name));
	local_irq_restore(flags);
	*strchrnul(name, '.') = '\0';
	for (i = 0; callers->names[i]; i++) {
		if (strcmp(name, callers->names[i]))
			continue;
		if (c->callers == ARRAY_SIZE(c->caller))
			return false;
		c->caller[c->callers].begin = begin;
		c->caller[c->callers++].end = end;
	}
	return true;
}

static int find_called(const char *of, const char *const callers[], struct jifl_names *names,
		       const char **mistake)
{
	struct callers wanted = { callers, &names->condition };
	char named[sizeof_field(target_t, named)];
	int ret;

	if (strpbrk(of, "*?["))
		return refused(mistake, -EINVAL, "work: and timer: take one function, and no pattern");
	scnprintf(named, sizeof(named), "fn:%s", of);
	ret = jifl_names_find_functions(named, names, mistake);
	if (ret)
		return ret;
	jifl_names_walk(jifl_ksym("_stext"), jifl_ksym("_etext"), note_caller, &wanted);
	if (!names->condition.callers)
		return refused(mistake, -ENOENT,
			       "this kernel does not tell which function calls work items or timers");
	return 0;
}

/* --- interrupts ---------------------------------------------------------------------------- */

/* What handles one interrupt under a name. */
struct handlers {
	const char *name;	/* NULL: under any */
	unsigned long primary;	/* stands where a thread does all */
	unsigned long begins[JIFL_VALUES_MAX];
	u32 n;
	bool more;		/* than there is room for */
};

static void look_at_actions(struct irq_desc *desc, struct handlers *h)
{
	const struct irqaction *action;
	unsigned long flags, begin;

	raw_spin_lock_irqsave(&desc->lock, flags);
	for (action = desc->action; action; action = action->next) {
		if (h->name && (!action->name || strcmp(action->name, h->name)))
			continue;
		begin = (unsigned long)action->handler;
		if (begin == h->primary)
			begin = (unsigned long)action->thread_fn;
		if (h->n < ARRAY_SIZE(h->begins))
			h->begins[h->n++] = begin;
		else
			h->more = true;
	}
	raw_spin_unlock_irqrestore(&desc->lock, flags);
}

static bool is_in(const struct jifl_names *names, unsigned long begin)
{
	u32 i;

	for (i = 0; i < names->n; i++)
		if (names->begins[i] == begin)
			return true;
	return false;
}

/* Adds the interrupt's functions, and its number as a value that their calls may have. */
static int add_irq(u32 irq, struct handlers *h, struct jifl_names *names, const char **mistake)
{
	struct jifl_condition *c = &names->condition;
	struct irq_desc *desc;
	int ret = 0;
	u32 i;

	h->n = 0;
	rcu_read_lock();
	desc = jifl_import(irq_to_desc)(irq);
	if (desc)
		look_at_actions(desc, h);
	rcu_read_unlock();
	if (!h->n)
		return 0;
	if (h->more || c->values == ARRAY_SIZE(c->value))
		return refused(mistake, -E2BIG, "one target has at most eight interrupts");
	c->value[c->values++] = irq;
	for (i = 0; i < h->n && !ret; i++)
		if (h->begins[i] && !is_in(names, h->begins[i]))
			ret = jifl_names_add(names, h->begins[i]);
	return ret;
}

static int find_irqs(const char *of, struct jifl_names *names, const char **mistake)
{
	struct handlers h = { .primary = jifl_ksym("irq_default_primary_handler") };
	u32 irq = 0, last = JIFL_KINDS_IRQS - 1;
	int ret = 0;

	if (!jifl_imported(irq_to_desc))
		return refused(mistake, -ENOENT, "the kernel does not tell what handles interrupts");
	if (kstrtou32(of, 10, &irq))
		h.name = of;
	else
		last = irq;
	for (; irq <= last && !ret; irq++) {
		ret = add_irq(irq, &h, names, mistake);
		cond_resched();
	}
	if (ret)
		return ret;
	if (!names->n)
		return refused(mistake, -ENOENT,
			       "no such interrupt of a device: /proc/interrupts has all");
	if (h.name && names->n > 1)
		return refused(mistake, -EINVAL,
			       "several functions handle interrupts of that name: give a number");
	return 0;
}

/* --- all kinds ----------------------------------------------------------------------------- */

/* What stands behind the prefix; NULL: it is not there, or nothing is. */
static const char *behind(const char *prefix, const char *named)
{
	const size_t size = str_has_prefix(named, prefix);

	return size && named[size] ? named + size : NULL;
}

bool jifl_kinds_find(const char *named, struct jifl_names *names, const char **mistake, int *ret)
{
	const char *of;

	if ((of = behind("softirq:", named)))
		*ret = find_softirqs(of, names, mistake);
	else if ((of = behind("irq:", named)))
		*ret = find_irqs(of, names, mistake);
	else if ((of = behind("work:", named)))
		*ret = find_called(of, work_callers, names, mistake);
	else if ((of = behind("timer:", named)))
		*ret = find_called(of, timer_callers, names, mistake);
	else if (behind("kthread:", named))
		*ret = refused(mistake, -EINVAL,
			       "kthread: its call began before, and plugins take over none: give a function that the thread calls, as fn:NAME");
	else if (behind("sys32:", named))
		*ret = refused(mistake, -EINVAL,
			       "sys32: give the function of the call, as fn:__ia32_sys_NAME");
	else
		return false;
	return true;
}
