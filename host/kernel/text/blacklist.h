/* SPDX-License-Identifier: GPL-2.0 */
/* Where the kernel forbids probes. */
#ifndef JIFL_HOST_BLACKLIST_H
#define JIFL_HOST_BLACKLIST_H

#include "ranges.h"

/*
 * Process context. -EOPNOTSUPP, with a line in the log: the kernel does not tell where it forbids
 * probes.
 */
int jifl_blacklist_init(void);
void jifl_blacklist_exit(void);

/* Passes all ranges, sorted and disjoint, to visit, which must not sleep. */
void jifl_blacklist_visit(void (*visit)(const struct text_range *ranges, u32 n));

/* Any context but NMI, interrupts off. */
bool jifl_blacklist_has(unsigned long addr);

/*
 * True when ranges of a module may be missing, because there was no memory for them. Any context.
 */
bool jifl_blacklist_is_stale(void);

#endif
