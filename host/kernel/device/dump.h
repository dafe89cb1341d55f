/* SPDX-License-Identifier: GPL-2.0 */
/* The blocks of the cache, for JIFL_IOC_BLOCK. */
#ifndef JIFL_HOST_DUMP_H
#define JIFL_HOST_DUMP_H

struct jifl_block;

/* 0, -ENOENT, -ENOSPC, -EACCES, -EPERM, -EFAULT, -EINVAL, -ENOMEM: see the ABI. Sleeps. */
int jifl_dump_block(struct jifl_block *req);

#endif
