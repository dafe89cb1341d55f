// SPDX-License-Identifier: GPL-2.0
/* See state.h. */
#include "../unit.h"
#include "state.h"

static const char *const names[16] = {
	"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
	"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
};

u32 state_random(u64 *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(*seed >> 32);
}

/* Random, with a liking for values at which something happens. */
static u64 interesting(u64 *seed)
{
	static const u64 edges[] = { 0, 1, (u64)-1, 1ull << 63, ~(1ull << 63), 0x80000000,
				     0x7fffffff, 0xff, 0x80, 0x8000 };
	u64 v = (u64)state_random(seed) << 32 | state_random(seed);

	return state_random(seed) % 4 ? v : edges[v % JIFL_ARRAY_LEN(edges)];
}

void state_randomize(struct state *s, u64 *seed)
{
	u64 rsp = s->gpr[4];
	u32 i;

	for (i = 0; i < 16; i++) {
		s->gpr[i] = interesting(seed);
		s->xmm[i][0] = interesting(seed);
		s->xmm[i][1] = interesting(seed);
	}
	s->gpr[4] = rsp;
	s->flags = 2 | (state_random(seed) & 0x8d5);
}

u32 state_compare(const struct state *native, const struct state *cache, const char *name)
{
	u32 i, n = 0;

	for (i = 0; i < 16; i++) {
		if (native->gpr[i] != cache->gpr[i]) {
			unit_fail(__FILE__, __LINE__, names[i], "%s: %#llx, natively %#llx", name,
				  cache->gpr[i], native->gpr[i]);
			n++;
		}
		if (memcmp(native->xmm[i], cache->xmm[i], 16)) {
			unit_fail(__FILE__, __LINE__, "xmm", "%s: xmm%u: %#llx %#llx, natively "
				  "%#llx %#llx", name, i, cache->xmm[i][1], cache->xmm[i][0],
				  native->xmm[i][1], native->xmm[i][0]);
			n++;
		}
	}
	return n;
}
