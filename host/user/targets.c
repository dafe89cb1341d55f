// SPDX-License-Identifier: GPL-2.0
/*
 * Tables of targets: four bytes for each address of a program without PIE, some tens of megabytes
 * a context. Pages that are only read are one page of zeros, so the tables take memory only for
 * the targets of indirect branches.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "targets.h"

extern const char end[];	/* the linker defines it */

static void **tables;	/* by context; NULL: none */
static int ntables;

u32 user_host_targets_end(void)
{
	return (u32)(unsigned long)end;
}

static u64 size(void)
{
	return user_host_targets_end() * (u64)sizeof(u32);
}

static bool reach(int context)
{
	void **more;

	if (context < ntables)
		return true;
	more = realloc(tables, (size_t)(context + 1) * sizeof(*tables));
	if (!more)
		return false;
	tables = more;
	while (ntables <= context)
		tables[ntables++] = NULL;
	return true;
}

u64 user_host_targets(int context)
{
	void *at;

	if (!reach(context))
		return 0;
	at = mmap(tables[context], size(), PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
		  (tables[context] ? MAP_FIXED : MAP_32BIT), -1, 0);
	if (at == MAP_FAILED)
		return 0;
	tables[context] = at;
	return (u64)(unsigned long)at;
}

void user_host_targets_unmap(void)
{
	while (ntables) {
		ntables--;
		if (tables[ntables])
			munmap(tables[ntables], size());
	}
}
