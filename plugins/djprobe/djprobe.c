// SPDX-License-Identifier: GPL-2.0
/*
 * djprobe: the probe of the paper that jump-optimised kprobes began with, in its own form. It shows
 * the first argument of a function each time that the function is called, as the paper's list 8
 * records it: where, which argument, who called.
 *
 *	echo vfs_read > /sys/module/djprobe/parameters/function
 *	jifl start djprobe; cat /proc/version; jifl read djprobe; jifl stop djprobe
 *
 * See include/djprobe.h.
 */
#include <djprobe.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>

static char function[64] = "vfs_read";
module_param_string(function, function, sizeof(function), 0644);
MODULE_PARM_DESC(function, "name of the function");

static ring_t ring;

struct record {
	unsigned long ip, di;
	pid_t pid;
};

/* Runs before the function's first instruction, in whatever context it is called. */
static void handler(struct djprobe *djp, struct pt_regs *regs)
{
	struct record record = { .ip = regs->ip, .di = regs->di, .pid = current->pid };

	ring_put(&ring, &record);
}

static struct djprobe djp = { .handler = handler };

static void show(const void *data, const struct ring_info *info, char *line, size_t size)
{
	const struct record *record = data;

	scnprintf(line, size, "%llu %d %pS di %lx", info->ns, record->pid, (void *)record->ip,
		  record->di);
}

static int plugin_init(void)
{
	return 0;
}

static void plugin_exit(void)
{
}

static int plugin_start(void)
{
	int ret = ring_init(&ring, sizeof(struct record), 4096, show);

	return ret ?: register_djprobe(&djp, (void *)symbol_address(strim(function)));
}

static void plugin_stop(void)
{
	unregister_djprobe(&djp);
}
