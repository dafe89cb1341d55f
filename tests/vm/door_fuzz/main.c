// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Random requests to /dev/jifl from several threads and processes at once.
 *
 *	door_fuzz SEED OPERATIONS
 *
 * Two processes of two threads each share four open files, which they also
 * close and open again. Each thread has a generator of its own, made from SEED, so
 * that a run does the same again, as far as its races allow. Prints one line for
 * each wrong answer and ends with "done", numbers and status 0, or 1 when an
 * answer was wrong.
 *
 * ask.c judges each answer. That the kernel survives is for others to see.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzzer.h"

struct shared *shared;
int files[FILES];

static void *work(void *arg)
{
	struct fuzzer *f = arg;
	unsigned long i;

	for (i = 0; i < f->operations; i++)
		ask_something(f);
	return NULL;
}

/* Below 4 GiB, so that a 32-bit request can reach it. */
static char *new_arena(void)
{
	char *arena = mmap(NULL, ARENA_PAGES * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	char *read_only = arena + ARENA_READ_ONLY * PAGE;

	if (arena == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	*(uint32_t *)read_only = sizeof(struct jifl_info);
	*(uint32_t *)(read_only + PAGE / 2) = sizeof(struct jifl_status);
	mprotect(read_only, PAGE, PROT_READ);
	mprotect(arena, PAGE, PROT_NONE);
	mprotect(arena + (ARENA_PAGES - 1) * PAGE, PAGE, PROT_NONE);
	return arena;
}

static void process(uint64_t seed, unsigned long operations)
{
	struct fuzzer fuzzers[THREADS];
	pthread_t threads[THREADS];
	int i;

	for (i = 0; i < THREADS; i++) {
		fuzzers[i] = (struct fuzzer){ seed * 1000 + i, operations, new_arena() };
		pthread_create(&threads[i], NULL, work, &fuzzers[i]);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
	unsigned long each = argc == 3 ? strtoul(argv[2], NULL, 10) / (PROCESSES * THREADS) : 0;
	int i, status, bad = 0;

	if (!each) {
		fprintf(stderr, "usage: door_fuzz SEED OPERATIONS\n");
		return 2;
	}
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < FILES; i++) {
		files[i] = open(JIFL_DEVICE, O_RDWR | O_CLOEXEC);
		if (files[i] < 0) {
			perror(JIFL_DEVICE);
			return 2;
		}
	}
	/* The files that the processes begin with are the same open files. */
	for (i = 0; i < PROCESSES; i++) {
		if (!fork()) {
			process(seed * PROCESSES + i, each);
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		bad |= status;
	printf("done: %lu requests, %lu granted, %lu sessions, %lu wrong answers\n", shared->made,
	       shared->granted, shared->started, shared->wrong);
	return bad || shared->wrong;
}
