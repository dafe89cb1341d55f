/* SPDX-License-Identifier: GPL-2.0 */
/* Doors of functions that lead straight to an entry piece. */
#ifndef JIFL_HOST_ENTER_DOOR_TABLE_H
#define JIFL_HOST_ENTER_DOOR_TABLE_H

#include <linux/types.h>

struct jifl_door {
	u64 address;		/* of the code behind the fentry site; 0: the place is free */
	u64 piece;		/* where calls at task level go; 0: to jifl_function_enter */
};

/* There is a table when this returns 0, until jifl_doors_close; else -ENOMEM. Sleeps. */
int jifl_doors_open(void);
/* No thread is in jifl_function_stub, and no site leads there. Sleeps. */
void jifl_doors_close(void);
/*
 * A place for the function that is entered at address, whose door leads to C code yet; NULL: there
 * is none, and all calls of the function go to C code. Under jifl_session_mutex, as the next one.
 */
struct jifl_door *jifl_doors_take(u64 address);
/* Gives a place back. No thread is in jifl_function_stub for its function. NULL: nothing to do. */
void jifl_doors_give(struct jifl_door *door);

#endif
