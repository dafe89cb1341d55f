// SPDX-License-Identifier: GPL-2.0
/*
 * Where the records of each CPU go. write.h writes them, and has the proof.
 *
 * Context: process; sleeps.
 */
#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>

#include "../kernel.h"
#include "../plant.h"
#include "flight.h"
#include "write.h"

static_assert(sizeof(struct jifl_flight_record) == 64);
static_assert(sizeof(struct jifl_flight_ring) == 64);
static_assert(sizeof(struct jifl_flight_event) == 128);
static_assert(sizeof(struct jifl_flight_image) == 64);
static_assert(sizeof(struct jifl_flight_head) <= JIFL_FLIGHT_PAGE);

static_assert(offsetof(struct jifl_flight_record, number) == 8);
static_assert(offsetof(struct jifl_flight_record, event) == 12);
static_assert(offsetof(struct jifl_flight_record, cpu) == 14);
static_assert(offsetof(struct jifl_flight_record, tid) == 16);
static_assert(offsetof(struct jifl_flight_record, context) == 20);
static_assert(offsetof(struct jifl_flight_record, check) == 22);
static_assert(offsetof(struct jifl_flight_record, arg) == 24);

/* A time at which no counter stands any more. */
static const u64 jifl_flight_long_ago;

DEFINE_PER_CPU(struct jifl_flight_cpu, jifl_flight_cpu) = { .stop_at = &jifl_flight_long_ago };

static void jifl_flight_is_past(void *nothing)
{
}

static void jifl_flight_lead_away(void)
{
	int id;

	if (JIFL_HOST_PLANTED(rings_kept))
		return;
	for_each_possible_cpu(id)
		WRITE_ONCE(per_cpu_ptr(&jifl_flight_cpu, id)->stop_at, &jifl_flight_long_ago);
	/* Those that have asked before (write.h, 5). */
	synchronize_rcu();
	on_each_cpu(jifl_flight_is_past, NULL, true);
}

bool jifl_flight_leads_to(const struct jifl_region *region)
{
	const struct jifl_flight_head *head = region->base;
	int id;

	for_each_possible_cpu(id)
		if (READ_ONCE(per_cpu_ptr(&jifl_flight_cpu, id)->stop_at) == &head->stop_at)
			return true;
	return false;
}

void jifl_flight_lead(const struct jifl_region *region)
{
	const struct jifl_flight_head *head;
	unsigned int n = 0;
	int id;

	if (!region) {
		jifl_flight_lead_away();
		return;
	}
	head = region->base;
	for_each_possible_cpu(id) {
		struct jifl_flight_cpu *cpu = per_cpu_ptr(&jifl_flight_cpu, id);
		struct jifl_flight_ring *rings = region->base + head->rings_at;

		cpu->number = (u64)id << 48;
		cpu->mask = head->record_count - 1;
		cpu->count = &rings[n].count;
		cpu->records = region->base + head->records_at;
		cpu->records += (size_t)n++ * head->record_count;
		/* Who reads this reads the rest behind it, in this order: x86. */
		smp_store_release(&cpu->stop_at, &head->stop_at);
	}
}
