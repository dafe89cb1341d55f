// SPDX-License-Identifier: GPL-2.0
/* Records: one for each instruction, in order, each with the original's rsp. */
#include "../../../engine/decode/decode.h"
#include "../inserts.h"
#include "../targets/targets.h"
#include "../unit.h"

/* What the instruction adds to rsp, if its first byte tells. */
static bool moves_stack(const struct ir_insn *insn, s32 *n)
{
	*n = insn->bytes[0] >= 0x50 && insn->bytes[0] <= 0x57 ? -8 :
	     insn->bytes[0] >= 0x58 && insn->bytes[0] <= 0x5f ? 8 :
	     insn->kind == IR_CALL ? -8 : insn->kind == IR_RET && insn->len == 1 ? 8 : 0;
	return *n || insn->kind == IR_JCC || insn->kind == IR_JMP;
}

static u64 total(void)
{
	return (records_cell >> 32 << RECORDS_ORDER) | (u32)records_cell >> (32 - RECORDS_ORDER);
}

/* Returns how many records could be checked. */
static u64 check_stack(const struct target *t, u64 n)
{
	struct ir_insn insn;
	u64 i, known = 0;
	s32 moved;

	for (i = 0; i + 1 < n; i++) {
		jifl_decode_insn(jifl_orig_at((u64)(s64)(s32)records[i].what), &insn);
		if (!moves_stack(&insn, &moved))
			continue;
		known++;
		CHECK_EQ_IN(t->name, records[i + 1].rsp, records[i].rsp + (u32)moved);
	}
	return known;
}

UNIT_TEST(sequence, "run/records: each instruction leaves one, with the stack it sees")
{
	const struct target *t;
	u64 known = 0;
	int context;

	for (t = targets_plain; t->name; t++) {
		user_host_init(UNIT_CODE, UNIT_SIDE);
		context = jifl_engine_context_create(insert_records, NULL);
		insert_begin();
		user_host_call(context, t->fn, 3);
		REQUIRE(total() > 1 && total() < 1 << RECORDS_ORDER, "%llu", total());
		CHECK_EQ_IN(t->name, records[0].what, (u32)(unsigned long)t->fn);
		CHECK_EQ_IN(t->name, records[total()].what, 0);
		known += check_stack(t, total());
	}
	CHECK(known > 1000, "%llu", known);
}

UNIT_TEST(wrapped, "run/records: a ring goes round and its cell says how often")
{
	const struct target *t = targets_plain;
	u64 once;
	int context, i;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	context = jifl_engine_context_create(insert_records, NULL);
	insert_begin();
	user_host_call(context, t->fn, 3);
	once = total();
	for (i = 1; total() < 3 << RECORDS_ORDER; i++)
		user_host_call(context, t->fn, 3);
	CHECK_EQ(total(), once * (u64)i);
	CHECK(records_cell >> 32 >= 3);
}

/* What insert_checked() looks up of registers, each in two ways; and the time. */
static const struct ir_fetch looked[] = {
	{ .how = IR_FETCH_ADDRESS, .base = IR_RSP, .index = IR_REG_NONE, .disp = 0x100 },
	{ .how = IR_FETCH_REG, .base = IR_RBX, .index = IR_REG_NONE },
	{ .how = IR_FETCH_ADDRESS, .base = IR_RBX, .index = IR_REG_NONE, .disp = -8 },
	{ .how = IR_FETCH_REG, .base = IR_RAX, .index = IR_REG_NONE },
	{ .how = IR_FETCH_ADDRESS, .base = IR_RBX, .index = IR_RAX, .scale = 2, .disp = 5 },
	{ .how = IR_FETCH_TSC },
};
#define LOOKED JIFL_ARRAY_LEN(looked)

static void insert_checked(struct ir_block *b, void *arg)
{
	struct ir_insert *ins;
	u16 i;

	insert_records(b, arg);
	for (i = 0; i < b->ninserts; i++) {
		ins = &b->inserts[i];
		ins->nargs = LOOKED;
		ins->fetched = (1u << LOOKED) - 1;
		memcpy(ins->fetches, looked, sizeof(looked));
	}
}

static u64 check_words(const struct target *t, u32 at)
{
	static u64 last;
	u64 words[LOOKED];

	memcpy(words, &records[at + 1], sizeof(words));
	CHECK_EQ_IN(t->name, (u32)words[0], records[at].rsp + 0x100);
	CHECK_EQ_IN(t->name, words[2], words[1] - 8);
	CHECK_EQ_IN(t->name, words[4], words[1] + 2 * words[3] + 5);
	CHECK(words[5] >= last && words[5] <= __builtin_ia32_rdtsc(), "%s %llu", t->name, words[5]);
	last = words[5];
	return words[1] ^ words[3];
}

UNIT_TEST(words, "run/records: what is looked up stands behind them, behind the ring's end, too")
{
	const struct target *t;
	u64 at, seen = 0, some = 0;
	int context;

	for (t = targets_plain; t->name; t++) {
		user_host_init(UNIT_CODE, UNIT_SIDE);
		context = jifl_engine_context_create(insert_checked, NULL);
		insert_begin();
		/* The last one is cut. */
		records_cell = (u64)(u32)((1u << RECORDS_ORDER) - 1) << (32 - RECORDS_ORDER);
		user_host_call(context, t->fn, 3);
		if (total() >= 2 << RECORDS_ORDER)
			continue;
		CHECK_EQ_IN(t->name, records[(1 << RECORDS_ORDER) - 1].what,
			    (u32)(unsigned long)t->fn);
		check_words(t, (1 << RECORDS_ORDER) - 1);
		for (at = LOOKED; at < total() - (1 << RECORDS_ORDER); at += 1 + LOOKED, seen++)
			some |= check_words(t, at);
	}
	CHECK(seen > 1000 && some, "%llu", seen);
}
