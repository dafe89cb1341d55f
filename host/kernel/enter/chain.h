/* SPDX-License-Identifier: GPL-2.0 */
/* Comparisons before the stubs' indirect jump, which spare the calls made most of it. */
#ifndef JIFL_HOST_ENTER_CHAIN_H
#define JIFL_HOST_ENTER_CHAIN_H

void jifl_chain_init(void);
/* Nobody executes the stubs any more. Sleeps. */
void jifl_chain_exit(void);
/* Begin to learn, and forget what was learnt. Sleep; calls take turns. */
void jifl_chain_start(void);
void jifl_chain_stop(void);

#endif
