// SPDX-License-Identifier: GPL-2.0
/*
 * Counters of the processor, wherever they are: exact, for each processor its own. A thread's gs
 * stands for the processor's.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

/* What two processors have, and where gs of the first is. */
struct cpu {
	u8 gs[64];
	u64 counter;
};
static struct cpu cpus[2];
static u64 counter;	/* its distance from gs */

static void set_gs(u64 base)
{
	REQUIRE(!syscall(SYS_arch_prctl, ARCH_SET_GS, base));
}

/* Counts before each instruction, by a counter and by an addition. */
static void insert_both(struct ir_block *b, void *arg)
{
	struct ir_insert *ins;
	u16 i;

	for (i = 0; i < b->ninsns; i++) {
		ins = ir_block_insert(b, IR_BEFORE, i);
		ins->kind = IR_INSERT_COUNT;
		ins->counter = counter;
		ins = ir_block_insert(b, IR_BEFORE, i);
		ins->kind = IR_INSERT_ADD;
		ins->cell = user_host_operand(&ins_count);
		ins->imm = 1;
	}
}

/* base: of gs, on the first processor. */
static void check_processors(const struct target *t, u64 base)
{
	const u64 want = t->fn(t->n);
	int context, i;
	u64 once;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	memset(cpus, 0, sizeof(cpus));
	counter = (u64)(unsigned long)&cpus[0].counter - base;
	context = jifl_engine_context_create(insert_both, NULL);
	insert_begin();
	set_gs(base);
	CHECK_EQ_IN(t->name, user_host_call(context, t->fn, t->n), want);
	once = ins_count;
	CHECK(once, "%s", t->name);
	CHECK_EQ_IN(t->name, cpus[0].counter, once);
	CHECK_EQ_IN(t->name, cpus[1].counter, 0);
	/* On the other one three times, with the same code. */
	set_gs(base + sizeof(struct cpu));
	for (i = 0; i < 3; i++)
		CHECK_EQ_IN(t->name, user_host_call(context, t->fn, t->n), want);
	CHECK_EQ_IN(t->name, cpus[0].counter, once);
	CHECK_EQ_IN(t->name, cpus[1].counter, 3 * once);
	set_gs(0);
	check_cache("counters");
}

UNIT_TEST(processors, "run/counters: each processor has its own, near gs and far from it")
{
	const u64 here = (u64)(unsigned long)cpus, far = here + 0x123456789000;
	const struct target *t;

	for (t = targets_plain; t->name; t++) {
		check_processors(t, here);
		check_processors(t, far);
	}
	for (t = targets_asm; t->name; t++)
		if (strcmp(t->name, "returns"))
			check_processors(t, far);
}

/* Where a C function begins: r11 and the flags are dead there, whatever liveness knows. */
static void insert_at_beginning(struct ir_block *b, void *arg)
{
	struct ir_insert *ins;

	if (b->addr.v != *(const u64 *)arg)
		return;
	ins = ir_block_insert(b, IR_BEFORE, 0);
	ins->kind = IR_INSERT_COUNT;
	ins->counter = (u64)(unsigned long)far_count;
	ins->convention = true;
}

/* The code of the first block, up to where two instructions of 15 bytes must end. */
static const u8 *code_of(int context, u64 fn)
{
	enum jifl_cause cause;

	return (const u8 *)(unsigned long)jifl_engine_enter(context, jifl_orig_at(fn), &cause);
}

static bool is_counter(const u8 *code)
{
	/* movabs $imm, %r11; addq $1, %gs:(%r11) */
	return code && !memcmp(code, "\x49\xbb", 2) && !memcmp(code + 2, &far_count, 8) &&
	       !memcmp(code + 10, "\x65\x49\x83\x03\x01", 5);
}

UNIT_TEST(beginnings, "run/counters: two instructions where a function begins")
{
	struct ir_insert entry = { .kind = IR_INSERT_COUNT };
	const struct target *t;
	enum jifl_cause cause;
	u64 fn, piece;
	int context;

	for (t = targets_plain; t->name; t++) {
		fn = (u64)(unsigned long)t->fn;
		user_host_init(UNIT_CODE, UNIT_SIDE);
		insert_begin();
		context = jifl_engine_context_create(insert_at_beginning, &fn);
		if (!user_host_poison)
			CHECK(is_counter(code_of(context, fn)), "%s: %s", t->name,
			      unit_hex(code_of(context, fn), 20));
		CHECK_EQ_IN(t->name, user_host_call(context, t->fn, t->n), t->fn(t->n));
		CHECK(*far_count, "%s", t->name);
		/* And in an entry piece. */
		*far_count = 0;
		entry.counter = (u64)(unsigned long)far_count;
		context = jifl_engine_context_create(NULL, NULL);
		piece = jifl_engine_entry_create(context, jifl_orig_at(fn), &entry, 1, NULL, 0,
						 &cause);
		REQUIRE(piece, "%s", t->name);
		CHECK(user_host_poison || is_counter((const u8 *)(unsigned long)piece), "%s",
		      t->name);
		CHECK_EQ_IN(t->name, ((target_fn)(unsigned long)piece)(t->n), t->fn(t->n));
		CHECK_EQ_IN(t->name, *far_count, 1);
	}
}

static void insert_each_block(struct ir_block *b, void *arg)
{
	struct ir_insert *ins = ir_block_insert(b, IR_ANYWHERE, 0);

	ins->kind = IR_INSERT_ADD;
	ins->cell = user_host_operand(&ins_count);
	ins->imm = 1;
}

static u64 blocks_counted(const struct target *t, int context)
{
	insert_begin();
	CHECK_EQ_IN(t->name, user_host_call(context, t->fn, t->n), t->fn(t->n));
	return ins_count;
}

UNIT_TEST(everywhere,
	  "run/counters: what is inserted everywhere is in all contexts, destroyed ones too")
{
	const struct target *t;
	int one, gone, later;
	u64 blocks;

	for (t = targets_plain; t->name; t++) {
		user_host_init(UNIT_CODE, UNIT_SIDE);
		one = jifl_engine_context_create(NULL, NULL);
		gone = jifl_engine_context_create(insert_each_block, NULL);
		jifl_engine_everywhere(insert_each_block);
		jifl_engine_context_destroy(gone);
		blocks = blocks_counted(t, one);
		CHECK(blocks, "%s", t->name);
		CHECK_EQ_IN(t->name, blocks_counted(t, gone), blocks);
		/* Copies that exist stay as they are. */
		jifl_engine_everywhere(NULL);
		CHECK_EQ_IN(t->name, blocks_counted(t, one), blocks);
		later = jifl_engine_context_create(NULL, NULL);
		CHECK_EQ_IN(t->name, blocks_counted(t, later), 0);
	}
}
