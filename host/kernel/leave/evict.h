/* SPDX-License-Identifier: GPL-2.0 */
/* Evicts all threads from the code cache. */
#ifndef JIFL_HOST_EVICT_H
#define JIFL_HOST_EVICT_H

#include <linux/types.h>

struct jifl_drain {
	unsigned int threads;	/* that were inside */
	u64 ns;			/* that it took, without `close` */
};
/*
 * Replaces every return address into the code cache, or only into code of destroyed contexts, on
 * every kernel stack by the original address, and waits until no thread is inside. No entry leads
 * there. The last wait is one for RCU tasks, behind everything else. close, NULL: nothing: is
 * called before it; true: it has made that wait itself. Under jifl_session_mutex; sleeps.
 */
void jifl_evict(struct jifl_drain *drain, bool all, bool (*close)(void *arg), void *arg);

#endif
