# SPDX-License-Identifier: MIT OR Apache-2.0
"""The system calls behind Python's os, socket, mmap, subprocess and threads."""

import errno
import fcntl
import hashlib
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time


def note(name, *values):
    print(name, *values)


def files():
    with tempfile.TemporaryDirectory(dir=".") as d:
        path = os.path.join(d, "file")
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
        note("pwrite", os.pwrite(fd, b"hello world", 5000), os.pread(fd, 20, 4998))
        note("writev", os.writev(fd, [b"abc", b"", b"defgh" * 1000]), os.lseek(fd, 0, os.SEEK_CUR))
        os.lseek(fd, 0, os.SEEK_SET)
        parts = [bytearray(2), bytearray(5000), bytearray(100)]
        note("readv", os.readv(fd, parts), hashlib.sha1(b"".join(parts)).hexdigest())
        os.posix_fallocate(fd, 0, 20000)
        note("fstat", os.fstat(fd).st_size, oct(os.fstat(fd).st_mode))
        os.ftruncate(fd, 777)
        os.fsync(fd)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        note("flags", fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE)
        dup = os.dup2(fd, 77)
        os.close(fd)
        note("dup", dup, os.fstat(dup).st_size)
        os.close(dup)
        os.rename(path, path + "2")
        os.symlink("file2", path)
        os.link(path + "2", path + "3")
        note("listdir", sorted(os.listdir(d)), os.readlink(path), os.stat(path).st_nlink)
        os.utime(path, ns=(10**18, 10**18 + 1))
        note("utime", os.stat(path).st_mtime_ns)
        for bad in ("nothing", "file2/x"):
            try:
                os.stat(os.path.join(d, bad))
            except OSError as e:
                note("stat", bad, errno.errorcode[e.errno])
        a, b = open(path + "2", "rb"), open(path + "4", "wb")
        note("sendfile", os.sendfile(b.fileno(), a.fileno(), 0, 500))
        note("copy_file_range", os.copy_file_range(a.fileno(), b.fileno(), 100, 0, 500))
        a.close(), b.close()
        note("sizes", os.path.getsize(path + "4"))
    try:
        os.close(1234)
    except OSError as e:
        note("close", errno.errorcode[e.errno])


def memory():
    with tempfile.TemporaryFile(dir=".") as f:
        f.truncate(1 << 20)
        m = mmap.mmap(f.fileno(), 1 << 20)
        for at in range(0, 1 << 20, 4096):
            m[at] = at >> 12 & 0xFF
        m.flush()
        note("mmap", hashlib.md5(m).hexdigest(), hashlib.md5(os.pread(f.fileno(), 1 << 20, 0)).hexdigest())
        m.close()
    m = mmap.mmap(-1, 64 << 12)
    if os.fork() == 0:
        m[5000:5005] = b"child"
        os._exit(7)
    note("shared", os.waitstatus_to_exitcode(os.wait()[1]), m[5000:5005])
    m.madvise(mmap.MADV_DONTNEED)
    m.close()


def sockets():
    server = socket.create_server(("127.0.0.1", 0))
    total = 300_000

    def serve():
        c, _ = server.accept()
        with c:
            got = 0
            while got < total:
                got += len(c.recv(65536))
            c.sendall(b"got %d" % got)
    t = threading.Thread(target=serve)
    t.start()
    with socket.create_connection(server.getsockname()) as c:
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        c.sendall(b"x" * total)
        note("tcp", c.recv(100), c.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0)
    t.join()
    server.close()
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    socket.send_fds(a, [b"fd"], [0])
    message, fds, _, _ = socket.recv_fds(b, 10, 1)
    note("fds", message, len(fds), os.fstat(fds[0]).st_rdev == os.fstat(0).st_rdev)
    os.close(fds[0])
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.bind(("127.0.0.1", 0))
    u.sendto(b"datagram", u.getsockname())
    note("udp", u.recvfrom(100)[0])
    u.settimeout(0.05)
    try:
        u.recv(1)
    except TimeoutError:
        note("udp", "timed out")
    ep = select.epoll()
    ep.register(a, select.EPOLLOUT)
    note("epoll", ep.poll(1)[0][1] == select.EPOLLOUT)
    try:
        socket.create_connection(("127.0.0.1", 1))
    except ConnectionRefusedError:
        note("connect", "refused")


def processes():
    done = subprocess.run(["sh", "-c", "cat; echo err >&2; exit 5"], input=b"in", capture_output=True)
    note("subprocess", done)
    p = subprocess.Popen(["sleep", "100"])
    p.kill()
    note("killed", p.wait())
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        os.setsid()
        os.write(w, b"%d" % (os.getpid() == os.getsid(0)))
        os._exit(0)
    note("fork", os.read(r, 10), os.waitpid(pid, 0)[1])
    seen = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append("alarm"))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    while not seen:
        time.sleep(0.001)
    note("signal", seen)
    note("nice", os.getpriority(os.PRIO_PROCESS, 0), len(os.sched_getaffinity(0)) > 0, os.umask(0o22))
    note("uname", os.uname().sysname, os.getppid() > 0)


def threads():
    lock, total = threading.Lock(), [0]
    barrier = threading.Barrier(6)

    def work(n):
        barrier.wait()
        for i in range(200):
            with lock:
                total[0] += n
            if i % 50 == 0:
                time.sleep(0.0005)
    all_threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in all_threads:
        t.start()
    for t in all_threads:
        t.join()
    note("threads", total[0])


for part in (files, memory, sockets, processes, threads):
    part()
sys.exit(11)
