// SPDX-License-Identifier: GPL-2.0
/*
 * strangers: targets that there are not, or that may not be, and wrong calls of the API about
 * functions. Each mistake must give its error and change nothing.
 */
#include <jifl.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include "steps.h"

static target_t function, refused, raw;
static char long_name[200] = "fn:";
static atomic64_t nothing;
static unsigned long address;

static void never(void)
{
	atomic64_inc(&nothing);
}

static void add(atomic64_t *to, int n)
{
	atomic64_add(n, to);
}

/* At the entry of a function, if arg is set, or at its exit. */
static void on_function(target_point_t *point, void *arg)
{
	const int here = arg ? VALUE_ARG0 : VALUE_RETVAL, other = arg ? VALUE_RETVAL : VALUE_ARG0;
	static atomic64_t sum;
	int i, ret = 0;

	note("the number of a function", syscall_nr(point), -EINVAL);
	note("the address of a function", target_address(point) - address, 0);
	note("all registers of a function", target_insert_call(point, never, ARG_CONTEXT, ARG_END),
	     -EINVAL);
	note("its system call", target_insert_call(point, never, ARG_SYSCALL_NR, ARG_END), -EINVAL);
	note("a register where a function begins or ends",
	     target_insert_call(point, never, ARG_REG, VALUE_RBX, ARG_END), -EINVAL);
	note("a value of the other end",
	     target_insert_call(point, never, ARG_REG, other, ARG_END), -EINVAL);
	note("its operand", target_insert_call(point, never, ARG_MEMORY_SIZE, ARG_END), -EINVAL);
	for (i = 0; i < 4; i++)
		ret = ret ?: target_insert_call(point, add, ARG_VOID_PTR, &sum, ARG_REG, here,
						ARG_END);
	note("four calls of a function", ret, 0);
	note("a fifth", target_insert_call(point, never, ARG_END), -ENOSPC);
}

static void names(void)
{
	expect("a null target_t", target_init(NULL, "fn:vfs_read"), -EINVAL);
	expect("a null target", target_init(&function, NULL), -EINVAL);
	expect("an empty target", target_init(&function, ""), -EINVAL);
	expect("a target without a form", target_init(&function, "vfs_read"), -EINVAL);
	expect("a system call", target_init(&function, "sys:read"), -EINVAL);
	expect("a target without a name", target_init(&function, "fn:"), -EINVAL);
	expect("a name of a module alone", target_init(&function, "fn:@ext4"), -EINVAL);
	expect("a target without a module", target_init(&function, "fn:vfs_read@"), -EINVAL);
	expect("no name of a module", target_init(&function, "mod:"), -EINVAL);
	memset(long_name + 3, 'x', sizeof(long_name) - 4);
	expect("a target that is too long", target_init(&function, long_name), -EINVAL);
	expect("no such function", target_init(&function, "fn:no_such_function"), -ENOENT);
	expect("no such functions", target_init(&function, "fn:no_such_*"), -ENOENT);
	expect("no such module", target_init(&function, "mod:no_such_module"), -ENOENT);
	expect("not in that module", target_init(&function, "fn:vfs_read@no_such"), -ENOENT);
	expect("a null target_t, by address", target_init_address(NULL, 1), -EINVAL);
	expect("no address", target_init_address(&function, 0), -ENOENT);
	expect("an address inside a function",
	       target_init_address(&function, symbol_address("vfs_read") + 1), -ENOENT);
	expect("data", target_init_address(&function, (unsigned long)&function), -ENOENT);
	expect("the kernel's data", target_init_address(&function, symbol_address("jiffies")),
	       -ENOENT);
	expect("the name of data", target_init(&function, "fn:jiffies"), -ENOENT);
}

static int plugin_init(void)
{
	names();
	address = symbol_address("ktime_get");
	expect("nothing was initialised", target_start_instrumenting(&function), -EINVAL);
	expect("a function", target_init(&function, "fn:ktime_get"), 0);
	expect("null entry callback", target_add_entry_instrumentation(&function, NULL, NULL),
	       -EINVAL);
	expect("null end callback", target_add_end_callback(&function, NULL, NULL), -EINVAL);
	expect("its entry", target_add_entry_instrumentation(&function, on_function, "entry"), 0);
	expect("its exit", target_add_exit_instrumentation(&function, on_function, NULL), 0);
	expect("what cannot be entered", target_init(&refused, "fn:__schedule"), 0);
	expect("starting before the plugin is", target_start_instrumenting(&function), -EPERM);
	return 0;
}

static void plugin_exit(void)
{
}

/* Four sessions run, of which each has a function; a fifth does not. */
static void many(void)
{
	static target_t others[4];
	int i;

	for (i = 0; i < 4; i++)
		expect("another one is initialised", target_init(&others[i], "fn:ktime_get"), 0);
	for (i = 0; i < 3; i++)
		expect("another one starts", target_start_instrumenting(&others[i]), 0);
	expect("a fifth", target_start_instrumenting(&others[3]), -EBUSY);
	for (i = 0; i < 3; i++)
		expect("another one stops", target_stop_instrumenting(&others[i]), 0);
}

static int plugin_start(void)
{
	forget_steps();
	expect("starting what cannot be entered", target_start_instrumenting(&refused),
	       -EOPNOTSUPP);
	expect("starting what was not initialised", target_start_instrumenting(&raw), -EINVAL);
	expect("starting null", target_start_instrumenting(NULL), -EINVAL);
	expect("starting", target_start_instrumenting(&function), 0);
	expect("starting twice", target_start_instrumenting(&function), -EALREADY);
	expect("initialising what runs", target_init(&function, "fn:vfs_write"), -EBUSY);
	expect("initialising it by an address",
	       target_init_address(&function, symbol_address("vfs_write")), -EBUSY);
	many();
	ktime_get();
	return 0;
}

static void plugin_stop(void)
{
	expect("missed of what does not run", target_missed(&refused), 0);
	expect("missed of null", target_missed(NULL), 0);
	expect("stopping", target_stop_instrumenting(&function), 0);
	expect("stopping twice", target_stop_instrumenting(&function), -ENOENT);
	say_steps();
	expect("functions that nobody asked for", atomic64_read(&nothing), 0);
	expect("a function by its address",
	       target_init_address(&function, address), 0);
	expect("what is started anew has no callbacks", target_start_instrumenting(&function), 0);
	expect("it stops", target_stop_instrumenting(&function), 0);
	expect("the first again", target_init(&function, "fn:ktime_get"), 0);
	expect("with its entry", target_add_entry_instrumentation(&function, on_function, "entry"),
	       0);
	expect("and its exit", target_add_exit_instrumentation(&function, on_function, NULL), 0);
}
