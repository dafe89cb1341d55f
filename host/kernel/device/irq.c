// SPDX-License-Identifier: GPL-2.0
/*
 * JIFL_IOC_IRQ: says which functions handle an interrupt. In: struct jifl_irq. Context: process,
 * under the file's lock.
 *
 * An interrupt's descriptor is freed by RCU, and its actions come and go under the descriptor's
 * lock (kernel/irq/irqdesc.c, manage.c). So both stay while they are read here.
 */
#include <linux/errno.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../compat/import.h"
#include "request.h"

/* The n-th action of the interrupt; NULL: there is none. Under the descriptor's lock. */
static const struct irqaction *action_of(const struct irq_desc *desc, u32 n)
{
	const struct irqaction *action = desc->action;

	while (action && n--)
		action = action->next;
	return action;
}

static int fill(struct jifl_irq *req, struct irq_desc *desc)
{
	const struct irqaction *action;
	unsigned long flags;

	raw_spin_lock_irqsave(&desc->lock, flags);
	action = action_of(desc, req->action);
	if (action) {
		req->handler = (unsigned long)action->handler;
		req->thread = (unsigned long)action->thread_fn;
		strscpy(req->name, action->name ?: "", sizeof(req->name));
	}
	raw_spin_unlock_irqrestore(&desc->lock, flags);
	return action ? 0 : -ENOENT;
}

int jifl_irq_request(struct jifl_file *f, void *arg)
{
	struct jifl_irq *req = arg;
	struct irq_desc *desc;
	int ret = jifl_read_may_see("irq");

	if (ret)
		return ret;
	if (req->reserved)
		return -EINVAL;
	if (!jifl_import_has(JIFL_IMPORT_irq_to_desc))
		return -EOPNOTSUPP;
	memset(req->name, 0, sizeof(req->name));
	ret = -ENOENT;
	rcu_read_lock();
	desc = jifl_import(irq_to_desc)(req->irq);
	if (desc)
		ret = fill(req, desc);
	rcu_read_unlock();
	return ret;
}
