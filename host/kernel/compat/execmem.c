// SPDX-License-Identifier: GPL-2.0
/*
 * Executable memory in the module area, by whatever name the kernel has it.
 * Called by codemem.c, in process context.
 *
 * The kernel's functions are reached by static calls: an indirect call would
 * need an endbr64, which the kernel removes from functions whose address it
 * never takes itself.
 */
#include <linux/mm.h>
#include <linux/static_call.h>

#include "../kernel.h"
#include "compat.h"
#include "ksym.h"

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)

#include <linux/execmem.h>

static void *proto_alloc(enum execmem_type type, size_t size)
{
	return NULL;
}

DEFINE_STATIC_CALL(jifl_exec_alloc, proto_alloc);

#define ALLOC_NAME	"execmem_alloc"
#define ALLOC(size)	static_call(jifl_exec_alloc)(EXECMEM_MODULE_TEXT, size)

#else

static void *proto_alloc(unsigned long size)
{
	return NULL;
}

DEFINE_STATIC_CALL(jifl_exec_alloc, proto_alloc);

#define ALLOC_NAME	"module_alloc"
#define ALLOC(size)	static_call(jifl_exec_alloc)(size)

#endif

static int proto_set_memory(unsigned long addr, int pages)
{
	return -EOPNOTSUPP;
}

DEFINE_STATIC_CALL(jifl_set_memory_ro, proto_set_memory);
DEFINE_STATIC_CALL(jifl_set_memory_x, proto_set_memory);

int jifl_compat_exec_init(void)
{
	unsigned long alloc = jifl_ksym(ALLOC_NAME);
	unsigned long ro = jifl_ksym("set_memory_ro");
	unsigned long x = jifl_ksym("set_memory_x");

	if (!alloc || !ro || !x) {
		pr_err("no %s: use a kernel that has it\n",
		       !alloc ? ALLOC_NAME : !ro ? "set_memory_ro" : "set_memory_x");
		return -EOPNOTSUPP;
	}
	static_call_update(jifl_exec_alloc, (void *)alloc);
	static_call_update(jifl_set_memory_ro, (void *)ro);
	static_call_update(jifl_set_memory_x, (void *)x);
	return 0;
}

void *jifl_compat_exec_alloc(unsigned long size)
{
	return ALLOC(size);
}

int jifl_compat_exec_protect(void *mem, unsigned long size)
{
	int err;

	/* In this order there is no moment at which it is both. */
	err = static_call(jifl_set_memory_ro)((unsigned long)mem, size >> PAGE_SHIFT);
	if (err)
		return err;
	return static_call(jifl_set_memory_x)((unsigned long)mem, size >> PAGE_SHIFT);
}
