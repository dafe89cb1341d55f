# SPDX-License-Identifier: MIT OR Apache-2.0
"""Why each function is refused: asked about all of them at once, and about a few at a time.

usage: asked_together.py

The module reads all names at once where it is asked about many functions. What it says then must be
what it says without that.
"""

from collections import Counter
from pathlib import Path

from lib import REASONS, Device, check, complaints, figure, known_functions, main, module_file, run, same

COUNT = 1
# Without jumps, which would be looked for in each request.
JUMPS = Path("/sys/module/jifl/parameters/jumps")
MODULE = f"{Path(module_file()).parent}/jifl_contexts.ko"
# One of its functions has such a name.
NAMED, MODULE_NAME = "ftrace_of_contexts", "jifl_contexts"
# Of so many of a module, one after the other, the module looks up the names one by one (refuse_module.c).
ONE_BY_ONE = 17
FEW_OF_KERNEL, FEW_OF_MODULE, MOST = 8_000, 12, 65_000


def used():
    """References to each module."""
    return dict(line.split()[:3:2] for line in Path("/proc/modules").read_text().splitlines())


def refused(functions, good):
    """What is said of each of them. The request itself fails: good, which can be a target, stands in it twice."""
    targets = [Device.target(0, Device.FUNCTION, Device.ONLY, address, b"", Device.OPTIONAL)
               for address in functions]
    twice = [Device.target(0, Device.FUNCTION, Device.ONLY, good)] * 2
    with Device() as device:
        try:
            device.start_of(COUNT, targets + twice)
            check("a target that stands there twice is refused", False)
        except OSError as error:
            same("the error", error.errno, 22)
        return [REASONS[number] for number in device.refused[:-2]]


def asked_together():
    same("a module that has a function with a refused name", run("insmod", MODULE).returncode, 0)
    JUMPS.write_text("0")
    known = known_functions()
    check("all of them fit into a request", len(known) < MOST, len(known))
    functions = sorted([*((module, address, name) for address, (module, name) in known.items()),
                        *((module, address + 1, "") for address, (module, _) in known.items() if module == MODULE_NAME)])
    users = used()
    good, = {address for module, address, name in functions if (module, name) == ("", "ksys_read")}
    # A few at a time first: what is read of the kernel's own names stays.
    apart, at = {}, 0
    while at < len(functions):
        module = functions[at][0]
        some = [address for owner, address, _ in functions[at:at + (FEW_OF_MODULE if module else FEW_OF_KERNEL)]
                if owner == module]
        apart.update(zip(some, refused(some, good)))
        at += len(some)
    all_addresses = [address for _, address, _ in functions]
    together = dict(zip(all_addresses, refused(all_addresses, good)))
    wrong = [(module, name, together[address], apart[address]) for module, address, name in functions
             if together[address] != apart[address]]
    check("each is refused for the same reason, or is not", not wrong, (len(wrong), wrong[:8]))
    figure("functions of the kernel, of modules", Counter(bool(module) for module, _, _ in functions))
    figure("reasons", Counter(together.values()))
    same("a function of a module is refused by its name",
         [together[address] for _, address, name in functions if name == NAMED], ["PATCHING"])
    same("no function begins in the middle of one",
         {together[address] for module, address, name in functions if module and not name}, {"UNKNOWN"})
    names = [name for module, _, name in functions if module == MODULE_NAME]
    check("it is behind those that are looked up one by one", names.index(NAMED) > ONE_BY_ONE, names[:20])
    owners = Counter(module for module, _, _ in functions)
    check("modules have many functions", sum(number > ONE_BY_ONE for number in owners.values()) > 5, owners)
    same("each module has the references that it had", used(), users)
    same("the module can go", run("rmmod", MODULE_NAME).returncode, 0)
    same("the log", complaints(), [])


if __name__ == "__main__":
    main(asked_together)
