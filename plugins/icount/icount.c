// SPDX-License-Identifier: GPL-2.0
/*
 * icount: counts the instructions that clone executes in the kernel.
 *
 * The example of the JIFL paper. Each basic block, when it is translated, gets
 * a call that adds its size to a counter; stopping prints the total.
 */
#include <jifl.h>

static syscall_t clone_call;
static atomic64_t count;

/* Analysis: runs each time a block is executed. */
static void add_count(atomic64_t *total, int instructions)
{
	atomic64_add(instructions, total);
}

/* Instrumentation: runs each time a block is translated. */
static void instrument_bb(bb_t *bb, void *arg)
{
	bb_insert_call(bb, add_count, ARG_VOID_PTR, arg, ARG_INT32, bb_size(bb), ARG_END);
}

static int plugin_init(void)
{
	int ret = syscall_init(&clone_call, __NR_clone);

	return ret ?: syscall_add_bb_instrumentation(&clone_call, instrument_bb, &count);
}

static void plugin_exit(void)
{
}

static int plugin_start(void)
{
	atomic64_set(&count, 0);
	return syscall_start_instrumenting(&clone_call);
}

static void plugin_stop(void)
{
	syscall_stop_instrumenting(&clone_call);
	pr_info("icount: %lld instructions\n", atomic64_read(&count));
}
