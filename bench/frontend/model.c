// SPDX-License-Identifier: GPL-2.0-or-later
/* The model: see model.h. */
#include "model.h"

#include <string.h>

enum { STACK_MAX = 32, SETS = 64, WAYS = 8, TLB_ENTRIES = 64 };

/* An entry is unused while its tag is 0: no instruction stands in the first page. */
struct entry {
	uint64_t tag, used;
};

static struct stack {
	unsigned int size, top;
	uint64_t entries[STACK_MAX];
} stacks[2];
static struct entry lines[SETS][WAYS];
static struct entry pages[TLB_ENTRIES];
static uint64_t now;

void model_reset(void)
{
	memset(stacks, 0, sizeof(stacks));
	stacks[0].size = 16;
	stacks[1].size = 32;
	memset(lines, 0, sizeof(lines));
	memset(pages, 0, sizeof(pages));
	now = 0;
}

void model_call(uint64_t behind)
{
	for (int i = 0; i < 2; i++) {
		struct stack *s = &stacks[i];

		s->top = (s->top + 1) % s->size;
		s->entries[s->top] = behind;
	}
}

static bool pop(struct stack *s, uint64_t to)
{
	bool wrong = s->entries[s->top] != to;

	s->top = (s->top + s->size - 1) % s->size;
	return wrong;
}

void model_return(uint64_t to, bool *wrong_16, bool *wrong_32)
{
	*wrong_16 = pop(&stacks[0], to);
	*wrong_32 = pop(&stacks[1], to);
}

/* Whether @tag was not among the @count entries. It is then. */
static bool missed(struct entry *entries, unsigned int count, uint64_t tag)
{
	struct entry *oldest = entries;

	now++;
	for (struct entry *e = entries; e < entries + count; e++) {
		if (e->tag == tag) {
			e->used = now;
			return false;
		}
		if (e->used < oldest->used)
			oldest = e;
	}
	*oldest = (struct entry){ tag, now };
	return true;
}

bool model_line(uint64_t addr)
{
	uint64_t line = addr >> LINE_SHIFT;

	return missed(lines[line % SETS], WAYS, line);
}

bool model_page(uint64_t addr, unsigned int shift)
{
	/* The size is part of the tag. The page's number leaves these bits free. */
	return missed(pages, TLB_ENTRIES, addr >> shift << shift | shift);
}
