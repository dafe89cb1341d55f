// SPDX-License-Identifier: GPL-2.0
/*
 * The records of a session: a ring for each CPU, which inserted code appends to
 * (engine/emit/record.c says how) and one reader takes from. The writer asks
 * nobody: what the reader does not take in time is overwritten, and counted as
 * lost, since each CPU's cell tells how many records there have ever been.
 *
 * A reader zeroes what it has taken, so that a place that was given away but
 * not written yet, by a thread preempted between the two, is told from one that
 * was: reading stops there. Only in the half ring behind an overrun such a place
 * may hold a record of the round before; the loss that is reported says so.
 *
 * Records may carry words (JIFL_RECORD_WORDS), which lie behind the ring's end where they
 * do not fit in: behind each is room for a second one. Where they do, reading goes from
 * record to record, and behind an overrun on from a mark whose place is known. For the round
 * that follows it the newest records are left for later: there, what is not written yet is
 * not told by its zeroes.
 *
 * One session at a time has the rings: their CPU cells are at fixed addresses.
 */
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <asm/msr.h>

#include "kernel.h"
#include "plant.h"
#include "compat/compat.h"

#define JIFL_RING_ORDER		16	/* 64 Ki records, 512 KiB */
/* With words: 8 MiB, and as much behind; less where there are so many CPUs. */
#define JIFL_RING_WORDS_ORDER	20
#define JIFL_RING_WORDS_LEAST	14
#define JIFL_RING_WORDS_SIZE	SZ_64M	/* of all */
/* Newest records of a running session that are left for later behind an overrun. */
#define JIFL_RING_MARGIN	256

#define JIFL_RING_TIME_BITS	28	/* in the first word */

union jifl_ring_slot {
	struct jifl_record record;
	u64 whole;
};

static struct {
	struct mutex lock;		/* all but the slots */
	const struct jifl_session *owner;
	union jifl_ring_slot *slots;	/* nr_cpu_ids rings */
	struct jifl_ring_reader {
		u64 read, lost;
		u64 unsafe;		/* up to there places may hold records of the round before */
		u64 marks[2];		/* places of some, the older first; written by its CPU */
	} *readers;			/* nr_cpu_ids */
	unsigned int order;		/* of a ring's records, log 2 */
	bool words;			/* records may have some */
	bool clock;			/* marks have the time stamp counter */
} ring = {
	.lock = __MUTEX_INITIALIZER(ring.lock),
};

static void jifl_ring_free(void)
{
	vfree(ring.slots);
	kvfree(ring.readers);
	ring.slots = NULL;
	ring.readers = NULL;
	ring.owner = NULL;
}

static u32 jifl_ring_records(void)
{
	return 1u << ring.order;
}

/* One place of a cell's value. */
static u64 jifl_ring_one(void)
{
	return 1ull << (32 - ring.order);
}

/* Rings from one CPU's to the next one's. */
static u32 jifl_ring_distance(void)
{
	return ring.words ? 2 : 1;
}

static size_t jifl_ring_size(void)
{
	return array3_size(nr_cpu_ids * jifl_ring_distance(), jifl_ring_records(), sizeof(*ring.slots));
}

static void jifl_ring_choose(bool words)
{
	ring.words = words;
	ring.order = words ? JIFL_RING_WORDS_ORDER : JIFL_RING_ORDER;
	while (words && ring.order > JIFL_RING_WORDS_LEAST && jifl_ring_size() > JIFL_RING_WORDS_SIZE)
		ring.order--;
}

/* In reach of an absolute 32-bit address, like the code that writes there. */
static int jifl_ring_alloc(bool words)
{
	size_t size;
	int cpu;

	jifl_ring_choose(words);
	size = jifl_ring_size();
	ring.slots = JIFL_ALLOC(jifl_compat_exec_alloc(size));
	ring.readers = JIFL_ALLOC(kvcalloc(nr_cpu_ids, sizeof(*ring.readers), GFP_KERNEL));
	if (!ring.slots || !ring.readers ||
	    !jifl_fits_s32((s64)(unsigned long)ring.slots) ||
	    !jifl_fits_s32((s64)((unsigned long)ring.slots + size))) {
		jifl_ring_free();
		return -ENOMEM;
	}
	memset(ring.slots, 0, size);
	for_each_possible_cpu(cpu)
		per_cpu(jifl_cpu.ring, cpu) = cpu * jifl_ring_distance();
	return 0;
}

int jifl_ring_open(const struct jifl_session *s, u64 *busy_session)
{
	const bool words = s->kind == JIFL_KIND_MEM || s->flags & JIFL_FLAGS_FUNCTIONS;
	int ret = 0;

	mutex_lock(&ring.lock);
	if (ring.owner) {
		*busy_session = ring.owner->id;
		ret = -EALREADY;
	} else {
		ret = jifl_ring_alloc(words);
	}
	if (!ret) {
		ring.owner = s;
		ring.clock = s->flags & JIFL_FLAG_CLOCK;
	}
	mutex_unlock(&ring.lock);
	return ret;
}

void jifl_ring_close(const struct jifl_session *s)
{
	mutex_lock(&ring.lock);
	if (ring.owner == s)
		jifl_ring_free();
	mutex_unlock(&ring.lock);
}

struct ir_insert *jifl_ring_record(struct ir_block *b, enum ir_place place, u16 at, u32 what)
{
	struct ir_insert *ins = ir_block_insert(b, place, at);

	if (!ins)
		return NULL;
	ins->kind = IR_INSERT_RECORD;
	ins->cell = jifl_cpu_operand(ring);
	ins->rings = (s32)(unsigned long)ring.slots;
	ins->order = ring.order;
	ins->imm = (s32)what;
	return ins;
}

/*
 * A function with an ftrace site has been made by a compiler, and keeps to the
 * System V ABI (section 3.2.3): r11 and the flags say nothing when it begins and when
 * it returns. Compiled with -pg, it has no other agreement with its callers either:
 * GCC does not use -fipa-ra then. Inside a function they may.
 */
static bool jifl_ring_at_edge(const struct ir_block *b, u32 what)
{
	return (what == JIFL_RECORD_RETURN || what == JIFL_RECORD_RETURNED ||
		what == JIFL_RECORD_LEFT ||
		jifl_ksym_starts(b->addr.v)) &&
	       jifl_ksym_fentry(jifl_ksym_start(b->addr.v));
}

struct ir_insert *jifl_ring_insert(struct ir_block *b, u16 at, u32 what)
{
	struct ir_insert *ins = jifl_ring_record(b, IR_BEFORE, at, what);

	if (ins)
		ins->convention = jifl_ring_at_edge(b, what);
	return ins;
}

/* The place of a cell's value is the record's own from here on. */
static void jifl_ring_store(u64 cell, u32 what, u32 value)
{
	union jifl_ring_slot *slot = &ring.slots[rol32((u32)cell, ring.order)];

	WRITE_ONCE(slot->record.value, value);
	smp_wmb();	/* the reader looks at `what` first */
	WRITE_ONCE(slot->record.what, what);
}

/* A record with a word behind it, which may lie behind the ring's end. */
static void jifl_ring_store_word(u64 cell, u32 what, u64 word)
{
	WRITE_ONCE(ring.slots[rol32((u32)cell, ring.order) + 1].whole, word);
	jifl_ring_store(cell, what, 0);
}

void jifl_ring_put(u32 what, u32 value)
{
	const u64 one = jifl_ring_one();

	jifl_ring_store(this_cpu_add_return(jifl_cpu.ring, one) - one, what, value);
}

/* Records and words up to a cell's value. */
static u64 jifl_ring_count(u64 cell)
{
	return (cell >> 32 << ring.order) | (u32)cell >> (32 - ring.order);
}

/* Where reading can begin anew: two, a quarter of a ring apart or more. */
static void jifl_ring_note(u64 place)
{
	u64 *marks = ring.readers[smp_processor_id()].marks;

	if (place - marks[1] < jifl_ring_records() / 4)
		return;
	WRITE_ONCE(marks[0], marks[1]);
	WRITE_ONCE(marks[1], place);
}

static void jifl_ring_store_mark(u64 cell, u32 what, u32 value, u64 time)
{
	jifl_ring_store(cell, what, value);
	jifl_ring_store(cell + jifl_ring_one(),
			JIFL_RECORD_TIME | (time & ((1u << JIFL_RING_TIME_BITS) - 1)),
			(u32)(time >> JIFL_RING_TIME_BITS));
}

/* In a ring whose records may have words. */
static noinline void jifl_ring_mark_words(u32 what, u32 value, u64 time)
{
	const u64 one = jifl_ring_one();
	u64 tsc = ring.clock ? rdtsc_ordered() : 0;
	u64 n = (ring.clock ? 4 : 2) * one;
	u64 at = this_cpu_add_return(jifl_cpu.ring, n) - n;

	jifl_ring_note(jifl_ring_count(at));
	jifl_ring_store_mark(at, what, value, time);
	if (ring.clock)
		jifl_ring_store_word(at + 2 * one, JIFL_RECORD_CLOCK, tsc);
}

void jifl_ring_mark(u32 what, u32 value)
{
	const u64 one = jifl_ring_one();
	u64 now = ktime_get_mono_fast_ns();

	if (ring.words)
		jifl_ring_mark_words(what, value, now);
	else
		jifl_ring_store_mark(this_cpu_add_return(jifl_cpu.ring, 2 * one) - 2 * one,
				     what, value, now);
}

/* Records and words ever, stored or about to be. */
static u64 jifl_ring_total(unsigned int cpu)
{
	return jifl_ring_count(READ_ONCE(per_cpu(jifl_cpu.ring, cpu)));
}

/* A mark in the newer half, or there is none: what comes next. */
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

/* Behind an overrun half a ring is kept, lest it overtakes again at once. */
static void jifl_ring_skip(struct jifl_ring_reader *r, u64 total)
{
	u64 first = total - jifl_ring_records() / 2;

	if (total - r->read <= jifl_ring_records())
		return;
	if (ring.words)
		first = jifl_ring_mark_behind(r, first, total);
	if (!JIFL_HOST_PLANTED(losses_untold))
		r->lost += first - r->read;
	r->read = first;
	r->unsafe = first + jifl_ring_records();
}

/* How far may be read? */
static u64 jifl_ring_end(const struct jifl_ring_reader *r, u64 total)
{
	if (!ring.words || r->read >= r->unsafe || !READ_ONCE(ring.owner->running))
		return total;
	return max(r->read, total - min_t(u64, total, JIFL_RING_MARGIN));
}

/* Words behind a record. */
static u32 jifl_ring_words(u32 what)
{
	return ring.words ? JIFL_RECORD_WORDS(what) : 0;
}

/* A record and its words, which are all there. They are zeroed, but not what came between. */
static void jifl_ring_take_one(u64 *slot, u64 *to, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++) {
		to[i] = READ_ONCE(slot[i]);
		cmpxchg(&slot[i], to[i], 0);
	}
}

/* Takes at most n words, no record in part; returns how many. first: it may skip what is lost before. */
static u32 jifl_ring_take(unsigned int cpu, u64 *to, u32 n, bool first)
{
	u64 *slots = &ring.slots[(size_t)cpu * jifl_ring_distance() << ring.order].whole;
	struct jifl_ring_reader *r = &ring.readers[cpu];
	u64 total = jifl_ring_total(cpu), end;
	u32 taken = 0, words;

	if (first)
		jifl_ring_skip(r, total);
	for (end = jifl_ring_end(r, total); r->read + taken < end; taken += words) {
		u64 *slot = &slots[(r->read + taken) % jifl_ring_records()];
		u32 what = READ_ONCE(*(u32 *)slot);

		words = 1 + jifl_ring_words(what);
		if (!what || words > n - taken || r->read + taken + words > end)
			break;
		smp_rmb();	/* what belongs to it was written before */
		jifl_ring_take_one(slot, &to[taken], words);
	}
	/* Overtaken meanwhile: nobody knows by how much of these. */
	if (jifl_ring_total(cpu) - r->read > jifl_ring_records())
		return 0;
	r->read += taken;
	return taken;
}

int jifl_ring_read(const struct jifl_session *s, struct jifl_records *req)
{
	const u32 room = PAGE_SIZE / sizeof(u64);
	u64 *page = JIFL_ALLOC((u64 *)__get_free_page(GFP_KERNEL));
	u32 n, taken, done = 0;
	int ret = 0;

	if (!page)
		return -ENOMEM;
	mutex_lock(&ring.lock);
	if (ring.owner != s)
		ret = -ENOENT;
	else if (req->cpu >= nr_cpu_ids || !cpu_possible(req->cpu))
		ret = -EINVAL;
	while (!ret && done < req->n) {
		n = min(room, req->n - done);
		/* A loss lies before what is taken, not inside. */
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
	mutex_unlock(&ring.lock);
	free_page((unsigned long)page);
	return ret;
}
