// SPDX-License-Identifier: GPL-2.0
/*
 * The table of doors that lead straight to an entry piece. jifl_function_stub (run/stubs.S) reads
 * it by the address behind the fentry site. A call that finds its piece there executes no C code.
 *
 * A door leads straight only if all calls of its function at task level go to one piece, and none
 * needs a hook at its return: no session of the target has a filter, and none follows its calls to
 * their end (jifl_choose_is_settled in session/choose.c). All other calls go to
 * jifl_function_enter, which looks the target up itself.
 *
 * 1. The stub sends a call straight on only where guard.c would let it in: no NMI, interrupt or
 *    softirq is counted on this CPU, no code of the module's runs here, rsp is on the task's stack,
 *    and the task neither is idle nor stops the machine. If the thread is preempted after these
 *    checks, they still hold for it: they are about the task, but for the count of the module's own
 *    code, which is above 0 only while preemption is off. jifl_function_enter counts the others as
 *    missed.
 * 2. Where RCU does not watch, no call may go straight on either. At task level this is an idle
 *    task, or one that is idle for a while (play_idle_precise; PF_IDLE), or code on the way between
 *    user and kernel mode on a CPU that tracks contexts (nohz_full). Where a CPU tracks them, no
 *    function gets a place here, and neither with PREEMPT_RT, which counts softirqs elsewhere.
 * 3. A place belongs to one function from before its door is armed until no thread is in the stub
 *    for this function (steps 1 to 4 in the head of function.c). So a thread that has found its
 *    address in a place reads a piece of its own function there, or 0, even if it is preempted in
 *    between.
 * 4. The piece in a place is that of a way. It becomes 0 before code that the piece leads to is
 *    taken away (step 8 in the head of session/mix.c). A thread that has read it before has it in
 *    rax or in the slot of its return address, in the stub, where leave/evict.c finds it.
 * 5. The table itself stays until no site leads to the stub and no thread is in it. If ftrace does
 *    not give sites back, the table and the places of these functions stay for good (function.c).
 * 6. When the stub returns, rax has no address of a piece any more. Otherwise leave/evict.c would
 *    take the thread for one that is about to enter, for as long as it leaves rax as it is.
 *
 * Registers: the stub changes rax and r10. At the beginning of a compiled function these hold
 * nothing. rax has the number of vector registers, which the kernel's callers do not set
 * (-mskip-rax-setup). r10 is the static chain of nested functions, which the kernel does not have
 * (System V ABI 3.2.3). BPF's trampolines, which are called from the same sites, change both, too.
 */
#include <linux/build_bug.h>
#include <linux/context_tracking_state.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/current.h"
#include "../store/percpu.h"
#include "../run/stubs.h"
#include "door_table.h"

/* The bucket that begins at the highest place is the last one. */
#define TABLE_SIZE	(JIFL_DOORS_MASK + JIFL_DOORS_OF_BUCKET * JIFL_DOOR_SIZE)

static_assert(sizeof(struct jifl_door) == JIFL_DOOR_SIZE);
static_assert(offsetof(struct jifl_door, piece) == 8);
static_assert(offsetof(struct jifl_cpu, own) == JIFL_CPU_OWN);

char *jifl_door_table;		/* read by jifl_function_stub; jifl_session_mutex */

/* Offsets and masks that the stub cannot have from headers, as absolute symbols. */
static void __used jifl_doors_symbols(void)
{
#define SYMBOL(name, value)	asm(".globl " #name "\n" #name " = %c0" : : "i" (value))
	SYMBOL(jifl_task_stack, offsetof(struct task_struct, stack));
	SYMBOL(jifl_task_pid, offsetof(struct task_struct, pid));
	SYMBOL(jifl_task_flags, offsetof(struct task_struct, flags));
	SYMBOL(jifl_flag_idle, PF_IDLE);
	SYMBOL(jifl_task_class, offsetof(struct task_struct, sched_class));
	SYMBOL(jifl_preempt_interrupts, NMI_MASK | HARDIRQ_MASK | SOFTIRQ_OFFSET);
#undef SYMBOL
}

static struct jifl_door *bucket_of(u64 address)
{
	const u64 product = address * JIFL_DOORS_FACTOR;

	return (struct jifl_door *)(jifl_door_table +
				    ((product >> JIFL_DOORS_SHIFT) & JIFL_DOORS_MASK));
}

int jifl_doors_open(void)
{
	if (!jifl_door_table)
		jifl_door_table = JIFL_ALLOC(vzalloc(TABLE_SIZE));
	return jifl_door_table ? 0 : -ENOMEM;
}

void jifl_doors_close(void)
{
	vfree(jifl_door_table);
	jifl_door_table = NULL;
}

struct jifl_door *jifl_doors_take(u64 address)
{
	struct jifl_door *door = bucket_of(address);
	const struct jifl_door *end = door + JIFL_DOORS_OF_BUCKET;

	if (context_tracking_enabled() || IS_ENABLED(CONFIG_PREEMPT_RT))
		return NULL;
	for (; door < end; door++) {
		if (door->address)
			continue;
		door->piece = 0;
		/* A thread that finds the address must find that piece. */
		smp_store_release(&door->address, address);
		return door;
	}
	return NULL;
}

void jifl_doors_give(struct jifl_door *door)
{
	if (door)
		WRITE_ONCE(door->address, 0);
}
