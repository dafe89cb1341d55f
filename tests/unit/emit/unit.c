// SPDX-License-Identifier: GPL-2.0
/* Units: blocks one behind the other, full of inserts. */
#include <sys/mman.h>

#include "../inserts.h"
#include "../invariants.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

/* xor %eax, %eax; NINSNS times inc %eax; ret */
enum { NINSNS = 500 };
static u8 text[4096] __attribute__((aligned(4096)));

static void insert_three(struct ir_block *b, void *arg)
{
	insert_args(b, NULL);
	insert_args(b, NULL);
	insert_args(b, NULL);
}

/* Each on a condition that takes a register, and never holds. */
static void insert_three_if(struct ir_block *b, void *arg)
{
	u16 k;

	insert_three(b, NULL);
	for (k = 0; k < b->ninserts; k++) {
		b->inserts[k].when = (struct ir_source){ .width = 8, .reg = IR_RBX };
		b->inserts[k].equals = 0xdeadbeefdeadbeef;
	}
}

static void check_crowded(jifl_instrument_fn fn, u64 calls)
{
	struct jifl_engine_stats st;
	int context;
	u32 i;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	memset(text, 0xcc, sizeof(text));
	memcpy(text, "\x31\xc0", 2);
	for (i = 0; i < NINSNS; i++)
		memcpy(text + 2 + 2 * i, "\xff\xc0", 2);
	text[2 + 2 * NINSNS] = 0xc3;
	insert_begin();
	context = jifl_engine_context_create(fn, NULL);
	CHECK_EQ(user_host_call(context, text, 0), NINSNS);
	CHECK_EQ(args_calls, calls);
	CHECK_EQ(args_wrong, 0);
	jifl_engine_stats(&st);
	CHECK_EQ(st.full, 0);
	CHECK_EQ(user_host_exits_total(), 0);
	check_cache("crowded");
}

/* The longest code a block can become, in every block of a unit. */
UNIT_TEST(crowded, "emit/unit: blocks with all the inserts there is room for")
{
	check_crowded(insert_three, 3 * (NINSNS + 2));
}

UNIT_TEST(crowded_if, "emit/unit: the same on conditions")
{
	check_crowded(insert_three_if, 0);
}

/* One more than there is room for is refused and noted, the others stay. */
UNIT_TEST(too_many, "emit/unit: inserts a block has no room for")
{
	static struct ir_block b;
	u32 i;

	for (i = 0; i < IR_BLOCK_INSERTS; i++)
		CHECK(ir_block_insert(&b, IR_BEFORE, 0));
	CHECK(!b.inserts_full);
	CHECK(!ir_block_insert(&b, IR_BEFORE, 0));
	CHECK(b.inserts_full);
	CHECK_EQ(b.ninserts, IR_BLOCK_INSERTS);
}

/* --- garbage in what is called dead -------------------------------------------------------- */

static s32 garbage_mask;
static u16 garbage_at;

static void insert_garbage(struct ir_block *b, void *arg)
{
	struct ir_insert *ins = ir_block_insert(b, IR_BEFORE, garbage_at);

	ins->kind = IR_INSERT_GARBAGE;
	ins->imm = garbage_mask;
}

/* What the code returns with garbage before this instruction. */
static u64 with_garbage(const char *code, u32 len, u16 at, s32 mask)
{
	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	memset(text, 0xcc, sizeof(text));
	memcpy(text, code, len);
	garbage_at = at;
	garbage_mask = mask;
	return user_host_call(jifl_engine_context_create(insert_garbage, NULL), text, 0);
}

#define WITH_GARBAGE(code, at, mask) with_garbage(code, sizeof(code) - 1, at, mask)

UNIT_TEST(garbage, "emit/unit: garbage in what a mask says, and in nothing else")
{
	/* xor %eax, %eax; setb %al; ret */
	static const char carry[] = "\x31\xc0\x0f\x92\xc0\xc3";
	/* mov $5, %ecx; mov %rcx, %rax; ret */
	static const char move[] = "\xb9\x05\0\0\0\x48\x89\xc8\xc3";

	CHECK_EQ(WITH_GARBAGE(carry, 1, IR_CF << IR_GARBAGE_FLAGS), 1);
	CHECK_EQ(WITH_GARBAGE(carry, 1, (IR_FLAGS & ~IR_CF) << IR_GARBAGE_FLAGS), 0);
	CHECK_EQ(WITH_GARBAGE(carry, 2, 1 << IR_RAX), EMIT_POISON_VALUE | IR_RAX);
	CHECK_EQ(WITH_GARBAGE(move, 1, 1 << IR_RCX), EMIT_POISON_VALUE | IR_RCX);
	CHECK_EQ(WITH_GARBAGE(move, 1, 1 << IR_RAX | 1 << IR_RDX | 1 << IR_RSP), 5);
	CHECK_EQ(WITH_GARBAGE(move, 0, 1 << IR_RCX | 1 << IR_RAX), 5);
}
