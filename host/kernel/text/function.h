/* SPDX-License-Identifier: GPL-2.0 */
/* Functions of the kernel by the addresses in them. */
#ifndef JIFL_HOST_FUNCTION_H
#define JIFL_HOST_FUNCTION_H

#include <linux/types.h>

struct jifl_function {
	unsigned long start;	/* 0: there is none */
	unsigned long size;	/* up to the next symbol */
	unsigned long fentry;	/* its fentry call, 0: none */
	bool cold;		/* a part that gcc has put aside: NAME.cold */
};

/* The function that contains addr; valid until the next call. Under the engine lock. */
const struct jifl_function *jifl_function_at(unsigned long addr);
/* True when a function starts at addr. Under the engine lock. */
bool jifl_function_starts(unsigned long addr);
/* Called when a module goes: forgets its functions. Takes the engine lock. */
void jifl_function_forget(void);

#endif
