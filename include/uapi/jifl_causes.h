/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Why original code ran natively. Part of the ABI of /dev/jifl, in a file of its own because the
 * freestanding engine includes it, too.
 */
#ifndef _UAPI_JIFL_CAUSES_H
#define _UAPI_JIFL_CAUSES_H

/*
 * Why a block ran natively instead of in the code cache. X(enumerator, name
 * shown to users). The order is the index into jifl_status.native_exits.
 */
#define JIFL_CAUSES(X) \
	X(JIFL_CAUSE_NONE,	"none")		/* not an exit; index unused */ \
	X(JIFL_CAUSE_SCHEDULE,	"schedule")	/* __schedule: switches tasks */ \
	X(JIFL_CAUSE_UD2,	"ud2")		/* WARN, BUG */ \
	X(JIFL_CAUSE_INT3,	"int3")		/* text being patched, a kprobe */ \
	X(JIFL_CAUSE_STACK,	"stack-switch")	/* rsp replaced */ \
	X(JIFL_CAUSE_PRIVILEGED, "privileged")	/* iret, sysret, far transfer, ... */ \
	X(JIFL_CAUSE_UNDECODED,	"undecoded")	/* bytes the decoder refuses */ \
	X(JIFL_CAUSE_NOINSTR,	"noinstr")	/* noinstr, entry, kprobe-blacklisted text */ \
	X(JIFL_CAUSE_TRACER,	"tracer")	/* fentry site of another tracer */ \
	X(JIFL_CAUSE_FOREIGN,	"foreign")	/* BPF image, trampoline, not known text */ \
	X(JIFL_CAUSE_OWN,	"own")		/* this module's own code */ \
	X(JIFL_CAUSE_MEMORY,	"memory")	/* code cache or tables are full */ \
	X(JIFL_CAUSE_STALE,	"stale")	/* text changed while it was translated */ \
	X(JIFL_CAUSE_REPLACED,	"replaced")	/* a function that `jifl replace` replaces */

enum jifl_cause {
#define JIFL_CAUSE_ENUM(id, name) id,
	JIFL_CAUSES(JIFL_CAUSE_ENUM)
#undef JIFL_CAUSE_ENUM
	JIFL_NR_CAUSES
};

/* Room in the ABI for later causes. */
#define JIFL_CAUSES_MAX		32

#endif /* _UAPI_JIFL_CAUSES_H */
