/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* Why a function cannot be a target. Part of the ABI of /dev/jifl. */
#ifndef _UAPI_JIFL_REFUSALS_H
#define _UAPI_JIFL_REFUSALS_H

/*
 * X(enumerator, words shown to users behind "NAME cannot be a target: "). The order is the number
 * in jifl_target_spec.refused.
 */
#define JIFL_REFUSALS(X) \
	X(JIFL_REFUSED_NO,	"none")		/* it is a target; unused as text */ \
	X(JIFL_REFUSED_UNKNOWN,	"no function begins there") \
	X(JIFL_REFUSED_SITE,	"it has no call of the tracer (fentry) at its beginning, and " \
				"nothing can stand there in its place") \
	X(JIFL_REFUSED_TAKEN,	"a BPF program or another tracer has its fentry site, and nothing " \
				"can stand behind it") \
	X(JIFL_REFUSED_NOINSTR,	"the kernel forbids probes in it (noinstr, kprobe blacklist)") \
	X(JIFL_REFUSED_SCHEDULE, "it switches tasks or stacks") \
	X(JIFL_REFUSED_IDLE,	"idle tasks and interrupts' entries run it") \
	X(JIFL_REFUSED_PATCHING, "it changes the kernel's text, or is needed to do so") \
	X(JIFL_REFUSED_STOP,	"it stops the machine") \
	X(JIFL_REFUSED_RCU_TASKS, "it waits for tasks to leave freed code (RCU tasks)") \
	X(JIFL_REFUSED_OWN,	"JIFL itself needs it") \
	X(JIFL_REFUSED_NATIVE,	"its code cannot be copied") \
	X(JIFL_REFUSED_SCOPE,	"one session has it with what it calls, and one without (--only)") \
	X(JIFL_REFUSED_KERNEL,	"this kernel lacks direct calls of ftrace or return hooks (rethook)") \
	X(JIFL_REFUSED_REPLACED, "another session replaces it: `jifl replace` shows which") \
	X(JIFL_REFUSED_CIRCLE,	"what is to replace it is replaced by it") \
	X(JIFL_REFUSED_WITH,	"what is to replace it is no function of a loaded module with an fentry site") \
	X(JIFL_REFUSED_PATCHED,	"a live patch has replaced it: name the function that is called now")

enum jifl_refusal {
#define JIFL_REFUSED_ENUM(id, text) id,
	JIFL_REFUSALS(JIFL_REFUSED_ENUM)
#undef JIFL_REFUSED_ENUM
	JIFL_NR_REFUSALS
};

/* The same of a place in a function: the number in jifl_splice.refused. */
#define JIFL_SPLICE_REFUSALS(X) \
	X(JIFL_SPLICE_OK,	"none")		/* it can be probed; unused as text */ \
	X(JIFL_SPLICE_OUTSIDE,	"it is not in the function") \
	X(JIFL_SPLICE_BOUNDARY,	"no instruction begins there") \
	X(JIFL_SPLICE_BRANCH,	"no branch on a condition stands there") \
	X(JIFL_SPLICE_OWNED,	"the kernel allows no breakpoint there: it changes the instruction " \
				"itself (static key, static call, alternative), or it is a warning's") \
	X(JIFL_SPLICE_FAILED,	"the kernel could not set a breakpoint there") \
	X(JIFL_SPLICE_OWN,	"JIFL itself calls the function when a thread meets a breakpoint") \
	X(JIFL_SPLICE_ENTRY,	"a program sees no registers there: use the instruction behind " \
				"the call of the tracer") \
	X(JIFL_SPLICE_SWITCHED_OFF, "kprobes are switched off: write 1 to " \
				"/sys/kernel/debug/kprobes/enabled") \
	X(JIFL_SPLICE_SITE,	"the function's fentry site is another tracer's, and nothing is " \
				"counted there: use the instruction behind it")

enum jifl_splice_refusal {
#define JIFL_SPLICE_ENUM(id, text) id,
	JIFL_SPLICE_REFUSALS(JIFL_SPLICE_ENUM)
#undef JIFL_SPLICE_ENUM
	JIFL_NR_SPLICE_REFUSALS
};

#endif /* _UAPI_JIFL_REFUSALS_H */
