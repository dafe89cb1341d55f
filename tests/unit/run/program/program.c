// SPDX-License-Identifier: GPL-2.0
/*
 * See program.h. A whole program: blocks, of which each ends in a branch to another, the
 * exit, and the subroutines that blocks call.
 */
#include "draft.h"

static u32 nblocks;
static bool redefines[NLABELS];	/* flags; what an indirect jump may go to */

/* To a block further on; back, too, as long as there is fuel. */
static void terminate(u32 block)
{
	u32 to = block + 1 + rnd(nblocks - block);

	if (to == nblocks)
		to = LABEL_EXIT;
	need_flags(IR_FLAGS);
	switch (rnd(8)) {
	case 1:
		byte(0xff);		/* decl fuel(%rip); js exit; jcc back */
		byte(0x0d);
		rip_disp(&program_fuel, 0);
		CODE("\x0f\x88");
		draft_rel32(LABEL_EXIT);
		CODE("\x0f");
		byte(0x80 | rnd(16));
		draft_rel32(rnd(block + 1));
		break;
	case 2:
		break;			/* falls through */
	case 3:
		/* It keeps no flags. */
		if (redefines[to]) {
			draft_indirect(to, 4);
			byte(0xcc);
			break;
		}
		/* fall through */
	case 0:
		byte(0xe9);
		draft_rel32(to);
		byte(0xcc);
		break;
	default:
		if (rnd(3) == 0)
			byte(0x2e);
		byte(0x0f);
		byte(0x80 | rnd(16));
		draft_rel32(to);
		break;
	}
}

static void block(u32 i)
{
	u32 n = 1 + rnd(8);

	draft_label(i);
	if (redefines[i])
		define_flags();
	while (n--)
		draft_sequence();
	terminate(i);
}

/* What the cache leaves to the original code; flags count behind it. */
static void go_native(void)
{
	if (rnd(2)) {
		CODE("\x48\x89\xe0\x48\x89\xc4");	/* mov %rsp, %rax; mov %rax, %rsp */
	} else {
		need_flags(IR_FLAGS);
		byte(0x0f);				/* jcc to the return thunk */
		byte(0x80 | rnd(16));
		rip_disp(draft_thunk(RETURN_THUNK), 0);
	}
	draft_some(4);
}

static void sub(u32 i, bool native)
{
	draft_label(LABEL_SUB + i);
	draft.avoid = 1;			/* no calls in here */
	define_flags();
	draft_some(8);
	if (native && rnd(2))
		go_native();
	draft.avoid = 0;
	draft_ret();
}

static void finish(void)
{
	draft_label(LABEL_EXIT);
	/* pushf; pop flags */
	byte(0x9c);
	CODE("\x8f\x05");
	rip_disp(program_data + FLAGS_AT, 0);
	draft_ret();
}

u32 program_generate(u64 seed)
{
	u32 i;

	draft_begin(seed * 0x9e3779b97f4a7c15ull + 1);
	nblocks = 2 + rnd(MAX_BLOCKS - 2);
	for (i = 0; i < nblocks; i++)
		redefines[i] = rnd(3) == 0;
	for (i = 0; i < nblocks; i++)
		block(i);
	define_flags();
	finish();
	for (i = 0; i < NSUBS; i++)
		sub(i, program_goes_native(seed));
	draft_end();
	return draft.len;
}
