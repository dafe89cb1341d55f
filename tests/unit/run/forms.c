// SPDX-License-Identifier: GPL-2.0
/*
 * Histograms and conditions count what they should, for every register and width, and change
 * nothing: all registers and flags are the native ones. At each of their instructions it is known
 * what is on the stack.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <ucontext.h>

#include "../inserts.h"
#include "../invariants.h"
#include "../unit.h"
#include "place.h"
#include "state.h"
#include "../../../engine/cache/cache.h"

/* What stands where an insert is put; then flags and rdi go to memory, and it returns. */
static const struct place places[] = {
	{ "all is live", { 0x90 }, 1 },
	/* xor %eax, %eax */
	{ "flags and rax are dead", { 0x31, 0xc0 }, 2 },
	/* mov $0, %eax; mov $0, %r11d: flags stay live */
	{ "rax and r11 are dead", { 0xb8, 0, 0, 0, 0, 0x41, 0xbb, 0, 0, 0, 0 }, 11 },
	/* mov $0, %r9d */
	{ "r9 is dead", { 0x41, 0xb9, 0, 0, 0, 0 }, 6 },
	/* std; nop; cld: it is put behind the first */
	{ "strings run backwards", { 0xfd, 0x90, 0xfc }, 3 },
};

static u64 cells[IR_HIST_BUCKETS + 1], counted;
static struct ir_insert form;
static u16 form_at;
static u64 in_memory[4];
static u8 stack[65536] __attribute__((aligned(64)));

static const u64 values[] = {
	0, 1, 2, 3, 4, 7, 8, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
	0x8000000000000000, 0x7fffffffffffffff, (u64)-1, (u64)-4096, 0xffffffff80000000,
	0x123456789abcdef0,
};

static void write_place(const struct place *p)
{
	form_at = p->bytes[0] == 0xfd;
	place_write(p);
}

static void insert_form(struct ir_block *b, void *arg)
{
	struct ir_insert *ins = ir_block_insert(b, IR_BEFORE, form_at);

	form.place = IR_BEFORE;
	form.at = form_at;
	*ins = form;
}

static u64 translated(int context)
{
	enum jifl_cause cause;
	u64 code;

	if (cache.hot > cache.hot_end / 2)
		jifl_engine_reset();
	code = jifl_engine_enter(context, jifl_orig_at((u64)(unsigned long)place_text), &cause);
	REQUIRE(code);
	return code;
}

static void prepare(struct state *s, const struct ir_source *source, u64 value)
{
	u64 seed = value + source->reg;

	s->gpr[IR_RSP] = (u64)(unsigned long)(stack + sizeof(stack) - 256);
	state_randomize(s, &seed);
	if (!source->memory) {
		s->gpr[source->reg] = value;
		return;
	}
	in_memory[1] = value;
	s->gpr[source->reg] = (u64)(unsigned long)(in_memory + 1) - (u64)(s64)source->disp;
}

/* Runs it natively and in the cache, and compares. */
static void run(u64 code, const struct ir_source *source, u64 value, const char *what)
{
	static struct state native, cached;
	u64 flags;

	prepare(&native, source, value);
	state_run(&native, (u64)(unsigned long)place_text);
	flags = place_flags;
	prepare(&cached, source, value);
	state_run(&cached, code);
	state_compare(&native, &cached, what);
	CHECK_EQ_IN(what, place_flags & 0xcd5, flags & 0xcd5);
}

static const char *name_of(const struct place *p, const struct ir_source *s, u32 n)
{
	static char name[100];

	sprintf(name, "%s, register %u%s, width %u, %u", p->name, s->reg,
		s->memory ? " in memory" : "", s->width, n);
	return name;
}

/* Every register, as wide as may be, and what it points to. True: there is one more. */
static bool next_source(struct ir_source *s)
{
	do {
		s->reg = (s->reg + 1) % 16;
		if (!s->reg && s->width == 4) {
			s->memory = !s->memory;
			s->disp = s->memory ? -56 : 0;
		}
		if (!s->reg)
			s->width = 12 - s->width;
		if (!s->reg && s->width == 8 && !s->memory)
			return false;
	} while (s->reg == IR_RSP || (s->memory && s->reg == IR_R12));
	return true;
}

static const struct ir_source first_source = { .width = 8, .reg = IR_RAX };

/* --- histograms ------------------------------------------------------------------- */

static u32 bucket_of(u64 value, u32 width, u32 buckets)
{
	u32 n = 0;

	for (value = width == 4 ? (u32)value : value; value; value >>= 1)
		n++;
	return n < buckets ? n : buckets - 1;
}

static void check_hist(const struct place *p, int context, u8 buckets)
{
	const char *what = name_of(p, &form.value, buckets);
	u64 want[JIFL_ARRAY_LEN(cells)] = { 0 }, code;
	u32 i;

	form.kind = IR_INSERT_HIST;
	form.cell = user_host_operand(cells);
	form.buckets = buckets;
	write_place(p);
	code = translated(context);
	memset(cells, 0, sizeof(cells));
	for (i = 0; i < JIFL_ARRAY_LEN(values); i++) {
		run(code, &form.value, values[i], what);
		want[bucket_of(values[i], form.value.width, buckets)]++;
	}
	for (i = 0; i < JIFL_ARRAY_LEN(cells); i++)
		CHECK(cells[i] == want[i], "%s: bucket %u is %llu, wanted %llu", what, i, cells[i],
		      want[i]);
}

static void check_hists(bool kernel)
{
	static const u8 buckets[] = { 2, 20, 32, 33, 34, 64, 65 };
	int context;
	u32 i, k;

	place_begin(kernel);
	context = jifl_engine_context_create(insert_form, NULL);
	for (i = 0; i < JIFL_ARRAY_LEN(places); i++) {
		form = (struct ir_insert){ .value = first_source };
		k = i;
		do {
			check_hist(&places[i], context, buckets[k++ % JIFL_ARRAY_LEN(buckets)]);
		} while (next_source(&form.value));
	}
	check_cache("histograms");
}

UNIT_TEST(hists, "run/forms: histograms count every register's values")
{
	check_hists(false);
}

UNIT_TEST(hists_kernel, "run/forms: the same configured like a kernel")
{
	check_hists(true);
}

/* --- conditions ------------------------------------------------------------------- */

__attribute__((target("general-regs-only"))) static void count(u64 a, u64 b, u64 c, u64 d, u64 e,
							       u64 f)
{
	counted += a + b + c + d + e + f;
}

/* What is done if it holds, each in one way that can be counted. */
static const struct {
	const char *name;
	u8 kind;
	/* CALL, 1: it can be inlined; poison changes all that it may. COUNT, 6: far away */
	u8 nargs;
} bodies[] = {
	{ "add", IR_INSERT_ADD, 0 }, { "add a register", IR_INSERT_ADD_REG, 0 },
	{ "store", IR_INSERT_STORE, 0 }, { "a call", IR_INSERT_CALL, 6 },
	{ "an inlined call", IR_INSERT_CALL, 1 }, { "a call of poison", IR_INSERT_CALL, 0 },
	{ "a record", IR_INSERT_RECORD, 0 }, { "a histogram", IR_INSERT_HIST, 0 },
	{ "a counter", IR_INSERT_COUNT, 0 }, { "a counter far away", IR_INSERT_COUNT, 6 },
};

__attribute__((target("general-regs-only"))) static void count_one(u64 n)
{
	counted += n;
}

static void set_body(u32 i)
{
	u32 k;

	form.kind = bodies[i].kind;
	form.nargs = bodies[i].nargs;
	form.cell = user_host_operand(&counted);
	form.counter = (u64)(unsigned long)(form.nargs ? far_count : &counted);
	form.imm = 1;
	form.reg = form.when.reg;
	form.value = (struct ir_source){ 0 };
	form.fn = form.nargs == 6 ? (u64)(unsigned long)count :
		  form.nargs ? (u64)(unsigned long)count_one : (u64)(unsigned long)poison;
	for (k = 0; k < IR_CALL_ARGS; k++)
		form.args[k] = 0x100000000ull + k;
	if (form.kind == IR_INSERT_RECORD) {
		form.rings = user_host_operand(records).disp;
		form.order = RECORDS_ORDER;
		form.cell = user_host_operand(&records_cell);
	} else if (form.kind == IR_INSERT_HIST) {
		form.cell = user_host_operand(hist_cells);
		form.buckets = 64;
		form.value = (struct ir_source){ .width = 8, .reg = form.when.reg };
	}
}

/* How often the body has been executed; value: what its register held then. */
static u64 times(u64 value)
{
	u64 n = 0, each = 0;
	u32 i;

	switch (form.kind) {
	case IR_INSERT_CALL:
		for (i = 0; i < form.nargs; i++)
			each += form.args[i];
		return each ? counted / each : poison_calls;
	case IR_INSERT_ADD_REG:
		return value ? counted / value : 0;
	case IR_INSERT_RECORD:
		return (u32)records_cell >> (32 - RECORDS_ORDER);
	case IR_INSERT_HIST:
		for (i = 0; i < form.buckets; i++)
			n += hist_cells[i];
		return n;
	}
	return counted + *far_count;
}

static void check_when(const struct place *p, int context, u32 body, u64 equals, bool kernel)
{
	u64 mask = form.when.width == 4 ? 0xffffffff : ~0ull, code, n;
	char what[200];
	u32 i;
	bool met;

	form.equals = equals;
	set_body(body);
	sprintf(what, "%s, %s, if it is %#llx", name_of(p, &form.when, 0), bodies[body].name,
		equals);
	write_place(p);
	code = translated(context);
	for (i = 0; i < JIFL_ARRAY_LEN(values); i++) {
		insert_begin();
		counted = 0;
		met = !((values[i] ^ equals) & mask);
		/* What is stored or counted of a register that points to memory. */
		n = form.when.memory ? 0 : values[i];
		run(code, &form.when, values[i], what);
		if (form.kind == IR_INSERT_ADD_REG && (!n || !met))
			CHECK(met || !counted, "%s: %#llx: %#llx", what, values[i], counted);
		else
			CHECK(times(n) == met, "%s: %#llx: %llu times", what, values[i], times(n));
		if (form.kind == IR_INSERT_RECORD && met)
			CHECK_EQ_IN(what, records[0].rsp,
				    (u32)(unsigned long)stack + sizeof(stack) - 264);
	}
	CHECK_EQ_IN(what, poison_backwards, 0);
	/* A kernel calls analysis routines on the stack as it is. */
	CHECK(kernel || !poison_misaligned, "%s", what);
}

static void check_whens(bool kernel)
{
	int context;
	u32 i, body, k = 0;

	place_begin(kernel);
	context = jifl_engine_context_create(insert_form, NULL);
	for (i = 0; i < JIFL_ARRAY_LEN(places); i++) {
		for (body = 0; body < JIFL_ARRAY_LEN(bodies); body++) {
			form = (struct ir_insert){ .when = first_source };
			do {
				check_when(&places[i], context, body,
					   values[k++ % JIFL_ARRAY_LEN(values)], kernel);
			} while (next_source(&form.when));
		}
	}
	check_cache("conditions");
}

UNIT_TEST(whens, "run/forms: what has a condition is done when it holds")
{
	check_whens(false);
}

UNIT_TEST(whens_kernel, "run/forms: the same configured like a kernel")
{
	check_whens(true);
}

/* --- the stack inside ---------------------------------------------------------------- */

enum { TRAP = 0x100 };
static u64 rsp_of_text;
static u32 steps, inside;

static void on_step(int sig, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	enum jifl_where where;
	jifl_orig orig;
	u32 pushed;

	where = jifl_engine_where_stack((u64)r[REG_RIP], false, &orig, &pushed);
	if (where == JIFL_WHERE_OUTSIDE) {
		if (steps && (u64)r[REG_RSP] > rsp_of_text)
			r[REG_EFL] &= ~TRAP;
		return;
	}
	if (!steps++)
		rsp_of_text = (u64)r[REG_RSP];
	if (where == JIFL_WHERE_INSIDE) {
		inside++;
		CHECK((u64)r[REG_RSP] + pushed == rsp_of_text, "at %s: %u, wanted %llu",
		      unit_hex((const void *)r[REG_RIP], 8), pushed, rsp_of_text - (u64)r[REG_RSP]);
	}
}

/* From single steps: sets the processor's trap flag, and the handler ends it. */
static void step(u64 code, u64 value)
{
	static struct state s;

	steps = inside = 0;
	prepare(&s, &form.when, value);
	s.flags |= TRAP;
	state_run(&s, code);
	CHECK(steps > 2 && inside, "%u steps, %u of them inside", steps, inside);
}

/* As of a kernel: nobody walks what aligns the stack for a call in user space. */
UNIT_TEST(stack_inside, "run/forms: at each instruction of theirs the stack is known")
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	u32 i, body;
	int context;

	place_begin(true);
	insert_begin();
	sigaction(SIGTRAP, &action, NULL);	/* instead of the host's */
	context = jifl_engine_context_create(insert_form, NULL);
	for (i = 0; i < JIFL_ARRAY_LEN(places); i++) {
		for (body = 0; body < JIFL_ARRAY_LEN(bodies); body++) {
			form = (struct ir_insert){ .when = { .width = 8, .reg = body },
						   .equals = values[body + i] };
			if (body == IR_RSP)
				form.when.reg = IR_R8;
			set_body(body);
			write_place(&places[i]);
			step(translated(context), values[body + i]);
			step(translated(context), values[body + i] + 1);
		}
	}
}

/* --- entry pieces ---------------------------------------------------------------------- */

struct call {
	u64 a, b;
};

static u64 result_of(struct call *call)
{
	return call->a;
}

/* What the first argument points to, and the result: as of a system call. */
UNIT_TEST(entry, "run/forms: arguments at an entry piece, results at its exit")
{
	static u64 sizes[IR_HIST_BUCKETS], results[34];
	struct ir_insert enter[2] = { 0 }, leave[2] = { 0 };
	u64 want[IR_HIST_BUCKETS] = { 0 }, want_results[34] = { 0 }, piece, (*fn)(struct call *);
	enum jifl_cause cause;
	struct call call;
	u32 i, n = 0;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text((const void *)result_of, 64, JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	enter[0].kind = leave[0].kind = IR_INSERT_HIST;
	enter[0].cell = user_host_operand(sizes);
	enter[0].buckets = IR_HIST_BUCKETS;
	enter[0].value = (struct ir_source){ .width = 8, .reg = IR_RDI, .memory = true, .disp = 8 };
	enter[1].kind = leave[1].kind = IR_INSERT_CALL;
	enter[1].fn = leave[1].fn = (u64)(unsigned long)poison;
	enter[1].when = (struct ir_source){ .width = 4, .reg = IR_RDI, .memory = true };
	enter[1].equals = 3;
	leave[0].cell = user_host_operand(results);
	leave[0].buckets = 34;
	leave[0].value = (struct ir_source){ .width = 4, .reg = IR_RAX };
	leave[1].when = (struct ir_source){ .width = 8, .reg = IR_RAX };
	leave[1].equals = 0x123456789abcdef0;
	piece = jifl_engine_entry_create(jifl_engine_context_create(NULL, NULL),
					 jifl_orig_at((u64)(unsigned long)result_of), enter, 2,
					 leave, 2, &cause);
	REQUIRE(piece);
	fn = (u64 (*)(struct call *))(unsigned long)piece;
	insert_begin();
	for (i = 0; i < JIFL_ARRAY_LEN(values); i++) {
		call = (struct call){ .a = values[i], .b = values[i] * 3 };
		CHECK_EQ(fn(&call), values[i]);
		want[bucket_of(call.b, 8, IR_HIST_BUCKETS)]++;
		want_results[bucket_of(call.a, 4, 34)]++;
		n += (u32)call.a == 3;
		n += call.a == leave[1].equals;
	}
	CHECK(!memcmp(sizes, want, sizeof(want)));
	CHECK(!memcmp(results, want_results, sizeof(want_results)));
	CHECK_EQ(poison_calls, n);
	CHECK_EQ(n, 2);
}
