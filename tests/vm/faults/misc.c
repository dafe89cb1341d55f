// SPDX-License-Identifier: GPL-2.0
/* Copy on write, the stack growing, file pages, truncated files, signal frames (faults.h). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "faults.h"

static void copy_on_write(void)
{
	char *p = map(8 * PAGE, PROT_READ | PROT_WRITE);
	int fd = make_file(), status;

	memset(p, 7, 8 * PAGE);
	for (int i = 0; i < 5; i++) {
		if (!fork()) {
			bool good = pread(fd, p + 100, 3 * PAGE, 0) == 3 * PAGE && p[99] == 7 &&
				    p[100] == 'a';

			_exit(good ? 3 : 4);
		}
		printf("parent, too: %ld\n", (long)pread(fd, p + 5 * PAGE + i, 50, PAGE));
		wait(&status);
		printf("copy on write: %d %lx\n", WEXITSTATUS(status), sum(p, 8 * PAGE));
	}
}

static __attribute__((noinline)) void deep_stack(int fd)
{
	volatile char below[200 * PAGE];

	/* Not touched before: the kernel's own copy grows the stack. */
	printf("stack: %ld", (long)pread(fd, (void *)&below[PAGE], 2 * PAGE, 0));
	printf(" %lx\n", sum((void *)&below[PAGE], 2 * PAGE));
}

static void file_pages(void)
{
	int fd = make_file(), out = open("/dev/null", O_WRONLY), p[2];
	char *m = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	long n;

	if (m == MAP_FAILED || pipe(p))
		die("mmap");
	printf("write from a file's pages: %ld\n", (long)write(p[1], m + 10, 3 * PAGE));
	printf("read into them: %ld\n", (long)read(p[0], m + PAGE, 2 * PAGE));
	printf("they have it: %lx\n", sum(m, 4 * PAGE));
	n = write(p[1], m + 3 * PAGE, 2 * PAGE);
	printf("past the file's end: %ld %s\n", n, n < 0 ? strerrorname_np(errno) : "-");
	printf("to null, which does not look: %ld\n", (long)write(out, m + 3 * PAGE, 3 * PAGE));
	n = pread(fd, m + 6 * PAGE, 100, 0);
	printf("into what is not there: %ld %s\n", n, n < 0 ? strerrorname_np(errno) : "-");
	if (ftruncate(fd, 100))
		die("ftruncate");
	n = write(p[1], m + PAGE, 10);
	printf("cut off: %ld %s\n", n, n < 0 ? strerrorname_np(errno) : "-");
	/* Into the file from its own pages. */
	if (ftruncate(fd, 4 * PAGE))
		die("ftruncate");
	n = pwrite(fd, m, 2 * PAGE, PAGE);
	printf("from itself: %ld %lx\n", n, sum(m, 4 * PAGE));
}

static void program_pages(void)
{
	int fd = open("/proc/self/exe", O_RDONLY), out[2];
	char *m = mmap(NULL, 512 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	long n, all = 0;

	if (m == MAP_FAILED || pipe2(out, O_NONBLOCK))
		die("mmap");
	for (long at = 0; at < 150; at += 3) {
		char back[5 * 4096];

		n = write(out[1], m + at * PAGE + 17, 2 * PAGE);
		all = all * 31 + n;
		n = read(out[0], back, sizeof(back));
		all = all * 31 + (n > 0 ? sum(back, n) : 0);
	}
	printf("a program's pages: %lx\n", all);
}

/* A signal frame whose floating point state cannot be loaded kills. */
static void spoil(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	/* In the legacy area: a reserved bit of MXCSR. */
	((uint32_t *)uc->uc_mcontext.fpregs)[6] = 0xffffffff;
}

static void signal_frames(void)
{
	struct sigaction sa = { .sa_sigaction = spoil, .sa_flags = SA_SIGINFO };
	int status;

	if (!fork()) {
		sigaction(SIGUSR1, &sa, NULL);
		raise(SIGUSR1);
		_exit(0);
	}
	wait(&status);
	printf("a spoilt signal frame: %s\n",
	       WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : "lives");
	if (!fork()) {
		/* And one that cannot be written. */
		stack_t stack = { .ss_sp = (void *)0x10000, .ss_size = 65536 };

		sa.sa_flags |= SA_ONSTACK;
		sigaltstack(&stack, NULL);
		sigaction(SIGUSR1, &sa, NULL);
		raise(SIGUSR1);
		_exit(0);
	}
	wait(&status);
	printf("no place for a signal frame: %s\n",
	       WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : "lives");
}

void misc(void)
{
	copy_on_write();
	deep_stack(make_file());
	file_pages();
	program_pages();
	signal_frames();
}
