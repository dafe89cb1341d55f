/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of the plugin API, include/jifl.h, know of each other:
 *   plugin.c          plugins and their syscall_s: come, go, start, stop
 *   plugin_insert.c   callbacks, and what they do through handles
 *   plugin_mistake.c  what is said of wrong calls
 */
#ifndef JIFL_HOST_PLUGIN_H
#define JIFL_HOST_PLUGIN_H

#define JIFL_HOST

#include "kernel.h"
#include "../../include/jifl.h"

/* Says what is wrong and gives error back; what and mistake stay. Any context but NMI. */
int jifl_plugin_mistake(struct jifl_plugin *p, int error, const char *what, const char *mistake);
void jifl_plugin_mistake_exit(void);

/* Ends all that p instruments, soon; its callbacks are not called any more. Likewise. */
void jifl_plugin_expel(struct jifl_plugin *p);

#endif
