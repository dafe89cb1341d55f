// SPDX-License-Identifier: GPL-2.0
/*
 * See draft.h. The text of the program, its labels, and the memory that is the same for all
 * programs: data and thunks.
 */
#include <sys/mman.h>

#include "../../unit.h"
#include "draft.h"

u8 program_data[PROGRAM_DATA] __attribute__((aligned(64)));
u32 program_fuel;
u8 program_text[PROGRAM_TEXT] __attribute__((aligned(4096)));
struct draft draft;

enum { THUNK_SIZE = 32, MAX_FIXUPS = 256 };

static u8 thunks[4096] __attribute__((aligned(4096)));
static u32 label[NLABELS];
static struct { u32 at; u32 label; } fixups[MAX_FIXUPS];
static u32 nfixups;

void draft_begin(u64 seed)
{
	draft.seed = seed;
	draft.len = 0;
	draft.avoid = 0;
	draft.valid = IR_FLAGS;
	nfixups = 0;
	memset(program_text, 0xcc, sizeof(program_text));
}

void draft_label(u32 here)
{
	label[here] = draft.len;
}

void draft_rel32(u32 to)
{
	REQUIRE(nfixups < MAX_FIXUPS);
	fixups[nfixups].at = draft.len;
	fixups[nfixups++].label = to;
	imm32(0);
}

void draft_end(void)
{
	u32 i, rel;

	for (i = 0; i < nfixups; i++) {
		rel = label[fixups[i].label] - (fixups[i].at + 4);
		memcpy(program_text + fixups[i].at, &rel, 4);
	}
}

u8 *draft_thunk(u8 reg)
{
	return thunks + reg * THUNK_SIZE;
}

/* call 1f; int3; 1: mov %r, (%rsp); ret */
static void make_thunk(u8 r)
{
	u8 *t = draft_thunk(r);

	memcpy(t, "\xe8\x01\0\0\0\xcc\x48\x89\x04\x24\xc3", 11);
	t[6] |= (r >> 3) << 2;
	t[8] |= (r & 7) << 3;
}

void program_init(void)
{
	u8 r;

	memset(thunks, 0xcc, sizeof(thunks));
	for (r = 0; r < 16; r++)
		make_thunk(r);
	/* call 1f; int3; 1: lea 8(%rsp), %rsp; ret */
	memcpy(draft_thunk(RETURN_THUNK), "\xe8\x01\0\0\0\xcc\x48\x8d\x64\x24\x08\xc3", 12);
	REQUIRE(!mprotect(program_text, sizeof(program_text), PROT_READ | PROT_WRITE | PROT_EXEC));
	REQUIRE(!mprotect(thunks, sizeof(thunks), PROT_READ | PROT_WRITE | PROT_EXEC));
	user_host_set_text(program_text, sizeof(program_text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	user_host_set_text(thunks, sizeof(thunks), JIFL_TEXT_THUNK, JIFL_CAUSE_NONE);
}
