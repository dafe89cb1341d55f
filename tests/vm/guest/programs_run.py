# SPDX-License-Identifier: MIT OR Apache-2.0
"""How the programs of programs/ are run."""

import shutil
import time
from pathlib import Path

from lib import run

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"


def command(program):
    path = PROGRAMS / program
    return ["/usr/bin/python3", "-B", path] if path.suffix == ".py" else ["sh", path]


def in_fresh_directory(*words):
    """Runs it in a directory of its own: always the same one, so that names are the same."""
    directory = Path("/tmp/programs")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    start = time.monotonic()
    end = run(*words, cwd=directory, timeout=600)
    return end, time.monotonic() - start
