/* SPDX-License-Identifier: GPL-2.0 */
/* Functions that the kernel does not export, for modules of tests. */
#ifndef JIFL_TESTS_LOOKUP_H
#define JIFL_TESTS_LOOKUP_H

#include <linux/kprobes.h>

/* The address of a function that can be probed; NULL: there is none of that name. Sleeps. */
static inline void *find_function(const char *name)
{
	struct kprobe probe = { .symbol_name = name };

	if (register_kprobe(&probe))
		return NULL;
	unregister_kprobe(&probe);
	return probe.addr;
}

#endif
