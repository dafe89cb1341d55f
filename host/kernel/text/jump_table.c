// SPDX-License-Identifier: GPL-2.0
/*
 * The table of jumps in place (jump.c), and what is answered from it: the text beneath jumps, where
 * native threads go, and int3 exceptions at jumps and in gates.
 *
 * The handler of an int3 runs where RCU watches, and with preemption off. The table is read so, or
 * under the engine lock. jump.c waits for RCU before an entry is used again.
 *
 * Context: any, preemption off; what the header says is under jump.c's mutex: process.
 */
#include <linux/hashtable.h>
#include <linux/kernel.h>
#include <linux/preempt.h>
#include <linux/rculist.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "jump.h"

/* Jumps are found by their addresses without these bits. A jump is not longer. */
#define PART_SHIFT	4
static_assert(JIFL_JUMP_MAX <= 1 << PART_SHIFT);

static DEFINE_HASHTABLE(jumps, 10);
static u32 njumps;		/* in it, or with threads in their gates */
static bool (*handler)(unsigned long address, struct pt_regs *regs);

void jifl_jump_add(struct jifl_jump *j)
{
	hash_add_rcu(jumps, &j->node, j->begin >> PART_SHIFT);
	WRITE_ONCE(njumps, njumps + 1);
}

void jifl_jump_remove(struct jifl_jump *j)
{
	hash_del_rcu(&j->node);
}

void jifl_jump_forget(void)
{
	WRITE_ONCE(njumps, njumps - 1);
}

/* Those that may have bytes in [from, end). */
#define for_each_jump(j, part, from, end) \
	for ((part) = ((from) - (JIFL_JUMP_MAX - 1)) >> PART_SHIFT; \
	     READ_ONCE(njumps) && (part) <= ((end) - 1) >> PART_SHIFT; (part)++) \
		hash_for_each_possible_rcu_notrace(jumps, (j), node, (part))

static struct jifl_jump *find(unsigned long addr)
{
	struct jifl_jump *j;
	unsigned long part;

	for_each_jump(j, part, addr, addr + 1)
		if (addr - j->begin < j->len)
			return j;
	return NULL;
}

struct jifl_jump *jifl_jump_of(unsigned long addr)
{
	return find(addr);
}

struct jifl_jump *jifl_jump_at(unsigned long addr)
{
	struct jifl_jump *j = find(addr);

	return j && j->begin == addr ? j : NULL;
}

bool jifl_jumps_any(void)
{
	return READ_ONCE(njumps);
}

bool jifl_jump_has(unsigned long addr)
{
	const struct jifl_jump *j;
	bool has;

	preempt_disable();
	j = find(addr);
	has = j && READ_ONCE(j->state) != JIFL_JUMP_GOES;
	preempt_enable();
	return has;
}

unsigned long jifl_jump_native(unsigned long addr)
{
	const struct jifl_jump *j = find(addr);
	u32 i;

	if (!j || READ_ONCE(j->state) == JIFL_JUMP_GOES)
		return addr;
	/* A kprobe at the beginning has to see the execution, and the gate leads nobody on. */
	if (addr == j->begin && READ_ONCE(j->taken))
		return addr;
	for (i = 0; i < j->n; i++)
		if (j->begin + j->from[i] == addr)
			return jifl_gate_slot(j, i);
	return addr;
}

/*
 * At the function's beginning it is a call, which comes to the door. Behind a site it is the return
 * of a tracer that copies have called: the call has been counted (session/nested.c, step 11).
 */
u64 jifl_host_native(jifl_orig addr)
{
	const struct jifl_jump *j = find(addr.v);
	const bool call = j && j->begin == addr.v && j->begin - j->function < CALL_INSN_SIZE;

	return call ? addr.v : jifl_jump_native(addr.v);
}

void jifl_host_lift_text(jifl_orig addr, u8 *bytes, u32 n)
{
	const struct jifl_jump *j;
	unsigned long part;
	u32 i;

	for_each_jump(j, part, addr.v, addr.v + n)
		for (i = 0; i < j->len && READ_ONCE(j->state) != JIFL_JUMP_GOES; i++) {
			const unsigned long at = j->begin + i - addr.v;

			if (at >= n)
				continue;
			/* Somebody else's kprobe has to be seen, if it is in the text. */
			bytes[at] = !i && READ_ONCE(j->taken) ? INT3_INSN_OPCODE : j->old[i];
		}
}

unsigned long jifl_jump_changes(unsigned long addr, u8 first)
{
	unsigned long from = addr;
	struct jifl_jump *j;
	u32 *straight;

	preempt_disable();
	j = find(addr);
	if (j && j->begin == addr) {
		/* When a kprobe goes the jump is written again. */
		WRITE_ONCE(j->taken, first != j->new[0]);
		/* Pairs with the barrier of whoever writes *straight, and then looks at taken. */
		smp_mb();
		straight = READ_ONCE(j->straight);
		if (straight)
			WRITE_ONCE(*straight, 0);
		from = j->function;
	}
	preempt_enable();
	return from;
}

/* An int3 of a gate. The thread goes on behind it, or where the handler says. */
static bool trap_in_gate(struct pt_regs *regs)
{
	const unsigned long ip = regs->ip;
	const struct jifl_jump *j = jifl_gate_at(ip - INT3_INSN_SIZE);
	u32 i;

	if (!j)
		return false;
	for (i = 0; i < j->n; i++) {
		if (jifl_gate_slot(j, i) != ip - INT3_INSN_SIZE)
			continue;
		/* As in the handler of a kprobe. */
		regs->ip = j->begin + j->from[i] + INT3_INSN_SIZE;
		if (!handler || !handler(j->begin + j->from[i], regs))
			regs->ip = ip;
		return true;
	}
	return false;
}

bool jifl_jump_trap(struct pt_regs *regs)
{
	const unsigned long at = regs->ip - INT3_INSN_SIZE;
	const struct jifl_jump *j;

	if (trap_in_gate(regs))
		return true;
	j = find(at);
	if (!j || j->begin != at)
		return false;
	regs->ip = jifl_gate_door(j) - CALL_INSN_SIZE;
	return true;
}

void jifl_jump_handle(bool (*at)(unsigned long address, struct pt_regs *regs))
{
	handler = at;
}

