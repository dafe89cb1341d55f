// SPDX-License-Identifier: GPL-2.0
/*
 * Stack walks and reports see original addresses. An unwinder finds the same frames in an
 * instrumented system call as in a native one, with the same names.
 *
 * Each callback only rewrites the arguments of the hooked kernel function. Context: every context
 * in which that function is called, including NMI.
 */
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched/task_stack.h>
#include <asm/unwind.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../compat/ksym.h"
#include "../store/percpu.h"
#include "../text/hooks.h"
#include "../text/jump.h"
#include "../text/return_site.h"
#include "codemem.h"
#include "unwind.h"

/* Native handlers return to do_syscall_64. */
static unsigned long caller_start, caller_end;

/*
 * Copies of instructions outside the code cache are of two kinds: of single ones (tools/probe/
 * step.c), and those in gates (text/jump.h). NULL: there is no tool with the first kind.
 */
static unsigned long (*copied_from)(unsigned long addr);

void jifl_unwind_know_copies(unsigned long (*original)(unsigned long addr))
{
	WRITE_ONCE(copied_from, original);
}

/*
 * The original of an address in such a copy, or 0. is_return: the kernel looks at the byte before
 * it. Single instructions call nothing.
 */
static unsigned long original_of_copy(unsigned long addr, bool is_return)
{
	unsigned long (*original)(unsigned long addr);
	unsigned long found;

	if (jifl_gate_at(addr))
		return jifl_gate_original(addr, is_return);
	if (!READ_ONCE(copied_from))
		return 0;
	preempt_disable_notrace();
	original = READ_ONCE(copied_from);
	found = original ? original(addr) : 0;
	preempt_enable_notrace();
	return found;
}

unsigned long jifl_unwind_original(unsigned long addr)
{
	const unsigned long copied = original_of_copy(addr, true);
	jifl_orig orig;
	u32 pushed;

	if (copied)
		return copied;
	if (!jifl_codemem_has(addr) ||
	    jifl_engine_where_stack(addr, true, &orig, &pushed) == JIFL_WHERE_OUTSIDE)
		return addr;
	return orig.v;
}

/*
 * True if addr is in the call of an entry piece, or right after it. This frame has no counterpart:
 * natively x64_sys_call jumps to the handler, which returns to do_syscall_64.
 */
static bool in_entry_piece(unsigned long addr)
{
	jifl_orig orig;
	u32 pushed;

	return jifl_engine_where_stack(addr, true, &orig, &pushed) != JIFL_WHERE_OUTSIDE &&
	       orig.v == jifl_return_site();
}

/*
 * Steps over a frame that is only a return address: the frame of an entry piece, or of a stub that
 * an indirect branch has entered and whose target is not known yet. Fails if a tracer has put its
 * trampoline there, because only the unwinder can resolve that.
 */
static bool step_over(struct unwind_state *state)
{
	unsigned long *sp = (unsigned long *)state->sp;
	unsigned long ip;

	if ((void *)sp < (void *)state->stack_info.begin ||
	    (void *)(sp + 1) > (void *)state->stack_info.end)
		return false;
	ip = READ_ONCE_NOCHECK(*sp);
	if (!jifl_codemem_has(ip) && (ip < caller_start || ip >= caller_end))
		return false;
	state->ip = ip;
	state->sp += sizeof(ip);
	state->signal = false;
	return true;
}

/*
 * Replaces a frame in the cache by the original frame. The kernel looks up the byte before a return
 * address, which is in the call. If the return leads into inserted code, the frame is that of the
 * following original instruction, before it runs.
 */
static void settle(struct unwind_state *state)
{
	const unsigned long copied = original_of_copy(state->ip, !state->signal);
	enum jifl_where where;
	jifl_orig orig;
	u32 pushed;

	if (copied) {
		state->ip = copied;
		return;
	}
	/* Most frames of most walks. */
	if (!jifl_codemem_has(state->ip))
		return;
	do {
		where = jifl_engine_where_stack(state->ip, !state->signal, &orig, &pushed);
		if (where == JIFL_WHERE_OUTSIDE)
			return;
		state->sp += pushed;
		state->ip = orig.v;
	} while (orig.v == jifl_return_site() && step_over(state));
	if (where == JIFL_WHERE_INSIDE && !state->signal)
		state->ip++;
}

/*
 * Levels of contexts that interrupt each other. perf and the unwinder do not recur within one, but
 * for a BPF program at a place in a walk's callback: the outer walk may end early then.
 */
#define NR_LEVELS	4

static unsigned int level(void)
{
	if (in_nmi())
		return 3;
	if (in_hardirq())
		return 2;
	return in_serving_softirq() ? 1 : 0;
}

/*
 * If a function realigns its stack, only r10 tells where its frame is. The unwinder takes r10 from
 * an interrupt's registers. These do not exist when an analysis function is called, so the unwinder
 * is given the r10 that inserted code has saved. Each level has its own registers, like copies. If
 * another task preempts this one and overwrites them, the walk ends early. Nothing worse happens,
 * because the unwinder checks what it reads.
 */
static DEFINE_PER_CPU(struct pt_regs[NR_LEVELS], saved);

/* Of these registers only r10 and cs are ever written, and cs is always the same. */
u64 jifl_unwind_keep(void)
{
	return this_cpu_ptr(saved)[level()].r10;
}

void jifl_unwind_give_back(u64 outer)
{
	this_cpu_ptr(saved)[level()].r10 = outer;
}

static void show_saved(struct unwind_state *state)
{
	struct pt_regs *regs = raw_cpu_ptr(&saved[level()]);
	unsigned long *slot;
	u32 at;

	if (state->regs || state->signal || !jifl_codemem_has(state->ip) ||
	    !jifl_engine_where_r10(state->ip, &at))
		return;
	slot = (unsigned long *)(state->sp + at);
	if ((void *)slot < (void *)state->stack_info.begin ||
	    (void *)(slot + 1) > (void *)state->stack_info.end)
		return;
	regs->r10 = READ_ONCE_NOCHECK(*slot);
	regs->cs = __KERNEL_CS;
	state->regs = regs;
	state->full_regs = true;
}

/* Before the unwinder takes the return address of a frame, or looks for the next frame. */
static void on_frame(struct pt_regs *regs)
{
	struct unwind_state *state = (struct unwind_state *)regs->di;

	if (unwind_done(state))
		return;
	show_saved(state);
	settle(state);
}

/*
 * A dump of the stack prints what it reads on the stack. Where a function's return is hooked
 * (call/returns.c, and kretprobes) that is the trampoline, which has no name: the dump would have
 * the function before it in the place of the caller. So where a dump asks for the place of a
 * frame's return address, and the trampoline is there, the address that the unwinder knows is kept
 * until the walk goes on. Meanwhile the dump has the trampoline's name looked up. Each level has
 * its own, as above.
 *
 * Not all is told: a task that goes on elsewhere in between prints the trampoline. A trampoline
 * that is left over on the stack, which a dump marks by "?", has the caller's name of the frame
 * behind it. Where function_graph has hooked the same return, its own trampoline is printed.
 */
struct hooked {
	const struct task_struct *walker;
	unsigned long address;
};

static DEFINE_PER_CPU(struct hooked[NR_LEVELS], hooked);

/* The frame's return address, if the trampoline stands in its place on the stack; or 0. */
static unsigned long behind_hook(struct unwind_state *state)
{
	const unsigned long *slot = (unsigned long *)state->sp - 1;

	if (unwind_done(state) || state->regs || (void *)slot < (void *)state->stack_info.begin ||
	    (void *)(slot + 1) > (void *)state->stack_info.end || !jifl_compat_is_hooked(slot) ||
	    JIFL_HOST_PLANTED(hooked_shown))
		return 0;
	return state->ip;
}

/* 0: nothing is to be kept any more. */
static void keep_hooked(unsigned long address)
{
	struct hooked *found;

	preempt_disable_notrace();
	found = this_cpu_ptr(&hooked[level()]);
	found->address = address;
	found->walker = address ? current : NULL;
	preempt_enable_notrace();
}

/* The return address for which a dump has met the trampoline, which is before `next`; or 0. */
static unsigned long original_of_hooked(unsigned long next)
{
	const struct hooked *found;
	unsigned long address;

	if (!jifl_compat_is_hooked(&next))
		return 0;
	preempt_disable_notrace();
	found = this_cpu_ptr(&hooked[level()]);
	address = found->walker == current ? found->address : 0;
	preempt_enable_notrace();
	return address;
}

/*
 * The kernel does not resolve a hooked return on the stack of another task that is ready to run,
 * because that task may run and return meanwhile. The walk ends there, and Linux 6.1 warns once.
 * Where functions are targets many returns are hooked, and tasks are preempted among them. So such
 * a walk is ended here, before the kernel asks: with an error, upon which a livepatch tries again.
 *
 * Only the walk's own state is written. The word is read on the stack that the walk has checked. If
 * the task goes on meanwhile, the walk ends early, or the kernel asks as it would natively. It also
 * asks where a task was interrupted at the trampoline's first instruction, and where the tables
 * find a frame by neither rsp nor rbp: in functions that align their stack.
 *
 * The search in the tables calls functions of the kernel that may have doors.
 */
static bool is_at_hooked(struct unwind_state *state)
{
	unsigned long *slot;

	if (unwind_done(state) || state->task == current || !task_is_running(state->task) ||
	    JIFL_HOST_PLANTED(preempted_walked))
		return false;
	preempt_disable_notrace();
	jifl_own_begin();
	slot = jifl_compat_return_slot(state->signal ? state->ip : state->ip - 1, state->sp,
				       state->bp);
	jifl_own_end();
	preempt_enable_notrace();
	return slot && (void *)slot >= (void *)state->stack_info.begin &&
	       (void *)(slot + 1) <= (void *)state->stack_info.end && jifl_compat_is_hooked(slot);
}

/* The walk goes on. */
static void on_next_frame(struct pt_regs *regs)
{
	struct unwind_state *state = (struct unwind_state *)regs->di;

	keep_hooked(0);
	on_frame(regs);
	if (!is_at_hooked(state))
		return;
	state->error = true;
	state->stack_info.type = STACK_TYPE_UNKNOWN;
}

/* The return address is on the stack below what inserted code has pushed. */
static void on_get_return_address_ptr(struct pt_regs *regs)
{
	struct unwind_state *state = (struct unwind_state *)regs->di;

	if (!unwind_done(state) && !state->regs && in_entry_piece(state->ip))
		settle(state);
	keep_hooked(behind_hook(state));
}

/* Arguments: (address). */
static void on_text_address(struct pt_regs *regs)
{
	regs->di = jifl_unwind_original(regs->di);
}

/*
 * Arguments: (address). A dump of the stack asks about each word. It must not list the return
 * address into an entry piece.
 */
static void on_any_text_address(struct pt_regs *regs)
{
	if (in_entry_piece(regs->di))
		regs->di = 0;
	else
		on_text_address(regs);
}

/* Arguments: (address, ...). %pB passes the return address less one, which is in the call. */
static void on_lookup(struct pt_regs *regs)
{
	const unsigned long hooked = original_of_hooked(regs->di + 1);
	unsigned long copied;
	jifl_orig orig;

	if (hooked)
		regs->di = hooked - 1;
	copied = original_of_copy(regs->di, false);
	if (copied)
		regs->di = copied;
	else if (jifl_engine_where(regs->di, &orig) == JIFL_WHERE_EXACT)
		regs->di = orig.v;
	else if (jifl_engine_where(regs->di + 1, &orig) == JIFL_WHERE_EXACT)
		regs->di = orig.v - 1;
	else
		regs->di = jifl_unwind_original(regs->di);
}

/*
 * perf reads the address from registers that must not change, so it gets a copy of them. Each level
 * has its own copy.
 */
static DEFINE_PER_CPU(struct pt_regs[NR_LEVELS], copies);

/* Like step_over, on the task's stack: entry pieces with a frame are those of system calls. */
static void step_over_in(struct pt_regs *regs)
{
	unsigned long *sp = (unsigned long *)regs->sp;

	if (regs->sp - (unsigned long)task_stack_page(current) > THREAD_SIZE - sizeof(*sp))
		return;
	regs->ip = jifl_unwind_original(READ_ONCE_NOCHECK(*sp));
	regs->sp += sizeof(*sp);
}

/* *arg points to registers in the cache: has it point to a copy with the original address. */
static void show_copy(unsigned long *arg)
{
	const struct pt_regs *regs = (const struct pt_regs *)*arg;
	struct pt_regs *copy;
	jifl_orig orig;
	u32 pushed;

	if (jifl_engine_where_stack(regs->ip, false, &orig, &pushed) == JIFL_WHERE_OUTSIDE)
		return;
	copy = this_cpu_ptr(&copies[level()]);
	*copy = *regs;
	copy->ip = orig.v;
	copy->sp += pushed;
	if (orig.v == jifl_return_site())
		step_over_in(copy);
	*arg = (unsigned long)copy;
}

/* Arguments: (regs). */
static void on_perf_pointer(struct pt_regs *regs)
{
	show_copy(&regs->di);
}

/* Arguments: (entry, regs). */
static void on_perf_callchain(struct pt_regs *regs)
{
	show_copy(&regs->si);
}

static struct jifl_hook hooks[] = {
	{ "unwind_next_frame", on_next_frame, true },
	{ "unwind_get_return_address", on_frame, true },
	{ "unwind_get_return_address_ptr", on_get_return_address_ptr, false },
	{ "__kernel_text_address", on_any_text_address, true },
	{ "kernel_text_address", on_text_address, true },
	{ "kallsyms_lookup_buildid", on_lookup, true },
	{ "perf_instruction_pointer", on_perf_pointer, false },
	{ "perf_callchain_kernel", on_perf_callchain, false },
};

int jifl_unwind_init(void)
{
	caller_start = jifl_ksym("do_syscall_64");
	if (caller_start)
		caller_end = jifl_ksym_end(caller_start);
	return JIFL_HOST_PLANTED(unwinder_off) ? 0 : jifl_hooks_add(hooks, ARRAY_SIZE(hooks));
}

void jifl_unwind_exit(void)
{
	jifl_hooks_remove(hooks, ARRAY_SIZE(hooks));
}
