// SPDX-License-Identifier: GPL-2.0
/* See inserts.h. */
#include <sys/mman.h>

#include "inserts.h"
#include "unit.h"

u64 block_count, ins_count, last_block;
u64 near_count, *far_count;
u64 poison_calls, poison_misaligned, poison_backwards;
u64 args_calls, args_wrong;
u64 insert_seed = 1;
struct edges edges;
u64 records_cell;
struct record records[(1 << RECORDS_ORDER) + IR_CALL_ARGS];

u64 hist_cells[IR_HIST_BUCKETS];

const struct insert_mode insert_modes[INSERT_MODES + 1] = {
	{ "nothing", NULL },
	{ "block counters", insert_block_count },
	{ "instruction counters", insert_ins_count },
	{ "stores", insert_store },
	{ "poisoning calls", insert_poison },
	{ "calls with arguments", insert_args },
	{ "counters of the processor", insert_counts },
	{ "records", insert_records },
	{ "records with words", insert_words },
	{ "calls with all registers", insert_contexts },
	{ "histograms", insert_hists },
	{ "conditions", insert_whens },
	{ "conditions of terms", insert_terms },
	{ "records of numbers", insert_hits },
	{ "edges", insert_edges },
	{ "calls on edges", insert_on_edges },
	{ "a mixture", insert_mixture },
	{ NULL, NULL },
};

u64 *insert_far_cell(void)
{
	/* Where gs is 0, an address is the distance from gs. */
	u64 *cell = mmap(NULL, sizeof(*cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);

	REQUIRE(cell != MAP_FAILED && !jifl_fits_s32((s64)(unsigned long)cell));
	return cell;
}

static void make_far_count(void)
{
	if (!far_count)
		far_count = insert_far_cell();
}

void insert_begin(void)
{
	block_count = ins_count = last_block = 0;
	make_far_count();
	near_count = *far_count = 0;
	poison_calls = poison_misaligned = poison_backwards = 0;
	args_calls = args_wrong = 0;
	terms_begin();
	hits_begin();
	memset(&edges, 0, sizeof(edges));
	records_cell = 0;
	memset(records, 0, sizeof(records));
	memset(hist_cells, 0, sizeof(hist_cells));
}

static struct ir_insert *add(struct ir_block *b, enum ir_place place, u16 at, u64 *cell, s32 imm)
{
	struct ir_insert *ins = ir_block_insert(b, place, at);

	ins->kind = IR_INSERT_ADD;
	ins->cell = user_host_operand(cell);
	ins->imm = imm;
	return ins;
}

static struct ir_insert *call_poison(struct ir_block *b, enum ir_place place, u16 at)
{
	struct ir_insert *ins = ir_block_insert(b, place, at);

	ins->kind = IR_INSERT_CALL;
	ins->fn = (u64)(unsigned long)poison;
	return ins;
}

void insert_block_count(struct ir_block *b, void *arg)
{
	add(b, IR_ANYWHERE, 0, &block_count, (s32)b->count);
}

void insert_ins_count(struct ir_block *b, void *arg)
{
	u16 i;

	for (i = 0; i < b->ninsns; i++)
		add(b, IR_BEFORE, i, &ins_count, 1 + b->insns[i].folded);
}

static struct ir_insert *add_count(struct ir_block *b, enum ir_place place, u16 at, u32 n)
{
	struct ir_insert *ins = ir_block_insert(b, place, at);

	make_far_count();
	ins->kind = IR_INSERT_COUNT;
	ins->counter = (u64)(unsigned long)(n % 4 ? far_count : &near_count);
	return ins;
}

void insert_counts(struct ir_block *b, void *arg)
{
	u16 i;

	for (i = 0; i < b->ninsns; i++)
		add_count(b, IR_BEFORE, i, (u32)b->addr.v + i);
}

void insert_store(struct ir_block *b, void *arg)
{
	struct ir_insert *ins = ir_block_insert(b, IR_BEFORE, 0);

	ins->kind = IR_INSERT_STORE;
	ins->cell = user_host_operand(&last_block);
	ins->imm = (s32)b->addr.v;
}

void insert_poison(struct ir_block *b, void *arg)
{
	u16 i;

	for (i = 0; i < b->ninsns; i++) {
		call_poison(b, IR_BEFORE, i);
		if (!ir_kind_ends_block(b->insns[i].kind))
			call_poison(b, IR_AFTER, i);
	}
}

/* Arguments of all lengths, known to both sides. */
static const u64 args_given[IR_CALL_ARGS] = {
	0x123456789abcdef0, 7, (u64)-3, 0xffffffff, 0xffffffff80000000, 0x8000000000000000,
};

/* An analysis routine must not touch vector registers. */
__attribute__((target("general-regs-only"), noinline))
static void check_args(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	args_calls++;
	if (a != args_given[0] || b != args_given[1] || c != args_given[2] ||
	    d != args_given[3] || e != args_given[4] || f != args_given[5])
		args_wrong++;
}

static struct ir_insert *call_args(struct ir_block *b, enum ir_place place, u16 at)
{
	struct ir_insert *ins = ir_block_insert(b, place, at);

	ins->kind = IR_INSERT_CALL;
	ins->fn = (u64)(unsigned long)check_args;
	ins->nargs = IR_CALL_ARGS;
	memcpy(ins->args, args_given, sizeof(args_given));
	return ins;
}

void insert_args(struct ir_block *b, void *arg)
{
	u16 i;

	for (i = 0; i < b->ninsns; i++)
		call_args(b, IR_BEFORE, i);
}

/* struct pt_regs of the kernel's */
struct context {
	u64 r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	u64 orig_rax, ip, cs, flags, sp, ss;
};

/* What is told one by one is in it, too. */
__attribute__((target("general-regs-only"), noinline))
static void check_context(const struct context *c, u64 ip, u64 sp, u64 rax, u64 rdi, u64 r11)
{
	args_calls++;
	if (c->ip != ip || c->sp != sp || c->rax != rax || c->rdi != rdi || c->r11 != r11 ||
	    c->orig_rax != (u64)-1 || c->cs != 0x10 || c->ss != 0x18)
		args_wrong++;
}

static void call_in_context(struct ir_block *b, enum ir_place place, u16 at, bool poisons)
{
	struct ir_insert *ins = ir_block_insert(b, place, at);
	s32 ip = (s32)b->insns[at].addr.v;

	ins->kind = IR_INSERT_CALL;
	ins->fn = poisons ? (u64)(unsigned long)poison : (u64)(unsigned long)check_context;
	ins->nargs = 6;
	ins->fetched = 0x3d;
	ins->fetches[0] = (struct ir_fetch){ .how = IR_FETCH_CONTEXT, .disp = ip };
	ins->args[1] = (u64)(s64)ip;
	ins->fetches[2] = (struct ir_fetch){ .how = IR_FETCH_ADDRESS, .base = IR_RSP,
					     .index = IR_REG_NONE };
	ins->fetches[3] = (struct ir_fetch){ .how = IR_FETCH_REG, .base = IR_RAX };
	ins->fetches[4] = (struct ir_fetch){ .how = IR_FETCH_REG, .base = IR_RDI };
	ins->fetches[5] = (struct ir_fetch){ .how = IR_FETCH_REG, .base = IR_R11 };
}

void insert_contexts(struct ir_block *b, void *arg)
{
	u16 i;

	for (i = 0; i < b->ninsns; i++) {
		call_in_context(b, IR_BEFORE, i, i % 2);
		if (!ir_kind_ends_block(b->insns[i].kind))
			call_in_context(b, IR_AFTER, i, !(i % 2));
	}
}

static struct ir_insert *add_record(struct ir_block *b, enum ir_place place, u16 at)
{
	struct ir_insert *ins = ir_block_insert(b, place, at);

	ins->kind = IR_INSERT_RECORD;
	ins->cell = user_host_operand(&records_cell);
	ins->rings = user_host_operand(records).disp;
	ins->order = RECORDS_ORDER;
	ins->imm = (s32)b->insns[at].addr.v;
	return ins;
}

void insert_records(struct ir_block *b, void *arg)
{
	u16 i;

	for (i = 0; i < b->ninsns; i++)
		add_record(b, IR_BEFORE, i);
}

/* Any register but rsp, by n. */
static struct ir_source source(u32 n)
{
	u8 reg = n % 15;

	return (struct ir_source){ .width = n / 15 % 2 ? 4 : 8,
				   .reg = reg < IR_RSP ? reg : reg + 1 };
}

static struct ir_insert *add_hist(struct ir_block *b, enum ir_place place, u16 at, u32 n)
{
	static const u8 buckets[] = { IR_HIST_BUCKETS, 33, 2, 20 };
	struct ir_insert *ins = ir_block_insert(b, place, at);

	ins->kind = IR_INSERT_HIST;
	ins->cell = user_host_operand(hist_cells);
	ins->buckets = buckets[n / 3 % JIFL_ARRAY_LEN(buckets)];
	ins->value = source(n);
	return ins;
}

void insert_hists(struct ir_block *b, void *arg)
{
	u16 i;

	for (i = 0; i < b->ninsns; i++) {
		add_hist(b, IR_BEFORE, i, (u32)b->addr.v + i);
		if (!ir_kind_ends_block(b->insns[i].kind))
			add_hist(b, IR_AFTER, i, (u32)b->addr.v + 7 * i);
	}
}

/* Sometimes it holds: values that registers like to have, and one that takes a register. */
static void when(struct ir_insert *ins, u32 n)
{
	static const u64 constants[] = { 0, 1, (u64)-1, 1ull << 63, 0x80000000, 0xff, 0x80 };

	ins->when = source(n);
	ins->equals = constants[n % JIFL_ARRAY_LEN(constants)];
}

/* Registers, addresses, the stack. */
static void look_up(struct ir_insert *ins, u32 n)
{
	static const u8 hows[] = { IR_FETCH_REG, IR_FETCH_REG32, IR_FETCH_ADDRESS };
	struct ir_fetch *l = ins->fetches;
	u8 index = source(n / 2).reg, base = source(n / 5).reg;
	u32 i;

	ins->nargs = 1 + n % IR_CALL_ARGS;
	ins->fetched = (1u << ins->nargs) - 1;
	for (i = 0; i < ins->nargs; i++, n = n / 3 + i * 7)
		l[i] = (struct ir_fetch){ .how = hows[n % 3], .index = index, .scale = 4,
					  .disp = (s32)n,
					  .base = n % 3 == 2 ? base : source(n).reg };
	l[n % ins->nargs] = (struct ir_fetch){ .how = IR_FETCH_LOAD, .base = IR_RSP,
					       .index = IR_REG_NONE };
}

/* Poison again; what it would be told is looked up. */
static struct ir_insert *call_lookups(struct ir_block *b, enum ir_place place, u16 at, u32 n)
{
	struct ir_insert *ins = call_poison(b, place, at);

	look_up(ins, n);
	return ins;
}

/* Before one of the instructions up to the last that it may stand at, and all over it. */
void insert_words(struct ir_block *b, void *arg)
{
	struct ir_insert *ins;
	u16 i;

	for (i = 0; i < b->ninsns; i++) {
		ins = add_record(b, i % 2 ? IR_BETWEEN : IR_BEFORE, i);
		ins->from = i / 2;
		look_up(ins, (u32)b->addr.v + i);
	}
}

static struct ir_insert *add_any(struct ir_block *b, enum ir_place place, u16 at, u32 n)
{
	switch (n % 8) {
	case 0:
		return call_args(b, place, at);
	case 1:
		return call_poison(b, place, at);
	case 2:
		return add_record(b, place, at);
	case 3:
		return add_hist(b, place, at, n);
	case 4:
		return call_lookups(b, place, at, n / 8);
	case 5:
		return add_count(b, place, at, n / 8);
	default:
		return add(b, place, at, &ins_count, 1);
	}
}

void insert_whens(struct ir_block *b, void *arg)
{
	u16 i;

	for (i = 0; i < b->ninsns; i++)
		when(add_any(b, IR_BEFORE, i, (u32)b->addr.v / 3 + i), (u32)b->addr.v + 5 * i);
}

static void add_shared(struct ir_block *b, enum ir_place place, u16 at, u64 *cell)
{
	add(b, place, at, cell, 1);
	b->inserts[b->ninserts - 1].cell.locked = true;
}

void insert_edges(struct ir_block *b, void *arg)
{
	u16 last = b->ninsns - 1;

	if (!ir_kind_is_conditional(b->insns[last].kind))
		return;
	add_shared(b, IR_ANYWHERE, 0, &edges.executed);
	add_shared(b, IR_AFTER, last, &edges.not_taken);
	add_shared(b, IR_TAKEN, last, &edges.taken);
}

void insert_on_edges(struct ir_block *b, void *arg)
{
	u16 last = b->ninsns - 1;
	u32 n = (u32)b->addr.v;

	if (!ir_kind_is_conditional(b->insns[last].kind))
		return;
	add_count(b, IR_TAKEN, last, n);
	call_poison(b, IR_TAKEN, last);
	add_hist(b, IR_TAKEN, last, n);
	when(add_any(b, IR_TAKEN, last, n / 3), n / 5);
	call_args(b, IR_AFTER, last);
	add_record(b, IR_TAKEN, last);
	call_poison(b, IR_AFTER, last);
}

static u32 next_random(void)
{
	insert_seed = insert_seed * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(insert_seed >> 33);
}

static enum ir_place any_place(const struct ir_insn *insn)
{
	enum ir_place place = next_random() % 4;
	bool conditional = ir_kind_is_conditional(insn->kind);

	if ((place == IR_TAKEN && !conditional) ||
	    (place == IR_AFTER && ir_kind_ends_block(insn->kind) && !conditional))
		return IR_BEFORE;
	return place;
}

void insert_mixture(struct ir_block *b, void *arg)
{
	enum ir_place place;
	u32 n = next_random() % 8;
	u16 at;

	add(b, IR_ANYWHERE, 0, &block_count, (s32)b->count);
	while (n--) {
		at = next_random() % b->ninsns;
		place = any_place(&b->insns[at]);
		switch (next_random() % 4) {
		case 0:
			if (place != IR_ANYWHERE && next_random() % 2)
				call_in_context(b, place, at, false);
			call_args(b, place, at);
			break;
		case 1:
			call_poison(b, place, at);
			break;
		case 2:
			add(b, place, at, &ins_count, -1000);
			break;
		case 3:
			add_record(b, place, at);
			break;
		}
		b->inserts[b->ninserts - 1].without = next_random() % 4;
		/* What looks at registers has its place. */
		place = place == IR_ANYWHERE ? IR_BEFORE : place;
		if (next_random() % 2)
			add_hist(b, place, at, next_random());
		else
			when(add_any(b, place, at, next_random()), next_random());
		b->inserts[b->ninserts - 1].without = next_random() % 4;
	}
}
