/* SPDX-License-Identifier: GPL-2.0 */
/* Bytes of live text, written by the kernel's text_poke: for the module's breakpoints and jumps. */
#ifndef JIFL_HOST_POKE_H
#define JIFL_HOST_POKE_H

#include <linux/types.h>

/* At load. 0, also if the kernel lacks what is needed. */
int jifl_poke_init(void);
/* False: the kernel lacks what is needed, and none of what follows may be called. */
bool jifl_poke_works(void);
/*
 * From lock to unlock nobody else changes text, kprobes neither come nor go, and processors neither
 * come nor go. Process context; both sleep. Outermost first: jifl_session_mutex, jump.c's mutex,
 * kprobe_mutex, the kernel's lock of processors, text_mutex, engine lock.
 */
void jifl_poke_lock(void);
void jifl_poke_unlock(void);
/* Writes n bytes, which copies of the text do not survive (watch.c). Between lock and unlock. */
void jifl_poke(unsigned long at, const u8 *bytes, u32 n);
/* Each processor has forgotten what it had fetched when this returns. Between lock and unlock. */
void jifl_poke_sync(void);

#endif
