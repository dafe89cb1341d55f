// SPDX-License-Identifier: GPL-2.0
/*
 * Shapes with harvested instructions in them (draft.h): control flow inside a function and between
 * functions, and sequences of several instructions: flags set, strings downwards, the red zone.
 */
#include <string.h>

#include "draft.h"

static bool begin_level(void)
{
	bool was = draft.level;

	draft.level = true;
	return was;
}

/* A conditional branch over a few instructions: every condition, both lengths. */
static void skip(void)
{
	static const u8 short_ones[] = { 0xe3, 0xe2, 0xe1, 0xe0 };
	u32 kind = below(3), at;
	bool was = begin_level();
	u8 before;

	if (kind == 2 && (draft.avoid & (1u << IR_RCX)))
		kind = 0;
	need_flags(IR_FLAGS);
	if (kind == 0) {
		byte(0x0f);
		byte(0x80 | below(16));
		imm32(0);
	} else if (kind == 1) {
		byte(0x70 | below(16));
		byte(0);
	} else {
		if (!below(4))
			byte(0x67);
		byte(short_ones[below(4)]);
		byte(0);
	}
	at = fuzz_len;
	before = draft.valid;
	draft_some(4);
	draft.valid &= before;
	draft.level = was;
	if (kind == 0) {
		u32 rel = fuzz_len - at;

		memcpy(fuzz_text + at - 4, &rel, 4);
	} else if (fuzz_len - at < 128) {
		fuzz_text[at - 1] = fuzz_len - at;
	} else {
		/* too far: nothing is skipped */
		fuzz_text[at - 1] = 0;
	}
}

/* mov $n, %rcx; 1: ...; loop 1b, or lea -1(%rcx), %rcx; jrcxz 2f; jmp 1b; 2: */
static void loop(void)
{
	bool was = begin_level();
	u16 avoided = draft.avoid;
	u32 back;

	if (draft.avoid) {
		draft.level = was;
		return;
	}
	load(IR_RCX, 1 + below(6));
	draft.avoid |= 1u << IR_RCX;
	draft.valid = 0;
	back = fuzz_len;
	draft_some(4);
	if (fuzz_len - back < 100 && below(2)) {
		byte(0xe2);
		byte(back - (fuzz_len + 1));
	} else {
		CODE("\x48\x8d\x49\xff\xe3\x05\xe9");
		imm32(back - (fuzz_len + 4));
	}
	draft.avoid = avoided;
	draft.level = was;
}

/* Over bytes that are no code. */
static void jump(void)
{
	u32 n = below(20);

	if (below(2)) {
		byte(0xeb);
		byte(n);
	} else {
		byte(0xe9);
		imm32(n);
	}
	while (n--)
		byte(0xcc);
}

/* push $; popf */
static void set_flags(void)
{
	byte(0x68);
	imm32(2 | (source_u64(draft.from) & 0x8d5));
	byte(0x9d);
	draft.valid = IR_FLAGS;
}

/* A string instruction that goes down. */
static void backwards(void)
{
	static const u8 ops[] = { 0xa4, 0xa6, 0xaa, 0xac, 0xae };
	u8 op = ops[below(5)];
	bool compares = op == 0xa6 || op == 0xae;

	if (draft.avoid)
		return;
	load(IR_RSI, draft_somewhere(8, true));
	load(IR_RDI, draft_somewhere(8, true));
	load(IR_RCX, below(STRING_MAX));
	need_flags(IR_FLAGS);
	byte(0xfd);
	draft.valid_at[fuzz_len] = draft.valid;
	if (below(4))
		byte(compares && below(2) ? 0xf2 : 0xf3);
	if (below(2))
		byte(0x48);
	byte(op + below(2));
	byte(0xfc);
}

/* A jump or call (digit 4 or 2) to what is in r: itself, a thunk, or from memory. */
static void through(u8 r, u8 digit)
{
	switch (below(3)) {
	case 0:
		byte(0x40 | r >> 3);
		byte(0xff);
		byte(0xc0 | digit << 3 | (r & 7));
		return;
	case 1:
		byte(digit == 2 ? 0xe8 : 0xe9);
		rel32(fuzz_program_thunk(r));
		return;
	default:
		/* mov %r, disp32 below; ff /digit disp32 */
		byte(0x48 | (r >> 3) << 2);
		byte(0x89);
		byte(0x04 | (r & 7) << 3);
		byte(0x25);
		imm32((u32)address(fuzz_sandbox) + SANDBOX_SIZE - 8);
		byte(0xff);
		byte(0x04 | digit << 3);
		byte(0x25);
		imm32((u32)address(fuzz_sandbox) + SANDBOX_SIZE - 8);
	}
}

static u8 free_register(void)
{
	u8 r;

	do
		r = below(16);
	while (r == IR_RSP || (draft.avoid & (1u << r)));
	return r;
}

/* lea 1f(%rip), %r; jmp *%r; 1: */
static void jump_indirect(void)
{
	u8 r = free_register();
	u32 at, n;

	byte(0x48 | (r >> 3) << 2);
	byte(0x8d);
	byte(0x05 | (r & 7) << 3);
	imm32(0);
	at = fuzz_len;
	through(r, 4);
	for (n = below(10); n; n--)
		byte(0xcc);
	n = fuzz_len - at;
	memcpy(fuzz_text + at - 4, &n, 4);
	draft.valid = 0;
}

static void call(void)
{
	u8 r = free_register();
	bool direct = below(2);

	if (draft.avoid)
		return;
	if (direct) {
		byte(0xe8);
	} else {
		byte(0x48 | (r >> 3) << 2);
		byte(0x8d);
		byte(0x05 | (r & 7) << 3);
	}
	draft.call_to[draft.ncalls] = below(NSUBS);
	draft.calls[draft.ncalls++] = fuzz_len;
	imm32(0);
	if (!direct)
		through(r, 2);
	draft.valid = 0;
}

/* mov %from, n(%rsp); ...; mov n(%rsp), %to: below rsp, where functions may keep things */
static void red_zone(void)
{
	u8 disp = -8 * (1 + below(16)), from = below(16), to = free_register();
	bool was = begin_level();

	byte(0x48 | (from >> 3) << 2);
	byte(0x89);
	byte(0x44 | (from & 7) << 3);
	byte(0x24);
	byte(disp);
	draft_some(4);
	byte(0x48 | (to >> 3) << 2);
	byte(0x8b);
	byte(0x44 | (to & 7) << 3);
	byte(0x24);
	byte(disp);
	draft.level = was;
}

void draft_shape(void)
{
	if (!has_room())
		return;
	switch (below(20)) {
	case 0:
	case 1:
		skip();
		break;
	case 2:
		loop();
		break;
	case 3:
		jump();
		break;
	case 4:
		set_flags();
		break;
	case 5:
		backwards();
		break;
	case 6:
		jump_indirect();
		break;
	case 7:
		red_zone();
		break;
	case 8:
	case 9:
		call();
		break;
	default:
		draft_some(6);
		break;
	}
}
