/* SPDX-License-Identifier: GPL-2.0 */
/* The functions that a plugin names: "fn:NAME", "fn:NAME@MODULE", "mod:MODULE". */
#ifndef JIFL_HOST_NAMES_H
#define JIFL_HOST_NAMES_H

#include <linux/types.h>

struct jifl_names {
	unsigned long *begins;	/* where they begin, each once */
	u32 n, room;
};

/*
 * Finds them. 0, with at least one; -ENOMEM; -EINVAL, -ENOENT and -E2BIG with *mistake, a static
 * text. *names is to be freed after 0. Process context; sleeps. Takes the mutex of event.c.
 */
int jifl_names_find(const char *named, struct jifl_names *names, const char **mistake);
/* The same without the list, which costs less if it is one name. */
int jifl_names_check(const char *named, const char **mistake);
void jifl_names_free(struct jifl_names *names);

#endif
