# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `jifl probe --record` says is what kprobe events say of the same executions.

usage: values.py

At entries and returns both are told of each execution while the function runs in a copy: the kprobe
events there are ftrace's, and let the copy run. Inside a function a kprobe makes its instruction
native. So there the values in copies are those that kprobes have told before, of the same calls of
functions whose registers depend on nothing else.

Offsets of members are read from the kernel's BTF by a few lines here, and on kernels whose kprobe
events take names of arguments the kernel itself is asked.
"""

import os
import re
import signal
import socket
import struct
import tempfile
from pathlib import Path

from actions import probe, records
from contexts import FILE, MODULE
from lib import check, complaints, figure, kernel_log, log_mark, main, run, same, status
from probe import TRACING, Graphs

BTF = Path("/sys/kernel/btf/vmlinux")
# As expressions and kprobe events name them.
REGISTERS = {"rax": "ax", "rcx": "cx", "rdx": "dx", "rbx": "bx", "rsp": "sp", "rbp": "bp", "rsi": "si", "rdi": "di",
             **{f"r{n}": f"r{n}" for n in range(8, 16)}, "rflags": "flags"}


class Btf:
    """Structures of the kernel's types."""

    STRUCT, BITS_TOLD = 4, 1 << 31

    def __init__(self):
        self.data = BTF.read_bytes()
        head, types, length, strings, _ = struct.unpack_from("<4xIIIII", self.data)
        self.types, self.strings = self.data[head + types:head + types + length], head + strings

    def members(self, name):
        """(offset in bits, width of a bit field, 0: it is none) by name."""
        number = self.data.index(b"\0" + name.encode() + b"\0", self.strings) + 1 - self.strings
        at = -1
        while True:
            at = self.types.index(struct.pack("<I", number), at + 1)
            info, = struct.unpack_from("<I", self.types, at + 4)
            if at % 4 == 0 and info >> 24 & 0x1f == self.STRUCT and info & 0xffff:
                break
        found = {}
        for index in range(info & 0xffff):
            word, _, offset = struct.unpack_from("<III", self.types, at + 12 + 12 * index)
            end = self.data.index(b"\0", self.strings + word)
            bits = offset >> 24 if info & self.BITS_TOLD else 0
            found[self.data[self.strings + word:end].decode()] = (offset & 0xffffff if info & self.BITS_TOLD else offset, bits)
        return found

    def offset(self, structure, member):
        """In bytes."""
        bits, width = self.members(structure)[member]
        same(f"{structure}.{member} is no bit field", (bits % 8, width), (0, 0))
        return bits // 8


class Worker:
    """A process that does this work, and nothing else, when it is told to."""

    def __init__(self, work):
        self.pid = os.fork()
        if not self.pid:
            try:
                os.kill(os.getpid(), signal.SIGSTOP)
                work()
                os.kill(os.getpid(), signal.SIGSTOP)
            finally:
                os._exit(1)
        self.stops()

    def stops(self):
        check("the worker stops", os.WIFSTOPPED(os.waitpid(self.pid, os.WUNTRACED)[1]))

    def works(self):
        os.kill(self.pid, signal.SIGCONT)
        self.stops()

    def ends(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Events:
    """Kprobe events, and what they have written of a process."""

    def __init__(self, pid, **lines):
        self.pid = pid
        self.names = list(lines)
        (TRACING / "kprobe_events").write_text("".join(f"{line.replace(' ', f':values/{name} ', 1)}\n" for name, line in lines.items()))
        (TRACING / "trace").write_text("")
        (TRACING / "events/values/enable").write_text("1")

    def end(self):
        """By event: what it recorded, each a dictionary of words."""
        (TRACING / "events/values/enable").write_text("0")
        profile = {line.split()[0]: int(line.split()[2]) for line in (TRACING / "kprobe_profile").read_text().splitlines()}
        same("kprobe events have missed none", [name for name in self.names if profile[name]], [])
        found = {name: [] for name in self.names}
        for line in (TRACING / "trace").read_text(errors="surrogateescape").splitlines():
            seen = re.match(rf"\s*.*-{self.pid} +\[\d+\] .*?: (\w+): \([^)]*\)(.*)", line)
            if seen and seen[1] in found:
                found[seen[1]].append(dict(re.findall(r' (\w+)=("(?:[^"]*)"|\S+)', seen[2])))
        (TRACING / "kprobe_events").write_text("")
        return found


def number(word):
    return None if word == "(fault)" else int(word, 0)


def text(word):
    return None if word == "(fault)" else word[1:-1]


def compared(name, work, asked, lines, readers, natively=False):
    """The records of a session at places, by their words, are what events say: the same values in the same order.

    readers: by the word of a place its event, and what makes a value of each of the event's words.
    """
    worker = Worker(work)
    # A kprobe that comes to a place of a session is told of nothing.
    events = Events(worker.pid, **lines) if natively else None
    owner = probe(*readers, "-f", "ndjson", "--ring", "4M", "--if", f"tid == {worker.pid}", "--record", asked)
    events = events or Events(worker.pid, **lines)
    worker.works()
    theirs = events.end()
    found, report = records(owner, name)
    worker.ends()
    for place, (event, of) in readers.items():
        ours = [tuple(one["values"][label] for label in of) for one in found if one["place"] == place]
        told = [tuple(read(one[label]) for label, read in of.items()) for one in theirs[event]]
        check(f"{name}, {place}: there are many", len(told) >= 8, told)
        same(f"{name}, {place}: values, in their order", ours, told)
    caught = sum(row["caught"] for row in report["places"])
    # Others' executions are among these.
    check(f"{name}: {'natively' if natively else 'in copies'}", (caught >= len(found)) == natively, report)


# --- in copies, at entries and returns --------------------------------------------------------------


def reads(folder):
    """Reads of files with names of several kinds, at several positions, some of which fail."""
    for name in ("a", "name with spaces", "n" * 200, "\u00e4\u00f6"):
        path = Path(folder) / name
        path.write_bytes(bytes(range(256)) * 5)
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        for size in (1, 100, 1000, 500):
            os.read(fd, size)
        os.close(fd)
    gone = os.open(folder, os.O_RDONLY)
    for _ in range(3):
        try:
            os.read(gone, 7)
        except IsADirectoryError:
            pass
    os.close(gone)


def of_files(btf):
    """Arguments, members through pointers, strings of the kernel and of the process, and results."""
    inode, flags, path = (btf.offset("file", name) for name in ("f_inode", "f_flags", "f_path"))
    ino, mode = btf.offset("inode", "i_ino"), btf.offset("inode", "i_mode")
    dentry = path + btf.offset("path", "dentry")
    name = btf.offset("dentry", "d_name") + btf.offset("qstr", "name")
    events = {
        "read": f"p vfs_read count=%dx:u64 file=%di:x64 pos=+0(%cx):s64 flags=+{flags}(%di):u32 ino=+{ino}(+{inode}(%di)):u64 "
                f"mode=+{mode}(+{inode}(%di)):u16 name=+0(+{name}(+{dentry}(%di))):string low=%dx:u8 word=%dx:u16 half=%di:u32",
        "got": "r200 vfs_read ret=$retval:s64",
        "open": "p do_sys_openat2 dfd=%di:s32 name=+0(%si):ustring flags=+0(%dx):u64 mode=+8(%dx):u64",
    }
    asked = {
        "vfs_read": "count,file=(u64)file,pos=*pos,flags=file->f_flags,ino=file->f_inode->i_ino,mode=file->f_inode->i_mode,"
                    "name=str(file->f_path.dentry->d_name.name),low=dl,word=dx,half=edi",
        "vfs_read%return": "ret=$ret", "do_sys_openat2": "dfd,name=str(filename),flags=how->flags,mode=how->mode",
    }
    readers = {
        "vfs_read": ("read", {**dict.fromkeys("count file pos flags ino mode low word half".split(), number), "name": text}),
        "vfs_read%return": ("got", {"ret": number}),
        "do_sys_openat2": ("open", {"dfd": number, "name": text, "flags": number, "mode": number}),
    }
    with tempfile.TemporaryDirectory() as folder:
        for word, (event, of) in readers.items():
            compared(word, lambda: reads(folder), asked[word], {event: events[event]}, {f"fn:{word}": (event, of)})


def by_the_kernels_names():
    """Where kprobe events take names of arguments and members, the kernel finds them itself."""
    if "<argname>" not in (TRACING / "README").read_text():
        figure("names in kprobe events", "this kernel's take none")
        return
    event = "p vfs_read count=count pos=*pos:s64 flags=file->f_flags:u32 ino=file->f_inode->i_ino:u64 mode=file->f_inode->i_mode:u16"
    asked = "count,pos=*pos,flags=file->f_flags,ino=file->f_inode->i_ino,mode=file->f_inode->i_mode"
    event = event.replace("*pos", "+0(pos)")
    with tempfile.TemporaryDirectory() as folder:
        compared("the kernel's names", lambda: reads(folder), asked, {"read": event},
                 {"fn:vfs_read": ("read", dict.fromkeys("count pos flags ino mode".split(), number))})


def bit_fields(btf):
    """Members that are fields of bits, and their neighbours."""
    sk = btf.offset("socket", "sk")
    members = btf.members("sock")
    names = [name for name, (_, width) in members.items() if width][:4]
    check("sockets have fields of bits", len(names) >= 2, members)
    words = {}
    for name in names:
        offset, width = members[name]
        words[name] = f"+{offset // 32 * 4}(+{sk}(%di)):b{width}@{offset % 32}/32"
    event = "p unix_stream_sendmsg len=%dx:u64 " + " ".join(f"{name}={word}" for name, word in words.items())
    asked = "len," + ",".join(f"{name}=sock->sk->{name}" for name in names)

    def work():
        a, b = socket.socketpair()
        with a, b:
            for at, size in enumerate((1, 2, 30, 4, 5, 6, 7, 8, 9, 10, 11, 12)):
                # Each of these is a bit of such a field.
                for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)[:at // 4]:
                    a.setsockopt(socket.SOL_SOCKET, option, 1 << 16)
                a.send(bytes(size))
                b.recv(size)

    compared("fields of bits", work, asked, {"send": event},
             {"fn:unix_stream_sendmsg": ("send", dict.fromkeys(["len", *names], number))})


# --- registers ------------------------------------------------------------------------------------------


def natively(graphs):
    """All registers where kprobes stand at the same instructions, in the middle of a function."""
    places = [place for place, one in graphs.instructions("vfs_read")[2:12] if not one.startswith(("nop", "call", "jmp"))][:4]
    words = " ".join(f"{ours}=%{theirs}:x64" for ours, theirs in REGISTERS.items())
    events = {f"at_{at}": f"p vfs_read{place} {words} rip=%ip:x64" for at, place in enumerate(places)}
    asked = ",".join(f"{name}=(u64){name}" for name in (*REGISTERS, "rip"))
    # A kprobe event shows the address behind the breakpoint's byte.
    of = {**dict.fromkeys(REGISTERS, number), "rip": lambda word: int(word, 0) - 1}
    with tempfile.TemporaryDirectory() as folder:
        compared("all registers", lambda: reads(folder), asked, events,
                 {f"fn:vfs_read{place}": (f"at_{at}", of) for at, place in enumerate(places)}, natively=True)


# How each session records them: a few by inserted code, more by the interpreter.
# Where the stack begins is random.
GROUPS = [["rax", "rcx", "rdx", "rbx", "rsi", "rdi"], ["rbp", "r8", "r9", "r10", "r11", "r12"], ["r13", "r14", "r15"],
          [register for register in REGISTERS if register != "rsp"]]
CALLS = 10


# A function finds there what nobody has put there for it. At its door they may change.
NOBODYS = {"rax": r"%[re]?ax$", "r10": r"%r10[dwb]?$", "r11": r"%r11[dwb]?$",
           "rflags": "^(add|sub|and|or|xor|cmp|test|sh[lr]|sar|inc|dec|neg|imul)"}


def written(every):
    """For each place the registers of NOBODYS that an instruction before it has written."""
    found, so_far = {}, set()
    for place, one in every:
        found[place] = set(so_far)
        so_far |= {"rax", "rflags"} if one.startswith("call") else {name for name, form in NOBODYS.items() if re.search(form, one)}
    return found


def in_copies(graphs, function, context, step=1):
    """At each instruction the registers in copies are what kprobes have told of the same calls, made natively."""
    every = graphs.instructions(function)[2:]
    known, places = written(every), [place for place, _ in every][::step]
    words = " ".join(f"{ours}=%{theirs}:x64" for ours, theirs in REGISTERS.items())
    with open(FILE, "wb", buffering=0) as file:
        def calls():
            file.write(f"{context} {CALLS}".encode())

        def told():
            """By place and register, what kprobes say: one kprobe at a time, so that it changes nothing for another."""
            found = {}
            for place in places:
                events = Events(os.getpid(), at=f"p jifl_contexts:{function}{place} {words}")
                calls()
                all_of = events.end()["at"]
                check(f"{function}{place}: executions", len(all_of) >= CALLS, len(all_of))
                found |= {(place, register): [int(one[register], 0) for one in all_of] for register in REGISTERS}
            return found

        calls()
        first = told()
        got = {}
        for group in GROUPS:
            name = f"{function}, {'inlined' if len(group) <= 6 else 'interpreted'}, {group[0]}"
            owner = probe(*(f"fn:{function}{place}" for place in places), "-f", "ndjson", "--ring", "4M",
                          "--record", ",".join(f"{register}=(u64){register}" for register in group))
            calls()
            found, report = records(owner, name)
            same(f"{name}: in copies", sum(row["caught"] for row in report["places"]), 0)
            got |= {(name, place, register): [one["values"][register] for one in found if one["place"] == f"fn:{function}{place}"]
                    for place in places for register in group}
        again = told()
    # What differs from one time to the next is not the function's: what the process has in a register, for instance.
    steady = {at for at in first if first[at] == again[at] and (at[1] not in NOBODYS or at[1] in known[at[0]])}
    wrong = [(name, place, register, [*map(hex, values)][:3], [*map(hex, first[place, register])][:3])
             for (name, place, register), values in got.items() if (place, register) in steady and values != first[place, register]]
    check(f"{function}: the same at each instruction", not wrong, f"{len(wrong)}: {wrong[:8]}")
    of = {register for _, register in steady}
    check(f"{function}: registers that are compared", {"rax", "rdi", "rsi", "rbx", "rflags"} <= of, of)
    figure(f"{function}: instructions, values that are compared, of these registers", (len(places), len(steady), sorted(of)))


def values():
    mark = log_mark()
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    graphs = Graphs("fn:vfs_read", "fn:contexts_work", "fn:contexts_many")
    natively(graphs)
    in_copies(graphs, "contexts_work", "task")
    in_copies(graphs, "contexts_many", "many", step=3)
    if BTF.exists():
        btf = Btf()
        of_files(btf)
        bit_fields(btf)
        by_the_kernels_names()
    same("no session is left", status()["sessions"], [])
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(values)
