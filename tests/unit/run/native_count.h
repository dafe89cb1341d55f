/* SPDX-License-Identifier: GPL-2.0 */
/* The instructions that the processor executes: single steps of a child process. */
#ifndef JIFL_UNIT_NATIVE_COUNT_H
#define JIFL_UNIT_NATIVE_COUNT_H

#include "../inserts.h"

/*
 * Instructions of the function at code, called by fn(arg): from its first to its
 * return. A repeated string instruction counts once.
 */
u64 native_count(void (*fn)(void *), void *arg, u64 code);

/* Of these, those that branch on a condition, and how often they did and did not. */
struct edges native_edges(void (*fn)(void *), void *arg, u64 code);

#endif
