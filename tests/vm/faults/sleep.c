// SPDX-License-Identifier: GPL-2.0
/* Page faults that wait for someone: a thread gives the pages by userfaultfd (faults.h). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"

static int uffd;
static char *area;	/* its pages come when the handler gives them */
#define AREA_PAGES 64

static void *give_pages(void *unused)
{
	char *page = map(PAGE, PROT_READ | PROT_WRITE);
	struct uffd_msg msg;

	while (read(uffd, &msg, sizeof(msg)) == sizeof(msg)) {
		unsigned long at = msg.arg.pagefault.address & ~(PAGE - 1);
		struct uffdio_copy copy = { .dst = at, .src = (unsigned long)page, .len = PAGE };

		memset(page, 'A' + (at - (unsigned long)area) / PAGE % 26, PAGE);
		usleep(2000);	/* whoever waits is asleep by then */
		ioctl(uffd, UFFDIO_COPY, &copy);
	}
	return NULL;
}

static void forget_pages(void)
{
	madvise(area, AREA_PAGES * PAGE, MADV_DONTNEED);
}

void sleeping(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg;
	struct iovec iov[3];
	pthread_t handler;
	struct stat st;
	int p[2], file = make_file(), round;
	long n;

	uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	area = map(AREA_PAGES * PAGE, PROT_READ | PROT_WRITE);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api))
		die("userfaultfd");
	reg = (struct uffdio_register){ .range = { (unsigned long)area, AREA_PAGES * PAGE },
					.mode = UFFDIO_REGISTER_MODE_MISSING };
	if (ioctl(uffd, UFFDIO_REGISTER, &reg) || pipe(p))
		die("register");
	pthread_create(&handler, NULL, give_pages, NULL);

	for (round = 0; round < 3; round++) {
		forget_pages();
		n = write(p[1], area + 100, 3 * PAGE);
		printf("write from missing pages: %ld\n", n);
		n = read(p[0], area + 10 * PAGE + 5, 3 * PAGE);
		printf("read into missing pages: %ld %lx\n", n, sum(area + 9 * PAGE, 5 * PAGE));
		n = pread(file, area + 20 * PAGE - 7, 2 * PAGE, 100);
		printf("pread across missing pages: %ld %lx\n", n, sum(area + 19 * PAGE, 4 * PAGE));
		n = fstat(file, (struct stat *)(area + 30 * PAGE - 8));
		memcpy(&st, area + 30 * PAGE - 8, sizeof(st));
		printf("fstat across missing pages: %ld %ld\n", n, (long)st.st_size);
		n = open(area + 32 * PAGE, O_RDONLY);
		printf("a path of missing pages: %ld %s\n", n, strerrorname_np(errno));
		n = syscall(SYS_futex, area + 40 * PAGE, FUTEX_WAIT, 1, NULL, NULL, 0);
		printf("futex on a missing page: %ld %s\n", n, strerrorname_np(errno));
		n = syscall(SYS_futex, area + 41 * PAGE, FUTEX_WAIT, 0x50505050,
			    &(struct timespec){ 0, 1000 }, NULL, 0);
		printf("futex wait on a missing page: %ld %s\n", n, strerrorname_np(errno));
		iov[0] = (struct iovec){ area + 44 * PAGE, 10 };
		iov[1] = (struct iovec){ area + 46 * PAGE - 10, PAGE };
		iov[2] = (struct iovec){ NULL, 5 };
		n = preadv(file, iov, 2, 50);
		printf("preadv: %ld %lx\n", n, sum(area + 44 * PAGE, 3 * PAGE));
		n = preadv(file, iov, 3, 50);
		printf("preadv with a bad one: %ld %s\n", n, n < 0 ? strerrorname_np(errno) : "-");
		n = getcwd(area + 50 * PAGE - 2, 100) != NULL;
		printf("getcwd: %ld\n", n);
		n = poll((struct pollfd *)(area + 52 * PAGE - 12), 3, 0);
		printf("poll: %ld\n", n);
	}
}
