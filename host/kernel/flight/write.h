/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Writes a record of the flight recorder, inlined into what notices the event.
 *
 * Why a record is whole, or known not to be:
 *
 * 1. A place in the ring is taken by one instruction, xadd without lock, on the CPU's own cache
 *    line. The thread stays on the CPU until the record is written: preemption is off (hooks of
 *    tracepoints; where the tracepoint leaves it on, jifl_flight_say_event turns it off), or
 *    interrupts are (system calls, calls.c). So an interrupt of the same CPU takes another place,
 *    and no other CPU takes one here.
 * 2. The check is made of what is to be written, and is written last, behind the number, which is
 *    written before, too. On x86 stores are seen in their order, also by who reads the memory after
 *    a crash, as far as caches are. What stands there in between has a check that is not its own:
 *    that of the older record, or 0. The check is a sum, so two words that change may make up for
 *    each other. Therefore the time is written first, which changes by what nobody has chosen. By
 *    the number alone a mix could always fit: in a ring of 2^16 records, that of an event that is
 *    one less. So a mix fits by chance, in one of 65,536 cases. Only the records that are being
 *    written when the machine dies can be met so: one for each level of each CPU.
 * 3. An interrupt may take as many places as there are, or more, while a record is being written.
 *    Then that record is finished over a newer one. It has its own number, which is too old, or a
 *    check that does not fit the mix. Who reads counts it as overwritten, or as torn. Where
 *    interrupts are off, NMIs alone can do that.
 * 4. When recording stops (head->stop_at), nobody is told: each event asks. The counter is that of
 *    the CPU, so they stop at the same moment as far as counters are the same.
 * 5. Memory that is given back is written no more. A writer asks where recording stops first, and
 *    writes while RCU waits for it: code with preemption or interrupts off is a reader of RCU,
 *    where RCU watches. jifl_flight_lead(NULL) leads the question to a counter that is long past,
 *    then waits for RCU. Who asks later writes nothing, even if it comes from a call that was
 *    redirected before and has been restored since: so it may be late as it likes. Places of
 *    programs may be where RCU does not watch, on the way into an idle processor's sleep. They
 *    write with interrupts off, or in a breakpoint's handler, for which RCU watches. So
 *    jifl_flight_lead(NULL) interrupts each CPU, too.
 *
 * Nothing here may call what records: there are no calls.
 *
 * Context: any, NMI too.
 */
#ifndef JIFL_HOST_FLIGHT_WRITE_H
#define JIFL_HOST_FLIGHT_WRITE_H

#include <linux/compiler.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <asm/msr.h>
#include <asm/tsc.h>

#include "../plant.h"
#include "flight.h"

/* Of a CPU. */
struct jifl_flight_cpu {
	const u64 *stop_at;
	u64 *count;
	u64 mask;
	struct jifl_flight_record *records;
	u64 number;			/* what a record's number has of the CPU */
} __aligned(64);
DECLARE_PER_CPU(struct jifl_flight_cpu, jifl_flight_cpu);

/*
 * Does preempt_count() have the two bytes of a record's context? The lower one is its second byte.
 * The higher one is the third, or, where more is counted, the fourth.
 */
#define JIFL_FLIGHT_COUNTS_SO							\
	(SOFTIRQ_OFFSET == JIFL_FLIGHT_SOFTIRQ << 8 && !(HARDIRQ_SHIFT % 8) &&	\
	 HARDIRQ_MASK >> HARDIRQ_SHIFT << 8 == JIFL_FLIGHT_IRQ &&			\
	 NMI_MASK >> HARDIRQ_SHIFT << 8 == JIFL_FLIGHT_NMI)
#define JIFL_FLIGHT_LEAST_OF(mask)	((mask) & -(mask))

/*
 * Where a thread is whose preempt_count() is that, by the counts alone: on the way into an
 * interrupt there are no events. Which bits the kernel counts with differs: 7.3 has others than
 * 6.12.
 */
static __always_inline u16 jifl_flight_context(unsigned int count)
{
	if (JIFL_FLIGHT_COUNTS_SO && HARDIRQ_SHIFT == 16)
		return count >> 8;
	if (JIFL_FLIGHT_COUNTS_SO)
		return (u8)(count >> 8) | count >> HARDIRQ_SHIFT << 8;
	if (count & (NMI_MASK | HARDIRQ_MASK))
		return JIFL_FLIGHT_LEAST_OF(JIFL_FLIGHT_IRQ) |
		       (count & NMI_MASK ? JIFL_FLIGHT_LEAST_OF(JIFL_FLIGHT_NMI) : 0);
	return count & SOFTIRQ_OFFSET ? JIFL_FLIGHT_SOFTIRQ : 0;
}

/* One instruction with a word of this CPU's structure; in the order of the program. */
#define jifl_flight_with(op, value, field) \
	asm volatile(op " %%gs:%c1, %0" : "+r" (value) : "i" (&jifl_flight_cpu.field) : "cc")
#define jifl_flight_load(value, field) \
	asm volatile("movq %%gs:%c1, %0" : "=r" (value) : "i" (&jifl_flight_cpu.field))

/* A record that is being written. */
struct jifl_flight_place {
	u64 *to;
	u64 number;
	u64 sum;
};

/*
 * Takes a place for that event, in that context; false: it is not recorded. Preemption or
 * interrupts are off from here to jifl_flight_close, as the head of this file says.
 */
static __always_inline bool jifl_flight_take(struct jifl_flight_place *place, u16 context,
					     u32 event)
{
	const u64 now = rdtsc();
	const u32 tid = current->pid;
	u64 n = 1, number, at;
	const u64 *stop_at;
	u64 *count, *to;

	jifl_flight_load(stop_at, stop_at);
	if (unlikely(now >= *stop_at))
		return false;
	jifl_flight_load(count, count);
	asm volatile("xaddq %0, %1" : "+r" (n), "+m" (*count) : : "memory", "cc");
	at = n;
	jifl_flight_with("andq", at, mask);
	at *= sizeof(struct jifl_flight_record);
	jifl_flight_with("addq", at, records);
	to = (u64 *)at;
	/* As struct jifl_flight_record has them. */
	number = (u32)n | (u64)event << 32;
	jifl_flight_with("orq", number, number);
	/* In this order: step 2. */
	WRITE_ONCE(to[0], now);
	WRITE_ONCE(to[1], number);
	WRITE_ONCE(to[2], tid | (u64)context << 32);
	*place = (struct jifl_flight_place){
		.to = to, .number = number, .sum = now + number + tid + context + 1,
	};
	return true;
}

/*
 * Writes an argument. Each of the five, one after the other. The compiler does not get to collect
 * them before it adds them up, so few registers are needed.
 */
static __always_inline void jifl_flight_put(struct jifl_flight_place *place, u32 i, u64 value)
{
	WRITE_ONCE(place->to[3 + i], value);
	place->sum += value;
	OPTIMIZER_HIDE_VAR(place->sum);
}

static __always_inline void jifl_flight_close(const struct jifl_flight_place *place)
{
	u64 factor = JIFL_FLIGHT_FACTOR;

	/* JIFL_FLIGHT_CHECK by a multiplication, which the compiler would make longer. */
	OPTIMIZER_HIDE_VAR(factor);
	WRITE_ONCE(place->to[1], place->number);
	if (!JIFL_HOST_PLANTED(records_unchecked))
		WRITE_ONCE(((u16 *)place->to)[11], place->sum * factor >> 48);
}

/*
 * The time of a record, as it stands there: fewer registers are needed than to keep it. If records
 * of interrupts have filled the ring meanwhile (step 3), it is that of one of these.
 */
static __always_inline u64 jifl_flight_time(const struct jifl_flight_place *place)
{
	return READ_ONCE(place->to[0]);
}

/* All of it, in that context. Whether it is recorded. */
static __always_inline bool jifl_flight_write(struct jifl_flight_place *place, u16 context,
					      u32 event, u64 a, u64 b, u64 c, u64 d, u64 e)
{
	if (!jifl_flight_take(place, context, event))
		return false;
	jifl_flight_put(place, 0, a);
	jifl_flight_put(place, 1, b);
	jifl_flight_put(place, 2, c);
	jifl_flight_put(place, 3, d);
	jifl_flight_put(place, 4, e);
	jifl_flight_close(place);
	return true;
}

#endif
