/* SPDX-License-Identifier: GPL-2.0 */
/* What blocks load and store. */
#ifndef JIFL_HOST_MEM_H
#define JIFL_HOST_MEM_H

struct jifl_accesses;
struct jifl_session;

/* JIFL_IOC_ACCESSES. Sleeps. */
int jifl_mem_read(const struct jifl_session *s, struct jifl_accesses *req);

#endif
