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
 */
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/random.h>
#include <linux/vmalloc.h>

#include "../kernel.h"
#include "../plant.h"
#include "compat.h"
#include "import.h"

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)

/* From 6.16 on memory for text is read-only from the start. That for modules' data is beside it. */
#define ALLOC(size)	jifl_import(execmem_alloc)(EXECMEM_MODULE_DATA, size)
#define VMALLOC		jifl_import(__vmalloc_node_range_noprof)
#define HAS_VMALLOC	jifl_imported(__vmalloc_node_range_noprof)

#else

#define ALLOC(size)	jifl_import(module_alloc)(size)
#define VMALLOC		jifl_import(__vmalloc_node_range)
#define HAS_VMALLOC	jifl_imported(__vmalloc_node_range)

#endif

/* There is all that large pages need. */
static bool has_large;

void jifl_compat_exec_init(void)
{
	has_large = HAS_VMALLOC && jifl_imported(set_memory_rw) && jifl_imported(set_memory_nx) &&
		    (!IS_ENABLED(CONFIG_KASAN) || IS_ENABLED(CONFIG_KASAN_VMALLOC));
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
	return VMALLOC(size, PMD_SIZE, start, MODULES_END, GFP_KERNEL | __GFP_NOWARN, PAGE_KERNEL,
		       VM_ALLOW_HUGE_VMAP, NUMA_NO_NODE, __builtin_return_address(0));
}

void *jifl_compat_exec_alloc_large(unsigned long size)
{
	unsigned long places, area = MODULES_END - MODULES_VADDR;
	void *mem;

	if (!has_large || size > area)
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
	if (jifl_import(set_memory_nx)(addr, size >> PAGE_SHIFT) ||
	    (!JIFL_HOST_PLANTED(direct_map_kept) &&
	     jifl_import(set_memory_rw)(addr, size >> PAGE_SHIFT))) {
		pr_err("cannot make the code cache plain memory again: it is not freed\n");
		return;
	}
	vfree(mem);
}

int jifl_compat_exec_protect(void *mem, unsigned long size)
{
	int err;

	/* In this order there is no moment at which it is both. */
	err = jifl_import(set_memory_ro)((unsigned long)mem, size >> PAGE_SHIFT);
	if (err)
		return err;
	return jifl_import(set_memory_x)((unsigned long)mem, size >> PAGE_SHIFT);
}
