// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Waits for a lock of the kernel's own, as often and as long as asked for. A thread writes to a
 * file from a page that is not there (userfaultfd), so it keeps the file's lock until another
 * thread has seen that a second writer sleeps, and some time longer.
 *
 * usage: contend FILE TIMES MS	prints how long all second writers' calls took, in ns
 *        contend FILE hold 0	one of them, which prints "waiting" and goes on until stdin ends
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

static const char *path;
static char *missing;			/* a page */
static volatile pid_t second_tid;
static uint64_t waited_ns;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void nap(unsigned int ms)
{
	usleep(ms * 1000);
}

static int open_file(void)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

/* Keeps the file's lock for as long as its page is missing. */
static void *first(void *unused)
{
	int fd = open_file();

	if (pwrite(fd, missing, 1, 0) != 1)
		err(1, "first write");
	close(fd);
	return NULL;
}

static void *second(void *unused)
{
	int fd = open_file();
	uint64_t began;

	second_tid = syscall(SYS_gettid);
	began = now();
	if (pwrite(fd, "", 1, 0) != 1)
		err(1, "second write");
	waited_ns += now() - began;
	close(fd);
	return NULL;
}

static char state_of(pid_t tid)
{
	char name[64], line[256] = "", *end;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", tid);
	f = fopen(name, "r");
	if (!f)
		return 0;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	end = strrchr(line, ')');
	return end ? end[2] : 0;
}

static void once(int faults, unsigned int ms, int tell)
{
	struct uffdio_register reg = {
		.range = { (uintptr_t)missing, PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_zeropage zero = { .range = { (uintptr_t)missing, PAGE } };
	struct uffd_msg msg;
	pthread_t threads[2];

	if (madvise(missing, PAGE, MADV_DONTNEED) || ioctl(faults, UFFDIO_REGISTER, &reg))
		err(1, "userfaultfd");
	second_tid = 0;
	pthread_create(&threads[0], NULL, first, NULL);
	if (read(faults, &msg, sizeof(msg)) != sizeof(msg))
		err(1, "no fault");
	pthread_create(&threads[1], NULL, second, NULL);
	while (!second_tid || state_of(second_tid) != 'D')
		nap(1);
	if (tell) {
		puts("waiting");
		fflush(stdout);
		while (getchar() != EOF)
			;
	}
	nap(ms);
	if (ioctl(faults, UFFDIO_ZEROPAGE, &zero))
		err(1, "no page");
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}

int main(int argc, char **argv)
{
	struct uffdio_api api = { .api = UFFD_API };
	int faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	int i, times, holds;

	if (argc != 4)
		errx(2, "usage: contend FILE TIMES|hold MS");
	path = argv[1];
	holds = !strcmp(argv[2], "hold");
	times = holds ? 1 : atoi(argv[2]);
	missing = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (missing == MAP_FAILED || faults < 0 || ioctl(faults, UFFDIO_API, &api))
		err(1, "userfaultfd");
	for (i = 0; i < times; i++)
		once(faults, atoi(argv[3]), holds);
	printf("%llu\n", (unsigned long long)waited_ns);
	return 0;
}
