// SPDX-License-Identifier: GPL-2.0
/* See tool.h. The functions are long enough for a jump to be put over them, and never inlined. */
#include "tool.h"

u64 tool_count;

#define HOOK(name) \
	__attribute__((noinline, noclone)) void name(void) \
	{ \
		asm volatile(".rept 16; nop; .endr" ::: "memory"); \
	}

HOOK(tool_begin)
HOOK(tool_end)
