// SPDX-License-Identifier: GPL-2.0
/*
 * The text as it would be without the module's own breakpoints (jifl_host_lift_int3 of
 * engine/host.h). Copies are made of that text: a copy of a breakpoint could not be one.
 *
 * The module sets breakpoints as kprobes, and some without (tools/probe/int3.c). The kernel keeps
 * all kprobes of an address together, so it is asked who has one there. If anybody else has, the
 * breakpoint is not lifted: code from there on runs natively, and the other handler is called.
 *
 * A kprobe that joins one of the module's does not change the text, so copies stay. Its handler is
 * not called for executions of copies. docs/command.md says so to users.
 *
 * When all kprobes are switched off the kernel takes each breakpoint away. watch.c hears of each,
 * and the module's own are told here.
 *
 * Context: any, preemption off: kprobes are freed after an RCU grace period.
 */
#include <linux/kprobes.h>
#include <linux/rculist.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/import.h"
#include "overlay.h"

static kprobe_pre_handler_t own;
static void (*lifted)(struct kprobe *probe);
static bool (*without_kprobe)(unsigned long addr, u8 *byte);

void jifl_overlay_init(kprobe_pre_handler_t handler, void (*on_lifted)(struct kprobe *probe),
		       bool (*beneath)(unsigned long addr, u8 *byte))
{
	lifted = on_lifted;
	without_kprobe = beneath;
	own = handler;
}

static struct kprobe *probe_at(unsigned long addr)
{
	return own ? jifl_import(get_kprobe)((void *)addr) : NULL;
}

/* Are all handlers of the address the module's? */
static bool is_own(struct kprobe *at)
{
	struct kprobe *probe;
	bool any = false;

	if (at->pre_handler == own)
		return true;
	/* What stands for several has them on its list; any other kprobe has an empty list. */
	list_for_each_entry_rcu(probe, &at->list, list, true) {
		if (probe->pre_handler != own && !JIFL_HOST_PLANTED(kprobes_hidden))
			return false;
		any = true;
	}
	return any;
}

bool jifl_overlay_is_own(unsigned long addr, u8 *byte)
{
	struct kprobe *at;

	if (without_kprobe && without_kprobe(addr, byte))
		return true;
	at = probe_at(addr);
	if (!at)
		return false;
	*byte = at->opcode;
	return is_own(at);
}

bool jifl_overlay_has(unsigned long addr)
{
	return jifl_import(get_kprobe)((void *)addr);
}

static void tell(struct kprobe *at)
{
	struct kprobe *probe;

	if (at->pre_handler == own) {
		lifted(at);
		return;
	}
	list_for_each_entry_rcu(probe, &at->list, list, true)
		if (probe->pre_handler == own)
			lifted(probe);
}

void jifl_overlay_changes(unsigned long addr, const u8 *old, size_t len)
{
	struct kprobe *at;

	/* A jump that replaces a breakpoint changes more than one byte. */
	if (len != INT3_INSN_SIZE || *old != INT3_INSN_OPCODE)
		return;
	preempt_disable();
	at = probe_at(addr);
	if (at)
		tell(at);
	preempt_enable();
}

void jifl_host_lift_int3(jifl_orig addr, u8 *byte)
{
	u8 beneath;

	if (!JIFL_HOST_PLANTED(breakpoints_copied) && jifl_overlay_is_own(addr.v, &beneath))
		*byte = beneath;
}
