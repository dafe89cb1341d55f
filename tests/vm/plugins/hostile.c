// SPDX-License-Identifier: GPL-2.0
/*
 * hostile: does what a plugin must not, one thing at a time, as its parameter
 * `what` says when it is started. Of openat, but `fault` of getppid.
 *
 *	insert		a callback inserts as often as it likes
 *	forever		... and goes on far beyond that
 *	write		an analysis function, at the entry, makes the kernel write a file
 *	slow		... takes long
 *	fault		... dereferences a null pointer
 *	walk		not hostile: walks its own stack, wherever it is called
 */
#include <jifl.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/moduleparam.h>
#include <linux/stacktrace.h>

#undef pr_fmt
#define pr_fmt(fmt) fmt

static char what[16];
module_param_string(what, what, sizeof(what), 0644);
MODULE_PARM_DESC(what, "what to do");

static syscall_t openat_call, getppid_call;
static struct file *file;
static atomic64_t calls, inserted, refused, wrong;
static unsigned long last_frame, example[32];
static int *volatile nowhere;

/* --- analysis ------------------------------------------------------------------------ */

static void count(void)
{
	atomic64_inc(&calls);
}

static void write_file(void)
{
	loff_t pos = 0;

	atomic64_inc(&calls);
	if (kernel_write(file, "x", 1, &pos) != 1)
		atomic64_inc(&wrong);
}

static void be_slow(void)
{
	atomic64_inc(&calls);
	udelay(200);
}

static void fault(void)
{
	atomic64_inc(&calls);
	*nowhere = 1;
}

/*
 * Called at address: behind this function's own frame comes one of the code
 * there, and the last is where system calls enter the kernel.
 */
static noinline void walk(unsigned long address)
{
	unsigned long frames[64];
	unsigned int n;

	if (atomic64_inc_return(&calls) > 30000)
		return;
	n = stack_trace_save(frames, ARRAY_SIZE(frames), 0);
	if (n > 3 && !last_frame)
		last_frame = frames[n - 1];
	if (n > 3 && frames[1] - address < 16 && frames[n - 1] == last_frame)
		return;
	if (atomic64_inc_return(&wrong) == 1) {
		example[0] = address;
		memcpy(example + 1, frames, min_t(unsigned int, n, 30) * sizeof(*frames));
	}
}

/* --- instrumentation ----------------------------------------------------------------- */

static bool told(const char *name)
{
	return !strcmp(what, name);
}

static void insert_much(bb_t *bb, long times)
{
	while (times-- > 0) {
		if (bb_insert_call(bb, count, ARG_END))
			atomic64_inc(&refused);
		else
			atomic64_inc(&inserted);
	}
}

static void at_bb(bb_t *bb, void *arg)
{
	if (told("insert") && bb_address(bb) % 256 == 0)
		insert_much(bb, 300);
	else if (told("forever"))
		insert_much(bb, 50000);
	else if (told("walk"))
		/* Behind a whole frame of registers. */
		bb_insert_call(bb, walk, ARG_INT64, (long long)bb_address(bb), ARG_CONTEXT,
			       ARG_END);
}

static void at_ins(ins_t *ins, void *arg)
{
	if (!told("walk"))
		return;
	ins_insert_call(ins, IPOINT_BEFORE, walk, ARG_INT64, (long long)ins_address(ins), ARG_END);
	if (ins_type(ins) != ins_jcc)
		return;
	/* Behind arguments that are looked up, in a circle. */
	ins_insert_bt_call(ins, walk, ARG_INS_ADDRESS, ARG_REG, VALUE_RDX, ARG_REG, VALUE_RSI,
			   ARG_TASK, ARG_REG, VALUE_RAX, ARG_END);
	ins_insert_bnt_call(ins, walk, ARG_INS_ADDRESS, ARG_REG, VALUE_R10, ARG_END);
}

static void at_entry(syscall_point_t *point, void *arg)
{
	if (told("slow"))
		syscall_insert_call(point, be_slow, ARG_END);
	else if (told("write"))
		syscall_insert_call(point, write_file, ARG_END);
	else if (told("fault") && syscall_nr(point) == __NR_getppid)
		syscall_insert_call(point, fault, ARG_END);
}

/* --- the plugin ------------------------------------------------------------------------ */

static int plugin_init(void)
{
	int ret = syscall_init(&openat_call, __NR_openat);

	ret = ret ?: syscall_add_bb_instrumentation(&openat_call, at_bb, NULL);
	ret = ret ?: syscall_add_ins_instrumentation(&openat_call, at_ins, NULL);
	ret = ret ?: syscall_add_entry_instrumentation(&openat_call, at_entry, NULL);
	ret = ret ?: syscall_init(&getppid_call, __NR_getppid);
	ret = ret ?: syscall_add_entry_instrumentation(&getppid_call, at_entry, NULL);
	if (ret)
		return ret;
	file = filp_open("/tmp/hostile", O_WRONLY | O_CREAT, 0600);
	return PTR_ERR_OR_ZERO(file);
}

static void plugin_exit(void)
{
	filp_close(file, NULL);
}

static int plugin_start(void)
{
	atomic64_set(&calls, 0);
	atomic64_set(&inserted, 0);
	atomic64_set(&refused, 0);
	atomic64_set(&wrong, 0);
	last_frame = 0;
	return syscall_start_instrumenting(told("fault") ? &getppid_call : &openat_call);
}

static void plugin_stop(void)
{
	int i;

	/* What runs is left for jifl to stop. */
	pr_info("hostile: %s calls %lld inserted %lld refused %lld wrong %lld\n", what,
		atomic64_read(&calls), atomic64_read(&inserted), atomic64_read(&refused),
		atomic64_read(&wrong));
	if (told("walk") && atomic64_read(&wrong))
		for (i = 0; i < 12; i++)
			pr_info("hostile: frame %d %pS\n", i, (void *)example[i]);
}
