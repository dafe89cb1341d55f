// SPDX-License-Identifier: GPL-2.0
/*
 * Stack walks and reports see original addresses: whoever unwinds the stack of
 * an instrumented system call finds the frames a native one has, by name.
 *
 * All callbacks only rewrite arguments of a kernel function that is being
 * called. They run wherever it is called, in NMI too.
 */
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <asm/unwind.h>

#include "kernel.h"
#include "plant.h"

/* do_syscall_64, which native handlers return to. */
static unsigned long caller_start, caller_end;

/* The original of an address, or the address itself. */
static unsigned long original(unsigned long addr)
{
	jifl_orig orig;

	return jifl_engine_where(addr, &orig) == JIFL_WHERE_OUTSIDE ? addr : orig.v;
}

/*
 * Unwinding goes on by what the kernel knows of the original address. Return
 * addresses stay return addresses: what precedes them is the call.
 */
static void on_next_frame(struct pt_regs *regs)
{
	struct unwind_state *state = (struct unwind_state *)regs->di;

	state->ip = original(state->ip);
}

/*
 * An entry piece's frame has no counterpart: natively x64_sys_call jumps to the
 * handler, which returns to do_syscall_64. It consists of the return address
 * alone, so stepping over it is simple, unless a tracer has put its trampoline
 * there, which only the unwinder can resolve.
 */
static void skip_entry_piece(struct unwind_state *state)
{
	unsigned long *sp = (unsigned long *)state->sp;
	unsigned long ip;

	if ((void *)sp < (void *)state->stack_info.begin ||
	    (void *)(sp + 1) > (void *)state->stack_info.end)
		return;
	ip = READ_ONCE_NOCHECK(*sp);
	if (ip < caller_start || ip >= caller_end)
		return;
	state->ip = ip;
	state->sp += sizeof(*sp);
}

/* Is it where an entry piece is returned to? */
static bool in_entry_piece(unsigned long addr)
{
	jifl_orig orig;

	return jifl_engine_where(addr, &orig) == JIFL_WHERE_EXACT &&
	       orig.v == jifl_evict_return_site();
}

/* Both ways of asking for a frame's return address, its place included. */
static void on_get_return_address(struct pt_regs *regs)
{
	struct unwind_state *state = (struct unwind_state *)regs->di;

	if (unwind_done(state))
		return;
	if (in_entry_piece(state->ip))
		skip_entry_piece(state);
	state->ip = original(state->ip);
}

/* (address) */
static void on_text_address(struct pt_regs *regs)
{
	regs->di = original(regs->di);
}

/*
 * (address) A dump of the stack asks about each word of it: the return
 * address into an entry piece is not to be listed.
 */
static void on_any_text_address(struct pt_regs *regs)
{
	if (in_entry_piece(regs->di))
		regs->di = 0;
	else
		on_text_address(regs);
}

/* (address, ...) %pB asks for the return address less one, to be inside the call. */
static void on_lookup(struct pt_regs *regs)
{
	jifl_orig orig;

	if (jifl_engine_where(regs->di, &orig) == JIFL_WHERE_EXACT)
		regs->di = orig.v;
	else if (jifl_engine_where(regs->di + 1, &orig) == JIFL_WHERE_EXACT)
		regs->di = orig.v - 1;
	else
		regs->di = original(regs->di);
}

/*
 * perf reads the address out of registers that must stay as they are, so it is
 * shown a copy. One for each level that can interrupt another: perf keeps
 * itself from recurring within one.
 */
#define NR_LEVELS	4

static DEFINE_PER_CPU(struct pt_regs[NR_LEVELS], copies);

static unsigned int level(void)
{
	if (in_nmi())
		return 3;
	if (in_hardirq())
		return 2;
	return in_serving_softirq() ? 1 : 0;
}

/* Replaces a pointer to registers, argument of the hooked function. */
static void show_copy(unsigned long *arg)
{
	const struct pt_regs *regs = (const struct pt_regs *)*arg;
	struct pt_regs *copy;
	jifl_orig orig;

	if (jifl_engine_where_insn(regs->ip, &orig) == JIFL_WHERE_OUTSIDE)
		return;
	copy = this_cpu_ptr(&copies[level()]);
	*copy = *regs;
	copy->ip = orig.v;
	*arg = (unsigned long)copy;
}

/* (regs) */
static void on_perf_pointer(struct pt_regs *regs)
{
	show_copy(&regs->di);
}

/* (entry, regs) */
static void on_perf_callchain(struct pt_regs *regs)
{
	show_copy(&regs->si);
}

static struct jifl_hook hooks[] = {
	{ "unwind_next_frame", on_next_frame, true },
	{ "unwind_get_return_address", on_get_return_address, true },
	{ "unwind_get_return_address_ptr", on_get_return_address, false },
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
