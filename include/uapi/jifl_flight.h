/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * What the flight recorder leaves in memory, and how it is asked. Part of the ABI of /dev/jifl, in
 * a file of its own. Whoever has the memory can read it: the running machine, one that was started
 * again, a dump. So all of it is described by itself, and by physical addresses.
 *
 * A recording is a region of whole pages of JIFL_FLIGHT_PAGE bytes, in this order:
 *
 *	struct jifl_flight_head			one page
 *	struct jifl_flight_event[nevents]	from events_at on
 *	struct jifl_flight_image[nimages]	from images_at on
 *	struct jifl_flight_ring[ncpus]		from rings_at on
 *	__u64[npages]				from pages_at on: the page's physical address
 *	struct jifl_flight_record[]		from records_at on, record_count for each CPU
 *
 * Offsets are in bytes from the head. Each part begins at a page. All numbers are little endian.
 *
 * The magic's bytes stand in programs and files, too. A head is one if it is at the beginning of a
 * page, has the version, and the first entry of the table of pages is the head's own page. After a
 * reset of a real machine what was in its processors' caches may be missing: the newest records and
 * counts. Machines that encrypt memory with a key of each boot leave nothing.
 */
#ifndef _UAPI_JIFL_FLIGHT_H
#define _UAPI_JIFL_FLIGHT_H

#include <linux/types.h>

#define JIFL_FLIGHT_PAGE	4096
#define JIFL_FLIGHT_MAGIC	"JIFL flight data"	/* 16 bytes, without an end */
#define JIFL_FLIGHT_VERSION	2
#define JIFL_FLIGHT_ARGS	5
/* Pages of the table of pages: each tells of 512 pages, 2 MiB. */
#define JIFL_FLIGHT_TABLE_MAX	384
#define JIFL_FLIGHT_EVENTS_MAX	64
#define JIFL_FLIGHT_HOLDS	16
/* Or-ed to the number of a system call that a 32-bit program makes: one of their table. */
#define JIFL_FLIGHT_IA32	0x80000000u

/* The first page. It is written before `magic`, which comes last. */
struct jifl_flight_head {
	__u8  magic[16];
	__u32 version;
	__u32 ncpus;			/* possible ones */
	__u32 nevents;
	__u32 npages;			/* of the region, with this one */
	__u32 record_count;		/* of each ring: a power of two */
	__u32 nimages;
	__u64 events_at, images_at, rings_at, pages_at, records_at;
	__u8  boot_id[16];		/* /proc/sys/kernel/random/boot_id; 0: unknown */
	__u8  build_id[20];		/* of the kernel; 0: unknown */
	__u32 tsc_khz;			/* ticks of the time stamp counter in a millisecond */
	/* One moment, by three clocks. */
	__u64 tsc;
	__u64 monotonic_ns, realtime_ns;
	char  release[64];		/* uname -r */
	__u64 mask;			/* events that are recorded now, by number */
	/* Not recorded any more from this value of the counter on; all ones: it is recorded. */
	__u64 stop_at;
	/* enum jifl_flight_stop; while stop_at is all ones only AT_PANIC means anything. */
	__u32 stop_why;
	__u32 stop_event;		/* with AT_EVENT, AT_SLOW: its number */
	__u64 table[JIFL_FLIGHT_TABLE_MAX]; /* physical addresses of the pages from pages_at on */
};

enum jifl_flight_stop {
	JIFL_FLIGHT_RUNS = 0,
	JIFL_FLIGHT_AT_REQUEST = 1,		/* by a request */
	JIFL_FLIGHT_AT_EVENT = 2,	/* an event that it was to stop at */
	JIFL_FLIGHT_AT_ERRNO = 3,	/* a system call returned the error */
	/* The kernel panics, and came to tell of it; it is recorded all the same. */
	JIFL_FLIGHT_AT_PANIC = 4,
	/* Too much time between two events; stop_event: the second one. */
	JIFL_FLIGHT_AT_SLOW = 5,
};

/*
 * An event. `fields`: words of NAME:KIND with spaces in between, one for each argument that is
 * used, or for several: KIND is d (signed), u (unsigned), x (hexadecimal), t (a thread's number), e
 * (a result: an error below 0), n (a system call's number), v (a softirq's number), S (a task's
 * state, as sched_switch has it), a (an address of the kernel), D (a device: major and minor as the
 * kernel has them, 12 and 20 bits), s2 to s5 (a string of 16 to 40 bytes, which ends there or at a
 * 0).
 */
struct jifl_flight_event {
	char name[24];
	char group[8];			/* sys, sched, irq, block, mm, net, proc, log, probe */
	char fields[88];
	__u64 reserved;
};

/*
 * Where code lies, for addresses of the kernel: the first is the kernel itself, the others are
 * modules, loaded now or earlier. One of which the memory is that of a later one has been replaced
 * by it. size 0: there is none, or it is being written.
 */
struct jifl_flight_image {
	__u64 base;
	__u32 size;			/* bytes of its text */
	__u32 reserved;
	char name[48];			/* vmlinux, or that of the module */
};

#define JIFL_FLIGHT_IMAGES	512

/* Of a CPU, a cache line. The nth is of the nth possible CPU; records have their CPU's number. */
struct jifl_flight_ring {
	__u64 count;			/* records that were begun, since the beginning */
	__u64 reserved[7];
};

/*
 * Of a record: an interrupt or an NMI if one of these bits is set, else a softirq if that one is.
 * Other bits say nothing.
 */
#define JIFL_FLIGHT_IRQ		0x0f00
#define JIFL_FLIGHT_SOFTIRQ	0x0001
/* With one of JIFL_FLIGHT_IRQ: it is an NMI if one of these is set. */
#define JIFL_FLIGHT_NMI		0xf000

/*
 * A record, a cache line. The nth record of a CPU, from 0 on, is in its ring at n modulo
 * record_count, and has n in `number`. The newest may be half written: `check` tells. Records that
 * interrupt the writing of another one come after it in the ring, and may have an earlier time.
 */
struct jifl_flight_record {
	__u64 time;			/* time stamp counter */
	__u32 number;			/* the low 32 bits */
	__u16 event;			/* index in the table of events */
	__u16 cpu;
	__u32 tid;			/* of the running or interrupted task, first namespace */
	__u16 context;			/* JIFL_FLIGHT_IRQ, _NMI, _SOFTIRQ; none: the task */
	__u16 check;			/* JIFL_FLIGHT_CHECK of the rest */
	__u64 arg[JIFL_FLIGHT_ARGS];
};

/*
 * sum: of the time, the second word, tid, context, and the arguments (modulo 2^64). The check is
 * the upper quarter of a product, which is the sum of the quarters of sum + 1, and what the lower
 * ones carry. So zeroes are no record.
 */
#define JIFL_FLIGHT_FACTOR	0x0001000100010001ull
#define JIFL_FLIGHT_CHECK(sum)	((__u16)(((__u64)(sum) + 1) * JIFL_FLIGHT_FACTOR >> 48))

/* JIFL_IOC_FLIGHT. */
enum jifl_flight_op {
	/*
	 * Begins a recording: EBUSY: there is one. ENOMEM. E2BIG: more than some 760 MiB. EINVAL:
	 * no event of the mask is known, or it is to stop at one that is not among them.
	 * ENXIO: there is no memory of that name, or it is too small. EEXIST: that memory has the
	 * recording of another boot. With `keep` it goes on when the file is closed.
	 */
	JIFL_FLIGHT_START = 1,
	/* Ends it; ENOENT: there is none. Its memory is given back. */
	JIFL_FLIGHT_END = 2,
	/* Copies `length` bytes from `offset` on to buf. ENOENT; EINVAL: outside of the region. */
	JIFL_FLIGHT_COPY = 3,
	/*
	 * The same of what memory of that name has from another boot. ENXIO; ENODATA: nothing;
	 * EBUSY: a recording runs in such memory.
	 */
	JIFL_FLIGHT_LAST = 4,
	/* From now on these events are recorded: mask, of those that are known. ENOENT. */
	JIFL_FLIGHT_MASK = 5,
	/* Stops recording `after_ns` from now. ENOENT. */
	JIFL_FLIGHT_FREEZE = 6,
	/* Records again. ENOENT. */
	JIFL_FLIGHT_THAW = 7,
	/* Forgets what memory of that name has from another boot. ENXIO. */
	JIFL_FLIGHT_FORGET = 8,
	/* Copies the events that this module knows to buf, `length` bytes at most. */
	JIFL_FLIGHT_EVENTS = 9,
	/*
	 * This file, and so its session, stays until the recording ends. Event `added`, which
	 * programs of the session record (JIFL_OP_FLIGHT), is recorded from now on. With stop_mask,
	 * which is 0 or 1, the recording stops at it. `recording` is that of ADD. ENOENT; ESTALE:
	 * it is another one that runs; EINVAL: there is no such event, or the recording ends with
	 * this file; ENOSPC: JIFL_FLIGHT_HOLDS files stay.
	 */
	JIFL_FLIGHT_HOLD = 10,
	/*
	 * Adds an event that programs of places can record, but does not record it yet: that in
	 * buf, of `length` bytes, struct jifl_flight_event. If the same is there it is that one.
	 * ENOENT; ENOSPC: JIFL_FLIGHT_EVENTS_MAX are there.
	 */
	JIFL_FLIGHT_ADD = 11,
};

/* What two events have in common that belong together. */
enum jifl_flight_key {
	JIFL_FLIGHT_KEY_THREAD = 0,	/* that runs */
	JIFL_FLIGHT_KEY_ARG0 = 1,	/* the first argument */
	JIFL_FLIGHT_KEY_ARG1 = 2,	/* the second one */
	JIFL_FLIGHT_KEY_CPU = 3,
};

struct jifl_flight {
	__u32 size;
	__u32 op;			/* enum jifl_flight_op */
	__u64 mask;			/* START, MASK: 1 << the event's number. */
	__u32 record_count;		/* START: for each CPU, a power of two, 64 to 2^24 */
	__u32 keep;			/* START: 0, 1 */
	__u64 buf;			/* COPY, LAST, EVENTS, ADD: user pointer */
	__u64 offset, length;		/* COPY, LAST; out: how many bytes came */
	/* START: it stops if one of these events comes; 0: at none. HOLD: 0, 1. */
	__u64 stop_mask;
	__s32 stop_errno;		/* START: or a system call returns this, below 0; 0: none */
	__u32 reserved;			/* 0 */
	__u64 after_ns;			/* START, FREEZE: how long after that; a day at most */
	/*
	 * START, LAST, FORGET: memory that outlives the machine's restart: a name of reserve_mem=,
	 * or `0xADDRESS:0xBYTES`, which memmap= has taken from the kernel; empty: ordinary memory.
	 */
	char  memory[48];
	/*
	 * START: or there is more time than this from one event to the next one of another kind
	 * with the same key; 0: none; a day at most. slow_value: of the first one, its first
	 * argument; all ones: any. From sys_enter to sys_exit of a thread it is the same call.
	 * What began before MASK or THAW is not measured.
	 */
	__u64 slow_ns, slow_value;
	__u16 slow_from, slow_to;	/* numbers of events */
	__u8  slow_from_key, slow_to_key; /* enum jifl_flight_key */
	__u8  slow_reserved[2];		/* 0 */
	__u32 added;			/* ADD, out, and HOLD: the event's number */
	__u32 recording;		/* the same: which recording it is, from 1 on; else 0 */
};

#endif /* _UAPI_JIFL_FLIGHT_H */
