// SPDX-License-Identifier: GPL-2.0
/*
 * Conditions on the calls of a function that is a target (struct jifl_condition): the range that
 * its caller lies in, and the values that its first argument may have. So an interrupt, a work
 * item or a system call of 32-bit programs is a target, although others call its function, too. A
 * session can also say what all its calls are made under (under.c).
 *
 * A session's calls are those, and only those, that meet the condition:
 *
 * 1. A condition belongs to a session. It is made before the session is armed and freed with the
 *    session, as its aims are. It does not change. So who finds an aim finds its condition (the
 *    heads of session/aim.c and enter/function.c).
 * 2. Native calls come to the function's door. While an aim of the target has a condition, the door
 *    does not lead straight to a piece (jifl_choose_is_settled), and arming an aim takes back a
 *    door that does. So each call asks session/choose.c, which looks at the condition of each aim.
 * 3. The door is the fentry site. Nothing has been pushed there and the argument's register is as
 *    the caller left it. So the word on top of the stack is the return address, and rdi the first
 *    argument, which the stub hands over.
 * 4. The return address is the caller's, if the caller runs natively. Where copies call a native
 *    function it is in the code cache; jifl_unwind_original gives the original.
 *    A function that ends in a jump to this one (a tail call) has left its own caller's return
 *    address. So a range names the functions that really call; userland knows them.
 * 5. Calls inside copies do not come to the door. The block that begins with the function has an
 *    insert that looks at the same two words (session/nested.c): rdi, and the word at rsp. It
 *    stands before the first instruction, so 3. holds there, too.
 * 6. A session may begin in the middle of a call (session/adopt.c). The return address is still in
 *    the call's frame, and the unwinder finds it there. The argument's register has another value.
 *    So a condition on the caller alone is asked then, and calls with any other are left.
 * 7. A condition can be a program (struct jifl_tool, meant), of sessions that no copies belong to,
 *    and no calls in the middle: replacements. So it is asked at the door alone, in 2. It reads the
 *    registers of arguments, which the stub has pushed, and memory, as places' programs do
 *    (tools/probe/act.c). A call of which it cannot tell runs the original, and is told as missed.
 * 8. A tracer that has replaced the return address before the door hides the caller: the function
 *    graph tracer, and kretprobes. Such a call does not meet a condition on its caller.
 *
 * Context: any, also where interrupts are off. Takes no lock, does not sleep.
 */
#include <linux/kernel.h>
#include <linux/minmax.h>

#include "../kernel.h"
#include "../plant.h"
#include "../run/unwind.h"
#include "condition.h"
#include "count.h"
#include "filter.h"
#include "under.h"
#include "whose.h"

bool jifl_condition_is_valid(const struct jifl_condition *c)
{
	return c->callers <= ARRAY_SIZE(c->caller) && c->values <= ARRAY_SIZE(c->value) &&
	       (c->callers || c->values);
}

static bool is_from(const struct jifl_condition *c, u64 caller)
{
	u32 i;

	caller = jifl_unwind_original(caller);
	for (i = 0; i < c->callers; i++)
		/* A call that ends a function returns to its end. */
		if (caller > c->caller[i].begin && caller <= c->caller[i].end)
			return true;
	return !c->callers;
}

static bool is_with(const struct jifl_condition *c, u64 arg0)
{
	u32 i;

	for (i = 0; i < c->values; i++)
		if (arg0 == c->value[i])
			return true;
	return !c->values;
}

bool jifl_condition_held(const struct jifl_aim *aim, unsigned long caller)
{
	return !aim->condition || is_from(aim->condition, caller) ||
	       JIFL_HOST_PLANTED(callers_forgotten);
}

bool jifl_condition_holds(struct jifl_aim *aim, const struct jifl_facts *facts)
{
	const struct jifl_condition *c = aim->condition;
	const struct jifl_under *u = aim->session->under;

	if (c && ((!is_from(c, facts->caller) && !JIFL_HOST_PLANTED(callers_ignored)) ||
		  (!is_with(c, facts->arg0) && !JIFL_HOST_PLANTED(values_ignored))))
		return false;
	if (u && !jifl_under_holds(u, facts->caller))
		return false;
	/* Where it cannot be asked the call may be one of these: it is told as missed. */
	return !jifl_condition_program(aim->session) || !facts->pushed ||
	       aim->session->tool->meant(aim, facts);
}

bool jifl_condition_is_meant(struct jifl_aim *aim, const struct jifl_facts *facts)
{
	return jifl_filter_match_inserted(&aim->session->filter) &&
	       (jifl_condition_holds(aim, facts) || JIFL_HOST_PLANTED(nested_unconditional));
}

void jifl_condition_tell(struct jifl_aim *aim, bool counted)
{
	if (counted)
		jifl_count_begin(aim);
	else
		jifl_count_miss(aim, JIFL_MISS_NESTED);
}

/* Inserted where a function begins that copies call. */
static void nested(struct jifl_aim *aim, unsigned long arg0, unsigned long caller, bool counted)
{
	const struct jifl_facts facts = { .caller = caller, .arg0 = arg0 };

	if (jifl_condition_is_meant(aim, &facts))
		jifl_condition_tell(aim, counted);
}

void jifl_condition_nested(struct jifl_aim *aim, bool counted, struct ir_insert *ins)
{
	*ins = (struct ir_insert){
		.kind = IR_INSERT_CALL,
		.fn = (unsigned long)nested,
		.nargs = 4,
		.fetched = 1 << 1 | 1 << 2,
	};
	ins->args[0] = (unsigned long)aim;
	ins->fetches[1] = (struct ir_fetch){
		.how = IR_FETCH_REG, .base = IR_RDI, .index = IR_REG_NONE,
	};
	ins->fetches[2] = (struct ir_fetch){
		.how = IR_FETCH_LOAD, .base = IR_RSP, .index = IR_REG_NONE, .scale = 1,
	};
	ins->args[3] = counted;
}
