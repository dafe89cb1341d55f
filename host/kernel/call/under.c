// SPDX-License-Identifier: GPL-2.0
/*
 * Calls that are made under something: a system call that the task is in, or a function that is on
 * the stack. So kmalloc is counted under execve, and not elsewhere.
 *
 * What is meant, and why it is found:
 *
 * 1. A task is in a system call from the kernel's entry until it is back at user mode. Its saved
 *    registers have the number: orig_ax. Exceptions and interrupts from user mode leave -1 there
 *    (arch/x86/entry/entry_64.S), and so does rt_sigreturn. A 32-bit call has TS_COMPAT set. Where
 *    execveat has loaded a program, the kernel writes execve. Kernel threads and workers of users
 *    are in none: what stands there is nothing, or their creator's. A helper that the kernel starts
 *    has no registers of a user until its program is loaded: both ip and sp are 0.
 * 2. A function is on the stack if a frame returns into it. The unwinder finds these frames, those
 *    of the code cache, too (run/unwind.c), and it resolves what return hooks have replaced. A
 *    function that ended in a jump (a tail call) is not on the stack.
 * 3. The frame of the call itself does not count: a function is not called under itself. Frames
 *    count from the one whose return address is the call's. It is the first frame whose word on the
 *    stack is that address: the frames further in are of this module, of ftrace's trampoline, and
 *    of the called function, whose word it is.
 * 4. A return address may be that of the next function, behind a call that does not return. So the
 *    byte before it is looked at; not where an exception has interrupted the frame's code.
 * 5. In softirqs and hard interrupts the task that was interrupted is not the caller. There the
 *    walk ends at the first frame that was interrupted. A softirq that the end of a section without
 *    softirqs starts has not interrupted that. It has a stack of its own, where the walk ends, too.
 * 6. If the walk meets a frame that the unwinder does not know, the call does not count.
 * 7. The walk calls functions of the kernel. Any may be a target, whose door would lead here again:
 *    these calls are the module's own (jifl_own_begin), and whether such a call is missed is not
 *    asked by another walk. In an NMI nothing is walked; nothing counts there anyhow.
 *
 * The list is made before the session is armed, freed with the session, and does not change. It
 * holds the modules of its functions, so no other code comes to their addresses.
 */
#include <linux/bitmap.h>
#include <linux/err.h>
#include <linux/hardirq.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/sort.h>
#include <linux/uaccess.h>
#include <asm/ibt.h>
#include <asm/syscall.h>
#include <asm/text-patching.h>
#include <asm/unwind.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/preempt.h"
#include "../compat/ksym.h"
#include "../text/ranges.h"
#include "../run/codemem.h"
#include "../leave/walk.h"
#include "../store/percpu.h"
#include "under.h"

/* Threads that have an address space of a user's and make no system calls. */
#ifdef PF_USER_WORKER
#define WORKERS	(PF_IO_WORKER | PF_USER_WORKER)
#else
#define WORKERS	PF_IO_WORKER
#endif

struct jifl_under {
	DECLARE_BITMAP(calls, JIFL_NR_MAX);
	struct module **modules;	/* of functions of modules; as many as there are */
	u32 nmodules;
	u32 nfunctions;
	struct text_range functions[];	/* sorted */
};

/* At each level: a walk is under way. Written with preemption off. */
static DEFINE_PER_CPU(bool[JIFL_NR_LEVELS], walking);

static int add_function(struct jifl_under *u, unsigned long begin)
{
	struct module *module;
	int ret;

	if (jifl_ksym_start(begin) != begin)
		return -ENOENT;
	ret = jifl_ksym_hold(begin, &module);
	if (ret)
		return ret;
	if (module)
		u->modules[u->nmodules++] = module;
	u->functions[u->nfunctions++] = (struct text_range){
		.start = begin, .end = jifl_ksym_end(begin),
	};
	return 0;
}

static int add(struct jifl_under *u, const struct jifl_target_spec *spec)
{
	if (spec->reserved || spec->scope || spec->flags || spec->condition)
		return -EINVAL;
	if (spec->kind == JIFL_TARGET_FUNCTION && !spec->id)
		return add_function(u, spec->address);
	if (spec->kind != JIFL_TARGET_SYSCALL || spec->address || spec->id >= JIFL_NR_MAX)
		return -EINVAL;
	__set_bit(spec->id, u->calls);
	return 0;
}

struct jifl_under *jifl_under_open(const struct jifl_target_spec __user *list, u32 n)
{
	struct jifl_target_spec spec;
	struct jifl_under *u;
	int ret = 0;
	u32 i;

	if (!n)
		return NULL;
	if (n > JIFL_UNDER_MAX)
		return ERR_PTR(-EINVAL);
	u = JIFL_ALLOC(kvzalloc(struct_size(u, functions, n), GFP_KERNEL));
	if (!u)
		return ERR_PTR(-ENOMEM);
	u->modules = JIFL_ALLOC(kvcalloc(n, sizeof(*u->modules), GFP_KERNEL));
	if (!u->modules)
		ret = -ENOMEM;
	for (i = 0; i < n && !ret; i++) {
		ret = copy_from_user(&spec, &list[i], sizeof(spec)) ? -EFAULT : add(u, &spec);
		cond_resched();
	}
	if (ret) {
		jifl_under_close(u);
		return ERR_PTR(ret);
	}
	sort(u->functions, u->nfunctions, sizeof(*u->functions), jifl_text_compare, NULL);
	return u;
}

void jifl_under_close(struct jifl_under *u)
{
	if (!u)
		return;
	while (u->nmodules)
		module_put(u->modules[--u->nmodules]);
	kvfree(u->modules);
	kvfree(u);
}

static bool is_in_call(const struct jifl_under *u)
{
	const struct pt_regs *regs = current_pt_regs();

	if (current->flags & (PF_KTHREAD | WORKERS) ||
	    current_thread_info()->status & TS_COMPAT || (!regs->ip && !regs->sp))
		return false;
	return regs->orig_ax < JIFL_NR_MAX && test_bit(regs->orig_ax, u->calls);
}

/* A byte of the instruction that the frame stands at: of its call, or one that was interrupted. */
static unsigned long place(const struct unwind_state *state)
{
	const bool returns = !state->regs;
	jifl_orig orig;
	u32 pushed;

	if (!jifl_codemem_has(state->ip))
		return state->ip - returns;
	/* The unwinder sees the original only when it goes on to the next frame. */
	switch (jifl_engine_where_stack(state->ip, returns, &orig, &pushed)) {
	case JIFL_WHERE_EXACT:
		return orig.v - returns;
	case JIFL_WHERE_INSIDE:
		return orig.v;
	default:
		return 0;
	}
}

/* Is it the call of a tracer, with which the function's own call begins? */
static bool is_tracers(const struct text_range *function, unsigned long at)
{
	if (at - function->start >= ENDBR_INSN_SIZE + CALL_INSN_SIZE)
		return false;
	return at - jifl_ksym_fentry(function->start) < CALL_INSN_SIZE;
}

static bool is_one_of(const struct jifl_under *u, unsigned long at)
{
	const struct text_range *function = jifl_text_find(u->functions, u->nfunctions, at);

	return function && !is_tracers(function, at);
}

static bool is_on_stack(const struct jifl_under *u, unsigned long caller, bool task)
{
	struct unwind_state state;
	enum stack_type stack;
	bool outside = false;

	unwind_start(&state, current, NULL, NULL);
	stack = state.stack_info.type;
	for (; !unwind_done(&state) && !unwind_error(&state); unwind_next_frame(&state)) {
		if (state.regs && (!task || user_mode(state.regs)))
			return false;
		if (!task && state.stack_info.type != stack)
			return false;
		outside = outside || JIFL_HOST_PLANTED(under_itself) ||
			  READ_ONCE_NOCHECK(*jifl_walk_slot(&state)) == caller;
		if (outside && is_one_of(u, place(&state)))
			return true;
	}
	return false;
}

static bool walk(const struct jifl_under *u, unsigned long caller, enum jifl_level level)
{
	bool holds;

	if (this_cpu_read(walking[level]))
		return false;
	this_cpu_write(walking[level], true);
	jifl_own_begin();
	holds = is_on_stack(u, caller, level == JIFL_LEVEL_TASK);
	jifl_own_end();
	this_cpu_write(walking[level], false);
	return holds;
}

bool jifl_under_holds(const struct jifl_under *u, unsigned long caller)
{
	enum jifl_level level;
	bool holds;

	if (in_nmi())
		return false;
	preempt_disable_notrace();
	level = jifl_level();
	holds = (level == JIFL_LEVEL_TASK && is_in_call(u)) ||
		(u->nfunctions && walk(u, caller, level)) || JIFL_HOST_PLANTED(under_ignored);
	jifl_preempt_enable();
	return holds;
}
