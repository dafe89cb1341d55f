// SPDX-License-Identifier: GPL-2.0
/*
 * From one label to another (draft.h): jumps and calls, directly and through a register, a
 * thunk or memory; and returns.
 */
#include "draft.h"

/* lea label(%rip), %r */
static void load_label(u8 r, u32 to)
{
	byte(0x48 | (r >> 3) << 2);
	byte(0x8d);
	byte(0x05 | (r & 7) << 3);
	draft_rel32(to);
}

/* jmp or call (what: 4 or 2) through a register, a thunk or memory */
void draft_indirect(u32 to, u8 what)
{
	u8 r = dest();
	u32 slot = SLOTS + 8 * rnd(4);

	load_label(r, to);
	draft_some(2);
	/* It may have been changed since; what it was does not matter. */
	load_label(r, to);
	switch (rnd(4)) {
	case 0:
		if (r >= 8)
			byte(0x41);
		byte(0xff);
		byte(0xc0 | what << 3 | (r & 7));
		break;
	case 1:				/* the thunk of r */
		byte(what == 2 ? 0xe8 : 0xe9);
		rip_disp(draft_thunk(r), 0);
		break;
	case 2:				/* memory, rip-relative or absolute */
		byte(0x48 | (r >> 3) << 2);
		byte(0x89);
		byte(0x05 | (r & 7) << 3);
		rip_disp(program_data + slot, 0);
		byte(0xff);
		if (rnd(2)) {
			byte(0x05 | what << 3);
			rip_disp(program_data + slot, 0);
		} else {
			byte(0x04 | what << 3);
			byte(0x25);
			imm32((u32)(unsigned long)program_data + slot);
		}
		break;
	default:			/* the red zone */
		byte(0x48 | (r >> 3) << 2);
		CODE("\x89");
		byte(0x44 | (r & 7) << 3);
		CODE("\x24\xe0\xff");
		byte(0x44 | what << 3);
		CODE("\x24\xe0");
		break;
	}
}

void draft_call(void)
{
	u32 to = LABEL_SUB + rnd(NSUBS);

	if (draft.avoid)
		return;
	if (rnd(2)) {
		byte(0xe8);
		draft_rel32(to);
	} else {
		draft_indirect(to, 2);
	}
	/* Flags have no value after a return. */
	define_flags();
}

void draft_ret(void)
{
	switch (rnd(4)) {
	case 0:
		CODE("\xf3\xc3");
		break;
	case 1:
		byte(0xe9);		/* the return thunk */
		rip_disp(draft_thunk(RETURN_THUNK), 0);
		break;
	default:
		byte(0xc3);
		break;
	}
}
