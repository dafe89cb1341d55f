/* SPDX-License-Identifier: GPL-2.0 */
/* Analysis routines to be inlined: each changes nothing but *state, by its arguments. */
#ifndef JIFL_UNIT_ROUTINES_H
#define JIFL_UNIT_ROUTINES_H

struct routine_state {
	unsigned long sum, more, least, most, product;
	unsigned long buckets[16];
	unsigned long ring[64];
	unsigned int next;
	unsigned char byte;
	unsigned short word;
	struct routine_state *self;
	unsigned long (*names[4])(void);
};

typedef void (*routine_fn)(struct routine_state *state, long a, long b, long c);

struct routine {
	const char *name;
	routine_fn fn;
	int inlined;		/* enum jifl_inline that is expected */
	int calls;		/* others: wants a host that does not align the stack */
};

/* Ends with name NULL. */
extern const struct routine routines_table[];

/* The example of the paper, with a counter and with an atomic one. */
void routine_add(unsigned long *total, int n);
void routine_add_atomic(unsigned long *total, int n);

#endif
