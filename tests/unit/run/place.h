/* SPDX-License-Identifier: GPL-2.0 */
/* A few instructions with an insert in front of one of them, in an engine of their own. */
#ifndef JIFL_UNIT_PLACE_H
#define JIFL_UNIT_PLACE_H

#include "../../../engine/base/types.h"

struct place {
	const char *name;	/* what is dead there, for messages */
	u8 bytes[16];
	u8 len;
};

/* The function that place_write() writes, and the flags that it has put into memory. */
extern u8 place_text[4096];
extern u64 place_flags;

/* Starts the engine, with the kernel's way of things or user space's, over place_text. */
void place_begin(bool kernel);

/* Makes place_text of p's instructions, behind which flags go to place_flags, and a return. */
void place_write(const struct place *p);

#endif
