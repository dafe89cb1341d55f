// SPDX-License-Identifier: GPL-2.0
/*
 * whofails: which functions of the kernel return errors while a system call runs. A program is
 * told EINVAL or ENOENT; this plugin says from which function the error comes. docs/plugins.md
 * explains how it was written.
 */
#include <jifl.h>
#include <linux/err.h>
#include <linux/moduleparam.h>

#undef pr_fmt
#define pr_fmt(fmt) fmt

static int call = __NR_openat, error = ENOENT;
module_param(call, int, 0644);
MODULE_PARM_DESC(call, "number of the system call");
module_param(error, int, 0644);
MODULE_PARM_DESC(error, "number of the error");

static syscall_t watched;
static heap_t heap;

static struct routine {
	struct routine *next;
	unsigned long address;
	atomic64_t returned;
} *routines;

/* Analysis: runs each time a routine returns the error. */
static void count(atomic64_t *returned)
{
	atomic64_inc(returned);
}

/* Code may be translated more than once: the same address gets the same counter. */
static struct routine *routine_at(unsigned long address)
{
	struct routine *r;

	for (r = routines; r; r = r->next)
		if (r->address == address)
			return r;
	r = heap_alloc(&heap, sizeof(*r));
	if (!r)
		return NULL;
	r->address = address;
	r->next = routines;
	routines = r;
	return r;
}

/* Instrumentation: runs when a routine's beginning or one of its ends is translated. */
static void instrument_routine(routine_t *routine, void *arg)
{
	struct routine *r = routine_at(routine_address(routine));

	if (r)
		routine_insert_exit_call(routine, count, IF_EQUAL, VALUE_RETVAL, ARG_INT32, -error,
					 ARG_VOID_PTR, &r->returned, ARG_END);
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
	int ret = heap_init(&heap, 1 << 20);

	routines = NULL;
	ret = ret ?: syscall_init(&watched, call);
	ret = ret ?: syscall_add_routine_instrumentation(&watched, instrument_routine, NULL);
	return ret ?: syscall_start_instrumenting(&watched);
}

static void plugin_stop(void)
{
	struct routine *r;

	syscall_stop_instrumenting(&watched);
	for (r = routines; r; r = r->next)
		if (atomic64_read(&r->returned))
			pr_info("whofails: %ps %lld\n", (void *)r->address,
				atomic64_read(&r->returned));
}
