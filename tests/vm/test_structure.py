# SPDX-License-Identifier: MIT OR Apache-2.0
"""What sessions see executed is in the structure that `jifl analyze` makes of the machine's code.

That is each block, each way from block to block, each function that was entered, each fault.
"""

import csv
import json
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

import harness

NO_BRANCH = 0xffff
# Of include/uapi/jifl.h. All from the first on are addresses, without their high half.
ADDRESSES, FAULT, TYPES = 0x80000000, 0x04000000, 0xfc000000
HIGH = 0xffffffff << 32

# Of each block the executions are counted; of the shorter loads the order is recorded, too.
COUNTED = [
    "ls -l /etc /proc/sys/kernel; cat /proc/self/maps /proc/meminfo | sort | wc -l",
    "cd /tmp; echo 1 >a; ln -s a l; mv a b; chmod 600 b; rm -f b l; mkfifo f; (echo x >f) & cat f; rm f",
    "dd if=/dev/zero of=/tmp/z bs=64k count=4; dd if=/tmp/z of=/dev/null bs=512; sync; kill -9 $$",
]
RECORDED = ["cd /tmp; echo 1 >a; ln -s a l; cat l; mv a b; rm b l; mkfifo f; (echo x >f) & cat f; rm f; {efault}"]
SOAK = [
    "ls -lR /etc; find / -xdev -name '*.h' 2>/dev/null | head -c 100000 | sort | uniq | wc",
    "mount -t tmpfs t /mnt; cp -a /etc /mnt; tar cf - /mnt | gzip -1 | wc -c; umount /mnt",
    "python3 -c 'import socket; a, b = socket.socketpair(); a.send(b\"x\"); b.recv(1)'",
]
PLANTS = ["fall", "taken", "jump", "exception", "calls", "returns"]


def kept_records(path):
    """Pairs of words."""
    return list(struct.iter_unpack("<II", path.read_bytes()))


def of_counts(data):
    """Facts of blocks that were executed, and of the ways that their branches went."""
    for orig, executed, taken, target, length, branch in struct.iter_unpack("<QQQQII", data):
        yield f"block {orig:#x} {length}"
        if branch != NO_BRANCH:
            if taken:
                yield f"way {orig:#x} {target:#x}"
            if taken < executed:
                yield f"way {orig:#x} {orig + length:#x}"


def of_path(records):
    """Facts of blocks executed one behind the other; what is no address stands between."""
    last = None
    for what, value in records:
        now = what | HIGH if what >= ADDRESSES else None
        if now and last:
            yield f"way {last:#x} {now:#x}"
        if what & TYPES == FAULT:
            yield f"fault {value | HIGH:#x}"
        last = now


def of_trace(records):
    """Facts of functions that were entered."""
    for what, _ in records:
        if what >= ADDRESSES:
            yield f"entered {what | HIGH:#x}"


def facts_of(directory):
    """All facts that a machine has left behind, each once."""
    facts = set(of_counts((directory / "counts").read_bytes()))
    for path in directory.glob("path.*"):
        facts.update(of_path(kept_records(path)))
    for path in directory.glob("trace.*"):
        facts.update(of_trace(kept_records(path)))
    return sorted(facts)


def missing(directory, *options):
    """How many facts are not in the structure, and all that is said of them."""
    command = [harness.JIFL, "check-structure", directory / "kernel", directory / "facts", *options]
    end = subprocess.run(command, capture_output=True, text=True, check=False)
    last = end.stdout.splitlines()[-1:] or [""]
    assert last[0].endswith(" missing"), end
    return int(last[0].split()[0]), end.stdout


# Of a row of `jifl analyze`: what does not depend on modules, which an image of memory is without.
OWN = ["text_bytes", "code_bytes", "functions", "blocks", "instructions", "edges", "direct_calls", "indirect_calls"]


def figures(kernel, module="vmlinux"):
    """Figures of the kernel itself, or of a module."""
    end = subprocess.run([harness.JIFL, "analyze", kernel, "-f", "json"], capture_output=True, text=True, check=False)
    assert end.returncode == 0, end
    row = next(row for row in json.loads(end.stdout)["modules"] if row["module"] == module)
    return {name: row[name] for name in OWN}


def lost(kernel):
    """Functions of modules that the kernel names, and that the structure is without. The kernel tells
    only where the sections of modules begin, and still tells of those that it has freed. Cold parts
    of functions are none of their own."""
    named = {}
    begins = {}
    for line in (kernel / "proc/kallsyms").read_text(encoding="utf-8").splitlines():
        address, kind, name, *module = line.split()
        if not module or kind not in "tT" or name.startswith("__pfx_") or ".cold" in name:
            continue
        module = module[0].strip("[]")
        sections = kernel / "sys/module" / module / "sections"
        if module not in begins:
            files = sections.iterdir() if sections.exists() else []
            begins[module] = sorted((int(path.read_text(encoding="ascii"), 16), path.name) for path in files)
        before = [section for begin, section in begins[module] if begin <= int(address, 16)]
        if before and before[-1].endswith(".text") and not before[-1].startswith(".init"):
            named.setdefault((module, address), set()).add(name)
    end = subprocess.run([harness.JIFL, "analyze", "fn:*", "--vmlinux", kernel, "-f", "csv"], capture_output=True, text=True,
                         check=True)
    found = {(row["module"], row["function"]) for row in csv.DictReader(end.stdout.splitlines())}
    assert len(named) > 5000
    return [(module, names) for (module, _), names in named.items() if not any((module, name) in found for name in names)]


def without_virtual_addresses(image):
    """A copy of an image of memory in which only physical addresses are told, as QEMU writes them."""
    data = bytearray(image.read_bytes())
    (number,) = struct.unpack_from("<H", data, 56)
    for place in range(64, 64 + 56 * number, 56):
        if data[place] == 1:
            data[place + 16:place + 24] = bytes(8)
    copy = image.with_suffix(".physical")
    copy.write_bytes(data)
    return copy


def test_records_become_facts():
    """Of records by hand: a chain, a mark that ends it, a fault."""
    path = [(0x81000000, 1), (0x81000010, 1), (0x10000000, 7), (0x81000020, 1), (FAULT, 0x81000024), (0x81000030, 1)]
    assert list(of_path(path)) == ["way 0xffffffff81000000 0xffffffff81000010", "fault 0xffffffff81000024"]
    data = struct.pack("<QQQQII", 0x1000, 5, 2, 0x2000, 8, 6) + struct.pack("<QQQQII", 0x3000, 1, 0, 0, 4, NO_BRANCH)
    assert list(of_counts(data)) == ["block 0x1000 8", "way 0x1000 0x2000", "way 0x1000 0x1008", "block 0x3000 4"]


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_structure(kernel, show, tmp_path):
    """Nothing is missing, and much is when a kind of edge is dropped."""
    efault = harness.compile_program("efault")
    more = SOAK if harness.SOAK else []
    recorded = [load.format(efault=efault) for load in RECORDED]
    harness.guest("structure", tmp_path, *COUNTED, *more, "--", *recorded, *more, kernel=kernel, show=show, rw=tmp_path)
    facts = facts_of(tmp_path)
    (Path(tmp_path) / "facts").write_text("\n".join(facts) + "\n", encoding="utf-8")
    number, text = missing(tmp_path)
    assert number == 0, text
    show(f"facts in the structure: {len(facts)}: {', '.join(text.splitlines()[:-1])}")
    assert not lost(tmp_path / "kernel")
    programs = figures(tmp_path / "kernel", "bpf")
    assert programs["functions"] >= 1 and programs["blocks"] >= 3, programs
    want = figures(tmp_path / "kernel")
    for image in (tmp_path / "vmcore", without_virtual_addresses(tmp_path / "vmcore")):
        assert figures(image) == want, image
    for plant in PLANTS:
        number, _ = missing(tmp_path, "--plant", plant)
        assert number > 0, plant
        show(f"without {plant}: {number} missing")


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_watch(kernel, show):
    """What changes in the kernel's text is told, and what tracers patch in is not."""
    harness.guest("text_watch", kernel=kernel, show=show)


def of_functions(kernel):
    """Figures of each function of the kernel and of its modules."""
    command = [harness.JIFL, "analyze", "fn:*", "--vmlinux", kernel, "-f", "csv"]
    end = subprocess.run(command, capture_output=True, text=True, check=False)
    assert end.returncode == 0 and "without" not in end.stderr, end
    rows = csv.DictReader(end.stdout.splitlines())
    return [(row["module"], row["function"], *(row[name] for name in OWN)) for row in rows if row["module"] != "bpf"]


def written(monitor, images):
    """Has QEMU write the machine's memory to these files: with virtual addresses, or without; or compressed."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(monitor))
        lines = client.makefile("rw")

        def ask(command, **arguments):
            lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
            lines.flush()
            while "return" not in (answer := json.loads(lines.readline())):
                assert "error" not in answer, answer

        lines.readline()
        ask("qmp_capabilities")
        for way, image in images.items():
            ask("dump-guest-memory", protocol=f"file:{image}", **WAYS[way])


# How QEMU writes images; the last one is in makedumpfile's form, flattened.
WAYS = {"plain": {"paging": False}, "with paging": {"paging": True}, "compressed": {"paging": False, "format": "kdump-zlib"}}


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_images_of_memory(kernel, show, tmp_path):
    """Of a running machine, as QEMU writes them: each function is as in /proc/kcore."""
    images = {way: tmp_path / f"image{number}" for number, way in enumerate(WAYS)}
    failures = []

    def write():
        try:
            end = time.monotonic() + 600
            while not (tmp_path / "ready").exists():
                assert time.monotonic() < end
                time.sleep(0.2)
            written(tmp_path / "monitor", images)
        except Exception as failure:    # of a thread nobody else would see it
            failures.append(repr(failure))
        (tmp_path / "done").touch()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    harness.guest("image", tmp_path, kernel=kernel, show=show, rw=tmp_path, memory="512M",
                  options=["--monitor", tmp_path / "monitor"])
    writer.join()
    assert not failures, failures
    want = of_functions(tmp_path / "kernel")
    modules = {row[0] for row in want}
    assert len(want) > 10000 and {"vmlinux", "jifl", "ext4", "nf_tables"} <= modules, modules
    for way, image in images.items():
        assert of_functions(image) == want, image
        show(f"image of memory, {way}: {image.stat().st_size >> 20} MiB, {len(want)} functions of {len(modules)} as in /proc/kcore")
        image.unlink()
