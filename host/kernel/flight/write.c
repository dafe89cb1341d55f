// SPDX-License-Identifier: GPL-2.0
/*
 * Writes records of the flight recorder.
 *
 * Why a record is whole, or known not to be:
 *
 * 1. A place in the ring is taken by one instruction, xadd without lock, on the CPU's own cache
 *    line. Preemption is off. So an interrupt of the same CPU takes another place, and no other CPU
 *    takes one here.
 * 2. The number of the record is written first, the check last. On x86 stores are seen in their
 *    order, also by who reads the memory after a crash, as far as caches are. What stands there in
 *    between has the new number, and the check of the old record. It fits by chance in one of
 *    65,536 cases. Only the records that are being written when the machine dies can be met so: one
 *    for each level of each CPU.
 * 3. An interrupt may take more places than there are while a record is being written. Then that
 *    record is finished over a newer one, and has an older number. Who reads counts it as
 *    overwritten.
 * 4. When recording stops (stop_at), nobody is told: each event asks. The counter is that of the
 *    CPU, so they stop at the same moment as far as counters are the same.
 *
 * No event here may call anything that records: there are no calls but the last, cold ones.
 *
 * Context: any, NMI too.
 */
#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <asm/msr.h>

#include "../kernel.h"
#include "../plant.h"
#include "flight.h"

static_assert(sizeof(struct jifl_flight_record) == 64);
static_assert(sizeof(struct jifl_flight_ring) == 64);
static_assert(sizeof(struct jifl_flight_event) == 128);
static_assert(sizeof(struct jifl_flight_head) <= JIFL_FLIGHT_PAGE);

/* Of a CPU. */
struct jifl_flight_cpu {
	struct jifl_flight_record *records;
	u64 *count;
	u64 mask;
};
static DEFINE_PER_CPU(struct jifl_flight_cpu, jifl_flight_cpu);

struct jifl_flight_state jifl_flight_state = { .stop_at = U64_MAX };

void jifl_flight_lead(const struct jifl_region *region)
{
	const struct jifl_flight_head *head = region ? region->base : NULL;
	unsigned int n = 0;
	int id;

	for_each_possible_cpu(id) {
		struct jifl_flight_cpu *cpu = per_cpu_ptr(&jifl_flight_cpu, id);
		struct jifl_flight_ring *rings;

		*cpu = (struct jifl_flight_cpu){};
		if (!head)
			continue;
		rings = region->base + head->rings_at;
		cpu->mask = head->record_count - 1;
		cpu->count = &rings[n].count;
		cpu->records = region->base + head->records_at;
		cpu->records += (size_t)n++ * head->record_count;
	}
}

/* Level by the counts alone: on the way into an interrupt there are no events. */
static __always_inline u32 jifl_flight_level(void)
{
	const unsigned int count = preempt_count();

	if (count & (NMI_MASK | HARDIRQ_MASK))
		return JIFL_LEVEL_IRQ;
	return count & SOFTIRQ_OFFSET ? JIFL_LEVEL_SOFTIRQ : JIFL_LEVEL_TASK;
}

static __always_inline u16 jifl_flight_check(const struct jifl_flight_record *r)
{
	const u64 *w = (const u64 *)r;
	const u64 sum = w[0] + w[1] + w[2] + w[3] + w[4] + w[5] + w[6] + w[7];
	const u32 half = (u32)sum + (u32)(sum >> 32);

	return (u16)((u16)half + (u16)(half >> 16)) - 1;
}

void jifl_flight_trip(enum jifl_flight_stop why, u32 event)
{
	struct jifl_flight_state *state = &jifl_flight_state;
	u64 never = U64_MAX;
	u64 until = rdtsc() + READ_ONCE(state->after);

	/* The first one decides. */
	if (cmpxchg(&state->stop_at, never, until) != never)
		return;
	state->head->stop_why = why;
	state->head->stop_event = event;
	WRITE_ONCE(state->head->stop_at, until);
}

void jifl_flight_write(u32 event, u64 a, u64 b, u64 c, u64 d, u64 e)
{
	struct jifl_flight_cpu *cpu = this_cpu_ptr(&jifl_flight_cpu);
	const u64 now = rdtsc();
	struct jifl_flight_record *r;
	u64 n = 1;

	if (unlikely(now >= READ_ONCE(jifl_flight_state.stop_at)))
		return;
	asm volatile("xaddq %0, %1" : "+r" (n), "+m" (*cpu->count) : : "memory", "cc");
	r = &cpu->records[n & cpu->mask];
	WRITE_ONCE(r->number, n);
	barrier();
	r->time = now;
	r->event = event;
	r->cpu = raw_smp_processor_id();
	r->tid = current->pid;
	r->level = jifl_flight_level();
	r->check = 0;
	r->arg[0] = a;
	r->arg[1] = b;
	r->arg[2] = c;
	r->arg[3] = d;
	r->arg[4] = e;
	barrier();
	WRITE_ONCE(r->check, JIFL_HOST_PLANTED(records_unchecked) ? 0 : jifl_flight_check(r));
	if (unlikely(jifl_flight_state.stop_mask >> event & 1))
		jifl_flight_trip(JIFL_FLIGHT_AT_EVENT, event);
}
