// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts every CPU again and again and records the kernel's call chains, by a software clock
 * of perf_event_open with call chains.
 *
 *	sampler PERIOD PROGRAM...	PERIOD: nanoseconds between two samples
 *
 * runs the program meanwhile. Afterwards it prints to standard error "chain COUNT IP..." for each
 * chain of a user process, innermost first, and "lost COUNT".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CPUS	8
#define PAGE	4096ul
#define RING	(256 * PAGE)
#define CHAINS	(1u << 16)
#define DEPTH	128

static struct chain {
	unsigned long count;
	uint64_t hash;
	unsigned int n;
	uint64_t *ip;
} chains[CHAINS];

static unsigned long lost;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void add(const uint64_t *ip, unsigned int n)
{
	uint64_t hash = n * 0x9e3779b97f4a7c15;
	unsigned int i, tries;

	for (i = 0; i < n; i++)
		hash = (hash ^ ip[i]) * 0x100000001b3;
	for (tries = 0, i = hash >> 40; tries < CHAINS; tries++, i++) {
		struct chain *c = &chains[i % CHAINS];

		if (!c->count) {
			c->hash = hash;
			c->n = n;
			c->ip = malloc(n * sizeof(*ip));
			memcpy(c->ip, ip, n * sizeof(*ip));
		}
		if (c->hash == hash && c->n == n) {
			c->count++;
			return;
		}
	}
	lost++;
}

/* PERF_SAMPLE_TID, PERF_SAMPLE_CALLCHAIN */
static void sample(const char *body)
{
	const uint64_t *chain = (const uint64_t *)(body + 8);
	uint64_t kernel[DEPTH];
	unsigned int i, n = 0;

	if (!*(const uint32_t *)body)
		return;		/* idle */
	for (i = 0; i < chain[0] && n < DEPTH; i++)
		if (chain[1 + i] < (uint64_t)PERF_CONTEXT_MAX)
			kernel[n++] = chain[1 + i];
	if (n)
		add(kernel, n);
}

static void drain(struct perf_event_mmap_page *head)
{
	static char record[65536];
	const char *data = (const char *)head + PAGE;
	uint64_t at = head->data_tail, end = __atomic_load_n(&head->data_head, __ATOMIC_ACQUIRE);

	while (at < end) {
		struct perf_event_header *h = (void *)record;
		unsigned int i;

		for (i = 0; i < 8; i++)
			record[i] = data[(at + i) % RING];
		for (; i < h->size; i++)
			record[i] = data[(at + i) % RING];
		if (h->type == PERF_RECORD_SAMPLE)
			sample(record + 8);
		else if (h->type == PERF_RECORD_LOST)
			lost += *(uint64_t *)(record + 16);
		at += h->size;
	}
	__atomic_store_n(&head->data_tail, at, __ATOMIC_RELEASE);
}

int main(int argc, char **argv)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = argc > 2 ? atol(argv[1]) : 0,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN,
		.exclude_callchain_user = 1, .wakeup_events = 64,
	};
	struct perf_event_mmap_page *ring[CPUS];
	struct pollfd fds[CPUS];
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), i, status;
	pid_t pid;

	if (argc < 3 || cpus > CPUS)
		return 2;
	for (i = 0; i < cpus; i++) {
		fds[i].fd = syscall(SYS_perf_event_open, &attr, -1, i, -1, PERF_FLAG_FD_CLOEXEC);
		fds[i].events = POLLIN;
		if (fds[i].fd < 0)
			die("perf_event_open");
		ring[i] = mmap(NULL, PAGE + RING, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i].fd, 0);
		if (ring[i] == MAP_FAILED)
			die("mmap");
	}
	pid = fork();
	if (!pid) {
		execvp(argv[2], argv + 2);
		die(argv[2]);
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		poll(fds, cpus, 20);
		for (i = 0; i < cpus; i++)
			drain(ring[i]);
	}
	for (i = 0; i < cpus; i++)
		ioctl(fds[i].fd, PERF_EVENT_IOC_DISABLE, 0);
	for (i = 0; i < cpus; i++)
		drain(ring[i]);
	for (i = 0; i < (int)CHAINS; i++) {
		if (!chains[i].count)
			continue;
		fprintf(stderr, "chain %lu", chains[i].count);
		for (unsigned int k = 0; k < chains[i].n; k++)
			fprintf(stderr, " %lx", chains[i].ip[k]);
		fprintf(stderr, "\n");
	}
	fprintf(stderr, "lost %lu\n", lost);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
