/* SPDX-License-Identifier: GPL-2.0 */
/* The functions at which a tool outside the program begins and ends; see main.c. */
#ifndef JIFL_BENCH_TOOL_H
#define JIFL_BENCH_TOOL_H

#include "../../engine/base/types.h"

void tool_begin(void);
void tool_end(void);
extern u64 tool_count;

#endif
