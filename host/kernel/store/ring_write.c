// SPDX-License-Identifier: GPL-2.0
/*
 * Records that are inserted, and records of calls that are not written inline (ring.h). Inserting
 * is done under the engine lock; the others run with preemption off.
 */
#include <linux/ktime.h>	/* and timekeeping.h, which does not stand alone */
#include <linux/preempt.h>

#include "../kernel.h"
#include "../text/function.h"
#include "percpu.h"
#include "ring.h"
#include "rings.h"

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

/* Notes a place where reading can begin anew. Two are kept, a quarter of a ring apart or more. */
static void jifl_ring_note(u64 place)
{
	u64 *marks = jifl_rings.readers[raw_smp_processor_id()].marks;

	/* What interrupts may have noted a later place. */
	if ((s64)(place - marks[1]) < jifl_ring_records() / 4)
		return;
	WRITE_ONCE(marks[0], marks[1]);
	WRITE_ONCE(marks[1], place);
}

u64 jifl_ring_clock(void)
{
	u64 now;

	jifl_own_begin();
	now = ktime_get_mono_fast_ns();
	jifl_own_end();
	return now;
}

/* Places of a mark and what belongs to it. */
static u32 jifl_ring_mark_size(const struct jifl_ring_layout *l)
{
	return l->words && l->clock ? 4 : 2;
}

/* Stores a mark at a place that is taken. */
static void jifl_ring_store_mark_words(const struct jifl_ring_layout *l, u64 at, u32 what,
				       u32 value, const struct jifl_ring_stamp *now)
{
	jifl_ring_store_mark(l, at, what, value, now->time);
	if (!l->words)
		return;
	if (l->clock)
		jifl_ring_store_word(at + 2 * l->one, JIFL_RECORD_CLOCK, now->tsc);
	/* Now it is there: an interrupt may record any number before the next line. */
	jifl_ring_note(jifl_ring_count(at));
}

u64 jifl_ring_mark_words(u32 what, u32 value)
{
	const struct jifl_ring_layout l = jifl_ring_layout;
	struct jifl_ring_stamp now;
	const u64 at = jifl_ring_reserve_at_time(&l, jifl_ring_mark_size(&l), l.clock, &now);

	jifl_ring_store_mark_words(&l, at, what, value, &now);
	return at;
}

/* Records of a result. */
static u32 jifl_ring_result_size(const u64 *result)
{
	if (!result)
		return 0;
	return jifl_ring_fits_result(*result) ? 1 : 2;
}

u64 jifl_ring_end_rare(u32 what, u32 value, const u64 *result)
{
	const struct jifl_ring_layout l = jifl_ring_layout;
	const u32 n = jifl_ring_result_size(result);
	struct jifl_ring_stamp now;
	const u64 at = jifl_ring_reserve_at_time(&l, n + jifl_ring_mark_size(&l), l.clock, &now);

	if (n)
		jifl_ring_store_result(&l, at, *result);
	if (n > 1)
		jifl_ring_store(&l, at + l.one, JIFL_RECORD_TOP, *result >> JIFL_RING_RESULT_BITS);
	jifl_ring_store_mark_words(&l, at + n * l.one, what, value, &now);
	return at;
}
