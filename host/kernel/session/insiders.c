// SPDX-License-Identifier: GPL-2.0
/*
 * Who is inside a session's functions when it begins. Stacks are walked as for adoption (adopt.c,
 * steps 1 and 2), and nothing is changed.
 *
 * A frame at its function's first instruction, or before it, has not begun: it comes to what is
 * inserted there. A return address is never there.
 *
 * Context: process, under jifl_session_mutex; tasks are looked at with the machine stopped.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/stop_machine.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../leave/walk.h"
#include "../enter/target.h"
#include "../call/tool.h"
#include "../call/whose.h"
#include "adopt.h"
#include "adopt_frames.h"
#include "insiders.h"

struct jifl_insiders {
	struct jifl_session *s;
	struct jifl_adopt_functions *functions;
	struct jifl_adopt_frame frames[JIFL_ADOPT_FRAMES]; /* of one task */
};

static struct jifl_insiders *jifl_insiders_alloc(struct jifl_session *s)
{
	struct jifl_insiders *in = JIFL_ALLOC(kvzalloc(sizeof(*in), GFP_KERNEL));

	if (!in)
		return NULL;
	in->s = s;
	in->functions = jifl_adopt_functions_alloc(s);
	if (in->functions)
		return in;
	kvfree(in);
	return NULL;
}

int jifl_insiders_prepare(struct jifl_session *s, struct jifl_adoption **adoption,
			  struct jifl_insiders **insiders)
{
	if (s->flags & JIFL_FLAG_ADOPT) {
		*adoption = jifl_adopt_alloc(s);
		if (!*adoption)
			return -ENOMEM;
	}
	if (s->tool->begins) {
		*insiders = jifl_insiders_alloc(s);
		if (!*insiders) {
			jifl_adopt_free(*adoption);
			return -ENOMEM;
		}
	}
	return 0;
}

void jifl_insiders_free(struct jifl_insiders *in)
{
	if (!in)
		return;
	kvfree(in->functions);
	kvfree(in);
}

static void jifl_insiders_of(struct jifl_insiders *in, struct task_struct *task)
{
	const struct jifl_words words = jifl_walk_words(task);
	bool walked;
	int n, i;

	if (words.begin == words.end || READ_ONCE(task->__state) & TASK_DEAD)
		return;
	jifl_compat_show_returns(task, words.begin, words.end);
	walked = jifl_adopt_walk(task, words, in->frames, &n);
	jifl_compat_hide_returns(task, words.begin, words.end);
	for (i = 0; walked && i < n; i++) {
		const struct jifl_aim *aim = jifl_adopt_aim(in->functions, in->frames, n, i);

		if (aim && in->frames[i].orig > aim->target->address)
			in->s->tool->insider(in->s, task, aim->index);
	}
}

static int jifl_insiders_look(void *arg)
{
	struct task_struct *group, *task;
	struct jifl_insiders *in = arg;

	in->s->tool->begins(in->s);
	if (!(in->s->flags & JIFL_FLAG_ADOPT))
		return 0;
	for_each_process_thread(group, task)
		if (jifl_walk_may(task))
			jifl_insiders_of(in, task);
	return 0;
}

void jifl_insiders_tell(struct jifl_insiders *in)
{
	stop_machine(jifl_insiders_look, in, NULL);
}
