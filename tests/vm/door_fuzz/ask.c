// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Requests made, and the answers judged (fuzzer.h): an answer's error is one the ABI knows, a
 * bad pointer is EFAULT, an unknown number ENOTTY, a wrong size EINVAL or ENOTTY, and nothing
 * is written but into the structure.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzzer.h"

static int is_known_error(int error)
{
	static const int known[] = { 0, EINVAL, EFAULT, EBUSY, ENOENT, ESRCH, ENOMEM, ENOSPC,
				     EALREADY, EBADF, ENOTTY, ENODATA, EOPNOTSUPP, EILSEQ,
				     EBADRQC };
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
	unsigned int which = below(f, nrequests), size = requests[which].size, i;
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
			wrong("bytes beside the structure were written", requests[which].cmd,
			      error);
			break;
		}
}

/* A place that cannot hold the structure, or not all of it. */
static void bad_place(struct fuzzer *f)
{
	unsigned int which = below(f, nrequests), size = requests[which].size;
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
	unsigned int which = below(f, nrequests), cmd = requests[which].cmd;
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
		cmd = _IOC(below(f, 4), JIFL_IOC_MAGIC, nrequests + below(f, 256 - nrequests),
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
	unsigned int which = below(f, nrequests);
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

void ask_something(struct fuzzer *f)
{
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
