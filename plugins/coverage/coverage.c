// SPDX-License-Identifier: GPL-2.0
/*
 * coverage: which places of the kernel a test reaches, at a cost that falls as they are reached.
 * There is a breakpoint at each place. The first thread that comes there records it and takes the
 * breakpoint away. What has been reached runs as if it had never been probed.
 *
 *	echo vfs_read+0x40 > /sys/module/coverage/parameters/place	(each write adds one)
 *	jifl start coverage; ...; jifl read coverage; jifl stop coverage; dmesg
 *
 * `jifl cfg fn:vfs_read` lists the blocks of a function: their first instructions are such places.
 * `jifl read` names each place that was reached, in the order in which it was reached first.
 * Stopping says which were not reached. Writing nothing ("") empties the list, which can be changed
 * while the plugin is stopped.
 */
#include <jifl.h>
#include <linux/moduleparam.h>

#undef pr_fmt
#define pr_fmt(fmt) fmt

enum { PLACES = 2048 };

static probe_t probes[PLACES];
static unsigned long reached[PLACES];
static unsigned int nplaces;
static bool started;			/* the list stays as it is */
static ring_t ring;

/* Analysis. Threads that come at the same time, and until the breakpoint is gone, find it set. */
static void reach(unsigned int i)
{
	unsigned long address = probe_address(&probes[i]);

	if (xchg(&reached[i], 1))
		return;
	probe_stop_later(&probes[i]);
	ring_put(&ring, &address);
}

static void show(const void *data, const struct ring_info *info, char *line, size_t size)
{
	scnprintf(line, size, "%pS", *(void *const *)data);
}

static int place_set(const char *value, const struct kernel_param *unused)
{
	char line[KSYM_NAME_LEN], *name, *offset;
	unsigned long at = 0;
	int ret;

	if (started)
		return -EBUSY;
	strscpy(line, value, sizeof(line));
	name = strim(line);
	if (!*name)
		nplaces = 0;
	if (!*name || nplaces == PLACES)
		return *name ? -ENOSPC : 0;
	offset = strchr(name, '+');
	if (offset)
		*offset++ = 0;
	ret = offset ? kstrtoul(offset, 0, &at) : 0;
	ret = ret ?: probe_init_name(&probes[nplaces], PROBE_BEFORE | PROBE_SELDOM, name, at);
	ret = ret ?: probe_insert_call(&probes[nplaces], reach, ARG_INT32, nplaces, ARG_END);
	nplaces += !ret;
	return ret;
}

static const struct kernel_param_ops place_ops = { .set = place_set };
module_param_cb(place, &place_ops, NULL, 0200);
MODULE_PARM_DESC(place, "a place that is added: function+offset");

static int plugin_init(void)
{
	return 0;
}

static void plugin_exit(void)
{
}

static int plugin_start(void)
{
	int ret = ring_init(&ring, sizeof(unsigned long), PLACES, show);

	memset(reached, 0, sizeof(reached));
	ret = ret ?: probe_start_all(probes, nplaces);
	started = !ret;
	return ret;
}

static void plugin_stop(void)
{
	unsigned int i, n = 0;

	probe_stop_all(probes, nplaces);
	for (i = 0; i < nplaces; i++) {
		n += reached[i];
		if (!reached[i])
			pr_info("coverage: not reached: %pS\n", (void *)probe_address(&probes[i]));
	}
	pr_info("coverage: %u of %u places were reached\n", n, nplaces);
	started = false;
}
