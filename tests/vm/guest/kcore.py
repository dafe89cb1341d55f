# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernel's memory, by /proc/kcore."""

import struct


def kernel_memory(ranges):
    """The bytes of each (address, size), in their order."""
    with open("/proc/kcore", "rb") as core:
        table, entries = struct.unpack_from("<32xQ16xH", core.read(64))
        core.seek(table)
        # Type, offset, address, size in the file.
        parts = [struct.unpack("<I4xQQ8xQ16x", core.read(56)) for _ in range(entries)]
        found = []
        for address, size in ranges:
            at = [offset + address - start for kind, offset, start, length in parts
                  if kind == 1 and start <= address and address + size <= start + length]
            if not at:
                raise ValueError(f"no memory at {address:#x}")
            core.seek(at[0])
            found.append(core.read(size))
    return found
