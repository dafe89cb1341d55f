// SPDX-License-Identifier: GPL-2.0
/*
 * exercise: every kind of callback and of insertion.
 *
 * Everything in getresuid is counted. In all other system calls every block, and with `every` set
 * every instruction of some calls, gets calls to functions that change everything that a C
 * function may change.
 */
#include <jifl.h>
#include <linux/moduleparam.h>

#undef pr_fmt
#define pr_fmt(fmt) fmt

static bool every;
module_param(every, bool, 0644);
MODULE_PARM_DESC(every, "calls before and after every instruction of some system calls");

static syscall_t getresuid_call;
static syscall_t others[6];
static const int numbers[] = { __NR_read, __NR_write, __NR_openat, __NR_newfstatat, __NR_mmap,
			       __NR_clone };

static atomic64_t entries, exits, routines, blocks, instructions, befores, afters, wrong, clobbers;
static int bad_handles, refused, types[INS_TYPES];

/* --- analysis ------------------------------------------------------------------------ */

static void on_entry(void *p, int a, long b, unsigned int c, void *q, int d)
{
	atomic64_inc(&entries);
	if (p != &entries || a != -7 || b != 0x123456789abcdef0 || c != 0xfffffff0 || q || d != 5)
		atomic64_inc(&wrong);
}

static void on_exit(atomic64_t *n, unsigned long minus)
{
	atomic64_inc(n);
	if (minus != -1ul)
		atomic64_inc(&wrong);
}

static void add(atomic64_t *n, int value)
{
	atomic64_add(value, n);
}

/* All that the calling convention lets a function change. */
static __always_inline void clobber_registers(void)
{
	asm volatile("mov $0x5a5a5a5a, %%eax\n\t"
		     "mov %%rax, %%rcx\n\t"
		     "mov %%rax, %%rdx\n\t"
		     "mov %%rax, %%rsi\n\t"
		     "mov %%rax, %%rdi\n\t"
		     "mov %%rax, %%r8\n\t"
		     "mov %%rax, %%r9\n\t"
		     "mov %%rax, %%r10\n\t"
		     "mov %%rax, %%r11\n\t"
		     "cmp $0x70000000, %%eax\n\t"
		     : : : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc",
		       "memory");
}

static void clobber(unsigned long a, unsigned long b, unsigned long c, unsigned long d,
		    unsigned long e, unsigned long f)
{
	if (a != 1 || b != 2 || c != 3 || d != 4 || e != 5 || f != 6)
		atomic64_inc(&wrong);
	atomic64_inc(&clobbers);
	clobber_registers();
}

static void clobber_any(unsigned long rsi, unsigned long rdx, unsigned long rdi, unsigned long rax,
			struct task_struct *task, unsigned long r8)
{
	if (task != current)
		atomic64_inc(&wrong);
	atomic64_inc(&clobbers);
	clobber_registers();
}

/* --- instrumentation ----------------------------------------------------------------- */

static void at_entry(syscall_point_t *point, void *arg)
{
	bad_handles += syscall_nr(point) != __NR_getresuid || arg != &entries;
	refused += !!syscall_insert_call(point, on_entry, ARG_VOID_PTR, &entries, ARG_INT32, -7,
					 ARG_INT64, 0x123456789abcdef0, ARG_INT32, 0xfffffff0,
					 ARG_VOID_PTR, NULL, ARG_INT32, 5, ARG_END);
}

static void at_exit(syscall_point_t *point, void *arg)
{
	refused += !!syscall_insert_call(point, on_exit, ARG_VOID_PTR, arg, ARG_INT64, -1ll,
					 ARG_END);
}

static void at_routine(routine_t *routine, void *arg)
{
	bad_handles += !routine_address(routine) || arg != &routines;
	refused += !!routine_insert_call(routine, add, ARG_VOID_PTR, arg, ARG_INT32, 1, ARG_END);
}

/* A block's instructions, forwards and backwards, are the same ones. */
static bool is_in_order(bb_t *bb)
{
	unsigned long last = bb_address(bb) - 1;
	int n = 0;
	ins_t *i;

	for (i = ins_first(bb); i; i = ins_next(i), n++) {
		if (ins_address(i) <= last)
			return false;
		last = ins_address(i);
	}
	for (i = ins_last(bb); i; i = ins_prev(i))
		n--;
	return !n && ins_address(ins_first(bb)) == bb_address(bb);
}

static void at_bb(bb_t *bb, void *arg)
{
	bad_handles += !is_in_order(bb);
	refused += !!bb_insert_call(bb, add, ARG_VOID_PTR, &blocks, ARG_INT32, 1, ARG_END);
	refused += !!bb_insert_call(bb, add, ARG_VOID_PTR, &instructions, ARG_INT32, bb_size(bb),
				    ARG_END);
}

static void at_ins(ins_t *ins, void *arg)
{
	enum jifl_ins_type type = ins_type(ins);

	types[type]++;
	refused += !!ins_insert_call(ins, IPOINT_BEFORE, add, ARG_VOID_PTR, &befores, ARG_INT32, 1,
				     ARG_END);
	if (type < ins_jmp)
		refused += !!ins_insert_call(ins, IPOINT_AFTER, add, ARG_VOID_PTR, &afters,
					     ARG_INT32, 1, ARG_END);
}

#define CLOBBER clobber, ARG_INT32, 1, ARG_INT64, 2ll, ARG_VOID_PTR, (void *)3, ARG_INT32, 4, \
		ARG_INT32, 5, ARG_INT64, 6ll, ARG_END

/* The same, with what the registers of its arguments held. */
#define CLOBBER_BY_VALUES clobber_any, ARG_REG, VALUE_RSI, ARG_REG, VALUE_RDX, ARG_REG, VALUE_RDI, \
		ARG_REG, VALUE_RAX, ARG_TASK, ARG_REG, VALUE_R8, ARG_END

static void at_any_bb(bb_t *bb, void *arg)
{
	refused += !!bb_insert_call(bb, CLOBBER);
}

static void at_any_ins(ins_t *ins, void *arg)
{
	if (ins_type(ins) == ins_jcc) {
		refused += !!ins_insert_bt_call(ins, CLOBBER);
		refused += !!ins_insert_bnt_call(ins, CLOBBER_BY_VALUES);
	}
	if (!every)
		return;
	/* A block may have no room for that many: it says so. */
	ins_insert_call(ins, IPOINT_BEFORE, CLOBBER);
	if (ins_type(ins) < ins_jmp)
		ins_insert_call(ins, IPOINT_AFTER, CLOBBER);
}

static void at_any_point(syscall_point_t *point, void *arg)
{
	refused += !!syscall_insert_call(point, CLOBBER);
}

/* --- the plugin ------------------------------------------------------------------------ */

static int plugin_init(void)
{
	int i, ret = syscall_init(&getresuid_call, __NR_getresuid);

	ret = ret ?: syscall_add_entry_instrumentation(&getresuid_call, at_entry, &entries);
	ret = ret ?: syscall_add_exit_instrumentation(&getresuid_call, at_exit, &exits);
	ret = ret ?: syscall_add_routine_instrumentation(&getresuid_call, at_routine, &routines);
	ret = ret ?: syscall_add_bb_instrumentation(&getresuid_call, at_bb, NULL);
	ret = ret ?: syscall_add_ins_instrumentation(&getresuid_call, at_ins, NULL);
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		ret = ret ?: syscall_init(&others[i], numbers[i]);
		ret = ret ?: syscall_add_entry_instrumentation(&others[i], at_any_point, NULL);
		ret = ret ?: syscall_add_exit_instrumentation(&others[i], at_any_point, NULL);
		ret = ret ?: syscall_add_bb_instrumentation(&others[i], at_any_bb, NULL);
		ret = ret ?: syscall_add_ins_instrumentation(&others[i], at_any_ins, NULL);
	}
	return ret;
}

static void plugin_exit(void)
{
}

static int plugin_start(void)
{
	int i, ret = syscall_start_instrumenting(&getresuid_call);

	for (i = 0; i < ARRAY_SIZE(others); i++)
		ret = ret ?: syscall_start_instrumenting(&others[i]);
	return ret;
}

/* What runs is left for jifl to stop. */
static void plugin_stop(void)
{
	int i, all = 0;

	syscall_stop_instrumenting(&getresuid_call);
	for (i = 0; i < ARRAY_SIZE(types); i++)
		all += types[i];
	pr_info("exercise: entries %lld exits %lld routines %lld blocks %lld instructions %lld befores %lld afters %lld wrong %lld clobbers %lld bad_handles %d refused %d seen %d\n",
		atomic64_read(&entries), atomic64_read(&exits), atomic64_read(&routines),
		atomic64_read(&blocks), atomic64_read(&instructions), atomic64_read(&befores),
		atomic64_read(&afters), atomic64_read(&wrong), atomic64_read(&clobbers),
		bad_handles, refused, all);
}
