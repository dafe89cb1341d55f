/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Whether a call of an analysis routine was inlined, or why not. Part of the ABI of /dev/jifl, in a
 * file of its own because the freestanding engine includes it, too.
 */
#ifndef _UAPI_JIFL_INLINE_H
#define _UAPI_JIFL_INLINE_H

/* X(enumerator, reason shown to users). The order is part of the ABI. */
#define JIFL_INLINES(X) \
	X(JIFL_INLINE_YES,	"inlined") \
	X(JIFL_INLINE_LONG,	"too long") \
	X(JIFL_INLINE_STACK,	"uses the stack") \
	X(JIFL_INLINE_INDIRECT,	"branches out of itself, or indirectly") \
	X(JIFL_INLINE_PATCHED,	"has code that the kernel may change") \
	X(JIFL_INLINE_SYSTEM,	"has an instruction that cannot be copied") \
	X(JIFL_INLINE_CALLS,	"calls others, which want an aligned stack") \
	X(JIFL_INLINE_PLACE,	"called at entry or exit of a system call") \
	X(JIFL_INLINE_CONTEXT,	"given all registers")

enum jifl_inline {
#define X(name, reason) name,
	JIFL_INLINES(X)
#undef X
	JIFL_NR_INLINES
};

#endif /* _UAPI_JIFL_INLINE_H */
