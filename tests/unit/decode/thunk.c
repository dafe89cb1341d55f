// SPDX-License-Identifier: GPL-2.0
/* Thunks, as kernels have them (arch/x86/lib/retpoline.S), byte for byte. */
#include "../../../engine/decode/thunk.h"
#include "../../../engine/ir/ir.h"
#include "../unit.h"

#define BYTES(s) (s), sizeof(s) - 1
#define CC3 "\xcc\xcc\xcc"
#define CC16 CC3 CC3 CC3 CC3 CC3 "\xcc"

static const struct {
	const char *name;
	const char *bytes;
	u32 n;
	u32 start;		/* where it is entered */
	u8 kind, reg, insns;
} thunks[] = {
	/* call 1f; 2: pause; lfence; jmp 2b; 1: mov %rax, (%rsp); ret */
	{ "retpoline rax",
	  BYTES("\xe8\x07\0\0\0\xf3\x90\x0f\xae\xe8\xeb\xf9\x48\x89\x04\x24\xc3\xcc"),
	  0, JIFL_THUNK_INDIRECT, IR_RAX, 3 },
	{ "retpoline r13", BYTES("\xe8\x01\0\0\0\xcc\x4c\x89\x2c\x24\xc3\xcc"),
	  0, JIFL_THUNK_INDIRECT, IR_R13, 3 },
	/* The same, with its last ret through the return thunk. */
	{ "retpoline rcx, return thunk",
	  BYTES("\xe8\x01\0\0\0\xcc\x48\x89\x0c\x24\xe9\x01\0\0\0\xcc\xc3\xcc"),
	  0, JIFL_THUNK_INDIRECT, IR_RCX, 4 },
	{ "lfence rdx", BYTES("\x0f\xae\xe8\xff\xe2\xcc"), 0, JIFL_THUNK_INDIRECT, IR_RDX, 2 },
	{ "lfence r9", BYTES("\x0f\xae\xe8\x41\xff\xe1\xcc"), 0, JIFL_THUNK_INDIRECT, IR_R9, 2 },
	{ "plain r8, padded", BYTES("\x41\xff\xe0\xcc\x0f\x1f\x00"), 0,
	  JIFL_THUNK_INDIRECT, IR_R8, 1 },
	{ "endbr64, notrack rbx", BYTES("\xf3\x0f\x1e\xfa\x3e\xff\xe3"), 0,
	  JIFL_THUNK_INDIRECT, IR_RBX, 2 },
	{ "its: jmp to a jmp", BYTES("\xe9\x03\0\0\0" CC3 "\xff\xe6\xcc"), 0,
	  JIFL_THUNK_INDIRECT, IR_RSI, 2 },
	{ "ret", BYTES("\xc3\xcc"), 0, JIFL_THUNK_RETURN, 0xff, 1 },
	{ "rep ret", BYTES("\xf3\xc3\xcc"), 0, JIFL_THUNK_RETURN, 0xff, 1 },
	/* test $0xcc, %bl; lfence; jmp: entered behind its first byte */
	{ "retbleed unret", BYTES("\xf6\xc3\xcc\x0f\xae\xe8\xe9\xf5\xff\xff\xff"), 1,
	  JIFL_THUNK_RETURN, 0xff, 1 },
	/* call 1f; ud2; movabs ...: 1: lea 8(%rsp), %rsp; ret */
	{ "srso", BYTES("\xe8\x04\0\0\0\x0f\x0b\x48\xb8\x48\x8d\x64\x24\x08\xc3\xcc\xcc"), 0,
	  JIFL_THUNK_RETURN, 0xff, 3 },
	{ "srso alias", BYTES("\xe8\x02\0\0\0\x0f\x0b\x48\x83\xc4\x08\xc3\xcc"), 0,
	  JIFL_THUNK_RETURN, 0xff, 3 },
	{ "srso by jmp", BYTES("\xeb\x01\xcc\xe8\x02\0\0\0\x0f\x0b\x48\x83\xc4\x08\xc3\xcc"), 0,
	  JIFL_THUNK_RETURN, 0xff, 4 },
	/* gcc's -mfunction-return=thunk */
	{ "gcc return", BYTES("\xe8\x07\0\0\0\xf3\x90\x0f\xae\xe8\xeb\xf9\x48\x8d\x64\x24\x08\xc3"),
	  0, JIFL_THUNK_RETURN, 0xff, 3 },
	/* shlq $5, %gs:depth; jz 1f; ret; 1: calls that fill the predictor */
	{ "call depth return",
	  BYTES("\x65\x48\xc1\x24\x25\x10\x20\x03\0\x05\x74\x02\xc3\xcc\xe8\x01\0\0\0\xcc"),
	  0, JIFL_THUNK_RETURN, 0xff, 3 },
	/* sarq $5, %gs:depth; jmp retpoline */
	{ "call depth indirect",
	  BYTES("\x65\x48\xc1\x3c\x25\x10\x20\x03\0\x05\xe9\x01\0\0\0\xcc"
		"\xe8\x01\0\0\0\xcc\x48\x89\x04\x24\xc3\xcc"),
	  0, JIFL_THUNK_INDIRECT, IR_RAX, 5 },
	/* sarq $5, %gs:depth(%rip) */
	{ "call depth, rip-relative",
	  BYTES("\x65\x48\xc1\x25\x10\x20\x03\0\x05\x74\x02\xc3\xcc\xe8\x01\0\0\0\xcc"),
	  0, JIFL_THUNK_RETURN, 0xff, 3 },
	{ "int3", BYTES("\xcc"), 0, JIFL_THUNK_UNKNOWN, 0xff, 1 },
	{ "push", BYTES("\x50\xc3"), 0, JIFL_THUNK_UNKNOWN, 0xff, 1 },
	{ "mov with nothing pushed", BYTES("\x48\x89\x04\x24\xc3"), 0,
	  JIFL_THUNK_UNKNOWN, 0xff, 1 },
	{ "register under a register",
	  BYTES("\xe8\x00\0\0\0\xe8\x00\0\0\0\x48\x89\x04\x24\xc3"), 0,
	  JIFL_THUNK_UNKNOWN, IR_RAX, 4 },
	{ "for ever", BYTES("\xeb\xfe"), 0, JIFL_THUNK_UNKNOWN, 0xff, 40 },
	{ "calls for ever", BYTES("\xe8\xfb\xff\xff\xff"), 0, JIFL_THUNK_UNKNOWN, 0xff, 21 },
	{ "jump out of known text", BYTES("\xe9\0\0\0\x10"), 0, JIFL_THUNK_UNKNOWN, 0xff, 2 },
};

UNIT_TEST(follow, "decode/thunk: what thunks come to")
{
	static u8 text[64];
	struct jifl_thunk thunk;
	u32 i;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_THUNK, JIFL_CAUSE_NONE);
	for (i = 0; i < JIFL_ARRAY_LEN(thunks); i++) {
		memset(text, 0xcc, sizeof(text));
		memcpy(text, thunks[i].bytes, thunks[i].n);
		jifl_thunk_follow(jifl_orig_at((u64)(unsigned long)text + thunks[i].start),
				  &thunk);
		CHECK(thunk.kind == thunks[i].kind && thunk.reg == thunks[i].reg &&
		      thunk.insns == thunks[i].insns, "%s: kind %u, reg %u, %u instructions",
		      thunks[i].name, thunk.kind, thunk.reg, thunk.insns);
	}
}

/* Instructions at the very end of what is readable: no bytes are made up. */
UNIT_TEST(end, "decode/thunk: the end of text")
{
	static u8 text[8];
	struct jifl_thunk thunk;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_THUNK, JIFL_CAUSE_NONE);
	memcpy(text, "\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xc3", 8);
	jifl_thunk_follow(jifl_orig_at((u64)(unsigned long)text + 7), &thunk);
	CHECK_EQ(thunk.kind, JIFL_THUNK_RETURN);
	text[7] = 0xff;
	jifl_thunk_follow(jifl_orig_at((u64)(unsigned long)text + 7), &thunk);
	CHECK_EQ(thunk.kind, JIFL_THUNK_UNKNOWN);
}
