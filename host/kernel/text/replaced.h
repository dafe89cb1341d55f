/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that are replaced, and their gates: code in the module's text, outside of the code
 * cache, that counts a call and jumps to the function that replaces the other.
 */
#ifndef JIFL_HOST_REPLACED_H
#define JIFL_HOST_REPLACED_H

#include <linux/types.h>

struct jifl_replaced;

/*
 * Makes the gate, which adds 1 to the per-CPU counter and jumps to `to`. From now on copies do not
 * run the bytes from begin up to `behind`, the first behind the fentry site. The caller drops those
 * that do. ERR_PTR(-ENOSPC): there are too many; ERR_PTR(-EOPNOTSUPP): the kernel lacks what is
 * needed. Under jifl_session_mutex, as all of these but the last; sleeps.
 */
struct jifl_replaced *jifl_replaced_add(unsigned long begin, unsigned long behind, u64 counter,
					unsigned long to);
/* Where the gate is entered, as an entry piece is. */
u64 jifl_replaced_gate(const struct jifl_replaced *r);
/* Copies may run these bytes again. The caller drops the blocks that were made meanwhile. */
void jifl_replaced_show(struct jifl_replaced *r);
/* Nobody is in the gate, and nobody comes there any more. */
void jifl_replaced_free(struct jifl_replaced *r);
/* Is addr at the beginning of a function that is replaced? Under the engine lock. */
bool jifl_replaced_begins(unsigned long addr);

#endif
