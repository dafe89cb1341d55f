// SPDX-License-Identifier: GPL-2.0
/*
 * Writes one line to the log for each wrong call of a plugin. Inside callbacks nothing may be
 * printed, because the interrupted code may hold locks of the console or the scheduler. So an
 * irq_work prints the first mistake that callbacks make after each start.
 */
#include <linux/irq_work.h>
#include <linux/irqflags.h>
#include <linux/printk.h>
#include <linux/string.h>

#include "plugin.h"

/* A line on its way to the log. The CPU that sets busy owns it. */
static struct {
	atomic_t busy;
	char plugin[JIFL_NAME_MAX];
	const char *what;	/* a text of this module, so it stays */
	const char *mistake;
} jifl_plugin_line;

static void jifl_plugin_print(struct irq_work *work)
{
	pr_warn("plugin %s: %s: %s\n", jifl_plugin_line.plugin, jifl_plugin_line.what,
		jifl_plugin_line.mistake);
	atomic_set_release(&jifl_plugin_line.busy, 0);
}

static struct irq_work jifl_plugin_work = IRQ_WORK_INIT(jifl_plugin_print);

int jifl_plugin_mistake(struct jifl_plugin *p, int error, const char *what, const char *mistake)
{
	if (!irqs_disabled()) {
		pr_warn("plugin %s: %s: %s\n", p->name, what, mistake);
		return error;
	}
	if (READ_ONCE(p->complained))
		return error;
	WRITE_ONCE(p->complained, true);
	if (atomic_cmpxchg_acquire(&jifl_plugin_line.busy, 0, 1))
		return error;
	strscpy(jifl_plugin_line.plugin, p->name, JIFL_NAME_MAX);
	jifl_plugin_line.what = what;
	jifl_plugin_line.mistake = mistake;
	irq_work_queue(&jifl_plugin_work);
	return error;
}

void jifl_plugin_mistake_exit(void)
{
	irq_work_sync(&jifl_plugin_work);
}
