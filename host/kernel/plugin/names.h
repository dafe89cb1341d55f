/* SPDX-License-Identifier: GPL-2.0 */
/* The functions that a plugin names. */
#ifndef JIFL_HOST_NAMES_H
#define JIFL_HOST_NAMES_H

#include <linux/types.h>
#include "../../../include/uapi/jifl.h"

struct jifl_names {
	unsigned long *begins;	/* where they begin, each once */
	u32 n, room;
	struct jifl_condition condition; /* which of their calls are meant; empty: all */
};

/*
 * Finds them. 0, with at least one; -ENOMEM; -EINVAL, -ENOENT and -E2BIG with *mistake, a static
 * text. *names is to be freed after 0. Process context; sleeps. Takes the mutex of event.c.
 */
int jifl_names_find(const char *named, struct jifl_names *names, const char **mistake);
/* The same without the list, which costs less if it is one name. */
int jifl_names_check(const char *named, const char **mistake);
void jifl_names_free(struct jifl_names *names);

/* --- for kinds.c ------------------------------------------------------------------------- */

/* As jifl_names_find, of "fn:NAME", "fn:NAME@MODULE", "mod:MODULE". Adds to *names. */
int jifl_names_find_functions(const char *named, struct jifl_names *names, const char **mistake);
/* Adds one. -ENOMEM, -E2BIG. */
int jifl_names_add(struct jifl_names *names, unsigned long begin);
/* Calls each for the symbols that begin in [at, end), until it returns false. Sleeps. */
void jifl_names_walk(unsigned long at, unsigned long end,
		     bool (*each)(unsigned long begin, unsigned long end, void *arg), void *arg);

#endif
