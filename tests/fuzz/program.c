// SPDX-License-Identifier: GPL-2.0
/*
 * See program.h. A whole program: its main function, the subroutines behind it, and the
 * memory that it stands in and works on. A function begins with a few words of its own on
 * the stack; operands on the stack stay in there.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../host/user/user.h"
#include "draft.h"

u8 fuzz_sandbox[SANDBOX_SIZE] __attribute__((aligned(4096)));
u8 fuzz_text[FUZZ_TEXT] __attribute__((aligned(4096)));
u32 fuzz_len;
u32 fuzz_fuel;
u64 fuzz_flags, fuzz_flags_valid;
struct draft draft;

static u8 thunks[4096] __attribute__((aligned(4096)));

enum { THUNK_SIZE = 32, RETURN_THUNK = 16 };

/* --- functions ---------------------------------------------------------------------------- */

static void begin_function(u32 words)
{
	draft.depth = 0;
	draft.frame = 8 * words;
	draft.valid = 0;
	while (words--) {
		byte(0x68);
		imm32((u32)source_u64(draft.from));
	}
}

static void end_function(void)
{
	CODE("\x48\x8d\xa4\x24");	/* lea n(%rsp), %rsp */
	imm32(draft.frame + 8 * draft.depth);
	switch (below(4)) {
	case 0:
		CODE("\xf3\xc3");
		break;
	case 1:
		byte(0xe9);
		rel32(fuzz_program_thunk(RETURN_THUNK));
		break;
	default:
		byte(0xc3);
	}
}

/* decl fuel(%rip); js 1f; call self; 1: */
static void recurse(u32 start)
{
	byte(0xff);
	byte(0x0d);
	rel32(&fuzz_fuel);
	CODE("\x78\x05\xe8");
	imm32(start - (fuzz_len + 4));
	draft.valid = 0;
}

/* Subroutines call nothing but themselves. */
static u32 subroutine(void)
{
	u32 start = fuzz_len;

	begin_function(2);
	draft_some(4);
	if (!below(3))
		recurse(start);
	draft_some(4);
	end_function();
	return start;
}

static void finish_main(void)
{
	fuzz_flags_valid = draft.valid;
	byte(0x9c);			/* pushf; pop fuzz_flags(%rip) */
	CODE("\x8f\x05");
	rel32(&fuzz_flags);
	end_function();
}

static void begin(struct source *from)
{
	draft.from = from;
	memset(fuzz_text, 0xcc, FUZZ_TEXT);
	fuzz_len = draft.ncalls = draft.nused = 0;
	draft.level = false;
	draft.avoid = 0;
}

u32 fuzz_program(struct source *from)
{
	u32 n, i, subs[NSUBS], rel;

	begin(from);
	draft.faulty = !below(4);
	begin_function(8);
	n = below(12) ? 1 + below(12) : 60 + below(140);
	for (i = 0; i < n; i++)
		draft_shape();
	finish_main();
	for (i = 0; i < NSUBS; i++)
		subs[i] = subroutine();
	for (i = 0; i < draft.ncalls; i++) {
		rel = subs[draft.call_to[i]] - (draft.calls[i] + 4);
		memcpy(fuzz_text + draft.calls[i], &rel, 4);
	}
	return fuzz_len;
}

u32 fuzz_program_of_form(u32 form)
{
	static struct source none;
	struct insn i = fuzz_forms[form].insn;

	begin(&none);
	draft.faulty = false;
	begin_function(8);
	need_flags(IR_FLAGS);
	draft.depth = 1;
	byte(0x50);
	draft_insn(&i);
	finish_main();
	return fuzz_len;
}

void fuzz_program_count(void)
{
	u32 i;

	for (i = 0; i < draft.nused; i++)
		fuzz_forms[draft.used[i]].executed++;
}

/* --- set-up ------------------------------------------------------------------------------- */

/* call 1f; int3; 1: mov %r, (%rsp); ret */
static void make_thunk(u8 r)
{
	u8 *t = thunks + r * THUNK_SIZE;

	memcpy(t, "\xe8\x01\0\0\0\xcc\x48\x89\x04\x24\xc3", 11);
	t[6] |= (r >> 3) << 2;
	t[8] |= (r & 7) << 3;
}

u8 fuzz_valid_at(u32 offset)
{
	return offset < FUZZ_TEXT ? draft.valid_at[offset] : 0;
}

const u8 *fuzz_program_thunk(u8 reg)
{
	return thunks + reg * THUNK_SIZE;
}

static void make_executable(u8 *p, u32 n, enum jifl_text text)
{
	if (mprotect(p, n, PROT_READ | PROT_WRITE | PROT_EXEC)) {
		perror("mprotect");
		exit(2);
	}
	user_host_set_text(p, n, text, JIFL_CAUSE_NONE);
}

void fuzz_program_init(void)
{
	u8 r;

	memset(thunks, 0xcc, sizeof(thunks));
	for (r = 0; r < 16; r++)
		make_thunk(r);
	/* call 1f; int3; 1: lea 8(%rsp), %rsp; ret */
	memcpy(thunks + RETURN_THUNK * THUNK_SIZE, "\xe8\x01\0\0\0\xcc\x48\x8d\x64\x24\x08\xc3",
	       12);
	make_executable(fuzz_text, FUZZ_TEXT, JIFL_TEXT_CODE);
	make_executable(thunks, sizeof(thunks), JIFL_TEXT_THUNK);
	draft.guard = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	if (draft.guard == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
}
