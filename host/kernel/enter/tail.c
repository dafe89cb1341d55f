// SPDX-License-Identifier: GPL-2.0
/*
 * Looks at a function's instructions: does it end with jumps alone? The kernel is led through such
 * functions, and a task may sleep in what comes behind them. If the compiler had made a call of the
 * last jump, that task would return to this module, which may be gone.
 *
 * C has no word for it that all compilers know. So it is not the source that is looked at, but what
 * the processor will execute: each instruction that can be reached from the first one on, over
 * direct jumps, which must stay in this module. A nop or a jump that a static key may change counts
 * as both.
 *
 * 1. PLAIN and NOP instructions do not branch; the engine's decoder says so (ir_kind). CLI and STI
 *    do not either, but are not for translation, so it calls them NATIVE.
 * 2. All else is refused: returns, indirect branches, int3, what cannot be decoded, and more ways
 *    or instructions than there is room for.
 * 3. Later the text changes only where static keys decide, and both ways were looked at; and where
 *    static calls are, whose targets are the affair of who sets them. A probe's breakpoint has a
 *    handler that does not sleep. Tracers have no place there (notrace).
 *
 * Context: process; sleeps.
 */
#include <linux/jump_label.h>
#include <linux/module.h>

#include "../kernel.h"
#include "tail.h"

#define JIFL_TAIL_WAYS	64
#define JIFL_TAIL_INSNS	1024

struct jifl_tail_walk {
	unsigned long ways[JIFL_TAIL_WAYS];
	u32 n, insns;
	const struct jifl_tail *allowed;
};

/* Is that one of these functions, or the padding before it, which counts calls? */
static bool jifl_tail_is_among(unsigned long target, const unsigned long *functions, u32 n)
{
	unsigned long padding = 0;
	u32 i;

#ifdef CONFIG_FUNCTION_PADDING_BYTES
	padding = CONFIG_FUNCTION_PADDING_BYTES;
#endif
	for (i = 0; i < n; i++)
		if (target <= functions[i] && target >= functions[i] - padding)
			return true;
	return false;
}

/* Adds what is to be looked at. false: there is no room, or it is none of this module's. */
static bool jifl_tail_add(struct jifl_tail_walk *walk, unsigned long at)
{
	u32 i;

	for (i = 0; i < walk->n; i++)
		if (walk->ways[i] == at)
			return true;
	if (walk->n == JIFL_TAIL_WAYS || !within_module(at, THIS_MODULE))
		return false;
	walk->ways[walk->n++] = at;
	return true;
}

static bool jifl_tail_leads(struct jifl_tail_walk *walk, unsigned long target)
{
	return jifl_tail_is_among(target, walk->allowed->ends, walk->allowed->nends) ||
	       jifl_tail_add(walk, target);
}

/* If a static key decides what stands at `at`: also adds the way that is not taken now. */
static bool jifl_tail_key(struct jifl_tail_walk *walk, unsigned long at, u32 len)
{
#ifdef CONFIG_JUMP_LABEL
	const struct jump_entry *entry = THIS_MODULE->jump_entries;
	u32 i;

	for (i = 0; i < THIS_MODULE->num_jump_entries; i++, entry++) {
		if (jump_entry_code(entry) == at)
			return jifl_tail_leads(walk, jump_entry_target(entry)) &&
			       jifl_tail_add(walk, at + len);
	}
#endif
	return true;
}

/* false: it does not hold. *next: the instruction behind, 0: the way ends here. */
static bool jifl_tail_step(struct jifl_tail_walk *walk, unsigned long at, unsigned long *next)
{
	struct ir_insn insn;

	jifl_engine_insn(jifl_orig_at(at), &insn);
	*next = at + insn.len;
	if (!insn.len || !jifl_tail_key(walk, at, insn.len))
		return false;
	switch (insn.kind) {
	case IR_PLAIN:
	case IR_NOP:
		return true;
	case IR_CALL:
		return jifl_tail_is_among(insn.target.v, walk->allowed->calls,
					  walk->allowed->ncalls);
	case IR_JCC:
	case IR_JCXZ:
		return jifl_tail_leads(walk, insn.target.v);
	case IR_JMP:
		*next = 0;
		return jifl_tail_leads(walk, insn.target.v);
	case IR_NATIVE:
		/* cli, sti */
		return insn.bytes[0] == 0xfa || insn.bytes[0] == 0xfb;
	default:
		return false;
	}
}

/* Under the engine lock. */
static bool jifl_tail_walk(struct jifl_tail_walk *walk)
{
	unsigned long at;
	u32 i;

	for (i = 0; i < walk->n; i++) {
		for (at = walk->ways[i]; at;) {
			if (walk->insns++ == JIFL_TAIL_INSNS || !jifl_tail_step(walk, at, &at))
				return false;
		}
	}
	return true;
}

bool jifl_tail_holds(const void *function, const struct jifl_tail *allowed)
{
	struct jifl_tail_walk walk = { .allowed = allowed };
	unsigned long cookie;
	bool holds;

	if (!jifl_tail_add(&walk, (unsigned long)function))
		return false;
	cookie = jifl_host_lock();
	holds = jifl_tail_walk(&walk);
	jifl_host_unlock(cookie);
	return holds;
}
