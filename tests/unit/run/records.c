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
		REQUIRE(total() > 1 && total() < JIFL_ARRAY_LEN(records), "%llu", total());
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
	for (i = 1; total() < 3 * JIFL_ARRAY_LEN(records); i++)
		user_host_call(context, t->fn, 3);
	CHECK_EQ(total(), once * (u64)i);
	CHECK(records_cell >> 32 >= 3);
}
