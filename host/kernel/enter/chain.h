/* SPDX-License-Identifier: GPL-2.0 */
/* Comparisons before the stubs' indirect jump. They spare the most frequent calls this jump. */
#ifndef JIFL_HOST_ENTER_CHAIN_H
#define JIFL_HOST_ENTER_CHAIN_H

void jifl_chain_init(void);
/* Requires that no task executes the stubs any more. Sleeps. */
void jifl_chain_exit(void);
/* start begins to learn, stop forgets what was learnt. Both sleep. The caller serializes them. */
void jifl_chain_start(void);
void jifl_chain_stop(void);

#endif
