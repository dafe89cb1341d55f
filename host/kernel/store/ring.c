// SPDX-License-Identifier: GPL-2.0
/*
 * The records of a session: a ring for each CPU. Inserted code appends to the ring
 * (engine/emit/record.c says how), and one reader takes from it. The writer never waits: records
 * that the reader does not take in time are overwritten, and counted as lost. The count is known
 * because each CPU's cell tells how many records there have ever been. A session may ask that
 * calls wait for the reader at their ends (JIFL_FLAG_WAIT). Then the records of one call must fit
 * into half a ring, or some are lost.
 *
 * A reader zeroes the records that it has taken. A writer takes a place before it writes there.
 * The zeroes tell such a place from a written one: reading stops there. In the round that follows
 * an overrun they do not: such a place holds a record of the round before. There the reader leaves
 * the newest records for later. So it takes an old record for a new one only if a thread was
 * preempted between taking a place and writing it; the reported loss says so.
 *
 * The writer may overtake the reader while this takes records. Then zeroes may stand where a newer
 * record stood, which is before the writer's place of that moment: `zeroed`. Reading goes on from
 * there, or it would stop at a zero that nobody will write.
 *
 * Records may carry words (JIFL_RECORD_WORDS). Words lie behind the ring's end where they do not
 * fit in: behind each ring is room for a second one. With words, reading goes from record to
 * record, and behind an overrun it goes on from a mark whose place is known.
 *
 * One session at a time has the rings, because their CPU cells are at fixed addresses.
 */
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <asm/msr.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../text/function.h"
#include "percpu.h"
#include "ring.h"

/* Smaller rings where there are many CPUs. */
#define JIFL_RING_LEAST		14
#define JIFL_RING_SIZE		SZ_64M	/* of all rings together */
/* The newest records of a running session that the reader leaves for later behind an overrun. */
#define JIFL_RING_MARGIN	256

static struct {
	struct mutex lock;		/* guards everything but the slots */
	const struct jifl_ring_owner *owner;
	struct jifl_ring_reader {
		u64 read, lost;
		/* Up to this place slots may hold records of the round before. */
		u64 unsafe;
		/* Up to this place slots may be zero although they were written. */
		u64 zeroed;
		/* The places of two marks, the older first; written by the ring's CPU. */
		u64 marks[2];
	} *readers;			/* nr_cpu_ids */
	bool waits;			/* tasks wait for the reader */
} ring = {
	.lock = __MUTEX_INITIALIZER(ring.lock),
};

struct jifl_ring_layout jifl_ring_layout;

static void jifl_ring_free(void)
{
	vfree(jifl_ring_layout.slots);
	kvfree(ring.readers);
	jifl_ring_layout.slots = NULL;
	ring.readers = NULL;
	ring.owner = NULL;
}

static u32 jifl_ring_records(void)
{
	return 1u << jifl_ring_layout.order;
}

/* The distance of two CPUs' rings, in rings. */
static u32 jifl_ring_distance(void)
{
	return jifl_ring_layout.words ? 2 : 1;
}

static size_t jifl_ring_size(void)
{
	return array3_size(nr_cpu_ids * jifl_ring_distance(), jifl_ring_records(),
			   sizeof(struct jifl_record));
}

static void jifl_ring_choose(const struct jifl_ring_owner *o)
{
	jifl_ring_layout.words = o->words;
	jifl_ring_layout.clock = o->clock;
	jifl_ring_layout.order = o->order;
	while (jifl_ring_layout.order > JIFL_RING_LEAST && jifl_ring_size() > JIFL_RING_SIZE)
		jifl_ring_layout.order--;
	jifl_ring_layout.one = 1ull << (32 - jifl_ring_layout.order);
}

/* --- when it is too full ---------------------------------------------------------- */

/* The value of a cell when this many records and words have been stored. */
static u64 jifl_ring_cell(u64 count)
{
	return count >> jifl_ring_layout.order << 32 |
	       (u32)(count << (32 - jifl_ring_layout.order));
}

/* Under ring.lock. The limit is half a ring beyond what has been read. */
static void jifl_ring_limit(unsigned int cpu)
{
	const u64 count = ring.readers[cpu].read + jifl_ring_records() / 2;

	WRITE_ONCE(per_cpu(jifl_cpu.ring_limit, cpu), ring.waits ? jifl_ring_cell(count) : U64_MAX);
}

void jifl_ring_limits_lift(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		WRITE_ONCE(per_cpu(jifl_cpu.ring_limit, cpu), U64_MAX);
}

void jifl_ring_end_wait(bool of_function)
{
	const u64 *limit = raw_cpu_ptr(&jifl_cpu.ring_limit);

	if (of_function)
		jifl_ring_wait_in_kernel(limit);
	else
		jifl_ring_wait(limit);
}

/* --- life ------------------------------------------------------------------------- */

/*
 * Allocates the rings within reach of an absolute 32-bit address, as is the code that writes
 * there.
 */
static int jifl_ring_alloc(const struct jifl_ring_owner *o)
{
	size_t size;
	int cpu;

	jifl_ring_choose(o);
	size = jifl_ring_size();
	jifl_ring_layout.slots = JIFL_ALLOC(jifl_compat_exec_alloc(size));
	ring.readers = JIFL_ALLOC(kvcalloc(nr_cpu_ids, sizeof(*ring.readers), GFP_KERNEL));
	if (!jifl_ring_layout.slots || !ring.readers ||
	    !jifl_fits_s32((s64)(unsigned long)jifl_ring_layout.slots) ||
	    !jifl_fits_s32((s64)((unsigned long)jifl_ring_layout.slots + size))) {
		jifl_ring_free();
		return -ENOMEM;
	}
	memset(jifl_ring_layout.slots, 0, size);
	ring.waits = o->waits;
	for_each_possible_cpu(cpu) {
		per_cpu(jifl_cpu.ring, cpu) = cpu * jifl_ring_distance();
		jifl_ring_limit(cpu);
	}
	jifl_ring_wait_open(ring.waits ? o->reader : 0);
	return 0;
}

int jifl_ring_open(const struct jifl_ring_owner *o, u64 *busy_session)
{
	int ret = 0;

	mutex_lock(&ring.lock);
	if (ring.owner) {
		*busy_session = *ring.owner->session;
		ret = -EALREADY;
	} else {
		ret = jifl_ring_alloc(o);
	}
	if (!ret)
		ring.owner = o;
	mutex_unlock(&ring.lock);
	return ret;
}

static void jifl_ring_stop_waits(void)
{
	if (!ring.waits)
		return;
	ring.waits = false;
	jifl_ring_limits_lift();
	jifl_ring_wait_close();
}

void jifl_ring_stop(const struct jifl_ring_owner *o)
{
	mutex_lock(&ring.lock);
	if (ring.owner == o)
		jifl_ring_stop_waits();
	mutex_unlock(&ring.lock);
}

void jifl_ring_close(const struct jifl_ring_owner *o)
{
	mutex_lock(&ring.lock);
	if (ring.owner == o) {
		jifl_ring_stop_waits();
		jifl_ring_free();
	}
	mutex_unlock(&ring.lock);
}

/* --- writing ---------------------------------------------------------------------- */

void jifl_ring_fill(struct ir_insert *ins, u32 what)
{
	ins->kind = IR_INSERT_RECORD;
	ins->cell = jifl_cpu_operand(ring);
	ins->rings = (s32)(unsigned long)jifl_ring_layout.slots;
	ins->order = jifl_ring_layout.order;
	ins->imm = (s32)what;
}

struct ir_insert *jifl_ring_record(struct ir_block *b, enum ir_place place, u16 at, u32 what)
{
	struct ir_insert *ins = ir_block_insert(b, place, at);

	if (ins)
		jifl_ring_fill(ins, what);
	return ins;
}

/*
 * A function with an ftrace site has been made by a compiler, and keeps to the System V ABI
 * (section 3.2.3): r11 and the flags have no value when it begins and when it returns. Compiled
 * with -pg, it has no other agreement with its callers either: GCC does not use -fipa-ra then.
 * Inside a function r11 and the flags may have values.
 */
static bool jifl_ring_at_edge(const struct ir_block *b, u32 what)
{
	const struct jifl_function *f = jifl_function_at(b->addr.v);

	return f->fentry && (what == JIFL_RECORD_RETURN || what == JIFL_RECORD_RETURNED ||
			     what == JIFL_RECORD_LEFT || f->start == b->addr.v);
}

struct ir_insert *jifl_ring_insert(struct ir_block *b, u16 at, u32 what)
{
	struct ir_insert *ins = jifl_ring_record(b, IR_BEFORE, at, what);

	if (ins)
		ins->convention = jifl_ring_at_edge(b, what);
	return ins;
}

/* Stores a record with a word behind it. The word may lie behind the ring's end. */
static void jifl_ring_store_word(u64 cell, u32 what, u64 word)
{
	const struct jifl_ring_layout l = jifl_ring_layout;
	u64 *slot = (u64 *)&l.slots[rol32((u32)cell, l.order)];

	WRITE_ONCE(slot[1], word);
	jifl_ring_store(&l, cell, what, 0);
}

/* Records and words stored when the cell has this value. */
static u64 jifl_ring_count(u64 cell)
{
	return (cell >> 32 << jifl_ring_layout.order) | (u32)cell >> (32 - jifl_ring_layout.order);
}

/* Notes a place where reading can begin anew. Two are kept, a quarter of a ring apart or more. */
static void jifl_ring_note(u64 place)
{
	u64 *marks = ring.readers[smp_processor_id()].marks;

	if (place - marks[1] < jifl_ring_records() / 4)
		return;
	WRITE_ONCE(marks[0], marks[1]);
	WRITE_ONCE(marks[1], place);
}

u64 jifl_ring_mark_words(u32 what, u32 value, u64 time)
{
	const struct jifl_ring_layout l = jifl_ring_layout;
	u64 tsc = l.clock ? rdtsc_ordered() : 0;
	u64 at = jifl_ring_reserve(&l, l.clock ? 4 : 2);

	jifl_ring_note(jifl_ring_count(at));
	jifl_ring_store_mark(&l, at, what, value, time);
	if (l.clock)
		jifl_ring_store_word(at + 2 * l.one, JIFL_RECORD_CLOCK, tsc);
	return at;
}

u64 jifl_ring_end_rare(u32 what, u32 value, u64 time, bool has_result, u64 result)
{
	const struct jifl_ring_layout l = jifl_ring_layout;
	const bool fits = jifl_ring_fits_result(result);
	const u64 at = has_result ? jifl_ring_reserve(&l, fits ? 1 : 2) : 0;

	if (has_result)
		jifl_ring_store_result(&l, at, result);
	if (!fits)
		jifl_ring_store(&l, at + l.one, JIFL_RECORD_TOP, result >> JIFL_RING_RESULT_BITS);
	return jifl_ring_mark_words(what, value, time);
}

/* --- reading ---------------------------------------------------------------------- */

/* Records and words ever, stored or about to be stored. */
static u64 jifl_ring_total(unsigned int cpu)
{
	return jifl_ring_count(READ_ONCE(per_cpu(jifl_cpu.ring, cpu)));
}

/* A mark in the newer half; if there is none, the place of the next record. */
static u64 jifl_ring_mark_behind(const struct jifl_ring_reader *r, u64 half, u64 total)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(r->marks); i++) {
		u64 mark = READ_ONCE(r->marks[i]);

		if (mark > half && mark <= total)
			return mark;
	}
	return total;
}

/*
 * Behind an overrun half a ring is kept, so that the writer does not overtake the reader again at
 * once.
 */
static void jifl_ring_skip(struct jifl_ring_reader *r, u64 total)
{
	u64 first = max(total - jifl_ring_records() / 2, r->zeroed);

	if (total - r->read <= jifl_ring_records())
		return;
	if (jifl_ring_layout.words)
		first = jifl_ring_mark_behind(r, first, total);
	if (!JIFL_HOST_PLANTED(losses_untold))
		r->lost += first - r->read;
	r->read = first;
	r->unsafe = first + jifl_ring_records();
}

/* The place up to which the reader may read. */
static u64 jifl_ring_readable(const struct jifl_ring_reader *r, u64 total)
{
	if (r->read >= r->unsafe || !READ_ONCE(*ring.owner->running))
		return total;
	return max(r->read, total - min_t(u64, total, JIFL_RING_MARGIN));
}

/* Words behind a record. */
static u32 jifl_ring_words(u32 what)
{
	return jifl_ring_layout.words ? JIFL_RECORD_WORDS(what) : 0;
}

/*
 * Takes a record and its words, which are all there. Zeroes them, but not what was written
 * meanwhile.
 */
static void jifl_ring_take_one(u64 *slot, u64 *to, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++) {
		to[i] = READ_ONCE(slot[i]);
		cmpxchg(&slot[i], to[i], 0);
	}
}

/*
 * Takes at most n words, no record in part; returns how many. first: may skip records that are
 * lost before.
 */
static u32 jifl_ring_take(unsigned int cpu, u64 *to, u32 n, bool first)
{
	u64 *slots = (u64 *)&jifl_ring_layout.slots[(size_t)cpu * jifl_ring_distance() <<
						    jifl_ring_layout.order];
	struct jifl_ring_reader *r = &ring.readers[cpu];
	u64 total = jifl_ring_total(cpu), end;
	u32 taken = 0, words;

	if (first)
		jifl_ring_skip(r, total);
	for (end = jifl_ring_readable(r, total); r->read + taken < end; taken += words) {
		u64 *slot = &slots[(r->read + taken) % jifl_ring_records()];
		u32 what = READ_ONCE(*(u32 *)slot);

		words = 1 + jifl_ring_words(what);
		if (!what || words > n - taken || r->read + taken + words > end)
			break;
		smp_rmb();	/* what belongs to the record was written before */
		jifl_ring_take_one(slot, &to[taken], words);
	}
	/*
	 * The writer has overtaken the reader meanwhile: it is not known how many of these were
	 * overwritten.
	 */
	total = jifl_ring_total(cpu);
	if (total - r->read > jifl_ring_records()) {
		r->zeroed = total;
		return 0;
	}
	r->read += taken;
	return taken;
}

int jifl_ring_read(const struct jifl_ring_owner *o, struct jifl_records *req)
{
	const u32 room = PAGE_SIZE / sizeof(u64);
	u64 *page = JIFL_ALLOC((u64 *)__get_free_page(GFP_KERNEL));
	u32 n, taken, done = 0;
	int ret = 0;

	if (!page)
		return -ENOMEM;
	mutex_lock(&ring.lock);
	if (ring.owner != o)
		ret = -ENOENT;
	else if (req->cpu >= nr_cpu_ids || !cpu_possible(req->cpu))
		ret = -EINVAL;
	while (!ret && done < req->n) {
		n = min(room, req->n - done);
		/* A loss lies before the records taken by this call, not between them. */
		taken = jifl_ring_take(req->cpu, page, n, !done);
		if (!taken)
			break;
		if (copy_to_user(u64_to_user_ptr(req->buf + done * sizeof(u64)), page,
				 taken * sizeof(u64)))
			ret = -EFAULT;
		done += taken;
		cond_resched();
	}
	req->n = done;
	req->lost = ret ? 0 : ring.readers[req->cpu].lost;
	if (done) {
		jifl_ring_limit(req->cpu);
		jifl_ring_wait_wake();
	}
	jifl_ring_wait_count(&req->waits, &req->waited_ns);
	mutex_unlock(&ring.lock);
	free_page((unsigned long)page);
	return ret;
}
