// SPDX-License-Identifier: GPL-2.0
/*
 * Writes records of the flight recorder.
 *
 * Why a record is whole, or known not to be:
 *
 * 1. A place in the ring is taken by one instruction, xadd without lock, on the CPU's own cache
 *    line. Preemption is off: where the tracepoint leaves it on, jifl_flight_write turns it off
 *    before it asks for the CPU, and on again behind the last store. So an interrupt of the same
 *    CPU takes another place, and no other CPU takes one here.
 * 2. The check is made of what is to be written, and is written last, behind the number, which is
 *    written first, too. On x86 stores are seen in their order, also by who reads the memory after
 *    a crash, as far as caches are. What stands there in between has the new number and a check
 *    that is not its own. It fits by chance in one of 65,536 cases. Only the records that are being
 *    written when the machine dies can be met so: one for each level of each CPU.
 * 3. An interrupt may take as many places as there are, or more, while a record is being written.
 *    Then that record is finished over a newer one. It has its own number, which is too old, or a
 *    check that does not fit the mix. Who reads counts it as overwritten, or as torn.
 * 4. When recording stops (head->stop_at), nobody is told: each event asks. The counter is that of
 *    the CPU, so they stop at the same moment as far as counters are the same.
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
#include <asm/tsc.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/tracepoint.h"
#include "flight.h"

static_assert(sizeof(struct jifl_flight_record) == 64);
static_assert(sizeof(struct jifl_flight_ring) == 64);
static_assert(sizeof(struct jifl_flight_event) == 128);
static_assert(sizeof(struct jifl_flight_head) <= JIFL_FLIGHT_PAGE);

static_assert(offsetof(struct jifl_flight_record, number) == 8);
static_assert(offsetof(struct jifl_flight_record, event) == 12);
static_assert(offsetof(struct jifl_flight_record, cpu) == 14);
static_assert(offsetof(struct jifl_flight_record, tid) == 16);
static_assert(offsetof(struct jifl_flight_record, level) == 20);
static_assert(offsetof(struct jifl_flight_record, check) == 22);
static_assert(offsetof(struct jifl_flight_record, arg) == 24);

/* Of a CPU. */
struct jifl_flight_cpu {
	struct jifl_flight_record *records;
	u64 *count;
	const u64 *stop_at;
	u64 mask;
} __aligned(32);
static DEFINE_PER_CPU(struct jifl_flight_cpu, jifl_flight_cpu);

struct jifl_flight_state jifl_flight_state;

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
		cpu->stop_at = &head->stop_at;
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

static __always_inline u16 jifl_flight_check(u64 sum)
{
	const u32 half = (u32)sum + (u32)(sum >> 32);

	return (u16)((u16)half + (u16)(half >> 16)) - 1;
}

/* It is to stop then, or before. Whether that was not so. */
static bool jifl_flight_stop_by(struct jifl_flight_head *head, u64 until, bool earlier)
{
	u64 old = READ_ONCE(head->stop_at);

	do {
		if (old != U64_MAX && !(earlier && until < old))
			return false;
	} while (!try_cmpxchg(&head->stop_at, &old, until));
	return true;
}

void jifl_flight_trip(enum jifl_flight_stop why, u32 event, u64 after)
{
	struct jifl_flight_head *head = jifl_flight_state.head;

	/* The first event decides; who asks may have it stop earlier. */
	if (!jifl_flight_stop_by(head, rdtsc() + after, why == JIFL_FLIGHT_AT_REQUEST))
		return;
	WRITE_ONCE(head->stop_why, why);
	WRITE_ONCE(head->stop_event, event);
	jifl_region_flush_head(head);
}

/* Preemption is off. */
static __always_inline void jifl_flight_put(u32 event, u64 a, u64 b, u64 c, u64 d, u64 e)
{
	const struct jifl_flight_cpu *cpu = this_cpu_ptr(&jifl_flight_cpu);
	const u64 now = rdtsc();
	u64 n = 1, number, rest;
	u64 *to;

	if (unlikely(now >= READ_ONCE(*cpu->stop_at)))
		return;
	asm volatile("xaddq %0, %1" : "+r" (n), "+m" (*cpu->count) : : "memory", "cc");
	to = (u64 *)&cpu->records[n & cpu->mask];
	/* As struct jifl_flight_record has them. */
	number = (u32)n | (u64)event << 32 | (u64)raw_smp_processor_id() << 48;
	rest = (u32)current->pid | (u64)jifl_flight_level() << 32;
	rest |= (u64)jifl_flight_check(now + number + rest + a + b + c + d + e) << 48;
	WRITE_ONCE(to[1], number);
	WRITE_ONCE(to[0], now);
	WRITE_ONCE(to[3], a);
	WRITE_ONCE(to[4], b);
	WRITE_ONCE(to[5], c);
	WRITE_ONCE(to[6], d);
	WRITE_ONCE(to[7], e);
	WRITE_ONCE(to[1], number);
	if (!JIFL_HOST_PLANTED(records_unchecked))
		WRITE_ONCE(to[2], rest);
	if (unlikely(jifl_flight_state.stop_mask >> event & 1))
		jifl_flight_trip(JIFL_FLIGHT_AT_EVENT, event, jifl_flight_state.after);
}

void jifl_flight_write(u32 event, u64 a, u64 b, u64 c, u64 d, u64 e)
{
	jifl_compat_hook_begin();
	jifl_flight_put(event, a, b, c, d, e);
	jifl_compat_hook_end();
}
