// SPDX-License-Identifier: GPL-2.0
/*
 * misuse: calls the API wrongly in every way there is. Each mistake must give
 * its error and change nothing: the one good session, which counts getresuid's
 * instructions, goes on as if nothing had been. strangers.c has what is about functions.
 */
#include <jifl.h>
#include <linux/kallsyms.h>
#include <linux/sched.h>
#include <linux/sched/task.h>

#include "steps.h"

static syscall_t good, other, same, raw, all, full;
static atomic64_t count;
static atomic_t mistakes;

static bb_t *kept_bb;
static ins_t *kept_ins;
static routine_t *kept_routine;
static syscall_point_t *kept_point;
static hist_t no_hist;
static heap_t heap, no_heap;
static cpu_storage_t cpus;
static task_storage_t tasks, no_tasks;
static ring_t ring, no_ring;
static jifl_queue_t queue, no_queue;
DEFINE_HIST(hist, 4);

static void add_count(atomic64_t *total, int n)
{
	atomic64_add(n, total);
}

static void never(void)
{
	atomic_inc(&mistakes);
}

static void on_point(syscall_point_t *point, void *arg)
{
	if (kept_point)
		note("an old point", syscall_insert_call(kept_point, never, ARG_END), -EPERM);
	kept_point = point;
	note("a point is no block", bb_insert_call((bb_t *)point, never, ARG_END), -EPERM);
	note("a point's null function", syscall_insert_call(point, NULL, ARG_END), -EINVAL);
	note("its number", syscall_nr(point), __NR_getresuid);
	note("a conditional jump of a point", ins_jcc, INS_TYPES);
	note("an instruction of a point",
	     syscall_insert_call(point, never, ARG_INS_ADDRESS, ARG_END), -EINVAL);
	note("a register of a point", syscall_insert_hist(point, &hist, VALUE_RDI, ARG_END),
	     -EINVAL);
	if (!arg)
		note("registers at the exit",
		     syscall_insert_call(point, never, ARG_CONTEXT, ARG_END), -EINVAL);
	note(arg ? "a result at the entry" : "an argument at the exit",
	     syscall_insert_hist(point, &hist, arg ? VALUE_RETVAL : VALUE_ARG0, ARG_END), -EINVAL);
}

static void on_routine(routine_t *routine, void *arg)
{
	if (kept_routine)
		note("an old routine", routine_insert_call(kept_routine, never, ARG_END), -EPERM);
	kept_routine = routine;
	note("a routine's null function", routine_insert_call(routine, NULL, ARG_END), -EINVAL);
	note("a result where a routine begins",
	     routine_insert_call(routine, never, ARG_REG, VALUE_RETVAL, ARG_END), -EINVAL);
	note("an argument where it is left",
	     routine_insert_exit_call(routine, never, ARG_REG, VALUE_ARG0, ARG_END), -EINVAL);
	note("a null function where it is left", routine_insert_exit_call(routine, NULL, ARG_END),
	     -EINVAL);
	note("a name without room", routine_name(routine, NULL, 10), -EINVAL);
	note("a module without room", routine_module(routine, NULL, 10), -EINVAL);
}

static void show(const void *record, const struct ring_info *info, char *line, size_t size)
{
}

static void on_bb(bb_t *bb, void *arg)
{
	char name[1];

	bb_insert_call(bb, add_count, ARG_VOID_PTR, &count, ARG_INT32, bb_size(bb), ARG_END);
	if (kept_bb && kept_bb != bb) {
		note("an old block", bb_insert_call(kept_bb, never, ARG_END), -EPERM);
		note("an old block's size", bb_size(kept_bb), -EPERM);
		note("an old block's address", bb_address(kept_bb), 0);
		note("an old block's instructions", (long)ins_first(kept_bb), 0);
	}
	if (kept_ins)
		note("an old instruction", ins_insert_call(kept_ins, IPOINT_BEFORE, never, ARG_END),
		     -EPERM);
	kept_bb = bb;
	note("no block", bb_insert_call(NULL, never, ARG_END), -EPERM);
	note("what is no handle", bb_insert_call((bb_t *)&count, never, ARG_END), -EPERM);
	note("a null function", bb_insert_call(bb, NULL, ARG_END), -EINVAL);
	note("a function in user space", bb_insert_call(bb, (void *)0x400000, ARG_END), -EINVAL);
	note("a function that is data", bb_insert_call(bb, (void *)&count, ARG_END), -EINVAL);
	note("a function that is a handle", bb_insert_call(bb, (void *)bb, ARG_END), -EINVAL);
	note("an unknown type", bb_insert_call(bb, never, 17, 1, ARG_END), -EINVAL);
	note("too many arguments",
	     bb_insert_call(bb, never, ARG_INT32, 1, ARG_INT32, 2, ARG_INT32, 3, ARG_INT32, 4,
			    ARG_INT32, 5, ARG_INT32, 6, ARG_INT32, 7, ARG_END), -E2BIG);
	note("no histogram", bb_insert_hist(bb, NULL, VALUE_RAX, ARG_END), -EINVAL);
	note("a histogram of nothing", bb_insert_hist(bb, &no_hist, VALUE_RAX, ARG_END), -EINVAL);
	note("no value", bb_insert_hist(bb, &hist, 17, ARG_END), -EINVAL);
	note("the stack pointer", bb_insert_hist(bb, &hist, VALUE_RBX + 1, ARG_END), -EINVAL);
	note("an argument in a block", bb_insert_hist(bb, &hist, VALUE_ARG0, ARG_END), -EINVAL);
	note("arguments of a histogram",
	     bb_insert_hist(bb, &hist, VALUE_RAX, ARG_INT32, 1, ARG_END), -E2BIG);
	note("a condition on nothing",
	     bb_insert_call(bb, never, IF_EQUAL, VALUE_RETVAL, ARG_INT32, 1, ARG_END), -EINVAL);
	note("a condition of no type",
	     bb_insert_call(bb, never, IF_EQUAL, VALUE_RAX, 1, 1, ARG_END), -EINVAL);
	note("half a value and a whole constant",
	     bb_insert_call(bb, never, IF_EQUAL, VALUE_32(VALUE_RAX), ARG_INT64, 1ll, ARG_END),
	     -EINVAL);
	note("two conditions",
	     bb_insert_call(bb, never, IF_EQUAL, VALUE_RAX, ARG_INT32, 1, IF_EQUAL, VALUE_RAX,
			    ARG_INT32, 1, ARG_END), -EINVAL);
	note("all registers on a condition",
	     bb_insert_call(bb, never, IF_EQUAL, VALUE_RAX, ARG_INT32, 1, ARG_CONTEXT, ARG_END),
	     -EINVAL);
	note("all registers twice", bb_insert_call(bb, never, ARG_CONTEXT, ARG_CONTEXT, ARG_END),
	     -EINVAL);
	note("no value to be looked up", bb_insert_call(bb, never, ARG_REG, 17, ARG_END), -EINVAL);
	note("an argument to be looked up in a block",
	     bb_insert_call(bb, never, ARG_REG, VALUE_ARG1, ARG_END), -EINVAL);
	note("a block's branch", bb_insert_call(bb, never, ARG_BRANCH_TARGET, ARG_END), -EINVAL);
	note("whether a block branches", bb_insert_call(bb, never, ARG_BRANCH_TAKEN, ARG_END),
	     -EINVAL);
	note("a block's operand", bb_insert_call(bb, never, ARG_MEMORY_ADDRESS, ARG_END), -EINVAL);
	note("a block is no instruction",
	     ins_insert_call((ins_t *)bb, IPOINT_BEFORE, never, ARG_END), -EPERM);
	note("a block is no routine", (long)routine_address((routine_t *)bb), 0);
	note("a heap in a callback", heap_init(&no_heap, 100), -EPERM);
	note("emptying one in a callback", heap_reset(&heap), -EPERM);
	note("storage of CPUs in a callback", cpu_storage_init(&cpus, 100), -EPERM);
	note("storage of tasks in a callback", task_storage_init(&no_tasks, 100, 100, NULL),
	     -EPERM);
	note("a ring in a callback", ring_init(&no_ring, 100, 100, show), -EPERM);
	note("a queue in a callback", jifl_queue_init(&no_queue, 100, 100), -EPERM);
	note("a record of another size", jifl_enqueue(&queue, (char)1), 0);
	note("a place for one of another size", jifl_dequeue(&queue, name), 0);
	note("a piece of no heap", (long)heap_alloc(&no_heap, 1), 0);
	note("a piece of no bytes", (long)heap_alloc(&heap, 0), 0);
	note("a piece that is too large", (long)heap_alloc(&heap, SIZE_MAX), 0);
	note("a symbol's address in a callback", symbol_address("vfs_read"), 0);
	note("a symbol's name without room", symbol_name((unsigned long)on_point, NULL, 10),
	     -EINVAL);
	note("a symbol's module without room", symbol_module((unsigned long)on_point, NULL, 0),
	     -EINVAL);
	note("starting in a callback", syscall_start_instrumenting(&other), -EPERM);
	note("stopping in a callback", syscall_stop_instrumenting(&good), -EPERM);
	note("adding in a callback", syscall_add_bb_instrumentation(&other, on_bb, NULL), -EPERM);
}

static void on_ins(ins_t *ins, void *arg)
{
	bool ends = ins_type(ins) >= ins_jmp;

	kept_ins = ins;
	note("the type of no instruction", ins_type(NULL), ins_other);
	note("no register", ins_reads_reg(ins, 17), 0);
	note("operands without room", ins_memory_operands(ins, NULL, 1), -EINVAL);
	if (ins_type(ins) == ins_ret)
		note("where a return goes",
		     ins_insert_call(ins, IPOINT_BEFORE, never, ARG_BRANCH_TARGET, ARG_END),
		     -EINVAL);
	if (ins_type(ins) == ins_nop)
		note("a nop's operand",
		     ins_insert_call(ins, IPOINT_BEFORE, never, ARG_MEMORY_SIZE, ARG_END), -EINVAL);
	if (ins_type(ins) != ins_jcc) {
		note("taken, of no conditional jump", ins_insert_bt_call(ins, never, ARG_END),
		     -EINVAL);
		note("not taken, of none", ins_insert_bnt_call(ins, never, ARG_END), -EINVAL);
	}
	note("an instruction's null function", ins_insert_call(ins, IPOINT_BEFORE, NULL, ARG_END),
	     -EINVAL);
	note("neither before nor after", ins_insert_call(ins, 17, never, ARG_END), -EINVAL);
	if (ends)
		note("after a branch", ins_insert_call(ins, IPOINT_AFTER, never, ARG_END), -EINVAL);
}

/* In process context, when `good` has ended. */
static void on_end(void *arg)
{
	expect("stopping at an event", syscall_stop_instrumenting(arg), -EPERM);
	expect("starting at an event", syscall_start_instrumenting(&other), -EPERM);
	expect("adding at an event", syscall_add_bb_instrumentation(&other, on_bb, NULL), -EPERM);
}

static void storage(void)
{
	char name[KSYM_SYMBOL_LEN];
	u64 word;

	expect("a null heap", heap_init(NULL, 100), -EINVAL);
	expect("a heap of nothing", heap_init(&heap, 0), -EINVAL);
	expect("a heap without end", heap_init(&heap, SIZE_MAX), -EINVAL);
	expect("a heap that there is no memory for", heap_init(&heap, 1ul << 50) == -ENOMEM, 1);
	expect("emptying no heap", heap_reset(&heap), -EINVAL);
	expect("a heap", heap_init(&heap, 100), 0);
	expect("a second time", heap_init(&heap, 100), -EBUSY);
	expect("null storage of CPUs", cpu_storage_init(NULL, 100), -EINVAL);
	expect("of nothing", cpu_storage_init(&cpus, 0), -EINVAL);
	expect("of too much", cpu_storage_init(&cpus, SIZE_MAX), -EINVAL);
	expect("null storage of tasks", task_storage_init(NULL, 8, 8, NULL), -EINVAL);
	expect("of nothing, for tasks", task_storage_init(&tasks, 0, 8, NULL), -EINVAL);
	expect("of too much, for tasks",
	       task_storage_init(&tasks, TASK_STORAGE_SIZE_MAX + 1, 8, NULL), -EINVAL);
	expect("of no tasks", task_storage_init(&tasks, 8, 0, NULL), -EINVAL);
	expect("of too many", task_storage_init(&tasks, 8, (1 << 20) + 1, NULL), -EINVAL);
	expect("draining none", task_storage_drain(&tasks), -EINVAL);
	expect("a task's, of none", !task_storage(&tasks) && !task_storage_of(&tasks, current), 1);
	expect("storage of tasks", task_storage_init(&tasks, 8, 8, NULL), 0);
	expect("a task's",
	       task_storage(&tasks) && task_storage(&tasks) == task_storage_of(&tasks, current), 1);
	expect("another task's",
	       !task_storage_of(&tasks, NULL) && !task_storage_of(&tasks, &init_task), 1);
	expect("storage of tasks, a second time", task_storage_init(&tasks, 8, 8, NULL), -EBUSY);
	expect("a null ring", ring_init(NULL, 8, 8, show), -EINVAL);
	expect("a ring of nothing", ring_init(&ring, 0, 8, show), -EINVAL);
	expect("a ring of too large records", ring_init(&ring, RING_RECORD_MAX + 1, 8, show),
	       -EINVAL);
	expect("a ring of none", ring_init(&ring, 8, 0, show), -EINVAL);
	expect("a ring of too many", ring_init(&ring, 8, (1 << 24) + 1, show), -EINVAL);
	expect("a ring that is not shown", ring_init(&ring, 8, 8, NULL), -EINVAL);
	ring_put(&ring, "into none");
	expect("a ring", ring_init(&ring, 8, 8, show), 0);
	expect("another ring", ring_init(&no_ring, 8, 8, show), -EBUSY);
	expect("a null queue", jifl_queue_init(NULL, 8, 8), -EINVAL);
	expect("a queue of nothing", jifl_queue_init(&queue, 0, 8), -EINVAL);
	expect("a queue of too large records", jifl_queue_init(&queue, QUEUE_RECORD_MAX + 1, 8),
	       -EINVAL);
	expect("a queue of none", jifl_queue_init(&queue, 8, 0), -EINVAL);
	expect("a queue of too many", jifl_queue_init(&queue, 8, (1 << 24) + 1), -EINVAL);
	expect("taking from a queue that is not there", jifl_dequeue(&queue, &word), 0);
	expect("a queue", jifl_queue_init(&queue, 8, 3), 0);
	expect("the same queue", jifl_queue_init(&queue, 8, 3), -EBUSY);
	expect("another queue", jifl_queue_init(&no_queue, 8, 1), 0);
	expect("the name of nothing", symbol_name(0, name, sizeof(name)) == -ENOENT, 1);
	expect("the symbol of nothing", symbol_start(0) || symbol_address("no such symbol"), 0);
}

/* --- in process context ---------------------------------------------------------- */

static int plugin_init(void)
{
	int i;

	expect("a null syscall_t", syscall_init(NULL, __NR_getresuid), -EINVAL);
	expect("system call -1", syscall_init(&other, -1), -EINVAL);
	expect("system call 400", syscall_init(&other, 400), -EINVAL);
	expect("system call 511", syscall_init(&other, 511), -EINVAL);
	expect("system call 512", syscall_init(&other, 512), -EINVAL);
	expect("system call 100000", syscall_init(&other, 100000), -EINVAL);
	expect("all, null", syscall_init_all(NULL), -EINVAL);
	expect("adding to what was not initialised",
	       syscall_add_bb_instrumentation(&raw, on_bb, NULL), -EINVAL);
	expect("adding to null", syscall_add_bb_instrumentation(NULL, on_bb, NULL), -EINVAL);

	expect("the good one", syscall_init(&good, __NR_getresuid), 0);
	expect("null entry callback", syscall_add_entry_instrumentation(&good, NULL, NULL),
	       -EINVAL);
	expect("null exit callback", syscall_add_exit_instrumentation(&good, NULL, NULL), -EINVAL);
	expect("null routine callback", syscall_add_routine_instrumentation(&good, NULL, NULL),
	       -EINVAL);
	expect("null bb callback", syscall_add_bb_instrumentation(&good, NULL, NULL), -EINVAL);
	expect("null ins callback", syscall_add_ins_instrumentation(&good, NULL, NULL), -EINVAL);
	expect("null module callback", syscall_add_module_callback(&good, NULL, NULL), -EINVAL);
	expect("null flush callback", syscall_add_flush_callback(&good, NULL, NULL), -EINVAL);
	expect("null end callback", syscall_add_end_callback(&good, NULL, NULL), -EINVAL);
	expect("end callback", syscall_add_end_callback(&good, on_end, &good), 0);
	expect("a heap before the plugin is started", heap_init(&heap, 100), -EPERM);
	expect("a ring before the plugin is started", ring_init(&ring, 8, 8, show), -EPERM);
	expect("a queue before the plugin is started", jifl_queue_init(&queue, 8, 8), -EPERM);
	expect("entry callback", syscall_add_entry_instrumentation(&good, on_point, &good), 0);
	expect("exit callback", syscall_add_exit_instrumentation(&good, on_point, NULL), 0);
	expect("routine callback", syscall_add_routine_instrumentation(&good, on_routine, NULL), 0);
	expect("bb callback", syscall_add_bb_instrumentation(&good, on_bb, NULL), 0);
	expect("ins callback", syscall_add_ins_instrumentation(&good, on_ins, NULL), 0);

	expect("another", syscall_init(&other, __NR_getpid), 0);
	expect("the same", syscall_init(&same, __NR_getresuid), 0);
	expect("all", syscall_init_all(&all), 0);
	expect("full", syscall_init(&full, __NR_getuid), 0);
	for (i = 0; i < JIFL_CALLBACKS_MAX; i++)
		expect("filling", syscall_add_bb_instrumentation(&full, on_bb, NULL), 0);
	expect("one callback too many", syscall_add_bb_instrumentation(&full, on_bb, NULL),
	       -ENOSPC);
	expect("starting before the plugin is", syscall_start_instrumenting(&good), -EPERM);
	expect("stopping before the plugin is", syscall_stop_instrumenting(&good), -ENOENT);
	return 0;
}

static void plugin_exit(void)
{
	expect("starting at the very end", syscall_start_instrumenting(&good), -EPERM);
}

static int plugin_start(void)
{
	atomic64_set(&count, 0);
	forget_steps();
	kept_bb = NULL;
	kept_ins = NULL;
	kept_routine = NULL;
	kept_point = NULL;
	storage();
	expect("stopping what does not run", syscall_stop_instrumenting(&good), -ENOENT);
	expect("starting what was not initialised", syscall_start_instrumenting(&raw), -EINVAL);
	expect("starting null", syscall_start_instrumenting(NULL), -EINVAL);
	expect("stopping null", syscall_stop_instrumenting(NULL), -EINVAL);
	expect("starting", syscall_start_instrumenting(&good), 0);
	expect("starting twice", syscall_start_instrumenting(&good), -EALREADY);
	expect("starting the same call", syscall_start_instrumenting(&same), 0);
	expect("starting all calls", syscall_start_instrumenting(&all), 0);
	expect("initialising what runs", syscall_init(&good, __NR_getuid), -EBUSY);
	expect("adding to what runs", syscall_add_bb_instrumentation(&good, on_bb, NULL), -EBUSY);
	expect("inserting outside of a callback", bb_insert_call((bb_t *)&count, never, ARG_END),
	       -EPERM);
	expect("a size outside of a callback", bb_size((bb_t *)&count), -EPERM);
	return 0;
}

static void plugin_stop(void)
{
	static char name[MAX_NAME_SIZE], of_address[MAX_NAME_SIZE];

	symbol_name(routine_address(kept_routine), of_address, sizeof(of_address));
	expect("a block that is gone", bb_insert_call(kept_bb, never, ARG_END), -EPERM);
	expect("an instruction that is gone",
	       ins_insert_call(kept_ins, IPOINT_BEFORE, never, ARG_END), -EPERM);
	expect("a routine that is gone", routine_insert_call(kept_routine, never, ARG_END), -EPERM);
	expect("which one it was", routine_address(kept_routine) && routine_address(kept_routine) ==
	       symbol_start(routine_address(kept_routine)), 1);
	expect("its name", routine_name(kept_routine, name, sizeof(name)), 0);
	expect("its name is that of its address", strcmp(name, of_address), 0);
	expect("a point that is gone", syscall_insert_call(kept_point, never, ARG_END), -EPERM);
	expect("stopping", syscall_stop_instrumenting(&good), 0);
	expect("stopping twice", syscall_stop_instrumenting(&good), -ENOENT);
	say_steps();
	expect("functions that nobody asked for", atomic_read(&mistakes), 0);
	pr_info("misuse: total %lld\n", atomic64_read(&count));
}
