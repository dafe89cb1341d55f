// SPDX-License-Identifier: GPL-2.0
/*
 * Moves threads out of code whose original has changed. The engine has put an int3 before each
 * instruction of that code (jifl_engine_invalidate). A thread that executes one of them goes on in
 * a new translation. Int3s of jumps in place are asked about first: text/jump.c.
 *
 * Context: that of int3 exceptions, which is any, including NMI. on_trap takes no lock of the
 * engine. The thread reaches the dispatcher only after the exception has returned.
 */
#include <linux/atomic.h>
#include <linux/kdebug.h>
#include <linux/limits.h>

#include "../kernel.h"
#include "../plant.h"
#include "../text/jump.h"
#include "dispatch.h"
#include "events.h"
#include "trap.h"

static atomic64_t traps;

/*
 * When exc_int3 is entered from kernel mode, it leaves a gap of six words above its frame, for
 * text_poke's emulation of calls. on_trap pushes struct jifl_frame into this gap.
 */
static int on_trap(struct notifier_block *nb, unsigned long val, void *data)
{
	struct pt_regs *regs = ((struct die_args *)data)->regs;
	struct jifl_frame *frame;
	enum jifl_trap trap;

	if (val != DIE_INT3 || user_mode(regs))
		return NOTIFY_DONE;
	if (jifl_jump_trap(regs))
		return NOTIFY_STOP;
	if (JIFL_HOST_PLANTED(traps_ignored))
		return NOTIFY_DONE;
	frame = (struct jifl_frame *)regs->sp - 1;
	trap = jifl_engine_trap(regs->ip - 1, frame);
	if (trap == JIFL_TRAP_NONE)
		return NOTIFY_DONE;
	/* A part of the block has run. How much of it was counted is unknown. */
	if (trap == JIFL_TRAP_INSIDE) {
		jifl_run_events->lose(jifl_engine_context_arg(regs->ip - 1));
		frame->target = jifl_run_events->begun(regs->ip - 1, frame->target);
	}
	regs->sp = (unsigned long)frame;
	regs->ip = (unsigned long)jifl_dispatch_indirect;
	atomic64_inc(&traps);
	return NOTIFY_STOP;
}

static struct notifier_block trap_notifier = {
	.notifier_call = on_trap,
	.priority = INT_MAX,
};

int jifl_trap_init(void)
{
	return JIFL_TRY(register_die_notifier(&trap_notifier));
}

void jifl_trap_exit(void)
{
	unregister_die_notifier(&trap_notifier);
}

u64 jifl_trap_count(void)
{
	return atomic64_read(&traps);
}
