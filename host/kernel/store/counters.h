/* SPDX-License-Identifier: GPL-2.0 */
/* Many counters, each a word for each CPU. */
#ifndef JIFL_HOST_COUNTERS_H
#define JIFL_HOST_COUNTERS_H

#include <linux/types.h>

/* n counters that are 0. NULL without memory. Sleeps. */
struct jifl_counters *jifl_counters_open(u32 n);
/* The counter of this number, below n. It stays where it is. Any context. */
u64 __percpu *jifl_counters_at(const struct jifl_counters *c, u32 i);
/* Nothing refers to one of them any more. NULL is allowed. Sleeps. */
void jifl_counters_close(struct jifl_counters *c);

#endif
