// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Random requests to /dev/jifl from several threads and processes at once.
 *
 *	door_fuzz SEED OPERATIONS
 *
 * Two processes of two threads each share four open files, which they also
 * close and open again. Each thread has a generator of its own, made from SEED, so
 * that a run does the same again, as far as its races allow. Prints one line for
 * each wrong answer and ends with "done", numbers and status 0, or 1 when an
 * answer was wrong.
 *
 * Judged is each answer: its error is one the ABI knows, a bad pointer is
 * EFAULT, an unknown number ENOTTY, a wrong size EINVAL or ENOTTY, and nothing is
 * written but into the structure. That the kernel survives is for others to
 * see.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/uapi/jifl.h"

enum { FILES = 4, THREADS = 2, PROCESSES = 2, PAGE = 4096 };

/* What both processes see. */
static struct {
	atomic_ulong made, granted, wrong, started;
} *shared;

static int files[FILES];	/* each thread reopens them under the others */

static const struct {
	unsigned int cmd, size;
} requests[] = {
	{ JIFL_IOC_INFO, sizeof(struct jifl_info) },
	{ JIFL_IOC_START, sizeof(struct jifl_start) },
	{ JIFL_IOC_STOP, sizeof(struct jifl_stop) },
	{ JIFL_IOC_STAT, sizeof(struct jifl_stat) },
	{ JIFL_IOC_STATUS, sizeof(struct jifl_status) },
	{ JIFL_IOC_SESSION, sizeof(struct jifl_session_info) },
	{ JIFL_IOC_DETACH, sizeof(struct jifl_detach) },
	{ JIFL_IOC_PLUGIN_CTL, sizeof(struct jifl_plugin_ctl) },
	{ JIFL_IOC_PLUGIN, sizeof(struct jifl_plugin_info) },
	{ JIFL_IOC_ROUTINE, sizeof(struct jifl_routine_info) },
	{ JIFL_IOC_BLOCK, sizeof(struct jifl_block) },
	{ JIFL_IOC_RECORDS, sizeof(struct jifl_records) },
	{ JIFL_IOC_COUNTS, sizeof(struct jifl_counts) },
	{ JIFL_IOC_KEYS, sizeof(struct jifl_keys) },
	{ JIFL_IOC_LOCKS, sizeof(struct jifl_locks) },
	{ JIFL_IOC_ACCESSES, sizeof(struct jifl_accesses) },
	{ JIFL_IOC_PLUGIN_READ, sizeof(struct jifl_plugin_read) },
};
enum { REQUESTS = sizeof(requests) / sizeof(requests[0]) };

struct fuzzer {
	uint64_t state;
	unsigned long operations;
	char *arena;		/* ARENA_* below */
};

/* Pages of an arena: a hole, two to write, one to read only, a hole. */
enum { ARENA_DATA = 1, ARENA_READ_ONLY = 3, ARENA_PAGES = 5 };
/* Bytes at the end of the first page for what a request points to; a histogram takes more. */
enum { ARENA_ASIDE = 128 };

/* --- chance ------------------------------------------------------------------------ */

static uint64_t next(struct fuzzer *f)
{
	/* splitmix64 */
	uint64_t z = f->state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static unsigned int below(struct fuzzer *f, unsigned int n)
{
	return next(f) % n;
}

static int one_in(struct fuzzer *f, unsigned int n)
{
	return !below(f, n);
}

/* None of them is an address of this program. */
static uint64_t edge_value(struct fuzzer *f)
{
	static const uint64_t values[] = {
		0, 1, -1, 0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, INT64_MIN, 511, 512, 64,
		0xffff888000000000, 0xffffffff81000000, 0x7ffffffff000, 0x800000000000,
	};

	return values[below(f, sizeof(values) / sizeof(values[0]))];
}

static uint64_t odd_value(struct fuzzer *f)
{
	return one_in(f, 2) ? edge_value(f) : next(f) >> below(f, 64);
}

/* --- requests ----------------------------------------------------------------------- */

static void fill_start(struct fuzzer *f, struct jifl_start *s)
{
	int few = below(f, 8);

	s->kind = below(f, 10);
	if (one_in(f, 8))
		memset(s->nrs, 0xff, sizeof(s->nrs));
	else
		while (few--)
			s->nrs[below(f, 8)] |= 1ull << below(f, 64);
	if (one_in(f, 3)) {
		s->filters = below(f, 32);
		s->pid = one_in(f, 2) ? getpid() : (int)below(f, 40000);
		s->tgid = one_in(f, 2) ? getpid() : (int)below(f, 40000);
		s->cgroup = one_in(f, 2) ? 1 : odd_value(f);
		memset(s->comm, 'x', one_in(f, 2) ? 16 : 3);
	}
	if (one_in(f, 8))
		s->flags = below(f, 4);
	else if (one_in(f, 4))
		s->flags = 1u << (5 + below(f, 12));
}

/* Room that is enough for few blocks only, as aside has little. */
static void fill_block(struct fuzzer *f, struct jifl_block *block, void *aside)
{
	__u64 *places[] = { &block->src, &block->code, &block->segments };
	unsigned int i;

	block->index = one_in(f, 2) ? 0 : below(f, 100);
	block->session = one_in(f, 2) ? 0 : below(f, 100);
	block->src_len = below(f, ARENA_ASIDE);
	block->code_len = below(f, ARENA_ASIDE);
	block->nsegments = below(f, ARENA_ASIDE / sizeof(struct jifl_segment));
	block->reserved = one_in(f, 16);
	for (i = 0; i < 3; i++)
		*places[i] = one_in(f, 8) ? edge_value(f) : (uint64_t)(uintptr_t)aside;
}

static const char *plugin_name(struct fuzzer *f)
{
	static const char *const names[] = { "icount", "calltrace" };

	return one_in(f, 8) ? "nobody" : names[below(f, 2)];
}

static void fill_plugin_read(struct fuzzer *f, struct jifl_plugin_read *read)
{
	static char lines[4 * JIFL_PLUGIN_LINE_MAX];	/* all threads': nobody looks at it */

	strcpy(read->name, plugin_name(f));
	read->n = below(f, sizeof(lines));
	read->until = one_in(f, 2) ? 0 : odd_value(f);
	read->buf = one_in(f, 8) ? edge_value(f) : (uint64_t)(uintptr_t)lines;
}

/* A request as it should be, or nearly so. */
static void fill(struct fuzzer *f, unsigned int which, void *buf, void *aside)
{
	struct jifl_stat *stat = buf;
	struct jifl_detach *detach = buf;
	struct jifl_plugin_ctl *ctl = buf;
	struct jifl_plugin_info *plugin = buf;
	struct jifl_routine_info *routine = buf;
	struct jifl_records *records = buf;
	struct jifl_counts *counts = buf;
	struct jifl_keys *keys = buf;
	struct jifl_locks *locks = buf;
	struct jifl_accesses *accesses = buf;

	memset(buf, 0, requests[which].size);
	switch (requests[which].cmd) {
	case JIFL_IOC_START:
		fill_start(f, buf);
		break;
	case JIFL_IOC_STAT:
		stat->nr = below(f, 520);
		if (one_in(f, 2))
			stat->hist = one_in(f, 2) ? (uint64_t)(uintptr_t)aside : edge_value(f);
		break;
	case JIFL_IOC_DETACH:
		detach->id = one_in(f, 4) ? 0 : below(f, 100);
		break;
	case JIFL_IOC_PLUGIN_CTL:
		ctl->start = below(f, 2);
		strcpy(ctl->name, plugin_name(f));
		break;
	case JIFL_IOC_PLUGIN:
		plugin->index = below(f, 3);
		break;
	case JIFL_IOC_PLUGIN_READ:
		fill_plugin_read(f, buf);
		break;
	case JIFL_IOC_ROUTINE:
		routine->index = below(f, 3);
		break;
	case JIFL_IOC_BLOCK:
		fill_block(f, buf, aside);
		break;
	case JIFL_IOC_RECORDS:
		records->cpu = below(f, 3);
		records->n = below(f, ARENA_ASIDE / sizeof(struct jifl_record));
		records->reserved = one_in(f, 16);
		records->buf = one_in(f, 8) ? edge_value(f) : (uint64_t)(uintptr_t)aside;
		break;
	case JIFL_IOC_COUNTS:
		counts->from = one_in(f, 8) ? (uint32_t)odd_value(f) : below(f, 50);
		counts->n = below(f, ARENA_ASIDE / sizeof(struct jifl_count) + 1);
		counts->reserved = one_in(f, 16);
		counts->buf = one_in(f, 8) ? edge_value(f) : (uint64_t)(uintptr_t)aside;
		break;
	case JIFL_IOC_KEYS:
		keys->from = one_in(f, 8) ? (uint32_t)odd_value(f) : below(f, 5);
		keys->n = below(f, ARENA_ASIDE / sizeof(struct jifl_key) + 1);
		keys->reserved = one_in(f, 16);
		keys->buf = one_in(f, 8) ? edge_value(f) : (uint64_t)(uintptr_t)aside;
		break;
	case JIFL_IOC_LOCKS:
		locks->from = one_in(f, 8) ? (uint32_t)odd_value(f) : below(f, 5);
		locks->n = below(f, ARENA_ASIDE / sizeof(struct jifl_lock) + 1);
		locks->reserved = one_in(f, 16);
		locks->buf = one_in(f, 8) ? edge_value(f) : (uint64_t)(uintptr_t)aside;
		break;
	case JIFL_IOC_ACCESSES:
		accesses->from = one_in(f, 8) ? (uint32_t)odd_value(f) : below(f, 5);
		accesses->n = below(f, ARENA_ASIDE / sizeof(struct jifl_access) + 1);
		accesses->cpu = one_in(f, 8) ? (uint32_t)odd_value(f) : below(f, 3);
		accesses->buf = one_in(f, 8) ? edge_value(f) : (uint64_t)(uintptr_t)aside;
		break;
	}
	*(uint32_t *)buf = requests[which].size;
}

/*
 * Some bytes or words of it changed, but for places of what is to be written and
 * its room: they could become this program's own memory. True when its size
 * field is among them.
 */
static int mutate(struct fuzzer *f, unsigned int which, char *buf)
{
	unsigned int size = requests[which].size;
	uint32_t was = *(uint32_t *)buf;
	int n = 1 + below(f, 4);

	if (requests[which].cmd == JIFL_IOC_STAT)
		size = offsetof(struct jifl_stat, hist);
	if (requests[which].cmd == JIFL_IOC_BLOCK)
		size = offsetof(struct jifl_block, src_len);
	if (requests[which].cmd == JIFL_IOC_RECORDS)
		size = offsetof(struct jifl_records, n);
	if (requests[which].cmd == JIFL_IOC_COUNTS)
		size = offsetof(struct jifl_counts, n);
	if (requests[which].cmd == JIFL_IOC_KEYS)
		size = offsetof(struct jifl_keys, n);
	if (requests[which].cmd == JIFL_IOC_LOCKS)
		size = offsetof(struct jifl_locks, n);
	if (requests[which].cmd == JIFL_IOC_ACCESSES)
		size = offsetof(struct jifl_accesses, n);
	if (requests[which].cmd == JIFL_IOC_PLUGIN_READ)
		size = offsetof(struct jifl_plugin_read, n);

	while (n--) {
		unsigned int at = below(f, size);
		uint64_t value = odd_value(f);

		if (one_in(f, 2) && at + 8 <= size)
			memcpy(buf + at, &value, 8);
		else
			buf[at] = value;
	}
	return *(uint32_t *)buf != was;
}

static int is_known_error(int error)
{
	static const int known[] = { 0, EINVAL, EFAULT, EBUSY, ENOENT, ESRCH, ENOMEM, ENOSPC,
				     EALREADY, EBADF, ENOTTY, ENODATA };
	unsigned int i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i] == error)
			return 1;
	return 0;
}

static void wrong(const char *what, unsigned int cmd, int error)
{
	atomic_fetch_add(&shared->wrong, 1);
	printf("wrong: %s: request %#x gave %d (%s)\n", what, cmd, error, strerror(error));
	fflush(stdout);
}

static int file_of(struct fuzzer *f)
{
	return files[below(f, FILES)];
}

/* Makes a request; what the answer may be is judged here as far as all share it. */
static int ask(struct fuzzer *f, unsigned int cmd, void *arg)
{
	int error = ioctl(file_of(f), cmd, arg) ? errno : 0;

	atomic_fetch_add(&shared->made, 1);
	if (!error)
		atomic_fetch_add(&shared->granted, 1);
	if (!error && cmd == JIFL_IOC_START)
		atomic_fetch_add(&shared->started, 1);
	if (!is_known_error(error))
		wrong("an error the ABI does not know", cmd, error);
	return error;
}

/* Right in form; perhaps mutated. What lies around the structure stays as it is. */
static void good_place(struct fuzzer *f)
{
	unsigned int which = below(f, REQUESTS), size = requests[which].size, i;
	char *data = f->arena + ARENA_DATA * PAGE;
	char *buf = data + 512 + below(f, 64);
	int resized, error;

	memset(data, 0x5a, PAGE);
	/* Aligned or not. */
	fill(f, which, buf, data + PAGE - ARENA_ASIDE);
	resized = one_in(f, 3) && mutate(f, which, buf);
	error = ask(f, requests[which].cmd, buf);
	if (resized && requests[which].cmd != JIFL_IOC_INFO && error != EINVAL && error != EBADF)
		wrong("a wrong size in the structure", requests[which].cmd, error);
	for (i = 0; i < 512; i++)
		if (data[i] != 0x5a || buf[size + i] != 0x5a) {
			wrong("bytes beside the structure were written", requests[which].cmd, error);
			break;
		}
}

/* A place that cannot hold the structure, or not all of it. */
static void bad_place(struct fuzzer *f)
{
	unsigned int which = below(f, REQUESTS), size = requests[which].size;
	char *arg;
	int error;

	switch (below(f, 7)) {
	case 0:
		arg = NULL;
		break;
	case 1:		/* a hole */
		arg = f->arena + below(f, PAGE);
		break;
	case 2:		/* it begins in a hole */
		arg = f->arena + ARENA_DATA * PAGE - 1 - below(f, 4);
		break;
	case 3:		/* the end of user space */
		arg = (char *)0x7ffffffff000 - below(f, size);
		break;
	case 4:		/* not canonical */
		arg = (char *)(0x800000000000 + (next(f) >> 20));
		break;
	case 5:		/* the kernel's */
		arg = (char *)(0xffffffff81000000 + below(f, 1 << 24));
		break;
	default:	/* the last address */
		arg = (char *)-1 - below(f, size);
		break;
	}
	error = ask(f, requests[which].cmd, arg);
	if (error != EFAULT && error != EBADF)
		wrong("a bad pointer", requests[which].cmd, error);
}

/* It can be read but not written: the answer has no place. STOP and DETACH may do their work. */
static void read_only_place(struct fuzzer *f)
{
	static const unsigned int answering[] = { 0, 4 };	/* INFO, STATUS never fail */
	unsigned int which = answering[below(f, 2)];
	char *page = f->arena + ARENA_READ_ONLY * PAGE;
	int error;

	error = ask(f, requests[which].cmd, page + (which ? PAGE / 2 : 0));
	if (error != EFAULT && error != EBADF)
		wrong("a read-only place", requests[which].cmd, error);
}

static void wrong_number(struct fuzzer *f)
{
	unsigned int which = below(f, REQUESTS), cmd = requests[which].cmd;
	char *buf = f->arena + ARENA_DATA * PAGE + 1024;
	int error, magic = 0;

	fill(f, which, buf, buf + 1024);
	switch (below(f, 4)) {
	case 0:		/* another size */
		cmd ^= (1 + below(f, 0x3ff)) << _IOC_SIZESHIFT;
		break;
	case 1:		/* another direction */
		cmd ^= (1 + below(f, 3)) << _IOC_DIRSHIFT;
		break;
	case 2:		/* a number that is not given away */
		cmd = _IOC(below(f, 4), JIFL_IOC_MAGIC, REQUESTS + below(f, 256 - REQUESTS),
			   below(f, 0x4000));
		magic = 1;
		break;
	default:
		cmd = next(f);
		magic = _IOC_TYPE(cmd) != JIFL_IOC_MAGIC;
		break;
	}
	/* It asks for every version's structure, and so for every size. */
	if (_IOC_TYPE(cmd) == JIFL_IOC_MAGIC && _IOC_NR(cmd) == _IOC_NR(JIFL_IOC_INFO))
		return;
	error = ask(f, cmd, buf);
	if (magic ? !error : error != EINVAL && error != ENOTTY && error != EBADF)
		wrong("a wrong number", cmd, error);
}

/* As a 32-bit program asks: the same structures, below 4 GiB. */
static void compat(struct fuzzer *f)
{
	unsigned int which = below(f, REQUESTS);
	char *buf = f->arena + ARENA_DATA * PAGE + 2048;
	long ret;

	fill(f, which, buf, buf + 1024);
	if (one_in(f, 2))
		mutate(f, which, buf);
	asm volatile("int $0x80"
		     : "=a"(ret)
		     : "a"(54L), "b"((long)file_of(f)), "c"((long)requests[which].cmd), "d"(buf)
		     : "memory", "r8", "r9", "r10", "r11");
	atomic_fetch_add(&shared->made, 1);
	if (!is_known_error(ret < 0 ? -ret : 0))
		wrong("an error the ABI does not know (32 bit)", requests[which].cmd, -ret);
}

/* What the device does not offer. */
static void other_calls(struct fuzzer *f)
{
	int fd = file_of(f);
	char byte = 0;
	void *map;

	if (write(fd, &byte, 1) >= 0 || read(fd, &byte, 1) >= 0)
		wrong("the file can be read or written", 0, 0);
	map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED)
		wrong("the file can be mapped", 0, 0);
	lseek(fd, next(f), below(f, 5));
	fcntl(fd, F_SETFL, O_ASYNC);
}

/* A file goes, with its session, while others use it. */
static void reopen(struct fuzzer *f)
{
	int fd = open(JIFL_DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		wrong("open", 0, errno);
		return;
	}
	dup2(fd, file_of(f));
	close(fd);
}

/* --- threads and processes ----------------------------------------------------------- */

static void *work(void *arg)
{
	struct fuzzer *f = arg;
	unsigned long i;

	for (i = 0; i < f->operations; i++) {
		switch (below(f, 16)) {
		case 0 ... 6:
			good_place(f);
			break;
		case 7 ... 9:
			bad_place(f);
			break;
		case 10:
			read_only_place(f);
			break;
		case 11 ... 12:
			wrong_number(f);
			break;
		case 13:
			compat(f);
			break;
		case 14:
			other_calls(f);
			break;
		default:
			reopen(f);
			break;
		}
	}
	return NULL;
}

/* Below 4 GiB, so that a 32-bit request can reach it. */
static char *new_arena(void)
{
	char *arena = mmap(NULL, ARENA_PAGES * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	char *read_only = arena + ARENA_READ_ONLY * PAGE;

	if (arena == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	*(uint32_t *)read_only = sizeof(struct jifl_info);
	*(uint32_t *)(read_only + PAGE / 2) = sizeof(struct jifl_status);
	mprotect(read_only, PAGE, PROT_READ);
	mprotect(arena, PAGE, PROT_NONE);
	mprotect(arena + (ARENA_PAGES - 1) * PAGE, PAGE, PROT_NONE);
	return arena;
}

static void process(uint64_t seed, unsigned long operations)
{
	struct fuzzer fuzzers[THREADS];
	pthread_t threads[THREADS];
	int i;

	for (i = 0; i < THREADS; i++) {
		fuzzers[i] = (struct fuzzer){ seed * 1000 + i, operations, new_arena() };
		pthread_create(&threads[i], NULL, work, &fuzzers[i]);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
	unsigned long each = argc == 3 ? strtoul(argv[2], NULL, 10) / (PROCESSES * THREADS) : 0;
	int i, status, bad = 0;

	if (!each) {
		fprintf(stderr, "usage: door_fuzz SEED OPERATIONS\n");
		return 2;
	}
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < FILES; i++) {
		files[i] = open(JIFL_DEVICE, O_RDWR | O_CLOEXEC);
		if (files[i] < 0) {
			perror(JIFL_DEVICE);
			return 2;
		}
	}
	/* The files that the processes begin with are the same open files. */
	for (i = 0; i < PROCESSES; i++) {
		if (!fork()) {
			process(seed * PROCESSES + i, each);
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		bad |= status;
	printf("done: %lu requests, %lu granted, %lu sessions, %lu wrong answers\n", shared->made,
	       shared->granted, shared->started, shared->wrong);
	return bad || shared->wrong;
}
