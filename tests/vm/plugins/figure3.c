// SPDX-License-Identifier: GPL-2.0
/*
 * figure3: figure 3 of the JIFL paper (M. Olszewski et al., EuroSys 2007, section 3.2), as printed:
 * the instructions that clone executes. It is for one task at a time, as all the paper's plugins.
 */
/* --- as printed ------------------------------------------------------------------------ */

#include "jifl.h"

syscall_t syscall;
long long count;

void add_count(long long *counter_ptr, long size);
void bb_inst(bb_t *bb, void *arg);

// Start instrumentation of clone system call
void plugin_start() {
    count = 0;
    syscall_init(&syscall, __NR_clone);
    syscall_add_bb_instrumentation(&syscall,
        bb_inst, NULL);
    syscall_start_instrumenting(&syscall);
}

// Stop instrumentation of clone system call
void plugin_stop() {
    syscall_stop_instrumenting(&syscall);
    printk("Clone system call executed %lld "
        "instructions\n", count);
}

// Called for every newly discovered basic block
void bb_inst(bb_t *bb, void *arg) {
    long bb_size = bb_size(bb);
    bb_insert_call(bb, add_count,
        ARG_VOID_PTR, &count,
        ARG_INT32, bb_size,
        ARG_END);
}

// Executed for every instrumented basic block
void add_count(long long *counter_ptr, long size) {
    *counter_ptr += size;
}

/* --- what the figure leaves out -------------------------------------------------------- */

static int plugin_init(void)
{
	return 0;
}

static void plugin_exit(void)
{
}
