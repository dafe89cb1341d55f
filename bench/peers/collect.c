// SPDX-License-Identifier: GPL-2.0
/*
 * The blocks that a thread's system calls execute: a JIFL plugin with a count for each block. The
 * plugin watches the thread that starts it, and the processes that this thread makes. The table
 * keeps the last start's counts for peers_sites_show().
 *
 * Callbacks run one at a time, under the engine's lock; analysis functions only touch slots.
 * Stopping waits for both.
 */
#include <jifl.h>
#include <uapi/jifl.h>
#include <linux/hash.h>
#include <linux/moduleparam.h>
#include <linux/ptrace.h>
#include <linux/sched/task_stack.h>
#include <linux/vmalloc.h>

#include "peers.h"

#define SLOT_BITS	16
#define SLOTS		(1 << SLOT_BITS)
#define SLOTS_MAX	(SLOTS / 4 * 3)		/* a full table would be searched for ever */

struct slot {
	unsigned long addr;	/* 0: free */
	unsigned long probe;
	unsigned long last;
	atomic64_t executions;
	bool function;
};

static syscall_t every_call;
static struct slot *slots;
static unsigned int used, lost;
static struct task_struct *watched;
static bool ending;		/* the watched thread has come to stop this */

/* --- analysis ------------------------------------------------------------------------- */

/* The request that ends the watch is not counted. */
static void on_entry(int nr)
{
	if (current == watched)
		WRITE_ONCE(ending, nr == __NR_ioctl &&
			   (u32)task_pt_regs(current)->si == JIFL_IOC_PLUGIN_CTL);
}

static void on_block(struct slot *s)
{
	if ((current == watched && !READ_ONCE(ending)) ||
	    rcu_access_pointer(current->real_parent) == watched)
		atomic64_inc(&s->executions);
}

/* --- instrumentation ------------------------------------------------------------------ */

/* The block's slot, a new one where there is none; NULL: no room. */
static struct slot *find_slot(unsigned long addr)
{
	unsigned int i = hash_long(addr, SLOT_BITS);

	while (slots[i].addr && slots[i].addr != addr)
		i = (i + 1) % SLOTS;
	if (slots[i].addr)
		return &slots[i];
	if (used == SLOTS_MAX) {
		lost++;
		return NULL;
	}
	used++;
	slots[i].addr = addr;
	return &slots[i];
}

/*
 * True at places of ftrace and static keys, where kprobes are something else or are refused:
 * endbr64, also as a nop, and the nops that become calls and jumps.
 */
static bool is_patched_place(unsigned long addr)
{
	static const struct {
		u8 len;
		u8 bytes[5];
	} places[] = {
		{ 4, { 0xf3, 0x0f, 0x1e, 0xfa } },
		{ 4, { 0x66, 0x0f, 0x1f, 0x00 } },
		{ 5, { 0x0f, 0x1f, 0x44, 0x00, 0x00 } },
		{ 2, { 0x66, 0x90 } },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(places); i++)
		if (!memcmp((const void *)addr, places[i].bytes, places[i].len))
			return true;
	return false;
}

/* The first instruction of the block where a kprobe is an ordinary one. */
static unsigned long block_address(bb_t *bb)
{
	ins_t *ins;

	for (ins = ins_first(bb); ins; ins = ins_next(ins))
		if (!is_patched_place(ins_address(ins)))
			return ins_address(ins);
	return bb_address(bb);
}

static void at_entry(syscall_point_t *point, void *arg)
{
	syscall_insert_call(point, on_entry, ARG_INT32, syscall_nr(point), ARG_END);
}

static void at_routine(routine_t *routine, void *arg)
{
	struct slot *s = find_slot(routine_address(routine));

	if (s)
		s->function = true;
}

static void at_bb(bb_t *bb, void *arg)
{
	struct slot *s = find_slot(bb_address(bb));

	if (!s)
		return;
	s->probe = block_address(bb);
	s->last = ins_address(ins_last(bb));
	if (bb_insert_call(bb, on_block, ARG_VOID_PTR, s, ARG_END))
		lost++;
}

/* --- results ---------------------------------------------------------------------------- */

void peers_sites_show(struct seq_file *f)
{
	int i;

	for (i = 0; i < SLOTS; i++)
		if (atomic64_read(&slots[i].executions))
			seq_printf(f, "%lx %lx %lx %lld %d\n", slots[i].addr, slots[i].probe,
				   slots[i].last, atomic64_read(&slots[i].executions),
				   slots[i].function);
	seq_printf(f, "lost %u\n", lost);
}

/* --- the plugin --------------------------------------------------------------------------- */

static int add_callbacks(void)
{
	int err = syscall_init_all(&every_call);

	err = err ?: syscall_add_entry_instrumentation(&every_call, at_entry, NULL);
	err = err ?: syscall_add_routine_instrumentation(&every_call, at_routine, NULL);
	return err ?: syscall_add_bb_instrumentation(&every_call, at_bb, NULL);
}

static int plugin_init(void)
{
	int err;

	slots = vzalloc(array_size(SLOTS, sizeof(*slots)));
	if (!slots)
		return -ENOMEM;
	err = peers_hits_create();
	if (err)
		goto no_hits;
	err = add_callbacks() ?: peers_files_create();
	if (!err)
		return 0;
	peers_hits_destroy();
no_hits:
	vfree(slots);
	return err;
}

static void plugin_exit(void)
{
	peers_files_remove();
	peers_hits_destroy();
	vfree(slots);
}

static int plugin_start(void)
{
	memset(slots, 0, array_size(SLOTS, sizeof(*slots)));
	used = 0;
	lost = 0;
	ending = false;
	watched = current;
	return syscall_start_instrumenting(&every_call);
}

static void plugin_stop(void)
{
	syscall_stop_instrumenting(&every_call);
	/* The task may end now, and another task may get its address. */
	watched = NULL;
}
