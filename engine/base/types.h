/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Integer types and small helpers of the freestanding engine.
 *
 * The typedefs equal the Linux kernel's, so a kernel host may include both. A
 * host includes its own headers first, then the engine's.
 */
#ifndef JIFL_BASE_TYPES_H
#define JIFL_BASE_TYPES_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef signed short s16;
typedef signed int s32;
typedef signed long long s64;

#ifndef __bool_true_false_are_defined
#define __bool_true_false_are_defined 1
typedef _Bool bool;
#define true 1
#define false 0
#endif

#ifndef NULL
#define NULL ((void *)0)
#endif

/* An address of original code, as the kernel itself would use it. */
typedef struct {
	u64 v;
} jifl_orig;

/* A position in the code cache: bytes from its start. */
typedef struct {
	u32 off;
} jifl_pos;

static inline jifl_orig jifl_orig_at(u64 v)
{
	return (jifl_orig){ v };
}

static inline jifl_pos jifl_pos_at(u32 off)
{
	return (jifl_pos){ off };
}

/* True when v survives being cut to 32 bits and sign-extended again. */
static inline bool jifl_fits_s32(s64 v)
{
	return v == (s64)(s32)v;
}

/* For code that runs for each translated instruction, and for what is rare in such code. */
#define JIFL_ALWAYS_INLINE inline __attribute__((__always_inline__))
#define JIFL_NOINLINE __attribute__((__noinline__))

#define JIFL_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Errors, the values Linux uses; functions return them negated. */
enum {
	JIFL_ENOENT = 2,
	JIFL_ENOMEM = 12,
	JIFL_EBUSY = 16,
	JIFL_EINVAL = 22,
	JIFL_ENOSPC = 28,
};

#ifndef memcpy	/* a kernel's fortified functions are macros */
void *memcpy(void *dst, const void *src, __SIZE_TYPE__ n);
void *memset(void *dst, int c, __SIZE_TYPE__ n);
int memcmp(const void *a, const void *b, __SIZE_TYPE__ n);
void *memchr(const void *s, int c, __SIZE_TYPE__ n);
#endif

#endif
