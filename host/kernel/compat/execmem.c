// SPDX-License-Identifier: GPL-2.0
/*
 * Executable memory in the module area, by whatever name the kernel has it.
 * Called by codemem.c, in process context.
 *
 * Large pages. The kernel's own allocator of executable memory gives small pages
 * only, so large ones come from the allocator below it. What the former does
 * beside that is done here:
 * 1. Both take memory that is writable and not executable (PAGE_KERNEL).
 * 2. It begins at a random place, so that modules are not where they always are.
 *    Large pages begin at one of some 500 places.
 * 3. It makes KASAN's shadow where vmalloc does not (KASAN without KASAN_VMALLOC).
 *    There is no large page for such a kernel.
 * 4. It has vfree() give the direct map its permissions back (VM_FLUSH_RESET_PERMS),
 *    small page by small page, which splits the direct map and needs memory for
 *    that. jifl_compat_exec_free_large gives them back itself, by the calls that
 *    took them. These change a large page as a whole, here and in the direct map,
 *    and flush TLBs, before vfree() returns the pages.
 *
 * The kernel's functions are reached by static calls: an indirect call would
 * need an endbr64, which the kernel removes from functions whose address it
 * never takes itself.
 */
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/random.h>
#include <linux/static_call.h>
#include <linux/vmalloc.h>

#include "../kernel.h"
#include "../plant.h"
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
#define VMALLOC_NAME	"__vmalloc_node_range_noprof"

#else

static void *proto_alloc(unsigned long size)
{
	return NULL;
}

DEFINE_STATIC_CALL(jifl_exec_alloc, proto_alloc);

#define ALLOC_NAME	"module_alloc"
#define ALLOC(size)	static_call(jifl_exec_alloc)(size)
#define VMALLOC_NAME	"__vmalloc_node_range"

#endif

static int proto_set_memory(unsigned long addr, int pages)
{
	return -EOPNOTSUPP;
}

DEFINE_STATIC_CALL(jifl_set_memory_ro, proto_set_memory);
DEFINE_STATIC_CALL(jifl_set_memory_x, proto_set_memory);
DEFINE_STATIC_CALL(jifl_set_memory_rw, proto_set_memory);
DEFINE_STATIC_CALL(jifl_set_memory_nx, proto_set_memory);

static void *proto_vmalloc(unsigned long size, unsigned long align, unsigned long start,
			   unsigned long end, gfp_t gfp, pgprot_t prot, unsigned long flags,
			   int node, const void *caller)
{
	return NULL;
}

DEFINE_STATIC_CALL(jifl_vmalloc_range, proto_vmalloc);

/* Without all that large pages need, proto_vmalloc stays: there are none. */
static void find_large(void)
{
	unsigned long vmalloc = jifl_ksym(VMALLOC_NAME);
	unsigned long rw = jifl_ksym("set_memory_rw");
	unsigned long nx = jifl_ksym("set_memory_nx");

	if (!vmalloc || !rw || !nx)
		return;
	if (IS_ENABLED(CONFIG_KASAN) && !IS_ENABLED(CONFIG_KASAN_VMALLOC))
		return;
	static_call_update(jifl_set_memory_rw, (void *)rw);
	static_call_update(jifl_set_memory_nx, (void *)nx);
	static_call_update(jifl_vmalloc_range, (void *)vmalloc);
}

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
	find_large();
	return 0;
}

void *jifl_compat_exec_alloc(unsigned long size)
{
	return ALLOC(size);
}

unsigned long jifl_compat_exec_page(const void *mem, unsigned long size)
{
	unsigned long addr = (unsigned long)mem, end = addr + size;
	unsigned int level;

	for (; addr < end; addr += PMD_SIZE)
		if (!lookup_address(addr, &level) || level != PG_LEVEL_2M)
			return PAGE_SIZE;
	return PMD_SIZE;
}

static void *alloc_from(unsigned long start, unsigned long size)
{
	return static_call(jifl_vmalloc_range)(size, PMD_SIZE, start, MODULES_END,
					       GFP_KERNEL | __GFP_NOWARN, PAGE_KERNEL,
					       VM_ALLOW_HUGE_VMAP, NUMA_NO_NODE,
					       __builtin_return_address(0));
}

void *jifl_compat_exec_alloc_large(unsigned long size)
{
	unsigned long places, area = MODULES_END - MODULES_VADDR;
	void *mem;

	if (size > area)
		return NULL;
	places = (area - size) / PMD_SIZE;
	mem = alloc_from(MODULES_VADDR + get_random_u64() % (places + 1) * PMD_SIZE, size);
	if (!mem)
		mem = alloc_from(MODULES_VADDR, size);
	/* The kernel falls back to small pages by itself: these come by ALLOC. */
	if (mem && jifl_compat_exec_page(mem, size) != PMD_SIZE) {
		vfree(mem);
		mem = NULL;
	}
	return mem;
}

void jifl_compat_exec_free_large(void *mem, unsigned long size)
{
	unsigned long addr = (unsigned long)mem;

	/* In this order there is no moment at which it is both. */
	if (static_call(jifl_set_memory_nx)(addr, size >> PAGE_SHIFT) ||
	    (!JIFL_HOST_PLANTED(direct_map_kept) &&
	     static_call(jifl_set_memory_rw)(addr, size >> PAGE_SHIFT))) {
		pr_err("cannot make the code cache plain memory again: it is not freed\n");
		return;
	}
	vfree(mem);
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
