/* SPDX-License-Identifier: GPL-2.0 */
/* Has stack walks see original addresses. */
#ifndef JIFL_HOST_UNWIND_H
#define JIFL_HOST_UNWIND_H

int jifl_unwind_init(void);
void jifl_unwind_exit(void);

#endif
