// SPDX-License-Identifier: GPL-2.0
/*
 * Finds, redirects and restores direct calls in the kernel's own text; first of all the one call of
 * x64_sys_call, in do_syscall_64. The flight recorder has others (flight/calls.c).
 *
 * In all known kernels do_syscall_64 has exactly one direct call of x64_sys_call, and no other code
 * refers to that function. The call's target is the function. If the kernel counts calls in the
 * padding before functions (retbleed=stuff; arch/x86/kernel/callthunks.c), it is that padding.
 *
 * This file changes the target as the kernel itself changes live text: by jifl_compat_poke, with
 * text_mutex held. Other CPUs may execute the call during its three steps: they find the old call,
 * an int3 whose handler emulates the new call, or the new call. The bytes are compared before each
 * change and after it.
 *
 * All functions: process context; sleep.
 */
#include <linux/kallsyms.h>
#include <linux/memory.h>
#include <linux/string.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../compat/import.h"
#include "../compat/poke.h"
#include "../compat/ksym.h"
#include "call_site.h"

struct jifl_call_site jifl_call_site;

static unsigned long sys_call;		/* x64_sys_call */
static struct mutex *text_mutex_found;

static unsigned long target_of(const u8 *call)
{
	s32 rel;

	memcpy(&rel, call + 1, sizeof(rel));
	return (unsigned long)call + CALL_INSN_SIZE + rel;
}

/* True for the function and for the padding before it. */
static bool is_target(unsigned long target, unsigned long function)
{
	unsigned long padding = 0;

#ifdef CONFIG_FUNCTION_PADDING_BYTES
	padding = CONFIG_FUNCTION_PADDING_BYTES;
#endif
	return target <= function && target >= function - padding;
}

/* Looks at each instruction from start to end. Returns the number of calls of the function. */
static unsigned int find_calls(unsigned long start, unsigned long end, unsigned long function,
			       struct jifl_call_site *site)
{
	unsigned long cookie = jifl_host_lock();
	unsigned int n = 0;
	unsigned long at;

	for (at = start; at < end;) {
		u32 len = jifl_engine_insn_length(jifl_orig_at(at));
		const u8 *insn = (const u8 *)at;

		if (len == CALL_INSN_SIZE && *insn == CALL_INSN_OPCODE &&
		    is_target(target_of(insn), function)) {
			site->call = (u8 *)at;
			site->target = target_of(insn);
			n++;
		}
		at += len ?: 1;
	}
	jifl_host_unlock(cookie);
	return n;
}

unsigned int jifl_call_site_find(struct jifl_call_site *site, unsigned long caller,
				 unsigned long function)
{
	unsigned int n;

	mutex_lock(text_mutex_found);
	n = find_calls(caller, jifl_ksym_end(caller), function, site);
	mutex_unlock(text_mutex_found);
	return n;
}

/* Writes the symbol at addr into name. Without a symbol it writes words, not the address. */
static void name_of(unsigned long addr, char name[KSYM_SYMBOL_LEN])
{
	sprint_symbol(name, addr);
	/* The log must not hold addresses. */
	if (!strncmp(name, "0x", 2))
		strscpy(name, "code without a name", KSYM_SYMBOL_LEN);
}

int jifl_call_site_init(void)
{
	unsigned long caller = jifl_ksym("do_syscall_64");
	unsigned int n;

	sys_call = jifl_ksym("x64_sys_call");
	text_mutex_found = (struct mutex *)jifl_ksym("text_mutex");
	if (!caller || !text_mutex_found || !sys_call || !jifl_compat_poke_works()) {
		pr_err("no %s: use a kernel that has it\n", !caller ? "do_syscall_64" :
		       !sys_call ? "x64_sys_call" :
		       !text_mutex_found ? "text_mutex" : "text_poke_bp or smp_text_poke_single");
		return -EOPNOTSUPP;
	}

	n = jifl_call_site_find(&jifl_call_site, caller, sys_call);
	if (n == 1)
		return 0;
	pr_err("do_syscall_64 has %u calls of x64_sys_call instead of one: remove who redirects it, or use another kernel\n",
	       n);
	return -EOPNOTSUPP;
}

unsigned long jifl_call_site_function(void)
{
	return sys_call;
}

/* Says in the log what stands in the call's place. */
static void tell_owner(const struct jifl_call_site *site)
{
	char name[KSYM_SYMBOL_LEN] = "a breakpoint or another instruction", own[KSYM_SYMBOL_LEN];

	if (*site->call == CALL_INSN_OPCODE || *site->call == JMP32_INSN_OPCODE)
		name_of(target_of(site->call), name);
	name_of(site == &jifl_call_site ? sys_call : site->target, own);
	pr_err("the call of %.*s is taken by %s: remove that first\n",
	       (int)strcspn(own, "+"), own, name);
}

/* Under text_mutex. */
static int change(const struct jifl_call_site *site, unsigned long from, unsigned long to)
{
	u8 insn[CALL_INSN_SIZE] = { CALL_INSN_OPCODE };
	s32 rel = (s32)(to - (unsigned long)site->call - CALL_INSN_SIZE);

	if (*site->call != CALL_INSN_OPCODE || target_of(site->call) != from) {
		tell_owner(site);
		return -EBUSY;
	}
	if (from == to)
		return 0;
	memcpy(insn + 1, &rel, sizeof(rel));
	jifl_compat_poke(site->call, insn, sizeof(insn));
	return memcmp(site->call, insn, sizeof(insn)) ? -EIO : 0;
}

int jifl_call_site_change(const struct jifl_call_site *site, unsigned long from, unsigned long to)
{
	int err;

	mutex_lock(text_mutex_found);
	err = change(site, from, to);
	mutex_unlock(text_mutex_found);
	return err;
}
