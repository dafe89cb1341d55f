# SPDX-License-Identifier: MIT OR Apache-2.0
"""The examples of README.md and docs/, and whether a command prints what its page shows.

An example stands in an indented block:

- It is a paragraph of commands, one a line. Below it, behind an empty line, is the output of the
  last command on a terminal, standard output and error.
- A line `...` stands for any lines.
- What a CMD behind `--` prints first is not shown.
- A command with the remark `# on 6.1` shows its output on that kernel; other commands print the
  same on all kernels.
- A block that does not begin with a command is a listing, or, with an option in brackets, a
  synopsis.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What a line of an example begins with, behind assignments (NAME=VALUE): any other is output.
COMMAND = re.compile(r'(?:\w+=(?:"[^"]*"|\S*) )*'
                     r'(?:jifl|build/bin/jifl|make|mkdir|cat|dmesg|tests/(?:vm|ltp)/run|bench/native/run)(?: |$)')
SYNOPSIS = re.compile(r" \[-")
ANY = "..."

# In what is shown and in what is printed, line by line and in this order. A line that becomes empty
# counts as none.
RULES = [(re.compile(pattern), put) for pattern, put in [
    # The kernel log's times; what `jifl bench` says while it works.
    (r"^\[ *\d+\.\d+\] ", ""),
    (r"^jifl bench: .*", ""),
    # Source lines are there where debug information is.
    (r"^jifl: no source lines of .*", ""),
    (r"^ *\| .*", ""),
    (r"\s*[\w/-]+\.[chS]:\d+(?: \([\w.]+\))?", ""),
    # Whether threads had to wait for their records to be taken is chance.
    (r"; threads waited \d+ times for records to be taken, .* in all", ""),
    # Which code ran natively, and why, is chance.
    (r"native exits \d[\d,]*(?: \([^)]*\))?", "native exits N"),
    # So is which calls are under way when a session ends.
    (r"^# missed: .*", ""),
    # Compilers choose registers.
    (r"%(?:r\d+[dwb]?|[re]?[abcd]x|[re]?[sd]i|[re]?[sb]p|[abcd][lh]|[sd]il|[sb]pl)\b", "%R"),
    # Releases, times, addresses, numbers, also with a sign or a K or M, but not within names.
    (r"\b\d+\.\d+\.\d+[\w.+-]*", "VERSION"),
    (r"(?<![\w.])\d[\d,.]* (?:min|s|ms|us|ns)\b", "TIME"),
    (r"\b0x[0-9a-f]+\b", "N"),
    (r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?[KMGT]?(?!\w)", "N"),
    # One thread, two threads.
    (r"\bN (\w+)s\b", r"N \1"),
    # Bars of histograms, and what columns are filled up with.
    (r"\|[@ ]*\|", "|BAR|"),
    (r"(?<=\S) +", " "),
    (r" +$", ""),
]]


@dataclass
class Example:
    """A command, on which kernel, the lines that its page shows of it, where it stands.

    No lines: the page says nothing of them.
    """
    page: str
    line: int
    command: str
    kernel: str = ""    # "": any
    shown: list = field(default_factory=list)


@dataclass
class Listing:
    """An indented block that is no example."""
    page: str
    line: int
    lines: list


def blocks(text):
    """(number of its first line, its lines without their margin) of each indented block."""
    found, inside, fenced, before = [], False, False, ""
    for number, line in enumerate(text.split("\n"), 1):
        fenced ^= line.lstrip().startswith("```")
        if line.startswith("    ") and not fenced and (inside or not before.strip()):
            if not inside:
                found.append((number, []))
            found[-1][1].append(line)
            inside = True
        elif inside and not line.strip():
            found[-1][1].append("")
        else:
            inside = False
        before = line
    return [(number, without_margin(lines)) for number, lines in found]


def without_margin(lines):
    """Without what all are indented by, and without empty lines at the end."""
    while not lines[-1]:
        lines = lines[:-1]
    margin = min(len(line) - len(line.lstrip()) for line in lines if line)
    return [line[margin:] for line in lines]


def read(page, text):
    """The examples and the listings of a page, in their order.

    ValueError: output stands among commands.
    """
    examples, listings = [], []
    for number, lines in blocks(text):
        if not COMMAND.match(lines[0]) or SYNOPSIS.search(lines[0]):
            listings.append(Listing(page, number, lines))
            continue
        of_commands = True
        for at, line in enumerate(lines, number):
            command = COMMAND.match(line)
            if at == number or not lines[at - number - 1]:
                of_commands = command is not None
            if of_commands and line:
                if not command:
                    raise ValueError(f"{page}:{at}: no command; what is printed stands behind an empty line: {line}")
                found = re.match(r"(.*?)(?:\s+# (?:on (\d+\.\d+)$)?.*)?$", line)
                examples.append(Example(page, at, found[1], found[2] or ""))
            elif line:
                examples[-1].shown.append(line)
    return examples, listings


def everything():
    """The examples and the listings of README.md and of all pages in docs/."""
    examples, listings = [], []
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        more = read(str(file.relative_to(ROOT)), file.read_text())
        examples += more[0]
        listings += more[1]
    return examples, listings


def plain(line):
    """A line after RULES."""
    for pattern, put in RULES:
        line = pattern.sub(put, line)
    return line


def differs(example, printed):
    """What of the page is not in the text that was printed; None: all is as shown.

    Between two lines `...` the lines that are shown stand together and in this order; what they do
    not show at the beginning and at the end there is not, but for what CMD printed first.
    """
    shown = [plain(line) for line in example.shown]
    lines = [line for line in map(plain, printed.splitlines()) if line]
    parts = [[]]
    for line in shown:
        if line.strip() == ANY:
            parts.append([])
        elif line:
            parts[-1].append(line)
    anywhere, at = " -- " in example.command, 0
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        places = range(at, len(lines) - len(part) + 1) if anywhere or number else [0]
        if last and part:
            places = [len(lines) - len(part)] if len(lines) - len(part) in places else []
        found = [place for place in places if lines[place:place + len(part)] == part]
        if not found:
            return "not printed " + ("there" if number else "first") + ":\n" + "\n".join(part)
        at = found[0] + len(part)
    return None
