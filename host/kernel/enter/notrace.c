// SPDX-License-Identifier: GPL-2.0
/*
 * The kind JIFL_TARGET_NOTRACE: functions without an fentry site, so without a door. The kernel has
 * many: inline functions that were not inlined, which it compiles with notrace; whole files, as
 * those of its tracers; assembly. The tool probe alone has such targets. Its breakpoints stand in
 * the text itself (tools/probe/set.c), and a thread that meets one goes on in the cache
 * (tools/probe/catch.c). That proof does not need the function's beginning.
 *
 * A function of a module: the target holds the module, as function.c does.
 *
 * The kind JIFL_TARGET_INSIDE: the same of any function, also of one with a site, and each session
 * has targets of its own. Probes of plugins have them: any number of sessions may have a function
 * then. limit.c does not find such a target. So a jump to the function's beginning leaves the
 * session's context, as in each other function, and meets the breakpoint, if there is one.
 *
 * Context: process, sleeps; under target.c's mutex. jifl_notrace_starting: interrupts off.
 */
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "../kernel.h"
#include "../compat/ksym.h"
#include "target.h"

static DEFINE_HASHTABLE(notrace_functions, 8);	/* by the address where they begin */

static u64 notrace_address(u64 begin)
{
	return begin;
}

struct jifl_target *jifl_notrace_starting(unsigned long begin)
{
	struct jifl_target *t;

	hash_for_each_possible_rcu_notrace(notrace_functions, t, node, begin)
		if (t->id == begin)
			return t;
	return NULL;
}

static struct jifl_target *notrace_find(u64 begin)
{
	return jifl_notrace_starting(begin);
}

static int notrace_add(struct jifl_target *t)
{
	int err = jifl_ksym_hold(t->id, &t->module);

	if (!err)
		hash_add_rcu(notrace_functions, &t->node, t->id);
	return err;
}

static void notrace_drop(struct jifl_target *t)
{
	hash_del_rcu(&t->node);
	module_put(t->module);
	kfree_rcu(t, rcu);
}

static void notrace_redirect(const struct jifl_target *t, u64 to)
{
}

static struct jifl_target *inside_find(u64 begin)
{
	return NULL;
}

static int inside_add(struct jifl_target *t)
{
	return jifl_ksym_hold(t->id, &t->module);
}

static void inside_drop(struct jifl_target *t)
{
	module_put(t->module);
	kfree_rcu(t, rcu);
}

const struct jifl_target_type jifl_target_inside = {
	.address = notrace_address,
	.find = inside_find,
	.add = inside_add,
	.drop = inside_drop,
	.redirect = notrace_redirect,
};

const struct jifl_target_type jifl_target_notrace = {
	.address = notrace_address,
	.find = notrace_find,
	.add = notrace_add,
	.drop = notrace_drop,
	.redirect = notrace_redirect,
};
