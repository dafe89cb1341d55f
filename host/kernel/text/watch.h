/* SPDX-License-Identifier: GPL-2.0 */
/* Changes of the kernel's text, reported to the engine. */
#ifndef JIFL_HOST_WATCH_H
#define JIFL_HOST_WATCH_H

int jifl_textwatch_init(void);
void jifl_textwatch_exit(void);

#endif
