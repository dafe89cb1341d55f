/* SPDX-License-Identifier: GPL-2.0 */
/* Makes blocks before calls come to them, for JIFL_IOC_WARM. */
#ifndef JIFL_HOST_WARM_H
#define JIFL_HOST_WARM_H

#include <linux/types.h>

struct jifl_aim;
struct jifl_session;
struct jifl_warm;

/* Carries out the request. 0, -ENOENT, -EINVAL, -EFAULT, -EINTR, -ENOMEM. Sleeps. */
int jifl_warm(struct jifl_session *s, struct jifl_warm *req);
/*
 * Makes the block at an address where a thread is to go on, in the aim's session's own context. It
 * counts as one of the aim's. A quarter of the cache stays free. Under jifl_session_mutex, or in
 * the handler of a breakpoint (step 7 in the head of warm.c).
 */
void jifl_warm_address(const struct jifl_aim *aim, unsigned long addr);

#endif
