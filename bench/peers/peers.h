/* SPDX-License-Identifier: GPL-2.0 */
/*
 * jifl_bench_peers: does by kprobes and by ftrace the jobs for which JIFL is measured, at the
 * addresses that JIFL saw executed.
 *
 *	files.c		/proc/jifl_bench_peers/, the interface to the command
 *	collect.c	a JIFL plugin: which blocks a thread's system calls execute
 *	kprobes.c	a probe at each of given addresses
 *	ftrace.c	a callback at each of given functions
 *	hits.c		what probe and callback do: count, or append a record
 */
#ifndef _JIFL_BENCH_PEERS_H
#define _JIFL_BENCH_PEERS_H

#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/types.h>

/* --- files.c: process context -------------------------------------------------------- */

int peers_files_create(void);
void peers_files_remove(void);

/* --- collect.c ------------------------------------------------------------------------- */

/*
 * For each block that was executed while the plugin was last started, a line: address, address to
 * probe, address of the last instruction, executions, 1 if a function begins there. Then "lost N":
 * blocks for which there was no room.
 */
void peers_sites_show(struct seq_file *f);

/* --- hits.c ------------------------------------------------------------------------------ */

enum peers_job {
	PEERS_COUNT,	/* a counter of the CPU goes up */
	PEERS_TRACE,	/* and an address goes into a ring of the CPU */
};

#define PEERS_RING	1024	/* records; a power of 2 */

struct peers_cpu {
	unsigned long hits;
	unsigned long *ring;
};

DECLARE_PER_CPU(struct peers_cpu, peers_cpu);

static __always_inline void peers_count(void)
{
	this_cpu_inc(peers_cpu.hits);
}

/* One instruction takes the place, so the record of an interrupt goes to another place. */
static __always_inline void peers_trace(unsigned long addr)
{
	unsigned long at = this_cpu_inc_return(peers_cpu.hits);

	this_cpu_read(peers_cpu.ring)[at & (PEERS_RING - 1)] = addr;
}

int peers_hits_create(void);
void peers_hits_destroy(void);
void peers_hits_reset(void);
unsigned long peers_hits_sum(void);

/* --- kprobes.c, ftrace.c: under the mutex of files.c ---------------------------------- */

/* 0, or the error with which kprobes or ftrace refuses this address. */
int peers_kprobe_add(unsigned long addr, enum peers_job job);
/* Waits until the probes that the kernel turns into jumps are jumps, on kernels that do so. */
int peers_kprobes_settle(void);
unsigned long peers_kprobes_jumps(void);
unsigned long peers_kprobes_missed(void);
void peers_kprobes_remove(void);

int peers_ftrace_add(unsigned long addr, enum peers_job job);
int peers_ftrace_start(void);
void peers_ftrace_remove(void);

#endif /* _JIFL_BENCH_PEERS_H */
