/* SPDX-License-Identifier: GPL-2.0 */
/* Evicts all threads from the code cache. */
#ifndef JIFL_HOST_EVICT_H
#define JIFL_HOST_EVICT_H

#include <linux/types.h>

/* 0, or -errno after one line in the log. Sleeps. */
int jifl_evict_init(void);

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
/* The address of an original `ret`, reached with the stack as at a handler's return. */
u64 jifl_evict_return_site(void);

#endif
