// SPDX-License-Identifier: GPL-2.0
/*
 * forms: histograms and conditions, of system calls' arguments and results, of a
 * routine's arguments, and of a register at every instruction. Stopping prints
 * all counts: "forms: NAME BUCKET:COUNT..." and "forms: counts NAME COUNT...".
 */
#include <jifl.h>
#include <linux/moduleparam.h>

#undef pr_fmt
#define pr_fmt(fmt) fmt

enum { WATCHED = 777, ODD_SIZE = 12345 };	/* a descriptor; bytes to be read */

static unsigned long routine;
module_param(routine, ulong, 0644);
MODULE_PARM_DESC(routine, "address of vfs_read");

static syscall_t read_call, sendfile_call;
static atomic64_t reads, reads_of_64, failures, odd, places, zeroes, refused;

DEFINE_HIST(read_sizes, HIST_BUCKETS_MAX);
DEFINE_HIST(odd_sizes, 15);
DEFINE_HIST(asked, 16);
DEFINE_HIST(sources, 33);
DEFINE_HIST(sent, 24);
DEFINE_HIST(registers, HIST_BUCKETS_MAX);

static void add(atomic64_t *n, int value)
{
	atomic64_add(value, n);
}

#define ADD(counter) ARG_VOID_PTR, &counter, ARG_INT32, 1, ARG_END

static void note(int error)
{
	if (error)
		atomic64_inc(&refused);
}

static void on_read(syscall_point_t *point, void *arg)
{
	note(syscall_insert_hist(point, &read_sizes, VALUE_ARG2, IF_EQUAL, VALUE_ARG0, ARG_INT32,
				 WATCHED, ARG_END));
	note(syscall_insert_call(point, add, IF_EQUAL, VALUE_ARG0, ARG_INT32, WATCHED, ADD(reads)));
	note(syscall_insert_call(point, add, IF_EQUAL, VALUE_ARG0, ARG_INT64, (long long)WATCHED,
				 ADD(reads_of_64)));
}

static void on_routine(routine_t *r, void *arg)
{
	if (routine_address(r) != routine)
		return;
	note(routine_insert_hist(r, &odd_sizes, VALUE_ARG2, IF_EQUAL, VALUE_ARG2, ARG_INT64,
				 (long long)ODD_SIZE, ARG_END));
	note(routine_insert_call(r, add, IF_EQUAL, VALUE_RDX, ARG_INT64, (long long)ODD_SIZE,
				 ADD(odd)));
}

static void on_sendfile(syscall_point_t *point, void *arg)
{
	note(syscall_insert_hist(point, &asked, VALUE_ARG3, ARG_END));
	note(syscall_insert_hist(point, &sources, VALUE_32(VALUE_ARG1), ARG_END));
}

static void on_sent(syscall_point_t *point, void *arg)
{
	note(syscall_insert_hist(point, &sent, VALUE_RETVAL, ARG_END));
	note(syscall_insert_call(point, add, IF_EQUAL, VALUE_RETVAL, ARG_INT64, -9ll,
				 ADD(failures)));
}

/* As many as a block has room for at each of its instructions. */
static void on_ins(ins_t *ins, void *arg)
{
	note(ins_insert_hist(ins, IPOINT_BEFORE, &registers, VALUE_RAX, ARG_END));
	note(ins_insert_call(ins, IPOINT_BEFORE, add, IF_EQUAL, VALUE_RAX, ARG_INT64, 0ll,
			     ADD(zeroes)));
	note(ins_insert_call(ins, IPOINT_BEFORE, add, ADD(places)));
}

static int plugin_init(void)
{
	int ret = syscall_init(&read_call, __NR_read);

	ret = ret ?: syscall_init(&sendfile_call, __NR_sendfile);
	ret = ret ?: syscall_add_entry_instrumentation(&read_call, on_read, NULL);
	ret = ret ?: syscall_add_routine_instrumentation(&read_call, on_routine, NULL);
	ret = ret ?: syscall_add_entry_instrumentation(&sendfile_call, on_sendfile, NULL);
	ret = ret ?: syscall_add_exit_instrumentation(&sendfile_call, on_sent, NULL);
	return ret ?: syscall_add_ins_instrumentation(&sendfile_call, on_ins, NULL);
}

static void plugin_exit(void)
{
}

static hist_t *const hists[] = { &read_sizes, &odd_sizes, &asked, &sources, &sent, &registers };
static const char *const names[] = { "read_sizes", "odd_sizes", "asked", "sources", "sent",
				     "registers" };
static atomic64_t *const counts[] = { &reads, &reads_of_64, &failures, &odd, &places, &zeroes,
				      &refused };

static int plugin_start(void)
{
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(hists); i++)
		hist_clear(hists[i]);
	for (i = 0; i < ARRAY_SIZE(counts); i++)
		atomic64_set(counts[i], 0);
	ret = syscall_start_instrumenting(&read_call);
	return ret ?: syscall_start_instrumenting(&sendfile_call);
}

static void print(const char *name, const hist_t *h)
{
	unsigned int i;

	pr_info("forms: %s", name);
	for (i = 0; i < HIST_BUCKETS_MAX; i++)
		if (hist_count(h, i))
			pr_cont(" %u:%llu", i, hist_count(h, i));
	pr_cont("\n");
}

static void plugin_stop(void)
{
	int i;

	syscall_stop_instrumenting(&read_call);
	syscall_stop_instrumenting(&sendfile_call);
	for (i = 0; i < ARRAY_SIZE(hists); i++)
		print(names[i], hists[i]);
	pr_info("forms: counts reads %lld reads_of_64 %lld failures %lld odd %lld places %lld zeroes %lld refused %lld\n",
		atomic64_read(&reads), atomic64_read(&reads_of_64), atomic64_read(&failures),
		atomic64_read(&odd), atomic64_read(&places), atomic64_read(&zeroes),
		atomic64_read(&refused));
}
