// SPDX-License-Identifier: GPL-2.0
/* Inserts on the edges of branches on a condition: code, places, liveness. */
#include "../invariants.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

static u8 text[256] __attribute__((aligned(64)));
static u64 taken, not_taken;
static bool both;
static int context;

static void add(struct ir_block *b, enum ir_place place, u64 *cell)
{
	struct ir_insert *ins = ir_block_insert(b, place, b->ninsns - 1);

	ins->kind = IR_INSERT_ADD;
	ins->cell = user_host_operand(cell);
	ins->imm = 1;
}

static void insert(struct ir_block *b, void *arg)
{
	if (!ir_kind_is_conditional(b->insns[b->ninsns - 1].kind))
		return;
	add(b, IR_TAKEN, &taken);
	if (both)
		add(b, IR_AFTER, &not_taken);
}

static u8 *translate(const void *bytes, u32 n)
{
	enum jifl_cause cause;
	u64 code;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	memset(text, 0xcc, sizeof(text));
	memcpy(text, bytes, n);
	taken = not_taken = 0;
	context = jifl_engine_context_create(insert, NULL);
	code = jifl_engine_enter(context, jifl_orig_at((u64)(unsigned long)text), &cause);
	REQUIRE(code);
	check_cache("edges");
	return (u8 *)(unsigned long)code;
}

#define TRANSLATE(bytes) translate(bytes, sizeof(bytes) - 1)

/* Behind prefixes that align what is patched, and of 32 bits. */
static u32 skip_prefixes(const u8 *code, u32 at)
{
	while (code[at] == 0x2e)
		at++;
	return at;
}

static s32 rel32(const u8 *code, u32 at)
{
	s32 rel;

	memcpy(&rel, code + at, 4);
	return rel;
}

/* addq $1, cell: flags are dead on both edges */
static void check_add(const u8 *code, u32 at, const u64 *cell)
{
	u8 want[] = { 0x48, 0x83, 0x04, 0x25, 0, 0, 0, 0, 1 };
	u32 disp = (u32)(unsigned long)cell;

	memcpy(want + 4, &disp, 4);
	CHECK(!memcmp(code + at, want, sizeof(want)), "%s", unit_hex(code + at, sizeof(want)));
}

UNIT_TEST(code, "emit/edges: a branch with an insert where it is taken")
{
	/* test %edi, %edi; jne 1f; xor %eax, %eax; ret; 1: xor %eax, %eax; ret */
	const u8 *code = TRANSLATE("\x85\xff\x75\x03\x31\xc0\xc3\x31\xc0\xc3");
	u32 at = skip_prefixes(code, 2), behind;

	/* je over; add; jmp target */
	CHECK_EQ(code[at], 0x0f);
	CHECK_EQ(code[at + 1], 0x84);
	behind = at + 6 + (u32)rel32(code, at + 2);
	check_add(code, at + 6, &taken);
	at = skip_prefixes(code, at + 6 + 9);
	CHECK_EQ(code[at], 0xe9);
	CHECK_EQ(at + 5, behind);
	CHECK(!memcmp(code + behind, "\x31\xc0\xc3", 3), "%s", unit_hex(code + behind, 3));
}

UNIT_TEST(code_jcxz, "emit/edges: one that has only a short form")
{
	/* jrcxz 1f; xor %eax, %eax; ret; 1: xor %eax, %eax; ret */
	const u8 *code = TRANSLATE("\xe3\x03\x31\xc0\xc3\x31\xc0\xc3");
	u32 at, behind;

	/* jrcxz over the jump; jmp over; add; jmp target */
	CHECK(!memcmp(code, "\xe3\x05\xe9", 3), "%s", unit_hex(code, 3));
	behind = 7 + (u32)rel32(code, 3);
	check_add(code, 7, &taken);
	at = skip_prefixes(code, 7 + 9);
	CHECK_EQ(code[at], 0xe9);
	CHECK_EQ(at + 5, behind);
	CHECK(!memcmp(code + behind, "\x31\xc0\xc3", 3), "%s", unit_hex(code + behind, 3));
}

/*
 * A thread on the taken edge stands neither before the branch nor behind it. One on the other edge
 * has the insert there still before it.
 */
UNIT_TEST(places, "emit/edges: no place on an edge is an original one")
{
	const struct cache_block *b;
	jifl_orig orig;
	u32 off, exact = 0;

	both = true;
	/* jne 1f; ret; 1: ret */
	TRANSLATE("\x75\x01\xc3\xc3");
	both = false;
	b = &cache.blocks[0];
	for (off = 0; off < b->len; off++)
		if (jifl_engine_where_insn(cache_address(b->start + off),
					   &orig) == JIFL_WHERE_EXACT)
			exact += 1 + 100 * (orig.v != (u64)(unsigned long)text);
	/* The branch itself. */
	CHECK_EQ(exact, 1);
}

UNIT_TEST(counts, "emit/edges: each edge is counted, and flags and registers stay")
{
	u64 i;

	both = true;
	/* cmp $5, %rdi; jb 1f; sbb %rax, %rax; ret; 1: adc $7, %rdi; mov %rdi, %rax; ret */
	TRANSLATE("\x48\x83\xff\x05\x72\x04\x48\x19\xc0\xc3"
		  "\x48\x83\xd7\x07\x48\x89\xf8\xc3");
	both = false;
	for (i = 0; i < 12; i++)
		CHECK_EQ(user_host_call(context, text, i), i < 5 ? i + 8 : 0);
	CHECK_EQ(taken, 5);
	CHECK_EQ(not_taken, 7);
}
