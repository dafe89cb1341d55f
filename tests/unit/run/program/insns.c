// SPDX-License-Identifier: GPL-2.0
/*
 * One instruction: of the table, or one that does not fit into it (draft.h); and some of
 * them.
 */
#include "draft.h"

/* Flags a condition code reads. */
static u8 cc_flags(u8 cc)
{
	static const u8 reads[8] = {
		IR_OF, IR_CF, IR_ZF, IR_CF | IR_ZF, IR_SF, IR_PF, IR_SF | IR_OF,
		IR_SF | IR_OF | IR_ZF,
	};

	return reads[cc >> 1];
}

static void setcc_or_cmov(void)
{
	u8 cc = rnd(16), r = dest(), from = rnd(16);

	need_flags(cc_flags(cc));
	if (rnd(2)) {
		byte(0x40 | r >> 3);
		byte(0x0f);
		byte(0x90 | cc);
		byte(0xc0 | (r & 7));
	} else {
		byte(0x40 | rnd(2) << 3 | (r >> 3) << 2 | from >> 3);
		byte(0x0f);
		byte(0x40 | cc);
		byte(0xc0 | (r & 7) << 3 | (from & 7));
	}
}

static void one_byte(void)
{
	switch (rnd(10)) {
	case 0:
		need_flags(IR_FLAGS & ~IR_OF);
		if (!(draft.avoid & RAX))
			byte(0x9f);		/* lahf */
		break;
	case 1:
		need_flags(IR_OF);
		byte(0x9e);			/* sahf */
		draft.valid = IR_FLAGS;
		break;
	case 2:
		need_flags(IR_CF);
		byte(0xf5);			/* cmc */
		break;
	case 3:
		byte(0xf8 + rnd(2));		/* clc, stc */
		draft.valid |= IR_CF;
		break;
	case 4:
		if (!(draft.avoid & (RAX | RDX)))
			CODE("\x48\x99");	/* cqto */
		break;
	case 5:
		CODE("\x0f\x1f\x80\x11\x22\x33\x44");
		break;
	case 6:
		byte(0x90);
		break;
	case 7: {
		u8 r = dest();

		byte(0x48 | r >> 3);		/* bswap */
		byte(0x0f);
		byte(0xc8 | (r & 7));
		break;
	}
	default: {
		u8 r = dest();

		byte(0x48 | r >> 3);		/* movabs */
		byte(0xb8 | (r & 7));
		imm32(state_random(&draft.seed));
		imm32(state_random(&draft.seed));
	}
	}
}

static void vector(void)
{
	struct operand op = operand_mem();
	u8 x = rnd(8), y = rnd(8);

	switch (rnd(5)) {
	case 0:					/* movdqu, both ways */
		byte(0xf3);
		if (operand_base_bit(&op))
			byte(0x41);
		byte(0x0f);
		byte(rnd(2) ? 0x6f : 0x7f);
		operand_modrm(x, &op, 0);
		break;
	case 1:
		CODE("\x66\x0f\xfe");		/* paddd */
		byte(0xc0 | x << 3 | y);
		break;
	case 2:
		CODE("\x66\x0f\xef");		/* pxor */
		byte(0xc0 | x << 3 | y);
		break;
	case 3:
		CODE("\x66\x48\x0f\x6e");	/* movq %r, %xmm */
		byte(0xc0 | x << 3 | y);
		break;
	default:
		CODE("\x66\x0f\x2e");		/* ucomisd */
		byte(0xc0 | x << 3 | y);
		draft.valid = IR_FLAGS;
		break;
	}
}

static void simple(void)
{
	switch (rnd(12)) {
	case 0:
		one_byte();
		break;
	case 1:
		vector();
		break;
	case 2:
		setcc_or_cmov();
		break;
	default:
		draft_table_insn();
		break;
	}
}

void draft_some(u32 n)
{
	n = rnd(n) + 1;
	while (n--)
		simple();
}
