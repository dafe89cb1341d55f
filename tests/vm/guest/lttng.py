# SPDX-License-Identifier: MIT OR Apache-2.0
"""LTTng, as scripts/lttng-setup has built it: sessions whose rings nobody reads meanwhile."""

import os
import shutil
import signal
import struct
import subprocess
from contextlib import contextmanager
from pathlib import Path

from lib import check, run, wait_for

OUTPUT = Path("/tmp/lttng-output")
PID = Path("/run/lttng/lttng-sessiond.pid")
# Of a packet of CTF as LTTng's kernel tracer writes it: the bytes before the first event, and where
# among them the bits that are used, and the number of lost events, stand.
HEAD, USED, LOST = 84, 48, 72
PACKET = 56


class LTTng:
    """Its modules and its daemon, while they are there."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.libraries = self.directory / "usr/lib/x86_64-linux-gnu"
        self.modules = (self.directory / "modules/order").read_text().split()
        self.environment = os.environ | {
            "LD_LIBRARY_PATH": str(self.libraries), "LTTNG_HOME": "/tmp/lttng-home",
            "LTTNG_SESSION_CONFIG_XSD_PATH": str(self.directory / "usr/share/xml/lttng")}

    def program(self, name, *words):
        end = run(self.directory / "usr/bin" / name, *words, env=self.environment)
        check(f"{name} {' '.join(map(str, words))}", end.returncode == 0, end)
        return end.stdout

    def __enter__(self):
        for name in self.modules:
            end = run("insmod", self.directory / "modules" / os.uname().release / f"{name}.ko")
            check(f"LTTng's module {name} comes", end.returncode == 0, end)
        Path("/tmp/lttng-home").mkdir(exist_ok=True)
        PID.parent.mkdir(exist_ok=True)
        # It would keep a pipe open.
        done = subprocess.run([self.directory / "usr/bin/lttng-sessiond", "--background",
                               "--consumerd64-path", self.libraries / "lttng/libexec/lttng-consumerd",
                               f"--consumerd64-libdir={self.libraries}"],
                              env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=100, check=False)
        check("LTTng's daemon runs", done.returncode == 0, done)
        return self

    def __exit__(self, *_):
        pid = int(PID.read_text())
        os.kill(pid, signal.SIGTERM)
        wait_for("LTTng's daemon is gone", lambda: not Path(f"/proc/{pid}").exists())
        # It has taken most of them with it.
        for name in reversed(self.modules):
            if (Path("/sys/module") / name.replace("-", "_")).exists():
                end = run("rmmod", name)
                check(f"LTTng's module {name} goes", end.returncode == 0, end)

    @contextmanager
    def session(self, event, contexts=()):
        """Records while inside, over the oldest ones where the ring is full. Nothing is copied meanwhile."""
        self.program("lttng", "create", "gtod", "--snapshot", f"--output={OUTPUT}")
        self.program("lttng", "enable-channel", "-k", "ring", "--subbuf-size=1M", "--num-subbuf=4")
        for context in contexts:
            self.program("lttng", "add-context", "-k", "-c", "ring", "-t", context)
        self.program("lttng", "enable-event", "-k", "-c", "ring", *event)
        self.program("lttng", "start")
        yield
        self.program("lttng", "stop")

    def taken(self):
        """Ends the session. What is in its ring: texts of events, by the name; bytes of all; lost ones."""
        self.program("lttng", "snapshot", "record")
        lines = self.program("babeltrace2", f"--plugin-path={self.libraries}/babeltrace2/plugins", OUTPUT).splitlines()
        used = lost = 0
        for file in OUTPUT.glob("*/kernel/ring_*"):
            packets = file.read_bytes()
            while packets:
                used += struct.unpack_from("<Q", packets, USED)[0] // 8 - HEAD
                lost += struct.unpack_from("<Q", packets, LOST)[0]
                packets = packets[struct.unpack_from("<Q", packets, PACKET)[0] // 8:]
        self.program("lttng", "destroy")
        shutil.rmtree(OUTPUT)
        return lines, used, lost
