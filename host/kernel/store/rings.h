/* SPDX-License-Identifier: GPL-2.0 */
/* What the files that write to the rings and read from them share. */
#ifndef JIFL_HOST_RINGS_H
#define JIFL_HOST_RINGS_H

#include <linux/mutex.h>
#include <linux/types.h>
#include "moment.h"
#include "ring.h"

/* One CPU's ring, as its reader sees it. */
struct jifl_ring_reader {
	u64 read, lost;
	/* Up to this place slots may hold records of the round before. */
	u64 unsafe;
	/* Up to this place slots may be zero although they were written. */
	u64 zeroed;
	/* The places of two marks, the older first; written by the ring's CPU. */
	u64 marks[2];
	/* Of the last reading, and the time that was told last; layout.ticks. */
	struct jifl_moment before;
	u64 told;
};

extern struct jifl_rings {
	struct mutex lock;		/* guards everything but the slots */
	const struct jifl_ring_owner *owner;
	struct jifl_ring_reader *readers; /* nr_cpu_ids */
	bool waits;			/* tasks wait for the reader */
} jifl_rings;

static inline u32 jifl_ring_records(void)
{
	return 1u << jifl_ring_layout.order;
}

/* Records and words stored when the cell has this value. */
static inline u64 jifl_ring_count(u64 cell)
{
	return (cell >> 32 << jifl_ring_layout.order) | (u32)cell >> (32 - jifl_ring_layout.order);
}

#endif
