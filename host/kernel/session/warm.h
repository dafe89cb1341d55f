/* SPDX-License-Identifier: GPL-2.0 */
/* Makes blocks before calls come to them, for JIFL_IOC_WARM. */
#ifndef JIFL_HOST_WARM_H
#define JIFL_HOST_WARM_H

struct jifl_session;
struct jifl_warm;

/* Carries out the request. 0, -ENOENT, -EINVAL, -EFAULT, -EINTR, -ENOMEM. Sleeps. */
int jifl_warm(struct jifl_session *s, struct jifl_warm *req);

#endif
