// SPDX-License-Identifier: GPL-2.0
/*
 * Makes exactly known numbers of getresuid calls. These call functions and write to user
 * memory, no libraries make them, and all cost the same: they hold no lock, and do not read
 * under RCU, whose readers that were preempted take a longer way out.
 *
 *	calls N		N of them, and ends
 *	calls tree	the numbers below, in a tree of tasks. Prints "PID TID CHILD
 *			GRANDCHILD" once all are there and waits for a line on stdin:
 *				this thread		1000
 *				a second thread		 200	named calls-thread
 *				a child			  50	named calls-child
 *				the child's child	   7	named calls-grand
 *	calls orphan	a child that makes 30 calls when its parent is gone
 *	calls exec N	15 calls, then executes itself for N more
 *	calls pipe N	N of them, and as many times a byte to another process and back, on
 *			one CPU: 2N calls of write, 2N of read, in which they sleep by turns
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int go[2];	/* closed by the first process: all begin */
static int tids[2], pids[2];

static void make(int n)
{
	uid_t ids[3];

	while (n--)
		syscall(SYS_getresuid, &ids[0], &ids[1], &ids[2]);
}

static void await_go(void)
{
	char c;

	if (read(go[0], &c, 1))
		exit(1);
}

static void tell(int fd, int value)
{
	if (write(fd, &value, sizeof(value)) != sizeof(value))
		exit(1);
}

static int told(int fd)
{
	int value;

	if (read(fd, &value, sizeof(value)) != sizeof(value))
		exit(1);
	return value;
}

static void *thread(void *arg)
{
	prctl(PR_SET_NAME, "calls-thread");
	tell(tids[1], syscall(SYS_gettid));
	await_go();
	make(200);
	return NULL;
}

static void child(void)
{
	pid_t grandchild;

	close(go[1]);
	prctl(PR_SET_NAME, "calls-child");
	grandchild = fork();
	if (!grandchild) {
		prctl(PR_SET_NAME, "calls-grand");
		tell(pids[1], getpid());
		await_go();
		make(7);
		_exit(0);
	}
	await_go();
	make(50);
	waitpid(grandchild, NULL, 0);
	_exit(0);
}

static int tree(void)
{
	pthread_t t;
	char line[16];
	pid_t pid;

	if (pipe(go) || pipe(tids) || pipe(pids))
		return 1;
	pid = fork();
	if (!pid)
		child();
	pthread_create(&t, NULL, thread, NULL);
	printf("%d %d %d %d\n", getpid(), told(tids[0]), pid, told(pids[0]));
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	close(go[1]);
	make(1000);
	pthread_join(t, NULL);
	waitpid(pid, NULL, 0);
	return 0;
}

/* The middle process is gone before the last one begins. */
static int orphan(void)
{
	pid_t middle;
	int done[2];
	char c;

	if (pipe(done))
		return 1;
	middle = fork();
	if (!middle) {
		pid_t self = getpid();

		if (fork())
			_exit(0);
		close(done[0]);
		while (!kill(self, 0))
			usleep(1000);
		make(30);
		_exit(0);
	}
	close(done[1]);
	usleep(20000);
	waitpid(middle, NULL, 0);
	return read(done[0], &c, 1) ? 1 : 0;
}

static void pass_on(int from, int to)
{
	char c;

	if (read(from, &c, 1) != 1 || write(to, &c, 1) != 1)
		_exit(1);
}

static int by_turns(int n)
{
	int there[2], back[2], i, status;
	cpu_set_t cpu;
	pid_t pid;

	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu) || pipe(there) || pipe(back))
		return 1;
	pid = fork();
	if (!pid) {
		for (i = 0; i < n; i++)
			pass_on(there[0], back[1]);
		_exit(0);
	}
	for (i = 0; i < n; i++) {
		char c = 0;

		if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
			return 1;
		make(1);
	}
	return waitpid(pid, &status, 0) != pid || status;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "pipe"))
		return by_turns(atoi(argv[2]));
	if (argc == 2 && !strcmp(argv[1], "tree"))
		return tree();
	if (argc == 2 && !strcmp(argv[1], "orphan"))
		return orphan();
	if (argc == 3 && !strcmp(argv[1], "exec")) {
		make(15);
		execl(argv[0], argv[0], argv[2], NULL);
		return 1;
	}
	if (argc != 2)
		return 2;
	make(atoi(argv[1]));
	return 0;
}
