/* SPDX-License-Identifier: GPL-2.0 */
/* Evicts all threads from the code cache. */
#ifndef JIFL_HOST_EVICT_H
#define JIFL_HOST_EVICT_H

#include <linux/types.h>

struct jifl_drain {
	unsigned int threads;	/* that were inside */
	u64 ns;
};
/*
 * Replaces every return address into the code cache, or only into code of destroyed contexts, on
 * every kernel stack by the original address, and waits until no thread is inside. No entry leads
 * there. Called under jifl_session_mutex; sleeps.
 */
void jifl_evict(struct jifl_drain *drain, bool all);

#endif
