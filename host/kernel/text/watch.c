// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel changes its text while JIFL runs: blocks that were translated from the old bytes are
 * dropped. The functions are called in process context with text_mutex and whatever else the
 * patching code holds. They take the engine lock and nothing more.
 *
 *   perf_event_text_poke  Jump labels, static calls, ftrace, kprobes and their
 *      optimisation tell perf what they change. At that time the new bytes are in
 *      place behind an int3, or only that int3 is still in front of them. A
 *      translation from here on sees the new bytes, or it sees the int3: then the
 *      code runs natively and this is not remembered. Where an int3 goes, overlay.c
 *      looks whether it was a breakpoint of the module's own.
 *   text_poke  Lock prefixes that come back when a second CPU is brought up, and
 *      relocations of livepatches, are written without a message to perf. This
 *      function is called before the write, so each call also drops what the call
 *      before it wrote.
 *   modules  Their text goes with them. When the notifier runs, the text is no
 *      longer executed, and it is not translated again because the module is not
 *      live.
 */
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/module.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "function.h"
#include "hooks.h"
#include "jump.h"
#include "overlay.h"
#include "watch.h"

/* The arguments of the last text_poke; text_mutex. */
static struct {
	unsigned long addr;
	u32 len;
} last;

static void drop(unsigned long addr, u32 len)
{
	if (len)
		jifl_engine_invalidate(jifl_orig_at(addr), len);
}

/* (addr, old bytes, old length, new bytes, new length) */
static void on_perf_text_poke(struct pt_regs *regs)
{
	unsigned long from = regs->di;

	if (regs->r8)
		from = jifl_jump_changes(regs->di, *(const u8 *)regs->cx);
	if (!JIFL_HOST_PLANTED(pokes_ignored))
		drop(from, regs->di - from + max_t(u32, regs->dx, regs->r8));
	jifl_overlay_changes(regs->di, (const u8 *)regs->si, regs->dx);
}

/* (addr, bytes, length) */
static void on_text_poke(struct pt_regs *regs)
{
	drop(last.addr, last.len);
	last.addr = regs->di;
	last.len = regs->dx;
	drop(last.addr, last.len);
}

static struct jifl_hook hooks[] = {
	{ "perf_event_text_poke", on_perf_text_poke, true },
	{ "text_poke", on_text_poke, true },
};

static int module_changed(struct notifier_block *nb, unsigned long state, void *data)
{
	unsigned long base, size;

	if (state == MODULE_STATE_GOING && !JIFL_HOST_PLANTED(module_text_kept)) {
		jifl_compat_module_text(data, &base, &size);
		drop(base, size);
		if (!JIFL_HOST_PLANTED(functions_kept))
			jifl_function_forget();
	}
	return NOTIFY_OK;
}

static struct notifier_block module_notifier = {
	.notifier_call = module_changed,
};

int jifl_watch_init(void)
{
	int err = jifl_hooks_add(hooks, ARRAY_SIZE(hooks));

	if (err)
		return err;
	err = JIFL_TRY(register_module_notifier(&module_notifier));
	if (err)
		jifl_hooks_remove(hooks, ARRAY_SIZE(hooks));
	return err;
}

void jifl_watch_exit(void)
{
	unregister_module_notifier(&module_notifier);
	jifl_hooks_remove(hooks, ARRAY_SIZE(hooks));
}
