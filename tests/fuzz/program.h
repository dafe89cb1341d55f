/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Programs of harvested instructions: their registers and immediates changed,
 * their memory operands led into a sandbox (or, now and then, to where they fault),
 * along shapes of control flow.
 */
#ifndef JIFL_FUZZ_PROGRAM_H
#define JIFL_FUZZ_PROGRAM_H

#include "source.h"

#define SANDBOX_SIZE 4096
extern u8 fuzz_sandbox[SANDBOX_SIZE];
/* Counted down by loops and recursion. */
extern u32 fuzz_fuel;
/* Where the program stores its flags at the end, and which of them are defined. */
extern u64 fuzz_flags;
extern u64 fuzz_flags_valid;

#define FUZZ_TEXT (256 << 10)
extern u8 fuzz_text[FUZZ_TEXT];

/* Which flags are defined before the instruction at an offset, which may fault. */
u8 fuzz_valid_at(u32 offset);

/* The thunk of a register. */
const u8 *fuzz_program_thunk(u8 reg);

/* Makes text executable and known to the host; fills what does not change. */
void fuzz_program_init(void);

/* Writes a program to fuzz_text, which it begins. Returns its length. */
u32 fuzz_program(struct source *from);

/* A program of one form and no change to it. */
u32 fuzz_program_of_form(u32 form);

/* How often what was executed was of which form: adds to fuzz_forms[].executed. */
void fuzz_program_count(void);

#endif
