// SPDX-License-Identifier: GPL-2.0
/*
 * The functions of a session, by the addresses of frames: whose frames they are that are looked at
 * for adoption, or for who is inside. Context: as adopt_frames.h says.
 */
#include <linux/mm.h>
#include <linux/sort.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/ksym.h"
#include "../text/ranges.h"
#include "../enter/target.h"
#include "../call/condition.h"
#include "../call/whose.h"
#include "adopt_frames.h"

struct jifl_adopt_functions {
	const struct jifl_session *s;
	u32 n;
	struct text_range ranges[];	/* sorted */
};

struct jifl_adopt_functions *jifl_adopt_functions_alloc(struct jifl_session *s)
{
	struct jifl_adopt_functions *all;
	struct jifl_aim *aim;
	u32 i;

	all = JIFL_ALLOC(kvzalloc(struct_size(all, ranges, s->nfunctions), GFP_KERNEL));
	if (!all)
		return NULL;
	all->s = s;
	for_each_aim(aim, s, i)
		if ((aim->target->kind == JIFL_TARGET_FUNCTION ||
		     aim->target->kind == JIFL_TARGET_NOTRACE) &&
		    jifl_condition_lasts(aim))
			all->ranges[all->n++] = (struct text_range){
				.start = aim->target->id,
				.end = jifl_ksym_end(aim->target->id),
			};
	sort(all->ranges, all->n, sizeof(*all->ranges), jifl_text_compare, NULL);
	return all;
}

struct jifl_aim *jifl_adopt_aim(const struct jifl_adopt_functions *functions,
				const struct jifl_adopt_frame *frames, int n, int i)
{
	const struct jifl_adopt_frame *f = &frames[i];
	/* A return address may be that of the next function, behind a call that does not return. */
	const unsigned long addr = f->orig - !f->interrupted;
	const struct text_range *in = jifl_text_find(functions->ranges, functions->n, addr);
	const struct jifl_target *target = in ? jifl_target_starting(in->start) : NULL;
	struct jifl_aim *aim = target ? target->armed[functions->s->lane] : NULL;

	/* Where the stack begins nobody has called. */
	return aim && jifl_condition_held(aim, i + 1 < n ? frames[i + 1].orig : 0) ? aim : NULL;
}
