// SPDX-License-Identifier: GPL-2.0
/* Memory that others throw away, protect, map and write meanwhile (faults.h). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"

#define RACE_SIZE (16 * PAGE)

static char *raced, drained[RACE_SIZE];
static volatile int stop;
static int race_fd;

/* Leaves the lock of the address space to others for a while. */
static void pause_a_little(void)
{
	for (volatile int i = 0; i < 3000; i++)
		;
}

static void *throw_away(void *unused)
{
	while (!stop)
		madvise(raced, RACE_SIZE, MADV_DONTNEED);
	return NULL;
}

static void *protect(void *unused)
{
	while (!stop) {
		mprotect(raced + 4 * PAGE, 2 * PAGE, PROT_NONE);
		pause_a_little();
		mprotect(raced + 4 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE);
		pause_a_little();
	}
	return NULL;
}

static void *remap(void *unused)
{
	while (!stop) {
		mmap(raced + 8 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		pause_a_little();
	}
	return NULL;
}

static void *scribble(void *unused)
{
	while (!stop)
		for (size_t i = 0; i < RACE_SIZE; i += 509)
			*(volatile char *)&raced[i] = 1;
	return NULL;
}

static void race_with(const char *name, void *(*other)(void *), bool whole)
{
	long n, wrong = 0, partial = 0;
	struct timespec now, end;
	pthread_t t;
	int p[2];

	stop = 0;
	if (pipe2(p, O_NONBLOCK) || fcntl(p[1], F_SETPIPE_SZ, RACE_SIZE) < 0)
		die("pipe");
	pthread_create(&t, NULL, other, NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += 1;
	for (int i = 0; i < 300; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec > end.tv_sec ||
		    (now.tv_sec == end.tv_sec && now.tv_nsec > end.tv_nsec))
			break;
		n = pread(race_fd, raced, RACE_SIZE, 0);
		partial += n != RACE_SIZE;
		/* It may end anywhere: a page is not protected between two others alone. */
		wrong += n < 0 ? errno != EFAULT : n > (long)RACE_SIZE;
		n = write(p[1], raced, RACE_SIZE);
		wrong += n < 0 ? errno != EFAULT : n > (long)RACE_SIZE;
		/* Empties the pipe, with what the other is after as the place for it. */
		while (n > 0) {
			long got = read(p[0], raced, n);

			wrong += got < 0 ? errno != EFAULT || whole : got != n && whole;
			n -= got < 0 ? read(p[0], drained, n) : got;
		}
		/* A write that failed in a page has left a buffer of no bytes behind. */
		while (read(p[0], drained, RACE_SIZE) > 0)
			;
		wrong += access(raced + 4 * PAGE, F_OK) != -1;
	}
	stop = 1;
	pthread_join(t, NULL);
	close(p[0]);
	close(p[1]);
	printf("%s: %ld wrong%s\n", name, wrong, whole && partial ? ", not all read" : "");
}

void race(void)
{
	race_fd = open("/dev/zero", O_RDONLY);
	raced = map(RACE_SIZE, PROT_READ | PROT_WRITE);
	race_with("thrown away meanwhile", throw_away, true);
	race_with("protected meanwhile", protect, false);
	race_with("mapped anew meanwhile", remap, true);
	race_with("written meanwhile", scribble, true);
}
