# SPDX-License-Identifier: MIT OR Apache-2.0
"""What userland's liveness calls dead is dead: it is overwritten in a kernel that runs programs.

The machine's own code is analysed on the host. Places are drawn at random. The module, one built
for tests, overwrites there what is dead, in all copies (host/kernel/garbage.c).
"""

import os
import random
import subprocess
import threading
import time

import pytest

import harness

PROGRAMS = ["system.py", "shell.sh"]
SOAK = ["coreutils.sh", "archive.sh"]
# Of a hundred places so many. JIFL_TEST_SEED=N draws those of an earlier run.
PERCENT = 10
SEED = int(os.environ.get("JIFL_TEST_SEED", "0")) or random.randrange(1, 1 << 32)


def make_lists(directory, rounds, options, said):
    """Waits until the machine asks, and gives it a list for each round."""
    while not (directory / "asked").exists():
        if (directory / "over").exists():
            return
        time.sleep(0.2)
    made = directory / "made"
    made.mkdir()
    seeds = [str(SEED + number) for number in range(rounds)]
    words = [harness.JIFL, "dead-places", directory / "kernel", made, *seeds, "--percent", str(PERCENT), *options]
    end = subprocess.run(words, capture_output=True, text=True, check=False)
    said.append(end)
    for number, seed in enumerate(seeds, 1):
        if (made / seed).exists():
            (made / seed).rename(made / str(number))
    made.rename(directory / "lists")


def with_garbage(kernel, directory, rounds, programs, options=(), **more):
    """A machine in which it is overwritten; the end of `jifl dead-places`."""
    said = []
    maker = threading.Thread(target=make_lists, args=(directory, rounds, options, said))
    maker.start()
    try:
        module = harness.build_test_module(kernel)
        harness.guest("garbage", directory, rounds, *programs, kernel=kernel, rw=directory, timeout=400, smp=2, module=False,
                      options=["--module", module], append="jifl.cache_kb=32768 jifl.side_kb=32768", **more)
    finally:
        (directory / "over").touch()
        maker.join()
    return said[0]


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_garbage(kernel, show, tmp_path):
    """In hundreds of places, and more."""
    rounds = 4 if harness.SOAK else 1
    programs = PROGRAMS + (SOAK if harness.SOAK else [])
    said = with_garbage(kernel, tmp_path, rounds, programs, show=show)
    assert said.returncode == 0, said
    show(f"garbage in what is dead: JIFL_TEST_SEED={SEED}: {'; '.join(said.stdout.splitlines())}")


@pytest.mark.skipif(not harness.SOAK, reason="in the soak: it tests the test beside it")
@pytest.mark.parametrize("kernel", harness.turn(1))
def test_one_register_too_many(kernel, show, tmp_path):
    """Liveness that forgets rbx where branches lead: it is noticed."""
    with pytest.raises(AssertionError):
        with_garbage(kernel, tmp_path, 1, PROGRAMS[1:], ["--plant", "taken", "--register", "rbx"])
    # The machine has come so far.
    assert (tmp_path / "lists").is_dir()
    show("a register too many was noticed")
