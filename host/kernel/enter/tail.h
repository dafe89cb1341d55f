/* SPDX-License-Identifier: GPL-2.0 */
/* Whether a function of this module's leaves nothing of itself on the stack. */
#ifndef JIFL_ENTER_TAIL_H
#define JIFL_ENTER_TAIL_H

#include <linux/types.h>

/* Where a function may lead to: functions of this module's, or any. */
struct jifl_tail {
	const unsigned long *calls;	/* what it may call: these return at once */
	const unsigned long *ends;	/* what it may jump to, at its end */
	u32 ncalls, nends;
};

/*
 * True if the function, whichever way is taken in it, calls nothing but what it may, never returns,
 * and ends with a jump to one of its ends. What cannot be told is false. Process context; sleeps.
 */
bool jifl_tail_holds(const void *function, const struct jifl_tail *allowed);

#endif
