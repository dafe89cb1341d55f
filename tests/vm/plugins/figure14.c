// SPDX-License-Identifier: GPL-2.0
/*
 * figure14: figure 14 of the JIFL paper (M. Olszewski et al., EuroSys 2007, section 5.1), as
 * printed: the functions that a system call enters. Here of getpgid and preadv2.
 */
#include <jifl.h>
#include <linux/sched.h>

/* Half a pointer as a number, functions that are not static: this compiler warns of both. */
#pragma GCC diagnostic ignored "-Wpointer-to-int-cast"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static jifl_queue_t queues[NR_syscalls];

/* --- as printed ------------------------------------------------------------------------ */

void store_call(jifl_queue_t *queue,
               routine_t* routine) {
    jifl_enqueue(queue, routine);
}

// Called for every newly discovered routine
void routine_inst(routine_t *routine, void *arg) {

    // Current system call number is passed
    // to us by "arg".
    int syscall = (int) arg;

    routine_insert_call(routine, store_call,
                       ARG_VOID_PTR, &queues[syscall],
                       ARG_VOID_PTR, routine,
                       ARG_END);
}

// Invoked upon syscall exit (not performed when
// benchmarking)
void syscall_exit(int return_arg, void* arg) {

    // Current system call number is passed
    // to us by "arg".
    int syscall = (int) arg;
    routine_t* r;

    printk("call trace for process %d\n",
           current->pid);
    while (jifl_dequeue(&queues[syscall], &r)) {
        char name[MAX_NAME_SIZE];
        routine_name(r, name, MAX_NAME_SIZE);
        printk("%s\n", name);
    }
}

/* --- what the figure leaves out -------------------------------------------------------- */

static const int calls[] = { __NR_getpgid, __NR_preadv2 };
static syscall_t syscalls[ARRAY_SIZE(calls)];

static void exit_inst(syscall_point_t *point, void *arg)
{
	syscall_insert_call(point, syscall_exit, ARG_REG, VALUE_RETVAL, ARG_VOID_PTR, arg, ARG_END);
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
	int i, ret = 0;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		void *arg = (void *)(long)calls[i];

		ret = ret ?: jifl_queue_init(&queues[calls[i]], sizeof(routine_t *), 4096);
		ret = ret ?: syscall_init(&syscalls[i], calls[i]);
		ret = ret ?: syscall_add_routine_instrumentation(&syscalls[i], routine_inst, arg);
		ret = ret ?: syscall_add_exit_instrumentation(&syscalls[i], exit_inst, arg);
		ret = ret ?: syscall_start_instrumenting(&syscalls[i]);
	}
	return ret;
}

static void plugin_stop(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(calls); i++)
		syscall_stop_instrumenting(&syscalls[i]);
}
