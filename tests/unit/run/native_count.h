/* SPDX-License-Identifier: GPL-2.0 */
/* How many instructions the processor executes: single steps of a child process. */
#ifndef JIFL_UNIT_NATIVE_COUNT_H
#define JIFL_UNIT_NATIVE_COUNT_H

#include "../../../engine/base/types.h"

/*
 * Instructions of the function at code, called by fn(arg): from its first to its
 * return. A repeated string instruction counts once.
 */
u64 native_count(void (*fn)(void *), void *arg, u64 code);

#endif
