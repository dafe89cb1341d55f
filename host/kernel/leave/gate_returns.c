// SPDX-License-Identifier: GPL-2.0
/*
 * Return addresses in gates of jumps that nobody uses any more (step 11 in the head of
 * text/jump.c). Each becomes the address of the same instruction in the text.
 *
 * Two sorts of code come back to a gate:
 *
 * 1. What stands at the site before the jump: a tracer's function, which may sleep. jifl_evict has
 *    put the gate's address there, in the place of a copy's. That address is changed.
 * 2. The stub that the gate calls. It finds its door by this address, so that must stay. The stub
 *    does not sleep: whoever frees the gate waits for it (step 8 there). The frame from which the
 *    unwinder comes to the gate is the stub's, which is text of the module.
 *
 * Addresses at which a gate was interrupted stay, for the same reason as 2. Where a stack cannot be
 * walked to its end nothing tells 1 from 2, and nothing is changed.
 *
 * Context: as jifl_evict's scan.
 */
#include <linux/module.h>
#include <linux/ptrace.h>

#include "../kernel.h"
#include "../compat/compat.h"
#include "../text/gates.h"
#include "../text/jump.h"
#include "gate_returns.h"

/* As holds_any in evict.c. Nearly all words are no addresses of gates: they cost a comparison. */
static __no_sanitize_address bool holds_any(struct jifl_words words)
{
	const unsigned long *word = words.begin;
	unsigned long first, last, addr;

	if (!jifl_gate_doors(&first, &last))
		return false;
	for (; word < words.end; word++) {
		addr = READ_ONCE(*word);
		if (addr - first < last + JIFL_GATE_BYTES - first && jifl_gate_text(addr) != addr)
			return true;
	}
	return false;
}

static __no_sanitize_address void end_word(unsigned long *word, void *unused)
{
	*word = jifl_gate_text(*word);
}

static void end_on_stack(struct task_struct *task, struct jifl_words words)
{
	struct jifl_walked from = {};
	struct unwind_state state;
	bool from_module = true;

	for (unwind_start(&state, task, NULL, NULL); !unwind_done(&state);
	     unwind_next_frame(&state)) {
		unsigned long *ip = jifl_walk_slot(&state);

		if (jifl_walk_guessed(&state, from) || (state.regs && user_mode(state.regs)))
			return;
		if (!state.regs && !from_module && ip >= words.begin && ip < words.end)
			end_word(ip, NULL);
		from = jifl_walked(&state);
		from_module = within_module_core(state.ip, THIS_MODULE);
	}
}

void jifl_gate_returns_end(struct task_struct *task, struct jifl_words words)
{
	if (!jifl_jumps_any())
		return;
	if (holds_any(words))
		end_on_stack(task, words);
	jifl_compat_visit_return_records(task, end_word, NULL);
}
