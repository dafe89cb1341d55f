// SPDX-License-Identifier: GPL-2.0
/*
 * Exceptions on cache addresses meet the exception tables of the original
 * code. A copied instruction has no entry of its own; all registers are the
 * original's there, so the kernel may as well fix up the original address, and
 * goes on natively after that.
 *
 *   fixup_exception(regs, ...)     every fault that would be an oops else
 *   search_exception_tables(addr)  the page fault path asks it before taking a
 *                                  contended mmap_lock, the machine check path
 *                                  for the type of an entry
 *
 * Nothing else on these paths looks at the address: a fault that is mended
 * by mapping a page returns to the copy; an instruction decoded at the address
 * (prefetch erratum, #GP's bad pointer, machine check) reads the copied bytes,
 * which are the same; reports name addresses by way of unwind.c's hooks; bug
 * tables are not asked as ud2 runs natively.
 *
 * The callbacks run in any context, NMI and machine check too.
 */
#include <linux/atomic.h>

#include "../kernel.h"
#include "../plant.h"
#include "../text/hooks.h"
#include "events.h"
#include "faults.h"

static atomic64_t faults;

/* True and *addr replaced when it was an address of the code cache. */
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

	if (!replace(&fault->ip))
		return;
	atomic64_inc(&faults);
	jifl_run_events->fault(fault->ip);
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
