// SPDX-License-Identifier: GPL-2.0
/*
 * branchhints: finds conditional branches of a system call that nearly always go one way, when the
 * processor expects the other way before it knows the branch: backward taken, forward not, or as a
 * hint prefix says. After the JIFL paper, which had such hints set.
 *
 *	echo 0 > /sys/module/branchhints/parameters/call	(read; see asm/unistd.h)
 *	jifl start branchhints; ...; jifl stop branchhints; dmesg
 */
#include <jifl.h>
#include <linux/hash.h>
#include <linux/moduleparam.h>

#undef pr_fmt
#define pr_fmt(fmt) fmt

enum { BITS = 13, BRANCHES = 1 << BITS, OFTEN = 16, SHOWN = 200 };

static int call = __NR_read;
module_param(call, int, 0644);
MODULE_PARM_DESC(call, "number of the system call");

static syscall_t watched;

static struct branch {
	unsigned long address;		/* 0: free */
	atomic64_t taken, not_taken;
	bool predicted;			/* to be taken */
} branches[BRANCHES];
static unsigned long without_room;

/* Analysis: inlined, this is one instruction. */
static void count(atomic64_t *n)
{
	atomic64_inc(n);
}

/* Callbacks run one at a time: no other callback takes a place meanwhile. */
static struct branch *branch_at(unsigned long address)
{
	unsigned int first = hash_long(address, BITS), i;

	for (i = 0; i < BRANCHES; i++) {
		struct branch *b = &branches[(first + i) % BRANCHES];

		if (b->address == address)
			return b;
		if (!b->address) {
			b->address = address;
			return b;
		}
	}
	without_room++;
	return NULL;
}

static void instrument_bb(bb_t *bb, void *arg)
{
	ins_t *last = ins_last(bb);
	struct branch *b;

	if (ins_type(last) != ins_jcc)
		return;
	b = branch_at(ins_address(last));
	if (!b)
		return;
	b->predicted = ins_target(last) < b->address;
	if (ins_branch_hint(last))
		b->predicted = !ins_bnt_prefix(last);
	ins_insert_bt_call(last, count, ARG_VOID_PTR, &b->taken, ARG_END);
	ins_insert_bnt_call(last, count, ARG_VOID_PTR, &b->not_taken, ARG_END);
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
	int ret = syscall_init(&watched, call);

	memset(branches, 0, sizeof(branches));
	without_room = 0;
	ret = ret ?: syscall_add_bb_instrumentation(&watched, instrument_bb, NULL);
	return ret ?: syscall_start_instrumenting(&watched);
}

static void plugin_stop(void)
{
	unsigned int i, seen = 0, wrong = 0;

	syscall_stop_instrumenting(&watched);
	for (i = 0; i < BRANCHES; i++) {
		struct branch *b = &branches[i];
		s64 taken = atomic64_read(&b->taken), not_taken = atomic64_read(&b->not_taken);
		s64 as_predicted = b->predicted ? taken : not_taken;

		seen += taken + not_taken > 0;
		if (taken + not_taken < OFTEN || as_predicted * 20 > taken + not_taken)
			continue;
		if (wrong++ < SHOWN)
			pr_info("branchhints: %pS %staken %lld of %lld\n", (void *)b->address,
				b->predicted ? "not " : "", taken + not_taken - as_predicted,
				taken + not_taken);
	}
	pr_info("branchhints: %u of %u branches want a hint, no room for %lu\n", wrong, seen,
		without_room);
}
