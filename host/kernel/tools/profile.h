/* SPDX-License-Identifier: GPL-2.0 */
/* Executions of each block, for JIFL_KIND_PROFILE. */
#ifndef JIFL_HOST_PROFILE_H
#define JIFL_HOST_PROFILE_H

#include <linux/types.h>

struct ir_block;
struct jifl_counts;
struct jifl_session;
struct jifl_profile;

int jifl_profile_init(void);
/* Makes s's cells; -ENOMEM. Sleeps. */
int jifl_profile_open(struct jifl_session *s);
/* When nothing inserted for s is left. No-op if it has none. Sleeps. */
void jifl_profile_close(struct jifl_session *s);
/* Adds what counts b. Under the engine lock. */
void jifl_profile_insert(struct jifl_profile *p, struct ir_block *b);
/* JIFL_IOC_COUNTS. Sleeps. */
int jifl_profile_read(const struct jifl_session *s, struct jifl_counts *req);

#endif
