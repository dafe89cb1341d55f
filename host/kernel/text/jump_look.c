// SPDX-License-Identifier: GPL-2.0
/*
 * Which functions can have a jump in place, and what was learned of them by the way. The head of
 * jump_check.c says why that holds when the jumps come.
 *
 * Context: process, sleeps; under jump.c's mutex.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "../kernel.h"
#include "../plant.h"
#include "jump.h"

struct jifl_jumps_looked {
	u32 n;
	struct jifl_jump jumps[];	/* those that can be, in the order of the question */
};

const struct jifl_jump *jifl_jumps_find_looked(const struct jifl_jumps_looked *looked, u32 *at,
					       unsigned long function)
{
	u32 i;

	for (i = *at; looked && i < looked->n; i++)
		if (looked->jumps[i].function == function) {
			*at = i + 1;
			return &looked->jumps[i];
		}
	return NULL;
}

/* One that exists, and can be joined; NULL: none. One that goes will have gone. */
static const struct jifl_jump *existing(unsigned long function)
{
	const struct jifl_jump *j = jifl_jump_at(jifl_jump_begin(function));

	return j && j->state != JIFL_JUMP_GOES ? j : NULL;
}

/* The functions' jumps as they could be. Returns how many, in list. */
static u32 learn_all(const unsigned long *functions, u32 n, struct jifl_jump *made,
		     struct jifl_jump **list)
{
	u32 i, k = 0;

	for (i = 0; i < n; i++)
		if (!existing(functions[i]) && jifl_jump_learn(&made[i], functions[i]))
			list[k++] = &made[i];
		else
			made[i].refused = true;
	return k;
}

/* Says which may be. These stay, behind each other; the others are forgotten. */
static void tell(const unsigned long *functions, u32 n, bool *may,
		 struct jifl_jumps_looked *looked)
{
	struct jifl_jump *made = looked->jumps;
	u32 i, room = jifl_gates_free();

	for (i = 0; i < n; i++) {
		const struct jifl_jump *there = existing(functions[i]);
		const struct jifl_jump *j = there ?: &made[i];

		may[i] = (there || (!j->refused && room)) &&
			 (!j->looped || JIFL_HOST_PLANTED(loops_counted));
		if (!may[i] || there)
			continue;
		room--;
		made[looked->n++] = made[i];
	}
}

int jifl_jumps_look(const unsigned long *functions, u32 n, bool *may,
		    struct jifl_jumps_looked **looked)
{
	struct jifl_jumps_looked *all;
	struct jifl_jump **list;
	u32 k;

	all = JIFL_ALLOC(kvzalloc(struct_size(all, jumps, n), GFP_KERNEL));
	list = JIFL_ALLOC(kvcalloc(n, sizeof(*list), GFP_KERNEL));
	if (!all || !list) {
		kvfree(list);
		kvfree(all);
		return -ENOMEM;
	}
	k = learn_all(functions, n, all->jumps, list);
	if (k)
		jifl_jumps_check(list, k);
	tell(functions, n, may, all);
	kvfree(list);
	*looked = all;
	return 0;
}
