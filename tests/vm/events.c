// SPDX-License-Identifier: GPL-2.0
/*
 * Events from outside that a process meets while it makes system calls: signals, tracers, filters,
 * other threads, the end of one program and the start of another. Prints one line for each event;
 * the line is the same however the system calls are run.
 *
 *	events [again]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static const char *ended(int status)
{
	static char text[64];

	if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), "killed by %s", sigabbrev_np(WTERMSIG(status)));
	else
		snprintf(text, sizeof(text), "exit %d", WEXITSTATUS(status));
	return text;
}

static void reap(const char *what, pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	printf("%s: %s\n", what, ended(status));
}

/* --- signals ----------------------------------------------------------------------- */

static volatile long ticks;

static void tick(int sig)
{
	ticks++;
}

static void storm(int flags, int microseconds)
{
	struct sigaction sa = { .sa_handler = tick, .sa_flags = flags };
	struct itimerval every = { { 0, microseconds }, { 0, microseconds } };

	sigaction(SIGALRM, &sa, NULL);
	if (setitimer(ITIMER_REAL, &every, NULL))
		die("setitimer");
}

/* Everything that was written arrives, however often both ends are interrupted. */
static void restarted_pipe(void)
{
	static char buf[4096];
	unsigned long sum = 0, want = 0;
	int p[2], i, j;
	ssize_t n;
	pid_t pid;

	if (pipe(p))
		die("pipe");
	pid = fork();
	if (!pid) {
		storm(SA_RESTART, 2000);
		for (i = 0; i < 200; i++) {
			memset(buf, i, sizeof(buf));
			for (j = 0; j < (int)sizeof(buf); j += n) {
				n = write(p[1], buf + j, sizeof(buf) - j);
				if (n <= 0)
					_exit(1);
			}
		}
		_exit(0);
	}
	close(p[1]);
	storm(SA_RESTART, 2000);
	while ((n = read(p[0], buf, 1000)) > 0)
		for (i = 0; i < n; i++)
			sum += (unsigned char)buf[i];
	storm(SA_RESTART, 0);
	for (i = 0; i < 200; i++)
		want += 4096ul * (i & 255);
	printf("a pipe under a storm: %s, last %zd\n", sum == want ? "whole" : "torn", n);
	reap("its writer", pid);
	close(p[0]);
}

static void interrupted(void)
{
	struct timespec long_time = { 60, 0 };
	int p[2], ret;
	char c;

	if (pipe(p))
		die("pipe");
	storm(0, 20000);
	ret = nanosleep(&long_time, NULL);
	printf("nanosleep: %d %s\n", ret, strerrorname_np(errno));
	ret = read(p[0], &c, 1);
	printf("read: %d %s\n", ret, strerrorname_np(errno));
	ret = poll(&(struct pollfd){ p[0], POLLIN, 0 }, 1, 60000);
	printf("poll: %d %s\n", ret, strerrorname_np(errno));
	ret = pause();
	printf("pause: %d %s\n", ret, strerrorname_np(errno));
	storm(SA_RESTART, 20000);
	ret = poll(&(struct pollfd){ p[0], POLLIN, 0 }, 1, 60000);
	printf("poll, which no flag restarts: %d %s\n", ret, strerrorname_np(errno));
	storm(SA_RESTART, 5000);
	long_time = (struct timespec){ 0, 60000000 };
	while (nanosleep(&long_time, &long_time))
		;
	storm(0, 0);
	printf("slept to the end\n");
	close(p[0]);
	close(p[1]);
}

static void from_threads(void)
{
	sigset_t set, old;
	siginfo_t info;
	int i, n = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, &old);
	for (i = 0; i < 20; i++)
		if (!sigqueue(getpid(), SIGRTMIN, (union sigval){ .sival_int = i }))
			n++;
	for (i = 0; i < 20; i++)
		n += sigwaitinfo(&set, &info) == SIGRTMIN && info.si_value.sival_int == i;
	sigprocmask(SIG_SETMASK, &old, NULL);
	printf("queued signals: %d\n", n);
}

/* --- ptrace ------------------------------------------------------------------------ */

static void traced_calls(void)
{
	struct user_regs_struct regs;
	int status, stops = 0;
	pid_t pid = fork();

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		syscall(SYS_getppid);
		syscall(SYS_getuid);
		_exit(syscall(SYS_getpriority, 0, 0) == 77 ? 3 : 4);
	}
	waitpid(pid, &status, 0);
	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD);
	for (;;) {
		ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
		waitpid(pid, &status, 0);
		if (!WIFSTOPPED(status))
			break;
		ptrace(PTRACE_GETREGS, pid, NULL, &regs);
		printf("stop %d: call %lld, %s\n", stops, (long long)regs.orig_rax,
		       (long long)regs.rax == -ENOSYS ? "entered" : "left");
		/* One call becomes another, one result another. */
		if (regs.orig_rax == SYS_getuid && (long long)regs.rax == -ENOSYS) {
			regs.orig_rax = SYS_getpgrp;
			ptrace(PTRACE_SETREGS, pid, NULL, &regs);
		} else if (regs.orig_rax == SYS_getpriority && (long long)regs.rax != -ENOSYS) {
			regs.rax = 77;
			ptrace(PTRACE_SETREGS, pid, NULL, &regs);
		}
		stops++;
	}
	printf("the traced one: %s\n", ended(status));
}

/* Instructions that user space executes for 3 system calls. */
static void single_steps(void)
{
	int status, steps = 0;
	pid_t pid = fork();

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		asm volatile("mov $39, %%eax; syscall; mov $110, %%eax; syscall; nop; nop;"
			     "mov $231, %%eax; mov $9, %%edi; syscall"
			     : : : "rax", "rcx", "r11", "rdi", "memory");
	}
	waitpid(pid, &status, 0);
	do {
		ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
		waitpid(pid, &status, 0);
		steps++;
	} while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP && steps < 100000);
	printf("single steps: %d, then %s\n", steps, ended(status));
}

/* Attaches to a process that sleeps in a system call, and lets go of it, again and again. */
static void attached(void)
{
	int p[2], i, status, good = 0;
	pid_t pid;
	char c = 5;

	if (pipe(p))
		die("pipe");
	pid = fork();
	if (!pid)
		_exit(read(p[0], &c, 1) == 1 ? c : 1);
	for (i = 0; i < 10; i++) {
		good += !ptrace(PTRACE_ATTACH, pid, NULL, NULL) &&
			waitpid(pid, &status, 0) == pid && WIFSTOPPED(status);
		good += !ptrace(PTRACE_DETACH, pid, NULL, NULL);
	}
	if (write(p[1], &c, 1) != 1)
		die("write");
	printf("attached and detached: %d\n", good);
	reap("the sleeper", pid);
	close(p[0]);
	close(p[1]);
}

/* --- seccomp ----------------------------------------------------------------------- */

static int install(unsigned int nr, unsigned int action, unsigned int flags)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, filter };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static volatile int trapped;

static void on_trap(int sig, siginfo_t *info, void *context)
{
	trapped = info->si_syscall;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 42;
}

static void filtered(void)
{
	struct sigaction sa = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	pid_t pid = fork();

	if (!pid) {
		if (install(SYS_getppid, SECCOMP_RET_ERRNO | 77, 0))
			_exit(1);
		_exit(syscall(SYS_getppid) == -1 && errno == 77 && getuid() == getuid() ? 3 : 4);
	}
	reap("errno", pid);
	pid = fork();
	if (!pid) {
		sigaction(SIGSYS, &sa, NULL);
		if (install(SYS_getppid, SECCOMP_RET_TRAP, 0))
			_exit(1);
		_exit(syscall(SYS_getppid) == 42 && trapped == SYS_getppid ? 3 : 4);
	}
	reap("trap", pid);
	pid = fork();
	if (!pid) {
		install(SYS_getppid, SECCOMP_RET_KILL_PROCESS, 0);
		syscall(SYS_getppid);
		_exit(1);
	}
	reap("kill", pid);
}

static void *answer(void *arg)
{
	int fd = (long)arg;
	struct seccomp_notif_resp resp = { };
	struct seccomp_notif req = { };
	int i;

	for (i = 0; i < 3; i++) {
		memset(&req, 0, sizeof(req));
		if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &req))
			return NULL;
		resp = (struct seccomp_notif_resp){ .id = req.id, .val = 1000 + i };
		ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &resp);
	}
	return NULL;
}

static void notified(void)
{
	pid_t pid = fork();
	pthread_t t;
	long fd;
	int i, good = 0;

	if (!pid) {
		fd = install(SYS_getppid, SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
		if (fd < 0)
			_exit(1);
		pthread_create(&t, NULL, answer, (void *)fd);
		for (i = 0; i < 3; i++)
			good += syscall(SYS_getppid) == 1000 + i;
		pthread_join(t, NULL);
		_exit(good);
	}
	reap("user notify", pid);
}

/* --- programs and threads ------------------------------------------------------------ */

static void *churn(void *arg)
{
	int i, fd;

	for (i = 0; i < 50; i++) {
		fd = open("/dev/null", O_WRONLY);
		if (fd < 0 || write(fd, "x", 1) != 1)
			return NULL;
		close(fd);
		sched_yield();
	}
	return arg;
}

static void threads(void)
{
	pthread_t t[8];
	long i, good = 0;
	void *ret;
	pid_t pid;

	for (i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, churn, (void *)(i + 1));
	for (i = 0; i < 8; i++)
		good += !pthread_join(t[i], &ret) && (long)ret == i + 1;
	printf("threads: %ld\n", good);
	/* All of them end with one, wherever they are. */
	pid = fork();
	if (!pid) {
		for (i = 0; i < 8; i++)
			pthread_create(&t[i], NULL, (void *(*)(void *))(void *)pause, NULL);
		churn(t);
		syscall(SYS_exit_group, 6);
	}
	reap("exit_group", pid);
	pid = fork();
	if (!pid) {
		for (i = 0; i < 4; i++)
			pthread_create(&t[i], NULL, (void *(*)(void *))(void *)pause, NULL);
		execl("/proc/self/exe", "events", "again", NULL);
	}
	reap("execve among threads", pid);
}

static void programs(void)
{
	volatile int shared = 1;
	int i, status, good = 0;
	pid_t pid;

	for (i = 0; i < 10; i++) {
		pid = vfork();
		if (!pid) {
			shared++;
			execl("/proc/self/exe", "events", "again", NULL);
			_exit(1);
		}
		good += waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 5;
	}
	printf("vfork: %d, shared %d\n", good, shared);
	pid = vfork();
	if (!pid) {
		execl("/no/such", "no", NULL);
		_exit(errno);
	}
	reap("no program", pid);
	pid = fork();
	if (!pid) {
		kill(getpid(), SIGKILL);
		_exit(1);
	}
	reap("killed in its own call", pid);
}

int main(int argc, char **argv)
{
	if (argc == 2)
		return 5;
	setlinebuf(stdout);
	alarm(0);
	restarted_pipe();
	interrupted();
	from_threads();
	traced_calls();
	single_steps();
	attached();
	filtered();
	notified();
	threads();
	programs();
	printf("done\n");
	return 0;
}
