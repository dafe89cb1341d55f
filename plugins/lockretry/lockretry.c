// SPDX-License-Identifier: GPL-2.0
/*
 * lockretry: where processors disturb each other without a lock. It shows how often a locked
 * cmpxchg of a system call fails, and has to be tried again.
 *
 *	echo 202 > /sys/module/lockretry/parameters/call	(futex; see asm/unistd.h)
 *	jifl start lockretry; ...; jifl stop lockretry; dmesg
 *
 * A cmpxchg says with ZF whether it has exchanged. The plugin looks for a cmpxchg at the end of a
 * block, with the branch on ZF that ends the block: each way of the branch is counted.
 */
#include <jifl.h>
#include <linux/moduleparam.h>

#undef pr_fmt
#define pr_fmt(fmt) fmt

enum { SITES = 1024 };

static int call = __NR_futex;
module_param(call, int, 0644);
MODULE_PARM_DESC(call, "number of the system call");

static syscall_t watched;

static struct site {
	unsigned long address;
	atomic64_t done, failed;
} sites[SITES];
static unsigned int nsites, without_room;

/* Analysis: inlined, this is one instruction. */
static void count(atomic64_t *n)
{
	atomic64_inc(n);
}

/* The locked cmpxchg whose ZF the branch tests; moves leave ZF alone. */
static ins_t *cmpxchg_before(ins_t *last)
{
	ins_t *i = ins_prev(last);

	while (i && (ins_type(i) == ins_move || ins_type(i) == ins_nop))
		i = ins_prev(i);
	return ins_type(i) == ins_cmpxchg && ins_lock_prefix(i) ? i : NULL;
}

/* Callbacks run one at a time: no other callback takes a place meanwhile. */
static struct site *site_at(unsigned long address)
{
	unsigned int i;

	for (i = 0; i < nsites; i++)
		if (sites[i].address == address)
			return &sites[i];
	if (nsites == SITES) {
		without_room++;
		return NULL;
	}
	sites[nsites].address = address;
	return &sites[nsites++];
}

static void instrument_bb(bb_t *bb, void *arg)
{
	ins_t *last = ins_last(bb), *cmpxchg;
	enum jifl_ins_type type = ins_type(last);
	struct site *s;

	if (type != ins_je && type != ins_jne)
		return;
	cmpxchg = cmpxchg_before(last);
	s = cmpxchg ? site_at(ins_address(cmpxchg)) : NULL;
	if (!s)
		return;
	ins_insert_bt_call(last, count, ARG_VOID_PTR,
			   type == ins_je ? &s->done : &s->failed, ARG_END);
	ins_insert_bnt_call(last, count, ARG_VOID_PTR,
			    type == ins_je ? &s->failed : &s->done, ARG_END);
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

	memset(sites, 0, sizeof(sites));
	nsites = without_room = 0;
	ret = ret ?: syscall_add_bb_instrumentation(&watched, instrument_bb, NULL);
	return ret ?: syscall_start_instrumenting(&watched);
}

static void plugin_stop(void)
{
	unsigned int i;

	syscall_stop_instrumenting(&watched);
	for (i = 0; i < nsites; i++)
		pr_info("lockretry: %pS done %lld failed %lld\n", (void *)sites[i].address,
			atomic64_read(&sites[i].done), atomic64_read(&sites[i].failed));
	if (without_room)
		pr_info("lockretry: no room for all, %u times\n", without_room);
}
