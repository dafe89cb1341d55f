/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/jifl. */
#ifndef JIFL_HOST_CONTROL_H
#define JIFL_HOST_CONTROL_H

int jifl_control_init(void);
void jifl_control_exit(void);

#endif
