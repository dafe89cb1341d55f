// SPDX-License-Identifier: GPL-2.0
/*
 * Values of calls. A system call's arguments are in the registers that user space had; the C
 * function that handles it returns a long. A function's arguments and its result are in registers
 * by the System V ABI (section 3.2.3), which leaves the bits above a value's type undefined. So
 * each function among the targets has the type of its value, from the command, which knows the
 * kernel's BTF.
 *
 * Context: what is inserted runs where a target begins: any lock may be held, that of the clock,
 * too. So the time is read from the clock that NMIs read.
 */
#include <linux/bitops.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/timekeeping.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/preempt.h"
#include "../store/percpu.h"
#include "stats.h"
#include "value.h"

/* --- types ------------------------------------------------------------------------------- */

#define JIFL_VALUE_BYTES(type)	((type) >> 8 & 0xff)
#define JIFL_VALUE_ARG(type)	((type) >> 16)	/* 1 more than its register; 0: none */
#define JIFL_VALUE_ARGS		6

bool jifl_value_is_type(u32 flags)
{
	const u32 bytes = JIFL_VALUE_BYTES(flags);

	return !(flags & 0xff & ~(JIFL_TARGET_SIGNED | JIFL_TARGET_VOID)) &&
	       bytes <= 8 && hweight32(bytes) <= 1 && JIFL_VALUE_ARG(flags) <= JIFL_VALUE_ARGS;
}

u64 jifl_value_of(u32 type, u64 reg)
{
	const u32 bytes = JIFL_VALUE_BYTES(type) ?: 8;
	const u32 above = 64 - 8 * bytes;

	if (JIFL_HOST_PLANTED(values_not_extended))
		return reg;
	return type & JIFL_TARGET_SIGNED ? (u64)((s64)(reg << above) >> above) :
					   reg << above >> above;
}

/* --- what is inserted -------------------------------------------------------------------- */

static void begin_time(unsigned long lane)
{
	preempt_disable_notrace();
	jifl_own_begin();
	this_cpu_write(jifl_cpu.lanes[lane].count, ktime_get_mono_fast_ns());
	jifl_own_end();
	jifl_preempt_enable();
}

struct ir_insert jifl_value_begin_time(const struct jifl_session *s)
{
	return (struct ir_insert){
		.kind = IR_INSERT_CALL,
		.fn = (unsigned long)begin_time,
		.nargs = 1,
		.args = { s->lane },
	};
}

/* Of the system call that the current task is in. */
static u64 syscall_arg(unsigned long n)
{
	const struct pt_regs *regs = task_pt_regs(current);
	const u64 args[] = { regs->di, regs->si, regs->dx, regs->r10, regs->r8, regs->r9 };

	return args[n % ARRAY_SIZE(args)];
}

static void begin_syscall_arg(struct jifl_aim *aim, unsigned long n)
{
	preempt_disable_notrace();
	jifl_stats_add_signed(aim->cpu[raw_smp_processor_id()], syscall_arg(n));
	jifl_preempt_enable();
}

static void begin_function_arg(struct jifl_aim *aim, u64 reg)
{
	unsigned long flags;

	/* An interrupt may add to the same figures. */
	raw_local_irq_save(flags);
	jifl_stats_add_signed(aim->cpu[raw_smp_processor_id()], jifl_value_of(aim->value, reg));
	raw_local_irq_restore(flags);
}

struct ir_insert jifl_value_begin_arg(const struct jifl_aim *aim)
{
	static const u8 regs[JIFL_VALUE_ARGS] = {
		IR_RDI, IR_RSI, IR_RDX, IR_RCX, IR_R8, IR_R9
	};
	u32 n = __ffs(aim->session->flags & JIFL_FLAGS_ARG) - __ffs(JIFL_FLAG_ARG(0));
	struct ir_insert ins = {
		.kind = IR_INSERT_CALL,
		.fn = (unsigned long)begin_syscall_arg,
		.nargs = 2,
		.args = { (unsigned long)aim, n },
	};

	if (aim->target->kind == JIFL_TARGET_SYSCALL)
		return ins;
	if (JIFL_VALUE_ARG(aim->value))
		n = JIFL_VALUE_ARG(aim->value) - 1;
	ins.fn = (unsigned long)begin_function_arg;
	ins.fetched = 1 << 1;
	ins.fetches[1] = (struct ir_fetch){
		.how = IR_FETCH_REG, .base = regs[n], .index = IR_REG_NONE,
	};
	return ins;
}
