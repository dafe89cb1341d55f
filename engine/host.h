/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the engine needs from its host. The kernel module (host/kernel) and the in-process
 * user-space host (host/user) each define these functions; they are bound at link time. No engine
 * file asks under which host it runs.
 *
 * Context: all functions but jifl_host_lock are called with the engine lock held and interrupts
 * off, possibly with any kernel lock held by the interrupted code. No function may sleep or
 * allocate.
 */
#ifndef JIFL_HOST_H
#define JIFL_HOST_H

#include "base/types.h"
#include "jifl_causes.h"

/* What stands at an address of original code. */
enum jifl_text {
	JIFL_TEXT_CODE,		/* ordinary code: translate */
	JIFL_TEXT_THUNK,	/* an indirect or return thunk: fold it */
	JIFL_TEXT_NATIVE,	/* known code that must run natively: see cause */
	JIFL_TEXT_FOREIGN,	/* not known text: never call or copy it from the cache */
};

/* Says what stands at addr. For TEXT_NATIVE and TEXT_FOREIGN *cause is set. */
enum jifl_text jifl_host_classify(jifl_orig addr, enum jifl_cause *cause);

/*
 * Original code as it is executed now, to be read in place: the code may change while it is read.
 * *n becomes the number of bytes that are readable from there on, 0 where no byte is. With 0 the
 * caller must not read through the returned pointer.
 */
const u8 *jifl_host_text(jifl_orig addr, u32 *n);

/*
 * An int3 stands at addr. If the host has put it there for itself, and nobody else wants it, *byte
 * becomes the byte that it stands on.
 */
void jifl_host_lift_int3(jifl_orig addr, u8 *byte);

/*
 * The n bytes were read at addr. Where the host has put a jump over instructions, they become these
 * instructions. Before jifl_host_lift_int3 is asked.
 */
void jifl_host_lift_text(jifl_orig addr, u8 *bytes, u32 n);
/*
 * A move between registers at addr, of len bytes, writes rsp. Is it certain that rsp stays in the
 * frame of the same function?
 */
bool jifl_host_keeps_stack(jifl_orig addr, u32 len);
/* Where a thread goes on natively that is to execute the original instruction at addr. */
u64 jifl_host_native(jifl_orig addr);

/* Copies n bytes to the code cache at pos, through its writable alias. */
void jifl_host_code_write(jifl_pos pos, const void *src, u32 n);

/*
 * One store of 4 bytes that lie within aligned 8 bytes. CPUs that run the code see the store as a
 * whole.
 */
void jifl_host_code_store32(jifl_pos pos, u32 value);

/* One aligned store of 8 bytes. CPUs that run the code see the store as a whole. */
void jifl_host_code_store64(jifl_pos pos, u64 value);

/*
 * Takes the engine lock with interrupts off; any context but NMI. The caller gives the returned
 * cookie to unlock.
 */
unsigned long jifl_host_lock(void);
void jifl_host_unlock(unsigned long cookie);

/* Monotonic nanoseconds. */
u64 jifl_host_clock(void);

/*
 * Inline caches that count their hits: how many there are, the most targets of one, how many hits
 * tell which targets are frequent, and the cells for the counts; see struct jifl_config.
 */
enum {
	JIFL_TRAINING_SITES = 16,
	JIFL_CHAIN_MAX = 4,
	JIFL_TRAINING_HITS = 64,
	JIFL_TRAINING_CELLS = JIFL_TRAINING_SITES * JIFL_CHAIN_MAX,
};
/*
 * The first function gives this CPU's cells. The second stores a value in n cells, from first on,
 * on all CPUs.
 */
const s64 *jifl_host_training(void);
void jifl_host_training_set(u32 first, u32 n, s64 value);

/* Adds one to this CPU's count of native exits with this cause. */
void jifl_host_count_exit(enum jifl_cause cause);

#endif
