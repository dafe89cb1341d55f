// SPDX-License-Identifier: GPL-2.0
/* Many system calls, each with every kind of bad pointer (faults.h). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "faults.h"

/* Placeholders in the arguments of a call. */
enum {
	P = 0x7e57000000000000,		/* the pointer */
	ZERO, NUL, FILE_, DIR_, PIPE_R, PIPE_W, SOCK, EPOLL, TIMER, SELF, GOOD, ZEROS, IOV, PATH,
	LINK, EVENT
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
		if (fd != env.pipe[0] && fd != env.pipe[1] && fd != env.sock[0] &&
		    fd != env.sock[1])
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
	/* Results that depend on the process or the time are left out. */
	left = c->nr == SYS_read || c->nr == SYS_pread64 || c->nr == SYS_readv ?
	       sum(env.edge, PAGE) : 0;
	if (ret > 0 && (c->nr == SYS_times || c->nr == SYS_time || c->nr == SYS_set_tid_address))
		ret = 1;
	if (ret > 0 && (c->nr == SYS_getdents64 || c->nr == SYS_clone3))
		ret = 1;
	printf("%s, %s: %ld %s %lx\n", c->name, name, ret, ret < 0 ? strerrorname_np(errno) : "-",
	       left);
}

void table(void)
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
