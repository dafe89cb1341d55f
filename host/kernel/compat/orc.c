// SPDX-License-Identifier: GPL-2.0
/*
 * What objtool's tables for stack walks (ORC) say of an address; see compat.h.
 *
 * The tables of the kernel and of each module are in the order of addresses: the kernel sorts them
 * when it starts, or loads the module (arch/x86/kernel/unwind_orc.c). An entry is about the
 * addresses from its own on, up to that of the next entry.
 */
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/version.h>
#include <asm/orc_types.h>

#include "../search.h"
#include "compat.h"
#include "import.h"
#include "ksym.h"

#ifdef CONFIG_UNWINDER_ORC
struct orc_table {
	const int *ip;			/* the n addresses, each relative to its own place */
	const struct orc_entry *entries;
	u32 n;
};

static unsigned long orc_address(const int *ip)
{
	return (unsigned long)ip + *ip;
}

/* The kernel's own, which never changes: looked up once, for thousands of functions. */
static struct orc_table orc_table_of_kernel(void)
{
	static struct orc_table t;	/* under the callers' mutex */

	if (!t.entries) {
		t.ip = (const int *)jifl_ksym("__start_orc_unwind_ip");
		t.n = (const int *)jifl_ksym("__stop_orc_unwind_ip") - t.ip;
		t.entries = (const struct orc_entry *)jifl_ksym("__start_orc_unwind");
	}
	return t;
}

/* Preemption off, as long as the table is used. */
static struct orc_table orc_table_of(unsigned long addr)
{
	const struct module *mod = jifl_import(__module_address)(addr);
	struct orc_table t;

	if (mod)
		t = (struct orc_table){
			.ip = mod->arch.orc_unwind_ip,
			.entries = mod->arch.orc_unwind,
			.n = mod->arch.num_orcs,
		};
	else
		t = orc_table_of_kernel();
	if (!t.ip || !t.entries)
		t.n = 0;
	return t;
}

static bool orc_is_call(const struct orc_entry *e)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	return e->type == ORC_TYPE_CALL;
#else
	return e->type == UNWIND_HINT_TYPE_CALL && !e->end;
#endif
}

bool jifl_compat_is_called(unsigned long addr)
{
	const struct orc_entry *e;
	struct orc_table t;
	bool called = false;
	u32 k;

	preempt_disable();
	t = orc_table_of(addr);
	k = jifl_first(i, t.n, orc_address(&t.ip[i]) <= addr);
	if (k) {
		e = &t.entries[k - 1];
		called = orc_is_call(e) && e->sp_reg == ORC_REG_SP && e->sp_offset == 8;
	}
	preempt_enable();
	return called;
}
#else
bool jifl_compat_is_called(unsigned long addr)
{
	return false;
}
#endif
