// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel functions whose arguments are rewritten on the way in, by ftrace
 * callbacks.
 *
 * Context: add and remove: process context, they sleep. Callbacks: every context in which the
 * hooked functions are called, including NMI.
 *
 * The hooks do not set ftrace's flag for protection against recursion. This protection would drop
 * calls, for example those of a page fault inside an unwind. The callbacks call nothing that can be
 * hooked here, so they cannot recurse. Functions of the kernel that may have doors are called as
 * code of the module (jifl_own_begin). If another tracer traces the same function, ftrace calls
 * both callbacks from a list. The list has protection of its own: it lets one nested call through
 * for each of task, softirq, interrupt and NMI. No thread in the code cache is inside such a
 * callback.
 */
#include <linux/ftrace.h>
#include <linux/slab.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/ksym.h"
#include "hooks.h"

struct jifl_hook_state {
	struct ftrace_ops ops;
	unsigned int n;
	struct {
		unsigned long site;
		void (*fn)(struct pt_regs *regs);
	} hook[];
};

static void call_hook(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
		      struct ftrace_regs *fregs)
{
	struct jifl_hook_state *s = ops->private;
	struct pt_regs *regs = ftrace_get_regs(fregs);
	unsigned int i;

	if (!regs)
		return;
	for (i = 0; i < s->n; i++) {
		if (s->hook[i].site == ip) {
			s->hook[i].fn(regs);
			return;
		}
	}
}

static int add_site(struct jifl_hook_state *s, const struct jifl_hook *h)
{
	unsigned long site = jifl_ksym_fentry(jifl_ksym(h->name));
	int err;

	if (!site) {
		if (!h->required)
			return 0;
		pr_err("%s cannot be hooked, it has no fentry site: use a kernel that traces it\n",
		       h->name);
		return -EOPNOTSUPP;
	}
	err = JIFL_TRY(ftrace_set_filter_ip(&s->ops, site, 0, 0));
	if (err) {
		pr_err("cannot hook %s: error %d\n", h->name, err);
		return err;
	}
	s->hook[s->n].site = site;
	s->hook[s->n++].fn = h->fn;
	return 0;
}

static int register_hooks(struct jifl_hook_state *s, const char *first)
{
	int err = JIFL_TRY(register_ftrace_function(&s->ops));

	if (err == -EBUSY)
		pr_err("cannot hook %s, ftrace is switched off: run sysctl kernel.ftrace_enabled=1\n",
		       first);
	else if (err)
		pr_err("cannot hook %s: error %d\n", first, err);
	return err;
}

int jifl_hooks_add(struct jifl_hook *hooks, unsigned int n)
{
	struct jifl_hook_state *s;
	unsigned int i;
	int err = 0;

	s = JIFL_ALLOC(kzalloc(struct_size(s, hook, n), GFP_KERNEL));
	if (!s)
		return -ENOMEM;
	s->ops.func = call_hook;
	s->ops.private = s;
	/* PERMANENT: the kernel refuses kernel.ftrace_enabled=0 while the hooks are set. */
	s->ops.flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_PERMANENT;

	for (i = 0; i < n && !err; i++)
		err = add_site(s, &hooks[i]);
	/* With an empty filter ftrace would call it for every function. */
	if (!err && s->n)
		err = register_hooks(s, hooks[0].name);
	if (err || !s->n) {
		ftrace_free_filter(&s->ops);
		kfree(s);
		return err;
	}
	hooks[0].state = s;
	return 0;
}

void jifl_hooks_remove(struct jifl_hook *hooks, unsigned int n)
{
	struct jifl_hook_state *s = n ? hooks[0].state : NULL;

	if (!s)
		return;
	/* Waits until no CPU is inside the callback or its trampoline. */
	if (WARN_ON(unregister_ftrace_function(&s->ops)))
		return;
	ftrace_free_filter(&s->ops);
	kfree(s);
	hooks[0].state = NULL;
}
