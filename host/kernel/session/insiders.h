/* SPDX-License-Identifier: GPL-2.0 */
/* Tells a session's tool who is inside its functions when it begins. */
#ifndef JIFL_HOST_INSIDERS_H
#define JIFL_HOST_INSIDERS_H

struct jifl_adoption;
struct jifl_insiders;
struct jifl_session;

/*
 * Makes what jifl_adopt and jifl_insiders_tell need, of the two those that s needs; else NULL.
 * -ENOMEM: neither is there. Sleeps.
 */
int jifl_insiders_prepare(struct jifl_session *s, struct jifl_adoption **adoption,
			  struct jifl_insiders **insiders);
/* Takes NULL, too. */
void jifl_insiders_free(struct jifl_insiders *in);
/*
 * With the machine stopped: the tool's `begins`, and then, with JIFL_FLAG_ADOPT, its `insider` for
 * each call of a function of the session. The session is armed. Under jifl_session_mutex; sleeps.
 */
void jifl_insiders_tell(struct jifl_insiders *in);

#endif
