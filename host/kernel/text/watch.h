/* SPDX-License-Identifier: GPL-2.0 */
/* Changes of the kernel's text, reported to the engine. */
#ifndef JIFL_HOST_WATCH_H
#define JIFL_HOST_WATCH_H

int jifl_watch_init(void);
void jifl_watch_exit(void);

#endif
