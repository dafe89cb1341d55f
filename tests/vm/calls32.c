// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Makes system calls of 32-bit programs: a 64-bit program may execute int 0x80, too.
 *
 * usage: calls32 N
 *
 * N times read, which fails with EBADF, and getpid, both through int 0x80; 2 * N times getpid as
 * 64-bit programs call it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { READ_32 = 3, GETPID_32 = 20 };

static long call32(long nr, long first)
{
	long result;

	asm volatile("int $0x80" : "=a"(result) : "a"(nr), "b"(first), "c"(0), "d"(0)
		     : "memory", "cc", "r8", "r9", "r10", "r11");
	return result;
}

int main(int argc, char **argv)
{
	const long n = argc == 2 ? atol(argv[1]) : 0;
	const long pid = getpid();
	long i;

	for (i = 0; i < n; i++) {
		if (call32(READ_32, -1) != -EBADF || call32(GETPID_32, 0) != pid ||
		    syscall(SYS_getpid) != pid || syscall(SYS_getpid) != pid) {
			fprintf(stderr, "a system call of round %ld went wrong\n", i);
			return 1;
		}
	}
	return 0;
}
