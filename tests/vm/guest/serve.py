# SPDX-License-Identifier: MIT OR Apache-2.0
"""The daemon of jifl serve under load: its clients get exact counts, and nothing of it outlives it.

usage: serve.py

A process makes as many reads as it is told to. What the daemon counts of it, for a client on the
Unix socket, for one with a certificate, for one that reads the protocol by hand, and in /metrics,
is compared with that number. All of them count at the same time, in sessions of their own.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from lib import background, check, complaints, figure, interrupt, kernel_log, log_mark, main, run, same, status, wait_for

HERE = Path("/run/serve")
SOCKET = "/run/jifl/jifl.sock"
GROUP, USER = 4711, 12345
TLS, METRICS = "127.0.0.1:7443", "127.0.0.1:9480"
READS = 3000


# --- certificates ------------------------------------------------------------------


def openssl(*words):
    end = run("openssl", *words, cwd=HERE)
    if end.returncode:
        raise RuntimeError(f"openssl {words}: {end.stderr}")


def authority(name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
            "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt")


def certificate(name, of):
    (HERE / f"{name}.ext").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n"
                                      "basicConstraints=CA:FALSE\n")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/O=test/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr")
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{of}.crt", "-CAkey", f"{of}.key", "-CAcreateserial",
            "-days", "30", "-extfile", f"{name}.ext", "-out", f"{name}.crt")


def holder(name):
    """Options of a client with this certificate."""
    return ["--host", f"https://{TLS}", "--host-cert", HERE / f"{name}.crt", "--host-key", HERE / f"{name}.key",
            "--host-ca", HERE / "ca.crt"]


# --- the daemon and its clients -----------------------------------------------------


def confined():
    """What runs a program with the capabilities of dist/jifl-serve.service alone."""
    unit = Path(os.environ["JIFL_ROOT"], "dist/jifl-serve.service").read_text(encoding="utf-8")
    names = re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.M)[1].lower().split()
    return ["setpriv", "--no-new-privs", "--inh-caps=-all", f"--bounding-set=-all,{','.join('+' + name[4:] for name in names)}"]


class Daemon:
    """`jifl serve`, confined; its lines are kept in a file."""

    def __init__(self):
        self.lines = HERE / "lines"
        with open(self.lines, "w", encoding="utf-8") as to:
            self.process = subprocess.Popen([*confined(), "jifl", "serve", "--group", str(GROUP), "--listen", TLS, "--metrics", METRICS,
                                             "--cert", HERE / "daemon.crt", "--key", HERE / "daemon.key",
                                             "--client-ca", HERE / "ca.crt"], stdin=subprocess.DEVNULL, stderr=to)
        wait_for("the daemon", lambda: "serves " in self.said() or self.process.poll() is not None)
        check("the daemon runs", self.process.poll() is None, self.said())

    def said(self):
        return self.lines.read_text(encoding="utf-8")


class OverSocket(http.client.HTTPConnection):
    """HTTP over the Unix socket."""

    def __init__(self):
        super().__init__("jifl", timeout=120)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(SOCKET)


def ask(method, path, body=None):
    """(status, answer) of a request."""
    connection = OverSocket()
    headers = {"Content-Type": "application/json"} if body else {}
    connection.request(method, path, json.dumps(body) if body else None, headers)
    answer = connection.getresponse()
    data = json.loads(answer.read())
    connection.close()
    return answer.status, data


def events(number):
    """Events of a session, as they come: name and data."""
    return events_of("GET", f"/v1/stat/{number}/events")


def events_of(method, path, body=None):
    """Events that are the answer to a request, as they come: name and data."""
    connection = OverSocket()
    headers = {"Content-Type": "application/json"} if body is not None else {}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer, name = connection.getresponse(), None
    try:
        while line := answer.readline().decode().rstrip("\n"):
            while line:
                key, _, value = line.partition(": ")
                if key == "event":
                    name = value
                elif key == "data":
                    yield name, json.loads(value)
                line = answer.readline().decode().rstrip("\n")
    finally:
        connection.close()


def sessions():
    return len(status()["sessions"])


def stat(*host, form="json"):
    """A client that counts reads of the process, until it is interrupted; returns when its session runs."""
    before = sessions()
    client = background("jifl", *host, "stat", "fn:vfs_read", "-p", str(works.pid), "-f", form,
                        *(["-i", "200ms"] if form == "ndjson" else []))
    wait_for("a client's session", lambda: sessions() > before or client.poll() is not None)
    check(f"a session for {host[:2]}", client.poll() is None, client.poll() is not None and client.communicate())
    return client


class Works:
    """A process that reads as often as it is told. To be told takes one read more, of the next number."""

    def __init__(self):
        self.told, theirs = os.pipe()[::-1]
        self.done, tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            zero = os.open("/dev/zero", os.O_RDONLY)
            while number := os.read(theirs, 8):
                for _ in range(int(number)):
                    os.pread(zero, 1, 0)
                os.write(tell, b"x")
            os._exit(0)
        self.sleeps()

    def sleeps(self):
        where = Path(f"/proc/{self.pid}/wchan")
        wait_for("the process waits", lambda: "pipe" in where.read_text())

    def reads(self, number):
        os.write(self.told, b"%8d" % number)
        os.read(self.done, 1)
        self.sleeps()


works = None


# --- the checks ----------------------------------------------------------------------


def exact():
    """All see the same calls: as many as were made."""
    there, with_tls = stat("--host", "unix:", form="ndjson"), stat(*holder("alice"))
    # A session of a user of the group, which is kept, and read by hand.
    order = {"resources": ["fn:vfs_read"], "filters": {"pid": works.pid}, "interval_ms": 100, "keep": True}
    code, begun = ask("POST", "/v1/stat", order)
    same("an order is taken", code, 201)
    works.reads(READS)
    # Each time that it is told, one call ends and one begins.
    want = READS + 1

    def seen():
        for name, data in events(begun["id"]):
            rows = {row["function"]: row for row in data["functions"]} if name == "rows" else {}
            if rows.get("vfs_read", {}).get("calls", 0) >= want:
                return rows["vfs_read"]
        return {}

    row = seen()
    same("by hand: calls", row["calls"], want)
    same("by hand: the sum of times", row["wall_ns"], row["cpu_ns"] + row["blocked_ns"] + row["runnable_ns"])
    metrics(begun["id"], row)
    for name, client in (("on the socket", there), ("with a certificate", with_tls)):
        out, err = interrupt(client)
        same(f"{name}: exit status", client.returncode, 0)
        check(f"{name}: a report", out, err)
        *intervals, report = map(json.loads, out.splitlines())
        function, = report["functions"]
        same(f"{name}: calls", (function["calls"], function["adopted"], function["inside"]), (want, 1, 1))
        same(f"{name}: nothing is missed", (report["missed"], report["unwatched"]), (0, 0))
        if intervals:
            parts = [row["calls"] for one in intervals for row in one["interval"]]
            same(f"{name}: intervals add up", sum(parts), want)
    return begun["id"]


def metrics(number, row):
    """/metrics has the same numbers as the events, while the process waits: but for the time that it is blocked."""
    with urllib.request.urlopen(f"http://{METRICS}/metrics") as answer:
        text = answer.read().decode()
        check("metrics: their type", answer.headers["Content-Type"].startswith("application/openmetrics-text"), answer.headers)
    lines = dict(line.rpartition(" ")[::2] for line in text.splitlines() if not line.startswith("#"))
    labels = f'session="{number}",function="vfs_read",module=""'
    same("metrics: calls", float(lines[f"jifl_function_calls_total{{{labels}}}"]), row["calls"])
    of = lambda state: float(lines[f'jifl_function_time_seconds_total{{{labels},state="{state}"}}'])
    for state in ("cpu", "runnable"):
        check(f"metrics: {state}", abs(of(state) - row[f"{state}_ns"] / 1e9) < 1e-9, (of(state), row))
    check("metrics: blocked", of("blocked") >= row["blocked_ns"] / 1e9 - 1e-9, (of("blocked"), row))
    check("metrics: they end", text.endswith("# EOF\n"))
    same("metrics: sessions", float(lines["jifl_serve_sessions"]), 3)


def as_user(groups, *request):
    """(status, answer) of a request of a user without privilege; what it could not do, as text."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups(groups)
        os.setgid(USER)
        os.setuid(USER)
        try:
            answer = ask(*request)
        except OSError as error:
            answer = type(error).__name__
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as end:
        answer = json.loads(end.read())
    os.waitpid(pid, 0)
    return answer


def users(kept):
    """Those of the group are served, others are not. Nobody but root ends what is another's."""
    same("a user outside of the group", as_user([], "GET", "/v1/info"), "PermissionError")
    code, info = as_user([GROUP], "GET", "/v1/info")
    same("a user of the group", code, 200)
    check("the kernel says who it is", info["you"].startswith(f"uid {USER} pid "), info)
    same("it ends nothing of root's", as_user([GROUP], "DELETE", f"/v1/stat/{kept}")[0], 403)
    order = {"resources": ["fn:vfs_read"], "keep": True}
    same("it does not read variables", as_user([GROUP], "POST", "/v1/stat", {**order, "metrics": ["var:jiffies_64"]})[0], 403)
    code, begun = as_user([GROUP], "POST", "/v1/stat", order)
    same("it has a session of its own", code, 201)
    same("root ends it", ask("DELETE", f"/v1/stat/{begun['id']}")[0], 200)
    wait_for("its end", lambda: sessions() == 1)


def about():
    """A daemon tells what calls are about: sums and distributions of it, too. Intervals add up."""
    words = ["stat", "calls,sum:count,hist:count,hist:wall", "fn:vfs_read", "--by", "file->f_path", "-p", str(works.pid)]
    clients = {}
    for name, form in (("in intervals", ["-f", "ndjson", "-i", "200ms"]), ("at the end", ["-f", "json"])):
        before = sessions()
        client = clients[name] = background("jifl", "--host", "unix:", *words, *form)
        wait_for(f"about, {name}: a session", lambda before=before, client=client: sessions() > before or client.poll() is not None)
        check(f"about, {name}: a session", client.poll() is None, client.poll() is not None and client.communicate())
    works.reads(READS)
    for name, client in clients.items():
        out, err = interrupt(client)
        check(f"about, {name}: a report", client.returncode == 0 and out, err)
        *intervals, report = map(json.loads, out.splitlines())
        of = lambda rows: [row for row in rows if row["by"].get("file->f_path") == "zero"]
        row, = of(report["functions"])
        got = row["metrics"]
        same(f"about, {name}: calls and bytes", (row["calls"], got["sum:count"]), (READS, READS))
        same(f"about, {name}: each read is of one byte", got["hist:count"],
             {"values": READS, "negative": 0, "buckets": [{"low": 1, "high": 2, "count": READS}]})
        same(f"about, {name}: each took its time", got["hist:wall"]["values"], READS)
        if intervals:
            parts = [row["metrics"] for one in intervals for row in of(one["interval"])]
            same(f"about, {name}: intervals", (sum(one["calls"] for one in parts), sum(one["hist:wall"]["values"] for one in parts)),
                 (READS, READS))
    # What reads the kernel's memory is root's. How long calls took is told to all.
    end = run("jifl", *holder("alice"), *words, "--for", "1s")
    check("about: no certificate is root's", end.returncode and end.stderr.count("\n") == 1 and "--variables" in end.stderr, end)
    end = run("jifl", *holder("alice"), "stat", "hist:wall", "fn:vfs_read", "--for", "1s", "-f", "json")
    known = [row["metrics"]["hist:wall"] for row in json.loads(end.stdout or '{"functions": []}')["functions"]]
    check("about: with a certificate, how long calls took", end.returncode == 0 and known and known[0]["values"] > 0, end)
    order = {"resources": ["fn:vfs_read"], "keep": True}
    for more in ({"by": "comm"}, {"metrics": ["sum:$ret"]}, {"metrics": ["hist:$ret"]}):
        same(f"about: a user is not told {more}", as_user([GROUP], "POST", "/v1/stat", {**order, **more})[0], 403)
    text = run("jifl", "--host", "unix:", "stat", "calls,hist:count", "fn:vfs_read", "--by", "pid", "--no-interrupts", "--for", "1s")
    check("about: as text", text.returncode == 0 and "FUNCTION" in text.stdout and " hist:count: " in text.stdout, text)
    end = run("jifl", "--host", "unix:", "stat", "fn:vfs_read", "--by", "none_such", "--for", "1s")
    check("about: a refusal is one line", end.returncode and end.stderr.count("\n") == 1 and "none_such" in end.stderr, end)


def latencies():
    """What the page's view of latencies asks for: how long calls took, in four ways; each call is in each."""
    metrics = ["calls", "hist:wall", "hist:cpu", "hist:blocked", "hist:runnable"]
    order = {"resources": ["fn:vfs_read"], "metrics": metrics, "filters": {"pid": works.pid}, "interval_ms": 250}
    code, begun = ask("POST", "/v1/stat", order)
    same("an order of distributions", (code, begun.get("error")), (201, None))
    stream = events(begun["id"])
    same("its beginning", next(stream)[0], "begin")
    works.reads(READS)
    for name, data in stream:
        rows = [row for row in data["functions"] if row["function"] == "vfs_read"] if name == "rows" else []
        # A read that was adopted at the beginning has ended, too; how long it took is not known.
        if rows and rows[0]["calls"] > READS:
            sums = {counter: sum(buckets) for counter, buckets in rows[0]["distributions"].items()}
            check("distributions of all four times", sums in (dict.fromkeys("0123", READS), dict.fromkeys("0123", READS + 1)), sums)
            break


def paths():
    """Call paths of a process: each read is counted, on its path; a user of the group may have them, too."""
    order = {"targets": ["sys:pread64"], "metric": "calls", "for_ms": 60_000, "filters": {"pid": works.pid}}
    last = None
    for name, data in events_of("POST", "/v1/paths", order):
        if name == "begin":
            wait_for("its session", lambda: sessions() == 2)
            works.reads(READS)
            same("a second one is refused", ask("POST", "/v1/paths", order)[0], 429)
            same("it is ended", ask("DELETE", f"/v1/paths/{data['id']}")[0], 200)
        last = name, data
    same("its last event", (last[0], last[1]["calls"], last[1]["missed"], last[1]["cut_short"]), ("end", READS, 0, True))
    lines = dict(line.rpartition(" ")[::2] for line in last[1]["folded"].splitlines())
    reads = {path: int(number) for path, number in lines.items() if path.endswith("vfs_read")}
    check("each read is on its path", sum(reads.values()) == READS and all(";" in path for path in reads), lines)
    check("no address is told", "0x" not in last[1]["folded"], last[1]["folded"])
    same("a user is told of its mistake", as_user([GROUP], "POST", "/v1/paths", {"targets": ["fn:0xffffffff81000000"]})[0], 400)


def decided(report):
    """How many hypotheses are decided."""
    return sum(one["verdict"] != "not tested" for one in report["tests"])


def search(name, *host):
    """The report of a search. It knows of the task that sleeps all the time, from /proc alone."""
    end = run("jifl", *host, "search", "--for", "120s", "-f", "json", timeout=400)
    check(f"a search {name}", end.returncode in (0, 4) and end.stdout, end)
    report = json.loads(end.stdout)
    check(f"a search {name}: it tested", decided(report) > 3 and report["sentence"], report)
    network, = (one for one in report["tests"] if one["name"] == "network")
    check(f"a search {name}: the full socket", network["verdict"] == "true" and network["value"] > 0.9, network)
    return report


def searches(daemon, here):
    """A search is that of `jifl search` (here); its tree comes while it grows; it ends with its client, and is root's.

    The daemon has sessions about the same functions meanwhile.
    """
    shape = lambda report: sorted(key for key in report) + [(one["name"], one["unit"], one["threshold"]) for one in report["tests"]]
    there = search("of the daemon", "--host", "unix:")
    same("searches here and of the daemon have one form", shape(there), shape(here))
    end = run("jifl", "--host", "unix:", "search", "--for", "5s", "--threshold", "cpu=0.001", timeout=400)
    lines = end.stdout.splitlines()
    check("a search as text", any(line.startswith("cpu ") for line in lines) and any(line.startswith("finding: ") for line in lines)
          and lines[-1].startswith("# cost: "), end)
    grown = number = None
    for name, data in events_of("POST", "/v1/search", {"for_ms": 300_000}):
        if name == "begin":
            number = data["id"]
        elif name == "tree":
            grown, before = decided(data["report"]), grown or 0
            check("the tree grows", grown >= before and data["report"]["doing"], data)
            if grown and not before:
                same("a second one is refused", ask("POST", "/v1/search", {"for_ms": 5000})[0], 429)
                same("it is listed", [(one["kind"], one["id"]) for one in ask("GET", "/v1/sessions")[1]["works"]], [("search", number)])
                same("a user ends nothing of root's", as_user([GROUP], "DELETE", f"/v1/search/{number}")[0], 403)
                same("root ends it", ask("DELETE", f"/v1/search/{number}")[0], 200)
        else:
            same("its end has what is known", (name, data["report"]["cut_short"]), ("end", "it was interrupted"))
            check("all that was known", decided(data["report"]) >= grown, data)
    before = sessions()
    client = background("jifl", "--host", "unix:", "search", "--for", "300s")
    wait_for("a search's session", lambda: sessions() > before or client.poll() is not None)
    client.kill()
    client.communicate()
    wait_for("the end of a search without a client", lambda: "ended: why its client left" in daemon.said(), timeout=120)
    # The line comes before it leaves the lists.
    wait_for("the lists without it", lambda: not ask("GET", "/v1/sessions")[1]["works"], timeout=30)
    same("nothing of it is left", (sessions(), ask("GET", "/v1/sessions")[1]["works"]), (before, []))
    same("a search is root's", as_user([GROUP], "POST", "/v1/search", {"for_ms": 5000})[0], 403)
    end = run("jifl", *holder("alice"), "search", "--for", "5s")
    check("no certificate is root's", end.returncode and end.stderr.count("\n") == 1 and "--variables" in end.stderr, end)
    end = run("jifl", "--host", "unix:", "search", "--", "ls")
    check("a command would run elsewhere", end.returncode == 2 and end.stderr.count("\n") == 1, end)


def strangers():
    """Without a certificate of the authority nobody is served."""
    end = run("jifl", *holder("eve"), "stat", "fn:vfs_read", "--for", "1s")
    same("another authority's certificate: exit status", end.returncode, 1)
    check("another authority's certificate: one line", end.stderr.count("\n") == 1 and "certificate" in end.stderr, end.stderr)
    end = run("jifl", "--host", "unix:", "stat", "fn:no_such_function_here", "--for", "1s")
    same("a refusal is that of stat", end.returncode, run("jifl", "stat", "fn:no_such_function_here", "--for", "1s").returncode)
    check("a refusal is one line", end.stderr.count("\n") == 1 and "no such function" in end.stderr, end.stderr)


def deaths(daemon):
    """A client that is killed ends its session."""
    for name, host in (("the socket", ["--host", "unix:"]), ("a certificate", holder("alice"))):
        client = stat(*host)
        before = sessions()
        client.kill()
        client.communicate()
        wait_for("the session's end", lambda before=before: sessions() < before)
        check(f"a client of {name} that is killed ends its session", True)
    wait_for("its line", lambda: daemon.said().count("ended: why left") >= 2)


def end_of_the_daemon(daemon):
    """SIGKILL leaves nothing in the kernel, and a socket that the next daemon replaces; SIGTERM leaves nothing at all."""
    client = stat("--host", "unix:")
    check("sessions run", sessions() == 2, status())
    daemon.process.kill()
    daemon.process.wait()
    took = wait_for("the sessions' end", lambda: sessions() == 0, timeout=60)
    same("after kill -9: sessions", status()["sessions"], [])
    same("after kill -9: blocks", status()["blocks"], 0)
    figure("seconds from kill -9 until no session was left", f"{took:.2f}")
    _, err = client.communicate(timeout=120)
    same("its client is told", (client.returncode, err.count("\n")), (1, 1))
    check("its socket is left", os.path.exists(SOCKET))
    another = Daemon()
    same("another daemon takes its place", ask("GET", "/v1/info")[0], 200)
    ask("POST", "/v1/stat", {"resources": ["fn:vfs_read"], "keep": True})
    same("it has a session", sessions(), 1)
    another.process.send_signal(signal.SIGTERM)
    same("SIGTERM: exit status", another.process.wait(timeout=120), 0)
    check("SIGTERM: no socket", not os.path.exists(SOCKET))
    same("SIGTERM: no session", sessions(), 0)
    check("SIGTERM: its lines", "ended: why daemon" in another.said(), another.said())


def audit(daemon):
    """Each session has its lines: who, what, how it ended."""
    said = daemon.said()
    started = re.findall(r"session (\d+) started: who (.*?) what (.*)", said)
    check("audit: by user", any(re.fullmatch(r"uid 0 pid \d+", who) for _, who, _ in started), said)
    check("audit: by certificate", any(who.startswith('certificate "CN=alice,O=test" from 127.0.0.1:') for _, who, _ in started), said)
    check("audit: another user", any(who.startswith(f"uid {USER} pid") for _, who, _ in started), said)
    check("audit: searches", re.search(r"search \d+ started: who uid 0 pid \d+ what search for 120 s budget 2 %", said), said)
    check("audit: what", all(what.startswith("fn:vfs_read") for *_, what in started), said)
    check("audit: refusals", "refused: who uid" in said and "TLS handshake" in said, said)


def program():
    global works
    mark = log_mark()
    HERE.mkdir()
    authority("ca")
    authority("other")
    for name, of in (("daemon", "ca"), ("alice", "ca"), ("eve", "other")):
        certificate(name, of)
    load = [background("sh", "-c", "while :; do ls -R /sys/bus > /dev/null; done") for _ in range(2)]
    # A socket that is full before any search begins, and stays so.
    load.append(background("python3", "-c", "import socket\nends = socket.socketpair()\nends[0].sendall(bytes(1 << 24))"))
    wait_for("the full socket", lambda: Path(f"/proc/{load[-1].pid}/wchan").read_text().startswith("sock_"), timeout=120)
    works = Works()
    here = search("here")
    daemon = Daemon()
    mode = os.stat(SOCKET)
    same("the socket's group and mode", (mode.st_gid, mode.st_mode & 0o777), (GROUP, 0o660))
    end = run("jifl", "serve", "--metrics", "127.0.0.1:9481")
    check("a second daemon is refused", end.returncode == 1 and "another jifl serve" in end.stderr, end)
    began = time.monotonic()
    kept = exact()
    figure("seconds for exact counts", f"{time.monotonic() - began:.1f}")
    about()
    latencies()
    paths()
    searches(daemon, here)
    users(kept)
    strangers()
    deaths(daemon)
    audit(daemon)
    end_of_the_daemon(daemon)
    for one in load:
        one.kill()
        one.communicate()
    same("the kernel's log", complaints(kernel_log(mark)), [])


main(program)
