/* SPDX-License-Identifier: GPL-2.0 */
/* Search in a list that is in order. */
#ifndef JIFL_HOST_SEARCH_H
#define JIFL_HOST_SEARCH_H

#include <linux/types.h>

/*
 * The first index from 0 on for which `is_before`, an expression with the index i, does not hold; n
 * if it holds for all n. It holds for those below that index alone. In log2(n) steps.
 */
#define jifl_first(i, n, is_before) ({					\
	u32 low_ = 0, high_ = (n);					\
	while (low_ < high_) {						\
		const u32 i = low_ + (high_ - low_) / 2;		\
		if (is_before)						\
			low_ = i + 1;					\
		else							\
			high_ = i;					\
	}								\
	low_;								\
})

#endif
