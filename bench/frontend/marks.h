/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How a program in the machine speaks to front-end.so: by a nop that no other program executes,
 * nopl MARK(%rax,%rax,1). crates/jifl-sys/src/cpu.rs has the same numbers.
 */
#ifndef FRONT_END_MARKS_H
#define FRONT_END_MARKS_H

#define MARK_BEGIN 0x4a464501		/* a round begins: the kernel's events are counted */
#define MARK_BEGIN_ALL 0x4a464502	/* the same, and those of user space, too */
#define MARK_END 0x4a464503		/* the round ends; the model goes on */
#define MARK_WRITE 0x4a464504		/* the rounds since the last one go to a file */
#define MARK_STOP 0x4a464505		/* the model stops, and forgets */

/* Bytes of the ring of forms.S: 1 MiB, as a session's, and what a record may have beyond that. */
#define FORM_RECORDS (0x100000 + 2048)

#endif
