// SPDX-License-Identifier: GPL-2.0
/*
 * figure17: figure 17 of the JIFL paper (M. Olszewski et al., EuroSys 2007, section 5.3), as
 * printed: how often atomic increments must be tried again. Here in pwrite64.
 */
#include <jifl.h>

/* Functions that are not static: this compiler warns of them. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* --- as printed ------------------------------------------------------------------------ */

long long contention_count;

void increment(long long *counter_ptr) {
    (*counter_ptr)++;
}

// Called for every newly discovered BB
void bb_inst(bb_t *bb, void *arg) {
    ins_t *last = ins_last(bb);
    ins_t *second_last = ins_prev(last);

    if (ins_type(last) == ins_jne &&
        ins_type(second_last) == ins_cmpxchg &&
        ins_lock_prefix(second_last))
    {
        // Insert branch-taken instrumentation
        ins_insert_bt_call(last, increment,
                          ARG_VOID_PTR, &contention_count,
                          ARG_END);
    }
}

/* --- what the figure leaves out -------------------------------------------------------- */

static syscall_t pwrite_call;

static int plugin_init(void)
{
	return 0;
}

static void plugin_exit(void)
{
}

static int plugin_start(void)
{
	int ret = syscall_init(&pwrite_call, __NR_pwrite64);

	contention_count = 0;
	ret = ret ?: syscall_add_bb_instrumentation(&pwrite_call, bb_inst, NULL);
	return ret ?: syscall_start_instrumenting(&pwrite_call);
}

static void plugin_stop(void)
{
	syscall_stop_instrumenting(&pwrite_call);
	printk("contention_count %lld\n", contention_count);
}
