// SPDX-License-Identifier: GPL-2.0
/*
 * The guards at the doors of functions. A function can be called anywhere. Its copy runs in the
 * cache only where this is known to be right:
 *
 *   NMI, and what may interrupt anything (#DB, #MC, int3)  The dispatcher takes a lock that the
 *	interrupted code may hold.
 *   softirqs that can be preempted (PREEMPT_RT)  call/levels.c relies on that they cannot.
 *   idle tasks  are not on the list of tasks, so eviction would not see their stacks. An interrupt
 *	of an idle task has ended when eviction looks.
 *   where RCU does not watch  A module's text may go while it is translated (text/text.c).
 *   the thread that stops the machine  Eviction's scan is run by it, and does not see its stack.
 *   the module's own code  See jifl_own_begin.
 *
 * Context of jifl_guard_check: any, preemption off.
 *
 * Doors that lead straight to a piece (door_table.c) must know the same by few instructions.
 * jifl_function_stub and jifl_jump_stub look at the count of interrupts first.
 *
 * If an interrupt or a softirq is counted, the task that it interrupts does not matter: what is
 * guarded there are NMIs, which are counted, and the module's own code at these levels, which
 * jifl_cpu.own counts. The stubs look at both. With PREEMPT_RT no door leads straight.
 *
 * If none is counted, they compare rsp with the stack that jifl_cpu.stack remembers. If rsp is on
 * that stack, the call is of a task that neither is idle nor stops the machine, at task level, and
 * not the module's own:
 *
 * 1. Only these stubs remember a stack, of a task that is not idle and does not stop the machine,
 *    when rsp is on the task's stack, no interrupt is counted, and no code of the module's runs at
 *    task level. They write to the CPU on which the task runs then. That may be another one than
 *    where they have looked, and there no code of the module's runs at task level either: it would
 *    have preemption off, and the task could not run there.
 * 2. Code of the module changes what is remembered when it begins (jifl_own_begin), after it has
 *    said that it runs, and changes it back when it ends. In between it is no address of a stack.
 *    The CPU remembers no other stack then, by 1. and because preemption is off. Code of the module
 *    in an interrupt has ended when the task goes on.
 * 3. Stacks of interrupts, of exceptions and of the dispatcher are no task's at any time. A CPU has
 *    its own before it runs tasks, or they are of the module. Interrupts and softirqs run on a
 *    task's stack where they have come from user mode, are run by a thread for softirqs, or are
 *    short, and count themselves. Before that, and after it, an interrupt is on the stack that it
 *    has interrupted. What it calls there is taken for a call of the task, by jifl_level, too. It
 *    may enter: the task may, RCU watches from irqentry_enter on (where it does not track
 *    contexts), and it ends before the task goes on.
 *    In __switch_to rsp is on the next task's stack before `current` is that task. A call there is
 *    taken for one of the next task's. Its lanes are there already, and interrupts are off.
 * 4. The stack that is remembered may belong to another task meanwhile, because the first one has
 *    died. All holds for this one, too, unless it is idle, stops the machine, or injects idle time.
 * 5. A CPU's idle task and the thread that stops it have had their stacks since before the CPU came
 *    up the first time, and keep them. The thread has become a stopper before it runs there, and
 *    neither runs on another CPU from then on. So this CPU never remembers one of these stacks.
 * 6. A thread injects idle time by play_idle_precise: a kernel thread, on a CPU that it does not
 *    leave. At the beginning of that function, which cannot be a target, jifl_guard_injects is set
 *    for good, and then the CPU forgets the stack that it remembers. From then on no stack of a
 *    kernel thread is remembered. So no call that the thread makes while it is idle finds its stack
 *    remembered. Threads that have read jifl_guard_injects before remember their own stack. One
 *    that was at the beginning of that function when the module came is not told of: it makes no
 *    call that can have a door before PF_IDLE says what it is.
 */
#include <linux/kconfig.h>
#include <linux/preempt.h>
#include <linux/sched.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/ksym.h"
#include "../store/percpu.h"
#include "../text/hooks.h"
#include "guard.h"

/* stubs.S reads these two. */
const void *jifl_guard_stop_class;	/* of the threads that stop the machine */
bool jifl_guard_injects;		/* some thread has injected idle time */

/* Step 6 in the head of this file. */
static void forget_stack(struct pt_regs *regs)
{
	WRITE_ONCE(jifl_guard_injects, true);
	if (JIFL_HOST_PLANTED(stacks_remembered))
		return;
	/* Behind the flag this thread's stack is not remembered again. */
	this_cpu_write(jifl_cpu.stack, 0);
}

static struct jifl_hook hooks[] = {
	{ "play_idle_precise", forget_stack, true },
};

int jifl_guard_init(void)
{
	jifl_guard_stop_class = (const void *)jifl_ksym("stop_sched_class");
	if (jifl_guard_stop_class)
		return jifl_hooks_add(hooks, ARRAY_SIZE(hooks));
	pr_err("no stop_sched_class: use a kernel built with CONFIG_SMP\n");
	return -EOPNOTSUPP;
}

void jifl_guard_exit(void)
{
	jifl_hooks_remove(hooks, ARRAY_SIZE(hooks));
}

int jifl_guard_check(enum jifl_level level)
{
	if (in_nmi() && !JIFL_HOST_PLANTED(nmi_entered))
		return JIFL_MISS_NMI;
	if (this_cpu_read(jifl_cpu.own[level]))
		return JIFL_MISS_OWN;
	if (IS_ENABLED(CONFIG_PREEMPT_RT) && level == JIFL_LEVEL_SOFTIRQ)
		return JIFL_MISS_SOFTIRQ;
	if (level != JIFL_LEVEL_TASK)
		return -1;
	if (!current->pid && !JIFL_HOST_PLANTED(idle_entered))
		return JIFL_MISS_IDLE;
	if (current->sched_class == jifl_guard_stop_class && !JIFL_HOST_PLANTED(stoppers_entered))
		return JIFL_MISS_STOPPER;
	return -1;
}
