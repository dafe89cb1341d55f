// SPDX-License-Identifier: GPL-2.0
/*
 * gtod_peers: a kprobe or a kretprobe at FUNCTION+OFFSET whose handler does nothing. To compare
 * with plugins/gtod.c.
 */
#include <linux/kprobes.h>
#include <linux/module.h>

static char *function = "";
module_param(function, charp, 0444);
static unsigned int offset;
module_param(offset, uint, 0444);
static bool at_return;
module_param(at_return, bool, 0444);

static int nothing(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}
NOKPROBE_SYMBOL(nothing);

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}
NOKPROBE_SYMBOL(returned);

static struct kprobe probe = { .pre_handler = nothing };
static struct kretprobe ret_probe = { .handler = returned, .maxactive = 16 };

static int __init gtod_peers_init(void)
{
	if (at_return) {
		ret_probe.kp.symbol_name = function;
		return register_kretprobe(&ret_probe);
	}
	probe.symbol_name = function;
	probe.offset = offset;
	return register_kprobe(&probe);
}

static void __exit gtod_peers_exit(void)
{
	if (at_return)
		unregister_kretprobe(&ret_probe);
	else
		unregister_kprobe(&probe);
}

module_init(gtod_peers_init);
module_exit(gtod_peers_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Probes that do nothing");
