// SPDX-License-Identifier: GPL-2.0
/*
 * System calls for the flight recorder, without the slow way that the kernel has for calls whose
 * tracepoints somebody wants: calls in the kernel's own text lead to functions here, which record
 * and jump to where the call would have led.
 *
 *	do_syscall_64 -> x64_sys_call			a front of enter/entry.c
 *	..._int80_..., __do_fast_syscall_32 -> ia32_sys_call	calls of 32-bit programs
 *	syscall_exit_to_user_mode -> syscall_exit_to_user_mode_prepare	results
 *
 * What is recorded is what the tracepoints sys_enter and sys_exit would be given. Three differ: a
 * call with a number that no call has is recorded by its result alone; so is one of the x32 ABI,
 * which is off unless the kernel is told; and so is one that the kernel makes a signal of because
 * the program has asked for that (prctl: PR_SET_SYSCALL_USER_DISPATCH), of which tracepoints tell
 * nothing.
 *
 * 1. All these calls are made at task level with interrupts on, RCU watches, and nothing below
 *    returns to a function here: these end with a jump. So a task that sleeps in a system call has
 *    no address of them on its stack, and they may go while it sleeps. What the compiler has made
 *    of them is looked at when the module is loaded (enter/tail.c): if one of them calls instead,
 *    or returns, none is used. So it is in kernels before 6.16: there each way in calls
 *    syscall_exit_to_user_mode, and that calls _prepare. Later ones have no such function. The
 *    module does not ask for the version: if a way in does not have these calls, once each, no call
 *    is redirected.
 * 2. They switch interrupts off while they write, and on again: write.h, 5.
 * 3. Tasks may still be on their way in here when the calls lead back. jifl_entry_exit waits for
 *    them when the module goes (enter/entry.c, 2). What they write then: write.h, 5.
 * 4. What is called here, jifl_flight_look, is called with interrupts off, so it does not sleep.
 * 5. A kernel of which a call is not found, or taken by somebody else, has the tracepoints instead:
 *    all of them or none, so no call is recorded twice.
 * 6. If a call does not lead back, because somebody else has taken it meanwhile or the text could
 *    not be written, it may lead here for good, and the module stays. With a tracepoint beside it
 *    calls could be recorded twice. So system calls cannot be asked for any more. A recording may
 *    still have those that come here.
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
#include "../enter/tail.h"
#include "calls.h"
#include "trigger.h"
#include "write.h"

/* Functions of calls of 32-bit programs: of int 0x80, then of sysenter and syscall. */
#define JIFL_FLIGHT_INT80	3
#define JIFL_FLIGHT_32		6

static struct {
	struct jifl_call_site sites_32[JIFL_FLIGHT_32];
	unsigned int n_32;
	struct jifl_call_site result;
	bool found;
	bool lost;			/* one of them may lead here for good: step 6 */
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

/* Of functions that end with a jump: what finds defects would have calls at their end. */
#define jifl_flight_jumps	noinline __no_sanitize_address __no_kcsan

/* Not the macros of the kernel: nothing here may be traced, and interrupts are on before. */
#define jifl_flight_irq_off()	asm volatile("cli" : : : "memory")
#define jifl_flight_irq_on()	asm volatile("sti" : : : "memory")

/*
 * The rest of each way in, where something may stop the recording. They are functions of their own,
 * so that the others need no stack.
 */
static jifl_flight_jumps long jifl_flight_front_looks(const struct pt_regs *regs, unsigned int nr,
						      u64 time)
{
	jifl_flight_look(JIFL_FLIGHT_ENTER, nr, regs->di, time, false);
	jifl_flight_irq_on();
	return static_call(jifl_entry_next)(regs, nr);
}

static jifl_flight_jumps long jifl_flight_front_32_looks(const struct pt_regs *regs,
							unsigned int nr, u64 time)
{
	jifl_flight_look(JIFL_FLIGHT_ENTER, nr | JIFL_FLIGHT_IA32, regs->bx, time, false);
	jifl_flight_irq_on();
	return static_call(jifl_flight_next_32)(regs, nr);
}

static jifl_flight_jumps void jifl_flight_result_looks(struct pt_regs *regs, u64 nr, u64 time)
{
	jifl_flight_look(JIFL_FLIGHT_EXIT, nr, regs->ax, time, false);
	jifl_flight_irq_on();
	static_call(jifl_flight_next_result)(regs);
}

static jifl_flight_jumps long jifl_flight_front(const struct pt_regs *regs, unsigned int nr)
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
			return jifl_flight_front_looks(regs, nr, jifl_flight_time(&place));
	}
	jifl_flight_irq_on();
	return static_call(jifl_entry_next)(regs, nr);
}

static jifl_flight_jumps long jifl_flight_front_32(const struct pt_regs *regs, unsigned int nr)
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
			return jifl_flight_front_32_looks(regs, nr,
							  jifl_flight_time(&place));
	}
	jifl_flight_irq_on();
	return static_call(jifl_flight_next_32)(regs, nr);
}

static_assert(JIFL_FLIGHT_IA32 == (u32)TS_COMPAT << 30);

static jifl_flight_jumps void jifl_flight_result(struct pt_regs *regs)
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
			return jifl_flight_result_looks(regs, nr, jifl_flight_time(&place));
	}
	jifl_flight_irq_on();
	static_call(jifl_flight_next_result)(regs);
}

#ifdef JIFL_TEST_BUILD
/* As a compiler may make it of a front. */
static noinline long jifl_flight_front_returns(const struct pt_regs *regs, unsigned int nr)
{
	const long result = static_call(jifl_entry_next)(regs, nr);

	barrier();
	return result;
}
#else
#define jifl_flight_front_returns	jifl_flight_front
#endif

/* --- where calls lead ------------------------------------------------------------------------- */

/* Step 1. */
static bool jifl_flight_ends_with_jumps(void)
{
	const unsigned long calls[] = {
		(unsigned long)jifl_flight_look, (unsigned long)jifl_plant_at_front,
	};
	/* Static calls jump there by way of their trampolines, or straight on. */
	const unsigned long ends[] = {
		(unsigned long)STATIC_CALL_TRAMP_ADDR(jifl_entry_next),
		(unsigned long)STATIC_CALL_TRAMP_ADDR(jifl_flight_next_32),
		(unsigned long)STATIC_CALL_TRAMP_ADDR(jifl_flight_next_result),
		(unsigned long)static_call_query(jifl_entry_next),
		(unsigned long)static_call_query(jifl_flight_next_32),
		(unsigned long)static_call_query(jifl_flight_next_result),
	};
	const struct jifl_tail allowed = {
		.calls = calls, .ncalls = ARRAY_SIZE(calls),
		.ends = ends, .nends = ARRAY_SIZE(ends),
	};
	const void *functions[] = {
		JIFL_HOST_PLANTED(front_returns) ? jifl_flight_front_returns : jifl_flight_front,
		jifl_flight_front_32, jifl_flight_result,
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(functions); i++) {
		if (jifl_tail_holds(functions[i], &allowed))
			continue;
		pr_warn("the compiler has made calls of jumps: the flight recorder takes the tracepoints of system calls, which cost more\n");
		return false;
	}
	return true;
}

/* Step 1: does this way in end by calling that function? */
static bool jifl_flight_leaves_by(unsigned long caller, unsigned long leaving)
{
	struct jifl_call_site site;

	return jifl_call_site_find(&site, caller, leaving) == 1;
}

/*
 * Finds the call in one of the ways in of 32-bit programs. The last two may have none: they call
 * the one before, unless the compiler has made one function of them. false: it is not as known.
 */
static bool jifl_flight_find_in(unsigned int i, unsigned long caller, unsigned long leaving)
{
	const unsigned long function = jifl_ksym("ia32_sys_call");
	struct jifl_call_site *site = &jifl_flight_calls.sites_32[jifl_flight_calls.n_32];
	const unsigned int n = function ? jifl_call_site_find(site, caller, function) : 0;

	if (!n)
		return i > JIFL_FLIGHT_INT80;
	if (n > 1 || !jifl_flight_leaves_by(caller, leaving))
		return false;
	/* One static call is behind all of them. */
	if (site->target != jifl_flight_calls.sites_32[0].target)
		return false;
	jifl_flight_calls.n_32++;
	return true;
}

/* Each function that this kernel has must have its call: else calls would be missed. */
static bool jifl_flight_find_32(unsigned long leaving)
{
	static const char * const callers[JIFL_FLIGHT_32] = {
		"do_int80_emulation", "do_int80_syscall_32", "fred_int80_emulation",
		"__do_fast_syscall_32", "do_fast_syscall_32", "do_SYSENTER_32",
	};
	unsigned int i, n_int80 = 0;

	for (i = 0; i < JIFL_FLIGHT_32; i++) {
		const unsigned long caller = jifl_ksym(callers[i]);

		if (caller && !jifl_flight_find_in(i, caller, leaving))
			return false;
		if (i < JIFL_FLIGHT_INT80)
			n_int80 = jifl_flight_calls.n_32;
	}
	return !IS_ENABLED(CONFIG_IA32_EMULATION) ||
	       (n_int80 && jifl_flight_calls.n_32 > n_int80);
}

void jifl_flight_find_calls(void)
{
	const unsigned long entering = jifl_ksym("do_syscall_64");
	const unsigned long leaving = jifl_ksym("syscall_exit_to_user_mode");
	const unsigned long prepare = jifl_ksym("syscall_exit_to_user_mode_prepare");

	if (!leaving || !prepare || !jifl_flight_leaves_by(entering, leaving) ||
	    jifl_call_site_find(&jifl_flight_calls.result, leaving, prepare) != 1 ||
	    !jifl_flight_find_32(leaving))
		return;
	if (jifl_flight_calls.n_32)
		static_call_update(jifl_flight_next_32,
				   (void *)jifl_flight_calls.sites_32[0].target);
	static_call_update(jifl_flight_next_result, (void *)jifl_flight_calls.result.target);
	jifl_flight_calls.found = jifl_flight_ends_with_jumps();
}

static void jifl_flight_keep_module(void)
{
	jifl_flight_calls.lost = true;
	__module_get(THIS_MODULE);
	pr_err("a call of the kernel was redirected while a recording ran: the module stays until the next boot\n");
}

/* Has the call lead to the function, or back. */
static int jifl_flight_redirect(const struct jifl_call_site *site, void *function, bool there)
{
	const unsigned long to = (unsigned long)function;
	int err;

	if (there) {
		err = JIFL_TRY(jifl_call_site_change(site, site->target, to));
		/* Nobody knows what stands there. */
		if (err == -EIO)
			jifl_flight_keep_module();
		return err;
	}
	if (jifl_call_site_change(site, to, site->target))
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

/* entry.c keeps the module where that is needed. */
static int jifl_flight_redirect_64(bool there)
{
	const int err = there ? jifl_entry_set_front(jifl_flight_front) : jifl_entry_drop_front();

	if (there ? err == -EIO : err)
		jifl_flight_calls.lost = true;
	return there ? err : 0;
}

static int jifl_flight_redirect_enters(bool there)
{
	int err = jifl_flight_redirect_64(there);

	if (err)
		return err;
	err = jifl_flight_redirect_32(jifl_flight_calls.n_32, there);
	if (err)
		jifl_flight_redirect_64(false);
	return err;
}

bool jifl_flight_has_calls(void)
{
	return jifl_flight_calls.found;
}

u64 jifl_flight_lost_calls(void)
{
	return jifl_flight_calls.lost ? BIT_ULL(JIFL_FLIGHT_ENTER) | BIT_ULL(JIFL_FLIGHT_EXIT) : 0;
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
