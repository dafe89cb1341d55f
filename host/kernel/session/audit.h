/* SPDX-License-Identifier: GPL-2.0 */
/* Who instruments this kernel, in its log. */
#ifndef JIFL_HOST_AUDIT_H
#define JIFL_HOST_AUDIT_H

struct jifl_session;

void jifl_audit_started(const struct jifl_session *s);
void jifl_audit_ended(const struct jifl_session *s);
/* A refused request of the current task; rate-limited. */
void jifl_audit_refused(const char *what, int err);

#endif
