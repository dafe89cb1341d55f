/* SPDX-License-Identifier: GPL-2.0 */
/* An original `ret` that stands for the end of an entry piece. */
#ifndef JIFL_HOST_RETURN_SITE_H
#define JIFL_HOST_RETURN_SITE_H

#include <linux/types.h>

/* 0, or -EOPNOTSUPP after one line in the log. Sleeps. */
int jifl_return_site_init(void);
/* The address of that `ret`, reached with the stack as at a handler's return. Any context. */
u64 jifl_return_site(void);

#endif
