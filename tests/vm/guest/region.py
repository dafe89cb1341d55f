# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the flight recorder leaves in memory, read without the command: a second witness (include/uapi/jifl_flight.h)."""

import ctypes
import struct

from lib import Device

PAGE, RECORD, ARGS = 4096, 64, 5
START, END, COPY, LAST, MASK, FREEZE, THAW, FORGET, EVENTS, HOLD, ADD = range(1, 12)
ALL = (1 << 64) - 1
RUNS, AT_REQUEST, AT_EVENT, AT_ERRNO, AT_PANIC, AT_SLOW = range(6)
OF_THREAD, OF_ARG0, OF_ARG1, OF_CPU = range(4)
# Of a record's level.
SOFTIRQ, IRQ, NMI = 0x0001, 0x0f00, 0xf000


def request(op, mask=0, count=0, keep=0, buf=0, offset=0, length=0, stop_mask=0, stop_errno=0, after=0, memory=b"",
            slow=(0, 0, 0, 0, 0, 0), added=0, recording=0):
    return struct.pack("<IQIIQQQQiIQ48sQQHHBBHII", op, mask, count, keep, buf, offset, length, stop_mask, stop_errno, 0, after, memory,
                       *slow, 0, added, recording)


def flight(device, op, **options):
    return device.call("flight", request(op, **options))


def copy(device, offset, length, op=COPY, memory=b""):
    room = ctypes.create_string_buffer(length)
    flight(device, op, buf=ctypes.addressof(room), offset=offset, length=length, memory=memory)
    return room.raw


def add(device, name):
    """Adds an event of programs: its number, and which recording has it."""
    event = struct.pack("<24s8s88sQ", name, b"probe", b"count:u", 0)
    room = ctypes.create_string_buffer(event, len(event))
    answer = flight(device, ADD, buf=ctypes.addressof(room), length=len(event))
    return struct.unpack_from("<II", answer, len(answer) - 8)


def whole(record):
    """Is its check right?"""
    time, number, tid, context, check, *args = struct.unpack("<QQIHH5Q", record)
    product = (sum([time, number, tid, context, *args]) + 1) * 0x0001000100010001 & (1 << 64) - 1
    return product >> 48 == check


class Recording:
    """All of it, as it is now."""

    def __init__(self, device, op=COPY, memory=b"", records=True):
        head = copy(device, 0, PAGE, op, memory)
        (magic, version, cpus, nevents, _, count, _, events_at, _, rings_at, _, records_at) = struct.unpack_from("<16s6I5Q", head)
        assert (magic, version) == (b"JIFL flight data", 2), head[:24]
        self.khz = struct.unpack_from("<I", head, 16 + 24 + 40 + 16 + 20)[0]
        self.mask, self.stop_at, self.why, self.stop_event = struct.unpack_from("<QQII", head, 16 + 24 + 40 + 16 + 20 + 4 + 24 + 64)
        table = copy(device, events_at, 128 * nevents, op, memory)
        self.names = [table[at:at + 24].split(b"\0")[0].decode() for at in range(0, len(table), 128)]
        rings = copy(device, rings_at, RECORD * cpus, op, memory)
        self.counts = [struct.unpack_from("<Q", rings, RECORD * cpu)[0] for cpu in range(cpus)]
        # (time, event, cpu, tid, level, args), by CPU, in the order in which they were begun.
        self.records = []
        # Not whole, or overwritten since `counts` was read.
        self.bad = 0
        for cpu, end in enumerate(self.counts if records else []):
            ring = copy(device, records_at + cpu * count * RECORD, count * RECORD, op, memory)
            for number in range(max(0, end - count), end):
                at = number % count * RECORD
                self.take(ring[at:at + RECORD], number, cpu)
        self.records.sort(key=lambda one: one[0])

    def take(self, record, number, cpu):
        time, got, event, on, tid, level, _, *args = struct.unpack("<QIHHIHH5Q", record)
        if got == number & 0xffffffff and whole(record) and on == cpu:
            self.records.append((time, self.names[event], cpu, tid, level, args))
        else:
            self.bad += 1

    def of(self, *names, tid=None):
        return [one for one in self.records if one[1] in names and tid in (None, one[3])]


def recorder():
    return Device()
