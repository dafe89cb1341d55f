// SPDX-License-Identifier: GPL-2.0
/* Tracepoints of the kernel itself, by their names. Context: process; sleeps. */
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "../kernel.h"
#include "compat.h"

struct jifl_compat_tracepoint_search {
	const char *name;
	struct tracepoint *found;
};

static void look(struct tracepoint *tp, void *data)
{
	struct jifl_compat_tracepoint_search *search = data;

	if (!strcmp(tp->name, search->name))
		search->found = tp;
}

struct tracepoint *jifl_compat_tracepoint(const char *name)
{
	struct jifl_compat_tracepoint_search search = { .name = name };

	for_each_kernel_tracepoint(look, &search);
	return search.found;
}
