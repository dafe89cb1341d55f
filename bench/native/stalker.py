#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs a program under Frida's Stalker, from its tool_begin to its tool_end.

usage: stalker.py none|block|insn PROGRAM ARGUMENT...

none follows the thread and asks for nothing. block and insn have a transform in C that puts an
addition to tool_count at the start of each block, in code that leaves flags alone: this is the
fastest code that Stalker gives its users. A callout, an event, or saving the flags (Stalker does
not know where they are live) costs more.
"""

import subprocess
import sys
import threading

import frida

TRANSFORM = """
#include <gum/gumstalker.h>
#include <string.h>

extern int count_insns;
extern guint32 cell;

/* lea -128(%rsp), %rsp; push %rax; mov cell, %rax; lea n(%rax), %rax; mov %rax, cell; pop %rax; lea 128(%rsp), %rsp */
static const guint8 add[] = {
  0x48, 0x8d, 0x64, 0x24, 0x80, 0x50,
  0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0,
  0x48, 0x8d, 0x80, 0, 0, 0, 0,
  0x48, 0x89, 0x04, 0x25, 0, 0, 0, 0,
  0x58, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0,
};

void
transform (GumStalkerIterator * iterator, GumStalkerOutput * output, gpointer user_data)
{
  GumX86Writer * w = output->writer.x86;
  guint8 * start = NULL;
  guint32 n = 0;

  while (gum_stalker_iterator_next (iterator, NULL))
  {
    if (start == NULL)
    {
      start = w->code;
      gum_x86_writer_put_bytes (w, add, sizeof (add));
      memcpy (start + 10, &cell, 4);
      memcpy (start + 25, &cell, 4);
    }
    gum_stalker_iterator_keep (iterator);
    n++;
  }
  if (!count_insns)
    n = 1;
  if (start != NULL)
    memcpy (start + 17, &n, 4);
}
"""

SCRIPT = """
const { kind, begin, end, count, source } = %s;
const options = {};
let code = null;
if (kind !== 'none') {
  const countInsns = Memory.alloc(4), cell = Memory.alloc(4);
  countInsns.writeInt(kind === 'insn' ? 1 : 0);
  cell.writeU32(count);
  code = new CModule(source, { count_insns: countInsns, cell });
  options.transform = code.transform;
}
Interceptor.attach(ptr(begin), { onEnter() { Stalker.follow(this.threadId, options); } });
Interceptor.attach(ptr(end), { onEnter() { Stalker.unfollow(this.threadId); } });
"""


def symbols(program):
    out = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    return {line.split()[2]: int(line.split()[0], 16) for line in out.splitlines() if len(line.split()) == 3}


def main():
    import json

    kind, program, *arguments = sys.argv[1:]
    at = symbols(program)
    given = json.dumps({"kind": kind, "begin": at["tool_begin"], "end": at["tool_end"],
                        "count": at["tool_count"], "source": TRANSFORM})
    ended = threading.Event()
    failed = []

    def on_message(message, _):
        failed.append(message)
        print(message.get("description", message), file=sys.stderr)

    device = frida.get_local_device()
    pid = device.spawn([program, *arguments], stdio="inherit")
    session = device.attach(pid)
    session.on("detached", lambda *_: ended.set())
    script = session.create_script(SCRIPT % given)
    script.on("message", on_message)
    script.load()
    device.resume(pid)
    ended.wait()
    sys.exit(bool(failed))


main()
