/* SPDX-License-Identifier: GPL-2.0 */
/* Doors of functions that lead straight to an entry piece. Under jifl_session_mutex. */
#ifndef JIFL_HOST_ENTER_DOOR_TABLE_H
#define JIFL_HOST_ENTER_DOOR_TABLE_H

#include <linux/types.h>

/* There is a table when this returns 0, until jifl_doors_close; else -ENOMEM. Sleeps. */
int jifl_doors_open(void);
/* No thread is in a stub of functions (run/stubs.S), and nothing leads there. Sleeps. */
void jifl_doors_close(void);
/*
 * Gives the place of the function that is entered at address memory, before its site or its jump
 * leads to a stub. 0; -ENOMEM. It keeps it until jifl_doors_close. Sleeps.
 */
int jifl_doors_reserve(u64 address);
/*
 * The place of the function that is entered at address: the low half of the address where calls at
 * task level go; 0: to jifl_choose_copy. It is 0 yet. NULL: all calls always go there.
 */
u32 *jifl_doors_take(u64 address);
/* Gives a place back. No thread is in a stub for its function. NULL: nothing to do. */
void jifl_doors_give(u32 *place);

#endif
