// SPDX-License-Identifier: GPL-2.0
/*
 * figure15: figure 15 of the JIFL paper (M. Olszewski et al., EuroSys 2007, section 5.2), as
 * printed: whether the hints of branches are right. Here of read and pread64.
 */
#include <jifl.h>

/* Half a pointer as a number, functions that are not static: this compiler warns of both. */
#pragma GCC diagnostic ignored "-Wpointer-to-int-cast"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* --- as printed ------------------------------------------------------------------------ */

long long correct[NR_syscalls];
long long incorrect[NR_syscalls];

void increment(long long *counter_ptr) {
    (*counter_ptr)++;
}

// Called for every newly discovered BB
void bb_inst(bb_t *bb, void *arg) {

    // Current system call number is passed
    // to us by "arg".
    int syscall = (int) arg;

    // Branches can only be located at
    // the end of a basic block.
    ins_t *last = ins_last(bb);

    if (ins_type(last) != ins_jcc ||
        !ins_branch_hint(last))
        return;

    // The instrumentation depends on the
    // hint direction
    if (ins_bnt_prefix(last)) {
        // Insert branch-taken instrumentation
        ins_insert_bt_call(last, increment,
                           ARG_VOID_PTR, &incorrect[syscall],
                           ARG_END);

        // Do the same for branch-not-taken
        ins_insert_bnt_call(last, increment,
                            ARG_VOID_PTR, &correct[syscall],
                            ARG_END);
    } else {
        // Insert branch-taken instrumentation
        ins_insert_bt_call(last, increment,
                           ARG_VOID_PTR, &correct[syscall],
                           ARG_END);

        // Do the same for branch-not-taken
        ins_insert_bnt_call(last, increment,
                            ARG_VOID_PTR, &incorrect[syscall],
                            ARG_END);
    }
}

/* --- what the figure leaves out -------------------------------------------------------- */

static const int calls[] = { __NR_read, __NR_pread64 };
static syscall_t syscalls[ARRAY_SIZE(calls)];

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

	memset(correct, 0, sizeof(correct));
	memset(incorrect, 0, sizeof(incorrect));
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		ret = ret ?: syscall_init(&syscalls[i], calls[i]);
		ret = ret ?: syscall_add_bb_instrumentation(&syscalls[i], bb_inst,
							    (void *)(long)calls[i]);
		ret = ret ?: syscall_start_instrumenting(&syscalls[i]);
	}
	return ret;
}

static void plugin_stop(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		syscall_stop_instrumenting(&syscalls[i]);
		printk("hints of system call %d: %lld correct %lld incorrect\n", calls[i],
		       correct[calls[i]], incorrect[calls[i]]);
	}
}
