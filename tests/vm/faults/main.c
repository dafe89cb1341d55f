// SPDX-License-Identifier: GPL-2.0
/*
 * What system calls make of pointers that do not lead where they should, and
 * of memory that comes, goes and changes while they use it. Prints one line for
 * each try; it is the same however the system calls are run.
 *
 *	faults table	many calls, each with every kind of bad pointer
 *	faults sleep	page faults that wait for someone: userfaultfd
 *	faults race	memory thrown away, protected and written by others meanwhile
 *	faults misc	copy on write, the stack growing, file pages, truncated files, signal frames
 *
 * or the given ones of these, one after the other.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "faults.h"

void die(const char *what)
{
	perror(what);
	exit(1);
}

void *map(size_t size, int prot)
{
	void *p = mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

unsigned long sum(const void *p, size_t n)
{
	const unsigned char *c = p;
	unsigned long s = 5381;

	while (n--)
		s = s * 33 + *c++;
	return s;
}

int make_file(void)
{
	char name[] = "/tmp/faults-XXXXXX", page[PAGE];
	int fd = mkstemp(name);

	if (fd < 0)
		die(name);
	unlink(name);
	for (int i = 0; i < 4; i++) {
		memset(page, 'a' + i, sizeof(page));
		if (write(fd, page, sizeof(page)) != sizeof(page))
			die("write");
	}
	return fd;
}

int main(int argc, char **argv)
{
	const struct {
		const char *name;
		void (*fn)(void);
	} parts[] = { { "table", table }, { "sleep", sleeping }, { "race", race },
		      { "misc", misc } };

	setlinebuf(stdout);
	for (int a = 1; a < argc; a++) {
		size_t i = 0;

		while (i < 4 && strcmp(argv[a], parts[i].name))
			i++;
		if (i == 4)
			return 2;
		alarm(300);
		parts[i].fn();
		printf("%s done\n", argv[a]);
	}
	fflush(stdout);
	_exit(argc == 1);
}
