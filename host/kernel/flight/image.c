// SPDX-License-Identifier: GPL-2.0
/*
 * The recording's table of where code lies: the kernel and its modules. So addresses in records
 * mean something to a reader whose kernel is another one, or lies elsewhere.
 *
 * 1. A module that goes stays in the table: records from before have its addresses. A later one
 *    whose memory overlaps takes its place. If the table is full, modules are left out.
 * 2. An entry has no size while it is written. Stores are seen in their order, so who reads the
 *    memory after a crash reads an entry that is whole, or none.
 * 3. Modules that are loaded while the table is filled are in the list, or the notifier tells of
 *    them, or both: an entry of the same memory is written again. The list is read as a reader of
 *    RCU.
 *
 * Context: process; sleeps.
 */
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/rculist.h>
#include <linux/string.h>
#include <asm/cacheflush.h>

#include "../kernel.h"
#include "../compat/compat.h"
#include "../compat/ksym.h"
#include "flight.h"

static DEFINE_MUTEX(jifl_images_mutex);
/* Under that; NULL: nothing is recorded. */
static struct jifl_flight_image *jifl_images;

static bool jifl_image_overlaps(const struct jifl_flight_image *image, u64 base, u32 size)
{
	return image->size && image->base < base + size && base < image->base + image->size;
}

static void jifl_image_put(struct jifl_flight_image *to, const char *name, u64 base, u32 size)
{
	WRITE_ONCE(to->size, 0);
	barrier();
	to->base = base;
	strscpy_pad(to->name, name, sizeof(to->name));
	barrier();
	WRITE_ONCE(to->size, size);
	clflush_cache_range(to, sizeof(*to));
}

/* Finds a place behind the kernel's for a module. NULL: there is no room. */
static struct jifl_flight_image *jifl_image_find(u64 base, u32 size)
{
	struct jifl_flight_image *image, *room = NULL;

	for (image = jifl_images + 1; image < jifl_images + JIFL_FLIGHT_IMAGES; image++) {
		if (!jifl_image_overlaps(image, base, size)) {
			room = room ?: image->size ? NULL : image;
			continue;
		}
		/* Of several that overlap, one is overwritten, and the others go. */
		if (!room || !room->size) {
			room = image;
			continue;
		}
		WRITE_ONCE(image->size, 0);
		clflush_cache_range(image, sizeof(*image));
	}
	return room;
}

static void jifl_image_add(const struct module *module)
{
	struct jifl_flight_image *to;
	unsigned long base, size;

	jifl_compat_module_text(module, &base, &size);
	to = size ? jifl_image_find(base, size) : NULL;
	if (to)
		jifl_image_put(to, module->name, base, size);
}

static void jifl_images_add_all(void)
{
	struct list_head *modules = (struct list_head *)jifl_ksym("modules");
	struct module *module;

	if (!modules)
		return;
	rcu_read_lock();
	list_for_each_entry_rcu(module, modules, list)
		if (module->state != MODULE_STATE_UNFORMED)
			jifl_image_add(module);
	rcu_read_unlock();
}

void jifl_flight_map(const struct jifl_region *region)
{
	const struct jifl_flight_head *head = region->base;
	const u64 start = jifl_ksym("_stext"), end = jifl_ksym("_etext");

	mutex_lock(&jifl_images_mutex);
	jifl_images = region->base + head->images_at;
	if (start && end)
		jifl_image_put(jifl_images, "vmlinux", start, end - start);
	jifl_images_add_all();
	mutex_unlock(&jifl_images_mutex);
}

void jifl_flight_unmap(void)
{
	mutex_lock(&jifl_images_mutex);
	jifl_images = NULL;
	mutex_unlock(&jifl_images_mutex);
}

static int jifl_images_hear(struct notifier_block *block, unsigned long what, void *module)
{
	if (what != MODULE_STATE_COMING)
		return NOTIFY_DONE;
	mutex_lock(&jifl_images_mutex);
	if (jifl_images)
		jifl_image_add(module);
	mutex_unlock(&jifl_images_mutex);
	return NOTIFY_DONE;
}

static struct notifier_block jifl_images_notifier = { .notifier_call = jifl_images_hear };

int jifl_flight_map_init(void)
{
	return register_module_notifier(&jifl_images_notifier);
}

void jifl_flight_map_exit(void)
{
	unregister_module_notifier(&jifl_images_notifier);
}
