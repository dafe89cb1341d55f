// SPDX-License-Identifier: GPL-2.0
/*
 * System calls for the flight recorder, without the slow way that the kernel has for calls whose
 * tracepoints somebody wants: calls in the kernel's own text lead to functions here, which record
 * and jump to where the call would have led.
 *
 *	do_syscall_64 -> x64_sys_call			a front of enter/entry.c
 *	do_int80_..., __do_fast_syscall_32 -> ia32_sys_call	calls of 32-bit programs
 *	syscall_exit_to_user_mode -> syscall_exit_to_user_mode_prepare	results
 *
 * What is recorded is what the tracepoints sys_enter and sys_exit would be given. Two differ: a
 * call with a number that no call has is recorded by its result alone; so is one of the x32 ABI,
 * which is off unless the kernel is told.
 *
 * 1. All these calls are made at task level with interrupts on, RCU watches, and nothing below
 *    returns to a function here: these end with a jump. So a task that sleeps in a system call has
 *    no address of them on its stack, and they may go while it sleeps.
 * 2. They switch interrupts off while they write, and on again: write.h, 5.
 * 3. Tasks may still be on their way in here when the calls lead back. jifl_entry_exit waits for
 *    them when the module goes (enter/entry.c, 2). What they write then: write.h, 5.
 * 4. A kernel of which a call is not found, or taken by somebody else, has the tracepoints instead:
 *    all of them or none, so no call is recorded twice.
 *
 * Context: the functions that record: see 1. The others: process, under request.c's lock; sleep.
 */
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/static_call.h>
#include <asm/syscall.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/ksym.h"
#include "../enter/call_site.h"
#include "../enter/entry.h"
#include "calls.h"
#include "trigger.h"
#include "write.h"

/* Of 32-bit programs: int 0x80, and sysenter or syscall. */
#define JIFL_FLIGHT_32	2

static struct {
	struct jifl_call_site sites_32[JIFL_FLIGHT_32];
	unsigned int n_32;
	struct jifl_call_site result;
	bool found;
	bool enters, results;		/* where the calls lead now */
} jifl_flight_calls;

static long jifl_flight_proto_call(const struct pt_regs *regs, unsigned int nr)
{
	return -ENOSYS;
}

static void jifl_flight_proto_result(struct pt_regs *regs)
{
}

DEFINE_STATIC_CALL(jifl_flight_next_32, jifl_flight_proto_call);
DEFINE_STATIC_CALL(jifl_flight_next_result, jifl_flight_proto_result);

/* --- what records ----------------------------------------------------------------------------- */

/* Not the macros of the kernel: nothing here may be traced, and interrupts are on before. */
#define jifl_flight_irq_off()	asm volatile("cli" : : : "memory")
#define jifl_flight_irq_on()	asm volatile("sti" : : : "memory")

/*
 * The rest of each way in, where something may stop the recording. They are functions of their own,
 * so that the others need no stack.
 */
static noinline long jifl_flight_front_looks(const struct pt_regs *regs, unsigned int nr)
{
	jifl_flight_look(JIFL_FLIGHT_ENTER, nr, regs->di);
	jifl_flight_irq_on();
	return static_call(jifl_entry_next)(regs, nr);
}

static noinline long jifl_flight_front_32_looks(const struct pt_regs *regs, unsigned int nr)
{
	jifl_flight_look(JIFL_FLIGHT_ENTER, nr | JIFL_FLIGHT_IA32, regs->bx);
	jifl_flight_irq_on();
	return static_call(jifl_flight_next_32)(regs, nr);
}

static noinline void jifl_flight_result_looks(struct pt_regs *regs, u64 nr)
{
	jifl_flight_look(JIFL_FLIGHT_EXIT, nr, regs->ax);
	jifl_flight_irq_on();
	static_call(jifl_flight_next_result)(regs);
}

static long jifl_flight_front(const struct pt_regs *regs, unsigned int nr)
{
	struct jifl_flight_place place;

	jifl_plant_at_front();
	jifl_flight_irq_off();
	if (jifl_flight_take(&place, 0, JIFL_FLIGHT_ENTER)) {
		jifl_flight_put(&place, 0, nr);
		jifl_flight_put(&place, 1, regs->di);
		jifl_flight_put(&place, 2, regs->si);
		jifl_flight_put(&place, 3, regs->dx);
		jifl_flight_put(&place, 4, regs->r10);
		jifl_flight_close(&place);
		if (static_branch_unlikely(&jifl_flight_may_stop))
			return jifl_flight_front_looks(regs, nr);
	}
	jifl_flight_irq_on();
	return static_call(jifl_entry_next)(regs, nr);
}

static long jifl_flight_front_32(const struct pt_regs *regs, unsigned int nr)
{
	struct jifl_flight_place place;

	jifl_flight_irq_off();
	if (jifl_flight_take(&place, 0, JIFL_FLIGHT_ENTER)) {
		jifl_flight_put(&place, 0, nr | JIFL_FLIGHT_IA32);
		jifl_flight_put(&place, 1, regs->bx);
		jifl_flight_put(&place, 2, regs->cx);
		jifl_flight_put(&place, 3, regs->dx);
		jifl_flight_put(&place, 4, regs->si);
		jifl_flight_close(&place);
		if (static_branch_unlikely(&jifl_flight_may_stop))
			return jifl_flight_front_32_looks(regs, nr);
	}
	jifl_flight_irq_on();
	return static_call(jifl_flight_next_32)(regs, nr);
}

static_assert(JIFL_FLIGHT_IA32 == (u32)TS_COMPAT << 30);

static void jifl_flight_result(struct pt_regs *regs)
{
	const u32 ia32 = (u32)(current_thread_info()->status & TS_COMPAT) << 30;
	const u64 nr = (u32)regs->orig_ax | ia32;
	struct jifl_flight_place place;

	jifl_flight_irq_off();
	if (jifl_flight_take(&place, 0, JIFL_FLIGHT_EXIT)) {
		jifl_flight_put(&place, 0, nr);
		jifl_flight_put(&place, 1, regs->ax);
		jifl_flight_put(&place, 2, 0);
		jifl_flight_put(&place, 3, 0);
		jifl_flight_put(&place, 4, 0);
		jifl_flight_close(&place);
		if (static_branch_unlikely(&jifl_flight_may_stop))
			return jifl_flight_result_looks(regs, nr);
	}
	jifl_flight_irq_on();
	static_call(jifl_flight_next_result)(regs);
}

/* --- where calls lead ------------------------------------------------------------------------- */

/* Calls of 32-bit programs: wherever there are some. The functions that this kernel has. */
static void jifl_flight_find_32(void)
{
	static const char * const callers[] = {
		"do_int80_emulation", "do_int80_syscall_32", "__do_fast_syscall_32",
		"do_SYSENTER_32",
	};
	const unsigned long function = jifl_ksym("ia32_sys_call");
	unsigned int i;

	for (i = 0; function && i < ARRAY_SIZE(callers); i++) {
		const unsigned long caller = jifl_ksym(callers[i]);
		struct jifl_call_site site;

		if (!caller || jifl_call_site_find(&site, caller, function) != 1)
			continue;
		if (jifl_flight_calls.n_32 < JIFL_FLIGHT_32)
			jifl_flight_calls.sites_32[jifl_flight_calls.n_32++] = site;
	}
}

void jifl_flight_find_calls(void)
{
	const unsigned long leaving = jifl_ksym("syscall_exit_to_user_mode");
	const unsigned long prepare = jifl_ksym("syscall_exit_to_user_mode_prepare");
	const struct jifl_call_site *sites = jifl_flight_calls.sites_32;

	if (!leaving || !prepare ||
	    jifl_call_site_find(&jifl_flight_calls.result, leaving, prepare) != 1)
		return;
	jifl_flight_find_32();
	/* One static call is behind both. */
	if (IS_ENABLED(CONFIG_IA32_EMULATION) &&
	    (jifl_flight_calls.n_32 != JIFL_FLIGHT_32 || sites[0].target != sites[1].target))
		return;
	if (jifl_flight_calls.n_32)
		static_call_update(jifl_flight_next_32, (void *)sites[0].target);
	static_call_update(jifl_flight_next_result, (void *)jifl_flight_calls.result.target);
	jifl_flight_calls.found = true;
}

static void jifl_flight_keep_module(void)
{
	__module_get(THIS_MODULE);
	pr_err("a call of the kernel was redirected while a recording ran: the module stays until the next boot\n");
}

/* Has the call lead to the function, or back. */
static int jifl_flight_redirect(const struct jifl_call_site *site, void *function, bool there)
{
	const unsigned long to = (unsigned long)function;
	int err;

	if (there)
		return JIFL_TRY(jifl_call_site_change(site, site->target, to));
	err = jifl_call_site_change(site, to, site->target);
	if (err)
		jifl_flight_keep_module();
	return 0;
}

static int jifl_flight_redirect_32(unsigned int n, bool there)
{
	unsigned int i;
	int err;

	for (i = 0; i < n; i++) {
		err = jifl_flight_redirect(&jifl_flight_calls.sites_32[i], jifl_flight_front_32,
					   there);
		if (err) {
			jifl_flight_redirect_32(i, false);
			return err;
		}
	}
	return 0;
}

static int jifl_flight_redirect_enters(bool there)
{
	int err;

	if (!there) {
		jifl_entry_drop_front();
		return jifl_flight_redirect_32(jifl_flight_calls.n_32, false);
	}
	err = jifl_entry_set_front(jifl_flight_front);
	if (err)
		return err;
	err = jifl_flight_redirect_32(jifl_flight_calls.n_32, true);
	if (err)
		jifl_entry_drop_front();
	return err;
}

bool jifl_flight_has_calls(void)
{
	return jifl_flight_calls.found;
}

int jifl_flight_set_enters(bool listens)
{
	int err = 0;

	if (listens != jifl_flight_calls.enters)
		err = jifl_flight_redirect_enters(listens);
	if (!err)
		jifl_flight_calls.enters = listens;
	return err;
}

int jifl_flight_set_results(bool listens)
{
	int err = 0;

	if (listens != jifl_flight_calls.results)
		err = jifl_flight_redirect(&jifl_flight_calls.result, jifl_flight_result, listens);
	if (!err)
		jifl_flight_calls.results = listens;
	return err;
}
