// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * usage: marked CMD...
 *
 * Runs a command as one round of the front-end clock (bench/frontend): the kernel's events are
 * counted from before its exec until it has ended. Its exit status is the command's.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "../frontend/marks.h"

#define TEXT(number) #number
#define MARK(number) __asm__ volatile("nopl " TEXT(number) "(%%rax,%%rax,1)" ::: "memory")

int main(int argc, char **argv)
{
	int status;
	pid_t child;

	if (argc < 2)
		return 2;
	child = fork();
	if (!child) {
		MARK(MARK_BEGIN);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return 126;
	MARK(MARK_END);
	MARK(MARK_WRITE);
	MARK(MARK_STOP);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}
