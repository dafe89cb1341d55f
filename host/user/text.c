// SPDX-License-Identifier: GPL-2.0
/* What stands at an address of this program: jifl_host_classify and jifl_host_text. */
#include <stdio.h>
#include <stdlib.h>

#include "user.h"

/* Defined by text.lds and the linker. */
extern const char user_host_own_start[], user_host_own_end[];
extern const char user_host_thunks_start[], user_host_thunks_end[];
extern const char __executable_start[], etext[];

struct range {
	u64 start, end;
	enum jifl_text text;
	enum jifl_cause cause;
};

/* What user_host_set_text has said; searched from the last to the first. */
static struct range said[64];
static u32 nsaid;

static u64 address(const void *p)
{
	return (u64)(unsigned long)p;
}

void user_host_set_text(const void *start, u64 len, enum jifl_text text, enum jifl_cause cause)
{
	u64 at = address(start);
	u32 i;

	for (i = 0; i < nsaid; i++)
		if (said[i].start == at && said[i].end == at + len)
			break;
	if (i == JIFL_ARRAY_LEN(said)) {
		fprintf(stderr, "user host: no room for another range of text\n");
		exit(2);
	}
	said[i] = (struct range){ at, at + len, text, cause };
	if (i == nsaid)
		nsaid++;
}

static bool inside(u64 addr, u64 start, u64 end)
{
	return addr >= start && addr < end;
}

static struct range range_of(u64 addr)
{
	const struct range linked[] = {
		{ address(user_host_own_start), address(user_host_own_end),
		  JIFL_TEXT_NATIVE, JIFL_CAUSE_OWN },
		{ address(user_host_thunks_start), address(user_host_thunks_end),
		  JIFL_TEXT_THUNK, JIFL_CAUSE_NONE },
		{ address(__executable_start), address(etext),
		  JIFL_TEXT_CODE, JIFL_CAUSE_NONE },
	};
	u32 i;

	for (i = nsaid; i-- > 0;)
		if (inside(addr, said[i].start, said[i].end))
			return said[i];
	for (i = 0; i < JIFL_ARRAY_LEN(linked); i++)
		if (inside(addr, linked[i].start, linked[i].end))
			return linked[i];
	return (struct range){ 0, 0, JIFL_TEXT_FOREIGN, JIFL_CAUSE_FOREIGN };
}

enum jifl_text jifl_host_classify(jifl_orig addr, enum jifl_cause *cause)
{
	struct range r = range_of(addr.v);

	if (r.text == JIFL_TEXT_NATIVE || r.text == JIFL_TEXT_FOREIGN)
		*cause = r.cause;
	return r.text;
}

const u8 *jifl_host_text(jifl_orig addr, u32 *n)
{
	struct range r = range_of(addr.v);
	u64 left = r.end ? r.end - addr.v : 0;

	*n = left < ~0u ? (u32)left : ~0u;
	return (const u8 *)(unsigned long)addr.v;
}

/* This host has no breakpoints of its own. */
void jifl_host_lift_int3(jifl_orig addr, u8 *byte)
{
}

/* Nothing describes the frames of its programs. */
bool user_host_keeps_stack;

bool jifl_host_keeps_stack(jifl_orig addr, u32 len)
{
	return user_host_keeps_stack;
}

void jifl_host_lift_text(jifl_orig addr, u8 *bytes, u32 n)
{
}

u64 jifl_host_native(jifl_orig addr)
{
	return addr.v;
}
