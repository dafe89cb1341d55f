// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Has work done by the workers of io_uring, without liburing. Each line of stdin is a command:
 *	read N		N reads of a byte of /dev/zero, one after the other; prints how many bytes
 *	open PATH	begins to open it for reading
 *	wait		waits for that; prints what it returned, without the descriptor
 * IOSQE_ASYNC leaves no request to the task itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES	8

static int ring;
static struct io_uring_params params;
static struct io_uring_sqe *sqes;
static uint8_t *submissions, *completions;

static uint32_t *word(uint8_t *of, uint32_t offset)
{
	return (uint32_t *)(of + offset);
}

static void *map(size_t size, off_t offset)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
			offset);

	if (at == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return at;
}

static void open_ring(void)
{
	ring = syscall(SYS_io_uring_setup, ENTRIES, &params);
	if (ring < 0) {
		perror("io_uring_setup");
		exit(1);
	}
	submissions = map(params.sq_off.array + params.sq_entries * sizeof(uint32_t),
			  IORING_OFF_SQ_RING);
	completions = map(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
			  IORING_OFF_CQ_RING);
	sqes = map(params.sq_entries * sizeof(*sqes), IORING_OFF_SQES);
}

static void enter(unsigned int submit, unsigned int complete)
{
	if (syscall(SYS_io_uring_enter, ring, submit, complete,
		    complete ? IORING_ENTER_GETEVENTS : 0, NULL, 0) < 0) {
		perror("io_uring_enter");
		exit(1);
	}
}

static struct io_uring_sqe *request(int opcode, int fd, const void *addr)
{
	uint32_t *tail = word(submissions, params.sq_off.tail);
	uint32_t index = *tail & *word(submissions, params.sq_off.ring_mask);
	struct io_uring_sqe *sqe = &sqes[index];

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->flags = IOSQE_ASYNC;
	sqe->fd = fd;
	sqe->addr = (uintptr_t)addr;
	word(submissions, params.sq_off.array)[index] = index;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	return sqe;
}

/* The result of the next request that is done. */
static int result(void)
{
	uint32_t *head = word(completions, params.cq_off.head);
	const struct io_uring_cqe *cqe;
	int res;

	while (__atomic_load_n(word(completions, params.cq_off.tail), __ATOMIC_ACQUIRE) == *head)
		enter(0, 1);
	cqe = (void *)(completions + params.cq_off.cqes);
	res = cqe[*head & *word(completions, params.cq_off.ring_mask)].res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return res;
}

static long read_zeros(int zero, long n)
{
	long sum = 0;
	char byte;

	while (n-- > 0) {
		request(IORING_OP_READ, zero, &byte)->len = 1;
		enter(1, 1);
		sum += result();
	}
	return sum;
}

int main(void)
{
	static char line[256], path[256];
	int zero = open("/dev/zero", O_RDONLY);
	int got;

	setvbuf(stdout, NULL, _IOLBF, 0);
	open_ring();
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "read ", 5)) {
			printf("read %ld\n", read_zeros(zero, atol(line + 5)));
		} else if (!strncmp(line, "open ", 5)) {
			strcpy(path, line + 5);
			request(IORING_OP_OPENAT, AT_FDCWD, path)->open_flags = O_RDONLY;
			enter(1, 0);
			puts("submitted");
		} else if (!strcmp(line, "wait")) {
			got = result();
			printf("opened %d\n", got < 0 ? got : 0);
		}
	}
	return 0;
}
