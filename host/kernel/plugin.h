/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of the plugin API, include/jifl.h, know of each other:
 *   plugin.c          plugins and their syscall_s: come, go, start, stop
 *   plugin_insert.c   callbacks, and what they do through handles
 *   plugin_want.c     what they ask to have inserted
 *   plugin_mistake.c  what is said of wrong calls
 */
#ifndef JIFL_HOST_PLUGIN_H
#define JIFL_HOST_PLUGIN_H

#define JIFL_HOST

#include <linux/stdarg.h>

#include "kernel.h"
#include "../../include/jifl.h"

/* Says what is wrong and gives error back; what and mistake stay. Any context but NMI. */
int jifl_plugin_mistake(struct jifl_plugin *p, int error, const char *what, const char *mistake);
void jifl_plugin_mistake_exit(void);

/* Ends all that p instruments, soon; its callbacks are not called any more. Likewise. */
void jifl_plugin_expel(struct jifl_plugin *p);

/* Where something is to be inserted: that decides which values are there. */
enum jifl_want_at {
	JIFL_AT_ENTRY,		/* of a system call */
	JIFL_AT_EXIT,
	JIFL_AT_ROUTINE,	/* where one begins */
	JIFL_AT_CODE,
};

/* What a plugin wants inserted, and which function of the API it asks. */
struct jifl_wanted {
	struct jifl_plugin *plugin;
	const char *what;
	enum jifl_want_at at;
	struct ir_insert ins;	/* without its place */
};

/* Fill w->ins from what follows in ap; 0, or a mistake, which has been told. */
int jifl_want_call(struct jifl_wanted *w, const void *fn, va_list ap);
int jifl_want_hist(struct jifl_wanted *w, const hist_s *hist, int value, va_list ap);

#endif
