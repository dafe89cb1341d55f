// SPDX-License-Identifier: GPL-2.0
/*
 * A callback of ftrace's at functions' entries. The callback needs no protection against itself,
 * and says so: ftrace then calls it straight from its trampoline.
 */
#include <linux/ftrace.h>
#include <linux/kprobes.h>

#include "peers.h"

static void count_entry(unsigned long ip, unsigned long parent, struct ftrace_ops *ops,
			struct ftrace_regs *regs)
{
	peers_count();
}
NOKPROBE_SYMBOL(count_entry);

static void trace_entry(unsigned long ip, unsigned long parent, struct ftrace_ops *ops,
			struct ftrace_regs *regs)
{
	peers_trace(ip);
}
NOKPROBE_SYMBOL(trace_entry);

static struct ftrace_ops ops = { .flags = FTRACE_OPS_FL_RECURSION };
static bool filtered, started;

int peers_ftrace_add(unsigned long addr, enum peers_job job)
{
	int err = ftrace_set_filter_ip(&ops, addr, 0, 0);

	if (err)
		return err;
	ops.func = job == PEERS_TRACE ? trace_entry : count_entry;
	filtered = true;
	return 0;
}

/* Without a filter ftrace would take every function. */
int peers_ftrace_start(void)
{
	int err;

	if (!filtered)
		return 0;
	err = register_ftrace_function(&ops);
	started = !err;
	return err;
}

void peers_ftrace_remove(void)
{
	if (started)
		unregister_ftrace_function(&ops);
	/*
	 * The filter is made anew for the next use: ftrace_free_filter() leaves the filter's
	 * address behind, and the next ftrace_set_filter_ip() would free it again.
	 */
	if (filtered) {
		ftrace_free_filter(&ops);
		ops = (struct ftrace_ops){ .flags = FTRACE_OPS_FL_RECURSION };
	}
	started = false;
	filtered = false;
}
