// SPDX-License-Identifier: GPL-2.0
/*
 * order: built under several names, which are started at the same time. Each puts a record into its
 * ring at the same places of a task's getppid; the times of these say who came first.
 */
#include <jifl.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>

static int pid;
module_param(pid, int, 0644);

static syscall_s watched;
static ring_s ring;

static void note(struct task_struct *task, int place)
{
	if (task->tgid == pid)
		ring_put(&ring, &place);
}

static void at_point(syscall_point_s *point, void *place)
{
	syscall_insert_call(point, note, ARG_TASK, ARG_INT32, (int)(long)place, ARG_END);
}

static void at_ins(ins_s *ins, void *arg)
{
	if (ins_type(ins) == INS_TYPE_RETURN)
		ins_insert_call(ins, IPOINT_BEFORE, note, ARG_TASK, ARG_INT32, 2, ARG_END);
	else if (symbol_start(ins_address(ins)) == ins_address(ins))
		ins_insert_call(ins, IPOINT_AFTER, note, ARG_TASK, ARG_INT32, 1, ARG_END);
}

static void show(const void *place, const struct ring_info *info, char *line, size_t size)
{
	scnprintf(line, size, "%llu %d", info->ns, *(const int *)place);
}

static int plugin_init(void)
{
	int ret = syscall_init(&watched, __NR_getppid);

	ret = ret ?: syscall_add_entry_instrumentation(&watched, at_point, (void *)0);
	ret = ret ?: syscall_add_exit_instrumentation(&watched, at_point, (void *)3);
	return ret ?: syscall_add_ins_instrumentation(&watched, at_ins, NULL);
}

static void plugin_exit(void)
{
}

static int plugin_start(void)
{
	return ring_init(&ring, sizeof(int), 65536, show) ?: syscall_start_instrumenting(&watched);
}

static void plugin_stop(void)
{
	syscall_stop_instrumenting(&watched);
}
