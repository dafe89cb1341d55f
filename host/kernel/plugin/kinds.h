/* SPDX-License-Identifier: GPL-2.0 */
/* Targets that are functions under other names, or some calls of functions. */
#ifndef JIFL_HOST_KINDS_H
#define JIFL_HOST_KINDS_H

#include <linux/types.h>

struct jifl_names;

/*
 * False: the text is no "softirq:", "irq:", "work:", "timer:", and none that is refused by its
 * kind. Else *ret is as jifl_names_find returns, and *names and *mistake are set. Process context;
 * sleeps.
 */
bool jifl_kinds_find(const char *named, struct jifl_names *names, const char **mistake, int *ret);

#endif
