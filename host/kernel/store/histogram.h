/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The bucket of a histogram to which a value belongs; see JIFL_HIST_* in uapi/jifl.h. Freestanding
 * except for the integer types, so that a unit test can include it.
 */
#ifndef JIFL_HOST_HISTOGRAM_H
#define JIFL_HOST_HISTOGRAM_H

#include "../../../engine/base/types.h"
#include "../../../include/uapi/jifl.h"

/*
 * Values below JIFL_HIST_EXACT are their own buckets. Above, the bits right below the highest one
 * choose among the JIFL_HIST_SUB parts of its power of two. Values beyond the last bucket are
 * counted in the last bucket.
 */
static inline u32 jifl_hist_bucket(u64 value)
{
	/*
	 * How far the highest bit is above the bits that choose. The shifted value has these bits
	 * and the highest bit.
	 */
	u32 shift = 63 - __builtin_clzll(value | JIFL_HIST_SUB) - JIFL_HIST_SUB_BITS;
	u32 bucket = (shift << JIFL_HIST_SUB_BITS) + (u32)(value >> shift);

	_Static_assert(JIFL_HIST_EXACT == 2 * JIFL_HIST_SUB, "or the exact ones end elsewhere");
	return bucket < JIFL_HIST_BUCKETS ? bucket : JIFL_HIST_BUCKETS - 1;
}

/* For values that may be negative, by powers of two: see JIFL_HIST_NEGATIVE. */
static inline u32 jifl_hist_power(u64 value)
{
	if ((s64)value < 0)
		return JIFL_HIST_NEGATIVE;
	return value ? 64 - __builtin_clzll(value) : 0;
}

#endif
