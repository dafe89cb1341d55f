/* SPDX-License-Identifier: GPL-2.0 */
/* What blocks load and store, for JIFL_KIND_MEM. */
#ifndef JIFL_HOST_MEM_H
#define JIFL_HOST_MEM_H

struct ir_block;
struct jifl_accesses;
struct jifl_session;
struct jifl_mem;

/* Makes s's tables; -ENOMEM. Sleeps. */
int jifl_mem_open(struct jifl_session *s);
/* When nothing inserted for s is left. No-op if it has none. Sleeps. */
void jifl_mem_close(struct jifl_session *s);
/* Adds what records the accesses of b. Under the engine lock. */
void jifl_mem_insert(struct jifl_mem *m, struct ir_block *b);
/* JIFL_IOC_ACCESSES. Sleeps. */
int jifl_mem_read(const struct jifl_session *s, struct jifl_accesses *req);

#endif
