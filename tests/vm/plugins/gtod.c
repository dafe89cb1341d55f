// SPDX-License-Identifier: GPL-2.0
/*
 * Handlers of djprobe's form at FUNCTION+OFFSET. The parameter `how` says what they do:
 *	noop	nothing, as in the paper's list 4
 *	call	nothing, but they call a function: so they are called with a guard
 *	record	write a record of 64 bytes, as in the paper's list 11
 */
#include <djprobe.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

static char function[64], how[16] = "noop";
module_param_string(function, function, sizeof(function), 0644);
module_param_string(how, how, sizeof(how), 0644);
static unsigned long offset;
module_param(offset, ulong, 0644);

static ring_t ring;

struct record {
	unsigned long words[8];
};

static void noop(struct djprobe *djp, struct pt_regs *regs)
{
}

static noinline void called(void)
{
	barrier();
}

static void call(struct djprobe *djp, struct pt_regs *regs)
{
	called();
	barrier();
}

static void record(struct djprobe *djp, struct pt_regs *regs)
{
	struct record record = { { regs->ip, regs->di, regs->si, regs->dx, regs->cx, regs->r8,
				   regs->r9, regs->sp } };

	ring_put(&ring, &record);
}

static struct djprobe djp;

static void show(const void *data, const struct ring_info *info, char *line, size_t size)
{
	const struct record *record = data;

	scnprintf(line, size, "%llu %lx", info->ns, record->words[0]);
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
	int ret = ring_init(&ring, sizeof(struct record), 65536, show);
	const unsigned long address = symbol_address(strim(function));

	strim(how);
	djp.handler = !strncmp(how, "record", 6) ? record : !strncmp(how, "call", 4) ? call : noop;
	return ret ?: address ? register_djprobe(&djp, (void *)(address + offset)) : -ENOENT;
}

static void plugin_stop(void)
{
	unregister_djprobe(&djp);
}
