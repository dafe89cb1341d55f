/* SPDX-License-Identifier: GPL-2.0 */
/* May this kernel be instrumented, and may the current task see its addresses? */
#ifndef JIFL_HOST_REQUIRE_H
#define JIFL_HOST_REQUIRE_H

/* 0, or -errno after one line in the log that names the cause and the remedy. */
int jifl_require(void);
/* Asks again for what can change later, lockdown. 0, -EACCES. */
int jifl_require_unlocked(void);
/* May the current task see kernel addresses? 0, -EPERM, -EACCES (lockdown). */
int jifl_require_addresses(void);

#endif
