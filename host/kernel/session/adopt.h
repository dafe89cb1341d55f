/* SPDX-License-Identifier: GPL-2.0 */
/* Takes over threads that are inside a session's functions when it starts. */
#ifndef JIFL_HOST_ADOPT_H
#define JIFL_HOST_ADOPT_H

struct jifl_adoption;
struct jifl_session;

/* What jifl_adopt needs; NULL: no memory. Sleeps. */
struct jifl_adoption *jifl_adopt_alloc(struct jifl_session *s);
void jifl_adopt_free(struct jifl_adoption *a);
/*
 * Each task that is inside a function of the session, and that its filter selects, goes on in the
 * cache, or is added to s->left. The session is armed. Under jifl_session_mutex; sleeps.
 */
void jifl_adopt(struct jifl_adoption *a);

#endif
