// SPDX-License-Identifier: GPL-2.0
/*
 * Shows what no user can see, to judge what jifl.ko does to the kernel:
 *
 *   /proc/jifl_mappings  each way in which the kernel maps the pages of the code
 *	cache and of jifl.ko, with what the page tables allow; how many pages of the
 *	cache are in large ones; each page of the vmalloc and module areas that is
 *	writable and executable; whether a store to the code cache and to jifl.ko's
 *	text faults. Once jifl.ko is gone: what the direct map allows for the pages
 *	that were the cache's when this was last read
 *   /proc/jifl_text      writing takes a copy of all kernel text and of that of
 *	all modules but jifl and this one; reading compares and names the first
 *	differences
 *
 * Mappings are named by a word and counted, no address is shown but in a
 * difference of text.
 */
#include <linux/bsearch.h>
#include <linux/kallsyms.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pgtable.h>
#include <linux/proc_fs.h>
#include <linux/rculist.h>
#include <linux/seq_file.h>
#include <linux/sort.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

#include "lookup.h"

static unsigned long (*lookup)(const char *name);
static struct mm_struct *kernel_mm;

static int find_lookup(void)
{
	lookup = find_function("kallsyms_lookup_name");
	if (!lookup)
		return -ENOENT;
	kernel_mm = (void *)lookup("init_mm");
	return kernel_mm ? 0 : -ENOENT;
}

static void module_text(const struct module *mod, unsigned long *start, unsigned long *size)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	*start = (unsigned long)mod->mem[MOD_TEXT].base;
	*size = mod->mem[MOD_TEXT].size;
#else
	*start = (unsigned long)mod->core_layout.base;
	*size = mod->core_layout.text_size;
#endif
}

static struct module *jifl_module(void)
{
	struct list_head *modules = (void *)lookup("modules");
	struct module *mod;

	list_for_each_entry_rcu(mod, modules, list)
		if (!strcmp(mod->name, "jifl") && mod->state == MODULE_STATE_LIVE)
			return mod;
	return NULL;
}

/* --- mappings ------------------------------------------------------------------------ */

/* What the page tables say of one address, all levels together. */
struct mapping {
	unsigned long pfn;
	unsigned long size;	/* that one entry covers */
	bool present, write, exec;
};

static struct mapping map_of(unsigned long addr)
{
	struct mapping m = { .size = PGDIR_SIZE, .write = true, .exec = true };
	pgd_t *pgd = pgd_offset(kernel_mm, addr);
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;
	pte_t *pte;

#define LEVEL(entry)							\
	do {								\
		m.write &= !!((entry) & _PAGE_RW);			\
		m.exec &= !((entry) & _PAGE_NX);			\
	} while (0)
	if (pgd_none(*pgd))
		return m;
	LEVEL(pgd_val(*pgd));
	p4d = p4d_offset(pgd, addr);
	m.size = P4D_SIZE;
	if (p4d_none(*p4d))
		return m;
	LEVEL(p4d_val(*p4d));
	pud = pud_offset(p4d, addr);
	m.size = PUD_SIZE;
	if (pud_none(*pud))
		return m;
	LEVEL(pud_val(*pud));
	if (pud_leaf(*pud)) {
		m.pfn = pud_pfn(*pud) + ((addr & ~PUD_MASK) >> PAGE_SHIFT);
		m.present = true;
		return m;
	}
	pmd = pmd_offset(pud, addr);
	m.size = PMD_SIZE;
	if (pmd_none(*pmd))
		return m;
	LEVEL(pmd_val(*pmd));
	if (pmd_leaf(*pmd)) {
		m.pfn = pmd_pfn(*pmd) + ((addr & ~PMD_MASK) >> PAGE_SHIFT);
		m.present = true;
		return m;
	}
	pte = pte_offset_kernel(pmd, addr);
	m.size = PAGE_SIZE;
	if (!pte_present(*pte))
		return m;
	LEVEL(pte_val(*pte));
	m.pfn = pte_pfn(*pte);
	m.present = true;
#undef LEVEL
	return m;
}

/* The pages that are the code cache's. */
static struct {
	unsigned long base, pages;
	unsigned long large;	/* of these, how many in pages of 2 MiB */
	unsigned long *pfns;	/* sorted */
} cache;
static DEFINE_MUTEX(cache_lock);

static int compare_longs(const void *a, const void *b)
{
	unsigned long x = *(unsigned long *)a, y = *(unsigned long *)b;

	return x < y ? -1 : x > y;
}

static bool is_cache(unsigned long pfn)
{
	return bsearch(&pfn, cache.pfns, cache.pages, sizeof(pfn), compare_longs);
}

static int find_cache(void)
{
	u64 (*base)(void) = (void *)lookup("jifl:jifl_codemem_base");
	u32 (*size)(void) = (void *)lookup("jifl:jifl_codemem_size");
	unsigned long i;

	if (!base || !size)
		return -ENOENT;
	kvfree(cache.pfns);
	cache.base = base();
	cache.pages = size() >> PAGE_SHIFT;
	cache.large = 0;
	cache.pfns = kvmalloc_array(cache.pages, sizeof(long), GFP_KERNEL);
	if (!cache.pfns)
		return -ENOMEM;
	for (i = 0; i < cache.pages; i++) {
		struct mapping m = map_of(cache.base + i * PAGE_SIZE);

		cache.pfns[i] = m.pfn;
		cache.large += m.present && m.size == PMD_SIZE;
	}
	sort(cache.pfns, cache.pages, sizeof(long), compare_longs, NULL);
	return 0;
}

/* Pages by what they allow. */
struct tally {
	unsigned long rx, rw, ro, rwx;
};

static void count(struct tally *t, const struct mapping *m)
{
	if (m->write && m->exec)
		t->rwx++;
	else if (m->write)
		t->rw++;
	else if (m->exec)
		t->rx++;
	else
		t->ro++;
}

static void show(struct seq_file *f, const char *what, const struct tally *t)
{
	seq_printf(f, "%s rx %lu rw %lu ro %lu rwx %lu\n", what, t->rx, t->rw, t->ro, t->rwx);
}

/*
 * All of an area, absent parts in strides. What maps a page of the cache goes
 * into `mine`, everything into `all`.
 */
static void walk(unsigned long from, unsigned long to, struct tally *mine, struct tally *all)
{
	unsigned long addr = from, next;

	while (addr < to && addr >= from) {
		struct mapping m = map_of(addr);

		next = m.present ? addr + PAGE_SIZE : (addr & ~(m.size - 1)) + m.size;
		if (m.present) {
			count(all, &m);
			if (is_cache(m.pfn))
				count(mine, &m);
		}
		addr = next;
		cond_resched();
	}
}

static void show_direct_map(struct seq_file *f, const char *what)
{
	struct tally t = {};
	unsigned long i;

	for (i = 0; i < cache.pages; i++) {
		struct mapping m = map_of((unsigned long)pfn_to_kaddr(cache.pfns[i]));

		if (m.present)
			count(&t, &m);
	}
	show(f, what, &t);
}

/*
 * copy_to_kernel_nofault, which is not exported, for the byte that stands there:
 * harmless if it should succeed.
 */
static int store(unsigned long addr)
{
	u8 *p = (u8 *)addr, byte;

	if (copy_from_kernel_nofault(&byte, p, 1))
		return -ENXIO;
	pagefault_disable();
	__put_kernel_nofault(p, &byte, u8, fault);
	pagefault_enable();
	return 0;
fault:
	pagefault_enable();
	return -EFAULT;
}

static void show_jifl_text(struct seq_file *f)
{
	unsigned long start = 0, size = 0, i;
	struct module *mod;
	struct tally t = {};

	rcu_read_lock();
	mod = jifl_module();
	if (mod)
		module_text(mod, &start, &size);
	rcu_read_unlock();
	for (i = 0; i < size; i += PAGE_SIZE) {
		struct mapping m = map_of(start + i);

		if (m.present)
			count(&t, &m);
	}
	show(f, "module-text", &t);
	seq_printf(f, "store-to-module %d\n", store(start));
}

static int mappings_show(struct seq_file *f, void *v)
{
	struct tally mine = {}, alias = {}, all = {}, modules = {};
	int err;

	mutex_lock(&cache_lock);
	/* Its functions and pages stay while this reads. */
	if (!jifl_module() || !try_module_get(jifl_module())) {
		show_direct_map(f, "former-cache-in-direct-map");
		mutex_unlock(&cache_lock);
		return 0;
	}
	err = find_cache();
	if (err)
		goto out;
	seq_printf(f, "cache-pages %lu\n", cache.pages);
	seq_printf(f, "cache-large-pages %lu\n", cache.large);
	walk(MODULES_VADDR, MODULES_END, &mine, &modules);
	walk(VMALLOC_START, VMALLOC_END, &alias, &all);
	show(f, "cache-in-module-area", &mine);
	show(f, "cache-in-vmalloc-area", &alias);
	show_direct_map(f, "cache-in-direct-map");
	show_jifl_text(f);
	show(f, "module-area", &modules);
	show(f, "vmalloc-area", &all);
	seq_printf(f, "store-to-cache %d\n", store(cache.base));
out:
	module_put(jifl_module());
	mutex_unlock(&cache_lock);
	return err;
}

/* --- text ------------------------------------------------------------------------------ */

#define MODULES_MAX	64

static DEFINE_MUTEX(text_lock);
static struct part {
	char name[MODULE_NAME_LEN];
	unsigned long start, size;
	u8 *copy;
} parts[MODULES_MAX];
static int nparts;

static void forget_text(void)
{
	while (nparts)
		vfree(parts[--nparts].copy);
}

static bool is_judged(const struct module *mod)
{
	return mod->state == MODULE_STATE_LIVE && mod != THIS_MODULE && strcmp(mod->name, "jifl");
}

static int list_parts(void)
{
	struct list_head *modules = (void *)lookup("modules");
	struct module *mod;

	strscpy(parts[0].name, "vmlinux", sizeof(parts[0].name));
	parts[0].start = lookup("_stext");
	parts[0].size = lookup("_etext") - parts[0].start;
	nparts = 1;
	rcu_read_lock();
	list_for_each_entry_rcu(mod, modules, list) {
		if (!is_judged(mod) || nparts == MODULES_MAX)
			continue;
		strscpy(parts[nparts].name, mod->name, sizeof(parts[0].name));
		module_text(mod, &parts[nparts].start, &parts[nparts].size);
		parts[nparts++].copy = NULL;
	}
	rcu_read_unlock();
	return nparts == MODULES_MAX ? -ENOSPC : 0;
}

static int copy_parts(void)
{
	int i, err = list_parts();

	for (i = 0; i < nparts && !err; i++) {
		parts[i].copy = vmalloc(parts[i].size);
		if (!parts[i].copy)
			err = -ENOMEM;
		else
			err = copy_from_kernel_nofault(parts[i].copy, (void *)parts[i].start,
						       parts[i].size);
	}
	if (err)
		forget_text();
	return err;
}

static ssize_t text_write(struct file *file, const char __user *buf, size_t n, loff_t *pos)
{
	int err;

	mutex_lock(&text_lock);
	forget_text();
	err = copy_parts();
	mutex_unlock(&text_lock);
	return err ?: n;
}

static int text_show(struct seq_file *f, void *v)
{
	unsigned long differing = 0, bytes = 0, j;
	int i;

	mutex_lock(&text_lock);
	for (i = 0; i < nparts; i++) {
		for (j = 0; j < parts[i].size; j++) {
			u8 now = *(u8 *)(parts[i].start + j);

			if (now == parts[i].copy[j])
				continue;
			if (differing++ < 32)
				seq_printf(f, "difference %pS was %02x is %02x\n",
					   (void *)(parts[i].start + j), parts[i].copy[j], now);
		}
		bytes += parts[i].size;
	}
	seq_printf(f, "parts %d bytes %lu differing %lu\n", nparts, bytes, differing);
	mutex_unlock(&text_lock);
	return 0;
}

static int text_open(struct inode *inode, struct file *file)
{
	return single_open(file, text_show, NULL);
}

static const struct proc_ops text_ops = {
	.proc_open = text_open,
	.proc_read = seq_read,
	.proc_write = text_write,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

static int __init inspect_init(void)
{
	int err = find_lookup();

	if (err)
		return err;
	proc_create_single("jifl_mappings", 0400, NULL, mappings_show);
	proc_create("jifl_text", 0600, NULL, &text_ops);
	return 0;
}
module_init(inspect_init);

static void __exit inspect_exit(void)
{
	remove_proc_entry("jifl_mappings", NULL);
	remove_proc_entry("jifl_text", NULL);
	forget_text();
	kvfree(cache.pfns);
}
module_exit(inspect_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Page tables and text, for JIFL's tests");
