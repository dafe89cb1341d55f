// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What `perf record -e EVENT -a -c 1` has the kernel do, without the command: each hit of an event
 * of the kernel's becomes a sample in the first processor's ring. Nobody reads meanwhile, and the
 * ring has room for all.
 *
 *	perfring ID	the event's number, as in events/.../id
 *
 * Prints "attached"; waits for a line; prints how many samples there are, and how many bytes each
 * of them has.
 */
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 1024 };

static void die(const char *what)
{
	perror(what);
	exit(2);
}

int main(int argc, char **argv)
{
	/* What the command asks for where an event has fields. */
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr), .sample_period = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW,
		.disabled = 1, .watermark = 1,
	};
	const size_t page = sysconf(_SC_PAGESIZE), size = PAGES * page;
	const struct perf_event_mmap_page *head;
	uint64_t at = 0, samples = 0, length = 0;
	const char *ring;
	int fd;

	if (argc != 2)
		return 2;
	attr.config = strtoull(argv[1], NULL, 10);
	/* No reader is woken. */
	attr.wakeup_watermark = size - 1;
	fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		die("perf_event_open");
	head = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (head == MAP_FAILED)
		die("the ring");
	ring = (const char *)head + page;
	if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		die("to start");
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("attached\n");
	getchar();
	if (ioctl(fd, PERF_EVENT_IOC_DISABLE, 0))
		die("to stop");
	while (at < __atomic_load_n(&head->data_head, __ATOMIC_ACQUIRE)) {
		const struct perf_event_header *one = (const void *)(ring + at % size);

		if (one->type == PERF_RECORD_SAMPLE) {
			samples++;
			length = one->size;
		}
		at += one->size;
	}
	printf("%llu %llu\n", (unsigned long long)samples, (unsigned long long)length);
	return 0;
}
