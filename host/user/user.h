/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The in-process host: the engine runs functions of its own program. For unit tests, sanitizers,
 * fuzzing and measurements.
 *
 * The program is linked without PIE and with text.lds. So original code, code cache and counters
 * lie in the low 2 GiB, where their addresses fit a sign-extended 32-bit immediate as kernel
 * addresses do. And the text of engine, host and tests is told from the text that they instrument.
 */
#ifndef JIFL_HOST_USER_H
#define JIFL_HOST_USER_H

#include "../../engine/engine.h"
#include "../../engine/host.h"

/*
 * A configuration over fresh memory: code cache (its executable mapping is below 2 GiB, its
 * writable alias anywhere) and side tables. Frees the configuration made before. Exits the program
 * when there is no memory.
 */
struct jifl_config user_host_config(u32 code_size, u64 side_size);

/*
 * A configuration as a kernel would have it: for code that has no red zone, with calls of analysis
 * routines on an unaligned stack. return_thunk may be NULL; then lookups leave by plain jumps.
 */
struct jifl_config user_host_kernel_config(u32 code_size, u64 side_size, const void *return_thunk);

/*
 * As user_host_config, and initialises the engine with the configuration; exits when the engine
 * refuses it.
 */
void user_host_init(u32 code_size, u64 side_size);

/*
 * As user_host_init, with unprotected indirect jumps, which user space may execute and the kernel
 * may not: struct jifl_config, thread_words. compiled: calls of the code keep to the System V ABI.
 */
void user_host_init_jumping(u32 code_size, u64 side_size, bool compiled);

/*
 * Runs fn(args) through the cache in a context and returns what fn returns; natively in context
 * USER_HOST_NATIVE. Exits when fn cannot be entered.
 */
#define USER_HOST_NATIVE (-1)
u64 user_host_call_args(int context, const void *fn, const u64 args[6]);
#define user_host_call(context, fn, ...) \
	user_host_call_args(context, (const void *)(fn), (const u64[6]){ __VA_ARGS__ })

/*
 * Says what stands in [start, start + len), instead of what the linker knows: generated code,
 * bytes to be followed as a thunk, functions to be refused. The last call about an address is
 * valid. cause: for NATIVE and FOREIGN.
 */
void user_host_set_text(const void *start, u64 len, enum jifl_text text, enum jifl_cause cause);

/* The answer of jifl_host_keeps_stack, for all instructions. */
extern bool user_host_keeps_stack;

/* Native exits by cause. */
extern u64 user_host_exits[JIFL_CAUSES_MAX];
u64 user_host_exits_total(void);

/* How often a thread was brought out of a dropped block by a trap. */
extern u64 user_host_traps;
/* True when the engine is to poison (engine.h): set by JIFL_POISON in the environment. */
extern bool user_host_poison;

/*
 * Hits of a target after which an inline cache is put in order (engine.h). Set it before the
 * engine's init.
 */
extern u32 user_host_training_hits;

/* An operand for an insert; cell lies in the low 2 GiB. */
struct ir_operand user_host_operand(const void *cell);

/* The code cache through its executable mapping. */
const u8 *user_host_code(void);

#endif
