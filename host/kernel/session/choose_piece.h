/* SPDX-License-Identifier: GPL-2.0 */
/* The entry piece of a way. */
#ifndef JIFL_HOST_CHOOSE_PIECE_H
#define JIFL_HOST_CHOOSE_PIECE_H

#include <linux/types.h>

struct jifl_way;

/*
 * Whether each call of the target, of whatever task, belongs to the sessions of this way and needs
 * nothing but its piece. The returns of functions are hooked call by call, conditions are looked at
 * call by call, and not all functions have a door that can lead straight.
 */
bool jifl_choose_is_settled(const struct jifl_way *w);
/*
 * Returns the way's piece, and makes it if there is none. 0: the call passes. Takes
 * jifl_entry_lock. Any context but NMI.
 */
u64 jifl_choose_piece(struct jifl_way *w);

#endif
