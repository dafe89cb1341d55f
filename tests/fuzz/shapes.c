// SPDX-License-Identifier: GPL-2.0
/* See shapes.h. Each shape writes a function to fuzz_text. */
#include <stdio.h>
#include <string.h>

#include "../../engine/ir/ir.h"
#include "fuzz.h"
#include "program.h"
#include "text.h"
#include "shapes.h"

enum { NTARGETS = 3000, TARGET_SIZE = 16, TARGETS_AT = 4096 };

static u64 table[NTARGETS];

/* lea i(%rax,%rax,2), %rax, so that none is forgotten; then ret, or a jump back */
static void make_targets(const u8 *back)
{
	u32 i;

	for (i = 0; i < NTARGETS; i++) {
		fuzz_len = TARGETS_AT + i * TARGET_SIZE;
		table[i] = address(fuzz_text + fuzz_len);
		CODE("\x48\x8d\x84\x40");
		imm32(i);
		if (back) {
			CODE("\xe9");
			rel32(back);
		} else {
			CODE("\xc3");
		}
	}
	fuzz_len = TARGETS_AT + NTARGETS * TARGET_SIZE;
}

/* mov $(NTARGETS - 1), %ecx; 1: mov table(,%rcx,8), %rdx; ...; loop 1b; ret */
static void many_targets(const char *branch, u32 n, bool jump)
{
	u32 again, behind;

	CODE("\xb9");
	imm32(NTARGETS - 1);
	again = fuzz_len;
	CODE("\x48\x8b\x14\xcd");
	imm32((u32)address(table));
	bytes(branch, n);
	behind = fuzz_len;
	CODE("\xe2");
	fuzz_text[fuzz_len] = again - (fuzz_len + 1);
	fuzz_len++;
	CODE("\xc3");
	make_targets(jump ? fuzz_text + behind : NULL);
}

static void calls_through_register(void)
{
	many_targets("\xff\xd2", 2, false);
}

static void jumps_through_register(void)
{
	many_targets("\xff\xe2", 2, true);
}

/* call *(%rsi), where rsi is led to the table's entry */
static void calls_through_memory(void)
{
	many_targets("\x48\x8d\x34\xcd\0\0\0\0\xff\x16", 10, false);
	*(u32 *)(fuzz_text + 5 + 8 + 4) = (u32)address(table);
}

static void calls_through_thunk(void)
{
	u8 call[5] = { 0xe8 };
	u32 rel = (u32)(address(fuzz_program_thunk(IR_RDX)) - (address(fuzz_text) + 5 + 8 + 5));

	memcpy(call + 1, &rel, 4);
	many_targets((const char *)call, 5, false);
}

/* 1: inc %rax; cmp $15000, %rax; ja 2f; call 1b; 2: lea 3(%rax), %rax; ret */
static void recursion(void)
{
	CODE("\x31\xc0\xe8\x01\0\0\0\xc3");
	CODE("\x48\xff\xc0\x48\x3d");
	imm32(15000);
	CODE("\x77\x05\xe8");
	rel32(fuzz_text + 8);
	CODE("\x48\x8d\x40\x03\xc3");
}

/* A carry that is live through tens of thousands of instructions. */
static void long_block(void)
{
	u32 i;

	CODE("\x4c\x01\xc8");			/* add %r9, %rax */
	for (i = 0; i < 20000; i++) {
		CODE("\x48\x11\xc3");		/* adc %rax, %rbx */
		if (i % 7 == 0)
			CODE("\x48\x8d\x40\x11"); /* lea 17(%rax), %rax */
	}
	CODE("\xc3");
}

/* Every condition with every state of the flags it may read. */
static void conditions(void)
{
	static const u32 bits[6] = { 1, 4, 0x10, 0x40, 0x80, 0x800 };
	u32 cc, set, i, flags;

	for (cc = 0; cc < 16; cc++) {
		for (set = 0; set < 64; set++) {
			for (i = 0, flags = 2; i < 6; i++)
				flags |= set & (1u << i) ? bits[i] : 0;
			CODE("\x68");		/* push $flags; popf */
			imm32(flags);
			CODE("\x9d");
			if (set & 1) {
				fuzz_text[fuzz_len++] = 0x70 | cc;
				fuzz_text[fuzz_len++] = 4;
			} else {
				CODE("\x0f");
				fuzz_text[fuzz_len++] = 0x80 | cc;
				imm32(4);
			}
			CODE("\x48\x8d\x40\x01");	/* lea 1(%rax), %rax */
			CODE("\x48\x8d\x04\x40");	/* lea (%rax,%rax,2), %rax */
		}
	}
	CODE("\xc3");
}

/* jrcxz, jecxz, loop, loope, loopne, loopl with counts around 0 and both ZF. */
static void counters(void)
{
	static const u64 counts[] = { 0, 1, 2, 1ull << 32, (1ull << 32) + 1 };
	u32 op, i, zf, narrow;

	for (op = 0xe0; op <= 0xe3; op++)
		for (narrow = 0; narrow < 2; narrow++)
			for (zf = 0; zf < 2; zf++)
				for (i = 0; i < JIFL_ARRAY_LEN(counts); i++) {
					CODE("\x48\xb9");
					bytes(&counts[i], 8);
					CODE("\x68");
					imm32(zf ? 0x42 : 2);
					CODE("\x9d");
					if (narrow)
						CODE("\x67");
					fuzz_text[fuzz_len++] = op;
					fuzz_text[fuzz_len++] = 4;
					CODE("\x48\x8d\x40\x01");
					CODE("\x48\x8d\x04\x48"); /* lea (%rax,%rcx,2), %rax */
				}
	CODE("\xc3");
}

static const struct {
	const char *name;
	void (*make)(void);
} shapes[] = {
	{ "calls through a register, 3000 targets at one site", calls_through_register },
	{ "jumps through a register, 3000 targets at one site", jumps_through_register },
	{ "calls through memory, 3000 targets at one site", calls_through_memory },
	{ "calls through a thunk, 3000 targets at one site", calls_through_thunk },
	{ "15000 calls deep", recursion },
	{ "a block of 23000 instructions", long_block },
	{ "every condition, every state of the flags", conditions },
	{ "jrcxz and loops", counters },
};

int shapes_run(void)
{
	static const u32 sizes[] = { 4096, 8192, 64 << 10, 16 << 20 };
	const char *what;
	u32 i, k;
	int failed = 0;

	for (i = 0; i < JIFL_ARRAY_LEN(shapes); i++) {
		fuzz_limit_time(shapes[i].name, 0);
		what = NULL;
		for (k = 0; k < 2 * JIFL_ARRAY_LEN(sizes) && !what; k++) {
			fuzz_begin(sizes[k / 2], k % 2);
			memset(fuzz_text, 0xcc, FUZZ_TEXT);
			fuzz_len = 0;
			shapes[i].make();
			what = fuzz_text_case(i);
		}
		printf("%s %s", what ? "FAILED" : "ok    ", shapes[i].name);
		if (what)
			printf(": %u bytes of code: %s", sizes[(k - 1) / 2], what);
		printf("\n");
		failed += what != NULL;
	}
	return failed;
}
