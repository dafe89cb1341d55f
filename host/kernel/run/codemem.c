// SPDX-License-Identifier: GPL-2.0
/*
 * The code cache's memory. Its executable mapping is read-only and lies in the module area, so
 * rel32 reaches it from kernel text. It contains int3 wherever the engine has not written. The
 * engine writes through a second mapping of the same pages, the alias. The alias is never
 * executable, has a random address and exists only between jifl_codemem_open and
 * jifl_codemem_close.
 *
 * 1. No mapping is writable and executable. The executable mapping is made writable and not
 *    executable, loses write access, and becomes executable after that. At the end it loses execute
 *    access first. The alias never has execute access.
 * 2. When the executable mapping loses write access, the same pages lose it in the kernel's direct
 *    map, too: set_memory_ro() changes both. So while the cache is executable its pages are
 *    read-only in the direct map. set_memory_x() leaves the direct map alone: it is never
 *    executable.
 * 3. The executable mapping has large pages (2 MiB) if the size is 2 MiB or more and the kernel
 *    gives them. Kernel text has large pages as well, so a call that runs in both needs few TLB
 *    entries. The size is rounded up to whole large pages, so memory grows by less than one.
 *    Permissions are changed for whole large pages only, because a change of a part splits the
 *    page, here and in the direct map. A smaller cache has small pages.
 * 4. The alias always has small pages: it is mapped and unmapped page by page. The pages of a large
 *    page are split (split_page), so each has its own reference count.
 *
 * Context: init, exit, open and close: process context. The functions of host.h: under the engine
 * lock, any context but NMI.
 */
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../compat/import.h"
#include "../compat/ksym.h"
#include "codemem.h"

/*
 * The kernel never frees page tables of the vmalloc area. If the alias could have any address, each
 * open would cost more page tables. So it moves within a window that is chosen once per load of the
 * module.
 */
#define WINDOW_MIN	(256UL << 20)

static struct {
	u8 *exec;
	u32 size;
	u32 page;			/* bytes of each page of exec */
	bool large;			/* exec is of jifl_compat_exec_alloc_large */
	struct page **pages;
	unsigned long window;		/* the alias lies in here */
	unsigned long window_size;	/* bytes */
	struct mm_struct *init_mm;

	struct mutex lock;		/* guards all that follows */
	unsigned int users;
	struct vm_struct *area;
	u8 *alias;			/* read under the engine lock: its user holds it open */
} mem = {
	.lock = __MUTEX_INITIALIZER(mem.lock),
};

static int find_symbols(void)
{
	mem.init_mm = (struct mm_struct *)jifl_ksym("init_mm");
	if (mem.init_mm)
		return 0;
	pr_err("no init_mm: use a kernel that has it\n");
	return -EOPNOTSUPP;
}

static void choose_window(void)
{
	unsigned long room = VMALLOC_END - VMALLOC_START;

	mem.window_size = max(WINDOW_MIN, 4UL * mem.size);
	mem.window = VMALLOC_START;
	if (room > 2 * mem.window_size)
		mem.window += get_random_u64() % (room - 2 * mem.window_size);
	mem.window &= PAGE_MASK;
}

static void alloc_exec(u32 size)
{
	if (size >= PMD_SIZE) {
		mem.size = ALIGN(size, PMD_SIZE);
		mem.exec = JIFL_ALLOC(jifl_compat_exec_alloc_large(mem.size));
		mem.large = mem.exec;
	}
	if (!mem.exec) {
		mem.size = PAGE_ALIGN(size);
		mem.exec = JIFL_ALLOC(jifl_compat_exec_alloc(mem.size));
	}
}

/* A planted bug: permissions are changed page by page, which splits large pages. */
static int protect(void)
{
	u32 step = JIFL_HOST_PLANTED(large_pages_split) ? PAGE_SIZE : mem.size, at;
	int err = 0;

	for (at = 0; at < mem.size && !err; at += step)
		err = jifl_compat_exec_protect(mem.exec + at, step);
	mem.page = mem.large ? jifl_compat_exec_page(mem.exec, mem.size) : PAGE_SIZE;
	return err;
}

int jifl_codemem_init(u32 size)
{
	u32 i;
	int err = find_symbols();

	if (err)
		return err;

	jifl_compat_exec_init();
	alloc_exec(size);
	choose_window();
	mem.pages = JIFL_ALLOC(kvmalloc_array(mem.size >> PAGE_SHIFT, sizeof(*mem.pages),
					      GFP_KERNEL));
	if (!mem.pages || !mem.exec) {
		pr_err("no %u bytes of executable memory: ask for less\n", mem.size);
		jifl_codemem_exit();
		return -ENOMEM;
	}
	for (i = 0; i < mem.size >> PAGE_SHIFT; i++)
		mem.pages[i] = vmalloc_to_page(mem.exec + i * PAGE_SIZE);

	memset(mem.exec, INT3_INSN_OPCODE, mem.size);
	err = protect();
	if (err) {
		pr_err("cannot make memory executable: error %d\n", err);
		jifl_codemem_exit();
	}
	return err;
}

void jifl_codemem_exit(void)
{
	WARN_ON(mem.users);
	if (mem.large)
		jifl_compat_exec_free_large(mem.exec, mem.size);
	else
		vfree(mem.exec);
	kvfree(mem.pages);
	mem.exec = NULL;
	mem.pages = NULL;
}

u64 jifl_codemem_base(void)
{
	return (unsigned long)mem.exec;
}

u32 jifl_codemem_size(void)
{
	return mem.size;
}

bool jifl_codemem_has(u64 addr)
{
	return addr - jifl_codemem_base() < mem.size;
}

u32 jifl_codemem_page(void)
{
	return mem.page;
}

static int map_page(pte_t *pte, unsigned long addr, void *arg)
{
	unsigned long i = (addr - (unsigned long)mem.area->addr) >> PAGE_SHIFT;

	set_pte(pte, mk_pte(mem.pages[i], PAGE_KERNEL));
	return 0;
}

static int map_alias(void)
{
	unsigned long start = mem.window;
	int err;

	start += (get_random_u64() % (mem.window_size - mem.size)) & PAGE_MASK;
	mem.area = jifl_import(__get_vm_area_caller)(mem.size, VM_MAP, start, VMALLOC_END,
						 __builtin_return_address(0));
	if (!mem.area)
		return -ENOMEM;
	err = apply_to_page_range(mem.init_mm, (unsigned long)mem.area->addr, mem.size,
				  map_page, NULL);
	if (err) {
		free_vm_area(mem.area);
		mem.area = NULL;
		return err;
	}
	WRITE_ONCE(mem.alias, mem.area->addr);
	return 0;
}

int jifl_codemem_open(void)
{
	int err = 0;

	mutex_lock(&mem.lock);
	if (!mem.users)
		err = map_alias();
	if (!err)
		mem.users++;
	mutex_unlock(&mem.lock);
	return err;
}

void jifl_codemem_close(void)
{
	mutex_lock(&mem.lock);
	if (!WARN_ON(!mem.users) && !--mem.users) {
		WRITE_ONCE(mem.alias, NULL);
		free_vm_area(mem.area);
		mem.area = NULL;
		/* Without this the kernel would flush the TLB some time later. */
		vm_unmap_aliases();
	}
	mutex_unlock(&mem.lock);
}

/* Writable address of n bytes at pos; NULL if they are outside the cache, or no alias exists. */
static void *writable(jifl_pos pos, u32 n)
{
	u8 *alias = READ_ONCE(mem.alias);

	if (WARN_ON_ONCE(!alias || pos.off > mem.size || n > mem.size - pos.off))
		return NULL;
	return alias + pos.off;
}

/*
 * By quadwords, not by memcpy: memcpy may be rep movsb, and then an emulated processor checks for
 * each byte whether it changes code that the emulator has translated.
 */
void jifl_host_code_write(jifl_pos pos, const void *src, u32 n)
{
	u8 *to = writable(pos, n);
	const u8 *from = src;
	u64 word;

	if (!to)
		return;
	for (; n >= sizeof(word); n -= sizeof(word), to += sizeof(word), from += sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		WRITE_ONCE(*(u64 *)to, word);
	}
	for (; n; n--)
		WRITE_ONCE(*to++, *from++);
}

void jifl_host_code_store32(jifl_pos pos, u32 value)
{
	void *to = writable(pos, sizeof(value));

	/* Within one aligned quadword the processor makes one store of it. */
	if (to && !WARN_ON_ONCE((pos.off & 7) > 4))
		WRITE_ONCE(*(u32 *)to, value);
}

void jifl_host_code_store64(jifl_pos pos, u64 value)
{
	void *to = writable(pos, sizeof(value));

	if (to && !WARN_ON_ONCE(pos.off & 7))
		WRITE_ONCE(*(u64 *)to, value);
}
