// SPDX-License-Identifier: GPL-2.0
/*
 * Exceptions on cache addresses meet the exception tables of the original
 * code. A copied instruction has no entry of its own. At the copy all registers have the values
 * that they have at the original. So the kernel can use the entry of the original address. The
 * thread goes on natively after that.
 *
 *   fixup_exception(regs, ...)     every fault that would otherwise be an oops
 *   search_exception_tables(addr)  the page fault path asks it before taking a
 *                                  contended mmap_lock, the machine check path
 *                                  for the type of an entry
 *
 * Nothing else on these paths depends on the address. A fault that maps a page returns to the copy.
 * Code that decodes the instruction at the address (prefetch erratum, #GP's bad pointer, machine
 * check) reads the copied bytes, which are the same. Reports get the names of addresses through
 * unwind.c's hooks. The kernel does not search bug tables, because ud2 runs natively.
 *
 * Context of the callbacks: any, including NMI and machine check.
 */
#include <linux/atomic.h>

#include "../kernel.h"
#include "../plant.h"
#include "../text/hooks.h"
#include "events.h"
#include "faults.h"

static atomic64_t faults;

/* If *addr is in the code cache, replaces it by its original and returns true. */
static bool replace(unsigned long *addr)
{
	jifl_orig orig;

	if (jifl_engine_where_insn(*addr, &orig) == JIFL_WHERE_OUTSIDE ||
	    JIFL_HOST_PLANTED(faults_not_replaced))
		return false;
	*addr = orig.v;
	return true;
}

static void on_fixup_exception(struct pt_regs *regs)
{
	struct pt_regs *fault = (struct pt_regs *)regs->di;
	const unsigned long copy = fault->ip;

	if (!replace(&fault->ip))
		return;
	atomic64_inc(&faults);
	jifl_run_events->fault(fault->ip, jifl_engine_context_arg(copy));
}

static void on_search_tables(struct pt_regs *regs)
{
	replace(&regs->di);
}

static struct jifl_hook hooks[] = {
	{ "fixup_exception", on_fixup_exception, true },
	{ "search_exception_tables", on_search_tables, true },
};

int jifl_faults_init(void)
{
	return jifl_hooks_add(hooks, ARRAY_SIZE(hooks));
}

void jifl_faults_exit(void)
{
	jifl_hooks_remove(hooks, ARRAY_SIZE(hooks));
}

u64 jifl_faults_count(void)
{
	return atomic64_read(&faults);
}
