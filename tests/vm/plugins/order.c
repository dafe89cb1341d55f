// SPDX-License-Identifier: GPL-2.0
/*
 * order: built under several names, which are started at the same time. Each puts a record into
 * its ring at the same places of a task's getppid; the records' times tell which came first. A
 * record names the instruction at which it was inserted; where the call begins and ends, it names
 * the callback that inserted it.
 */
#include <jifl.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>

static int pid;
module_param(pid, int, 0644);

static syscall_t watched;
static ring_t ring;

struct record {
	int place;
	const void *at;
};

static void note(struct task_struct *task, int place, const void *at)
{
	struct record record = { .place = place, .at = at };

	if (task->tgid == pid)
		ring_put(&ring, &record);
}

static void at_point(syscall_point_t *point, void *place)
{
	syscall_insert_call(point, note, ARG_TASK, ARG_INT32, (int)(long)place, ARG_VOID_PTR,
			    at_point, ARG_END);
}

static void at_ins(ins_t *ins, void *arg)
{
	if (ins_type(ins) == ins_ret)
		ins_insert_call(ins, IPOINT_BEFORE, note, ARG_TASK, ARG_INT32, 2, ARG_INS_ADDRESS,
				ARG_END);
	else if (symbol_start(ins_address(ins)) == ins_address(ins))
		ins_insert_call(ins, IPOINT_AFTER, note, ARG_TASK, ARG_INT32, 1, ARG_INS_ADDRESS,
				ARG_END);
}

static void show(const void *data, const struct ring_info *info, char *line, size_t size)
{
	const struct record *record = data;

	scnprintf(line, size, "%llu %d %pS", info->ns, record->place, record->at);
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
	return ring_init(&ring, sizeof(struct record), 65536, show) ?:
	       syscall_start_instrumenting(&watched);
}

static void plugin_stop(void)
{
	syscall_stop_instrumenting(&watched);
}
