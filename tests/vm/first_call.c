// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What the first, the second and the third call of one system call cost.
 *
 *	first_call NAME
 *
 * Prints three numbers on one line: by the time stamp counter, from before the call to behind
 * it. In a machine whose clock counts instructions these are instructions. Nothing is called
 * in between, so only the first call meets code that was not translated yet.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 3 };

static int fds[2], epoll, number;
static char page[4096];
static char name[64];

static long call_epoll_wait(void)
{
	struct epoll_event event;

	return syscall(SYS_epoll_wait, epoll, &event, 1, 0);
}

static long call_getppid(void)
{
	return syscall(SYS_getppid);
}

static long call_read(void)
{
	return syscall(SYS_read, fds[0], page, 1);
}

static long call_write(void)
{
	return syscall(SYS_write, fds[1], page, 1);
}

static long call_newfstatat(void)
{
	struct stat st;

	return syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", &st, 0);
}

/* A name of this run's own, so that each call makes a file. */
static long call_openat(void)
{
	snprintf(name, sizeof(name), "/tmp/first_call.%d.%d", getpid(), number++);
	return syscall(SYS_openat, AT_FDCWD, name, O_CREAT | O_EXCL | O_RDWR, 0600);
}

static long call_mmap(void)
{
	return syscall(SYS_mmap, NULL, 1 << 20, PROT_READ,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
}

static long call_socket(void)
{
	return syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
}

static long call_mount(void)
{
	return syscall(SYS_mount, "none", "/mnt", "tmpfs", 0, "size=1m");
}

/* The child ends at once: its own calls are not this one. */
static long call_clone(void)
{
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (!pid)
		syscall(SYS_exit_group, 0);
	return pid;
}

/* From a child that shares this memory; with its own program's way from its start to its end. */
static long call_execve(void)
{
	pid_t pid = vfork();

	if (!pid) {
		execl("/proc/self/exe", "first_call", NULL);
		_exit(1);
	}
	return pid;
}

static const struct {
	const char *name;
	long (*call)(void);
} calls[] = {
	{ "getppid", call_getppid },
	{ "read", call_read },
	{ "write", call_write },
	{ "epoll_wait", call_epoll_wait },
	{ "newfstatat", call_newfstatat },
	{ "mmap", call_mmap },
	{ "socket", call_socket },
	{ "openat", call_openat },
	{ "mount", call_mount },
	{ "clone", call_clone },
	{ "execve", call_execve },
};
enum { KNOWN = sizeof(calls) / sizeof(calls[0]) };

static uint64_t now(void)
{
	uint32_t low, high;

	asm volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

/* The calls need a pipe that holds some bytes, and an epoll that waits for another pipe. */
static int prepare(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	const struct iovec filling = { page, 16 };
	static int quiet[2];

	epoll = epoll_create(1);
	if (epoll < 0 || pipe(fds) || pipe(quiet) || writev(fds[1], &filling, 1) != 16)
		return -1;
	return epoll_ctl(epoll, EPOLL_CTL_ADD, quiet[0], &event);
}

int main(int argc, char **argv)
{
	uint64_t spent[CALLS], begin;
	long result = 0;
	int which, i;

	/* As execve's calls start it. */
	if (argc < 2)
		return 0;
	for (which = 0; which < KNOWN && strcmp(calls[which].name, argv[1]); which++)
		;
	if (which == KNOWN || prepare()) {
		fprintf(stderr, "first_call: cannot prepare %s\n", argv[1]);
		return 2;
	}
	now();	/* its page, and that of what it calls */
	for (i = 0; i < CALLS && result >= 0; i++) {
		begin = now();
		result = calls[which].call();
		spent[i] = now() - begin;
	}
	if (result < 0) {
		perror(argv[1]);
		return 2;
	}
	while (wait(NULL) > 0)
		;
	while (number--) {
		snprintf(name, sizeof(name), "/tmp/first_call.%d.%d", getpid(), number);
		unlink(name);
	}
	printf("%lu %lu %lu\n", spent[0], spent[1], spent[2]);
	return 0;
}
