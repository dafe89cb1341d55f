// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks that sleep for ever in system calls until they are told to go on. Then they say whether
 * the calls gave the right results.
 *
 *	sleepers N [MOUNT]
 *
 * MOUNT: a file system, which is frozen while processes write to it.
 *
 * Starts N processes of each kind, prints "asleep PID ..." once all are inside their calls, and
 * waits for a line on stdin. Then it wakes them all and prints for each kind "KIND good/N", and
 * "done". Exit status 1 if any result was wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX 64

static int n;
static int pipes[MAX][2], polls[MAX][2], epolls[MAX][2], grandchildren[MAX][2], vpipes[MAX][2];
static int sockets[MAX][2];
static int *words;	/* shared: one futex for each */

static void nothing(int sig)
{
}

/* A pipe's read: the whole message, and from the right pipe. */
static int sleep_read(int i)
{
	char buf[64] = "", want[64];

	snprintf(want, sizeof(want), "message for %d", i);
	return read(pipes[i][0], buf, sizeof(buf)) == (ssize_t)strlen(want) && !strcmp(buf, want);
}

static void wake_read(int i, pid_t pid)
{
	dprintf(pipes[i][1], "message for %d", i);
}

static int sleep_futex(int i)
{
	return !syscall(SYS_futex, &words[i], FUTEX_WAIT, 0, NULL, NULL, 0) && words[i] == i + 1;
}

static void wake_futex(int i, pid_t pid)
{
	words[i] = i + 1;
	while (syscall(SYS_futex, &words[i], FUTEX_WAKE, 1, NULL, NULL, 0) != 1)
		usleep(1000);
}

static int sleep_poll(int i)
{
	struct pollfd fds[3] = { { polls[i][0], POLLIN }, { pipes[i][1], 0 }, { -1, POLLIN } };

	return poll(fds, 3, -1) == 1 && fds[0].revents == POLLIN && !fds[1].revents &&
	       !fds[2].revents;
}

static void wake_poll(int i, pid_t pid)
{
	dprintf(polls[i][1], "x");
}

static int sleep_epoll(int i)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 1000 + i }, got[2];
	int fd = epoll_create1(0);

	return !epoll_ctl(fd, EPOLL_CTL_ADD, epolls[i][0], &ev) &&
	       epoll_wait(fd, got, 2, -1) == 1 && got[0].data.u64 == 1000u + i;
}

static void wake_epoll(int i, pid_t pid)
{
	dprintf(epolls[i][1], "x");
}

/* Waits for a child that itself sleeps in a read, then ends with a status of its own. */
static int sleep_wait4(int i)
{
	pid_t child = fork();
	int status;
	char c;

	if (!child)
		_exit(read(grandchildren[i][0], &c, 1) == 1 ? 10 + i : 1);
	return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 10 + i;
}

static void wake_wait4(int i, pid_t pid)
{
	dprintf(grandchildren[i][1], "x");
}

/* The signal ends it early, with the rest of the time given back. */
static int sleep_nanosleep(int i)
{
	struct timespec t = { 100000, 0 }, rest = {};

	signal(SIGUSR1, nothing);
	return nanosleep(&t, &rest) == -1 && errno == EINTR && rest.tv_sec > 90000 &&
	       rest.tv_sec < 100000;
}

static void wake_nanosleep(int i, pid_t pid)
{
	kill(pid, SIGUSR1);
}

static int sleep_pause(int i)
{
	signal(SIGUSR1, nothing);
	return pause() == -1 && errno == EINTR;
}

static int sleep_recv(int i)
{
	char buf[64] = "";

	return recv(sockets[i][0], buf, sizeof(buf), MSG_WAITALL) == 64 && buf[0] == 'a' &&
	       buf[63] == 'a' + i % 20;
}

/* In two parts: it sleeps a second time, natively by then. */
static void wake_recv(int i, pid_t pid)
{
	char buf[64];

	memset(buf, 'a', sizeof(buf));
	buf[63] = 'a' + i % 20;
	if (write(sockets[i][1], buf, 32) != 32)
		perror("write");
	usleep(1000);
	if (write(sockets[i][1], buf + 32, 32) != 32)
		perror("write");
}

static int sleep_sigwait(int i)
{
	struct timespec t = { 100000, 0 };
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigtimedwait(&set, &info, &t) == SIGUSR1 && info.si_pid == getppid();
}

static void *reader(void *arg)
{
	char c = 0;

	return (void *)(long)(read((int)(long)arg, &c, 1) == 1 && c == 'v');
}

/* A thread sleeps in read, the first one in the futex of pthread_join. */
static int sleep_thread(int i)
{
	pthread_t t;
	void *good;

	return !pthread_create(&t, NULL, reader, (void *)(long)vpipes[i][0]) &&
	       !pthread_join(t, &good) && good;
}

static void wake_thread(int i, pid_t pid)
{
	dprintf(vpipes[i][1], "v");
}

/* Stopped in the call and continued, then woken: the call is restarted. */
static int sleep_restart(int i)
{
	struct timespec t = { 0, 300 * 1000 * 1000 }, rest = { -1, -1 };

	raise(SIGSTOP);
	return !nanosleep(&t, &rest);
}

static void wake_restart(int i, pid_t pid)
{
	kill(pid, SIGCONT);
	usleep(1000);
	kill(pid, SIGSTOP);
	usleep(1000);
	kill(pid, SIGCONT);
}

static int mount_fd = -1, files[MAX];

/* Nothing but the thaw ends that sleep. */
static int sleep_frozen(int i)
{
	char buf[64] = "", want[64];
	int len = snprintf(want, sizeof(want), "written by %d", i);

	return write(files[i], want, len) == len && pread(files[i], buf, sizeof(buf), 0) == len &&
	       !strcmp(buf, want);
}

static void wake_frozen(int i, pid_t pid)
{
	if (!i && ioctl(mount_fd, FITHAW))
		perror("FITHAW");
}

static void freeze(const char *mount)
{
	char path[256];

	mount_fd = open(mount, O_RDONLY);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%d", mount, i);
		files[i] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		if (files[i] < 0) {
			perror(path);
			exit(1);
		}
	}
	if (ioctl(mount_fd, FIFREEZE)) {
		perror("FIFREEZE");
		exit(1);
	}
}

static const struct kind {
	const char *name;
	int (*sleep)(int i);
	void (*wake)(int i, pid_t pid);
	char state;	/* as /proc shows it when asleep */
} kinds[] = {
	{ "read", sleep_read, wake_read, 'S' },
	{ "futex", sleep_futex, wake_futex, 'S' },
	{ "poll", sleep_poll, wake_poll, 'S' },
	{ "epoll", sleep_epoll, wake_epoll, 'S' },
	{ "wait4", sleep_wait4, wake_wait4, 'S' },
	{ "nanosleep", sleep_nanosleep, wake_nanosleep, 'S' },
	{ "pause", sleep_pause, wake_nanosleep, 'S' },
	{ "recv", sleep_recv, wake_recv, 'S' },
	{ "sigwait", sleep_sigwait, wake_nanosleep, 'S' },
	{ "thread", sleep_thread, wake_thread, 'S' },
	{ "stopped", sleep_restart, wake_restart, 'T' },
	{ "frozen", sleep_frozen, wake_frozen, 'D' },	/* the last: with MOUNT alone */
};

#define ALL_KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))
#define KINDS (mount_fd < 0 ? ALL_KINDS - 1 : ALL_KINDS)

static pid_t pids[ALL_KINDS][MAX];

static char state_of(pid_t pid)
{
	char path[64], text[512], *end;
	size_t got;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	got = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[got] = 0;
	end = strrchr(text, ')');
	return end ? end[2] : 0;
}

static pid_t start(int k, int i)
{
	sigset_t set;
	pid_t pid;

	/* Blocked until waited for: sigwait's would be lost to the default action. */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(kinds[k].sleep == sleep_sigwait ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
	pid = fork();
	if (!pid)
		_exit(kinds[k].sleep(i) ? 0 : 1);
	return pid;
}

/* Asleep twice in a row: it is not just on its way. */
static void await(int k, int i)
{
	int seen = 0;

	while (seen < 3) {
		seen = state_of(pids[k][i]) == kinds[k].state ? seen + 1 : 0;
		usleep(2000);
	}
}

static void prepare(void)
{
	words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < n; i++)
		if (pipe(pipes[i]) || pipe(polls[i]) || pipe(epolls[i]) || pipe(grandchildren[i]) ||
		    pipe(vpipes[i]) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i])) {
			perror("sleepers");
			exit(1);
		}
}

int main(int argc, char **argv)
{
	int bad = 0, status, good;
	char line[64];

	setlinebuf(stdout);
	n = argc == 2 || argc == 3 ? atoi(argv[1]) : 0;
	if (n < 1 || n > MAX) {
		fprintf(stderr, "usage: sleepers N [MOUNT] (1 to %d)\n", MAX);
		return 2;
	}
	prepare();
	if (argc == 3)
		freeze(argv[2]);
	for (int k = 0; k < KINDS; k++)
		for (int i = 0; i < n; i++)
			pids[k][i] = start(k, i);
	for (int k = 0; k < KINDS; k++)
		for (int i = 0; i < n; i++)
			await(k, i);
	printf("asleep");
	for (int k = 0; k < KINDS; k++)
		for (int i = 0; i < n; i++)
			printf(" %d", pids[k][i]);
	printf("\n");
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (int k = 0; k < KINDS; k++) {
		good = 0;
		for (int i = 0; i < n; i++)
			kinds[k].wake(i, pids[k][i]);
		for (int i = 0; i < n; i++)
			good += waitpid(pids[k][i], &status, 0) == pids[k][i] && !status;
		printf("%s %d/%d\n", kinds[k].name, good, n);
		bad += n - good;
	}
	printf("done\n");
	return bad ? 1 : 0;
}
