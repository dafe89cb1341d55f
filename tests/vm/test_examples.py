# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every command that README.md and docs/ show runs, and prints what its page says (pages.py says
how the two are compared).
"""

import json
import os
import re
import subprocess
import time

import pytest

import harness
import pages

# Not run here, and why.
LISTED = {
    "make": "builds what runs here",
    "make test": "runs this",
    "jifl demo": "make demo runs it",
    "make test-vm": "runs this",
    'tests/vm/run -k "probe or actions"': "runs tests beside this one",
    "make test-packages": "minutes, and the network; it is a suite of its own",
    "make test-page": "a browser, and the network; it is a suite of its own",
    "make test-newest": "hours, and the network; each of its parts is a test of its own",
    "make soak MINUTES=120": "hours; each of its parts is a test of its own",
    "make ltp LTP=~/src/ltp": "hours, and others' tests; test_ltp.py has the comparison",
    "make ltp PART=1/4": "hours, and others' tests; test_ltp.py has the comparison",
    "tests/ltp/run --kernel 6.12 read01 seccomp:seccomp_bpf": "others' tests; test_ltp.py has the comparison",
    "make debug-kernel": "an hour, and a kernel's source from the network",
    "make bench": "an hour; test_bench.py has its sets",
    "make bench-native": "a quarter of an hour, and packages from the network",
    "bench/native/run --program lua --without valgrind": "packages from the network",
    "jifl bench --kernel 6.1 --kernel 6.12 --json results.json --svg charts": "an hour; test_bench.py has its options",
    "jifl bench --set micro --clock instructions": "many minutes; the same of fewer operations and rows is run",
    "make race-kernel": "an hour, and a kernel's source from the network",
    'JIFL_TEST_KERNELS="debug race" tests/vm/run -k "churn or programs"': "needs what these build",
}

# Blocks that are no examples, by their first line, and what they are instead.
LISTINGS = {
    "a program calls openat": "what happens, in README.md",
    "include/     jifl.h, the only header a plugin includes; uapi/jifl.h, the device's ABI": "the folders",
    "do_syscall_64's call of x64_sys_call redirected while a session runs (enter/call_site.c)": "the path of a call",
    "jifl: session 5 started: kind insn targets 346 pid 96 uid 0 auid 1000 comm jifl": "the log; test_door.py compares it",
    "db1 jifl[812]: jifl serve: session 1 started: who uid 1000 pid 4242 what fn:vfs_read ...": "a journal; test_serve.py looks for it",
    "for piece in 0 1 2 3; do JIFL_SWEEP=7:$piece:4 tests/vm/run -k sweep; done": "hours; the soak sweeps in pieces",
    "[db1]": "a file; a unit test reads such a one",
    "openssl req -x509 -newkey ed25519 -nodes -subj /CN=jifl-ca -keyout ca.key -out ca.crt": "another program; test_serve.py does the like",
    "curl --unix-socket /run/jifl/jifl.sock http://jifl/v1/stat \\": "needs the daemon; test_serve.py makes the request",
    "curl -N --unix-socket /run/jifl/jifl.sock http://jifl/v1/search \\": "needs the daemon; test_serve.py makes the request",
}

# Examples of what fails, and their exit status.
FAILS = {
    "jifl why -x ENOTDIR sys:openat -- cat /etc/hostname/x": 1,
    "cat /no/such/file": 1,
    "jifl trace -A sys:getpgid -- python3 -c 'import os; os.getpgid(9999)'": 1,
    "jifl why -x NULL fn:find_task_by_vpid -- python3 -c 'import os; os.getpgid(9999)'": 1,
    "jifl trace -A fn:do_getpgid -- python3 -c 'import os; os.getpgid(9999)'": 1,
}

# They start machines, or need one's host.
ON_HOST = re.compile(r"(build/bin/)?jifl (vm|bench (?!--here))|make ")

EXAMPLES, BLOCKS = pages.everything()
# What pages show is of Debian's kernels on the machine that `jifl vm` makes.
KERNELS = [] if harness.CELL else [kernel for kernel in harness.turn(1) if kernel not in harness.FINDERS]


def commands(on_host):
    """Those that run there, each once, in the order of their pages."""
    names = [example.command for example in EXAMPLES if example.command not in LISTED]
    return [name for name in dict.fromkeys(names) if bool(ON_HOST.match(name)) == on_host]


def wrong(results, kernel):
    """What is not as the pages say; results: (output, exit status, seconds) by command."""
    for command, (printed, status, _) in results.items():
        if status != FAILS.get(command, 0):
            yield f"{command}: exit status {status}\n{printed[-2000:]}"
    for example in EXAMPLES:
        if example.shown and example.command in results and example.kernel in ("", kernel):
            printed = results[example.command][0]
            difference = pages.differs(example, printed)
            if difference:
                begin, rest = printed[:4000], printed[4000:][-2000:]
                yield (f"{example.page}:{example.line}: {example.command}: {difference}\n--- printed\n{begin}"
                       f"{'[...]' if rest else ''}{rest}")


def seconds(results):
    """How long all took, and the three that took longest."""
    longest = sorted(((result[2], command) for command, result in results.items()), reverse=True)[:3]
    return (f"{len(results)} commands, {sum(result[2] for result in results.values()):.0f} s; "
            + "; ".join(f"{took:.0f} s: {command}" for took, command in longest))


@pytest.mark.parametrize("kernel", KERNELS)
def test_examples(kernel, tmp_path, show):
    wanted = commands(on_host=False)
    (tmp_path / "commands").write_text(json.dumps(wanted))
    run = harness.guest("examples", tmp_path / "commands", kernel=kernel, smp=2, timeout=2400)
    lines = [json.loads(line.partition(" ")[2]) for line in run.stdout.splitlines() if line.startswith("example ")]
    results = {command: result for command, *result in lines}
    show(seconds(results))
    assert list(results) == wanted
    found = list(wrong(results, kernel))
    assert not found, "\n\n".join(found)


def on_host(command, where):
    """(what it printed, exit status, seconds), run in this directory."""
    begin = time.monotonic()
    if command.startswith("make "):
        # What `setup` would install is there.
        command, where = command.replace("make ", "make -o setup "), harness.ROOT
    done = subprocess.run(["bash", "-c", command], cwd=where, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=1200, check=False,
                          env={**os.environ, "PATH": f"{harness.JIFL.parent}:{os.environ['PATH']}"})
    return done.stdout, done.returncode, time.monotonic() - begin


@pytest.mark.skipif(not KERNELS, reason="the machines are the examples' own")
def test_examples_of_machines(tmp_path, show):
    (tmp_path / "build").symlink_to(harness.ROOT / "build")
    results = {command: on_host(command, tmp_path) for command in commands(on_host=True)}
    show(seconds(results))
    found = list(wrong(results, None))
    assert not found, "\n\n".join(found)


def test_what_is_listed_is_there():
    names = [example.command for example in EXAMPLES]
    assert not (set(LISTED) | set(FAILS)) - set(names)
    assert len(names) > 60
    first = [block.lines[0] for block in BLOCKS if not pages.SYNOPSIS.search(block.lines[0])]
    unknown = [f"{block.page}:{block.line}" for block in BLOCKS if block.lines[0] in first and block.lines[0] not in LISTINGS]
    assert not unknown, "neither an example (pages.py says what is one) nor in LISTINGS"
    assert set(LISTINGS) == set(first)


def test_synopses():
    """Each option that one names is an option of the command."""
    found = [block for block in BLOCKS if pages.SYNOPSIS.search(block.lines[0])]
    assert found
    for block in found:
        command = re.match(r"jifl \w+", block.lines[0])[0].split()
        known = subprocess.run([harness.JIFL, *command[1:], "--help"], capture_output=True, text=True, timeout=60, check=True)
        options = set(re.findall(r"\[(--[\w-]+)", " ".join(block.lines)))
        assert options and not options - set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", known.stdout, re.MULTILINE)), block


SHOWN = """Text.

    jifl count insn sys:read -- cat x   # a remark
    jifl why -x EIO sys:read            # on 6.1

    SYSCALL  CALLS   P50
    read     1,204  1.2K
    ...
      +0x31  fs/open.c:12 (do_it)  test %eax,%eax
        | if (x)
    # 3.5 ms; native exits 12 (schedule 9)

- An item.

        a listing
"""


def test_extraction():
    examples, listings = pages.read("page", SHOWN)
    assert [(example.line, example.command, example.kernel, len(example.shown)) for example in examples] == [
        (3, "jifl count insn sys:read -- cat x", "", 0), (4, "jifl why -x EIO sys:read", "6.1", 6)]
    assert [(listing.line, listing.lines) for listing in listings] == [(15, ["a listing"])]
    with pytest.raises(ValueError):
        pages.read("page", "    jifl status\n    no session\n")


@pytest.mark.parametrize("printed, same", [
    ("SYSCALL CALLS P50\nread 3 17\n  +0x5  test %r12d,%r12d\n# 2 us; native exits 0\n", True),
    ("SYSCALL CALLS P50\nread 3 17\nwrite 3 1\nx\n  +0x5  test %r12d,%r12d\n# 2 us; native exits 0\n", True),
    # a name
    ("SYSCALL CALLS P50\nwrite 3 17\n  +0x5  test %r12d,%r12d\n# 2 us; native exits 0\n", False),
    # a column less
    ("SYSCALL CALLS\nread 3 17\n  +0x5  test %r12d,%r12d\n# 2 us; native exits 0\n", False),
    # a cell less
    ("SYSCALL CALLS P50\nread 3\n  +0x5  test %r12d,%r12d\n# 2 us; native exits 0\n", False),
    # another indent
    ("SYSCALL CALLS P50\nread 3 17\n+0x5  test %r12d,%r12d\n# 2 us; native exits 0\n", False),
    # an instruction
    ("SYSCALL CALLS P50\nread 3 17\n  +0x5  cmp %r12d,%r12d\n# 2 us; native exits 0\n", False),
    ("more\nSYSCALL CALLS P50\nread 3 17\n  +0x5  test %r12d,%r12d\n# 2 us; native exits 0\n", False),
    ("SYSCALL CALLS P50\nread 3 17\n  +0x5  test %r12d,%r12d\n# 2 us; native exits 0\nmore\n", False),
    # another order
    ("SYSCALL CALLS P50\nread 3 17\n# 2 us; native exits 0\n  +0x5  test %r12d,%r12d\n", False),
    ("", False),
])
def test_comparison(printed, same):
    example = pages.read("page", SHOWN)[0][1]
    assert (pages.differs(example, printed) is None) == same, pages.differs(example, printed)
