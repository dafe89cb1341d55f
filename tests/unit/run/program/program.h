/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random programs: a function of straight and branching code over all kinds of
 * operands and control flow, that ends, and whose result depends on nothing that
 * the processor leaves undefined.
 */
#ifndef JIFL_UNIT_PROGRAM_H
#define JIFL_UNIT_PROGRAM_H

#include "../../../../engine/base/types.h"

/* Memory the program works on; r15 points to it. It stores its last flags there. */
#define PROGRAM_DATA 4096
extern u8 program_data[PROGRAM_DATA];
/* Rounds its loops may make together; counted down by it. */
extern u32 program_fuel;

/* Executable, writable, known as code to the host; and the thunks behind it. */
#define PROGRAM_TEXT 32768
extern u8 program_text[PROGRAM_TEXT];

/* To be called once. */
void program_init(void);

/* True when some of it cannot run in the cache: counters miss that. */
static inline bool program_goes_native(u64 seed)
{
	return seed % 4 == 3;
}

/* Writes the program of a seed to program_text. Returns its length. */
u32 program_generate(u64 seed);

#endif
