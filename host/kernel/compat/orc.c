// SPDX-License-Identifier: GPL-2.0
/*
 * What objtool's tables for stack walks (ORC) say of an address; see compat.h.
 *
 * The tables of the kernel and of each module are in the order of addresses: the kernel sorts them
 * when it starts, or loads the module (arch/x86/kernel/unwind_orc.c). An entry is about the
 * addresses from its own on, up to that of the next entry.
 *
 * Why an instruction that writes rsp stays in the function's frame, where the entries before it and
 * behind it are about rsp (jifl_compat_keeps_frame):
 *
 * 1. Such an entry says: the frame ends at rsp plus a number. A frame ends where rsp is when the
 *    function has returned. That is one address as long as the function runs.
 * 2. So both values of rsp are at known distances from one address. The instruction has moved rsp
 *    by the difference of the two, in the same frame.
 * 3. objtool follows what registers hold. An entry behind a move into rsp is about rsp only if
 *    the other register was made of rsp, in this function (tools/objtool/check.c,
 *    update_cfi_state). A switch to another stack is described as one (ORC_REG_SP_INDIRECT), or,
 *    in a function whose frame is found by rbp, not at all: that entry is about rbp.
 * 4. Nobody changes the tables after load, and text that is patched has no move into rsp.
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

/* The kernel's own, which never changes. */
static struct orc_table of_kernel;

int jifl_compat_orc_init(void)
{
	const int *end = (const int *)jifl_ksym("__stop_orc_unwind_ip");

	of_kernel.ip = (const int *)jifl_ksym("__start_orc_unwind_ip");
	of_kernel.entries = (const struct orc_entry *)jifl_ksym("__start_orc_unwind");
	if (end && of_kernel.ip && of_kernel.entries)
		of_kernel.n = end - of_kernel.ip;
	return 0;
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
		t = of_kernel;
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

/* What the tables say of addr; false: nothing. */
static bool orc_of(unsigned long addr, struct orc_entry *found)
{
	struct orc_table t;
	u32 k;

	preempt_disable_notrace();
	t = orc_table_of(addr);
	k = jifl_first(i, t.n, orc_address(&t.ip[i]) <= addr);
	if (k)
		*found = t.entries[k - 1];
	preempt_enable_notrace();
	return k;
}

/* So much rsp is below the end of the function's frame; -1: the table says something else. */
static int orc_distance(unsigned long addr)
{
	struct orc_entry e;

	return orc_of(addr, &e) && orc_is_call(&e) && e.sp_reg == ORC_REG_SP ? e.sp_offset : -1;
}

unsigned long *jifl_compat_return_slot(unsigned long addr, unsigned long sp, unsigned long bp)
{
	struct orc_entry e;

	if (!orc_of(addr, &e) || !orc_is_call(&e))
		return NULL;
	if (e.sp_reg == ORC_REG_SP)
		return (unsigned long *)(sp + e.sp_offset) - 1;
	if (e.sp_reg == ORC_REG_BP)
		return (unsigned long *)(bp + e.sp_offset) - 1;
	return NULL;
}

bool jifl_compat_is_called(unsigned long addr)
{
	return orc_distance(addr) == 8;
}

bool jifl_compat_keeps_frame(unsigned long addr, unsigned long next)
{
	return orc_distance(addr) > 0 && orc_distance(next) > 0;
}
#else
int jifl_compat_orc_init(void)
{
	return 0;
}

bool jifl_compat_keeps_frame(unsigned long addr, unsigned long next)
{
	return false;
}

bool jifl_compat_is_called(unsigned long addr)
{
	return false;
}

unsigned long *jifl_compat_return_slot(unsigned long addr, unsigned long sp, unsigned long bp)
{
	return NULL;
}
#endif
