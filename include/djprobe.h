/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface of djprobe (M. Hiramatsu: "Overhead Evaluation about Kprobes and Djprobe (Direct
 * Jump Probe)", 2005) on probes of jifl.h, for plugins:
 *
 *	static void handler(struct djprobe *djp, struct pt_regs *regs) ...
 *	static struct djprobe djp = { .handler = handler };
 *
 *	register_djprobe(&djp, address);	unregister_djprobe(&djp);
 *
 * djprobe puts a jump over instructions of 5 bytes that nobody jumps into, in practice at the
 * beginning of a function. Here the handler is called before any instruction. All that
 * jifl_probe.h says of the functions of probes holds for the handler: it must not sleep, and it
 * must not change the registers. regs->ip is the address of the instruction.
 *
 * register_djprobe returns what the functions of jifl_probe.h return. It is called from
 * plugin_start on, and until the end of plugin_stop, as unregister_djprobe is.
 */
#ifndef _DJPROBE_H
#define _DJPROBE_H

#include "jifl.h"

struct djprobe {
	void (*handler)(struct djprobe *djp, struct pt_regs *regs);
	probe_t probe;			/* not for the plugin */
};

static inline int register_djprobe(struct djprobe *djp, void *addr)
{
	int ret = probe_init(&djp->probe, PROBE_BEFORE, (unsigned long)addr);

	ret = ret ?: probe_insert_call(&djp->probe, djp->handler, ARG_VOID_PTR, djp, ARG_CONTEXT,
				       ARG_END);
	return ret ?: probe_start(&djp->probe);
}

static inline void unregister_djprobe(struct djprobe *djp)
{
	probe_stop(&djp->probe);
}

#endif /* _DJPROBE_H */
