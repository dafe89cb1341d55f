// SPDX-License-Identifier: GPL-2.0
/*
 * The memory of a recording: ordinary memory of the kernel, or such that a boot parameter has set
 * aside and that outlives the machine's restart (reserve_mem=, memmap=).
 *
 * Who finds the head's magic in an image of memory finds all: the head has the physical addresses
 * of a table, and that has those of all pages. The magic comes last, when all else is written, and
 * goes first.
 *
 * Memory at an address that the caller names is taken only if the firmware's map says that all of
 * it is RAM, and the kernel does not use any of it as such: so a parameter, memmap=SIZE$ADDRESS,
 * has taken it away. It is requested while it is mapped, so no driver has it.
 *
 * What is written stays in the processors' caches at first. A reset may lose that, on real
 * machines. So head and tables are flushed when they have changed, and all is at a panic.
 *
 * Context: process; sleeps.
 */
#include <linux/cpumask.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/utsname.h>
#include <linux/uuid.h>
#include <linux/vmalloc.h>
#include <asm/cacheflush.h>
#include <asm/e820/api.h>
#include <asm/msr.h>
#include <asm/tsc.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../compat/import.h"
#include "../compat/ksym.h"
#include "flight.h"

#define JIFL_REGION_BOOT_ID	"/proc/sys/kernel/random/boot_id"

static bool jifl_region_has_magic(const struct jifl_flight_head *head)
{
	return !memcmp(head->magic, JIFL_FLIGHT_MAGIC, sizeof(head->magic));
}

/* --- memory that was set aside ---------------------------------------------------------------- */

/* 0xADDRESS:0xBYTES */
static int jifl_region_by_address(const char *text, phys_addr_t *start, phys_addr_t *size)
{
	u64 from, bytes, at;
	char end;

	if (sscanf(text, "0x%15llx:0x%15llx%c", &from, &bytes, &end) != 2 || !bytes ||
	    (from | bytes) & ~PAGE_MASK)
		return -ENXIO;
	if (region_intersects(from, bytes, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) !=
	    REGION_DISJOINT)
		return -ENXIO;
	for (at = from; at < from + bytes; at += PAGE_SIZE)
		if (!jifl_import(e820__mapped_raw_any)(at, at + PAGE_SIZE, E820_TYPE_RAM))
			return -ENXIO;
	*start = from;
	*size = bytes;
	return 0;
}

static int jifl_region_map(struct jifl_region *region, const char *memory)
{
	phys_addr_t start, size;
	const bool named = jifl_compat_reserved_memory(memory, &start, &size);
	const int ret = named ? 0 : jifl_region_by_address(memory, &start, &size);

	if (ret || size < JIFL_FLIGHT_PAGE || start & ~PAGE_MASK)
		return -ENXIO;
	region->size = size;
	region->mapped = size;
	region->physical = start;
	region->requested = !named && request_mem_region(start, size, "jifl flight recorder");
	if (named || region->requested)
		region->base = JIFL_ALLOC(memremap(start, size, MEMREMAP_WB));
	if (region->base)
		return 0;
	jifl_region_leave(region);
	return -ENXIO;
}

void jifl_region_leave(struct jifl_region *region)
{
	if (region->base)
		memunmap(region->base);
	if (region->requested)
		release_mem_region(region->physical, region->mapped);
	*region = (struct jifl_region){};
}

int jifl_region_find(struct jifl_region *region, const char *memory, bool forget)
{
	int ret = jifl_region_map(region, memory);

	if (ret)
		return ret;
	if (!jifl_region_has_magic(region->base)) {
		jifl_region_leave(region);
		return -ENODATA;
	}
	if (forget) {
		memset(region->base, 0, JIFL_FLIGHT_PAGE);
		jifl_region_flush_head(region->base);
	}
	return 0;
}

void jifl_region_flush_head(const struct jifl_flight_head *head)
{
	clflush_cache_range((void *)head, JIFL_FLIGHT_PAGE);
}

void jifl_region_flush(const struct jifl_region *region)
{
	if (region->physical)
		clflush_cache_range(region->base, region->size);
}

/* --- the head --------------------------------------------------------------------------------- */

static void jifl_region_write_boot(struct jifl_flight_head *head)
{
	char text[UUID_STRING_LEN + 1] = {};
	struct file *file = filp_open(JIFL_REGION_BOOT_ID, O_RDONLY, 0);
	const void *build;
	loff_t at = 0;
	uuid_t uuid;

	if (!IS_ERR(file)) {
		if (kernel_read(file, text, UUID_STRING_LEN, &at) == UUID_STRING_LEN &&
		    !uuid_parse(text, &uuid))
			memcpy(head->boot_id, &uuid, sizeof(head->boot_id));
		filp_close(file, NULL);
	}
	build = (const void *)jifl_ksym("vmlinux_build_id");
	if (build)
		memcpy(head->build_id, build, sizeof(head->build_id));
	strscpy(head->release, init_utsname()->release, sizeof(head->release));
}

static void jifl_region_write_clocks(struct jifl_flight_head *head)
{
	unsigned long flags;

	head->tsc_khz = tsc_khz;
	local_irq_save(flags);
	head->tsc = rdtsc();
	head->monotonic_ns = ktime_get_mono_fast_ns();
	head->realtime_ns = ktime_get_real_fast_ns();
	local_irq_restore(flags);
}

/* Where the parts are. The size of all of it. */
static size_t jifl_region_lay_out(struct jifl_flight_head *head, u32 record_count, u32 nevents)
{
	const u64 ncpus = num_possible_cpus(), records = ncpus * record_count;
	const u64 bytes = records * sizeof(struct jifl_flight_record);
	u64 pages;

	head->version = JIFL_FLIGHT_VERSION;
	head->ncpus = ncpus;
	head->nevents = nevents;
	head->record_count = record_count;
	head->stop_at = U64_MAX;
	head->nimages = JIFL_FLIGHT_IMAGES;
	head->events_at = JIFL_FLIGHT_PAGE;
	head->images_at = head->events_at +
			  PAGE_ALIGN(JIFL_FLIGHT_EVENTS_MAX * sizeof(struct jifl_flight_event));
	head->rings_at = head->images_at +
			 PAGE_ALIGN(head->nimages * sizeof(struct jifl_flight_image));
	head->pages_at = head->rings_at + PAGE_ALIGN(ncpus * sizeof(struct jifl_flight_ring));
	/* The table has itself, too: a page of it for 511 others is more than enough. */
	pages = (head->pages_at + bytes) / JIFL_FLIGHT_PAGE;
	pages = DIV_ROUND_UP(pages, JIFL_FLIGHT_PAGE / sizeof(u64) - 1);
	head->records_at = head->pages_at + pages * JIFL_FLIGHT_PAGE;
	head->npages = (head->records_at + PAGE_ALIGN(bytes)) / JIFL_FLIGHT_PAGE;
	return pages <= JIFL_FLIGHT_TABLE_MAX ? (size_t)head->npages * JIFL_FLIGHT_PAGE : 0;
}

static u64 jifl_region_physical(const struct jifl_region *region, size_t offset)
{
	if (region->physical)
		return region->physical + offset;
	return (u64)vmalloc_to_pfn(region->base + offset) << PAGE_SHIFT;
}

static void jifl_region_write_pages(struct jifl_region *region)
{
	struct jifl_flight_head *head = region->base;
	u64 *pages = region->base + head->pages_at;
	const u32 ntable = (head->records_at - head->pages_at) / JIFL_FLIGHT_PAGE;
	u32 i;

	for (i = 0; i < head->npages; i++) {
		pages[i] = jifl_region_physical(region, (size_t)i * JIFL_FLIGHT_PAGE);
		cond_resched();
	}
	for (i = 0; i < ntable; i++)
		head->table[i] = jifl_region_physical(region, head->pages_at +
						      (size_t)i * JIFL_FLIGHT_PAGE);
}

/* --- opening and closing ---------------------------------------------------------------------- */

/* Memory for a layout of that size; the first page of it is not looked at. */
static int jifl_region_take(struct jifl_region *region, const char *memory, size_t size)
{
	int ret;

	if (!*memory) {
		region->base = JIFL_ALLOC(__vmalloc(size, GFP_KERNEL | __GFP_ZERO |
						    __GFP_RETRY_MAYFAIL | __GFP_NOWARN));
		region->size = size;
		return region->base ? 0 : -ENOMEM;
	}
	ret = jifl_region_map(region, memory);
	if (ret)
		return ret;
	ret = region->size < size ? -ENXIO : jifl_region_has_magic(region->base) ? -EEXIST : 0;
	if (ret)
		jifl_region_leave(region);
	else
		memset(region->base, 0, size);
	return ret;
}

int jifl_region_open(struct jifl_region *region, const char *memory, u32 record_count,
		     const struct jifl_flight_event *events, u32 nevents)
{
	struct jifl_flight_head *head = JIFL_ALLOC(kzalloc(sizeof(*head), GFP_KERNEL));
	size_t size;
	int ret = -E2BIG;

	if (!head)
		return -ENOMEM;
	size = jifl_region_lay_out(head, record_count, nevents);
	if (size)
		ret = jifl_region_take(region, memory, size);
	if (!ret) {
		region->size = size;
		jifl_region_write_boot(head);
		jifl_region_write_clocks(head);
		memcpy(region->base, head, sizeof(*head));
		memcpy(region->base + head->events_at, events, nevents * sizeof(*events));
		jifl_region_write_pages(region);
		jifl_region_flush(region);
	}
	kfree(head);
	return ret;
}

void jifl_region_close(struct jifl_region *region)
{
	if (!region->base)
		return;
	/* A finished recording is none of another boot's. */
	memset(region->base, 0, JIFL_FLIGHT_PAGE);
	jifl_region_flush_head(region->base);
	if (region->physical) {
		jifl_region_leave(region);
		return;
	}
	vfree(region->base);
	*region = (struct jifl_region){};
}
