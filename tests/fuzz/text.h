/* SPDX-License-Identifier: GPL-2.0 */
/* Writing code to fuzz_text, of which fuzz_len bytes are written. */
#ifndef FUZZ_TEXT_H
#define FUZZ_TEXT_H

#include <string.h>

#include "program.h"

extern u32 fuzz_len;

static inline u64 address(const void *p)
{
	return (u64)(unsigned long)p;
}

static inline void bytes(const void *p, u32 n)
{
	memcpy(fuzz_text + fuzz_len, p, n);
	fuzz_len += n;
}

/* Those of a string literal. */
#define CODE(s) bytes(s, sizeof(s) - 1)

static inline void byte(u8 b)
{
	bytes(&b, 1);
}

static inline void imm32(u32 v)
{
	bytes(&v, 4);
}

/* A displacement relative to the instruction's end, which is behind it. */
static inline void rel32(const void *to)
{
	imm32((u32)(address(to) - (address(fuzz_text) + fuzz_len + 4)));
}

#endif
