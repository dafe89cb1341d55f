/* SPDX-License-Identifier: GPL-2.0 */
/* Executions of each block. */
#ifndef JIFL_HOST_PROFILE_H
#define JIFL_HOST_PROFILE_H

struct jifl_counts;
struct jifl_session;

/* JIFL_IOC_COUNTS. Sleeps. */
int jifl_profile_read(const struct jifl_session *s, struct jifl_counts *req);

#endif
