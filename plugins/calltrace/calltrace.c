// SPDX-License-Identifier: GPL-2.0
/*
 * calltrace: which functions of the kernel call which, in one system call of one task.
 *
 *	echo 39 > /sys/module/calltrace/parameters/call		(getpid; see asm/unistd.h)
 *	echo 1234 > /sys/module/calltrace/parameters/pid
 *	jifl start calltrace; ...; jifl stop calltrace; dmesg
 *
 * Each routine gets a call where it begins and one where it is left. A tail call leaves
 * the one routine before it enters the other: both stand at the same depth.
 */
#include <jifl.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>

#undef pr_fmt
#define pr_fmt(fmt) fmt

enum { EVENTS = 8192, DEPTH_MAX = 64 };

static int call = __NR_getpid, pid;
module_param(call, int, 0644);
MODULE_PARM_DESC(call, "number of the system call");
module_param(pid, int, 0644);
MODULE_PARM_DESC(pid, "whose; of a thread, its own number");

static syscall_s traced;

/* One task writes them, so the two need no protection. */
static struct event {
	unsigned long routine;
	int depth;
} events[EVENTS];
static int nevents, depth;

/* --- analysis: each time that the code runs ----------------------------------------------- */

static void begin(struct task_struct *task)
{
	if (task->pid == pid)
		depth = 0;
}

static void enter(struct task_struct *task, unsigned long routine)
{
	if (task->pid != pid)
		return;
	if (nevents < EVENTS)
		events[nevents] = (struct event){ routine, depth };
	nevents++;
	depth++;
}

static void leave(struct task_struct *task)
{
	if (task->pid == pid)
		depth--;
}

/* --- instrumentation: when it is translated -------------------------------------------------- */

static void instrument_entry(syscall_point_s *point, void *arg)
{
	syscall_insert_call(point, begin, ARG_TASK, ARG_END);
}

static void instrument_routine(routine_s *routine, void *arg)
{
	routine_insert_call(routine, enter, ARG_TASK, ARG_INS_ADDRESS, ARG_END);
	routine_insert_exit_call(routine, leave, ARG_TASK, ARG_END);
}

static int plugin_init(void)
{
	return 0;
}

static void plugin_exit(void)
{
}

static int plugin_start(void)
{
	int ret = syscall_init(&traced, call);

	nevents = 0;
	ret = ret ?: syscall_add_entry_instrumentation(&traced, instrument_entry, NULL);
	ret = ret ?: syscall_add_routine_instrumentation(&traced, instrument_routine, NULL);
	return ret ?: syscall_start_instrumenting(&traced);
}

static void plugin_stop(void)
{
	int i;

	syscall_stop_instrumenting(&traced);
	for (i = 0; i < nevents && i < EVENTS; i++)
		pr_info("calltrace: %*s%ps\n", 2 * clamp(events[i].depth, 0, DEPTH_MAX), "",
			(void *)events[i].routine);
	if (nevents > EVENTS)
		pr_info("calltrace: and %d calls more\n", nevents - EVENTS);
}
