// SPDX-License-Identifier: GPL-2.0
/*
 * What system calls make of pointers that do not lead where they should, and
 * of memory that comes, goes and changes while they use it. Prints one line for
 * each try; it is the same however the system calls are run.
 *
 *	faults table	many calls, each with every kind of bad pointer
 *	faults sleep	page faults that wait for someone: userfaultfd
 *	faults race	memory thrown away, protected and written by others meanwhile
 *	faults misc	copy on write, the stack growing, file pages, truncated files, signal frames
 *
 * or the given ones of these, one after the other.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *map(size_t size, int prot)
{
	void *p = mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static unsigned long sum(const void *p, size_t n)
{
	const unsigned char *c = p;
	unsigned long s = 5381;

	while (n--)
		s = s * 33 + *c++;
	return s;
}

/* --- table ------------------------------------------------------------------------- */

/* Placeholders in the arguments of a call. */
enum {
	P = 0x7e57000000000000,		/* the pointer */
	ZERO, NUL, FILE_, DIR_, PIPE_R, PIPE_W, SOCK, EPOLL, TIMER, SELF, GOOD, ZEROS, IOV, PATH, LINK, EVENT
};

static const struct call {
	const char *name;
	long nr, a[6];
} calls[] = {
	{ "read zero", SYS_read, { ZERO, P, 5000 } },
	{ "read file", SYS_read, { FILE_, P, 5000 } },
	{ "read pipe", SYS_read, { PIPE_R, P, 100 } },
	{ "read event", SYS_read, { EVENT, P, 8 } },
	{ "write null", SYS_write, { NUL, P, 5000 } },
	{ "write file", SYS_write, { FILE_, P, 5000 } },
	{ "write pipe", SYS_write, { PIPE_W, P, 5000 } },
	{ "pread", SYS_pread64, { FILE_, P, 3000, 1000 } },
	{ "pwrite", SYS_pwrite64, { FILE_, P, 3000, 1000 } },
	{ "readv", SYS_readv, { FILE_, P, 2 } },
	{ "writev", SYS_writev, { FILE_, P, 2 } },
	{ "readv into", SYS_readv, { FILE_, IOV, 2 } },
	{ "writev from", SYS_writev, { FILE_, IOV, 2 } },
	{ "preadv from zero", SYS_preadv, { ZERO, IOV, 2, 0, 0 } },
	{ "getdents64", SYS_getdents64, { DIR_, P, 5000 } },
	{ "open", SYS_open, { P, O_RDONLY } },
	{ "openat", SYS_openat, { AT_FDCWD, P, O_RDONLY } },
	{ "stat", SYS_stat, { PATH, P } },
	{ "stat path", SYS_stat, { P, GOOD } },
	{ "fstat", SYS_fstat, { FILE_, P } },
	{ "newfstatat", SYS_newfstatat, { AT_FDCWD, P, GOOD, 0 } },
	{ "statx", SYS_statx, { AT_FDCWD, PATH, 0, 0xfff, P } },
	{ "statfs", SYS_statfs, { PATH, P } },
	{ "access", SYS_access, { P, R_OK } },
	{ "readlink", SYS_readlink, { LINK, P, 4 } },
	{ "getcwd", SYS_getcwd, { P, 4096 } },
	{ "chdir", SYS_chdir, { P } },
	{ "mkdir", SYS_mkdir, { P, 0 } },
	{ "unlink", SYS_unlink, { P } },
	{ "rename", SYS_rename, { P, P } },
	{ "utimensat", SYS_utimensat, { FILE_, 0, P, 0 } },
	{ "getxattr", SYS_getxattr, { PATH, P, GOOD, 10 } },
	{ "fgetxattr", SYS_fgetxattr, { FILE_, P, GOOD, 10 } },
	{ "uname", SYS_uname, { P } },
	{ "sysinfo", SYS_sysinfo, { P } },
	{ "times", SYS_times, { P } },
	{ "getrusage", SYS_getrusage, { 0, P } },
	{ "prlimit64", SYS_prlimit64, { 0, 4, 0, P } },
	{ "prlimit64 set", SYS_prlimit64, { 0, 4, P, 0 } },
	{ "gettimeofday", SYS_gettimeofday, { P, 0 } },
	{ "clock_gettime", SYS_clock_gettime, { 1, P } },
	{ "clock_getres", SYS_clock_getres, { 1, P } },
	{ "nanosleep", SYS_nanosleep, { P, 0 } },
	{ "clock_nanosleep", SYS_clock_nanosleep, { 1, 0, P, 0 } },
	{ "time", SYS_time, { P } },
	{ "getrandom", SYS_getrandom, { P, 5000, 0 } },
	{ "getgroups", SYS_getgroups, { 65536, P } },
	{ "setgroups", SYS_setgroups, { 3, P } },
	{ "getresuid", SYS_getresuid, { P, P, P } },
	{ "capget", SYS_capget, { P, P } },
	{ "sched_getaffinity", SYS_sched_getaffinity, { 0, 128, P } },
	{ "sched_setaffinity", SYS_sched_setaffinity, { 0, 128, P } },
	{ "sched_getparam", SYS_sched_getparam, { 0, P } },
	{ "sched_getattr", SYS_sched_getattr, { 0, P, 48, 0 } },
	{ "rt_sigaction", SYS_rt_sigaction, { SIGUSR2, 0, P, 8 } },
	{ "rt_sigaction set", SYS_rt_sigaction, { SIGUSR2, P, 0, 8 } },
	{ "rt_sigprocmask", SYS_rt_sigprocmask, { 0, 0, P, 8 } },
	{ "rt_sigprocmask set", SYS_rt_sigprocmask, { 0, P, 0, 8 } },
	{ "rt_sigpending", SYS_rt_sigpending, { P, 8 } },
	{ "rt_sigtimedwait", SYS_rt_sigtimedwait, { P, 0, ZEROS, 8 } },
	{ "sigaltstack", SYS_sigaltstack, { 0, P } },
	{ "sigaltstack set", SYS_sigaltstack, { P, 0 } },
	{ "wait4", SYS_wait4, { -1, P, 1, 0 } },
	{ "waitid", SYS_waitid, { 0, 0, P, 5, P } },
	{ "pipe", SYS_pipe, { P } },
	{ "socketpair", SYS_socketpair, { AF_UNIX, SOCK_STREAM, 0, P } },
	{ "getsockname", SYS_getsockname, { SOCK, P, GOOD } },
	{ "getsockname length", SYS_getsockname, { SOCK, GOOD, P } },
	{ "getsockopt", SYS_getsockopt, { SOCK, SOL_SOCKET, SO_TYPE, P, GOOD } },
	{ "setsockopt", SYS_setsockopt, { SOCK, SOL_SOCKET, SO_SNDBUF, P, 4 } },
	{ "bind", SYS_bind, { SOCK, P, 16 } },
	{ "connect", SYS_connect, { NUL, P, 16 } },
	{ "sendto", SYS_sendto, { SOCK, P, 1000, MSG_DONTWAIT, 0, 0 } },
	{ "recvfrom", SYS_recvfrom, { SOCK, P, 1000, MSG_DONTWAIT, 0, 0 } },
	{ "sendmsg", SYS_sendmsg, { SOCK, P, MSG_DONTWAIT } },
	{ "recvmsg", SYS_recvmsg, { SOCK, P, MSG_DONTWAIT } },
	{ "sendmmsg", SYS_sendmmsg, { SOCK, P, 2, MSG_DONTWAIT } },
	{ "recvmmsg", SYS_recvmmsg, { SOCK, P, 2, MSG_DONTWAIT, 0 } },
	{ "ioctl FIONREAD", SYS_ioctl, { PIPE_R, FIONREAD, P } },
	{ "ioctl FIONBIO", SYS_ioctl, { SOCK, FIONBIO, P } },
	{ "fcntl lock", SYS_fcntl, { FILE_, F_GETLK, P } },
	{ "poll", SYS_poll, { P, 2, 0 } },
	{ "ppoll", SYS_ppoll, { P, 2, ZEROS, 0, 8 } },
	{ "ppoll mask", SYS_ppoll, { GOOD, 0, ZEROS, P, 8 } },
	{ "select", SYS_select, { 20, P, 0, 0, ZEROS } },
	{ "epoll_ctl", SYS_epoll_ctl, { EPOLL, EPOLL_CTL_ADD, PIPE_W, P } },
	{ "epoll_wait", SYS_epoll_wait, { EPOLL, P, 3, 0 } },
	{ "timerfd_settime", SYS_timerfd_settime, { TIMER, 0, P, 0 } },
	{ "timerfd_gettime", SYS_timerfd_gettime, { TIMER, P } },
	{ "setitimer", SYS_setitimer, { 1, P, 0 } },
	{ "getitimer", SYS_getitimer, { 1, P } },
	{ "timer_create", SYS_timer_create, { 1, 0, P } },
	{ "futex wake", SYS_futex, { P, FUTEX_WAKE, 1, 0, 0, 0 } },
	{ "futex wait", SYS_futex, { P, FUTEX_WAIT, 77, 0, 0, 0 } },
	{ "futex wake op", SYS_futex, { GOOD, FUTEX_WAKE_OP, 1, 1, P, 0 } },
	{ "futex requeue", SYS_futex, { P, FUTEX_CMP_REQUEUE, 1, 1, P, 77 } },
	{ "futex lock pi", SYS_futex, { P, FUTEX_TRYLOCK_PI, 0, 0, 0, 0 } },
	{ "set_tid_address", SYS_set_tid_address, { 0 } },
	{ "get_robust_list", SYS_get_robust_list, { 0, P, P } },
	{ "mincore", SYS_mincore, { GOOD, PAGE, P } },
	{ "mincore of", SYS_mincore, { P, PAGE, GOOD } },
	{ "madvise", SYS_madvise, { P, PAGE, MADV_NORMAL } },
	{ "msync", SYS_msync, { P, PAGE, MS_ASYNC } },
	{ "mlock", SYS_mlock, { P, PAGE } },
	{ "process_vm_readv", SYS_process_vm_readv, { SELF, P, 2, IOV, 2, 0 } },
	{ "process_vm_writev", SYS_process_vm_writev, { SELF, IOV, 2, P, 2, 0 } },
	{ "vmsplice", SYS_vmsplice, { PIPE_W, IOV, 2, 2 } },
	{ "splice offset", SYS_splice, { FILE_, P, PIPE_W, 0, 10, 2 } },
	{ "sendfile offset", SYS_sendfile, { SOCK, FILE_, P, 10 } },
	{ "copy_file_range", SYS_copy_file_range, { FILE_, P, NUL, 0, 10, 0 } },
	{ "execve", SYS_execve, { P, 0, 0 } },
	{ "execve argv", SYS_execve, { PATH, P, 0 } },
	{ "execve envp", SYS_execve, { PATH, 0, P } },
	{ "prctl name", SYS_prctl, { 16, P } },
	{ "arch_prctl", SYS_arch_prctl, { 0x1003, P } },
	{ "personality", SYS_personality, { 0xffffffff } },
	{ "memfd_create", SYS_memfd_create, { P, 0 } },
	{ "io_setup", SYS_io_setup, { 1, P } },
	{ "mq_open", SYS_mq_open, { P, 0 } },
	{ "shmctl", SYS_shmctl, { 0, 14, P } },
	{ "getcpu", SYS_getcpu, { P, 0, 0 } },
	{ "clone3", SYS_clone3, { P, 88 } },
	{ "mount", SYS_mount, { P, PATH, GOOD, 0, 0 } },
	{ "bpf", SYS_bpf, { 0, P, 48 } },
	{ "sysfs", SYS_sysfs, { 2, 0, P } },
};

static struct {
	int zero, null, file, dir, pipe[2], sock[2], epoll, timer, event;
	char *good, *readonly, *none, *unmapped, *edge, *edge_ro;
	struct iovec iov[2];
} env;

static int make_file(void)
{
	char name[] = "/tmp/faults-XXXXXX", page[PAGE];
	int fd = mkstemp(name);

	if (fd < 0)
		die(name);
	unlink(name);
	for (int i = 0; i < 4; i++) {
		memset(page, 'a' + i, sizeof(page));
		if (write(fd, page, sizeof(page)) != sizeof(page))
			die("write");
	}
	return fd;
}

static void prepare(void)
{
	char *p = map(16 * PAGE, PROT_READ | PROT_WRITE);

	env.zero = open("/dev/zero", O_RDWR);
	env.null = open("/dev/null", O_RDWR);
	env.file = make_file();
	env.dir = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
	env.epoll = epoll_create1(0);
	env.timer = syscall(SYS_timerfd_create, 1, 0);
	env.event = syscall(SYS_eventfd2, 5, 04000);
	if (pipe2(env.pipe, O_NONBLOCK) || socketpair(AF_UNIX, SOCK_DGRAM, 0, env.sock))
		die("prepare");
	memset(p, 0, 16 * PAGE);
	env.good = p;
	env.readonly = p + 4 * PAGE;
	env.none = p + 6 * PAGE;
	env.unmapped = p + 8 * PAGE;
	env.edge = p + 12 * PAGE;
	env.edge_ro = p + 14 * PAGE;
	mprotect(env.readonly, 2 * PAGE, PROT_READ);
	mprotect(env.none, 2 * PAGE, PROT_NONE);
	munmap(env.unmapped, 2 * PAGE);
	munmap(env.edge + PAGE, PAGE);
	mprotect(env.edge_ro + PAGE, PAGE, PROT_READ);
}

/* Everything as it was before the last try. */
static void renew(void *ptr)
{
	char buf[65536];
	int i, fd;

	/* What the last call may have opened, once it is no more needed. */
	for (fd = env.event + 1; fd < env.event + 20; fd++)
		if (fd != env.pipe[0] && fd != env.pipe[1] && fd != env.sock[0] && fd != env.sock[1])
			close(fd);
	while (read(env.pipe[0], buf, sizeof(buf)) > 0)
		;
	while (recv(env.sock[0], buf, sizeof(buf), MSG_DONTWAIT) > 0 ||
	       recv(env.sock[1], buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	if (write(env.pipe[1], "pipe", 4) != 4 || write(env.sock[1], "sock", 4) != 4)
		die("renew");
	i = 5;
	if (read(env.event, buf, 8) < 0 && errno != EAGAIN)
		die("event");
	if (write(env.event, &(uint64_t){ i }, 8) != 8)
		die("event");
	lseek(env.file, 0, SEEK_SET);
	lseek(env.dir, 0, SEEK_SET);
	epoll_ctl(env.epoll, EPOLL_CTL_DEL, env.pipe[1], NULL);
	munmap(env.unmapped, 2 * PAGE);
	memset(env.good, 0, PAGE);
	*(int *)env.good = 16;	/* lengths of addresses and options */
	memset(env.edge, 0, PAGE);
	memset(env.edge_ro, 0, PAGE);
	env.iov[0] = (struct iovec){ env.good, 100 };
	env.iov[1] = (struct iovec){ ptr, 2000 };
	errno = 0;
}

static long value(long v, void *ptr)
{
	switch (v) {
	case P: return (long)ptr;
	case ZERO: return env.zero;
	case NUL: return env.null;
	case FILE_: return env.file;
	case DIR_: return env.dir;
	case PIPE_R: return env.pipe[0];
	case PIPE_W: return env.pipe[1];
	case SOCK: return env.sock[0];
	case EPOLL: return env.epoll;
	case TIMER: return env.timer;
	case SELF: return getpid();
	case GOOD: return (long)env.good;
	case ZEROS: return (long)env.good + 1024;
	case IOV: return (long)env.iov;
	case PATH: return (long)"/proc/version";
	case LINK: return (long)"/proc/self/exe";
	case EVENT: return env.event;
	default: return v;
	}
}

static void try(const struct call *c, const char *name, void *ptr)
{
	long a[6], ret;
	unsigned long left;

	renew(ptr);
	for (int i = 0; i < 6; i++)
		a[i] = value(c->a[i], ptr);
	fflush(stdout);
	ret = syscall(c->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (c->nr == SYS_clone3 && !ret)
		_exit(0);
	/* What says who or when we are is left out. */
	left = c->nr == SYS_read || c->nr == SYS_pread64 || c->nr == SYS_readv ? sum(env.edge, PAGE) : 0;
	if (ret > 0 && (c->nr == SYS_times || c->nr == SYS_time || c->nr == SYS_set_tid_address))
		ret = 1;
	if (ret > 0 && (c->nr == SYS_getdents64 || c->nr == SYS_clone3))
		ret = 1;
	printf("%s, %s: %ld %s %lx\n", c->name, name, ret, ret < 0 ? strerrorname_np(errno) : "-", left);
}

static void table(void)
{
	prepare();
	const struct {
		const char *name;
		void *ptr;
	} pointers[] = {
		{ "null", NULL },
		{ "one", (void *)1 },
		{ "unmapped", env.unmapped },
		{ "unmapped, odd", env.unmapped + 4093 },
		{ "forbidden", env.none },
		{ "read-only", env.readonly },
		{ "last byte", env.edge + PAGE - 1 },
		{ "last 3 bytes", env.edge + PAGE - 3 },
		{ "last 8 bytes", env.edge + PAGE - 8 },
		{ "last 100 bytes", env.edge + PAGE - 100 },
		{ "into read-only", env.edge_ro + PAGE - 61 },
		{ "end of user space", (void *)0x7ffffffff000 },
		{ "just below it", (void *)0x7fffffffefff },
		{ "not canonical", (void *)0x8000000000000000 },
		{ "not canonical either", (void *)0x0000800000000000 },
		{ "kernel", (void *)0xffffffff81000000 },
		{ "direct map", (void *)0xffff888000001000 },
		{ "end", (void *)-1 },
		{ "end less 8", (void *)-8 },
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		for (size_t k = 0; k < sizeof(pointers) / sizeof(pointers[0]); k++)
			try(&calls[i], pointers[k].name, pointers[k].ptr);
}

/* --- sleep ------------------------------------------------------------------------- */

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

static void sleeping(void)
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
		n = syscall(SYS_futex, area + 41 * PAGE, FUTEX_WAIT, 0x50505050, &(struct timespec){ 0, 1000 },
			    NULL, 0);
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

/* --- race -------------------------------------------------------------------------- */

#define RACE_SIZE (16 * PAGE)

static char *raced, drained[RACE_SIZE];
static volatile int stop;
static int race_fd;

/* Leaves the lock of the address space to others for a while. */
static void pause_a_little(void)
{
	for (volatile int i = 0; i < 3000; i++)
		;
}

static void *throw_away(void *unused)
{
	while (!stop)
		madvise(raced, RACE_SIZE, MADV_DONTNEED);
	return NULL;
}

static void *protect(void *unused)
{
	while (!stop) {
		mprotect(raced + 4 * PAGE, 2 * PAGE, PROT_NONE);
		pause_a_little();
		mprotect(raced + 4 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE);
		pause_a_little();
	}
	return NULL;
}

static void *remap(void *unused)
{
	while (!stop) {
		mmap(raced + 8 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		pause_a_little();
	}
	return NULL;
}

static void *scribble(void *unused)
{
	while (!stop)
		for (size_t i = 0; i < RACE_SIZE; i += 509)
			*(volatile char *)&raced[i] = 1;
	return NULL;
}

static void race_with(const char *name, void *(*other)(void *), bool whole)
{
	long n, wrong = 0, partial = 0;
	struct timespec now, end;
	pthread_t t;
	int p[2];

	stop = 0;
	if (pipe2(p, O_NONBLOCK) || fcntl(p[1], F_SETPIPE_SZ, RACE_SIZE) < 0)
		die("pipe");
	pthread_create(&t, NULL, other, NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += 1;
	for (int i = 0; i < 300; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec > end.tv_nsec))
			break;
		n = pread(race_fd, raced, RACE_SIZE, 0);
		partial += n != RACE_SIZE;
		/* It may end anywhere: a page is not protected between two others alone. */
		wrong += n < 0 ? errno != EFAULT : n > (long)RACE_SIZE;
		n = write(p[1], raced, RACE_SIZE);
		wrong += n < 0 ? errno != EFAULT : n > (long)RACE_SIZE;
		/* Empties the pipe, with what the other is after as the place for it. */
		while (n > 0) {
			long got = read(p[0], raced, n);

			wrong += got < 0 ? errno != EFAULT || whole : got != n && whole;
			n -= got < 0 ? read(p[0], drained, n) : got;
		}
		/* A write that failed in a page has left a buffer of no bytes behind. */
		while (read(p[0], drained, RACE_SIZE) > 0)
			;
		wrong += access(raced + 4 * PAGE, F_OK) != -1;
	}
	stop = 1;
	pthread_join(t, NULL);
	close(p[0]);
	close(p[1]);
	printf("%s: %ld wrong%s\n", name, wrong, whole && partial ? ", not all read" : "");
}

static void race(void)
{
	race_fd = open("/dev/zero", O_RDONLY);
	raced = map(RACE_SIZE, PROT_READ | PROT_WRITE);
	race_with("thrown away meanwhile", throw_away, true);
	race_with("protected meanwhile", protect, false);
	race_with("mapped anew meanwhile", remap, true);
	race_with("written meanwhile", scribble, true);
}

/* --- misc -------------------------------------------------------------------------- */

static void copy_on_write(void)
{
	char *p = map(8 * PAGE, PROT_READ | PROT_WRITE);
	int fd = make_file(), status;

	memset(p, 7, 8 * PAGE);
	for (int i = 0; i < 5; i++) {
		if (!fork()) {
			bool good = pread(fd, p + 100, 3 * PAGE, 0) == 3 * PAGE && p[99] == 7 && p[100] == 'a';

			_exit(good ? 3 : 4);
		}
		printf("parent, too: %ld\n", (long)pread(fd, p + 5 * PAGE + i, 50, PAGE));
		wait(&status);
		printf("copy on write: %d %lx\n", WEXITSTATUS(status), sum(p, 8 * PAGE));
	}
}

static __attribute__((noinline)) void deep_stack(int fd)
{
	volatile char below[200 * PAGE];

	/* Not touched before: the kernel's own copy grows the stack. */
	printf("stack: %ld", (long)pread(fd, (void *)&below[PAGE], 2 * PAGE, 0));
	printf(" %lx\n", sum((void *)&below[PAGE], 2 * PAGE));
}

static void file_pages(void)
{
	int fd = make_file(), out = open("/dev/null", O_WRONLY), p[2];
	char *m = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	long n;

	if (m == MAP_FAILED || pipe(p))
		die("mmap");
	printf("write from a file's pages: %ld\n", (long)write(p[1], m + 10, 3 * PAGE));
	printf("read into them: %ld\n", (long)read(p[0], m + PAGE, 2 * PAGE));
	printf("they have it: %lx\n", sum(m, 4 * PAGE));
	n = write(p[1], m + 3 * PAGE, 2 * PAGE);
	printf("past the file's end: %ld %s\n", n, n < 0 ? strerrorname_np(errno) : "-");
	printf("to null, which does not look: %ld\n", (long)write(out, m + 3 * PAGE, 3 * PAGE));
	n = pread(fd, m + 6 * PAGE, 100, 0);
	printf("into what is not there: %ld %s\n", n, n < 0 ? strerrorname_np(errno) : "-");
	if (ftruncate(fd, 100))
		die("ftruncate");
	n = write(p[1], m + PAGE, 10);
	printf("cut off: %ld %s\n", n, n < 0 ? strerrorname_np(errno) : "-");
	/* Into the file from its own pages. */
	if (ftruncate(fd, 4 * PAGE))
		die("ftruncate");
	n = pwrite(fd, m, 2 * PAGE, PAGE);
	printf("from itself: %ld %lx\n", n, sum(m, 4 * PAGE));
}

static void program_pages(void)
{
	int fd = open("/proc/self/exe", O_RDONLY), out[2];
	char *m = mmap(NULL, 512 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	long n, all = 0;

	if (m == MAP_FAILED || pipe2(out, O_NONBLOCK))
		die("mmap");
	for (long at = 0; at < 150; at += 3) {
		char back[5 * 4096];

		n = write(out[1], m + at * PAGE + 17, 2 * PAGE);
		all = all * 31 + n;
		n = read(out[0], back, sizeof(back));
		all = all * 31 + (n > 0 ? sum(back, n) : 0);
	}
	printf("a program's pages: %lx\n", all);
}

/* A signal frame whose floating point state cannot be loaded kills. */
static void spoil(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	/* In the legacy area: a reserved bit of MXCSR. */
	((uint32_t *)uc->uc_mcontext.fpregs)[6] = 0xffffffff;
}

static void signal_frames(void)
{
	struct sigaction sa = { .sa_sigaction = spoil, .sa_flags = SA_SIGINFO };
	int status;

	if (!fork()) {
		sigaction(SIGUSR1, &sa, NULL);
		raise(SIGUSR1);
		_exit(0);
	}
	wait(&status);
	printf("a spoilt signal frame: %s\n", WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : "lives");
	if (!fork()) {
		/* And one that cannot be written. */
		stack_t stack = { .ss_sp = (void *)0x10000, .ss_size = 65536 };

		sa.sa_flags |= SA_ONSTACK;
		sigaltstack(&stack, NULL);
		sigaction(SIGUSR1, &sa, NULL);
		raise(SIGUSR1);
		_exit(0);
	}
	wait(&status);
	printf("no place for a signal frame: %s\n",
	       WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : "lives");
}

static void misc(void)
{
	copy_on_write();
	deep_stack(make_file());
	file_pages();
	program_pages();
	signal_frames();
}

int main(int argc, char **argv)
{
	const struct {
		const char *name;
		void (*fn)(void);
	} parts[] = { { "table", table }, { "sleep", sleeping }, { "race", race }, { "misc", misc } };

	setlinebuf(stdout);
	for (int a = 1; a < argc; a++) {
		size_t i = 0;

		while (i < 4 && strcmp(argv[a], parts[i].name))
			i++;
		if (i == 4)
			return 2;
		alarm(300);
		parts[i].fn();
		printf("%s done\n", argv[a]);
	}
	fflush(stdout);
	_exit(argc == 1);
}
