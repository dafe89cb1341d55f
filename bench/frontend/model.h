/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A model of what fetches instructions in a processor. It counts events; it knows no time.
 *
 * - Two return stacks, of 16 and of 32 entries. A call pushes the address behind it. A return pops
 *   one entry and is mispredicted if the entry is not where it goes. The stacks are circular: they
 *   overwrite their oldest entry, and what was popped may be popped again when they run empty.
 * - An instruction cache: 32 KiB, 8 ways, lines of 64 bytes, the line unused for longest goes.
 * - An instruction TLB: 64 entries, each for a page of any size, fully associative, the entry
 *   unused for longest goes. So have AMD's processors from Zen on; Intel's have other entries for
 *   large pages.
 *
 * Nothing is fetched ahead of what executes, or on a mispredicted path.
 */
#ifndef FRONT_END_MODEL_H
#define FRONT_END_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum event {
	EVENT_RETURNS_16,
	EVENT_RETURNS_32,
	EVENT_ICACHE,
	EVENT_ITLB,
	EVENT_BRANCHES,
	EVENT_UNSIZED,		/* accesses to pages whose size is not known: taken for 4 KiB */
	EVENT_INSTRUCTIONS,
	EVENTS
};

enum { LINE_SHIFT = 6, PAGE_SHIFT = 12, LARGE_SHIFT = 21, HUGE_SHIFT = 30 };

/* Forgets everything. */
void model_reset(void);
/* A call; behind: the address behind it. */
void model_call(uint64_t behind);
/* A return to @to. Each result says whether that stack mispredicted it. */
void model_return(uint64_t to, bool *wrong_16, bool *wrong_32);
/* Instructions of the line at @addr execute. True when the line had to be fetched. */
bool model_line(uint64_t addr);
/*
 * Instructions of the page at @addr, of 1 << @shift bytes, execute. True when the TLB had no entry
 * for the page.
 */
bool model_page(uint64_t addr, unsigned int shift);

#endif
