/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The ABI of /dev/jifl: between the module and the jifl command.
 *
 * Every structure has members of fixed width and no implicit padding. Its first member is its own
 * size in bytes. The module refuses a size that it does not know with EINVAL. A command that was
 * built for another JIFL_ABI_VERSION must say so and stop (JIFL_IOC_INFO works across versions).
 *
 * A session belongs to the open file on which it was started. It ends when that file is closed, for
 * whatever reason. One file has at most one session. poll() returns only POLLHUP, when the session
 * has ended: another process can end it (JIFL_IOC_DETACH).
 *
 * Errors of every request: EPERM without CAP_SYS_ADMIN, EFAULT for a bad
 * pointer, EINVAL for a wrong size or an unknown value.
 */
#ifndef _UAPI_JIFL_H
#define _UAPI_JIFL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#include "jifl_action.h"
#include "jifl_flight.h"
#include "jifl_causes.h"
#include "jifl_inline.h"
#include "jifl_refusals.h"

#define JIFL_ABI_VERSION	29
#define JIFL_DEVICE		"/dev/jifl"

#define JIFL_NAME_MAX		32
#define JIFL_SYMBOL_MAX	64	/* bytes of a function's name, with the 0 */

/* At what a thread can enter the cache. */
enum jifl_target_kind {
	JIFL_TARGET_SYSCALL = 1,	/* id: the number of a system call */
	/*
	 * address: where a function of the kernel or of a module begins, as in kallsyms; name: its
	 * name there, or 0.
	 */
	JIFL_TARGET_FUNCTION = 2,
};

/* In which context a target is entered. Levels interrupt those before them. */
enum jifl_level {
	JIFL_LEVEL_TASK = 0,		/* tasks, kernel threads too */
	JIFL_LEVEL_SOFTIRQ = 1,		/* softirqs, in ksoftirqd too */
	JIFL_LEVEL_IRQ = 2,		/* hard interrupts, and what runs on their stack */
	JIFL_NR_LEVELS,
};

/* What runs in the cache after that. */
enum jifl_scope {
	JIFL_SCOPE_UNDER = 0,		/* the target and all that it calls */
	/*
	 * The function alone; FUNCTION only. What it calls runs natively. All targets of a session
	 * have the same scope. Tools: NONE, CALL, INSN, BLOCK, PROFILE, PROBE. A call of a target
	 * inside another one is counted where it begins by CALL and PROFILE, and missed by INSN and
	 * BLOCK. If something is lost, PROFILE has the outermost call missed.
	 */
	JIFL_SCOPE_ONLY = 1,
};

/*
 * System call numbers 0 .. JIFL_NR_MAX - 1 can be targets. Kernels have fewer than 480. The table
 * in which each call is looked up has this size.
 */
#define JIFL_NR_MAX		512
/*
 * Maximum of targets in one session: several times the functions of a kernel and its modules. The
 * identity of a running call has 19 bits for the index of its target in the session's list.
 */
#define JIFL_TARGETS_MAX	(1u << 18)

/* The target is left out if it cannot be entered; without this flag the session is refused. */
#define JIFL_TARGET_OPTIONAL	(1u << 0)
/*
 * Of a function, the type of a value: what it returns, or with JIFL_FLAG_ARG an argument. The value
 * is a number of n bytes: 1, 2, 4, or 8, the default. The module extends it to 64 bits. VOID: the
 * function returns nothing. ARG: it is this argument, by its register, 0 to 5, instead of the
 * session's.
 */
#define JIFL_TARGET_SIGNED	(1u << 1)
#define JIFL_TARGET_VOID	(1u << 2)
#define JIFL_TARGET_BYTES(n)	((n) << 8)
#define JIFL_TARGET_ARG(n)	(((n) + 1u) << 16)

/*
 * Which calls of a function are meant: those from one of so many ranges, if there are any, and
 * those whose first argument is one of so many values, if there are any. A call is from a range if
 * its return address is above `begin`, and not above `end`. The return address is native code's.
 */
/* Few: each call compares itself with one after the other. */
#define JIFL_CALLERS_MAX	8
#define JIFL_VALUES_MAX		8

struct jifl_condition {
	__u32 callers;
	__u32 values;
	struct {
		__u64 begin;
		__u64 end;
	} caller[JIFL_CALLERS_MAX];
	__u64 value[JIFL_VALUES_MAX];
};

/* Maximum of conditions in one session: bounds a request's memory. Targets can share one. */
#define JIFL_CONDITIONS_MAX	(1u << 12)
/* Maximum of what the calls of one session can be made under. Each call looks among them. */
#define JIFL_UNDER_MAX		(1u << 12)

/*
 * One target in a session's list. Members that its kind does not use are 0. Answers and records
 * name a target by its index in the list, from 0.
 */
struct jifl_target_spec {
	__u32 kind;			/* enum jifl_target_kind */
	__u32 scope;			/* enum jifl_scope */
	/*
	 * SYSCALL: its number. FUNCTION with KIND_REPLACE: where the function of a module begins
	 * that replaces it; else 0.
	 */
	__u64 id;
	__u64 address;			/* of kinds that are functions: its begin */
	char  name[JIFL_SYMBOL_MAX];	/* of kinds that have names, NUL-terminated */
	__u32 flags;			/* JIFL_TARGET_OPTIONAL and so on; FUNCTION only */
	__u32 refused;			/* out: enum jifl_refusal; FUNCTION only */
	__u32 condition;		/* FUNCTION only: 1 is the session's first; 0: none */
	__u32 reserved;			/* 0 */
};

/*
 * What a session does, by its kind: its tool. X(kind, tool, number): the module has a structure
 * jifl_tool_<tool> for each.
 */
#define JIFL_TOOLS(X) \
	X(NONE, none, 0)	/* nothing inserted: the bare cost of the cache */ \
	X(CALL, call, 1)	/* system calls, nothing inside them */ \
	X(INSN, insn, 2)	/* instructions executed */ \
	X(BLOCK, block, 3)	/* basic blocks executed */ \
	X(TRACE, trace, 5)	/* functions entered, counted and recorded */ \
	X(PROFILE, profile, 6)	/* executions of each basic block, struct jifl_count */ \
	X(PATH, path, 7)	/* basic blocks executed, recorded in their order */ \
	X(LOCK, lock, 8)	/* waits for locks, retries of locked cmpxchg, struct jifl_lock */ \
	X(MEM, mem, 9)		/* what is loaded and stored, recorded; struct jifl_access */ \
	X(PROBE, probe, 10)	/* executions of places in functions, struct jifl_hits */ \
	X(REPLACE, replace, 11)	/* calls of one function go to another, and are counted */ \
	X(TIMES, times, 12)	/* calls of functions, and how long; struct jifl_time */ \
	X(TREE, tree, 13)	/* instructions and times by call path, struct jifl_path */ \
	X(LAYOUT, layout, 14)	/* nothing inserted: blocks lie as JIFL_IOC_WARM says */

enum jifl_kind {
#define JIFL_KIND_ENUM(kind, tool, number) JIFL_KIND_##kind = number,
	JIFL_TOOLS(JIFL_KIND_ENUM)
#undef JIFL_KIND_ENUM
	JIFL_KIND_PLUGIN = 4,	/* a plugin's own callbacks; not for JIFL_IOC_START */
};

/* About the module. Every ABI version has this request. */
struct jifl_info {
	__u32 size;
	__u32 abi_version;
	char  version[JIFL_NAME_MAX];	/* of the module, NUL-terminated */
	__u32 cpus;			/* possible CPUs */
	__u32 reserved;
};

#define JIFL_FILTER_PID		(1u << 0)	/* thread id */
#define JIFL_FILTER_TGID	(1u << 1)	/* process id */
#define JIFL_FILTER_COMM	(1u << 2)	/* command name; with * or ? a pattern */
#define JIFL_FILTER_CGROUP	(1u << 3)	/* cgroup v2 id or a descendant */
#define JIFL_FILTER_CHILDREN	(1u << 4)	/* with TGID: descendants too */
/*
 * Levels; without it all. The other filters select tasks. So a session that has one of them is
 * about no call in a softirq or an interrupt, which are not the interrupted task's.
 */
#define JIFL_FILTER_LEVELS	(1u << 5)

/*
 * With KIND_INSN: a repeated string instruction counts once, and once more for each repetition,
 * like clocks that tick for every iteration.
 */
#define JIFL_FLAG_REPEATS	(1u << 0)
/*
 * With KIND_INSN and KIND_BLOCK, to measure the engine. FUNCTION: an analysis function adds the
 * counts. NO_LIVENESS: no register or flag counts as dead, so all are saved. NO_INLINING: the
 * function is called where it could be inlined.
 */
#define JIFL_FLAG_FUNCTION	(1u << 1)
#define JIFL_FLAG_NO_LIVENESS	(1u << 2)
#define JIFL_FLAG_NO_INLINING	(1u << 3)
/* With KIND_PROFILE: counts conditional branches, too. */
#define JIFL_FLAG_BRANCHES	(1u << 4)
/*
 * With KIND_INSN, KIND_BLOCK and KIND_CALL: sums for each command name, process, CPU and level, or
 * each combination of these; see JIFL_TABLE_KEYS. It is what they are at the end of a call, with
 * KIND_CALL at its beginning.
 */
#define JIFL_FLAG_BY_COMM	(1u << 5)
#define JIFL_FLAG_BY_PID	(1u << 6)
#define JIFL_FLAG_BY_CPU	(1u << 7)
/*
 * With KIND_CALL, one of these: struct jifl_stat has sum, min, max and a histogram of a value of
 * each call. DURATION: nanoseconds from its entry to its exit. RETVAL: what its handler, or the
 * function, returns. ARG: its argument n, 0 to 5.
 */
#define JIFL_FLAG_DURATION	(1u << 8)
#define JIFL_FLAG_RETVAL	(1u << 9)
#define JIFL_FLAG_ARG(n)	(1u << (10 + (n)))
/* With KIND_TRACE: records of arguments and return values, see JIFL_RECORD_ARGUMENTS. */
#define JIFL_FLAG_VALUES	(1u << 16)
/*
 * With KIND_TRACE: records of times of entries and exits, see JIFL_RECORD_ENTERED. With KIND_TREE:
 * times by call path.
 */
#define JIFL_FLAG_CLOCK		(1u << 17)
/*
 * With KIND_TRACE, _PATH, _MEM: a thread waits after its call if the CPU's ring of records is more
 * than half full then, until the ring has been read. So no record is lost of calls that record less
 * than half a ring, if nothing else records. Kernel threads, calls in interrupts, and threads of
 * the process that started the session do not wait. No thread waits longer than one second in which
 * the ring is not read.
 */
#define JIFL_FLAG_WAIT		(1u << 18)
/* See JIFL_FLAG_BY_COMM. */
#define JIFL_FLAG_BY_LEVEL	(1u << 19)
/*
 * With KIND_NONE, _INSN, _BLOCK, _PROFILE, _PROBE, _TIMES: tasks that are inside a function of the
 * session when it starts, asleep or preempted, go on in the cache. What is counted in such a call
 * has its own sum, because the count begins in the middle. See jifl_start.adopted.
 */
#define JIFL_FLAG_ADOPT		(1u << 20)

/*
 * With KIND_PROBE and _TIMES: a place in the code of a function. An execution of the place is an
 * execution of the instruction, or that its branch on a condition went this way.
 * The function may be one without an fentry site, also where it can have no door. It has no place
 * at an endbr64 of its beginning.
 */
enum jifl_splice_where {
	JIFL_SPLICE_BEFORE = 0,
	JIFL_SPLICE_TAKEN = 1,
	JIFL_SPLICE_NOT_TAKEN = 2,
};

/* Maximum of places in one session: bounds a request's memory. */
#define JIFL_SPLICES_MAX	(1u << 16)

struct jifl_splice {
	__u64 address;			/* of an instruction of the function, or of its NAME.cold */
	__u32 target;			/* index of the function in the list of targets */
	__u32 where;			/* enum jifl_splice_where */
	__u32 refused;			/* out: enum jifl_splice_refusal */
	/*
	 * PROBE: 1 is the session's first program; 0: executions are counted. TIMES: JIFL_TIMES_*,
	 * and JIFL_TIMES_PROGRAM times that number.
	 */
	__u32 action;
};

/*
 * With KIND_TIMES: what a place is of its function: the instruction at which it begins, behind its
 * fentry site; one with which it returns; or, with LEAVE, a jump to another function. Each call
 * comes to one of the first kind, and to one of the others, unless its task ends in it.
 */
#define JIFL_TIMES_ENTER	(1u << 0)
#define JIFL_TIMES_LEAVE	(1u << 1)
#define JIFL_TIMES_JUMP		(1u << 2)
#define JIFL_TIMES_ALL		((1u << 3) - 1)
/*
 * Times the number of a program. At ENTER: GROUP ops that tell what the call is about, then OBJECT,
 * at all places of the session or at none. There and at LEAVE: ADD_UPs, before OBJECT.
 */
#define JIFL_TIMES_PROGRAM	(1u << 8)

/* Why a task that was inside a function at the start goes on natively. */
enum jifl_left {
	JIFL_LEFT_TRACED,	/* a tracer has a return address on its stack */
	JIFL_LEFT_STACK,	/* its stack cannot be walked from end to end */
	JIFL_LEFT_SESSION,	/* it is in a call of another session */
	JIFL_LEFT_CODE,		/* what it goes on with cannot be copied, or not soon enough */
	JIFL_LEFT_OWN,		/* it is in code of the module, or stops the machine */
	JIFL_LEFT_ROOM,		/* no room for its count */
	JIFL_NR_LEFT,
};

/* Room in the ABI for later ones. */
#define JIFL_LEFT_MAX		8

/*
 * Starts a session on this file. Targets that this kernel does not have are left out, and so are
 * those with JIFL_TARGET_OPTIONAL that cannot be entered; the others keep their index. `refused` is
 * written into each target of JIFL_TARGET_FUNCTION.
 * Errors: EINVAL: no target is left, there are more than JIFL_TARGETS_MAX, or the list has one
 * twice. EBUSY: this file has a session; or a target already has as many sessions as it can have
 * (busy_target and busy_session name one); or another tracer has taken x64_sys_call (busy_session
 * 0; the log names it). EALREADY: there is a session of KIND_TRACE, KIND_PATH or KIND_MEM already,
 * of which there can be only one (busy_session names it). EPERM: the same kinds, KIND_PROFILE or
 * KIND_LOCK, and the caller may not see kernel addresses (kernel.kptr_restrict); or KIND_REPLACE,
 * and the caller has no CAP_SYS_MODULE. EACCES: the kernel is locked down. ESRCH, ENOENT: the
 * process or cgroup of a filter does not exist. ENOMEM. EOPNOTSUPP: a function cannot be entered or
 * replaced (busy_target is its index, its `refused` says why). EILSEQ: a place cannot be probed
 * (busy_target is its index in the list of places, its `refused` says why; the `refused` of each
 * other place says whether that one was refused, too, as far as was asked). EBADRQC: a program is
 * not one (bad_action, bad_op). EINTR: the caller is being killed.
 */
struct jifl_start {
	__u32 size;
	__u32 kind;			/* enum jifl_kind */
	__u32 filters;			/* JIFL_FILTER_* that all must match */
	__s32 pid;			/* in the caller's pid namespace */
	__s32 tgid;			/* in the caller's pid namespace */
	__u32 busy_target;		/* out, with EBUSY and EOPNOTSUPP: index */
	__u64 busy_session;		/* out, with EBUSY; 0: this file's, or a tracer */
	__u64 cgroup;			/* kernfs id: the inode number of its directory */
	char  comm[16];
	__u32 flags;			/* JIFL_FLAG_* */
	__u32 ntargets;
	__u64 targets;			/* in: user pointer to ntargets struct jifl_target_spec */
	__u64 session;			/* out: number of the session */
	/* with JIFL_FILTER_LEVELS: 1 << enum jifl_level, one or more */
	__u32 levels;
	__u32 nconditions;
	__u64 conditions;		/* in: user pointer to nconditions struct jifl_condition */
	/* With JIFL_FLAG_ADOPT, of the tasks that were inside a function of the session: */
	__u32 adopted;			/* out: how many go on in the cache */
	/* Calls count if they are made under one of these: system calls, functions on the stack. */
	__u32 nunder;			/* 0: all count; else all targets are functions */
	__u64 under;			/* in: user pointer to nunder struct jifl_target_spec */
	__u32 nsplices;			/* with KIND_PROBE: 1 to JIFL_SPLICES_MAX; else 0 */
	__u32 ncounters;		/* with KIND_TIMES: 0 to JIFL_COUNTERS_MAX; else 0 */
	__u32 left[JIFL_LEFT_MAX];	/* out: how many go on natively, by enum jifl_left */
	/*
	 * In: user pointer to nsplices struct jifl_splice, in the order of their addresses, those
	 * of one address in the order of `where`; none comes twice.
	 */
	__u64 splices;
	/*
	 * Of places: the programs, their ops, and the strings that these compare with. With
	 * KIND_REPLACE: one program without places, whose only effect is its last op, a
	 * JIFL_OP_IF: calls for which it does not hold run the original. It knows the registers of
	 * arguments and rsp, as the function's caller left them, and no JIFL_GET_CALLER.
	 */
	__u32 nactions;
	__u32 nops;
	__u32 nstrings;			/* bytes */
	__u32 ring;			/* bytes of records for each CPU; 0: nothing is recorded */
	__u64 actions;			/* in: user pointer to nactions struct jifl_action */
	__u64 ops;			/* in: user pointer to nops struct jifl_op */
	__u64 strings;			/* in: user pointer to nstrings bytes */
	__u32 bad_action;		/* out, with EBADRQC: index of the program */
	__u32 bad_op;			/* out, with EBADRQC: index of the op in it */
	__u64 counters;			/* in: user pointer to ncounters struct jifl_counter */
	/* Out, with ENXIO, ENOSPC: index of what is not there, what processors have no room for. */
	__u32 bad_counter;
	__u32 reserved;			/* 0 */
};

/*
 * Ends this file's session; its statistics stay readable until the file is
 * closed or a new session starts.
 * Errors: ENOENT without a session.
 */
struct jifl_stop {
	__u32 size;
	__u32 draining;			/* out: threads that were inside */
	__u64 drain_ns;			/* out: time until none was left inside */
};

/*
 * Each value below JIFL_HIST_EXACT has a bucket of its own. Above, every power of two is cut into
 * JIFL_HIST_SUB buckets, whose middle is at most 1/32 = 3 % off.
 */
#define JIFL_HIST_SUB_BITS	4
#define JIFL_HIST_SUB		(1u << JIFL_HIST_SUB_BITS)
#define JIFL_HIST_EXACT		(JIFL_HIST_SUB << 1)
#define JIFL_HIST_BUCKETS	640
/*
 * JIFL_FLAG_RETVAL and _ARG use fewer buckets: bucket 0 has the value 0, bucket n up to 63 has
 * values of n bits, and this bucket has values below 0. Sum, min and max leave values below 0 out.
 */
#define JIFL_HIST_NEGATIVE	64

/* Why a call was not counted. */
enum jifl_miss {
	JIFL_MISS_FULL,		/* the code cache was full: all or part of it ran natively */
	JIFL_MISS_FLUSH,	/* in flight, or made, while the cache was emptied */
	JIFL_MISS_END,		/* in flight when its session, or one beside it, ended */
	JIFL_MISS_TEXT,		/* in the middle of code that the kernel changed */
	JIFL_MISS_NATIVE,	/* its handler cannot run in the cache: a probe at its entry, say */
	JIFL_MISS_ROOM,		/* no memory for its counts, or too many such calls asleep */
	/* From here on: calls of functions, which passed natively. */
	JIFL_MISS_NESTED,	/* part of a counted call: this session's, or code another runs */
	/* In a softirq, on PREEMPT_RT; in either, run by a call of others itself. */
	JIFL_MISS_SOFTIRQ,
	JIFL_MISS_IRQ,
	JIFL_MISS_NMI,		/* in an NMI, or a context that may stand anywhere as an NMI */
	JIFL_MISS_IDLE,		/* by an idle task, or where RCU does not watch */
	JIFL_MISS_STOPPER,	/* by the thread that stops the machine */
	JIFL_MISS_OWN,		/* by the module itself */
	JIFL_MISS_UNKNOWN,	/* of a replaced function: its condition could not be told */
	JIFL_NR_MISSES,
};

/* Room in the ABI for later ones. */
#define JIFL_MISSES_MAX		16

/*
 * Reads one target's statistics: sums over all CPUs, read while they run.
 * Errors: ENOENT: the file never had a session, this kernel does not have the target, or the
 * session's list ends before it.
 */
struct jifl_stat {
	__u32 size;
	__u32 target;			/* in: index */
	__u64 calls;			/* calls that were counted to their end */
	__u64 no_return;		/* of these, calls in which the task died */
	__u64 sum;			/* instructions, blocks or values, by the kind; else 0 */
	__u64 min;
	__u64 max;
	__u64 missed;			/* calls not counted: partly native, in flight at the end */
	__u64 blocks;			/* basic blocks translated for this target first */
	__u64 hist;			/* in: user pointer to JIFL_HIST_BUCKETS __u64, or 0 */
	__u64 missed_by[JIFL_MISSES_MAX]; /* `missed` by enum jifl_miss */
	/* Of calls that had begun before the session; they are not in `calls`. */
	__u64 adopted;			/* their number */
	__u64 adopted_sum;		/* what was counted in those that have ended since */
};


/* Totals of the whole module, all sessions. */
struct jifl_status {
	__u32 size;
	__u32 sessions;
	__u64 blocks;			/* live in the cache */
	__u64 translated_blocks;	/* ever */
	__u64 translated_insns;		/* ever; original instructions */
	__u64 translate_ns;		/* time spent translating */
	__u64 dispatches;		/* times the dispatcher ran */
	__u64 links;			/* exits linked to blocks, ever */
	__u64 code_used;		/* bytes of code cache in use */
	__u64 code_size;		/* bytes of code cache in all */
	__u64 code_page;		/* bytes of each page of its executable mapping */
	__u64 side_used;		/* bytes of side tables in use */
	__u64 side_size;
	__u64 flushes;			/* generations freed, sessions' ends included */
	__u64 invalidated;		/* blocks dropped because the kernel's text changed */
	__u64 traps;			/* threads moved out of such blocks, ever */
	__u64 faults;			/* exceptions taken on cache addresses */
	__u64 missed[JIFL_MISSES_MAX];	/* calls not counted, all sessions ever; enum jifl_miss */
	__u64 native_exits[JIFL_CAUSES_MAX];
};

/* One session, for listings. To enumerate: id = 0 first, then the last id seen. */
struct jifl_session_info {
	__u32 size;
	__u32 kind;			/* out: enum jifl_kind */
	__u64 id;			/* in: find the first above this; out: its id */
	__s32 owner;			/* out: process id of the opener, 0 for a plugin */
	__u32 targets;			/* out: how many it has */
	__u64 calls;			/* out: finished so far; 0 for kinds that do not count */
	char  name[JIFL_NAME_MAX];	/* out: opener's command name or plugin */
};

/* Ends sessions that are not this file's: id, or all with id 0. */
struct jifl_detach {
	__u32 size;
	__u32 ended;			/* out: how many sessions it ended */
	__u64 id;			/* in */
	__u64 drain_ns;			/* out */
};

/*
 * Starts or stops a loaded plugin by name.
 * Errors: ENOENT: no such plugin; EALREADY: it is already in that state; or the error of the
 * plugin's own start.
 */
struct jifl_plugin_ctl {
	__u32 size;
	__u32 start;			/* 1 starts, 0 stops */
	char  name[JIFL_NAME_MAX];
};

/* One loaded plugin, for listings. To enumerate: index from 0 until ENOENT. */
struct jifl_plugin_info {
	__u32 size;
	__u32 index;			/* in */
	__u32 started;			/* out */
	__u32 reserved;
	char  name[JIFL_NAME_MAX];	/* out */
};

#define JIFL_PLUGIN_LINE_MAX	1024	/* bytes, its end included */

/*
 * Takes records out of a plugin's ring, the oldest of all CPUs first. The plugin makes a line of
 * each record; a line feed ends it. Works while the plugin is started and afterwards, until it is
 * started again.
 * Errors: ENOENT: no such plugin; ENODATA: it has no ring; EINVAL: too little room; EPERM, EACCES:
 * the caller may not see kernel addresses (as JIFL_IOC_BLOCK); ENOMEM.
 */
struct jifl_plugin_read {
	__u32 size;
	/* in: bytes of buf, JIFL_PLUGIN_LINE_MAX or more; out: bytes of lines */
	__u32 n;
	char  name[JIFL_NAME_MAX];
	__u64 buf;			/* in: user pointer to n bytes */
	__u64 until;			/* in: CLOCK_MONOTONIC's ns: no newer records; 0: all */
	__u64 lost;			/* out: records without room since the plugin's start */
	__u32 records;			/* out: how many came */
	__u32 started;			/* out: 1: more may come */
};

/*
 * How the calls of a plugin's analysis routine were inserted. To enumerate: index from 0 until
 * ENOENT. Counts begin when the whole cache was last emptied.
 */
struct jifl_routine_info {
	__u32 size;
	__u32 index;			/* in */
	__u64 copies;			/* out: places where the routine is inlined */
	__u64 calls;			/* out: places where it is called */
	__u32 reason;			/* out: enum jifl_inline, of the last of these */
	__u32 reserved;
	char  name[JIFL_SYMBOL_MAX];	/* out */
};

/* What a piece of a block is. */
enum jifl_segment_kind {
	JIFL_SEGMENT_ORIGINAL = 0,	/* the copy of one instruction; may need no code */
	JIFL_SEGMENT_INSERTED = 1,
	JIFL_SEGMENT_INLINED = 2,	/* inserted: a body without its saves and restores */
	JIFL_SEGMENT_ONWARD = 3,	/* goes on to what follows the original block */
};

#define JIFL_LIVE_CF		(1u << 0)
#define JIFL_LIVE_PF		(1u << 1)
#define JIFL_LIVE_AF		(1u << 2)
#define JIFL_LIVE_ZF		(1u << 3)
#define JIFL_LIVE_SF		(1u << 4)
#define JIFL_LIVE_OF		(1u << 5)
#define JIFL_LIVE_DF		(1u << 6)	/* may be set */

struct jifl_segment {
	__u16 code_len;			/* bytes of the copy */
	__u8  src_len;			/* ORIGINAL: bytes of the instruction; else 0 */
	__u8  kind;			/* enum jifl_segment_kind */
	__u8  pushed;			/* words on the stack at its beginning */
	__u8  live_flags;		/* JIFL_LIVE_* before it */
	__u16 live_regs;		/* before it: 1 << hardware number of the register */
};

#define JIFL_BLOCK_DEAD		(1u << 0)	/* its source has changed; it has int3 */
#define JIFL_BLOCK_NATIVE	(1u << 1)	/* counts an exit and goes to orig */
#define JIFL_BLOCK_ENTRY	(1u << 2)	/* native code enters orig through it */
#define JIFL_BLOCK_FALLS	(1u << 3)	/* runs, or its call returns, into the next block */
#define JIFL_BLOCK_LIVENESS	(1u << 4)	/* live_flags, live_regs and insns are known */

/* As many sessions as can have a target at a time. */
#define JIFL_BLOCK_SESSIONS	4

/*
 * One block of the code cache: the first with the number index or above that has inserts of the
 * session. To enumerate: index 0 first, then the returned index + 1, until ENOENT. If
 * jifl_status.flushes has changed meanwhile, numbers have begun anew.
 *
 * The lengths are, in, the room of the buffers; out, what the block needs. Bytes of original code
 * are those that are there now. Liveness is that of the translator. NATIVE and ENTRY blocks have no
 * source.
 *
 * Errors: ENOENT: there are no more; ENOSPC: too little room (the lengths are set); EACCES: the
 * kernel is locked down; EPERM: also if kernel.kptr_restrict hides kernel addresses from the
 * caller; ENOMEM.
 */
struct jifl_block {
	__u32 size;
	__u32 index;			/* in; out: the block's number */
	__u64 session;			/* in; 0: any block, also of ended sessions */
	__u64 orig;			/* out: address of the original code */
	__u64 cache;			/* out: address of its copy */
	__u64 sessions[JIFL_BLOCK_SESSIONS]; /* out: whose inserts it has; 0: none */
	__u32 flags;			/* out: JIFL_BLOCK_* */
	__u32 insns;			/* out: original instructions that it stands for */
	__u32 src_len;			/* in, out: bytes */
	__u32 code_len;			/* in, out: bytes */
	__u32 nsegments;		/* in, out: of struct jifl_segment */
	__u32 reserved;			/* 0 */
	__u64 src;			/* in: user pointer to src_len bytes, for original code */
	__u64 code;			/* in: user pointer to code_len bytes, for the copy */
	__u64 segments;			/* in: user pointer to nsegments */
};

/*
 * A record of JIFL_KIND_TRACE or JIFL_KIND_PATH. `what` is never 0. From 0x80000000 on, `what` is
 * the low half of an address, whose high half is all ones, and `value` is the low half of the stack
 * pointer there. TRACE: the address of a function; its stack pointer at its entry, where its return
 * address is. PATH: the address of a basic block; the stack pointer at its beginning. Other records
 * come in pairs: one of JIFL_RECORD_BEGIN, _RESUME, _END, then one of JIFL_RECORD_TIME. _RETURN
 * (TRACE), _FAULT (PATH), _RESULT (both, before _END if the call returns), _TOP and _CUT come
 * alone.
 *
 * _BEGIN and _END have the level at which the call was when it began (enum jifl_level). What stands
 * between those of a call in a softirq or a hard interrupt is its own, but for calls that interrupt
 * it, which stand there as a whole. What follows its _END is of what it has interrupted. A call
 * that was given up has _CUT instead, where it returns. Behind the place where it was given up,
 * whole calls of its own level may stand, too.
 */
struct jifl_record {
	__u32 what;
	__u32 value;
};

#define JIFL_RECORD_TYPE	0xf0000000u	/* of what */
/* + level << JIFL_RECORD_LEVEL_SHIFT + target's index; value: the thread's id */
#define JIFL_RECORD_BEGIN	0x10000000u
/* a thread in a call comes to run; value: its id; 0: one that is in no call */
#define JIFL_RECORD_RESUME	0x20000000u
#define JIFL_RECORD_END		0x30000000u	/* as _BEGIN */
#define JIFL_RECORD_LEVEL_SHIFT	26
/*
 * In _BEGIN: the thread comes to run in a call that had begun before the session (JIFL_FLAG_ADOPT).
 * There is one each time, in place of a _RESUME.
 */
#define JIFL_RECORD_ADOPTED	0x02000000u
#define JIFL_RECORD_RETURN	0x50000000u	/* alone; value: as at the function's entry */
/* + bits 32 to 58 of what the call returns; value: its low half */
#define JIFL_RECORD_RESULT	0x08000000u
#define JIFL_RECORD_HIGH	0x07ffffffu	/* mask of RESULT's bits */
/* behind a RESULT whose bits 59 to 63 are not all as its bit 58; value: these bits, shifted down */
#define JIFL_RECORD_TOP		0x02000000u
/* alone; value: 0; the call in an interrupt that has no _END returns */
#define JIFL_RECORD_CUT		0x01000000u
/* value: low half of the address of an instruction; the kernel's fixup ran in its place */
#define JIFL_RECORD_FAULT	0x04000000u
/* + low 28 bits of CLOCK_MONOTONIC's ns; value: bits 28 to 59 */
#define JIFL_RECORD_TIME	0x40000000u

/*
 * JIFL_KIND_MEM has, of the above, BEGIN, RESUME, END and CUT. STACK follows each BEGIN. ACCESS
 * tells what a block accesses; its value is the low half of the stack pointer. Words follow it:
 * each is a struct jifl_record that is one number of 64 bits, low half first.
 */
#define JIFL_RECORD_STACK	0x60000000u	/* alone; value: stack pointer's high half */
#define JIFL_RECORD_ACCESS	0x70000000u	/* + words << 25, at most 6; + its number, from 0 */
#define JIFL_RECORD_WORDS(what) \
	(((what) & JIFL_RECORD_TYPE) == JIFL_RECORD_ACCESS ? (what) >> 25 & 7 : 0)
#define JIFL_RECORD_NUMBER(what) ((what) & 0x1ffffffu)

/*
 * JIFL_KIND_TRACE with JIFL_FLAG_VALUES has records with words, too; value: the low half of the
 * stack pointer. They are of functions with an ftrace site, which a compiler has made. ARGUMENTS
 * follows the record of the entry and has the registers rdi, rsi, rdx, rcx, r8 and r9. RETURNED
 * precedes a _RETURN and has rax.
 */
#define JIFL_RECORD_ARGUMENTS	0x7c000000u	/* with six words */
#define JIFL_RECORD_RETURNED	0x72000001u	/* with one */

/*
 * With JIFL_FLAG_CLOCK there are records whose word is the time stamp counter. ENTERED follows the
 * record of a function's entry. LEFT is in place of a _RETURN. JUMPED is before a jump to another
 * function (a tail call, if it can be recognized). CLOCK follows each _TIME: the counter of that
 * CPU at that time.
 */
#define JIFL_RECORD_ENTERED	0x72000002u
#define JIFL_RECORD_LEFT	0x72000003u
#define JIFL_RECORD_JUMPED	0x72000004u
#define JIFL_RECORD_CLOCK	0x72000005u

/*
 * Takes the records of this file's session on one CPU since the last time, the oldest first. Works
 * until the file is closed or starts another session. Records lost since the last time come before
 * the first of these. A record and its words come together.
 * Errors: EPERM, EACCES: the caller may not see kernel addresses (as JIFL_IOC_BLOCK); ENOENT: the
 * session is not of JIFL_KIND_TRACE, _PATH or _MEM; EINVAL: there can be no such CPU.
 */
struct jifl_records {
	__u32 size;
	__u32 cpu;			/* in */
	__u32 n;			/* records; in: room in buf, 8 or more; out: in buf */
	__u32 reserved;			/* 0 */
	__u64 buf;			/* in: user pointer to struct jifl_record */
	__u64 lost;			/* out: of this CPU: overwritten records and words */
	__u64 waits;			/* out: waits of threads, all CPUs (JIFL_FLAG_WAIT) */
	__u64 waited_ns;		/* out: sum of these waits */
};

/*
 * Reads entries of a table of this file's session, while it runs or after its end. The number of
 * entries only grows, until the file is closed or starts another session.
 *
 * A table is known by the kind of its sessions. Its entries are the structures below, and so is
 * what `rest` means. Sessions with JIFL_FLAG_BY_* have one table more, JIFL_TABLE_KEYS; those with
 * programs have JIFL_TABLE_GROUPS and JIFL_TABLE_STACKS, if an op needs them.
 *
 * Errors: EPERM, EACCES if entries hold kernel addresses and the caller may not see them (as
 * JIFL_IOC_BLOCK); ENOENT when the session does not have this table, or the file no session; EINVAL
 * for another size of entries than the table's, and for a CPU that cannot be, or that the table
 * does not ask for.
 */
struct jifl_table_read {
	__u32 size;
	__u32 table;			/* in: enum jifl_kind, or JIFL_TABLE_KEYS */
	__u32 entry;			/* in: bytes of an entry */
	__u32 from;			/* in: the first to read */
	__u32 n;			/* in: how many buf has room for; out: how many came */
	__u32 cpu;			/* in: of tables that ask for one; else 0 */
	__u64 buf;			/* in: user pointer to the entries */
	__u64 rest[3];			/* out: by table: what stands in no entry; else 0 */
};

#define JIFL_TABLE_KEYS		0x80000000u

/* Of JIFL_KIND_PROFILE, in rest: copies of blocks made without a counter, for want of room. */
#define JIFL_COUNT_REFUSED	0
#define JIFL_COUNT_NO_BRANCH	0xffffffffu

/*
 * An entry of JIFL_KIND_PROFILE, in the order in which blocks were first translated. Two of one
 * address are of different bytes: the text has changed, or a block was cut elsewhere.
 *
 * How often a block of original code was executed, in all contexts of a session together.
 * A block that a fault cuts short, or whose text changes meanwhile, may count as executed,
 * and its branch as taken.
 */
struct jifl_count {
	__u64 orig;			/* its address */
	__u64 executed;			/* 0: translated, as it lies behind others, and never run */
	__u64 taken;			/* of these, times that its branch was taken */
	__u64 target;			/* of its branch */
	__u32 src_len;			/* bytes; behind it goes on what takes no branch */
	__u32 insns;			/* original instructions that it stands for */
	__u32 branch;			/* offset of the conditional branch that ends it, if any */
	__u32 hash;			/* FNV-1a of its bytes as they were translated */
};

/*
 * Of JIFL_TABLE_KEYS, in rest: calls of keys that there was no room for, and their sum; calls of
 * such keys that had begun before the session. The sum of these is what all entries lack of
 * jifl_stat.adopted_sum.
 */
#define JIFL_KEY_OTHER_CALLS	0
#define JIFL_KEY_OTHER_SUM	1
#define JIFL_KEY_OTHER_ADOPTED	2

/*
 * An entry of JIFL_TABLE_KEYS, in the order in which keys were first seen.
 *
 * What one command name, process, CPU, level or combination of these has of a session. Members that
 * it is not about are 0. A call in a softirq or an interrupt is no task's: its tgid is 0, and its
 * comm is JIFL_KEY_SOFTIRQ or JIFL_KEY_IRQ.
 */
#define JIFL_KEY_SOFTIRQ	"<softirq>"
#define JIFL_KEY_IRQ		"<interrupt>"

struct jifl_key {
	__u32 cpu;
	__s32 tgid;			/* in the first pid namespace */
	char  comm[16];
	__u64 calls;			/* as in struct jifl_stat, of all targets */
	__u64 sum;			/* as in struct jifl_stat, of all targets */
	__u32 level;			/* enum jifl_level */
	/*
	 * 1: of calls that had begun before the session (JIFL_FLAG_ADOPT) and have ended since, or
	 * with it; they are in no other entry. A session with BY_CPU has none of these.
	 */
	__u32 adopted;
};

/* What was waited for. */
enum jifl_lock_type {
	JIFL_LOCK_SPIN = 0,		/* spinlock_t, raw_spinlock_t */
	JIFL_LOCK_RWLOCK_READ = 1,
	JIFL_LOCK_RWLOCK_WRITE = 2,
	JIFL_LOCK_MUTEX = 3,		/* struct mutex, struct ww_mutex */
	JIFL_LOCK_RWSEM_READ = 4,
	JIFL_LOCK_RWSEM_WRITE = 5,
	JIFL_LOCK_SEMAPHORE = 6,
	JIFL_LOCK_RT_MUTEX = 7,
	JIFL_LOCK_PERCPU_RWSEM = 8,	/* readers, and writers that wait for others */
	JIFL_LOCK_CMPXCHG = 9,		/* a locked cmpxchg that failed and is tried again */
};

/*
 * Of JIFL_KIND_LOCK, in rest: how often, and how long, locks were waited for that there was no room
 * for, retries too; and waits that found no room for the time they began at.
 */
#define JIFL_LOCK_OTHER_CONTENDED 0
#define JIFL_LOCK_OTHER_WAIT_NS	1
#define JIFL_LOCK_UNTIMED	2

/*
 * An entry of JIFL_KIND_LOCK, in the order in which they were first seen: one lock, where it is
 * taken and how.
 */
struct jifl_lock {
	__u64 lock;			/* its address; 0: not known */
	__u64 percpu;			/* of per-CPU data: the variable's, in kallsyms; else 0 */
	__u64 caller;			/* return address in who takes it; 0: not known */
	__u64 site;			/* CMPXCHG: its address; else where the slow path begins */
	__u64 contended;		/* times that it was not got at once; CMPXCHG: retries */
	__u64 ended;			/* of these, waits whose end was seen; CMPXCHG: 0 */
	__u64 wait_ns;			/* all those together; CMPXCHG: 0 */
	__u64 max_ns;			/* the longest of them */
	__u32 type;			/* enum jifl_lock_type */
	__u32 cpu;			/* with percpu: whose it is */
};

#define JIFL_ACCESS_LOAD	(1u << 0)
#define JIFL_ACCESS_STORE	(1u << 1)
#define JIFL_ACCESS_PERCPU	(1u << 2)	/* + where the CPU's own data are */
#define JIFL_ACCESS_BACKWARDS	(1u << 3)	/* repetitions go to lower addresses */
/*
 * `repeats` is the number of a bit, signed, of `size` bytes: the word that has it is accessed once.
 * It lies that number's eighth, less what is no multiple of `size`, behind the address.
 */
#define JIFL_ACCESS_BITS	(1u << 4)
/* Of base, repeats and left: not a word. */
#define JIFL_ACCESS_NO_WORD	0xff
#define JIFL_ACCESS_STACK	0xfe		/* of base: the stack pointer at the record */

/*
 * Of JIFL_KIND_MEM, in rest: where the own data of the CPU are that was asked for, and copies of
 * blocks that are not recorded, for want of room.
 */
#define JIFL_ACCESS_PERCPU_BASE	0
#define JIFL_ACCESS_REFUSED	1

/*
 * An entry of JIFL_KIND_MEM, in the order of blocks as these were first translated, and of
 * execution in each.
 *
 * One operand in memory of one instruction of a block, and where its address is told each
 * time that the block is executed. An execution of a block is told by one record, or by
 * several, in whatever order, but for those that a fault has cut off; none of them comes twice.
 */
struct jifl_access {
	__u64 insn;			/* the instruction's address */
	__s64 disp;			/* is added to the base */
	__u32 block;			/* number of the first record of its block */
	__u32 record;			/* number of the record whose word is the base */
	__u32 repeats_record;		/* number of the record whose word is `repeats` */
	__u32 left_record;		/* number of the record whose word is `left` */
	__u16 size;			/* bytes; of one repetition; 0: not fixed */
	/* word of the record, JIFL_ACCESS_STACK or JIFL_ACCESS_NO_WORD: 0 */
	__u8  base;
	__u8  flags;			/* JIFL_ACCESS_* */
	__u8  repeats;			/* word: how often repeated; JIFL_ACCESS_NO_WORD: once */
	__u8  left;			/* word: how often less, as it was not equal, or was */
	__u16 insn_len;			/* bytes of the instruction */
};

/*
 * Of JIFL_KIND_PROBE, in rest: threads that a breakpoint has led into the code cache; executions
 * that were not counted, because the breakpoint was met in the handler of a kprobe.
 */
#define JIFL_HITS_MOVED		0
#define JIFL_HITS_MISSED	1

/* Why a place may have been executed more often than its hits say; in jifl_hits.flags. */
#define JIFL_HITS_NO_ROOM	(1u << 0)	/* a copy of its block has no room for a counter */
/* Kprobes were switched off for a time, so its breakpoint was gone. */
#define JIFL_HITS_SWITCHED_OFF	(1u << 1)

/* An entry of JIFL_KIND_PROBE, in the order of the session's list of places. */
struct jifl_hits {
	__u64 hits;			/* executions; with a program, what HIT counts */
	/* Threads that have come to the instruction in native code, and met a breakpoint there. */
	__u64 caught;
	__u32 flags;			/* JIFL_HITS_NO_ROOM, _SWITCHED_OFF */
	__u32 reserved;			/* 0 */
	/* Of places with a program: */
	__u64 untested;			/* executions where the condition of IF was unknown */
	__u64 nested;			/* executions inside a program: it has not run for them */
	__u64 unrun;			/* of BPF: a program ran on the CPU, so it did not run */
};

/*
 * Of JIFL_KIND_TIMES, in rest: nanoseconds since the session began, or until it ended; times that a
 * task found no room for what it does, so that its calls were not counted; executions of places
 * that were not seen.
 */
#define JIFL_TIMES_ELAPSED	0
#define JIFL_TIMES_UNWATCHED	1
#define JIFL_TIMES_MISSED	2

/* What a session of KIND_TIMES counts beside times, at most. */
#define JIFL_COUNTERS_MAX	4
#define JIFL_COUNTER_NAME_MAX	64

/* In jifl_counter.kind. */
enum jifl_counter_kind {
	JIFL_COUNTER_TRACEPOINT = 1,	/* how often the task has come to `tracepoint` */
	/* 8 bytes of the kernel's own data, at `value`. They are a number that anybody changes. */
	JIFL_COUNTER_VARIABLE = 2,
	/*
	 * Those that each processor has: what it counts while the task runs on it counts for the
	 * task. Data that the kernel itself has for each processor: `type` is its bytes, 4 or 8,
	 * `value` is how far behind the first of all such data it is.
	 */
	JIFL_COUNTER_PROCESSOR = 3,
	JIFL_COUNTER_VMSTAT = 4,	/* an event of /proc/vmstat: `value` of vm_event_item */
	/*
	 * A number of /proc/net/snmp or netstat, of the caller's network namespace: `type` is
	 * enum jifl_counter_snmp, `value` is its place in the kernel's array.
	 */
	JIFL_COUNTER_SNMP = 5,
	JIFL_COUNTER_PERF = 6,		/* perf_event_attr.type and .config: `type`, `value` */
	JIFL_COUNTER_VALUE = 7,		/* what the programs of the places ADD_UP */
	JIFL_COUNTER_INTERRUPTS = 8,	/* nanoseconds of interrupts and softirqs */
	/*
	 * How many values JIFL_TABLE_DISTRIBUTIONS has of the function: of `type`, which is
	 * enum jifl_distribution_of.
	 */
	JIFL_COUNTER_DISTRIBUTION = 9,
	JIFL_COUNTER_KINDS		/* above all of them */
};

/* In jifl_counter.type of JIFL_COUNTER_SNMP, by the names in the files. */
enum jifl_counter_snmp {
	JIFL_COUNTER_IP = 0,		/* Ip and IpExt */
	JIFL_COUNTER_TCP = 1,
	JIFL_COUNTER_TCP_EXT = 2,
	JIFL_COUNTER_UDP = 3,
	JIFL_COUNTER_UDP_LITE = 4,
	JIFL_COUNTER_SNMPS		/* above all of them */
};

/* Whose values are distributed: what programs ADD_UP; the times of each call, in nanoseconds. */
enum jifl_distribution_of {
	JIFL_DISTRIBUTION_VALUE = 0,
	JIFL_DISTRIBUTION_WALL = 1,
	JIFL_DISTRIBUTION_CPU = 2,
	JIFL_DISTRIBUTION_BLOCKED = 3,
	JIFL_DISTRIBUTION_RUNNABLE = 4,
	JIFL_DISTRIBUTIONS		/* above all of them */
};

/* In jifl_start.counters: a number that only grows. */
struct jifl_counter {
	char tracepoint[JIFL_COUNTER_NAME_MAX]; /* of the kernel itself; of others empty */
	__u32 kind;			/* enum jifl_counter_kind */
	__u32 type;			/* as kind has it; else 0 */
	__u64 value;			/* as kind has it; else 0 */
};

/*
 * In jifl_time.counted: it is not known, because a processor could not count it all the time. So it
 * is of JIFL_COUNTER_PERF when processors come, or go.
 */
#define JIFL_COUNTED_UNKNOWN	0xffffffffffffffffull

/*
 * An entry of JIFL_KIND_TIMES, one for each target, in their order. The times are those of all
 * tasks together, in nanoseconds, of calls that have ended and of those that have not, until now.
 * Calls of one function inside each other are one time. Their sum is the time between the beginning
 * and the end of calls. In softirqs and interrupts all of it is cpu_ns. So is the time of
 * interrupts that have interrupted a task.
 */
struct jifl_time {
	__u64 calls;			/* that began while the session ran */
	__u64 adopted;			/* that had begun before */
	__u64 inside;			/* of both, those that have not ended */
	__u64 died;			/* of both, those in which the task ended */
	__u64 jumped;			/* of both, those that ended with a jump to another one */
	__u64 strays;			/* ends without a beginning: in none of the others */
	__u64 cpu_ns;			/* the task ran */
	__u64 blocked_ns;		/* it slept, until it was woken */
	__u64 runnable_ns;		/* it had been woken, or preempted, and did not run yet */
	__u64 elapsed_ns;		/* since the session began, when all this was read */
	__u64 counted[JIFL_COUNTERS_MAX]; /* how much the session's counters grew inside */
};

#define JIFL_TABLE_OBJECTS	0x80000003u	/* struct jifl_object */

/* In jifl_object.unknown: all other calls of the function. */
#define JIFL_OBJECT_OTHERS	0xffffffffu

/* Of JIFL_TABLE_OBJECTS, in rest: calls whose objects found no room. */
#define JIFL_OBJECT_REFUSED	0

/*
 * An entry of JIFL_TABLE_OBJECTS: calls of a target about one object, of sessions of
 * JIFL_KIND_TIMES whose programs have OBJECT. Calls inside each other are about the object of
 * the first of them. The others are calls whose objects found no room, that had begun before, or
 * that began where the program could not run; `adopted` and `strays` are theirs alone, and `jumped`
 * is 0. Over all objects of a target, the others among them, each other figure but elapsed_ns adds
 * up to what JIFL_KIND_TIMES tells of it, when the session has ended. Until then a call that begins
 * or ends while it is read may be in none of them. All are read when an entry 0 is asked for.
 */
struct jifl_object {
	__u32 target;
	__u32 unknown;			/* as in struct jifl_group; or JIFL_OBJECT_OTHERS */
	__u8  name[JIFL_GROUP_MAX];
	struct jifl_time time;
};

/*
 * An entry of JIFL_TABLE_DISTRIBUTIONS, of sessions of JIFL_KIND_TIMES with such counters: first
 * all counters of one row, in their order. Calls of one function inside each other are one call,
 * with one time; those that had begun before the session, or end with their task, have none.
 */
#define JIFL_TABLE_DISTRIBUTIONS	0x80000004u

struct jifl_distribution {
	__u32 row;			/* a target; with objects an entry of JIFL_TABLE_OBJECTS */
	__u32 counter;			/* of jifl_start.counters */
	__u64 bucket[JIFL_GROUP_BUCKETS]; /* how many values; below 0: by a signed ADD_UP */
};

/*
 * Of JIFL_KIND_TREE, in rest: calls of functions that found no room, and are counted as parts of
 * their callers, or among others; returns of functions that were not on the path, while all had
 * room; calls of targets without times.
 */
#define JIFL_PATH_REFUSED	0
#define JIFL_PATH_STRAYS	1
#define JIFL_PATH_UNTIMED	2

/*
 * An entry of JIFL_KIND_TREE: a function, called by the path of the parent, which stands before it.
 * What is counted in the functions that it calls is theirs. Nanoseconds, with JIFL_FLAG_CLOCK;
 * wall_ns has the two others, and the time for which the task ran.
 */
struct jifl_path {
	__u64 function;			/* its address; 0: calls of targets that found no room */
	__u64 calls;
	__u64 insns;
	__u64 wall_ns;
	__u64 blocked_ns;
	__u64 runnable_ns;
	__u32 parent;			/* index + 1; 0: the target was called */
	__u32 reserved;			/* 0 */
};

/*
 * Takes records of this file's session on one CPU, struct jifl_hit: what the interpreter has
 * written, then what inserted code has written, the oldest first in each. Works until the file is
 * closed or starts another session.
 * Errors: EPERM, EACCES: the caller may not see kernel addresses (as JIFL_IOC_BLOCK); ENOENT: the
 * session records nothing; EINVAL: there can be no such CPU, or room for less than JIFL_HIT_MAX.
 */
struct jifl_hit_read {
	__u32 size;
	__u32 cpu;			/* in */
	__u32 bytes;			/* in: room in buf; out: in buf */
	__u32 reserved;			/* 0 */
	__u64 buf;			/* in: user pointer */
	__u64 lost;			/* out: of this CPU since the start: no room in the ring */
};

/* A block of original code, as struct jifl_count has it. */
struct jifl_warm_block {
	__u64 orig;			/* its address */
	__u32 src_len;			/* bytes */
	__u32 insns;			/* original instructions that it stands for */
	__u32 hash;			/* FNV-1a of its bytes; 0: not known (of another boot) */
	__u32 flags;			/* JIFL_WARM_LAY and so on */
};

/* Made anew if it exists, with nothing behind it but the blocks that FOLLOW. */
#define JIFL_WARM_LAY		1
/* Only with LAY: right behind the block before it in the list, if that block leads to it. */
#define JIFL_WARM_FOLLOWS	2

#define JIFL_WARM_MAX		4096	/* blocks of one request: bounds its memory */

/*
 * Translates blocks for this file's running session before a call reaches them. Then it makes the
 * entry pieces of the session's targets whose first block is translated. A block is translated only
 * if the code there decodes as described. Calls that other sessions instrument, too, have blocks of
 * their own, which are made when such a call comes. A quarter of the cache stays free.
 *
 * Blocks with JIFL_WARM_LAY are a layout: chains of blocks in the order of the list. Threads in old
 * copies of these blocks go on in the new ones.
 *
 * Errors: EPERM, EACCES: the caller may not see kernel addresses (as JIFL_IOC_BLOCK); ENOENT: no
 * running session; EINVAL: more than JIFL_WARM_MAX blocks, unknown flags, or LAY for a
 * session that is not of kind LAYOUT; ENOMEM; EINTR: the caller is killed.
 */
struct jifl_warm {
	__u32 size;
	__u32 n;			/* in: blocks; out: present + other + left */
	__u64 buf;			/* in: user pointer to struct jifl_warm_block */
	__u32 present;			/* out: of these, in the cache now */
	__u32 other;			/* out: of these, decoded otherwise, or not copied */
	__u32 left;			/* out: of these, not looked at for lack of room */
	__u32 entries;			/* out: targets that have an entry piece */
	__u64 blocks;			/* out: blocks translated, also those behind them */
	__u64 insns;			/* out: original instructions in them */
	__u64 translate_ns;		/* out: time spent translating */
};

/*
 * What handles an interrupt. To enumerate the actions of one that several devices share: action
 * from 0 until ENOENT.
 * Errors: EPERM, EACCES: the caller may not see kernel addresses (as JIFL_IOC_BLOCK); ENOENT: the
 * interrupt has no such action; EOPNOTSUPP: the kernel does not tell; EINVAL: `reserved` is not 0.
 */
struct jifl_irq {
	__u32 size;
	__u32 irq;			/* in: its number, as in /proc/interrupts */
	__u32 action;			/* in */
	__u32 reserved;			/* 0 */
	__u64 handler;			/* out: the function that is called in the interrupt */
	__u64 thread;			/* out: what a thread calls afterwards; 0: none */
	char  name[JIFL_SYMBOL_MAX];	/* out: the action's, as in /proc/interrupts; may be cut */
};

/* Room for the threads of a replacement. */
#define JIFL_THREADS_MAX	8

struct jifl_thread {
	__s32 pid;			/* in the first pid namespace */
	char  comm[16];
};

/*
 * One replacement (JIFL_KIND_REPLACE), for listings. To enumerate: session = 0 first, then the last
 * session seen, until ENOENT. A replacement that goes meanwhile makes no other one be left out. It
 * is there from its session's start until the session has ended and no thread is in the module of
 * the replacing function any more. Until then that module cannot be removed, and neither can the
 * one of the replaced function. To see who is inside now, the machine is stopped for a moment.
 * Errors: EPERM, EACCES: the caller may not see kernel addresses (as JIFL_IOC_BLOCK); ENOENT: there
 * is no replacement of a later session; EINVAL: `unused` or `reserved` is not 0.
 */
struct jifl_replacement {
	__u32 size;
	__u32 unused;			/* 0 */
	__u64 session;			/* in: the last seen; out: its number */
	__u64 address;			/* out: where the replaced function begins */
	__u64 with;			/* out: where the replacing function begins */
	__u32 ended;			/* out: 1: the session has ended */
	/*
	 * out: threads that are in the replaced function itself; of a session that has ended: in
	 * the module of the replacing one
	 */
	__u32 inside;
	__u32 unread;			/* out: of these, as their stacks have no readable end */
	__u32 reserved;			/* 0 */
	struct jifl_thread threads[JIFL_THREADS_MAX]; /* out: the first of these */
};

#define JIFL_IOC_MAGIC		0xF1
#define JIFL_IOC_INFO		_IOWR(JIFL_IOC_MAGIC, 0, struct jifl_info)
#define JIFL_IOC_START		_IOWR(JIFL_IOC_MAGIC, 1, struct jifl_start)
#define JIFL_IOC_STOP		_IOWR(JIFL_IOC_MAGIC, 2, struct jifl_stop)
#define JIFL_IOC_STAT		_IOWR(JIFL_IOC_MAGIC, 3, struct jifl_stat)
#define JIFL_IOC_STATUS		_IOWR(JIFL_IOC_MAGIC, 4, struct jifl_status)
#define JIFL_IOC_SESSION	_IOWR(JIFL_IOC_MAGIC, 5, struct jifl_session_info)
#define JIFL_IOC_DETACH		_IOWR(JIFL_IOC_MAGIC, 6, struct jifl_detach)
#define JIFL_IOC_PLUGIN_CTL	_IOWR(JIFL_IOC_MAGIC, 7, struct jifl_plugin_ctl)
#define JIFL_IOC_PLUGIN		_IOWR(JIFL_IOC_MAGIC, 8, struct jifl_plugin_info)
#define JIFL_IOC_ROUTINE	_IOWR(JIFL_IOC_MAGIC, 9, struct jifl_routine_info)
#define JIFL_IOC_BLOCK		_IOWR(JIFL_IOC_MAGIC, 10, struct jifl_block)
#define JIFL_IOC_RECORDS	_IOWR(JIFL_IOC_MAGIC, 11, struct jifl_records)
#define JIFL_IOC_TABLE		_IOWR(JIFL_IOC_MAGIC, 12, struct jifl_table_read)
#define JIFL_IOC_PLUGIN_READ	_IOWR(JIFL_IOC_MAGIC, 13, struct jifl_plugin_read)
#define JIFL_IOC_WARM		_IOWR(JIFL_IOC_MAGIC, 14, struct jifl_warm)
#define JIFL_IOC_IRQ		_IOWR(JIFL_IOC_MAGIC, 15, struct jifl_irq)

#define JIFL_IOC_HITS		_IOWR(JIFL_IOC_MAGIC, 16, struct jifl_hit_read)
#define JIFL_IOC_REPLACEMENT	_IOWR(JIFL_IOC_MAGIC, 17, struct jifl_replacement)
#define JIFL_IOC_FLIGHT		_IOWR(JIFL_IOC_MAGIC, 18, struct jifl_flight)

#endif /* _UAPI_JIFL_H */
