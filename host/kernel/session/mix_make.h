/* SPDX-License-Identifier: GPL-2.0 */
/* Makes mixes and ways before a session is armed. All under jifl_session_mutex; they sleep. */
#ifndef JIFL_HOST_MIX_MAKE_H
#define JIFL_HOST_MIX_MAKE_H

#include <linux/list.h>

struct jifl_mix;
struct jifl_session;
struct jifl_way;

/* Sorts the mix's sessions once, so that nobody need do it for each block. */
void jifl_mix_make_order(struct jifl_mix *m);
/*
 * Makes what calls need that s (number set) and running sessions match together, or one inside the
 * other. others: the mixes that there are. 0; -ENOMEM: nothing is made.
 */
int jifl_mix_make(struct jifl_session *s, const struct list_head *others);
/* Makes s->inner, if the session counts calls apart. 0; -ENOMEM. It is freed with the session. */
int jifl_mix_make_inner(struct jifl_session *s);
/* Gives up what has been made, or appends it to a list. */
void jifl_mix_make_undo(void);
void jifl_mix_make_take(struct list_head *to);
/* Frees mixes with their ways, or one way. Nobody finds them any more. */
void jifl_mix_make_free(struct list_head *mixes);
void jifl_mix_make_free_way(struct jifl_way *w);

#endif
