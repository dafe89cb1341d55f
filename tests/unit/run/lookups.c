// SPDX-License-Identifier: GPL-2.0
/*
 * Looked-up arguments are what registers and memory held, whatever circle they form and wherever
 * the call stands. All registers and flags keep the kernel's values.
 */
#include "../inserts.h"
#include "../invariants.h"
#include "../unit.h"
#include "place.h"
#include "state.h"
#include "../../../engine/cache/cache.h"
#include "../../../engine/emit/args.h"

enum { ROUNDS = 6000 };

/* What stands where the call is put. */
static const struct place places[] = {
	{ "all is live", { 0x90 }, 1 },
	/* xor %eax, %eax */
	{ "flags and rax are dead", { 0x31, 0xc0 }, 2 },
	/* mov $0, %eax; mov $0, %r11d: flags stay live */
	{ "rax and r11 are dead", { 0xb8, 0, 0, 0, 0, 0x41, 0xbb, 0, 0, 0, 0 }, 11 },
	/* mov $0, %edi; mov $0, %esi */
	{ "rdi and rsi are dead", { 0xbf, 0, 0, 0, 0, 0xbe, 0, 0, 0, 0 }, 10 },
};

static u8 stack[65536] __attribute__((aligned(64)));
static u64 percpu[3], pointed_to[4];
static struct ir_insert call;
static u64 seen[IR_CALL_ARGS], nseen;

/* Too long to be inlined, and short enough. */
__attribute__((target("general-regs-only"), noinline))
static void see_all(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	const u64 args[] = { a, b, c, d, e, f };
	volatile u64 n = 0;
	u32 i;

	for (i = 0; i < IR_CALL_ARGS; i++) {
		seen[i] = args[i];
		n += i;
	}
	nseen++;
}

__attribute__((target("general-regs-only"), noinline))
static void see_three(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	seen[0] = a;
	seen[1] = b;
	seen[2] = c;
	nseen++;
}

static void insert_call(struct ir_block *b, void *arg)
{
	*ir_block_insert(b, IR_BEFORE, 0) = call;
}

static u8 any_register(u64 *seed, bool rsp)
{
	u8 reg;

	do {
		reg = state_random(seed) % 16;
	} while (reg == IR_RSP && !rsp);
	return reg;
}

/* Registers that are addresses in it hold this, less a displacement that fits a byte. */
static u64 in_memory[8];
enum { POINTER = IR_RBX };

/* operand: the one in memory that an instruction has */
static struct ir_fetch any_lookup(u64 *seed, const struct ir_fetch *operand)
{
	struct ir_fetch l = { .how = state_random(seed) % IR_FETCH_CELL, .index = IR_REG_NONE,
			      .scale = 1 };

	switch (l.how) {
	case IR_FETCH_REG:
	case IR_FETCH_REG32:
		/* Often what is another's. */
		l.base = state_random(seed) % 2 ? ir_arg_regs[state_random(seed) % IR_CALL_ARGS] :
						  any_register(seed, false);
		break;
	case IR_FETCH_LOAD:
	case IR_FETCH_LOAD32:
		l.base = state_random(seed) % 2 ? POINTER : IR_RSP;
		l.disp = 8 * (s32)(state_random(seed) % 8);
		break;
	default:
		return *operand;
	}
	return l;
}

static struct ir_fetch any_operand(u64 *seed)
{
	static const u8 scales[] = { 1, 2, 4, 8 };

	return (struct ir_fetch){
		.how = IR_FETCH_ADDRESS,
		.base = any_register(seed, true),
		.index = state_random(seed) % 2 ? any_register(seed, false) : IR_REG_NONE,
		.scale = scales[state_random(seed) % 4],
		.disp = (s32)state_random(seed) >> state_random(seed) % 32,
	};
}

static u64 meant(const struct ir_fetch *l, const struct state *s)
{
	u64 at = l->base == IR_REG_NONE ? 0 : s->gpr[l->base], value;

	/* state_run has called the text. */
	if (l->base == IR_RSP)
		at -= 8;
	if (l->how == IR_FETCH_REG)
		return at;
	if (l->how == IR_FETCH_REG32)
		return (u32)at;
	at += (u64)(s64)l->disp;
	if (l->index != IR_REG_NONE)
		at += s->gpr[l->index] * l->scale;
	if (l->how == IR_FETCH_ADDRESS)
		return at;
	memcpy(&value, (const void *)(unsigned long)at, 8);
	return l->how == IR_FETCH_LOAD ? value : (u32)value;
}

static void any_call(u64 *seed)
{
	struct ir_fetch operand = any_operand(seed);
	u32 i;

	call = (struct ir_insert){ .kind = IR_INSERT_CALL, .nargs = IR_CALL_ARGS };
	call.fn = state_random(seed) % 2 ? (u64)(unsigned long)see_all :
		  (u64)(unsigned long)see_three;
	for (i = 0; i < IR_CALL_ARGS; i++) {
		if (state_random(seed) % 4) {
			call.fetched |= 1u << i;
			call.fetches[i] = any_lookup(seed, &operand);
		} else {
			call.args[i] = state_random(seed) * 0x123456789ull;
		}
	}
	if (state_random(seed) % 3 == 0) {
		call.when = (struct ir_source){ .width = 4, .reg = any_register(seed, false) };
		if (state_random(seed) % 2)
			call.equals = 1;
	}
}

static void prepare(struct state *s, u64 seed)
{
	s->gpr[IR_RSP] = (u64)(unsigned long)(stack + sizeof(stack) - 256);
	state_randomize(s, &seed);
	s->gpr[POINTER] = (u64)(unsigned long)in_memory;
	/* Else it holds for nobody. */
	if (call.when.width && call.when.reg != POINTER)
		s->gpr[call.when.reg] = call.equals;
}

static void check_round(int context, const struct place *p, u64 seed)
{
	static struct state native, cached;
	u32 n = call.fn == (u64)(unsigned long)see_all ? IR_CALL_ARGS : 3, i;
	u64 want[IR_CALL_ARGS], code, flags;
	enum jifl_cause cause;
	bool called;

	if (cache.hot > cache.hot_end / 2)
		jifl_engine_reset();
	place_write(p);
	code = jifl_engine_enter(context, jifl_orig_at((u64)(unsigned long)place_text), &cause);
	REQUIRE(code);
	prepare(&native, seed);
	state_run(&native, (u64)(unsigned long)place_text);
	flags = place_flags;
	prepare(&cached, seed);
	called = !call.when.width || (u32)cached.gpr[call.when.reg] == (u32)call.equals;
	for (i = 0; i < n; i++)
		want[i] = call.fetched & 1u << i ? meant(&call.fetches[i], &cached) : call.args[i];
	nseen = 0;
	state_run(&cached, code);
	state_compare(&native, &cached, p->name);
	CHECK_EQ_IN(p->name, place_flags & 0xcd5, flags & 0xcd5);
	CHECK_EQ_IN(p->name, nseen, called);
	for (i = 0; i < n && called; i++)
		CHECK(seen[i] == want[i],
		      "%s, seed %#llx, argument %u (%u %u): %#llx, wanted %#llx", p->name,
		      seed, i, call.fetches[i].how, call.fetches[i].base, seen[i], want[i]);
}

static void check_lookups(bool kernel)
{
	u64 seed = 1;
	int context;
	u32 i;

	place_begin(kernel);
	context = jifl_engine_context_create(insert_call, NULL);
	for (i = 0; i < JIFL_ARRAY_LEN(in_memory); i++)
		in_memory[i] = 0x1111111122222222ull * (i + 1);
	for (i = 0; i < ROUNDS; i++) {
		any_call(&seed);
		check_round(context, &places[i % JIFL_ARRAY_LEN(places)], seed);
	}
	check_cache("lookups");
}

UNIT_TEST(values, "run/lookups: arguments are what registers and memory held")
{
	check_lookups(false);
}

UNIT_TEST(values_kernel, "run/lookups: the same configured like a kernel")
{
	check_lookups(true);
}

/* Every permutation of the arguments' own registers, which have circles of all lengths. */
UNIT_TEST(circles, "run/lookups: arguments that change places")
{
	u32 n, i, k;
	int context;

	place_begin(true);
	context = jifl_engine_context_create(insert_call, NULL);
	for (n = 0; n < 720; n++) {
		u8 left[IR_CALL_ARGS];
		u32 rest = n;

		memcpy(left, ir_arg_regs, sizeof(left));
		call = (struct ir_insert){ .kind = IR_INSERT_CALL, .nargs = IR_CALL_ARGS,
					   .fetched = 0x3f, .fn = (u64)(unsigned long)see_all };
		for (i = 0; i < IR_CALL_ARGS; i++) {
			k = rest % (IR_CALL_ARGS - i);
			rest /= IR_CALL_ARGS - i;
			call.fetches[i] = (struct ir_fetch){ .how = IR_FETCH_REG, .base = left[k] };
			left[k] = left[IR_CALL_ARGS - i - 1];
		}
		check_round(context, &places[n % JIFL_ARRAY_LEN(places)], n);
	}
}

/* What is in per-CPU data, and on from there: in user space gs is 0. */
UNIT_TEST(cells, "run/lookups: per-CPU cells, and what they point to")
{
	static u8 buf[64];
	struct x86_writer w = { .buf = buf, .cap = sizeof(buf) };
	s32 pushed = 0;
	u32 at = 0;

	percpu[0] = (u64)(unsigned long)pointed_to - 24;
	pointed_to[1] = (u64)(unsigned long)percpu - 0x1000;
	percpu[1] = 0xabcdef;
	call = (struct ir_insert){ .kind = IR_INSERT_CALL, .nargs = 1, .fetched = 1,
				   .then = { 32, 0x1008 }, .fn = (u64)(unsigned long)see_all };
	call.fetches[0] = (struct ir_fetch){ .how = IR_FETCH_THEN,
					     .disp = (s32)(unsigned long)percpu };
	emit_args(&w, &call, 1);
	/* mov %gs:cells, %rdi; mov 32(%rdi), %rdi; mov 0x1008(%rdi), %rdi */
	CHECK_EQ(w.len, 9 + 4 + 7);
	CHECK(!memcmp(buf, "\x65\x48\x8b\x3c\x25", 5), "%s", unit_hex(buf, 9));
	CHECK(!memcmp(buf + 9, "\x48\x8b\x7f\x20\x48\x8b\xbf\x08\x10\0\0", 11), "%s",
	      unit_hex(buf + 9, 11));
	while (at < w.len)
		at += x86_walk(buf + at, &pushed);
	CHECK_EQ(at, w.len);
	CHECK_EQ(pushed, 0);
}

/* As struct pt_regs has them, by hardware number. */
static const u8 context_order[] = { 15, 14, 13, 12, IR_RBP, IR_RBX, 11, 10, 9, 8, IR_RAX, IR_RCX,
				    IR_RDX, IR_RSI, IR_RDI };
enum { CONTEXT_IP = 16, CONTEXT_FLAGS = 18, CONTEXT_SP, CONTEXT_WORDS = 21 };
static u64 context_seen[CONTEXT_WORDS];

__attribute__((target("general-regs-only"), noinline))
static void see_context(u64 a, const u64 *context, u64 b)
{
	u32 i;

	for (i = 0; i < CONTEXT_WORDS; i++)
		context_seen[i] = context[i];
	seen[0] = a;
	seen[1] = b;
	nseen++;
}

/* Flags and a register without a value, and an insert that would make use of it. */
static void insert_counter_and_call(struct ir_block *b, void *arg)
{
	*ir_block_insert(b, IR_BEFORE, 0) = (struct ir_insert){
		.kind = IR_INSERT_ADD, .imm = 1,
		.cell = { .disp = (s32)(unsigned long)&percpu[2] } };
	insert_call(b, arg);
}

static void check_contexts(bool kernel, const struct place *place, jifl_instrument_fn insert)
{
	static struct state native, cached, was;
	enum jifl_cause cause;
	u64 seed = 3, code;
	int context;
	u32 i, n;

	place_begin(kernel);
	call = (struct ir_insert){ .kind = IR_INSERT_CALL, .nargs = 3, .fetched = 6,
				   .args = { 0x123456789 }, .fn = (u64)(unsigned long)see_context };
	call.fetches[1] = (struct ir_fetch){ .how = IR_FETCH_CONTEXT,
					     .disp = (s32)(unsigned long)place_text };
	call.fetches[2] = (struct ir_fetch){ .how = IR_FETCH_REG, .base = IR_RSI };
	context = jifl_engine_context_create(insert, NULL);
	place_write(place);
	code = jifl_engine_enter(context, jifl_orig_at((u64)(unsigned long)place_text), &cause);
	REQUIRE(code);
	for (n = 0; n < 200; n++, seed += n) {
		prepare(&native, seed);
		state_run(&native, (u64)(unsigned long)place_text);
		prepare(&cached, seed);
		was = cached;
		nseen = 0;
		state_run(&cached, code);
		state_compare(&native, &cached, "context");
		CHECK_EQ(nseen, 1);
		CHECK_EQ(seen[0], call.args[0]);
		CHECK_EQ(seen[1], was.gpr[IR_RSI]);
		for (i = 0; i < JIFL_ARRAY_LEN(context_order); i++)
			CHECK_EQ(context_seen[i], was.gpr[context_order[i]]);
		CHECK_EQ(context_seen[CONTEXT_IP], (u64)(unsigned long)place_text);
		CHECK_EQ(context_seen[CONTEXT_SP], was.gpr[IR_RSP] - 8);
		CHECK_EQ(context_seen[CONTEXT_FLAGS] & 0xcd5, was.flags & 0xcd5);
	}
	check_cache("contexts");
}

UNIT_TEST(contexts, "run/lookups: all registers, flags and the stack pointer at once")
{
	check_contexts(false, &places[0], insert_call);
}

UNIT_TEST(contexts_kernel, "run/lookups: the same configured like a kernel")
{
	check_contexts(true, &places[0], insert_call);
}

UNIT_TEST(contexts_dead, "run/lookups: the same behind a counter, of flags that are dead")
{
	check_contexts(true, &places[1], insert_counter_and_call);
}

static void insert_many(struct ir_block *b, void *arg)
{
	struct ir_insert *ins;

	while (b->ninserts < IR_BLOCK_INSERTS) {
		ins = ir_block_insert(b, IR_BEFORE, 0);
		*ins = call;
	}
}

/* A block full of the longest there are: on a condition of 64 bits, with long constants. */
UNIT_TEST(longest, "run/lookups: a block full of long arguments on a condition")
{
	struct jifl_engine_stats st;
	static struct state s;
	enum jifl_cause cause;
	u64 code, i;
	int context;

	place_begin(true);
	percpu[0] = (u64)(unsigned long)pointed_to - 24;
	pointed_to[1] = (u64)(unsigned long)percpu - 0x1000;
	percpu[1] = 0xabcdef;
	call = (struct ir_insert){ .kind = IR_INSERT_CALL, .nargs = IR_CALL_ARGS, .fetched = 1,
				   .then = { 32, 0x1008 }, .fn = (u64)(unsigned long)see_all,
				   .when = { .width = 8, .reg = IR_RBX },
				   .equals = 0x123456789abcdef0 };
	call.fetches[0] = (struct ir_fetch){ .how = IR_FETCH_THEN,
					     .disp = (s32)(unsigned long)percpu };
	for (i = 1; i < IR_CALL_ARGS; i++)
		call.args[i] = 0xfedcba9876543210 + i;
	context = jifl_engine_context_create(insert_many, NULL);
	place_write(&places[0]);
	code = jifl_engine_enter(context, jifl_orig_at((u64)(unsigned long)place_text), &cause);
	REQUIRE(code);
	jifl_engine_stats(&st);
	CHECK_EQ(st.full, 0);
	prepare(&s, 5);
	s.gpr[IR_RBX] = call.equals;
	nseen = 0;
	state_run(&s, code);
	CHECK_EQ(nseen, IR_BLOCK_INSERTS);
	CHECK_EQ(seen[0], 0xabcdef);
	for (i = 1; i < IR_CALL_ARGS; i++)
		CHECK_EQ(seen[i], call.args[i]);
	check_cache("longest");
}

UNIT_TEST(longest_context, "run/lookups: the same with all registers")
{
	struct jifl_engine_stats st;
	enum jifl_cause cause;
	u32 i;

	place_begin(true);
	call = (struct ir_insert){ .kind = IR_INSERT_CALL, .nargs = IR_CALL_ARGS, .fetched = 1,
				   .fn = (u64)(unsigned long)see_all };
	call.fetches[0] = (struct ir_fetch){ .how = IR_FETCH_CONTEXT,
					     .disp = (s32)(unsigned long)place_text };
	for (i = 1; i < IR_CALL_ARGS; i++)
		call.args[i] = 0xfedcba9876543210 + i;
	place_write(&places[0]);
	REQUIRE(jifl_engine_enter(jifl_engine_context_create(insert_many, NULL),
				  jifl_orig_at((u64)(unsigned long)place_text), &cause));
	jifl_engine_stats(&st);
	CHECK_EQ(st.full, 0);
	check_cache("longest context");
}

/* Each instruction is read back for stack walks, and emit_args_changed says what it writes. */
UNIT_TEST(walked, "run/lookups: what loads arguments can be walked")
{
	static u8 buf[256];
	u64 seed = 7;
	u32 i;

	for (i = 0; i < 20000; i++) {
		struct x86_writer w = { .buf = buf, .cap = sizeof(buf) };
		s32 pushed = 0;
		u32 at = 0, len = 1;

		any_call(&seed);
		call.pushed = state_random(&seed) % 20;
		emit_args(&w, &call, call.fetched);
		memset(buf + w.len, 0, sizeof(buf) - w.len);
		while (at < w.len && len) {
			len = x86_walk(buf + at, &pushed);
			at += len;
		}
		CHECK(at == w.len && !pushed, "at %u of %u: %s", at, w.len, unit_hex(buf + at, 12));
		/* What a call may change, and nothing else. */
		CHECK(!(emit_args_changed(&call, call.fetched) & ~IR_CALLER_SAVED), "%#x",
		      emit_args_changed(&call, call.fetched));
		CHECK(w.len <= 70, "%u bytes", w.len);
	}
}
