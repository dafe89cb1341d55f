// SPDX-License-Identifier: GPL-2.0
/* What tools learn about instructions: operands in memory, registers, prefixes. */
#include "../../../engine/decode/decode.h"
#include "../unit.h"

#define REG(r) (1u << IR_##r)
#define NONE INS_REG_NONE

static const struct {
	const char *name;
	u8 bytes[15];
	u32 properties, noperands;
	struct ins_memory operands[2];
	u16 reads, writes;
} insns[] = {
	{ "lock cmpxchg %rdx, (%rdi)", { 0xf0, 0x48, 0x0f, 0xb1, 0x17 },
	  INS_LOCKED | INS_PREFIX_LOCK | INS_LOADS | INS_STORES, 1,
	  { { IR_RDI, NONE, 1, 0, 1, 1, 8, 0 } }, REG(RAX) | REG(RDX) | REG(RDI), REG(RAX) },
	{ "cmpxchg16b (%rsi)", { 0x48, 0x0f, 0xc7, 0x0e }, INS_LOADS | INS_STORES, 1,
	  { { IR_RSI, NONE, 1, 0, 1, 1, 16, 0 } },
	  REG(RAX) | REG(RBX) | REG(RCX) | REG(RDX) | REG(RSI), REG(RAX) | REG(RDX) },
	{ "xchg %eax, (%rbx)", { 0x87, 0x03 }, INS_LOCKED | INS_LOADS | INS_STORES, 1,
	  { { IR_RBX, NONE, 1, 0, 1, 1, 4, 0 } }, REG(RAX) | REG(RBX), REG(RAX) },
	{ "xchg %rax, %rbx", { 0x48, 0x93 }, 0, 0, { { 0 } }, REG(RAX) | REG(RBX),
	  REG(RAX) | REG(RBX) },
	{ "mov -8(%rax, %r12, 4), %cx", { 0x66, 0x42, 0x8b, 0x4c, 0xa0, 0xf8 }, INS_LOADS, 1,
	  { { IR_RAX, IR_R12, 4, 0, 1, 0, 2, -8 } }, REG(RAX) | REG(R12), REG(RCX) },
	{ "incq %gs:0x1000", { 0x65, 0x48, 0xff, 0x04, 0x25, 0, 0x10, 0, 0 },
	  INS_LOADS | INS_STORES, 1, { { NONE, NONE, 1, INS_SEGMENT_GS, 1, 1, 8, 0x1000 } }, 0, 0 },
	{ "lea 8(%rax), %rcx", { 0x48, 0x8d, 0x48, 8 }, 0, 0, { { 0 } }, REG(RAX), REG(RCX) },
	{ "push %rbx", { 0x53 }, INS_STORES, 0, { { 0 } }, REG(RBX) | REG(RSP), REG(RSP) },
	{ "rep movsq", { 0xf3, 0x48, 0xa5 }, INS_REPEATED | INS_LOADS | INS_STORES, 2,
	  { { IR_RDI, NONE, 1, 0, 0, 1, 8, 0 }, { IR_RSI, NONE, 1, 0, 1, 0, 8, 0 } },
	  REG(RCX) | REG(RSI) | REG(RDI), REG(RCX) | REG(RSI) | REG(RDI) },
	{ "nopl 8(%rax)", { 0x0f, 0x1f, 0x40, 8 }, 0, 0, { { 0 } }, 0, 0 },
	{ "jne, taken by its prefix", { 0x3e, 0x75, 5 }, INS_PREFIX_TAKEN, 0, { { 0 } }, 0, 0 },
	{ "jne, not taken by its prefix", { 0x2e, 0x0f, 0x85, 5, 0, 0, 0 }, INS_PREFIX_NOT_TAKEN, 0,
	  { { 0 } }, 0, 0 },
	{ "mov %rcx, %ds:(%rax)", { 0x3e, 0x48, 0x89, 0x08 }, INS_STORES, 1,
	  { { IR_RAX, NONE, 1, 0, 0, 1, 8, 0 } }, REG(RAX) | REG(RCX), 0 },
};

static u8 text[64];

static void check(u32 i, const struct ir_insn *insn)
{
	const char *name = insns[i].name;
	struct ins_memory m[2] = { { 0 } };
	u16 reads, writes;
	u32 k, n = jifl_decode_memory(insn, m, 2);

	CHECK_EQ_IN(name, n, insns[i].noperands);
	for (k = 0; k < n; k++)
		CHECK(!memcmp(&m[k], &insns[i].operands[k], sizeof(m[k])),
		      "%s: base %u index %u scale %u segment %u loads %u stores %u size %u disp %lld",
		      name, m[k].base, m[k].index, m[k].scale, m[k].segment, m[k].loads,
		      m[k].stores, m[k].size, m[k].disp);
	CHECK_EQ_IN(name, jifl_decode_properties(insn), insns[i].properties);
	jifl_decode_uses(insn, &reads, &writes);
	CHECK_EQ_IN(name, reads, insns[i].reads);
	CHECK_EQ_IN(name, writes, insns[i].writes);
}

UNIT_TEST(each, "decode/inspect: what tools are told of instructions")
{
	struct ir_insn insn;
	u32 i;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	for (i = 0; i < JIFL_ARRAY_LEN(insns); i++) {
		memset(text, 0xcc, sizeof(text));
		memcpy(text, insns[i].bytes, sizeof(insns[i].bytes));
		jifl_decode_insn(jifl_orig_at((u64)(unsigned long)text), &insn);
		check(i, &insn);
	}
}

static const struct {
	const char *name;
	u8 bytes[15];
	enum jifl_ins_type type;
} kinds[] = {
	{ "lock cmpxchg %rdx, (%rdi)", { 0xf0, 0x48, 0x0f, 0xb1, 0x17 }, ins_cmpxchg },
	{ "cmpxchg %cl, %dl", { 0x0f, 0xb0, 0xca }, ins_cmpxchg },
	{ "lock cmpxchg8b (%rsi)", { 0xf0, 0x0f, 0xc7, 0x0e }, ins_cmpxchg },
	{ "cmpxchg16b (%rsi)", { 0x48, 0x0f, 0xc7, 0x0e }, ins_cmpxchg },
	{ "lock xadd %rdx, (%rdi)", { 0xf0, 0x48, 0x0f, 0xc1, 0x17 }, ins_arith },
	{ "xchg %eax, (%rbx)", { 0x87, 0x03 }, ins_move },
	{ "jo, short", { 0x70, 5 }, ins_jo },
	{ "jae, short", { 0x73, 5 }, ins_jae },
	{ "je, short", { 0x74, 5 }, ins_je },
	{ "jne, short", { 0x75, 5 }, ins_jne },
	{ "jne, near", { 0x0f, 0x85, 5, 0, 0, 0 }, ins_jne },
	{ "jne, taken by its prefix", { 0x3e, 0x75, 5 }, ins_jne },
	{ "jp, near", { 0x0f, 0x8a, 5, 0, 0, 0 }, ins_jp },
	{ "jg, near", { 0x0f, 0x8f, 5, 0, 0, 0 }, ins_jg },
	{ "loop", { 0xe2, 5 }, ins_jrcxz },
	{ "jrcxz", { 0xe3, 5 }, ins_jrcxz },
	{ "jmp", { 0xeb, 5 }, ins_jmp },
	{ "call", { 0xe8, 0, 1, 0, 0 }, ins_call },
	{ "call *%rax", { 0xff, 0xd0 }, ins_call_indirect },
	{ "ret", { 0xc3 }, ins_ret },
	{ "sete %al", { 0x0f, 0x94, 0xc0 }, ins_move },
	{ "cmp %rax, %rbx", { 0x48, 0x39, 0xc3 }, ins_compare },
};

UNIT_TEST(types, "decode/inspect: classes of instructions, each condition's own and cmpxchg's too")
{
	struct ir_insn insn;
	u32 i;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	for (i = 0; i < JIFL_ARRAY_LEN(kinds); i++) {
		memset(text, 0xcc, sizeof(text));
		memcpy(text, kinds[i].bytes, sizeof(kinds[i].bytes));
		jifl_decode_insn(jifl_orig_at((u64)(unsigned long)text), &insn);
		CHECK_EQ_IN(kinds[i].name, insn.type, kinds[i].type);
	}
}

UNIT_TEST(relative, "decode/inspect: what is relative to rip is told by its address")
{
	struct ins_memory m;
	struct ir_insn insn;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	memcpy(text, "\x8b\x05\x10\0\0\0", 6);		/* mov 16(%rip), %eax */
	jifl_decode_insn(jifl_orig_at((u64)(unsigned long)text), &insn);
	CHECK_EQ(jifl_decode_memory(&insn, &m, 1), 1);
	CHECK_EQ(m.base, NONE);
	CHECK_EQ((u64)m.disp, (u64)(unsigned long)text + 6 + 16);
	CHECK_EQ(jifl_decode_memory(&insn, &m, 0), 0);
}

static const struct {
	const char *name;
	u8 bytes[15];
	u32 naccesses;
	struct ins_memory accesses[2];
	bool known;		/* how rsp moves: so many bytes */
	s32 moved;
} stack_insns[] = {
	{ "push %rbx", { 0x53 }, 1, { { IR_RSP, NONE, 1, 0, 0, 1, 8, -8 } }, true, -8 },
	{ "push 8(%rsp)", { 0xff, 0x74, 0x24, 8 }, 2,
	  { { IR_RSP, NONE, 1, 0, 1, 0, 8, 8 }, { IR_RSP, NONE, 1, 0, 0, 1, 8, -8 } }, true, -8 },
	{ "pop %rbx", { 0x5b }, 1, { { IR_RSP, NONE, 1, 0, 1, 0, 8, 0 } }, true, 8 },
	{ "pop 8(%rsp)", { 0x8f, 0x44, 0x24, 8 }, 2,
	  { { IR_RSP, NONE, 1, 0, 0, 1, 8, 16 }, { IR_RSP, NONE, 1, 0, 1, 0, 8, 0 } }, true, 8 },
	{ "pop %rsp", { 0x5c }, 1, { { IR_RSP, NONE, 1, 0, 1, 0, 8, 0 } }, false, 0 },
	{ "pushf", { 0x9c }, 1, { { IR_RSP, NONE, 1, 0, 0, 1, 8, -8 } }, true, -8 },
	{ "call", { 0xe8, 0, 1, 0, 0 }, 1, { { IR_RSP, NONE, 1, 0, 0, 1, 8, -8 } }, true, -8 },
	{ "ret", { 0xc3 }, 1, { { IR_RSP, NONE, 1, 0, 1, 0, 8, 0 } }, true, 8 },
	{ "leave", { 0xc9 }, 1, { { IR_RBP, NONE, 1, 0, 1, 0, 8, 0 } }, false, 0 },
	{ "sub $0x20, %rsp", { 0x48, 0x83, 0xec, 0x20 }, 0, { { 0 } }, true, -0x20 },
	{ "add $0x20, %rsp", { 0x48, 0x83, 0xc4, 0x20 }, 0, { { 0 } }, true, 0x20 },
	{ "sub %rax, %rsp", { 0x48, 0x29, 0xc4 }, 0, { { 0 } }, false, 0 },
	{ "lea 8(%rsp), %rsp", { 0x48, 0x8d, 0x64, 0x24, 8 }, 0, { { 0 } }, true, 8 },
	{ "lea -8(%r10), %rsp", { 0x49, 0x8d, 0x62, 0xf8 }, 0, { { 0 } }, false, 0 },
	{ "and $-16, %rsp", { 0x48, 0x83, 0xe4, 0xf0 }, 0, { { 0 } }, false, 0 },
	{ "mov %rbp, %rsp", { 0x48, 0x89, 0xec }, 0, { { 0 } }, false, 0 },
	{ "mov 8(%rsp), %rax", { 0x48, 0x8b, 0x44, 0x24, 8 }, 1,
	  { { IR_RSP, NONE, 1, 0, 1, 0, 8, 8 } }, true, 0 },
};

UNIT_TEST(accesses, "decode/inspect: what the stack is accessed by, and moved")
{
	const struct ins_memory *want;
	struct ins_memory m[3] = { { 0 } };
	struct ir_insn insn;
	u32 i, k, n;
	s32 by;
	bool known;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	for (i = 0; i < JIFL_ARRAY_LEN(stack_insns); i++) {
		memset(text, 0xcc, sizeof(text));
		memcpy(text, stack_insns[i].bytes, sizeof(stack_insns[i].bytes));
		jifl_decode_insn(jifl_orig_at((u64)(unsigned long)text), &insn);
		n = jifl_decode_accesses(&insn, m, 3);
		CHECK_EQ_IN(stack_insns[i].name, n, stack_insns[i].naccesses);
		for (k = 0; k < n && k < 2; k++) {
			want = &stack_insns[i].accesses[k];
			CHECK(!memcmp(&m[k], want, sizeof(m[k])),
			      "%s: %u: base %u size %u disp %lld",
			      stack_insns[i].name, k, m[k].base, m[k].size, m[k].disp);
		}
		known = jifl_decode_stack_moves(&insn, &by);
		CHECK_EQ_IN(stack_insns[i].name, known, stack_insns[i].known);
		if (known)
			CHECK_EQ_IN(stack_insns[i].name, by, stack_insns[i].moved);
	}
}

static const struct {
	const char *name;
	u8 bytes[8];
	u8 reg;
} bit_insns[] = {
	{ "bt %rax, (%rbx)", { 0x48, 0x0f, 0xa3, 0x03 }, IR_RAX },
	{ "bts %ecx, 8(%rdi)", { 0x0f, 0xab, 0x4f, 0x08 }, IR_RCX },
	{ "lock btr %r9, (%rdi)", { 0xf0, 0x4c, 0x0f, 0xb3, 0x0f }, IR_R9 },
	{ "btc %si, (%rdx)", { 0x66, 0x0f, 0xbb, 0x32 }, IR_RSI },
	{ "bt $3, (%rax)", { 0x48, 0x0f, 0xba, 0x20, 0x03 }, NONE },
	{ "bt %rax, %rbx", { 0x48, 0x0f, 0xa3, 0xc3 }, NONE },
	{ "add %rax, (%rbx)", { 0x48, 0x01, 0x03 }, NONE },
	{ "cmp %rax, (%rbx)", { 0x48, 0x39, 0x03 }, NONE },
};

UNIT_TEST(bits, "decode/inspect: whose bit's number says where memory is accessed")
{
	struct ir_insn insn;
	u32 i;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	for (i = 0; i < JIFL_ARRAY_LEN(bit_insns); i++) {
		memset(text, 0xcc, sizeof(text));
		memcpy(text, bit_insns[i].bytes, sizeof(bit_insns[i].bytes));
		jifl_decode_insn(jifl_orig_at((u64)(unsigned long)text), &insn);
		CHECK_EQ_IN(bit_insns[i].name, jifl_decode_bit_register(&insn), bit_insns[i].reg);
	}
}
