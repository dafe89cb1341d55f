// SPDX-License-Identifier: GPL-2.0
/*
 * Many counters. A session of all functions has tens of thousands: one by one they take the
 * kernel's allocator of per-CPU memory longer than all else of the session's memory. So it is asked
 * for a page of them at a time.
 */
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "../kernel.h"
#include "../plant.h"
#include "counters.h"

#define JIFL_COUNTERS_PAGE	(PAGE_SIZE / sizeof(u64))

struct jifl_counters {
	u32 npages;
	u64 __percpu *pages[];
};

struct jifl_counters *jifl_counters_open(u32 n)
{
	const u32 npages = DIV_ROUND_UP(n, JIFL_COUNTERS_PAGE);
	struct jifl_counters *c;

	c = JIFL_ALLOC(kvzalloc(struct_size(c, pages, npages), GFP_KERNEL));
	if (!c)
		return NULL;
	while (c->npages < npages) {
		const u32 left = n - c->npages * JIFL_COUNTERS_PAGE;
		const size_t size = min_t(u32, left, JIFL_COUNTERS_PAGE) * sizeof(u64);

		c->pages[c->npages] = JIFL_ALLOC(__alloc_percpu(size, sizeof(u64)));
		if (!c->pages[c->npages]) {
			jifl_counters_close(c);
			return NULL;
		}
		c->npages++;
		cond_resched();
	}
	return c;
}

u64 __percpu *jifl_counters_at(const struct jifl_counters *c, u32 i)
{
	return c->pages[i / JIFL_COUNTERS_PAGE] + i % JIFL_COUNTERS_PAGE;
}

void jifl_counters_close(struct jifl_counters *c)
{
	u32 i;

	for (i = 0; c && i < c->npages; i++) {
		free_percpu(c->pages[i]);
		cond_resched();
	}
	kvfree(c);
}
