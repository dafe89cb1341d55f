// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of functions that copies make do not come to the function's door. They are counted, or
 * counted as missed, in the block where the function begins.
 *
 * - A session whose context it is, and that counts calls, counts this one.
 * - A session whose context it is, and that follows its calls, is in a call: what runs is a part
 *   of that one. The nested call is missed.
 * - Any other session that has the function as a target does not see what runs here, which are
 *   copies without its inserts. The call is missed.
 *
 * Where that block ends before the site, as a tracer has it too, the copy runs natively from there
 * on, and comes to the door. Nothing is inserted.
 *
 * Inserted code has the address of an aim. The block is dropped when the aim is armed and when it
 * is disarmed (mix.c), before jifl_evict waits for RCU tasks: no thread sleeps between the
 * beginning of such an insert and its end, so none uses the aim when it is freed. Nor does an
 * interrupt: jifl_evict stops the machine, and interrupts have ended then.
 *
 * Context: under the engine lock.
 */
#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "../call/count.h"
#include "../call/whose.h"
#include "../enter/function.h"
#include "../enter/target.h"
#include "nested.h"

void jifl_nested_insert(struct ir_block *b, const struct jifl_mix *m)
{
	const struct jifl_target *t = jifl_function_starting(b->addr.v);
	struct ir_insert nested, *ins;
	unsigned int lane;

	if (!t || b->addr.v + b->src_len < t->address || JIFL_HOST_PLANTED(nested_untold))
		return;
	for (lane = 0; lane < JIFL_LANES; lane++) {
		struct jifl_aim *aim = READ_ONCE(t->armed[lane]);

		if (!aim || !jifl_count_nested(aim, m->members[lane] == aim->session, &nested))
			continue;
		ins = ir_block_insert(b, IR_BEFORE, 0);
		if (!ins)
			return;
		*ins = nested;
		ins->place = IR_BEFORE;
		ins->at = 0;
	}
}
