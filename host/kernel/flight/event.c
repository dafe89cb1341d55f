// SPDX-License-Identifier: GPL-2.0
/*
 * The events of the flight recorder: tracepoints of the kernel, and what is recorded of each.
 * System calls come by another way where there is one (calls.c).
 *
 * A hook runs in the context of its tracepoint, and gets what that has behind `data`. It may be
 * preempted where the kernel allows that (compat/tracepoint.h), but not while it writes. It reads
 * what the tracepoint's own event reads, and nothing else.
 */
#include <linux/blk-mq.h>
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/skbuff.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <asm/syscall.h>
#include <trace/events/block.h>
#include <trace/events/error_report.h>
#include <trace/events/irq.h>
#include <trace/events/module.h>
#include <trace/events/net.h>
#include <trace/events/oom.h>
#include <trace/events/printk.h>
#include <trace/events/sched.h>
#include <trace/events/signal.h>
#include <trace/events/syscalls.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../compat/exceptions.h"
#include "../compat/tracepoint.h"
#include "../store/flight.h"
#include "calls.h"
#include "flight.h"
#include "line.h"
#include "trigger.h"

/*
 * X(number, hook, tracepoint, name, group, fields): numbers are those of this module alone, names
 * and fields stand in each recording.
 */
#define JIFL_FLIGHT_EVENTS(X) \
	X(0, enter, sys_enter, "sys_enter", sys, "call:n a:x b:x c:x d:x") \
	X(1, exit, sys_exit, "sys_exit", sys, "call:n result:e") \
	X(2, switch, sched_switch, "sched_switch", sched, "next:t state:S preempted:u comm:s2") \
	X(3, wakeup, sched_wakeup, "sched_wakeup", sched, "woken:t cpu:u prio:d comm:s2") \
	X(4, migrate, sched_migrate_task, "sched_migrate_task", sched, \
	  "moved:t from:u to:u comm:s2") \
	X(5, fork, sched_process_fork, "sched_process_fork", proc, \
	  "child:t process:t flags:x comm:s2") \
	X(6, exec, sched_process_exec, "sched_process_exec", proc, "before:t comm:s2") \
	X(7, exit_task, sched_process_exit, "sched_process_exit", proc, \
	  "process:t code:x comm:s2") \
	X(8, signal, signal_generate, "signal_generate", proc, "signal:u to:t result:u comm:s2") \
	X(9, irq_enter, irq_handler_entry, "irq_handler_entry", irq, "irq:u name:s4") \
	X(10, irq_exit, irq_handler_exit, "irq_handler_exit", irq, "irq:u handled:u") \
	X(11, softirq_enter, softirq_entry, "softirq_entry", irq, "softirq:v") \
	X(12, softirq_exit, softirq_exit, "softirq_exit", irq, "softirq:v") \
	X(13, block_issue, block_rq_issue, "block_rq_issue", block, \
	  "device:D sector:u bytes:u op:u") \
	X(14, block_complete, block_rq_complete, "block_rq_complete", block, \
	  "device:D sector:u bytes:u op:u status:u") \
	X(15, fault_user, page_fault_user, "page_fault_user", mm, "address:x ip:x code:x") \
	X(16, fault_kernel, page_fault_kernel, "page_fault_kernel", mm, "address:x ip:a code:x") \
	X(17, oom, mark_victim, "oom_kill", mm, "victim:t uid:u comm:s2") \
	X(18, module_load, module_load, "module_load", proc, "name:s5") \
	X(19, module_free, module_free, "module_free", proc, "name:s5") \
	X(20, warn, error_report_end, "warn", log, "detector:u at:a") \
	X(21, log, console, "log", log, "text:s5") \
	X(22, receive, netif_receive_skb, "netif_receive_skb", net, "length:u interface:u") \
	X(23, transmit, net_dev_start_xmit, "net_dev_start_xmit", net, "length:u interface:u")

enum {
#define JIFL_FLIGHT_NUMBER(number, hook, ...) JIFL_FLIGHT_EVENT_##hook = number,
	JIFL_FLIGHT_EVENTS(JIFL_FLIGHT_NUMBER)
	JIFL_FLIGHT_NR_EVENTS,
};
static_assert(JIFL_FLIGHT_NR_EVENTS <= JIFL_FLIGHT_EVENTS_MAX);
static_assert(JIFL_FLIGHT_EVENT_enter == JIFL_FLIGHT_ENTER);
static_assert(JIFL_FLIGHT_EVENT_exit == JIFL_FLIGHT_EXIT);

static __always_inline void jifl_flight_say_event(u32 event, u64 a, u64 b, u64 c, u64 d, u64 e)
{
	jifl_compat_hook_begin();
	jifl_flight_tell(jifl_flight_context(preempt_count()), event, a, b, c, d, e);
	jifl_compat_hook_end();
}

#define jifl_flight_say(name, a, b, c, d, e) \
	jifl_flight_say_event(JIFL_FLIGHT_EVENT_##name, (u64)(a), (u64)(b), (u64)(c), (u64)(d), \
			      (u64)(e))

/* A word of a string that has so many bytes, which may lack an end. */
static __always_inline u64 jifl_flight_word(const char *string, u32 at)
{
	u64 word;

	memcpy(&word, string + at * sizeof(word), sizeof(word));
	return word;
}

#define jifl_flight_comm(name, task, a, b, c) \
	jifl_flight_say(name, a, b, c, jifl_flight_word((task)->comm, 0), \
			jifl_flight_word((task)->comm, 1))

/* Strings that may be shorter than what is recorded of them. */
static void jifl_flight_text(u32 event, const char *text, size_t len)
{
	u64 words[JIFL_FLIGHT_ARGS] = {};

	memcpy(words, text, min(len, sizeof(words)));
	jifl_flight_say_event(event, words[0], words[1], words[2], words[3], words[4]);
}

/* --- sys: where calls.c does not do it ------------------------------------------------------- */

static u32 jifl_flight_call(struct pt_regs *regs)
{
	return syscall_get_nr(current, regs) | (in_ia32_syscall() ? JIFL_FLIGHT_IA32 : 0);
}

static void jifl_flight_on_enter(void *data, struct pt_regs *regs, long id)
{
	if (unlikely(in_ia32_syscall()))
		jifl_flight_say(enter, jifl_flight_call(regs), regs->bx, regs->cx, regs->dx,
				regs->si);
	else
		jifl_flight_say(enter, jifl_flight_call(regs), regs->di, regs->si, regs->dx,
				regs->r10);
}

static void jifl_flight_on_exit(void *data, struct pt_regs *regs, long ret)
{
	jifl_flight_say(exit, jifl_flight_call(regs), ret, 0, 0, 0);
}

/* --- sched, proc ---------------------------------------------------------------------------- */

static void jifl_flight_on_switch(void *data, bool preempt, struct task_struct *prev,
				  struct task_struct *next, unsigned int prev_state)
{
	jifl_flight_comm(switch, next, next->pid, prev_state, preempt);
}

static void jifl_flight_on_wakeup(void *data, struct task_struct *p)
{
	jifl_flight_comm(wakeup, p, p->pid, task_cpu(p), p->prio);
}

static void jifl_flight_on_migrate(void *data, struct task_struct *p, int dest_cpu)
{
	jifl_flight_comm(migrate, p, p->pid, task_cpu(p), dest_cpu);
}

static void jifl_flight_on_fork(void *data, struct task_struct *parent, struct task_struct *child)
{
	jifl_flight_comm(fork, child, child->pid, child->tgid, child->flags);
}

static void jifl_flight_on_exec(void *data, struct task_struct *p, pid_t old_pid,
				struct linux_binprm *bprm)
{
	jifl_flight_say(exec, old_pid, jifl_flight_word(p->comm, 0), jifl_flight_word(p->comm, 1),
			0, 0);
}

static void jifl_flight_on_exit_task(void *data, struct task_struct *p)
{
	jifl_flight_say(exit_task, p->tgid, p->exit_code, jifl_flight_word(p->comm, 0),
			jifl_flight_word(p->comm, 1), 0);
}

/* Later kernels tell more of it. */
static void jifl_flight_on_exit_task_group(void *data, struct task_struct *p, bool group_dead)
{
	jifl_flight_on_exit_task(data, p);
}

static void jifl_flight_on_signal(void *data, int sig, struct kernel_siginfo *info,
				  struct task_struct *task, int group, int result)
{
	jifl_flight_comm(signal, task, sig, task->pid, result);
}

static void jifl_flight_on_module_load(void *data, struct module *mod)
{
	jifl_flight_text(JIFL_FLIGHT_EVENT_module_load, mod->name, strlen(mod->name));
}

static void jifl_flight_on_module_free(void *data, struct module *mod)
{
	jifl_flight_text(JIFL_FLIGHT_EVENT_module_free, mod->name, strlen(mod->name));
}

/* --- irq, block, mm, net -------------------------------------------------------------------- */

static void jifl_flight_on_irq_enter(void *data, int irq, struct irqaction *action)
{
	u64 name[4] = {};

	if (action->name)
		memcpy(name, action->name, strnlen(action->name, sizeof(name)));
	jifl_flight_say(irq_enter, irq, name[0], name[1], name[2], name[3]);
}

static void jifl_flight_on_irq_exit(void *data, int irq, struct irqaction *action, int ret)
{
	jifl_flight_say(irq_exit, irq, ret, 0, 0, 0);
}

static void jifl_flight_on_softirq_enter(void *data, unsigned int vec)
{
	jifl_flight_say(softirq_enter, vec, 0, 0, 0, 0);
}

static void jifl_flight_on_softirq_exit(void *data, unsigned int vec)
{
	jifl_flight_say(softirq_exit, vec, 0, 0, 0, 0);
}

static u64 jifl_flight_device(const struct request *rq)
{
	struct gendisk *disk = READ_ONCE(rq->q->disk);

	return disk ? disk_devt(disk) : 0;
}

static void jifl_flight_on_block_issue(void *data, struct request *rq)
{
	jifl_flight_say(block_issue, jifl_flight_device(rq), blk_rq_pos(rq), blk_rq_bytes(rq),
			req_op(rq), 0);
}

static void jifl_flight_on_block_complete(void *data, struct request *rq, blk_status_t error,
					  unsigned int bytes)
{
	jifl_flight_say(block_complete, jifl_flight_device(rq), blk_rq_pos(rq), bytes, req_op(rq),
			(__force u8)error);
}

static void jifl_flight_on_fault_user(void *data, unsigned long address, struct pt_regs *regs,
				      unsigned long code)
{
	jifl_flight_say(fault_user, address, regs->ip, code, 0, 0);
}

static void jifl_flight_on_fault_kernel(void *data, unsigned long address, struct pt_regs *regs,
					unsigned long code)
{
	jifl_flight_say(fault_kernel, address, regs->ip, code, 0, 0);
}

static void jifl_flight_on_oom(void *data, struct task_struct *task, uid_t uid)
{
	jifl_flight_say(oom, task->pid, uid, jifl_flight_word(task->comm, 0),
			jifl_flight_word(task->comm, 1), 0);
}

/* Before the kernel told more of it. */
static void jifl_flight_on_oom_pid(void *data, int pid)
{
	jifl_flight_say(oom, pid, 0, 0, 0, 0);
}

static void jifl_flight_on_receive(void *data, struct sk_buff *skb)
{
	jifl_flight_say(receive, skb->len, skb->dev->ifindex, 0, 0, 0);
}

static void jifl_flight_on_transmit(void *data, const struct sk_buff *skb,
				    const struct net_device *dev)
{
	jifl_flight_say(transmit, skb->len, dev->ifindex, 0, 0, 0);
}

/* --- log ------------------------------------------------------------------------------------ */

static void jifl_flight_on_warn(void *data, enum error_detector detector, unsigned long id)
{
	jifl_flight_say(warn, detector, id, 0, 0, 0);
}

static void jifl_flight_on_log(void *data, const char *text, size_t len)
{
	jifl_flight_text(JIFL_FLIGHT_EVENT_log, text, len);
}

/* --- programs of places ----------------------------------------------------------------------- */

void (*jifl_flight_program)(u32 event, u32 recording, const u64 args[JIFL_FLIGHT_ARGS],
			    unsigned int count) __ro_after_init;

/* Of the events of programs: those that are recorded now. */
static u64 jifl_flight_of_programs;
u32 jifl_flight_recording;

/*
 * Interrupts are off. The program may be of a recording that has ended: then its number differs. If
 * it has compared that before the next one began, jifl_flight_listen waits for it there (RCU).
 */
static void jifl_flight_on_program(u32 event, u32 recording, const u64 args[JIFL_FLIGHT_ARGS],
				   unsigned int count)
{
	if (READ_ONCE(jifl_flight_recording) == recording &&
	    READ_ONCE(jifl_flight_of_programs) >> event & 1)
		jifl_flight_tell(jifl_flight_context(count), event, args[0], args[1], args[2],
				 args[3], args[4]);
}

/* --- the table ------------------------------------------------------------------------------ */

static const struct jifl_flight_event jifl_flight_table[JIFL_FLIGHT_NR_EVENTS] = {
#define JIFL_FLIGHT_ENTRY(number_, hook_, tracepoint_, name_, group_, fields_) \
	[number_] = { .name = name_, .group = #group_, .fields = fields_ },
	JIFL_FLIGHT_EVENTS(JIFL_FLIGHT_ENTRY)
};

/*
 * A hook gets what its tracepoint gives: the compiler compares them. Of two there are two hooks,
 * for what one kernel gives and another.
 */
#define JIFL_FLIGHT_OLD_OOM							\
	__builtin_types_compatible_p(typeof(&check_trace_callback_type_mark_victim), \
				     void (*)(void (*)(void *, int)))
#define JIFL_FLIGHT_EXIT_OF_GROUP						\
	__builtin_types_compatible_p(						\
		typeof(&check_trace_callback_type_sched_process_exit),		\
		void (*)(void (*)(void *, struct task_struct *, bool)))

static void __maybe_unused jifl_flight_compare(void)
{
#define JIFL_FLIGHT_COMPARE(number_, name_, tracepoint_, ...) \
	check_trace_callback_type_##tracepoint_(JIFL_FLIGHT_FN(name_));
#define JIFL_FLIGHT_FN(name_) jifl_flight_on_##name_
#define jifl_flight_on_oom \
	__builtin_choose_expr(JIFL_FLIGHT_OLD_OOM, jifl_flight_on_oom_pid, (jifl_flight_on_oom))
#define jifl_flight_on_exit_task							\
	__builtin_choose_expr(JIFL_FLIGHT_EXIT_OF_GROUP, jifl_flight_on_exit_task_group,	\
			      (jifl_flight_on_exit_task))
	JIFL_FLIGHT_EVENTS(JIFL_FLIGHT_COMPARE)
#undef jifl_flight_on_oom
#undef jifl_flight_on_exit_task
}

static struct jifl_flight_hook {
	const char *tracepoint;
	void *fn;
	struct tracepoint *tp;		/* NULL: the kernel has none */
	int (*set)(bool listens);	/* instead of the tracepoint; NULL: none */
	bool is_set;			/* that way is used now */
	bool listens;			/* under the lock of request.c */
} jifl_flight_hooks[JIFL_FLIGHT_NR_EVENTS] = {
#define JIFL_FLIGHT_HOOK(number_, name_, tracepoint_, ...) \
	[number_] = { .tracepoint = #tracepoint_, .fn = jifl_flight_on_##name_ },
	JIFL_FLIGHT_EVENTS(JIFL_FLIGHT_HOOK)
};

int jifl_flight_find_events(void)
{
	u32 i;

	jifl_flight_program = jifl_flight_on_program;
	jifl_flight_lines_init();
	if (JIFL_FLIGHT_OLD_OOM)
		jifl_flight_hooks[JIFL_FLIGHT_EVENT_oom].fn = jifl_flight_on_oom_pid;
	if (JIFL_FLIGHT_EXIT_OF_GROUP)
		jifl_flight_hooks[JIFL_FLIGHT_EVENT_exit_task].fn = jifl_flight_on_exit_task_group;
	for (i = 0; i < JIFL_FLIGHT_NR_EVENTS; i++)
		jifl_flight_hooks[i].tp = jifl_compat_tracepoint(jifl_flight_hooks[i].tracepoint);
	jifl_flight_find_calls();
	if (jifl_flight_has_calls()) {
		jifl_flight_hooks[JIFL_FLIGHT_ENTER].set = jifl_flight_set_enters;
		jifl_flight_hooks[JIFL_FLIGHT_EXIT].set = jifl_flight_set_results;
	}
	return 0;
}

const struct jifl_flight_event *jifl_flight_events(u32 *n)
{
	*n = JIFL_FLIGHT_NR_EVENTS;
	return jifl_flight_table;
}

static int jifl_flight_begin(struct jifl_flight_hook *hook)
{
	int ret = hook->set ? hook->set(true) : -EBUSY;

	hook->is_set = !ret;
	/* Somebody else has the call: the tracepoint has to do. */
	if (ret == -EBUSY && hook->tp)
		ret = JIFL_TRY(tracepoint_probe_register(hook->tp, hook->fn, NULL));
	return ret;
}

static int jifl_flight_cease(struct jifl_flight_hook *hook)
{
	return hook->is_set ? hook->set(false) :
			      tracepoint_probe_unregister(hook->tp, hook->fn, NULL);
}

static int jifl_flight_set(struct jifl_flight_hook *hook, bool listens)
{
	int ret;

	if (hook->listens == listens)
		return 0;
	ret = listens ? jifl_flight_begin(hook) : jifl_flight_cease(hook);
	if (!ret)
		hook->listens = listens;
	return ret;
}

int jifl_flight_listen(u64 *mask, u32 nmore)
{
	const u64 more = ((1ull << nmore) - 1) << JIFL_FLIGHT_NR_EVENTS;
	const u64 wanted = *mask & ~jifl_flight_lost_calls();
	int ret = 0;
	u32 i;

	*mask = 0;
	for (i = 0; i < JIFL_FLIGHT_NR_EVENTS && !ret; i++) {
		struct jifl_flight_hook *hook = &jifl_flight_hooks[i];

		if (!hook->tp && !hook->set)
			continue;
		ret = jifl_flight_set(hook, wanted >> i & 1);
		if (hook->listens)
			*mask |= 1ull << i;
	}
	if (ret) {
		*mask = 0;
		for (i = 0; i < JIFL_FLIGHT_NR_EVENTS; i++)
			if (jifl_flight_hooks[i].listens)
				jifl_flight_set(&jifl_flight_hooks[i], false);
	}
	*mask |= ret ? 0 : wanted & more;
	WRITE_ONCE(jifl_flight_of_programs, *mask & more);
	jifl_flight_lines_lead(*mask & more);
	/* Those that do not listen any more do not run any more. */
	tracepoint_synchronize_unregister();
	return ret;
}
