// SPDX-License-Identifier: GPL-2.0
/*
 * Instructions that belong together (draft.h): what pushes and what pops, the red zone,
 * strings, a division, and branches over or back to some instructions.
 */
#include "draft.h"

static void push_pop(void)
{
	u8 r = rnd(8);

	switch (rnd(4)) {
	case 0:
		need_flags(IR_FLAGS);
		byte(0x9c);			/* pushf; ...; pop %r8 ... */
		draft_some(3);
		byte(0x41);
		byte(0x58 | rnd(7));
		return;
	case 1:
		byte(0x68);			/* push $; popf */
		imm32(2 | (state_random(&draft.seed) & 0x8d5));
		byte(0x9d);
		draft.valid = IR_FLAGS;
		return;
	case 2:
		need_flags(IR_FLAGS);
		byte(0x9c);			/* pushf; ...; popf */
		draft_some(3);
		byte(0x9d);
		draft.valid = IR_FLAGS;
		return;
	default:
		byte(0x50 | r);
		draft_some(3);
		byte(0x41);			/* pop %r8 ... %r14 */
		byte(0x58 | rnd(7));
		return;
	}
}

/* Values below rsp survive what is inserted between. */
static void red_zone(void)
{
	u8 disp = -8 * (1 + rnd(16)), from = rnd(16), to = dest();

	byte(0x48 | (from >> 3) << 2);		/* mov %from, disp(%rsp) */
	byte(0x89);
	byte(0x44 | (from & 7) << 3);
	byte(0x24);
	byte(disp);
	draft_some(4);
	byte(0x48 | (to >> 3) << 2);		/* mov or add disp(%rsp), %to */
	byte(rnd(2) ? 0x8b : 0x03);
	if (program_text[draft.len - 1] == 0x03)
		draft.valid = IR_FLAGS;
	byte(0x44 | (to & 7) << 3);
	byte(0x24);
	byte(disp);
}

#define STRING_REGS (1u << IR_RCX | 1u << IR_RSI | 1u << IR_RDI)

static void string(void)
{
	static const u8 ops[] = { 0xa4, 0xa6, 0xaa, 0xac, 0xae };
	u8 op = ops[rnd(5)], wide = rnd(4);
	bool compares = op == 0xa6 || op == 0xae, backwards = !rnd(4);

	if (draft.avoid & (STRING_REGS | RAX))
		return;
	CODE("\x48\x8d\x35");			/* lea data(%rip), %rsi; %rdi */
	rip_disp(program_data + 512 + rnd(1024), 0);
	CODE("\x48\x8d\x3d");
	rip_disp(program_data + 2048 + rnd(1024), 0);
	byte(0xb9);				/* mov $, %ecx */
	imm32(rnd(3) ? rnd(60) : rnd(2));
	draft.avoid |= STRING_REGS;
	if (backwards)
		byte(0xfd);
	draft_some(1);
	need_flags(compares ? IR_FLAGS : 0);
	if (wide == 1)
		byte(0x66);
	if (rnd(4))
		byte(compares && rnd(2) ? 0xf2 : 0xf3);
	if (wide == 3)
		byte(0x48);
	byte(op + (wide != 0));
	if (backwards)
		byte(0xfc);
	draft.avoid &= ~STRING_REGS;
}

static void divide(void)
{
	u8 by = rnd(2) ? IR_RCX : IR_R9;

	if (draft.avoid & (RAX | RDX | 1u << by))
		return;
	byte(0x48 | by >> 3);			/* mov $, %by */
	byte(0xc7);
	byte(0xc0 | (by & 7));
	imm32(1 + (state_random(&draft.seed) & 0xffff));
	CODE("\x31\xd2");			/* xor %edx, %edx */
	byte(0x48 | by >> 3);			/* div %by */
	byte(0xf7);
	byte(0xf0 | (by & 7));
	draft.valid = 0;
}

/* Over some instructions, or not: jcc, jrcxz, jecxz, loop, loopne; forward. */
static void skip(void)
{
	static const u8 ops[] = { 0xe3, 0xe2, 0xe1, 0xe0 };
	u8 before;
	u32 at;

	if (draft.avoid & (1u << IR_RCX))
		return;
	need_flags(IR_FLAGS);
	if (rnd(2)) {
		byte(0x70 | rnd(16));
	} else {
		if (!rnd(4))
			byte(0x67);
		byte(ops[rnd(4)]);
	}
	at = draft.len;
	byte(0);
	before = draft.valid;
	draft_some(4);
	draft.valid &= before;
	program_text[at] = (u8)(draft.len - at - 1);
}

/* mov $n, %ecx; 1: ...; loop 1b */
static void count_down(void)
{
	u32 back;

	if (draft.avoid & (1u << IR_RCX))
		return;
	byte(0xb9);
	imm32(1 + rnd(5));
	draft.avoid |= 1u << IR_RCX;
	need_flags(IR_FLAGS);
	back = draft.len;
	draft_some(4);
	need_flags(IR_FLAGS);
	draft.avoid &= ~(1u << IR_RCX);
	if (draft.len - back > 100) {
		CODE("\x48\xff\xc9\x0f\x85");	/* dec %rcx; jne */
		imm32((u32)(back - (draft.len + 4)));
	} else {
		byte(rnd(2) ? 0xe2 : 0xe1 - rnd(2));
		byte((u8)(back - (draft.len + 1)));
	}
}

void draft_sequence(void)
{
	switch (rnd(16)) {
	case 0:
		push_pop();
		break;
	case 1:
		red_zone();
		break;
	case 2:
		string();
		break;
	case 3:
		divide();
		break;
	case 4:
		skip();
		break;
	case 5:
		count_down();
		break;
	case 6:
		draft_call();
		break;
	default:
		draft_some(5);
		break;
	}
}
