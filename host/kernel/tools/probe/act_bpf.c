// SPDX-License-Identifier: GPL-2.0
/*
 * Runs a BPF program of type KPROBE at a place, as the kernel does at a kprobe (trace_call_bpf in
 * kernel/trace/bpf_trace.c): not where one runs already on this CPU, nor where a system call has
 * locked a map, which the kernel says in bpf_prog_active. The program has been verified for any
 * context.
 *
 * Helpers for some maps only try their lock in an NMI, and int3 is one to them. In a copy they
 * wait. So a place in what a BPF program of another type (XDP, fentry) runs while it holds such a
 * lock must not have a program that uses the same map. It is so with kprobes that stand at ftrace's
 * sites.
 *
 * Context: interrupts off.
 */
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>

#include "../../kernel.h"
#include "../../compat/ksym.h"
#include "act.h"

static int __percpu *jifl_bpf_active;	/* bpf_prog_active; NULL: the kernel has none */

int jifl_act_bpf_init(void)
{
	jifl_bpf_active = (int __percpu *)jifl_ksym("bpf_prog_active");
	return 0;
}

bool jifl_act_bpf_may(void)
{
	return jifl_bpf_active;
}

bool jifl_act_bpf(struct bpf_prog *prog, struct pt_regs *regs)
{
	struct bpf_trace_run_ctx run = {};
	struct bpf_run_ctx *old;
	bool runs;

	runs = this_cpu_inc_return(*jifl_bpf_active) == 1;
	if (runs) {
		rcu_read_lock();
		old = bpf_set_run_ctx(&run.run_ctx);
		prog->bpf_func(regs, prog->insnsi);
		bpf_reset_run_ctx(old);
		rcu_read_unlock();
	}
	this_cpu_dec(*jifl_bpf_active);
	return runs;
}
