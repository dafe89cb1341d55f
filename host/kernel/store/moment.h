/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Times that cost one instruction. Who records has the processor's time stamp counter stored. Who
 * reads makes of it what CLOCK_MONOTONIC was then: it compares the counter with the clock, on that
 * processor, each time when it reads. Between two of these moments the clock is taken to go at one
 * speed. So a time is off by no more than the clock's speed has changed since it was: by 0.5 per
 * mille of that, if adjusted by frequency, by 10 % at most (kernel/time/ntp.c, timekeeping.c).
 * Where one of the two has stood still or was set back, times are wrong up to the next moment.
 */
#ifndef JIFL_HOST_MOMENT_H
#define JIFL_HOST_MOMENT_H

#include <linux/types.h>

/* A time stamp counter and the clock, at one moment on one processor. */
struct jifl_moment {
	u64 tsc, ns;
};

/* Has this machine such a counter? */
bool jifl_moment_may(void);
/* And does it always go at one speed, also while the processor is idle? */
bool jifl_moment_is_steady(void);
/* That processor's; this one's, if that one is not there. Sleeps. */
struct jifl_moment jifl_moment_of(unsigned int cpu);
/*
 * What the clock was, or will be, when the counter was tsc. before: the moment at which records of
 * this processor were last taken. Any context.
 */
u64 jifl_moment_at(const struct jifl_moment *before, const struct jifl_moment *now, u64 tsc);

#endif
