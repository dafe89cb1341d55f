// SPDX-License-Identifier: GPL-2.0
/* Inlined analysis routines do the same as called ones. */
#include "../../../engine/ir/routine.h"
#include "../inserts.h"
#include "../invariants.h"
#include "../targets/routines.h"
#include "../targets/targets.h"
#include "../unit.h"

static struct routine_state state, want;
static u64 executed;
static const struct routine *routine;
static long arguments[3];

static unsigned long one(void)
{
	return 1;
}

static void state_begin(struct routine_state *s)
{
	u32 i;

	memset(s, 0, sizeof(*s));
	s->self = s;
	for (i = 0; i < 4; i++)
		s->names[i] = one;
}

/* The routine before each instruction, and how often that is. */
static void insert_routine(struct ir_block *b, void *arg)
{
	struct ir_insert *ins;
	u16 i;

	for (i = 0; i < b->ninsns; i++) {
		ins = ir_block_insert(b, IR_BEFORE, i);
		ins->kind = IR_INSERT_CALL;
		ins->fn = (u64)(unsigned long)routine->fn;
		ins->nargs = 4;
		ins->args[0] = (u64)(unsigned long)&state;
		memcpy(ins->args + 1, arguments, sizeof(arguments));
		ins = ir_block_insert(b, IR_BEFORE, i);
		ins->kind = IR_INSERT_ADD;
		ins->imm = 1;
		ins->cell = user_host_operand(&executed);
	}
}

static void call_natively(u64 times)
{
	state_begin(&want);
	while (times--)
		routine->fn(&want, arguments[0], arguments[1], arguments[2]);
	want.self = &state;
}

static void check_state(const struct target *t)
{
	call_natively(executed);
	CHECK(!memcmp(&state, &want, sizeof(state)),
	      "%s(%#lx, %#lx, %#lx) in %s: sum %#lx, called %#lx; more %#lx, %#lx; least %#lx, %#lx; "
	      "most %#lx, %#lx", routine->name, arguments[0], arguments[1], arguments[2], t->name,
	      state.sum, want.sum, state.more, want.more, state.least, want.least, state.most,
	      want.most);
}

static void run_target(int context, const struct target *t)
{
	unsigned long expected = t->fn(t->n), have;

	state_begin(&state);
	executed = 0;
	have = user_host_call(context, t->fn, t->n);
	CHECK(have == expected, "%s, %s(%lu): %#lx, natively %#lx", routine->name, t->name, t->n,
	      have, expected);
	check_state(t);
}

/* With a red zone to skip and much to save, the longest are too long with some constants. */
static void check_verdict(bool may_be_long)
{
	struct ir_inlined f = { 0 };

	REQUIRE(jifl_engine_inlined(0, &f), "%s", routine->name);
	CHECK_EQ_IN(routine->name, f.fn, (unsigned long)routine->fn);
	CHECK_EQ_IN(routine->name, !f.copies, routine->inlined != JIFL_INLINE_YES);
	if (f.calls && !(may_be_long && f.copies))
		CHECK_EQ_IN(routine->name, f.reason, routine->inlined);
}

static const long values[][3] = {
	{ 1, 2, 3 }, { 0, 0, 0 }, { 6, -1, 1001 }, { -5, -5, -1 },
	{ 0x7fffffff, 0x80000000, 0xffffffff },
	{ -0x80000000l, 1l << 40, ~(1l << 50) }, { 0x123456789abcdef, 127, 128 },
	{ 255, -128, -129 },
};

static void run_tables(const struct target *const *tables, u32 n)
{
	const struct target *t;
	u32 i;
	int context = jifl_engine_context_create(insert_routine, NULL);

	for (i = 0; i < n; i++)
		for (t = tables[i]; t->name; t++)
			run_target(context, t);
}

/* User space, with a red zone: routines that call others are called. */
UNIT_TEST(user, "run/inlined: routines do inlined what they do called")
{
	static const struct target *const tables[] = { targets_plain, targets_thunk, targets_asm };
	u32 i;

	for (routine = routines_table; routine->name; routine++) {
		for (i = 0; i < JIFL_ARRAY_LEN(values); i++) {
			memcpy(arguments, values[i], sizeof(arguments));
			user_host_init(16 << 20, 16 << 20);
			run_tables(tables, UNIT_SANITIZED ? 1 : JIFL_ARRAY_LEN(tables));
			if (!routine->calls)
				check_verdict(true);
		}
		check_cache(routine->name);
	}
}

extern const char __x86_return_thunk[];

UNIT_TEST(kernel, "run/inlined: the same configured like a kernel, calls out of routines kept")
{
	static const struct target *const tables[] = { targets_kernel };
	struct jifl_config config;
	u32 i;

	for (routine = routines_table; routine->name; routine++) {
		for (i = 0; i < JIFL_ARRAY_LEN(values); i++) {
			memcpy(arguments, values[i], sizeof(arguments));
			config = user_host_kernel_config(16 << 20, 16 << 20, __x86_return_thunk);
			REQUIRE(!jifl_engine_init(&config));
			run_tables(tables, 1);
			check_verdict(false);
		}
		check_cache(routine->name);
	}
}

/* --- the paper's example ------------------------------------------------------------------- */

static u64 total;
static void (*adder)(unsigned long *total, int n);

static void insert_adder(struct ir_block *b, void *arg)
{
	struct ir_insert *ins = ir_block_insert(b, IR_BEFORE, 0);

	ins->kind = IR_INSERT_CALL;
	ins->fn = (u64)(unsigned long)adder;
	ins->nargs = 2;
	ins->args[0] = (u64)(unsigned long)&total;
	ins->args[1] = b->count;
}

/* A function that begins with what leaves flags dead, and is one block. */
static const u8 xor_ret[] = { 0x31, 0xc0, 0xc3 };

static void check_code(const void *fn, const u8 *want, u32 n)
{
	enum jifl_cause cause;
	u64 code;

	adder = fn;
	total = 0;
	user_host_poison = false;
	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(xor_ret, sizeof(xor_ret), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	code = jifl_engine_enter(jifl_engine_context_create(insert_adder, NULL),
				 jifl_orig_at((u64)(unsigned long)xor_ret), &cause);
	REQUIRE(code);
	CHECK(!memcmp((const void *)(unsigned long)code, want, n), "%s",
	      unit_hex((const void *)(unsigned long)code, n + 3));
	CHECK(!memcmp((const void *)(unsigned long)(code + n), xor_ret, sizeof(xor_ret)));
}

UNIT_TEST(one_add, "run/inlined: the paper's add_count becomes one instruction")
{
	u8 add[] = { 0x48, 0x83, 0x04, 0x25, 0, 0, 0, 0, 2 }, locked[sizeof(add) + 1] = { 0xf0 };
	u32 cell = (u32)(unsigned long)&total;

	memcpy(add + 4, &cell, 4);
	memcpy(locked + 1, add, sizeof(add));
	check_code(routine_add, add, sizeof(add));
	check_code(routine_add_atomic, locked, sizeof(locked));
}
