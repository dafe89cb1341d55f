/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The program that is being written to fuzz_text, for the files that write it: program.c
 * (functions), flow.c (shapes), harvested.c (instructions).
 *
 * Values that the processor leaves undefined are kept out: `valid` are the flags whose values are
 * defined. Before an instruction that reads another flag stands an instruction that defines all
 * flags.
 */
#ifndef JIFL_FUZZ_DRAFT_H
#define JIFL_FUZZ_DRAFT_H

#include "../../engine/ir/ir.h"
#include "forms.h"
#include "program.h"
#include "text.h"

enum { NSUBS = 4, MAX_CALLS = 512, MAX_USED = 4096, STRING_MAX = 40, MAX_DEPTH = 24 };
/* Enough behind any place for what one step writes. */
enum { MARGIN = 4096 };

struct draft {
	struct source *from;	/* of all decisions */
	u8 valid;
	u32 frame;		/* bytes of the function's own above rsp */
	u32 depth;		/* words it has pushed besides */
	bool level;		/* pushes and pops would not be balanced here */
	u16 avoid;		/* registers that must not change */
	bool faulty;		/* this program may run into a fault on purpose */
	u8 *guard;		/* memory that faults; the same for all programs */
	u32 calls[MAX_CALLS];	/* where a subroutine's displacement is still to be put */
	u32 call_to[MAX_CALLS], ncalls;
	u32 used[MAX_USED], nused;	/* forms, one for each instruction */
	u8 valid_at[FUZZ_TEXT];	/* at the offset of an instruction that may fault */
};
extern struct draft draft;

static inline u32 below(u32 n)
{
	return source_below(draft.from, n);
}

static inline bool has_room(void)
{
	return fuzz_len + MARGIN < FUZZ_TEXT && draft.ncalls + 8 < MAX_CALLS &&
	       draft.nused + 64 < MAX_USED;
}

/* movabs $v, %r */
static inline void load(u8 r, u64 v)
{
	byte(0x48 | r >> 3);
	byte(0xb8 | (r & 7));
	bytes(&v, 8);
}

/* cmp $imm8, %r: changes nothing but flags, and defines all */
static inline void define_flags(void)
{
	u8 r = below(16);

	byte(0x48 | r >> 3);
	byte(0x83);
	byte(0xf8 | (r & 7));
	byte(below(256));
	draft.valid = IR_FLAGS;
}

static inline void need_flags(u8 flags)
{
	if (flags & ~draft.valid)
		define_flags();
}

/* Puts an instruction behind what leads it. False, and nothing is put, when it cannot be led. */
bool draft_insn(struct insn *i);

/* Puts one to n instructions of random forms, less those that cannot be led. */
void draft_some(u32 n);

/* An address in the sandbox for so many bytes, or one that faults. string: may go both ways. */
u64 draft_somewhere(u32 size, bool string);

/* Puts a random shape, as long as there is room. */
void draft_shape(void);

#endif
