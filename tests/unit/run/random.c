// SPDX-License-Identifier: GPL-2.0
/*
 * Random programs, natively and through the cache with all kinds of inserts: registers, flags and
 * memory are the same after both, and counters agree.
 *
 * UNIT_SEED=n begins with seed n, UNIT_ROUNDS=n tries n programs. UNIT_DUMP=file writes the code
 * of the (last) program, for
 * objdump -D -b binary -m i386:x86-64 --adjust-vma=... file
 */
#include "../inserts.h"
#include "../invariants.h"
#include "../unit.h"
#include "native_count.h"
#include "program/program.h"
#include "state.h"
#include "../../../engine/cache/cache.h"

static u8 stack[65536] __attribute__((aligned(64)));

struct outcome {
	struct state state;
	u8 data[PROGRAM_DATA];
};

static u64 number(const char *name, u64 otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static void prepare(struct outcome *o, u64 seed)
{
	u64 s = seed ^ 0x5555;
	u32 i;

	for (i = 0; i < PROGRAM_DATA; i++)
		program_data[i] = state_random(&s);
	memset(stack, 0xa5, sizeof(stack));
	program_fuel = 10;
	o->state.gpr[IR_RSP] = (u64)(unsigned long)(stack + sizeof(stack) - 256);
	state_randomize(&o->state, &s);
	o->state.gpr[IR_R15] = (u64)(unsigned long)program_data;
}

static void run(struct outcome *o, u64 seed, u64 code)
{
	prepare(o, seed);
	state_run(&o->state, code);
	memcpy(o->data, program_data, PROGRAM_DATA);
}

static void dump(u32 len)
{
	const char *name = getenv("UNIT_DUMP");
	FILE *f = name ? fopen(name, "w") : NULL;

	if (!f)
		return;
	fwrite(program_text, 1, len, f);
	fclose(f);
	printf("  program at %p written to %s\n", program_text, name);
}

static bool same(const struct outcome *native, const struct outcome *cached, const char *mode)
{
	u32 i, bad = state_compare(&native->state, &cached->state, mode);

	for (i = 0; i < PROGRAM_DATA && native->data[i] == cached->data[i]; i++)
		;
	if (i == PROGRAM_DATA)
		return !bad;
	unit_fail(__FILE__, __LINE__, "memory", "%s: %s at %#x: %#x, natively %#x", mode,
		  i >= PROGRAM_DATA - 8 ? "the flags" : "data", i, cached->data[i],
		  native->data[i]);
	return false;
}

/* Runs the program through the cache: translating it, and again. */
static bool try_mode(int context, const struct insert_mode *mode, u64 seed,
		     const struct outcome *native)
{
	static struct outcome cached;
	enum jifl_cause cause = JIFL_CAUSE_NONE;
	u32 round;
	u64 code;

	u64 exits = user_host_exits_total();

	for (round = 0; round < 2; round++) {
		insert_seed = seed;
		insert_begin();
		code = jifl_engine_enter(context,
					 jifl_orig_at((u64)(unsigned long)program_text), &cause);
		REQUIRE(code, "cause %d", cause);
		run(&cached, seed, code);
		if (!same(native, &cached, mode->name) || terms_wrong || hits_wrong)
			return false;
	}
	CHECK(user_host_exits_total() == exits || program_goes_native(seed),
	      "seed %llu: native exits", seed);
	return true;
}

static void run_natively(void *arg)
{
	static struct outcome o;

	run(&o, *(u64 *)arg, (u64)(unsigned long)program_text);
}

/* What the counters of the modes said of the program, and single steps. */
static void check_counts(u64 seed, const u64 *counts, bool by_steps)
{
	CHECK_EQ(counts[0], counts[1]);
	/* 25 microseconds or more an instruction */
	if (by_steps && counts[0] < 3000 && !program_goes_native(seed))
		CHECK_EQ(counts[0], native_count(run_natively, &seed,
						 (u64)(unsigned long)program_text));
}

static bool try_program(const int *contexts, u64 seed)
{
	static struct outcome native;
	u64 counts[2] = { 0 };
	bool good = true;
	u32 i, len;

	len = program_generate(seed);
	jifl_engine_invalidate(jifl_orig_at((u64)(unsigned long)program_text), PROGRAM_TEXT);
	run(&native, seed, (u64)(unsigned long)program_text);
	for (i = 0; insert_modes[i].name && good; i++) {
		good = try_mode(contexts[i], &insert_modes[i], seed, &native);
		if (insert_modes[i].fn == insert_block_count)
			counts[0] = block_count;
		if (insert_modes[i].fn == insert_ins_count)
			counts[1] = ins_count;
	}
	if (good)
		check_counts(seed, counts, seed % 9 == 0);
	if (!good || getenv("UNIT_DUMP"))
		dump(len);
	return good;
}

static void try_programs(bool jumping)
{
	u64 seed = number("UNIT_SEED", 1), end;
	int contexts[INSERT_MODES];
	u32 i;

	end = seed + number("UNIT_ROUNDS", UNIT_SANITIZED ? 100 : 600);
	if (jumping)
		user_host_init_jumping(8 << 20, 8 << 20, false);
	else
		user_host_init(8 << 20, 8 << 20);
	program_init();
	for (i = 0; insert_modes[i].name; i++)
		contexts[i] = jifl_engine_context_create(insert_modes[i].fn, NULL);
	for (; seed < end; seed++) {
		if (!try_program(contexts, seed)) {
			printf("  to replay: UNIT_SEED=%llu UNIT_ROUNDS=1 make run T=random\n",
			       seed);
			return;
		}
		if (seed % 20 == 0)
			check_cache("random programs");
		/* Blocks that were dropped are only freed so. */
		if (cache.hot > cache.hot_end / 2 || cache.nexits > cache.exits_max / 2 ||
		    cache.nmap > cache.map_max / 2)
			jifl_engine_reset();
	}
	CHECK(!jifl_engine_is_full());
	CHECK(user_host_exits_total(), "no program went native");
	CHECK_EQ(poison_misaligned, 0);
}

UNIT_TEST(programs, "run/random: random programs do what they do natively")
{
	try_programs(false);
}

UNIT_TEST(programs_jumping, "run/random: the same where lookups jump")
{
	try_programs(true);
}

/* Not to be executed: bytes at random, and code with bytes changed. */
UNIT_TEST(any_bytes, "run/random: whatever bytes there are can be translated")
{
	u64 seed = number("UNIT_SEED", 1), s, end;
	enum jifl_cause cause;
	u32 i, at;

	end = seed + number("UNIT_ROUNDS", UNIT_SANITIZED ? 20 : 60);
	program_init();
	for (; seed < end; seed++) {
		s = seed;
		if (seed % 2)
			program_generate(seed);
		for (i = 0; i < PROGRAM_TEXT; i++)
			if (!(seed % 2) || state_random(&s) % 16 == 0)
				program_text[i] = state_random(&s);
		user_host_init(UNIT_CODE, UNIT_SIDE);
		for (i = 0; insert_modes[i].name; i++)
			jifl_engine_context_create(insert_modes[i].fn, NULL);
		for (i = 0; i < 400 && !jifl_engine_is_full(); i++) {
			at = state_random(&s) % 2048;
			jifl_engine_enter((int)(i % INSERT_MODES),
					  jifl_orig_at((u64)(unsigned long)program_text + at),
					  &cause);
		}
		check_cache("any bytes");
	}
}
