// SPDX-License-Identifier: GPL-2.0
/*
 * Walks the stack of a task for adoption. Step 2 in the head of adopt.c says what is needed of a
 * frame that is to be changed.
 *
 * Context: as adopt.c says of what looks at tasks.
 */
#include <linux/ptrace.h>
#include <linux/sched.h>

#include "../kernel.h"
#include "../plant.h"
#include "../run/codemem.h"
#include "../leave/walk.h"
#include "../enter/function.h"
#include "../enter/target.h"
#include "adopt_frames.h"

static unsigned long original(unsigned long ip, bool interrupted)
{
	enum jifl_where where;
	jifl_orig orig;

	if (!jifl_codemem_has(ip))
		return ip;
	where = interrupted ? jifl_engine_where_insn(ip, &orig) : jifl_engine_where(ip, &orig);
	return where == JIFL_WHERE_OUTSIDE ? ip : orig.v;
}

__no_sanitize_address bool jifl_adopt_walk(struct task_struct *task, struct jifl_words words,
					   struct jifl_adopt_frame frames[JIFL_ADOPT_FRAMES],
					   int *n)
{
	struct jifl_walked from = {};
	struct unwind_state state;
	bool guessed = false;
	unsigned long *slot;

	*n = 0;
	for (unwind_start(&state, task, NULL, NULL); !unwind_done(&state);
	     unwind_next_frame(&state)) {
		/* The frames behind it tell that the task may be inside. */
		guessed = guessed || jifl_walk_guessed(&state, from);
		if (state.regs && user_mode(state.regs))
			return !guessed;
		from = jifl_walked(&state);
		slot = jifl_walk_slot(&state);
		if (slot < words.begin || slot >= words.end || *n == JIFL_ADOPT_FRAMES)
			return false;
		frames[(*n)++] = (struct jifl_adopt_frame){
			.slot = slot,
			.ip = state.ip,
			.orig = original(state.ip, state.regs),
			.interrupted = state.regs,
		};
	}
	return !guessed && !unwind_error(&state);
}

__no_sanitize_address bool jifl_adopt_is_traced(const struct jifl_adopt_frame *f)
{
	return READ_ONCE(*f->slot) != f->ip && !JIFL_HOST_PLANTED(adopted_over_tracers);
}

bool jifl_adopt_is_at_door(const struct jifl_adopt_frame *f)
{
	const struct jifl_target *t = jifl_function_find(f->orig) ?:
				      jifl_notrace_entered_at(f->orig);

	return t && jifl_target_site_bytes(t) &&
	       (!f->interrupted || t->kind == JIFL_TARGET_NOTRACE);
}
