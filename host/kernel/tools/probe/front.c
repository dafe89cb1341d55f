// SPDX-License-Identifier: GPL-2.0
/*
 * Fronts of programs: the condition with which a program begins, as a condition of the inserted
 * code. So a program whose condition does not hold is a few instructions. What comes behind the
 * condition is the counter, a record of numbers (engine/emit/hit.c), one of the flight recorder's
 * (engine/emit/line.c), or the call of the interpreter (act.c).
 *
 * Why a front gives in copies what the interpreter gives natively:
 *
 * 1. Each op of a front is an op of the engine's conditions that means the same
 *    (engine/ir/terms.h). Programs with other ops in their front have none, and neither have
 *    programs that the engine does not compile.
 * 2. The condition reads registers as the kernel left them, flags and rip not at all. Memory is
 *    read by load.S, which gives what peek.c gives.
 * 3. What cannot be read ends the program, and is counted as untested, as the interpreter does it.
 *
 * Why a front needs nothing of what a program needs (act.c):
 *
 * 4. It writes nothing but one counter, by one instruction, and a record, for which emit/hit.c has
 *    the proof, or emit/line.c. So interrupts may be on in a condition, and a front in an
 *    interrupt of another front does no harm.
 * 5. What it calls is load.S alone. Where that calls C code interrupts go off, and the call is one
 *    of the module's own. It is counted as a program that runs: programs that come in between, in
 *    a page fault, do not run (step 2 of act.c).
 *
 * Context: process; sleeps.
 */
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/smp.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/current.h"
#include "../../call/program.h"
#include "../../store/flight.h"
#include "probe.h"
#include "act.h"
#include "front.h"

extern const char jifl_load_1[], jifl_load_2[], jifl_load_4[], jifl_load_8[];
extern const char jifl_ask_0[], jifl_ask_1[], jifl_ask_3[], jifl_ask_4[], jifl_ask_6[];

/* By the logarithm of the width. */
static const u64 jifl_front_loads[] = {
	(unsigned long)jifl_load_1, (unsigned long)jifl_load_2,
	(unsigned long)jifl_load_4, (unsigned long)jifl_load_8,
};

/* By JIFL_OP_*; 0: none. IR_TERM_CONST, which is 0, is looked at apart. */
static const u8 jifl_front_terms[] = {
	[JIFL_OP_LOAD] = IR_TERM_LOAD, [JIFL_OP_EXTEND] = IR_TERM_EXTEND,
	[JIFL_OP_BITS] = IR_TERM_BITS, [JIFL_OP_NEGATE] = IR_TERM_NEGATE,
	[JIFL_OP_INVERT] = IR_TERM_INVERT, [JIFL_OP_NOT] = IR_TERM_NOT,
	[JIFL_OP_ADD] = IR_TERM_ADD, [JIFL_OP_SUB] = IR_TERM_SUB, [JIFL_OP_MUL] = IR_TERM_MUL,
	[JIFL_OP_AND] = IR_TERM_AND, [JIFL_OP_OR] = IR_TERM_OR, [JIFL_OP_XOR] = IR_TERM_XOR,
	[JIFL_OP_SHL] = IR_TERM_SHL, [JIFL_OP_SHR] = IR_TERM_SHR, [JIFL_OP_EQ] = IR_TERM_EQ,
	[JIFL_OP_NE] = IR_TERM_NE, [JIFL_OP_LT] = IR_TERM_LT, [JIFL_OP_LE] = IR_TERM_LE,
	[JIFL_OP_SKIP_ZERO] = IR_TERM_SKIP_ZERO, [JIFL_OP_SKIP_NONZERO] = IR_TERM_SKIP_NONZERO,
};

static bool jifl_front_get(struct ir_terms *terms, struct ir_term *t, u32 what)
{
	static const char *const asks[JIFL_NR_GETS] = {
		[JIFL_GET_PID] = jifl_ask_0, [JIFL_GET_TID] = jifl_ask_1,
		[JIFL_GET_TIME] = jifl_ask_3, [JIFL_GET_LEVEL] = jifl_ask_4,
		[JIFL_GET_COMM] = jifl_ask_6,
	};

	if (what == JIFL_GET_CPU || what == JIFL_GET_TASK) {
		t->op = IR_TERM_CELL;
		t->width = what == JIFL_GET_CPU ? 4 : 8;
		t->imm = what == JIFL_GET_CPU ? (unsigned long)JIFL_CPU_NUMBER_CELL :
						(unsigned long)JIFL_CURRENT_CELL;
		return true;
	}
	t->op = IR_TERM_ASK;
	t->imm = (unsigned long)asks[what];
	terms->calls = true;
	return t->imm;
}

static bool jifl_front_term(struct ir_terms *terms, struct ir_term *t, const struct jifl_op *op)
{
	*t = (struct ir_term){ .width = op->width, .is_signed = op->flags & JIFL_OP_SIGNED,
			       .arg = op->arg, .imm = op->imm };
	switch (op->code) {
	case JIFL_OP_CONST:
		t->op = IR_TERM_CONST;
		return true;
	case JIFL_OP_REG:
		/* rsp is not where it was; rip and flags are no registers of instructions. */
		if (op->arg > 15 || op->arg == 4)
			return false;
		t->op = IR_TERM_REG;
		terms->reads |= 1u << op->arg;
		return true;
	case JIFL_OP_GET:
		return jifl_front_get(terms, t, op->arg);
	default:
		if (op->code >= ARRAY_SIZE(jifl_front_terms))
			return false;
		t->op = jifl_front_terms[op->code];
		terms->calls |= op->code == JIFL_OP_LOAD;
		return t->op;
	}
}

/* What the program is shown beyond what the kernel needs. */
static void jifl_front_shown(struct jifl_front *front, const struct jifl_program *program)
{
	const struct jifl_op *op;

	for (op = program->ops; op < program->ops + program->n; op++) {
		if (op->code == JIFL_OP_GROUP_STACK || op->code == JIFL_OP_OUT_STACK ||
		    op->code == JIFL_OP_BPF ||
		    (op->code == JIFL_OP_GET && op->arg == JIFL_GET_CALLER)) {
			front->shown = U16_MAX;
			front->shown_flags = true;
		} else if (op->code == JIFL_OP_REG && op->arg < 16) {
			front->shown |= 1u << op->arg;
		} else if (op->code == JIFL_OP_REG) {
			front->shown_flags |= op->arg == 17;
		}
	}
}

static bool jifl_front_make(struct jifl_front *front, const struct jifl_program *program)
{
	struct ir_terms *terms = &front->terms;
	unsigned long cookie;
	bool takes;
	u32 i;

	for (i = 0; i < program->n && program->ops[i].code < JIFL_OP_IF; i++)
		if (i == IR_TERMS_MAX ||
		    !jifl_front_term(terms, &terms->terms[i], &program->ops[i]))
			return false;
	if (!i || i == program->n || program->ops[i].code != JIFL_OP_IF)
		return false;
	terms->n = i;
	terms->load = jifl_front_loads;
	front->from = i + 1;
	front->counts = i + 2 == program->n && program->ops[i + 1].code == JIFL_OP_HIT;
	/* A program that does nothing where the condition holds. */
	if (front->from == program->n)
		return false;
	cookie = jifl_host_lock();
	takes = jifl_engine_takes(terms);
	jifl_host_unlock(cookie);
	return takes;
}

/* The op that ends a program: the numbers of a front are recorded by it. */
static bool jifl_front_ends(struct jifl_front *front, const struct jifl_op *op)
{
	struct ir_hit *hit = &front->hit;

	if (op->code == JIFL_OP_RECORD)
		return hit->nvalues && !hit->place;
	if (hit->place + hit->nvalues > IR_LINE_VALUES || !jifl_flight_take_cell)
		return false;
	front->cell = jifl_flight_take_cell(op->arg, op->imm, hit);
	front->has_cell = front->cell >= 0;
	return front->has_cell;
}

/* The numbers that the program records, behind op `at`. false: it does something else, too. */
static bool jifl_front_values(struct jifl_front *front, const struct jifl_program *program, u32 at)
{
	struct ir_hit *hit = &front->hit;
	struct ir_terms *values = &hit->values;
	const struct jifl_op *op = program->ops + at;

	/* The place itself is no register of instructions. */
	if (at + 1 < program->n && op->code == JIFL_OP_REG && op->arg == 16 &&
	    op[1].code == JIFL_OP_OUT) {
		hit->place = true;
		op += 2;
	}
	for (; op < program->ops + program->n; op++) {
		if (op->code == JIFL_OP_RECORD || op->code == JIFL_OP_FLIGHT)
			return op == program->ops + program->n - 1 && jifl_front_ends(front, op);
		if (op->code == JIFL_OP_OUT) {
			if (++hit->nvalues > IR_HIT_VALUES)
				return false;
		} else if (op->code >= JIFL_OP_IF || values->n == IR_TERMS_MAX ||
			   !jifl_front_term(values, &values->terms[values->n], op)) {
			return false;
		} else {
			values->n++;
		}
	}
	return false;
}

/* The whole program, if it is that: a condition or none, HIT, numbers, RECORD. */
static bool jifl_front_record(struct jifl_front *front, const struct jifl_program *program)
{
	const bool asks = program->ops[0].code < JIFL_OP_IF;
	struct ir_terms *condition = &front->terms, *values = &front->hit.values;
	const u16 reads = condition->reads;
	const bool calls = condition->calls;
	unsigned long cookie;
	bool takes;

	if ((asks && !front->is_made) || program->ops[front->from].code != JIFL_OP_HIT ||
	    !jifl_front_values(front, program, front->from + 1))
		return false;
	values->load = jifl_front_loads;
	values->reads |= reads;
	values->calls |= calls;
	condition->reads = values->reads;
	condition->calls = values->calls;
	cookie = jifl_host_lock();
	takes = jifl_engine_takes_hit(&front->hit, asks ? condition : NULL);
	jifl_host_unlock(cookie);
	if (!takes) {
		condition->reads = reads;
		condition->calls = calls;
	}
	return takes;
}

/* Without memory for their ring the interpreter does it all. */
static int jifl_fronts_open_ring(struct jifl_probe *p, const struct jifl_programs *programs)
{
	int ret = jifl_hit_ring_open(&p->inlined, programs->ring, true);
	u32 i;

	if (ret == -ENOMEM) {
		jifl_hit_ring_close(p->inlined);
		p->inlined = NULL;
		ret = 0;
	}
	for (i = 0; i < programs->n; i++)
		if (p->fronts[i].has_cell)
			continue;
		else if (!p->inlined)
			p->fronts[i].records = false;
		else if (p->fronts[i].records)
			jifl_hit_ring_describe(p->inlined, &p->fronts[i].hit);
	return ret;
}

void jifl_fronts_close(struct jifl_probe *p)
{
	u32 i;

	for (i = 0; p->fronts && i < p->nfronts; i++)
		if (p->fronts[i].has_cell)
			jifl_flight_put_cell(p->fronts[i].cell);
	kvfree(p->fronts);
}

int jifl_fronts_open(struct jifl_probe *p, const struct jifl_programs *programs)
{
	const bool may = programs->records && jifl_hits_inline();
	bool records = false;
	u32 i;

	p->fronts = JIFL_ALLOC(kvcalloc(programs->n, sizeof(*p->fronts), GFP_KERNEL));
	if (!p->fronts)
		return -ENOMEM;
	p->nfronts = programs->n;
	for (i = 0; i < programs->n; i++) {
		struct jifl_front *front = &p->fronts[i];

		jifl_front_shown(front, &programs->programs[i]);
		front->is_made = jifl_front_make(front, &programs->programs[i]);
		front->records = may && jifl_front_record(front, &programs->programs[i]);
		records |= front->records && !front->has_cell;
		cond_resched();
	}
	return records ? jifl_fronts_open_ring(p, programs) : 0;
}
