// SPDX-License-Identifier: GPL-2.0
/* See state.h. Layout of the extended state: SDM vol. 1, 13.4. */
#include <cpuid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

enum {
	MXCSR = 24, ST = 32, XMM = 160, LEGACY_END = 416, HEADER = 512, EXTENDED = 576,
};

/* x87, SSE, AVX; AVX-512's masks and registers */
enum { WANTED = 0xe7, X87 = 1 };

u64 fuzz_components;
static u32 size;

_Static_assert(__builtin_offsetof(struct fuzz_state, xstate) == 192, "run.S");

void fuzz_state_init(void)
{
	u32 a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX)) {
		fprintf(stderr, "a processor with AVX is needed\n");
		exit(2);
	}
	asm volatile("xgetbv" : "=a" (a), "=d" (d) : "c" (0));
	fuzz_components = a & WANTED;
	size = fuzz_components == WANTED ? 2696 : EXTENDED + 256;
}

void fuzz_state_randomize(struct fuzz_state *s, struct source *from)
{
	static const u32 fcw = 0x37f, mxcsr = 0x1f80;
	u64 v;
	u32 i;

	for (i = 0; i < 16; i++)
		if (i != 4)
			s->gpr[i] = source_value(from);
	s->flags = 2 | (source_u64(from) & 0x8d5);
	memset(s->xstate, 0, sizeof(s->xstate));
	for (i = XMM; i < size; i += 8) {
		if (i >= LEGACY_END && i < EXTENDED)
			continue;
		v = source_value(from);
		memcpy(s->xstate + i, &v, 8);
	}
	memcpy(s->xstate, &fcw, 2);
	memcpy(s->xstate + MXCSR, &mxcsr, 4);
	memset(s->xstate + ST, 0, XMM - ST);
	v = fuzz_components & ~(u64)X87;
	memcpy(s->xstate + HEADER, &v, 8);
}

const char *fuzz_state_differs(const struct fuzz_state *a, const struct fuzz_state *b)
{
	static const char *const names[16] = {
		"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
		"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
	};
	u32 i;

	for (i = 0; i < 16; i++)
		if (a->gpr[i] != b->gpr[i])
			return names[i];
	/* The x87's last instruction and its operand have other addresses. */
	if (memcmp(a->xstate, b->xstate, 6) ||
	    memcmp(a->xstate + MXCSR, b->xstate + MXCSR, 4) ||
	    memcmp(a->xstate + ST, b->xstate + ST, XMM - ST))
		return "x87 or mxcsr";
	if (memcmp(a->xstate + XMM, b->xstate + XMM, LEGACY_END - XMM))
		return "xmm";
	return memcmp(a->xstate + EXTENDED, b->xstate + EXTENDED, size - EXTENDED) ?
	       "ymm, zmm or masks" : NULL;
}
