# SPDX-License-Identifier: MIT OR Apache-2.0
"""A load in parts, whose results depend on nothing but the kernel's right work; the functions of the
kernel that each part reaches; and sessions of `jifl probe` at places of them, by the device.
"""

import ctypes
import fcntl
import glob
import hashlib
import json
import mmap
import os
import re
import resource
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import termios
import threading
import time
import traceback
from bisect import bisect_right
from collections import Counter, defaultdict
from pathlib import Path

from kcore import kernel_memory
from lib import Device, check, run

PROFILE, PROBE = Device.PROFILE, Device.PROBE
TGID, CHILDREN = 1 << 1, 1 << 4
SYSTEM_CALLS = range(335)
HITS = struct.Struct("<QQIIQQQ")
SIDES = {"": 0, "taken": 1, "not-taken": 2}


# --- the load ---------------------------------------------------------------------------------


C = ctypes.CDLL(None, use_errno=True)


def libc(function, *arguments):
    """What the C library's function returns, negative: its error."""
    call = getattr(C, function)
    call.restype = ctypes.c_long
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    got = call(*words)
    return -ctypes.get_errno() if got == -1 else got


def files(directory):
    """Reads, writes, names and locks."""
    path = f"{directory}/a"
    with open(path, "w+b", buffering=0) as f:
        f.write(b"abc" * 3000)
        os.pwrite(f.fileno(), b"xyz", 4000)
        yield os.pread(f.fileno(), 100, 3990), f.seek(-5, os.SEEK_END), f.read(9), os.fstat(f.fileno()).st_size
        os.truncate(path, 5000)
        os.fsync(f.fileno())
        fcntl.lockf(f, fcntl.LOCK_EX)
        with mmap.mmap(f.fileno(), 5000) as m:
            m[7] = 1
            m.flush()
            yield m[:10]
        yield os.preadv(f.fileno(), [bytearray(3), bytearray(9)], 0), os.sendfile(f.fileno(), f.fileno(), 0, 10)
    os.link(path, f"{directory}/b")
    os.symlink("a", f"{directory}/c")
    os.mkdir(f"{directory}/d")
    os.rename(f"{directory}/b", f"{directory}/d/e")
    os.chmod(path, 0o640)
    os.utime(path, (1, 2))
    yield sorted(os.listdir(directory)), os.readlink(f"{directory}/c"), oct(os.stat(path).st_mode), os.stat(path).st_nlink
    yield os.access(path, os.X_OK), os.stat(f"{directory}/c").st_mtime, os.statvfs(directory).f_bsize
    for act in (lambda: os.open(f"{directory}/none", 0), lambda: os.rmdir(directory), lambda: os.mkdir(f"{directory}/d"),
                lambda: os.open(f"{path}/x", 0), lambda: os.read(999, 1)):
        try:
            act()
        except OSError as error:
            yield error.errno
    for name in ("d/e", "c", "a"):
        os.unlink(f"{directory}/{name}")
    os.rmdir(f"{directory}/d")


def channels():
    """Pipes, sockets, and waiting for them."""
    r, w = os.pipe()
    yield os.write(w, b"hello"), select.select([r], [w], [], 0)[0] == [r], os.read(r, 9)
    os.close(r)
    os.close(w)
    with socket.socket(socket.AF_INET) as server, socket.socket(socket.AF_INET) as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())
        with server.accept()[0] as peer:
            client.sendall(b"x" * 2000)
            yield len(peer.recv(2000, socket.MSG_WAITALL)), client.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
    a, b = socket.socketpair()
    with a, b, select.epoll() as poll:
        poll.register(b, select.EPOLLIN)
        a.send(b"dgram")
        yield len(poll.poll(0)), b.recv(9)
    with open(os.memfd_create("m"), "w+b") as f:
        f.write(b"memory")
        yield f.tell()


def tasks():
    """Signals, threads, children, and what is asked of tasks."""
    got = []
    signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.setitimer(signal.ITIMER_REAL, 0)
    yield got, signal.pthread_sigmask(signal.SIG_BLOCK, []), os.getpgid(0) == os.getpgrp(), resource.getrlimit(resource.RLIMIT_NOFILE)
    thread = threading.Thread(target=got.append, args=[2])
    thread.start()
    thread.join()
    yield got, os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0), os.uname().release
    os.sched_yield()
    time.sleep(0.001)
    pid = os.fork()
    if not pid:
        os._exit(len(bytearray(1 << 20)) & 0x7f)
    yield os.waitpid(pid, 0)[1], os.spawnv(os.P_WAIT, "/bin/true", ["true"]), os.getcwd()
    yield Path("/proc/self/comm").read_text(), Path("/proc/self/limits").read_text(), len(Path("/proc/self/maps").read_text()) > 99


def memory(_):
    """Mappings of all kinds, and what is said about them."""
    page = mmap.PAGESIZE
    with mmap.mmap(-1, 16 * page, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as m:
        m[5 * page] = 7
        m.madvise(mmap.MADV_WILLNEED)
        m.madvise(mmap.MADV_DONTNEED, 4 * page, 4 * page)
        yield m[5 * page], m.find(b"\7")
        at = ctypes.addressof(ctypes.c_char.from_buffer(m))
        yield libc("mprotect", at, page, 1), libc("mlock", at + page, page), libc("munlock", at + page, page)
        vector = ctypes.create_string_buffer(16)
        yield libc("mincore", at, 4 * page, vector)
        yield libc("mprotect", at, page, 3)
    at = libc("mmap", 0, 4 * page, 3, 0x22, -1, 0)
    ctypes.memset(at, 3, 4 * page)
    grown = libc("mremap", at, 4 * page, 4096 * page, 1)
    yield ctypes.string_at(grown + 3 * page, 2), libc("madvise", grown, 4096 * page, 14), libc("madvise", grown, 4 * page, 12)
    yield libc("munmap", grown, 4096 * page)
    with mmap.mmap(-1, 2 * page) as shared:
        pid = os.fork()
        if not pid:
            shared[page] = 9
            os._exit(0)
        yield os.waitpid(pid, 0)[1], shared[page]


def ipc(_):
    """System V's and POSIX's queues, semaphores, shared memory, keys."""
    queue = libc("msgget", 0, 0o600)
    message = ctypes.create_string_buffer(struct.pack("<q8s", 3, b"message"))
    yield libc("msgsnd", queue, message, 8, 0), libc("msgrcv", queue, message, 8, 0, 0), message.raw[8:15], libc("msgctl", queue, 0, 0)
    semaphores = libc("semget", 0, 2, 0o600)
    up = ctypes.create_string_buffer(struct.pack("<HhhHhh", 0, 2, 0, 1, 1, 0))
    yield libc("semop", semaphores, up, 2), libc("semctl", semaphores, 0, 12, 0), libc("semctl", semaphores, 0, 0, 0)
    memory_ = libc("shmget", 0, 8192, 0o600)
    at = libc("shmat", memory_, 0, 0)
    ctypes.memset(at, 5, 10)
    yield ctypes.string_at(at, 3), libc("shmdt", at), libc("shmctl", memory_, 0, 0)
    yield libc("syscall", 248, b"user", b"jifl", b"payload", 7, -3) > 0, libc("syscall", 250, 0, -3, 0) > 0


def notices(directory):
    """Descriptors that tell of events: inotify, eventfd, timerfd, signalfd, pidfd, epoll."""
    watch = libc("inotify_init1", 0)
    libc("inotify_add_watch", watch, directory.encode(), 0x100 | 0x200)
    with open(f"{directory}/noticed", "w") as f:
        f.write("x")
    os.unlink(f"{directory}/noticed")
    yield len(os.read(watch, 4096))
    event = libc("eventfd", 3, 0)
    os.write(event, struct.pack("<Q", 4))
    yield os.read(event, 8)
    timer = libc("timerfd_create", 1, 0)
    libc("timerfd_settime", timer, 0, ctypes.create_string_buffer(struct.pack("<4q", 0, 0, 0, 1000000)), 0)
    yield len(os.read(timer, 8))
    mask = ctypes.create_string_buffer(struct.pack("<Q", 1 << (signal.SIGUSR2 - 1)).ljust(128, b"\0"))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    signals = libc("signalfd", -1, mask, 0)
    os.kill(os.getpid(), signal.SIGUSR2)
    yield os.read(signals, 128)[0]
    pid = os.fork()
    if not pid:
        os._exit(3)
    pidfd = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    yield len(poll.poll()), os.waitid(os.P_PIDFD, pidfd, os.WEXITED).si_status
    poll = select.epoll()
    for fd in (event, timer, signals, watch):
        poll.register(fd, select.EPOLLIN | select.EPOLLET)
    os.write(event, struct.pack("<Q", 1))
    yield len(poll.poll(1))
    poll.close()
    for fd in (watch, event, timer, signals, pidfd):
        os.close(fd)


def network(_):
    """Datagrams, IPv6, netlink, options, descriptors and credentials passed."""
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as a, socket.socket(family, socket.SOCK_DGRAM) as b:
                a.bind((address, 0))
                b.connect(a.getsockname())
                b.send(b"x" * 3000)
                yield len(a.recv(4000)), b.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        except OSError as error:
            yield error.errno
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as route:
        for kind in (18, 22, 26):
            route.send(struct.pack("<IHHIIB3x", 20, kind, 0x301, 1, 0, 0))
            yield len(route.recv(1 << 16)) > 0
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with a, b:
        socket.send_fds(b, [b"fd"], [1])
        data, fds, _, _ = socket.recv_fds(a, 10, 2)
        yield data, len(fds)
        for fd in fds:
            os.close(fd)
        a.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        b.send(b"who")
        yield len(a.recvmsg(10, 100)[1])
        a.shutdown(socket.SHUT_RDWR)
        yield b.recv(1)
    with socket.create_server(("127.0.0.1", 0), backlog=2) as server:
        server.settimeout(5)
        with socket.create_connection(server.getsockname()) as client, server.accept()[0] as peer:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for size in (1, 1500, 40000):
                client.sendall(b"y" * size)
                yield len(peer.recv(size, socket.MSG_WAITALL))
            with open("/etc/services", "rb") as f:
                sent = os.sendfile(client.fileno(), f.fileno(), 0, 5000)
            yield sent, len(peer.recv(sent, socket.MSG_WAITALL))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        yield server.getsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT)
    try:
        socket.create_connection(("127.0.0.1", 1), 1)
    except OSError as error:
        yield error.errno


def asked(_):
    """What the kernel says of itself: /proc, /sys, and files that are made when they are read."""
    read = 0
    for pattern in ("/proc/[a-z]*", "/proc/self/*", "/proc/net/*", "/proc/sys/vm/*", "/proc/sys/kernel/[a-m]*", "/proc/sysvipc/*",
                    "/sys/kernel/*", "/sys/block/*/*", "/sys/devices/system/cpu/cpu0/*", "/sys/class/net/lo/*"):
        for path in sorted(glob.glob(pattern)):
            # Those wait, or are as long as memory.
            if os.path.isdir(path) or re.search(r"kmsg|kcore|kpage|pagemap|kallsyms|/mem$|clear_refs|latency|sysrq", path):
                continue
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                read += len(os.read(fd, 1 << 14)) > 0
            except OSError:
                pass
            os.close(fd)
    yield read > 100, len(os.listdir("/proc/self/task")), os.readlink("/proc/self/fd/0") != ""


def mounts(directory):
    """File systems come and go, with attributes, links and locks in them; namespaces."""
    yield libc("unshare", 0x00020000 | 0x04000000 | 0x08000000), libc("mount", b"none", b"/", 0, 1 << 18 | 1 << 14, 0)
    at = directory.encode() + b"/m"
    os.mkdir(at)
    for kind, options in ((b"tmpfs", b"size=1m"), (b"proc", None), (b"ramfs", None), (b"devpts", b"newinstance"), (b"mqueue", None)):
        made = libc("mount", b"none", at, kind, 0, options)
        yield kind, made
        if made:
            continue
        if kind in (b"tmpfs", b"ramfs"):
            path = at.decode() + "/f"
            with open(path, "w+b") as f:
                f.write(b"q" * 9000)
                f.flush()
                yield libc("fallocate", f.fileno(), 0, 0, 20000), f.seek(0, os.SEEK_END), os.fstat(f.fileno()).st_blocks > 0
            try:
                os.setxattr(path, "trusted.x", b"1")
                yield os.getxattr(path, "trusted.x"), os.listxattr(path)
            except OSError as error:
                yield error.errno
            os.mkfifo(f"{path}.fifo")
            os.mknod(f"{path}.node", 0o020600, os.makedev(1, 3))
            with open(f"{path}.node", "wb") as null:
                yield null.write(b"x")
            yield sorted(os.listdir(at))
        yield len(os.listdir(at)) >= 0, os.statvfs(at).f_namemax
        yield libc("mount", at, at, 0, 4096, 0), libc("umount2", at, 0), libc("umount2", at, 2)
    os.rmdir(at)


def scheduling(_):
    """Classes, affinity, limits, groups, futexes of many threads, timers and clocks."""
    yield os.sched_getscheduler(0), libc("setpriority", 0, 0, 1), os.getpriority(os.PRIO_PROCESS, 0), libc("setpriority", 0, 0, 0)
    for policy, priority in ((os.SCHED_FIFO, 3), (os.SCHED_BATCH, 0), (os.SCHED_IDLE, 0), (os.SCHED_OTHER, 0)):
        os.sched_setscheduler(0, policy, os.sched_param(priority))
        yield os.sched_getscheduler(0)
    every = os.sched_getaffinity(0)
    for cpu in sorted(every):
        os.sched_setaffinity(0, {cpu})
        yield os.sched_getaffinity(0)
    os.sched_setaffinity(0, every)
    turn, done = threading.Condition(), []

    def one(number):
        with turn:
            turn.wait_for(lambda: len(done) == number, 20)
            done.append(number)
            turn.notify_all()

    threads = [threading.Thread(target=one, args=[number]) for number in range(4)]
    for thread in reversed(threads):
        thread.start()
    for thread in threads:
        thread.join()
    yield done
    signal.signal(signal.SIGALRM, lambda *_: done.append("alarm"))
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    signal.sigtimedwait([signal.SIGUSR2], 0.05)
    time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)
    yield done[-1], time.clock_getres(time.CLOCK_MONOTONIC), libc("prctl", 15, b"reached", 0, 0, 0), libc("prctl", 3, 0, 0, 0, 0)
    yield resource.getrusage(resource.RUSAGE_SELF).ru_nsignals, os.times().user >= 0, os.getgroups(), os.getsid(0) > 0
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    yield resource.prlimit(0, resource.RLIMIT_STACK)


def watched(_):
    """A child that is traced, terminals, moved data, software events, seccomp, a core of a signal."""
    pid = os.fork()
    if not pid:
        libc("ptrace", 0, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.getppid()
        os._exit(5)
    yield os.waitpid(pid, 0)[1]
    word = ctypes.create_string_buffer(512)
    yield libc("ptrace", 12, pid, 0, word), libc("ptrace", 9, pid, 0, 0), os.waitpid(pid, 0)[1], libc("ptrace", 7, pid, 0, 0)
    yield os.waitpid(pid, 0)[1]
    main_, other = os.openpty()
    os.write(main_, b"line\n")
    yield os.read(other, 10), os.isatty(other), os.get_terminal_size(other), termios.tcgetattr(other)[6][0]
    os.write(other, b"out\n")
    echoed = b""
    while not echoed.endswith(b"out\r\n"):
        echoed += os.read(main_, 20)
    yield echoed
    os.close(main_)
    os.close(other)
    r, w = os.pipe()
    with open("/etc/services", "rb") as f:
        yield os.splice(f.fileno(), w, 100), len(os.read(r, 100)), libc("fcntl", w, 1031, 1 << 17), libc("fcntl", w, 1032)
    attr = ctypes.create_string_buffer(struct.pack("<IIQ", 1, 64, 9).ljust(64, b"\0"))
    event = libc("syscall", 298, attr, 0, -1, -1, 0)
    yield event > 0 and len(os.read(event, 8)), libc("ioctl", event, 0x2401, 0)
    os.close(event)
    for fd in (r, w):
        os.close(fd)
    for number in (signal.SIGSEGV, signal.SIGTERM):
        pid = os.fork()
        if not pid:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        yield os.waitpid(pid, 0)[1]
    pid = os.fork()
    if not pid:
        libc("prctl", 22, 1, 0, 0, 0)
        libc("syscall", 110)
    yield os.waitpid(pid, 0)[1] & 0x7f
    yield os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-c", "echo a | cat >/dev/null; exit 3"]), os.umask(0o22), os.getrandom(0)


def disk(directory):
    """A file system on a device that is a file, a second one over it."""
    def shell(words):
        return os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-ec", f"cd {directory}; exec >/dev/null 2>&1; {words}"])

    yield libc("unshare", 0x00020000), libc("mount", b"none", b"/", 0, 1 << 18 | 1 << 14, 0)
    yield shell("mount -t tmpfs none .")
    yield shell("modprobe loop; modprobe ext4; modprobe overlay; mkdir m o u w; truncate -s 6M i; mkfs.ext4 -q -F i; mount -o loop i m")
    at = f"{directory}/m"
    for number in range(20):
        with open(f"{at}/{number}", "wb") as f:
            f.write(bytes([number]) * 700 * number)
    with open(f"{at}/19", "r+b") as f:
        yield libc("fallocate", f.fileno(), 3, 4096, 4096), os.fsync(f.fileno()), f.read(5000)[-3:], libc("fdatasync", f.fileno())
    os.setxattr(f"{at}/3", "user.name", b"value")
    os.link(f"{at}/4", f"{at}/four")
    os.symlink("4", f"{at}/vier")
    os.rename(f"{at}/5", f"{at}/5a")
    os.truncate(f"{at}/18", 100)
    os.mkdir(f"{at}/d")
    for number in range(6, 16):
        os.rename(f"{at}/{number}", f"{at}/d/{number}")
    yield sorted(os.listdir(at)), os.getxattr(f"{at}/3", "user.name"), os.stat(f"{at}/18").st_size, os.statvfs(at).f_files
    yield shell("mount -t overlay -o lowerdir=m,upperdir=u,workdir=w none o; echo x >>o/4; rm o/vier; mv o/d/6 o/six; ls o; umount o")
    yield os.stat(f"{directory}/u/4").st_size, shell("rm -r m/d; umount m; mount -o loop,ro i m; cat m/four; umount m"), shell("fsck.ext4 -fn i; cd /; umount -l $OLDPWD")


def programs(_):
    """Programs of BPF, packets, asynchronous input, control groups, network devices."""
    attr = struct.pack("<4I", 1, 4, 8, 4).ljust(72, b"\0")
    table = libc("syscall", 321, 0, attr, 72)
    key, value = ctypes.create_string_buffer(b"\1\0\0\0", 4), ctypes.create_string_buffer(b"\7" * 8, 8)
    element = struct.pack("<I4xQQQ", table, ctypes.addressof(key), ctypes.addressof(value), 0).ljust(72, b"\0")
    yield libc("syscall", 321, 2, element, 72), libc("syscall", 321, 1, element, 72), value.raw, libc("syscall", 321, 3, element, 72)
    # r0 = *(u32 *)(r1 + 0); if (r0 > 5) r0 += 1; return r0
    code = struct.pack("<" + "BBhi" * 4, 0x61, 0x10, 0, 0, 0x25, 0, 1, 5, 0x07, 0, 0, 1, 0x95, 0, 0, 0)
    code, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    load = struct.pack("<IIQQ", 1, 4, ctypes.addressof(code), ctypes.addressof(licence)).ljust(72, b"\0")
    program = libc("syscall", 321, 5, load, 72)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as a, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as b:
        a.bind(("127.0.0.1", 0))
        a.setsockopt(socket.SOL_SOCKET, 50, struct.pack("i", program))
        b.connect(a.getsockname())
        b.send(b"x" * 30)
        yield table > 0, program > 0, len(a.recv(100))
    for fd in (table, program):
        os.close(fd)
    context = ctypes.c_ulong()
    yield libc("syscall", 206, 4, ctypes.byref(context))
    with open("/etc/services", "rb") as f:
        room = ctypes.create_string_buffer(64)
        block = ctypes.create_string_buffer(struct.pack("<QIIHhIQQq", 1, 0, 0, 0, 0, f.fileno(), ctypes.addressof(room), 64, 0), 64)
        blocks, events = (ctypes.c_void_p * 1)(ctypes.addressof(block)), ctypes.create_string_buffer(32)
        yield libc("syscall", 209, context.value, 1, blocks), libc("syscall", 208, context.value, 1, 1, events, 0)
        yield events.raw[16] == 64, libc("syscall", 207, context.value)
    yield libc("unshare", 0x40000000 | 0x00020000)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as raw:
        yield os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-c", """exec >/dev/null 2>&1; ip link set lo up; ip addr add 10.9.9.1/24 dev lo
            ip link add v0 type veth peer name v1; ip link set v0 up; ip route add 10.8.8.0/24 via 10.9.9.2; ip -s link; ip rule
            ip route get 10.8.8.8; ip neigh; ip link del v0; ip tuntap add t0 mode tun; ip link del t0; true"""])
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as ping:
            ping.setsockopt(socket.SOL_IP, socket.IP_TTL, 3)
            ping.sendto(struct.pack(">BBHHH", 8, 0, 0xf7fe, 0, 1), ("127.0.0.1", 0))
            yield len(ping.recv(100)), raw.getsockname()[1]
    at = tempfile.mkdtemp().encode()
    made = libc("mount", b"none", at, b"cgroup2", 0, 0)
    yield made
    if not made:
        group = at.decode() + "/reached"
        os.mkdir(group)
        Path(f"{group}/cgroup.procs").write_text(str(os.getpid()))
        yield Path("/proc/self/cgroup").read_text().splitlines()[-1], len(os.listdir(group)) > 5
        Path(f"{group}/cgroup.freeze").write_text("0")
        Path(f"{at.decode()}/cgroup.procs").write_text(str(os.getpid()))
        os.rmdir(group)
        yield libc("umount2", at, 0)


# What one child does after the other: each call of a part is in a process of its own.
PARTS = {"files": files, "channels": lambda _: channels(), "tasks": lambda _: tasks(), "memory": memory, "ipc": ipc, "notices": notices,
         "network": network, "asked": asked, "mounts": mounts, "scheduling": scheduling,
         "watched": watched, "disk": disk, "programs": programs}


def work(part, directory):
    """What a part yields depends on nothing but the kernel's right work."""
    return repr(list(PARTS[part](directory)))


class Load:
    """A process that has a child do a part whenever it is told to, and says a digest of the results."""

    FAILED = b"!" * 40

    def __init__(self):
        go, self.go = os.pipe()
        self.said, say = os.pipe()
        self.pid = os.fork()
        if self.pid:
            return
        while number := os.read(go, 1):
            directory = tempfile.mkdtemp()
            child = os.fork()
            if not child:
                try:
                    said = work(list(PARTS)[number[0]], directory)
                    os.write(say, hashlib.sha1(said.encode()).hexdigest().encode())
                    # To look at what a part does.
                    if "REACHED_SAYS" in os.environ:
                        print(said, file=sys.stderr, flush=True)
                except BaseException:
                    traceback.print_exc()
                    os.write(say, Load.FAILED)
                os._exit(0)
            os.waitpid(child, 0)
            shutil.rmtree(directory, ignore_errors=True)
        os._exit(0)

    def turn(self, part):
        os.write(self.go, bytes([list(PARTS).index(part)]))
        return os.read(self.said, 40)


# --- what it reaches --------------------------------------------------------------------------


def that_are():
    """Lines of /proc/kallsyms, without functions of modules' beginnings, which the kernel has freed.

    If they could be traced, it still has their names: behind all modules, while the lines of a
    module follow each other.
    """
    kept, seen, last = [], set(), None
    for line in Path("/proc/kallsyms").read_text().splitlines():
        module = line.partition("\t")[2]
        if module != last and module in seen:
            continue
        last = module
        seen.add(module)
        kept.append(line)
    return "\n".join(kept)


class Names:
    """Functions of the kernel and of its modules whose name is theirs alone."""

    def __init__(self):
        # What BPF has compiled is no function of theirs, and the module does not instrument itself.
        found = re.findall(r"^(\w+) [tTwW] (\S+)(?:\t\[(?!jifl|bpf|ftrace|kprobe|__builtin)\S+\])?$", that_are(), re.M)
        often = Counter(name for _, name in found)
        self.starts = sorted({int(address, 16) for address, _ in found})
        self.names = {int(address, 16): name for address, name in found if often[name] == 1}
        traced = Path("/sys/kernel/tracing/available_filter_functions").read_text().splitlines()
        self.doors = {line.partition(" ")[0] for line in traced}

    def start(self, address):
        return self.starts[bisect_right(self.starts, address) - 1]

    def name(self, start):
        """The function's name, if it can be swept."""
        name = self.names.get(start, "")
        return "" if ".cold" in name or name.startswith("__pfx") else name


def system_calls(device, **filters):
    device.start_of(PROFILE, [Device.target(nr) for nr in SYSTEM_CALLS], **filters)


def reached(load, names, part):
    """(with a door, without): addresses of functions that a part of the load executes, in order."""
    with Device() as device:
        system_calls(device, filters=TGID | CHILDREN, tgid=load.pid)
        load.turn(part)
        device.stop()
        counts, _ = device.counts()
    starts = sorted({names.start(count.orig) for count in counts if count.executed})
    starts = [start for start in starts if names.name(start)]
    return ([start for start in starts if names.name(start) in names.doors],
            [start for start in starts if names.name(start) not in names.doors])


# Sessions with more places have breakpoints of the module's own.
OWN = Path("/sys/module/jifl/parameters/own_breakpoints")


def instructions(starts):
    """Addresses of instructions by the function that each of these is."""
    # To find out what is refused each place gets its breakpoint once. Kprobes would take minutes.
    OWN.write_text("0")
    end = run("jifl", "probe", *(f"fn:{start:#x} insn" for start in starts), "--list", "--yes", "-f", "json")
    check("instructions are listed", end.returncode == 0, end.stderr[-1500:])
    found = defaultdict(list)
    for one in json.loads(end.stdout)["list"]:
        found[int(one["function"], 16)].append(int(one["address"], 16))
    return found


# Entries of the kernel's tables of static keys and static calls (include/linux/jump_label.h,
# static_call_types.h): their sizes, between these symbols. Each begins with where its code is,
# relative to itself.
PATCHED = ((16, "__start___jump_table", "__stop___jump_table"), (8, "__start_static_call_sites", "__stop_static_call_sites"))


def patched():
    """Addresses of the core's static keys and static calls."""
    symbols = {name: int(at, 16) for at, name in re.findall(r"^(\w+) . (\S+)$", Path("/proc/kallsyms").read_text(), re.M)}
    found = []
    for size, begin, end in PATCHED:
        start = symbols[begin]
        table, = kernel_memory([(start, symbols[end] - start)])
        found += [start + at + struct.unpack_from("<i", table, at)[0] for at in range(0, len(table), size)]
    return sorted(found)


def led(starts, names):
    """By function: static keys and static calls, and what leads to each: addresses, and SPLICE_*."""
    some = [at for at in patched() if names.start(at) in starts]
    if not some:
        return {}
    end = run("jifl", "probe", *(f"{at:#x}" for at in some), "--list", "--yes", "-f", "json")
    check("what leads to static keys is listed", end.returncode == 0, end.stderr[-1500:])
    found = defaultdict(dict)
    for one in json.loads(end.stdout)["list"]:
        leads = [lead.partition(":") for lead in one.get("leads", [])]
        if leads:
            found[int(one["function"], 16)][int(one["address"], 16)] = [(int(at, 16), SIDES[side]) for at, _, side in leads]
    return found


# --- sessions ---------------------------------------------------------------------------------


def hits(device, number):
    """(hits, caught) by place; what the session could not count; threads led into the cache."""
    buffer = ctypes.create_string_buffer(HITS.size * number)
    answer = device.table(PROBE, HITS.size, 0, number, ctypes.addressof(buffer))
    n, moved, missed = struct.unpack_from("<16xI4x8xQQ", answer)
    rows = [HITS.unpack_from(buffer, HITS.size * index) for index in range(n)]
    return [row[0] for row in rows], [row[1] for row in rows], sum(row[2] for row in rows) + missed, moved


def start_places(device, of):
    """Starts the session of all places; takes out what the module refuses. The places, in order.

    A place is an address, or an address and a side of the branch there.
    """
    def whole(place):
        return place if isinstance(place, tuple) else (place, 0)

    targets = list(of)
    while True:
        places = [(place, index) for index, start in enumerate(targets) for place in of[start]]
        places.sort(key=lambda one: whole(one[0]))
        splices = [Device.splice(whole(place)[0], index, whole(place)[1]) for place, index in places]
        try:
            device.start_of(PROBE, [Device.target(0, Device.FUNCTION, Device.ONLY, start) for start in targets], splices=splices)
            return [(address, targets[index]) for address, index in places]
        except OSError:
            bad = {targets[index] for index, why in enumerate(device.refused) if why}
            bad_places = {place[0] for place, why in zip(places, device.refused_splices) if why}
            if not bad and not bad_places:
                raise
            of = {start: [at for at in of[start] if at not in bad_places] for start in targets if start not in bad}
            targets = [start for start in of if of[start]]
            if not targets:
                return []
