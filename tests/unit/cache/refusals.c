// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that is refused at every single point at which the engine asks for it. Whatever memory is
 * missing, code gives the right results, natively if need be.
 *
 * The engine's questions are redirected here when the tests are linked (--wrap).
 */
#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

bool __real_jifl_cache_has_room(u32 hot, u32 cold);
bool __wrap_jifl_cache_has_room(u32 hot, u32 cold);
int __real_jifl_cache_lookup_create(int context);
int __wrap_jifl_cache_lookup_create(int context);
void __real_emit_block(struct emit_unit *u, struct ir_block *b, bool followed);
void __wrap_emit_block(struct emit_unit *u, struct ir_block *b, bool followed);

enum question { ROOM, LOOKUP, EMIT, NQUESTIONS };

static const char *const question_names[] = { "room", "lookup table", "unit" };

static struct {
	bool active, for_good;
	enum question what;
	u32 at;			/* the number of the question that is refused */
	u32 asked;
	u32 refused;
} plan;

static bool refuses(enum question what)
{
	bool no;

	if (!plan.active || plan.what != what)
		return false;
	no = plan.asked == plan.at || (plan.for_good && plan.asked > plan.at);
	plan.asked++;
	plan.refused += no;
	return no;
}

bool __wrap_jifl_cache_has_room(u32 hot, u32 cold)
{
	if (!refuses(ROOM))
		return __real_jifl_cache_has_room(hot, cold);
	jifl_cache_full = true;
	return false;
}

int __wrap_jifl_cache_lookup_create(int context)
{
	return refuses(LOOKUP) ? -JIFL_ENOMEM : __real_jifl_cache_lookup_create(context);
}

void __wrap_emit_block(struct emit_unit *u, struct ir_block *b, bool followed)
{
	__real_emit_block(u, b, followed);
	if (refuses(EMIT))
		u->full = true;
}

/* Calls, jump tables, indirect branches with many targets, all of them short. */
static const char *const names[] = { "calls", "jump table", "many pointers", "methods" };

static bool is_chosen(const struct target *t)
{
	u32 i;

	for (i = 0; i < JIFL_ARRAY_LEN(names); i++)
		if (!strcmp(t->name, names[i]))
			return true;
	return false;
}

static unsigned long call(int context, const struct target *t, unsigned long n)
{
	enum jifl_cause cause = JIFL_CAUSE_NONE;
	u64 at = jifl_engine_enter(context, jifl_orig_at((u64)(unsigned long)t->fn), &cause);

	if (at)
		return ((target_fn)(unsigned long)at)(n);
	CHECK_EQ(cause, JIFL_CAUSE_MEMORY);
	return t->fn(n);
}

static void run_table(int context, const struct target *table, const char *when)
{
	const struct target *t;

	for (t = table; t->name; t++)
		if (is_chosen(t))
			CHECK_EQ_IN(when, call(context, t, t->n / 8 + 11),
				    t->fn(t->n / 8 + 11));
}

/* Refuses one question, or all from it on. False when it is not asked any more. */
static bool refuse(enum question what, u32 at, bool for_good, const struct insert_mode *mode)
{
	char when[80];
	int context;

	snprintf(when, sizeof(when), "%s %u %s, %s", question_names[what], at,
		 for_good ? "for good" : "once", mode->name);
	user_host_init(256 << 10, 256 << 10);
	context = jifl_engine_context_create(mode->fn, NULL);
	plan.active = true;
	plan.what = what;
	plan.at = at;
	plan.for_good = for_good;
	plan.asked = plan.refused = 0;
	run_table(context, targets_plain, when);
	run_table(context, targets_thunk, when);
	plan.active = false;
	check_cache(when);
	if (what == ROOM && plan.refused)
		CHECK(jifl_engine_is_full(), "%s", when);
	/* An inline cache that cannot grow is no exit. */
	if (what != ROOM && plan.refused)
		CHECK(user_host_exits[JIFL_CAUSE_MEMORY], "%s: not counted", when);
	/* Afterwards all is well again. */
	run_table(context, targets_plain, when);
	check_cache(when);
	return plan.refused;
}

static void refuse_each(enum question what, const struct insert_mode *mode)
{
	u32 at, step = UNIT_SANITIZED ? 11 : 1;

	for (at = 0; refuse(what, at, false, mode); at += step)
		;
	CHECK(at > 20, "%s: only %u questions about the %s", mode->name, at,
	      question_names[what]);
	for (at = 0; refuse(what, at, true, mode); at += 3 * step)
		;
}

UNIT_TEST(refusals, "cache/refusals: memory refused at every point, results are right")
{
	enum question what;
	u32 mode;

	insert_begin();
	for (what = 0; what < NQUESTIONS; what++)
		for (mode = 0; mode < 2; mode++)
			refuse_each(what, &insert_modes[mode]);
	refuse_each(ROOM, &insert_modes[4]);
}
