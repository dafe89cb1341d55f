// SPDX-License-Identifier: GPL-2.0
/*
 * store: everything of include/jifl_store.h, with events and symbols. It counts each getresuid in
 * everything that can count, so that all counts must agree. In all other calls it looks only at
 * routines, for which it takes pieces of a heap. Stopping prints all sums: "store: NAME SUM...".
 */
#include <jifl.h>
#include <linux/kallsyms.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/threads.h>

#undef pr_fmt
#define pr_fmt(fmt) fmt

static unsigned int tasks = 1024, records = 65536, heap_kb = 4096, queued = 65536;
module_param(tasks, uint, 0644);
module_param(records, uint, 0644);
module_param(heap_kb, uint, 0644);
module_param(queued, uint, 0644);

static syscall_t getresuid_call, all_calls;
static heap_t heap;
static cpu_storage_t cpus;
static task_storage_t by_task;
static ring_t ring;
static jifl_queue_t queue;

static atomic64_t calls, without_task, gone_tasks, gone_calls, wrong;
/* Of the queue: how many, and the sums of what was in them. */
static atomic64_t put, put_sum, taken, taken_sum;
/* Callbacks and flushes take turns; events are one at a time. */
static unsigned long routines, without_room, flushes, ends, there, came, went, again;

/* Larger than what all modules together have of static per-CPU data. */
struct cpu {
	char other[10000];
	u64 calls;
};

struct task {
	pid_t pid;
	u64 calls;
};

struct record {
	pid_t pid;
	u64 n;
	unsigned long address;
};

/* A routine that was seen, in a piece of the heap. */
struct routine {
	struct routine *next;
	unsigned long address;
} *seen;

static void expect(bool good)
{
	if (!good)
		atomic64_inc(&wrong);
}

/* --- analysis ------------------------------------------------------------------------------ */

static bool take_one(struct record *record)
{
	if (!jifl_dequeue(&queue, record))
		return false;
	atomic64_inc(&taken);
	atomic64_add(record->pid * record->n, &taken_sum);
	return true;
}

/* What one CPU has put in any may take; of three calls one does. */
static void pass_on(const struct record *record)
{
	struct record other;

	if (jifl_enqueue(&queue, *record)) {
		atomic64_inc(&put);
		atomic64_add(record->pid * record->n, &put_sum);
	}
	if (record->n % 3 == 0)
		take_one(&other);
}

static void on_call(unsigned long address)
{
	struct task *task = task_storage(&by_task);
	struct record record = { .pid = current->pid, .address = address };
	struct cpu *cpu;
	unsigned long flags;

	local_irq_save(flags);
	cpu = cpu_storage(&cpus);
	cpu->calls++;
	local_irq_restore(flags);
	atomic64_inc(&calls);
	if (task) {
		expect(!((unsigned long)task & 15) && (!task->calls || task->pid == current->pid));
		expect(task == task_storage(&by_task) &&
		       task == task_storage_of(&by_task, current));
		task->pid = current->pid;
		record.n = ++task->calls;
	} else {
		expect(!task_storage_of(&by_task, current));
		atomic64_inc(&without_task);
	}
	ring_put(&ring, &record);
	pass_on(&record);
}

static void nothing(void)
{
}

/* --- instrumentation ----------------------------------------------------------------------- */

static void at_routine(routine_t *routine, void *arg)
{
	static char name[KSYM_NAME_LEN], same[KSYM_NAME_LEN];

	expect(!routine_name(routine, name, sizeof(name)) &&
	       !symbol_name(routine_address(routine), same, sizeof(same)) && !strcmp(name, same));
	expect(symbol_start(routine_address(routine)) == routine_address(routine));
	/* It has two names, and which is found first differs. */
	if (strstr(name, "_sys_getresuid"))
		expect(!routine_insert_call(routine, on_call, ARG_INS_ADDRESS, ARG_END));
}

static void at_any_routine(routine_t *routine, void *arg)
{
	const unsigned long address = routine_address(routine);
	struct routine *r;

	routine_insert_call(routine, nothing, ARG_END);
	for (r = seen; r; r = r->next)
		if (r->address == address)
			return;
	r = heap_alloc(&heap, sizeof(*r));
	if (!r) {
		without_room++;
		return;
	}
	expect(!((unsigned long)r & 15) && !r->next && !r->address);
	*r = (struct routine){ seen, address };
	seen = r;
	routines++;
}

/* --- events ---------------------------------------------------------------------------------- */

static void on_module(const struct module_event *event, void *arg)
{
	char name[KSYM_NAME_LEN], module[MODULE_NAME_LEN];

	if (event->there)
		there++;
	else
		event->going ? went++ : came++;
	/* Its text may begin with what has no symbol. */
	expect(!symbol_name(event->text + event->size / 2, name, sizeof(name)) &&
	       !symbol_module(event->text + event->size / 2, module, sizeof(module)) &&
	       !strcmp(module, event->name));
	expect(preemptible() && event->size > 0 && arg == &came);
	pr_info("store: module %s %s\n", event->name,
		event->there ? "is there" : event->going ? "goes" : "comes");
}

static void on_flush(void *arg)
{
	expect(preemptible() && arg == &flushes);
	flushes++;
	again += !!seen;
	seen = NULL;
	expect(!heap_reset(&heap) && !heap_used(&heap));
}

static void on_end(void *arg)
{
	expect(preemptible() && arg == &ends);
	/* The last event: until then the cache may be emptied. */
	if (++ends == 2)
		pr_info("store: ends flushes %lu again %lu\n", flushes, again);
}

static void on_gone(void *data)
{
	struct task *task = data;

	atomic64_inc(&gone_tasks);
	atomic64_add(task->calls, &gone_calls);
}

static void show(const void *data, const struct ring_info *info, char *line, size_t size)
{
	const struct record *record = data;
	char name[KSYM_NAME_LEN];

	expect(preemptible());
	symbol_name(record->address, name, sizeof(name));
	scnprintf(line, size, "%llu cpu %u pid %d n %llu %s", info->ns, info->cpu, record->pid,
		  record->n, name);
}

/* --- the plugin ----------------------------------------------------------------------- */

static int plugin_init(void)
{
	int ret = syscall_init(&getresuid_call, __NR_getresuid);

	ret = ret ?: syscall_init_all(&all_calls);
	ret = ret ?: syscall_add_routine_instrumentation(&getresuid_call, at_routine, NULL);
	ret = ret ?: syscall_add_routine_instrumentation(&all_calls, at_any_routine, NULL);
	ret = ret ?: syscall_add_module_callback(&getresuid_call, on_module, &came);
	ret = ret ?: syscall_add_end_callback(&getresuid_call, on_end, &ends);
	ret = ret ?: syscall_add_end_callback(&all_calls, on_end, &ends);
	return ret ?: syscall_add_flush_callback(&all_calls, on_flush, &flushes);
}

static void plugin_exit(void)
{
}

static int plugin_start(void)
{
	int ret = heap_init(&heap, (size_t)heap_kb << 10);

	ret = ret ?: cpu_storage_init(&cpus, sizeof(struct cpu));
	ret = ret ?: task_storage_init(&by_task, sizeof(struct task), tasks, on_gone);
	ret = ret ?: ring_init(&ring, sizeof(struct record), records, show);
	ret = ret ?: jifl_queue_init(&queue, sizeof(struct record), queued);
	atomic64_set(&put, 0);
	atomic64_set(&put_sum, 0);
	atomic64_set(&taken, 0);
	atomic64_set(&taken_sum, 0);
	atomic64_set(&calls, 0);
	atomic64_set(&without_task, 0);
	atomic64_set(&gone_tasks, 0);
	atomic64_set(&gone_calls, 0);
	routines = without_room = flushes = ends = there = came = went = again = 0;
	seen = NULL;
	expect(!!symbol_address("vfs_read") && !symbol_address("no such symbol"));
	ret = ret ?: syscall_start_instrumenting(&getresuid_call);
	return ret ?: syscall_start_instrumenting(&all_calls);
}

static u64 sum_of_cpus(void)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += ((struct cpu *)cpu_storage_of(&cpus, cpu))->calls;
	return sum;
}

/* What is left comes out in the order in which each task has put it in. */
static u64 drain_queue(void)
{
	static u64 last[PID_MAX_DEFAULT];
	struct record record;
	u64 n = 0;

	memset(last, 0, sizeof(last));
	for (; take_one(&record); n++) {
		u64 *before = &last[record.pid % PID_MAX_DEFAULT];

		/* Of a task without storage it is always 0. */
		expect(!record.n || record.n > *before);
		*before = record.n;
	}
	return n;
}

static void plugin_stop(void)
{
	u64 left;
	s64 before;

	/* The other one is left to JIFL: its end comes behind this function. */
	syscall_stop_instrumenting(&getresuid_call);
	expect(ends == 1);
	left = drain_queue();
	before = atomic64_read(&gone_tasks);
	expect(!task_storage_drain(&by_task));
	pr_info("store: calls %lld cpus %llu tasks %lld drained %lld task_calls %lld without_task %lld refused %llu lost %llu heap_refused %llu wrong %lld routines %lu without_room %lu there %lu came %lu went %lu used %zu\n",
		atomic64_read(&calls), sum_of_cpus(), atomic64_read(&gone_tasks),
		atomic64_read(&gone_tasks) - before, atomic64_read(&gone_calls),
		atomic64_read(&without_task), task_storage_refused(&by_task), ring_lost(&ring),
		heap_refused(&heap), atomic64_read(&wrong), routines, without_room,
		there, came, went, heap_used(&heap));
	pr_info("store: queue put %lld put_sum %lld taken %lld taken_sum %lld left %llu queue_refused %llu\n",
		atomic64_read(&put), atomic64_read(&put_sum), atomic64_read(&taken),
		atomic64_read(&taken_sum), left, jifl_queue_refused(&queue));
}
