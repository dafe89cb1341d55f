/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * What is done where a place of JIFL_KIND_PROBE is executed, or a function of JIFL_KIND_TIMES
 * begins or ends: a program of struct jifl_op. Part of the ABI of /dev/jifl, in a file of its own.
 *
 * The program runs before the instruction, in the context of the code that executes it, with
 * interrupts off. It has a stack of numbers of 64 bits. Its ops run one after the other; a skip
 * leads forward only. Ops from JIFL_OP_IF on are effects. Each effect takes from the stack what is
 * said there, and leaves the stack empty. The module refuses a program in which that is not so for
 * every way through it.
 *
 * A value that cannot be had is unknown: a load faults, or a number is divided by 0. What remains
 * of its expression does not run then, up to the next effect, which is told.
 */
#ifndef _UAPI_JIFL_ACTION_H
#define _UAPI_JIFL_ACTION_H

#include <linux/types.h>

#define JIFL_OPS_MAX		256	/* of one program */
#define JIFL_OP_STACK		16	/* numbers */
#define JIFL_ACTIONS_MAX	4096	/* programs of one session; places may share them */
#define JIFL_STRINGS_MAX	65536	/* bytes of a session's strings */
#define JIFL_STRING_MAX		256	/* bytes of one string that is read, with its end */
#define JIFL_GROUP_MAX		64	/* bytes of the name of a group: all GROUP ops together */
#define JIFL_FRAMES_MAX		32	/* of a stack */
#define JIFL_HIT_MAX		2048	/* bytes of a record, with its head */
#define JIFL_RING_MAX		(256u << 20) /* bytes of records for each CPU */

/* X(name, number): see JIFL_OP_*. Below, "top" is the number that was pushed last. */
#define JIFL_OPS(X) \
	X(CONST, 1)	/* push imm */ \
	X(REG, 2)	/* push register arg: as instructions number them; 16 rip, 17 flags */ \
	X(GET, 3)	/* push what enum jifl_get says in arg */ \
	X(LOAD, 4)	/* top = memory at top + imm: width bytes; of user space below its end */ \
	X(EXTEND, 5)	/* top = its low width bytes */ \
	X(BITS, 6)	/* top = arg bits of it, from bit imm on */ \
	X(NEGATE, 7)	/* top = -top */ \
	X(INVERT, 8)	/* top = ~top */ \
	X(NOT, 9)	/* top = !top: 0 or 1 */ \
	/* Each takes two numbers, left before right, and pushes one. */ \
	X(ADD, 10) \
	X(SUB, 11) \
	X(MUL, 12) \
	X(DIV, 13) \
	X(MOD, 14) \
	X(AND, 15) \
	X(OR, 16) \
	X(XOR, 17) \
	X(SHL, 18)	/* by right modulo 64 */ \
	X(SHR, 19)	/* likewise; signed: the sign moves in */ \
	X(EQ, 20)	/* 0 or 1, and so the next three */ \
	X(NE, 21) \
	X(LT, 22) \
	X(LE, 23) \
	X(STR_EQ, 24)	/* top = is the string at top the arg bytes at imm of the session's? */ \
	/* with JIFL_OP_CUT: does it begin with them? */ \
	/* If top is 0, or not 0, skip arg ops and keep it, else take it. */ \
	X(SKIP_ZERO, 25) \
	X(SKIP_NONZERO, 26) \
	/* Effects. */ \
	X(IF, 64)	/* takes one: the program ends unless it is not 0 and known */ \
	X(HIT, 65)	/* counts an execution of the place */ \
	X(GROUP, 66)	/* takes one: 8 bytes of the group's name */ \
	X(GROUP_STR, 67) /* takes one: the string there, cut after imm - 1 bytes; arg bytes */ \
	X(GROUP_STACK, 68) /* the stack: 8 bytes, its number in JIFL_TABLE_STACKS */ \
	X(VALUE, 69)	/* takes one: the value that SUM adds up */ \
	X(SUM, 70)	/* adds the hit, and its value, to its group */ \
	X(OUT, 71)	/* takes one: 8 bytes of the record */ \
	X(OUT_STR, 72)	/* takes one: the string there; arg bytes at most, with its end */ \
	X(OUT_STACK, 73) /* the stack */ \
	X(RECORD, 74)	/* writes the record */ \
	X(BPF, 75)	/* runs the action's BPF program, given the registers */ \
	X(OBJECT, 76)	/* KIND_TIMES: the call is about what the GROUPs say; the last op */ \
	/* KIND_TIMES: takes one; the function's counter arg grows by it, if it is not below 0; */ \
	/* a distribution has it, too */ \
	X(ADD_UP, 77) \
	X(FLIGHT, 78)	/* writes the OUTs, five at most, as event arg of recording imm */

enum jifl_op_code {
#define JIFL_OP_ENUM(name, number) JIFL_OP_##name = number,
	JIFL_OPS(JIFL_OP_ENUM)
#undef JIFL_OP_ENUM
};

/* Of JIFL_OP_GET. A softirq or an interrupt is no task's. */
enum jifl_get {
	JIFL_GET_PID = 0,		/* process, in the first namespace; 0 in interrupts */
	JIFL_GET_TID = 1,		/* thread, likewise */
	JIFL_GET_CPU = 2,
	JIFL_GET_TIME = 3,		/* ns of CLOCK_MONOTONIC */
	JIFL_GET_LEVEL = 4,		/* enum jifl_level */
	JIFL_GET_TASK = 5,		/* address of the task that runs or is interrupted */
	JIFL_GET_COMM = 6,		/* address of the command's name; JIFL_KEY_SOFTIRQ, _IRQ */
	JIFL_GET_CALLER = 7,		/* where the function returns to */
	JIFL_NR_GETS,
};

/* Of EXTEND, LOAD, BITS, DIV, MOD, SHR, LT, LE, VALUE and ADD_UP: numbers are signed. */
#define JIFL_OP_SIGNED		(1u << 0)
/* Of STR_EQ, of a byte or more: what is behind these bytes is not read. */
#define JIFL_OP_CUT		(1u << 1)

struct jifl_op {
	__u8  code;			/* enum jifl_op_code */
	__u8  width;			/* LOAD, EXTEND: 1, 2, 4, 8; else 0 */
	__u8  flags;			/* JIFL_OP_SIGNED, JIFL_OP_CUT */
	__u8  reserved;			/* 0 */
	__u32 arg;			/* as JIFL_OPS says; else 0 */
	__u64 imm;			/* likewise */
};

/* A program, by its place in the session's ops. */
struct jifl_action {
	__u32 from;			/* its first op */
	__u32 n;			/* 1 to JIFL_OPS_MAX */
	__s32 bpf;			/* with BPF: file of a program of type KPROBE; else -1 */
	__u32 reserved;			/* 0 */
};

/*
 * A record: this head, then what OUT, OUT_STR and OUT_STACK have written, in their order, each
 * rounded up to 8 bytes. OUT: the number. OUT_STR: its length in a number of 64 bits, then its
 * bytes without the end. OUT_STACK: the number of its frames, then their addresses.
 */
struct jifl_hit {
	__u32 size;			/* bytes, with the head */
	__u32 place;			/* index in the session's list of places */
	__u64 time;			/* ns of CLOCK_MONOTONIC */
	__u32 cpu;
	__u32 level;			/* enum jifl_level */
	__s32 pid;			/* process, in the first namespace; 0 in interrupts */
	__s32 tid;			/* thread, likewise */
	__u64 unknown;			/* bit n: the nth of them is unknown, and 0 or empty */
	char  comm[16];			/* of the task, or JIFL_KEY_SOFTIRQ, JIFL_KEY_IRQ */
};

#define JIFL_TABLE_GROUPS	0x80000001u	/* struct jifl_group */
#define JIFL_TABLE_STACKS	0x80000002u	/* struct jifl_frames */

/* Of JIFL_TABLE_GROUPS, in rest: hits of groups that there was no room for. */
#define JIFL_GROUP_OTHER	0

#define JIFL_GROUP_BUCKETS	66	/* 0; by highest bit, 1 to 64 as unsigned; below 0 */
/* A value below 0, by a VALUE with JIFL_OP_SIGNED. */
#define JIFL_GROUP_NEGATIVE	65

/* An entry of JIFL_TABLE_GROUPS, in the order in which they were first seen. */
struct jifl_group {
	__u32 place;
	__u32 unknown;			/* bit n: the nth part of its name is unknown, and 0 */
	__u8  name[JIFL_GROUP_MAX];	/* what the GROUP ops have put there; behind it 0 */
	__u64 hits;
	__u64 sum;			/* of the values that are known */
	__u64 known;			/* how many these are */
	__u64 bucket[JIFL_GROUP_BUCKETS]; /* hits by value */
};

/* An entry of JIFL_TABLE_STACKS, whose number is its index + 1; 0: there was no room. */
struct jifl_frames {
	__u64 address[JIFL_FRAMES_MAX]; /* of the callers, innermost first; 0 behind the last */
};

#endif /* _UAPI_JIFL_ACTION_H */
