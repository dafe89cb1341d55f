// SPDX-License-Identifier: GPL-2.0
/*
 * calltrace: which functions of the kernel call which, in one system call, or in one of themselves.
 *
 *	echo 39 > /sys/module/calltrace/parameters/call		(getpid; see asm/unistd.h)
 *	echo fn:vfs_read > /sys/module/calltrace/parameters/target	(instead of a system call)
 *	echo 1234 > /sys/module/calltrace/parameters/pid
 *	jifl start calltrace; ...; jifl stop calltrace; jifl read calltrace
 *
 * Each routine gets a call where it begins and a call where it is left. A tail call leaves the one
 * routine before it enters the other: both stand at the same depth. The task's own storage keeps
 * its depth. The entered routines go into the ring, which `jifl read` shows. What an interrupt
 * calls stands below what it has interrupted.
 */
#include <jifl.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/string.h>

enum { RECORDS = 65536, TASKS = 4096, DEPTH_MAX = 64 };

static int call = __NR_getpid, pid;
module_param(call, int, 0644);
MODULE_PARM_DESC(call, "number of the system call");
module_param(pid, int, 0644);
MODULE_PARM_DESC(pid, "whose; of a thread, its own number; 0: of all");

static char target[100];
module_param_string(target, target, sizeof(target), 0644);
MODULE_PARM_DESC(target, "functions instead of a system call: fn:NAME, mod:MODULE, softirq:NAME, irq:NR, work:NAME, timer:NAME");

static target_t traced;
static task_storage_t depths;
static ring_t ring;

struct record {
	pid_t pid;
	int depth;
	unsigned long routine;
};

/* --- analysis: each time that the code runs ----------------------------------------------- */

/* NULL: not to be traced. */
static int *depth_of(struct task_struct *task)
{
	return pid && task->pid != pid ? NULL : task_storage(&depths);
}

static void begin(struct task_struct *task)
{
	int *depth = in_task() ? depth_of(task) : NULL;

	if (depth)
		*depth = 0;
}

static void enter(struct task_struct *task, unsigned long routine)
{
	int *depth = depth_of(task);
	struct record record = { .pid = task->pid, .routine = routine };

	if (!depth)
		return;
	record.depth = (*depth)++;
	ring_put(&ring, &record);
}

static void leave(struct task_struct *task)
{
	int *depth = depth_of(task);

	if (depth)
		(*depth)--;
}

/* --- instrumentation: when it is translated -------------------------------------------------- */

static void instrument_entry(target_point_t *point, void *arg)
{
	target_insert_call(point, begin, ARG_TASK, ARG_END);
}

static void instrument_routine(routine_t *routine, void *arg)
{
	routine_insert_call(routine, enter, ARG_TASK, ARG_INS_ADDRESS, ARG_END);
	routine_insert_exit_call(routine, leave, ARG_TASK, ARG_END);
}

/* --- reading: a line for each record ---------------------------------------------------------- */

static void show(const void *data, const struct ring_info *info, char *line, size_t size)
{
	const struct record *record = data;

	scnprintf(line, size, "[%d] %*s%ps", record->pid, 2 * clamp(record->depth, 0, DEPTH_MAX),
		  "", (void *)record->routine);
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
	/* As echo writes it, an empty one has a new line. */
	const char *functions = strim(target);
	int ret = ring_init(&ring, sizeof(struct record), RECORDS, show);

	ret = ret ?: task_storage_init(&depths, sizeof(int), TASKS, NULL);
	ret = ret ?: *functions ? target_init(&traced, functions) : syscall_init(&traced, call);
	ret = ret ?: target_add_entry_instrumentation(&traced, instrument_entry, NULL);
	ret = ret ?: target_add_routine_instrumentation(&traced, instrument_routine, NULL);
	return ret ?: target_start_instrumenting(&traced);
}

static void plugin_stop(void)
{
	target_stop_instrumenting(&traced);
}
