// SPDX-License-Identifier: GPL-2.0
/*
 * Where a jump may replace the first instructions of a function. The jump is one instruction, so
 * nothing may lead between the replaced ones, and each of them must do the same in the gate.
 *
 * 1. The instructions follow each other, from the first one of the function on: no branch, call or
 *    return is among them, and nothing that the engine does not copy. So the way through them is
 *    straight, and no call returns between them. They do not fault: no entry of the exception table
 *    is about one of them. A fault without an entry ends the kernel's run in any case.
 * 2. No direct branch leads between them. In the function itself each instruction is looked at, as
 *    it is beneath breakpoints of the module's own. A kprobe of somebody else's hides one: a
 *    function that has such a kprobe is refused.
 *    Elsewhere in the same text (jump_lead.c) each byte is taken for the beginning of a branch
 *    with an offset of four bytes: that finds all of them without knowing where instructions
 *    begin. An int3 may be a breakpoint on a branch, so it is taken for one. Branches with an
 *    offset of one byte between two symbols are not looked for. Of 453,300 branches in the core
 *    text of Linux 6.1 and 526,847 of 6.12 three lead so into the first bytes of a symbol: from and
 *    to labels of assembly that have no jump (the start of a processor, ftrace's end, entry text).
 * 3. No jump label leads between them when its key is the other way than now, and no fixup of an
 *    exception.
 * 4. No indirect jump of the function leads between them: a function that has one is refused. An
 *    indirect branch of another function leads to the beginning of a function, behind its site, or
 *    back.
 * 5. The kernel changes none of them. It could where it has jump labels (step 3), static calls,
 *    alternatives that may change again, warnings, which step 1 leaves out, or sites of ftrace: if
 *    the function has one, the jump stands behind it. Nor is there a kprobe, or text where probes
 *    are forbidden.
 * 6. It is a function that is called: [rsp] is a return address there, which the stub may hook.
 *    Labels of assembly are symbols, too, and may be jumped to with words pushed.
 *
 * Who calls the function comes to the jump. Does anything else? It may be a loop that leads back to
 * the first instruction, or to the one behind a site: the function itself is looked at, its part
 * that a compiler has put aside, jump labels and fixups. A jump from another function is a tail
 * call, and so one. Trampolines of BPF come back to what is behind the site, or call it once: that
 * is the call for which they were called.
 *
 * A look at all of the text takes long, and a session's start asks twice: first which functions can
 * have a jump, then for the jumps. What was learned the first time is used the second time
 * (jifl_jumps_looked):
 *
 * a. The text in question is the kernel's own, or that of a module which the session's targets hold
 *    all the while. So it stays where it is, and so do its tables of fixups, keys and static calls.
 * b. What changes in it meanwhile are the places of step 5, and kprobes. A jump label is looked at
 *    both ways. A static call or a site of ftrace leads to the beginning of a function, of a stub
 *    or of a trampoline, whatever stands there. A kprobe hides the byte where an instruction
 *    begins, and the instruction beneath, which the first look has seen, stays. So none of these
 *    changes makes something lead where nothing led before: steps 1 to 4 and 6 hold as they did. A
 *    jump that stands for hours rests on the same.
 * c. What the kernel changes at the jump itself is asked when the jump comes: step 5, the bytes
 *    (learn_again), and a kprobe (step 4 in the head of jump.c).
 *
 * The kernel's own jumps in place (kernel/kprobes.c, arch/x86/kernel/kprobes/opt.c) rest on 1, the
 * first half of 2, 4 and 5.
 *
 * Context: process, sleeps; under jump.c's mutex.
 */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <asm/ibt.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../compat/import.h"
#include "../compat/ksym.h"
#include "../compat/poke.h"
#include "blacklist.h"
#include "jump.h"
#include "overlay.h"
#include "poke.h"

#define OPCODE_STI	0xfb
#define PREFIX_LOCK	0xf0

/* --- the function itself -------------------------------------------------------------------- */

static void decode(unsigned long addr, struct ir_insn *insn)
{
	const unsigned long cookie = jifl_host_lock();

	jifl_engine_insn(jifl_orig_at(addr), insn);
	jifl_host_unlock(cookie);
}

/* Step 1. */
static bool can_move(const struct ir_insn *insn)
{
	if (insn->kind != IR_PLAIN && insn->kind != IR_NOP)
		return false;
	/* Something leads to an endbr64 indirectly. */
	if (insn->len == ENDBR_INSN_SIZE && jifl_compat_is_endbr(*(const u32 *)insn->bytes))
		return false;
	/* The interrupts that an sti holds back would come at the int3 of the gate. */
	return insn->len && insn->bytes[0] != OPCODE_STI && insn->bytes[0] != PREFIX_LOCK;
}

/* Does a kprobe of somebody else's hide the instruction? */
static bool is_hidden(unsigned long addr)
{
	bool hidden;
	u8 byte;

	preempt_disable();
	hidden = jifl_overlay_has(addr) && !jifl_overlay_is_own(addr, &byte);
	preempt_enable();
	return hidden;
}

/* Steps 2 and 4, for the function that ends there. Notes whether it loops. */
static bool leads_between(struct jifl_jump *j, unsigned long end)
{
	unsigned long addr = j->begin + j->len;
	struct ir_insn insn;

	for (; addr < end; addr += insn.len) {
		decode(addr, &insn);
		/* What is not known may lead anywhere. */
		if (!insn.len || insn.kind == IR_JMP_IND || is_hidden(addr))
			return true;
		if (insn.kind >= IR_JMP && insn.kind <= IR_CALL &&
		    insn.target.v > j->begin && insn.target.v < j->begin + j->len)
			return true;
		if (insn.kind >= IR_JMP && insn.kind < IR_CALL &&
		    jifl_jump_is_led_to(j, insn.target.v))
			j->looped = true;
		cond_resched();
	}
	return false;
}

unsigned long jifl_jump_begin(unsigned long function)
{
	const unsigned long site = jifl_ksym_fentry(function);

	if (site)
		return site + CALL_INSN_SIZE;
	return function + (jifl_compat_is_endbr(*(u32 *)function) ? ENDBR_INSN_SIZE : 0);
}

bool jifl_jump_learn(struct jifl_jump *j, unsigned long function)
{
	const unsigned long end = jifl_ksym_end(function);
	struct ir_insn insn;
	u32 at = 0;

	j->begin = jifl_jump_begin(function);
	if (!jifl_compat_is_called(j->begin))
		return false;
	j->looped = false;
	j->function = function;
	for (j->n = 0; at < JMP32_INSN_SIZE; j->n++) {
		decode(j->begin + at, &insn);
		if (!can_move(&insn) || at + insn.len > JIFL_JUMP_MAX ||
		    j->begin + at + insn.len > end)
			return false;
		memcpy(j->old + at, insn.bytes, insn.len);
		j->from[j->n] = at;
		at += insn.len;
	}
	j->from[j->n] = at;
	j->len = at;
	/* What was decoded is what stands there: nobody has a breakpoint of his own there. */
	return !memcmp((void *)j->begin, j->old, at) &&
	       (!leads_between(j, end) || JIFL_HOST_PLANTED(jumps_unchecked));
}

bool jifl_jump_learn_again(struct jifl_jump *j, const struct jifl_jump *looked)
{
	if (memcmp((void *)looked->begin, looked->old, looked->len))
		return false;
	j->begin = looked->begin;
	j->function = looked->function;
	j->len = looked->len;
	j->n = looked->n;
	memcpy(j->from, looked->from, sizeof(j->from));
	memcpy(j->old, looked->old, sizeof(j->old));
	j->looped = looked->looped;
	j->looked = true;
	return true;
}

/* --- what the kernel changes ------------------------------------------------------------------ */

static bool has_kprobe(const struct jifl_jump *j)
{
	bool found = false;
	u32 i;

	preempt_disable();
	for (i = 0; i < j->len; i++)
		found |= jifl_import(get_kprobe)((void *)(j->begin + i)) != NULL;
	preempt_enable();
	return found;
}

static bool is_blacklisted(unsigned long addr)
{
	unsigned long flags;
	bool is;

	local_irq_save(flags);
	is = jifl_blacklist_has(addr);
	local_irq_restore(flags);
	return is;
}

/* Step 5. The kernel's list of modules with alternatives is under text_mutex. */
static void check_reserved(struct jifl_jump **jumps, u32 n)
{
	u32 i;

	jifl_poke_lock();
	for (i = 0; i < n; i++) {
		const unsigned long first = jumps[i]->begin, last = first + jumps[i]->len - 1;

		jumps[i]->refused |= has_kprobe(jumps[i]) || is_blacklisted(jumps[i]->begin) ||
				     jifl_compat_poke_reserved(first, last);
		cond_resched();
	}
	jifl_poke_unlock();
}

void jifl_jumps_check(struct jifl_jump **jumps, u32 n)
{
	u32 i, k = 0;

	for (i = 0; i < n; i++)
		if (!jumps[i]->looked) {
			swap(jumps[i], jumps[k]);
			k++;
		}
	jifl_jump_leads_check(jumps, k);
	check_reserved(jumps, n);
}
