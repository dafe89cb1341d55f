// SPDX-License-Identifier: GPL-2.0
/*
 * values: the arguments of analysis functions that are looked up each time, what happens on edges
 * of branches and where routines are left, and the kinds of instructions; for all code that
 * jifl_known executes. Stopping prints all sums: "values: NAME SUM...".
 */
#include <jifl.h>
#include <linux/kallsyms.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>

#undef pr_fmt
#define pr_fmt(fmt) fmt

static syscall_t read_call, all_calls;
static atomic64_t leaves, arguments, low_arguments, returns, returned, tails, tail_values, branches,
	taken, edges_taken, edges_not_taken, exchanges, reads, any_reads, contexts, wrong, refused;
static unsigned long hinted, cell, known_read, last_target;
static struct ins_memory operand;
static bool uses;

DEFINE_HIST(errors, HIST_BUCKETS_MAX);

static void expect(bool good)
{
	if (!good)
		atomic64_inc(&wrong);
}

static void note(int error)
{
	if (error)
		atomic64_inc(&refused);
}

/* --- analysis -------------------------------------------------------------------------- */

static void on_leaf(unsigned long n, struct task_struct *task, int nr, unsigned long address,
		    unsigned int low, unsigned long wanted)
{
	atomic64_inc(&leaves);
	atomic64_add(n, &arguments);
	atomic64_add(low, &low_arguments);
	expect(task == current && nr == __NR_read && address == wanted);
}

static void on_any_leaf(int nr, struct task_struct *task)
{
	atomic64_inc(&any_reads);
	expect(nr == __NR_read && task == current);
}

static void on_return(long value)
{
	atomic64_inc(&returns);
	atomic64_add(value, &returned);
}

static void add_one(atomic64_t *n)
{
	atomic64_inc(n);
}

static void on_branch(int went, unsigned long target, unsigned long wanted, unsigned long rcx)
{
	atomic64_inc(&branches);
	atomic64_add(went, &taken);
	/* ecx counts down from 100. */
	expect(target == wanted && rcx <= 100);
}

static void on_exchange(unsigned long address, int size, unsigned long rax)
{
	atomic64_inc(&exchanges);
	cell = address;
	expect(size == sizeof(long));
	/* Fails if it expects another value, which is the case once of two. */
	expect(*(long *)address == rax || *(long *)address + 1 == rax);
}

static void on_call(unsigned long target)
{
	last_target = target;
}

static void on_read(int nr, unsigned long descriptor, unsigned long size)
{
	if (size != 777)
		return;
	atomic64_inc(&reads);
	expect(nr == __NR_read && descriptor < 1000);
}

/* All registers: the same that is told one by one, and more. */
static void on_context(const struct pt_regs *regs, unsigned long rax, unsigned long rsi,
		       unsigned long ip, unsigned long r12)
{
	atomic64_inc(&contexts);
	expect(regs->ax == rax && regs->si == rsi && regs->ip == ip && regs->r12 == r12);
	expect(!user_mode(regs) && regs->orig_ax == -1ul);
	/* They lie right below it. */
	expect(regs->sp == (unsigned long)(regs + 1) && object_is_on_stack((void *)regs->sp));
	expect((regs->flags & X86_EFLAGS_FIXED) && !(regs->flags & X86_EFLAGS_DF));
}

static void on_leaf_context(const struct pt_regs *regs, unsigned long n, unsigned long address)
{
	on_context(regs, regs->ax, regs->si, address, regs->r12);
	expect(regs->di == n);
}

static void on_return_context(const struct pt_regs *regs, long value)
{
	expect(regs->ax == value);
}

static void on_edge_context(const struct pt_regs *regs, unsigned long ip)
{
	on_context(regs, regs->ax, regs->si, ip, regs->r12);
}

static void on_user_context(const struct pt_regs *regs, unsigned long size)
{
	expect(user_mode(regs) && regs->dx == size && regs->orig_ax == __NR_read);
}

/* --- instrumentation --------------------------------------------------------------------- */

static bool is_known(routine_t *routine, char *name)
{
	char module[MODULE_NAME_LEN];

	note(routine_module(routine, module, sizeof(module)));
	note(routine_name(routine, name, KSYM_NAME_LEN));
	return !strcmp(module, "jifl_known");
}

static void at_read(syscall_point_t *point, void *arg)
{
	note(syscall_insert_call(point, on_read, ARG_SYSCALL_NR, ARG_REG, VALUE_ARG0, ARG_VALUE,
				 VALUE_ARG2, ARG_END));
	note(syscall_insert_call(point, on_user_context, ARG_CONTEXT, ARG_REG, VALUE_ARG2,
				 ARG_END));
}

static void at_routine(routine_t *routine, void *arg)
{
	static char name[KSYM_NAME_LEN];

	if (!is_known(routine, name))
		return;
	if (!strcmp(name, "known_read"))
		known_read = routine_address(routine);
	if (!strcmp(name, "known_leaf")) {
		note(routine_insert_call(routine, on_leaf, ARG_REG, VALUE_ARG0, ARG_TASK,
					 ARG_SYSCALL_NR,
					 ARG_INS_ADDRESS, ARG_REG, VALUE_32(VALUE_RDI), ARG_INT64,
					 (long long)routine_address(routine), ARG_END));
		note(routine_insert_exit_call(routine, on_return, ARG_REG, VALUE_RETVAL, ARG_END));
		note(routine_insert_call(routine, on_leaf_context, ARG_CONTEXT, ARG_REG, VALUE_ARG0,
					 ARG_INS_ADDRESS, ARG_END));
		note(routine_insert_exit_call(routine, on_return_context, ARG_CONTEXT, ARG_REG,
					      VALUE_RETVAL, ARG_END));
	}
	if (!strcmp(name, "known_tail")) {
		note(routine_insert_exit_call(routine, add_one, ARG_VOID_PTR, &tails, ARG_END));
		note(routine_insert_exit_call(routine, add_one, IF_EQUAL, VALUE_RETVAL, ARG_INT32,
					      64, ARG_VOID_PTR, &tail_values, ARG_END));
	}
	if (!strcmp(name, "known_error"))
		note(routine_insert_exit_hist(routine, &errors, VALUE_RETVAL, ARG_END));
}

static void at_any_routine(routine_t *routine, void *arg)
{
	static char name[KSYM_NAME_LEN];

	if (is_known(routine, name) && !strcmp(name, "known_leaf"))
		note(routine_insert_call(routine, on_any_leaf, ARG_SYSCALL_NR, ARG_TASK, ARG_END));
}

static void at_jump(ins_t *ins)
{
	expect(ins_type(ins) == ins_jne && !ins_bnt_prefix(ins));
	/* One of them, in however many blocks it is. */
	if (ins_branch_hint(ins)) {
		expect(!hinted || hinted == ins_address(ins));
		hinted = ins_address(ins);
	}
	note(ins_insert_call(ins, IPOINT_BEFORE, on_branch, ARG_BRANCH_TAKEN, ARG_BRANCH_TARGET,
			     ARG_INT64, (long long)ins_target(ins), ARG_REG, VALUE_RCX, ARG_END));
	note(ins_insert_bt_call(ins, add_one, ARG_VOID_PTR, &edges_taken, ARG_END));
	note(ins_insert_call(ins, IPOINT_BEFORE, on_context, ARG_CONTEXT, ARG_REG, VALUE_RAX,
			     ARG_REG, VALUE_RSI, ARG_INS_ADDRESS, ARG_REG, VALUE_R12, ARG_END));
	note(ins_insert_bt_call(ins, on_edge_context, ARG_CONTEXT, ARG_INT64,
				(long long)ins_target(ins), ARG_END));
	note(ins_insert_bnt_call(ins, add_one, ARG_VOID_PTR, &edges_not_taken, ARG_END));
}

static void at_exchange(ins_t *ins)
{
	note(ins_memory_operands(ins, &operand, 1) != 1);
	uses = ins_reads_reg(ins, VALUE_RAX) && ins_writes_reg(ins, VALUE_RAX) &&
	       !ins_writes_reg(ins, VALUE_RDX) && !ins_reads_reg(ins, VALUE_R15);
	note(ins_insert_call(ins, IPOINT_BEFORE, on_exchange, ARG_MEMORY_ADDRESS, ARG_MEMORY_SIZE,
			     ARG_REG, VALUE_RAX, ARG_END));
}

static void at_ins(ins_t *ins, void *arg)
{
	static char name[KSYM_SYMBOL_LEN];

	/* Most are not looked at further. */
	if (ins_type(ins) == ins_jcc || ins_type(ins) == ins_cmpxchg ||
	    ins_type(ins) == ins_call_indirect)
		sprint_symbol_no_offset(name, ins_address(ins));
	else
		return;
	if (ins_type(ins) == ins_jcc && !strncmp(name, "known_loop", 10))
		at_jump(ins);
	else if (ins_lock_prefix(ins) && ins_properties(ins) & INS_LOCKED &&
		 !strncmp(name, "known_retry", 11))
		at_exchange(ins);
	else if (ins_type(ins) == ins_call_indirect && !strcmp(name, "proc_reg_read"))
		note(ins_insert_call(ins, IPOINT_BEFORE, on_call, ARG_BRANCH_TARGET, ARG_END));
}

/* --- the plugin -------------------------------------------------------------------------- */

static int plugin_init(void)
{
	int ret = syscall_init(&read_call, __NR_read);

	ret = ret ?: syscall_init_all(&all_calls);
	ret = ret ?: syscall_add_entry_instrumentation(&read_call, at_read, NULL);
	ret = ret ?: syscall_add_routine_instrumentation(&read_call, at_routine, NULL);
	ret = ret ?: syscall_add_ins_instrumentation(&read_call, at_ins, NULL);
	return ret ?: syscall_add_routine_instrumentation(&all_calls, at_any_routine, NULL);
}

static void plugin_exit(void)
{
}

static int plugin_start(void)
{
	int ret = syscall_start_instrumenting(&read_call);

	hist_clear(&errors);
	return ret ?: syscall_start_instrumenting(&all_calls);
}

static void plugin_stop(void)
{
	syscall_stop_instrumenting(&all_calls);
	syscall_stop_instrumenting(&read_call);
#define SUM(n) " " #n " %lld"
	pr_info("values:" SUM(leaves) SUM(arguments) SUM(low_arguments) SUM(returns) SUM(returned)
		SUM(tails) SUM(tail_values) SUM(branches) SUM(taken) SUM(edges_taken)
		SUM(edges_not_taken) SUM(exchanges) SUM(reads) SUM(any_reads) SUM(contexts)
		SUM(wrong) SUM(refused)
		" hinted %d errors %llu cell %ld target %d operand %d uses %d\n",
		atomic64_read(&leaves), atomic64_read(&arguments), atomic64_read(&low_arguments),
		atomic64_read(&returns), atomic64_read(&returned), atomic64_read(&tails),
		atomic64_read(&tail_values), atomic64_read(&branches), atomic64_read(&taken),
		atomic64_read(&edges_taken), atomic64_read(&edges_not_taken),
		atomic64_read(&exchanges), atomic64_read(&reads), atomic64_read(&any_reads),
		atomic64_read(&contexts), atomic64_read(&wrong), atomic64_read(&refused), !!hinted,
		hist_count(&errors, 64), cell ? *(long *)cell : -1,
		last_target && last_target == known_read,
		operand.loads && operand.stores && operand.size == 8, uses);
}
