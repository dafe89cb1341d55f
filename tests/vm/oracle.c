// SPDX-License-Identifier: GPL-2.0
/*
 * Deterministic system calls, for the comparison of counted instructions with
 * the exact cost that a QEMU clock of one nanosecond an instruction shows.
 *
 *	oracle OP ROUNDS	prepares, takes the name "jifl-oracle" (for the filter),
 *				does OP ROUNDS times; prints per system call of OP a
 *				line: OP, its number, its least cost in ticks of the
 *				time stamp counter
 *	oracle list		names the operations and their system calls
 *
 * Under -icount shift=0 the time stamp counter advances by one an instruction.
 * The cost includes the few instructions of user code around the system call,
 * the same for all.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char buffer[1 << 16] __attribute__((aligned(4096)));
static int zero, null, pipes[2], file;
static int word;
static void *page;

/* Always the same instructions, whatever the call. */
static __attribute__((noinline)) long call(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long ret;

	__asm__ volatile("syscall" : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}

static inline unsigned long ticks(void)
{
	unsigned int lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (unsigned long)hi << 32 | lo;
}

struct step {
	long nr, a, b, c, d;	/* what is not given is 0 */
};

/* Each operation is one or two calls; -1 as an argument: the last result. */
struct op {
	const char *name;
	int n;
	struct step step[2];
};

static struct op ops[] = {
	{ "getppid", 1, { { SYS_getppid } } },
	{ "getuid", 1, { { SYS_getuid } } },
	{ "read1", 1, { { SYS_read, 'z', 'b', 1 } } },
	{ "read64", 1, { { SYS_read, 'z', 'b', 64 } } },
	{ "read4096", 1, { { SYS_read, 'z', 'b', 4096 } } },
	{ "write", 1, { { SYS_write, 'n', 'b', 100 } } },
	{ "lseek", 1, { { SYS_lseek, 'f', 7, SEEK_SET } } },
	{ "fcntl", 1, { { SYS_fcntl, 'f', F_GETFL } } },
	{ "fstat", 1, { { SYS_fstat, 'f', 'b' } } },
	{ "stat", 1, { { SYS_stat, 'p', 'b' } } },
	{ "dup_close", 2, { { SYS_dup, 'f' }, { SYS_close, -1 } } },
	{ "openat_close", 2, { { SYS_openat, AT_FDCWD, 'p', O_RDONLY }, { SYS_close, -1 } } },
	{ "mprotect", 2, { { SYS_mprotect, 'm', 4096, PROT_READ },
			   { SYS_mprotect, 'm', 4096, PROT_READ | PROT_WRITE } } },
	{ "pipe", 2, { { SYS_write, 'W', 'b', 100 }, { SYS_read, 'R', 'b', 100 } } },
	{ "futex_wake", 1, { { SYS_futex, 'w', FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1 } } },
	{ "umask", 1, { { SYS_umask, 022 } } },
	{ "sched_getparam", 1, { { SYS_sched_getparam, 0, 'b' } } },
};

static long value(long v)
{
	switch (v) {
	case 'z': return zero;
	case 'n': return null;
	case 'f': return file;
	case 'b': return (long)buffer;
	case 'p': return (long)"/dev/null";
	case 'm': return (long)page;
	case 'R': return pipes[0];
	case 'W': return pipes[1];
	case 'w': return (long)&word;
	default: return v;
	}
}

static void prepare(struct op *op)
{
	zero = open("/dev/zero", O_RDONLY);
	null = open("/dev/null", O_WRONLY);
	file = open("/dev/zero", O_RDONLY);
	page = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (zero < 0 || null < 0 || file < 0 || page == MAP_FAILED || pipe(pipes)) {
		perror("oracle");
		exit(1);
	}
	page = (char *)page + 4096;	/* so that its protection splits the area both ways */
	memset(page, 1, 4096);
	memset(buffer, 1, sizeof(buffer));
	for (int i = 0; i < op->n; i++) {
		struct step *s = &op->step[i];

		s->a = s->a == -1 ? -1 : value(s->a);
		s->b = value(s->b);
		s->c = s->c == 'b' ? value(s->c) : s->c;
	}
}

/* Does one step; returns its cost and leaves its result in *last. */
static unsigned long cost(const struct step *s, long *last)
{
	long a = s->a == -1 ? *last : s->a;
	unsigned long t0 = ticks();

	*last = call(s->nr, a, s->b, s->c, s->d);
	t0 = ticks() - t0;
	if (*last < 0) {
		fprintf(stderr, "oracle: call %ld: error %ld\n", s->nr, -*last);
		exit(1);
	}
	return t0;
}

static void run(const struct op *op, long rounds)
{
	unsigned long least[2] = { -1ul, -1ul }, c;
	long last = 0;

	prctl(PR_SET_NAME, "jifl-oracle");
	while (rounds--) {
		for (int i = 0; i < op->n; i++) {
			/* Two steps of one call count as one: the cheaper is kept. */
			int to = op->step[i].nr == op->step[0].nr ? 0 : i;

			c = cost(&op->step[i], &last);
			if (c < least[to])
				least[to] = c;
		}
	}
	prctl(PR_SET_NAME, "oracle-done");
	for (int i = 0; i < op->n; i++)
		if (least[i] != -1ul)
			printf("%s %ld %lu\n", op->name, op->step[i].nr, least[i]);
}

static void list(void)
{
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		printf("%s", ops[i].name);
		for (int k = 0; k < ops[i].n; k++)
			printf(" %ld", ops[i].step[k].nr);
		printf("\n");
	}
}

int main(int argc, char **argv)
{
	long rounds;

	if (argc == 2 && !strcmp(argv[1], "list")) {
		list();
		return 0;
	}
	rounds = argc == 3 ? atol(argv[2]) : 0;
	for (size_t i = 0; rounds > 0 && i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(argv[1], ops[i].name))
			continue;
		prepare(&ops[i]);
		run(&ops[i], rounds);
		return 0;
	}
	fprintf(stderr, "usage: oracle list | oracle OP ROUNDS\n");
	return 2;
}
