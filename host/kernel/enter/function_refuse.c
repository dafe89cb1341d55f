// SPDX-License-Identifier: GPL-2.0
/*
 * Which functions are refused as targets, and why. In: the address where a function begins. Out:
 * enum jifl_refusal. Context: process, sleeps. function.c says which refusals its proof needs.
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/direct.h"
#include "../compat/import.h"
#include "../compat/ksym.h"
#include "../search.h"
#include "../text/blacklist.h"
#include "../text/text.h"
#include "function.h"
#include "refuse_module.h"

/* Patterns as jifl_function_name_is_among has them. The first line that fits decides. */
static const struct {
	const char *pattern;
	enum jifl_refusal why;
} refused[] = {
	/* Another task's call returns from these, or they change stacks. */
	{ "__schedule", JIFL_REFUSED_SCHEDULE },
	{ "schedule_tail", JIFL_REFUSED_SCHEDULE },
	{ "finish_task_switch", JIFL_REFUSED_SCHEDULE },
	{ "__switch_to*", JIFL_REFUSED_SCHEDULE },
	{ "ret_from_fork*", JIFL_REFUSED_SCHEDULE },
	{ "rewind_stack_and_make_dead", JIFL_REFUSED_SCHEDULE },
	/* They begin at one level and end at another, or run softirqs at one; idle's loop. */
	{ "irq_enter*", JIFL_REFUSED_IDLE },
	{ "irq_exit*", JIFL_REFUSED_IDLE },
	{ "__irq_exit*", JIFL_REFUSED_IDLE },
	{ "__do_softirq", JIFL_REFUSED_IDLE },
	{ "handle_softirqs", JIFL_REFUSED_IDLE },
	{ "do_softirq*", JIFL_REFUSED_IDLE },
	{ "do_idle", JIFL_REFUSED_IDLE },
	{ "play_idle*", JIFL_REFUSED_IDLE },
	{ "cpu_startup_entry", JIFL_REFUSED_IDLE },
	{ "default_idle*", JIFL_REFUSED_IDLE },
	{ "arch_cpu_idle*", JIFL_REFUSED_IDLE },
	{ "rest_init", JIFL_REFUSED_IDLE },
	/* Doors are made by these. */
	{ "text_poke*", JIFL_REFUSED_PATCHING },
	{ "__text_poke*", JIFL_REFUSED_PATCHING },
	{ "smp_text_poke*", JIFL_REFUSED_PATCHING },
	{ "perf_event_text_poke", JIFL_REFUSED_PATCHING },
	{ "do_sync_core", JIFL_REFUSED_PATCHING },
	{ "ftrace_*", JIFL_REFUSED_PATCHING },
	{ "__ftrace_*", JIFL_REFUSED_PATCHING },
	{ "arch_ftrace_*", JIFL_REFUSED_PATCHING },
	{ "register_ftrace*", JIFL_REFUSED_PATCHING },
	{ "unregister_ftrace*", JIFL_REFUSED_PATCHING },
	/* Trampolines of static calls: the kernel writes them, and gives up at an int3 (BUG). */
	{ "__SCT__*", JIFL_REFUSED_PATCHING },
	{ "stop_machine*", JIFL_REFUSED_STOP },
	{ "stop_cpus*", JIFL_REFUSED_STOP },
	{ "__stop_cpus", JIFL_REFUSED_STOP },
	{ "stop_one_cpu*", JIFL_REFUSED_STOP },
	{ "stop_two_cpus", JIFL_REFUSED_STOP },
	{ "multi_cpu_stop", JIFL_REFUSED_STOP },
	{ "cpu_stop*", JIFL_REFUSED_STOP },
	{ "synchronize_rcu_tasks*", JIFL_REFUSED_RCU_TASKS },
	{ "call_rcu_tasks*", JIFL_REFUSED_RCU_TASKS },
	{ "rcu_tasks_*", JIFL_REFUSED_RCU_TASKS },
	/* run/unwind.c and run/faults.c hook these, in any context; call/returns.c needs others. */
	{ "unwind_next_frame", JIFL_REFUSED_OWN },
	{ "unwind_get_return_address*", JIFL_REFUSED_OWN },
	{ "__kernel_text_address", JIFL_REFUSED_OWN },
	{ "kernel_text_address", JIFL_REFUSED_OWN },
	{ "kallsyms_lookup_buildid", JIFL_REFUSED_OWN },
	{ "perf_instruction_pointer", JIFL_REFUSED_OWN },
	{ "perf_callchain_kernel", JIFL_REFUSED_OWN },
	{ "fixup_exception", JIFL_REFUSED_OWN },
	{ "search_exception_tables", JIFL_REFUSED_OWN },
	{ "rethook_*", JIFL_REFUSED_OWN },
	/* With lockdep: return hooks ask it before call/returns.c is called. */
	{ "rcu_read_lock_any_held", JIFL_REFUSED_OWN },
	{ "rcu_lockdep_current_cpu_online", JIFL_REFUSED_OWN },
	{ "arch_rethook_*", JIFL_REFUSED_OWN },
	{ "objpool_*", JIFL_REFUSED_OWN },
};

/* Most names differ from most patterns in the first letter. What follows a dot is a suffix. */
static bool fits(const char *name, const char *pattern)
{
	while (*pattern && *pattern == *name) {
		pattern++;
		name++;
	}
	return *pattern == '*' || (!*pattern && (!*name || *name == '.'));
}

bool jifl_function_name_is_among(const char *name, const char *const *patterns, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (fits(name, patterns[i]))
			return true;
	return false;
}

bool jifl_function_is_among(unsigned long begin, const char *const *patterns, u32 n)
{
	char name[KSYM_NAME_LEN];

	return jifl_ksym_begins(begin, name, sizeof(name)) &&
	       jifl_function_name_is_among(name, patterns, n);
}

enum jifl_refusal jifl_function_name_refusal(const char *name)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(refused); i++)
		if (fits(name, refused[i].pattern))
			return refused[i].why;
	return JIFL_REFUSED_NO;
}

/*
 * The functions of the kernel itself whose names are refused, by their addresses. Which these are
 * does not change, and a look-up of a name takes some 3,000 instructions. So where very many
 * functions are asked about, all symbols are read once, and a function is then looked up without
 * its name. Of several names of one address kallsyms tells the first one, as it does where it is
 * asked about the address.
 */
#define BY_ADDRESS_MAX	8192
/* Reading all symbols costs as much as looking up some 30,000 names. */
#define BY_ADDRESS_FROM	16384

struct by_address {
	u32 n;
	unsigned long last;	/* address of the symbol before */
	struct {
		unsigned long begin;
		enum jifl_refusal why;
	} refused[BY_ADDRESS_MAX];
};

static DEFINE_MUTEX(by_address_mutex);
static struct by_address *by_address;	/* constant when it is to be seen; NULL: not made yet */
static struct by_address *made;		/* by_address_mutex */
static bool names_alone;		/* it cannot be made; by_address_mutex */

static int add_by_address(const char *name, unsigned long addr)
{
	const bool alias = addr == made->last;
	enum jifl_refusal why;

	made->last = addr;
	if (alias || !jifl_text_is_core(addr))
		return 0;
	why = jifl_function_name_refusal(name);
	if (why == JIFL_REFUSED_NO)
		return 0;
	if (made->n == BY_ADDRESS_MAX)
		return -ENOSPC;
	/* jifl_first needs that order. */
	if (made->n && addr < made->refused[made->n - 1].begin)
		return -EINVAL;
	made->refused[made->n].begin = addr;
	made->refused[made->n++].why = why;
	return 0;
}

static void make_by_address(u32 n)
{
	if (n < BY_ADDRESS_FROM || !jifl_imported(kallsyms_lookup_size_offset))
		return;
	mutex_lock(&by_address_mutex);
	made = by_address || names_alone ? NULL : JIFL_ALLOC(kvzalloc(sizeof(*made), GFP_KERNEL));
	/* Without memory, or without an answer, names are looked up. */
	names_alone |= made && jifl_ksym_each(add_by_address);
	if (made && names_alone) {
		kvfree(made);
		made = NULL;
	} else if (made) {
		/* Pairs with the acquire in by_symbol. */
		smp_store_release(&by_address, made);
	}
	mutex_unlock(&by_address_mutex);
}

void jifl_function_expect(u32 n)
{
	make_by_address(n);
	jifl_refuse_in_modules_begin();
}

void jifl_function_asked(void)
{
	jifl_refuse_in_modules_end();
}

void jifl_function_refuse_exit(void)
{
	kvfree(by_address);
	by_address = NULL;
}

/* By the symbol: JIFL_REFUSED_UNKNOWN if none begins there. */
static enum jifl_refusal by_symbol(unsigned long begin)
{
	const struct by_address *b = smp_load_acquire(&by_address);
	char name[KSYM_NAME_LEN];
	enum jifl_refusal why;
	u32 k;

	if (!jifl_text_is_core(begin) && jifl_refuse_in_module(begin, &why))
		return why;
	if (!b || !jifl_text_is_core(begin))
		return jifl_ksym_begins(begin, name, sizeof(name)) ?
			       jifl_function_name_refusal(name) :
			       JIFL_REFUSED_UNKNOWN;
	if (jifl_ksym_start(begin) != begin)
		return JIFL_REFUSED_UNKNOWN;
	k = jifl_first(i, b->n, b->refused[i].begin < begin);
	return k < b->n && b->refused[k].begin == begin ? b->refused[k].why : JIFL_REFUSED_NO;
}

/* What the engine would say of the code there. */
static enum jifl_refusal by_text(unsigned long addr)
{
	enum jifl_cause cause = JIFL_CAUSE_NONE;
	const unsigned long cookie = jifl_host_lock();
	const enum jifl_text text = jifl_host_classify(jifl_orig_at(addr), &cause);

	jifl_host_unlock(cookie);
	if (text == JIFL_TEXT_CODE || JIFL_HOST_PLANTED(text_not_refused))
		return JIFL_REFUSED_NO;
	switch (cause) {
	case JIFL_CAUSE_REPLACED:	/* what replaces it can be copied */
		return JIFL_REFUSED_NO;
	case JIFL_CAUSE_SCHEDULE:
	case JIFL_CAUSE_STACK:
		return JIFL_REFUSED_SCHEDULE;
	case JIFL_CAUSE_NOINSTR:
		return JIFL_REFUSED_NOINSTR;
	case JIFL_CAUSE_OWN:
		return JIFL_REFUSED_OWN;
	case JIFL_CAUSE_FOREIGN:
		return JIFL_REFUSED_UNKNOWN;
	default:
		return JIFL_REFUSED_NATIVE;
	}
}

enum jifl_refusal jifl_function_without_door(unsigned long begin)
{
	return jifl_ksym_fentry(begin) ? JIFL_REFUSED_TAKEN : JIFL_REFUSED_SITE;
}

/*
 * Others may take the site from here on. Then jifl_function_attach refuses it, and with it the
 * session, also if the function could be left out.
 */
static enum jifl_refusal by_site(unsigned long begin)
{
	const unsigned long site = jifl_ksym_fentry(begin);
	enum jifl_bar bar;
	unsigned long direct;

	if (!site)
		return JIFL_HOST_PLANTED(sites_assumed) ? JIFL_REFUSED_NO : JIFL_REFUSED_SITE;
	if (JIFL_HOST_PLANTED(owners_ignored))
		return JIFL_REFUSED_NO;
	/* Calls go to other code, and whoever stands behind the site meets none. */
	bar = jifl_compat_direct_bar(site);
	if (bar == JIFL_BAR_PATCH && !JIFL_HOST_PLANTED(patches_ignored))
		return JIFL_REFUSED_PATCHED;
	direct = JIFL_HOST_PLANTED(takers_ignored) ? 0 : jifl_compat_direct_find(site);
	return bar || (direct && direct != jifl_function_stub_address()) ? JIFL_REFUSED_TAKEN :
									   JIFL_REFUSED_NO;
}

/* JIFL_REFUSED_SITE, TAKEN and PATCHED are the last that are found. */
enum jifl_refusal jifl_function_refusal(unsigned long begin)
{
	enum jifl_refusal named, why;

	if (!IS_ENABLED(CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS) || !IS_ENABLED(CONFIG_RETHOOK))
		return JIFL_REFUSED_KERNEL;
	named = begin ? by_symbol(begin) : JIFL_REFUSED_UNKNOWN;
	if (named == JIFL_REFUSED_UNKNOWN)
		return named;
	why = by_text(begin);
	if (why == JIFL_REFUSED_NO && !JIFL_HOST_PLANTED(names_not_refused))
		why = named;
	return why ?: by_site(begin);
}
