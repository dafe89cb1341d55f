/* SPDX-License-Identifier: GPL-2.0 */
/* Sorted ranges of text, and what is known about each. */
#ifndef JIFL_HOST_RANGES_H
#define JIFL_HOST_RANGES_H

#include <linux/types.h>

/* [start, end) */
struct text_range {
	unsigned long start, end;
	u8 type;	/* enum jifl_text */
	u8 cause;	/* enum jifl_cause */
};

/* For sort(). */
static inline int jifl_text_compare(const void *a, const void *b)
{
	const struct text_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* The range that contains addr, of n sorted and disjoint ranges; NULL: none does. */
static inline const struct text_range *jifl_text_find(const struct text_range *r, u32 n,
						      unsigned long addr)
{
	while (n) {
		const struct text_range *mid = r + n / 2;

		if (addr < mid->start) {
			n /= 2;
		} else if (addr >= mid->end) {
			n -= mid + 1 - r;
			r = mid + 1;
		} else {
			return mid;
		}
	}
	return NULL;
}

#endif
