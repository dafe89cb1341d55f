// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the programs of places (uapi/jifl_action.h). call/program.c has checked them: what is
 * assumed here without a check is said there.
 *
 * Why a program may run wherever an instruction of the kernel is executed:
 *
 * 1. Interrupts are off while it runs. The locks that it takes are those of the session's own
 *    tables, which programs alone take. The clock of a machine that has nothing better than an HPET
 *    has one, too: no place is in read_hpet (place.c). act_bpf.c speaks of BPF programs.
 * 2. One program runs on a CPU at a time. What may come in between is an NMI, a page fault of what
 *    the program reads, and a breakpoint in what it calls. If code there has a place with a
 *    program, too, it does not run: the execution is counted as nested, and a call of the tool
 *    times begins, about nothing, or ends, without its values. So no lock of step 1 is held by what
 *    it has interrupted, and there is no recursion. Programs that inserted code does as a whole
 *    (front.c) are no such programs: they have a ring of their own.
 * 3. A thread that is between copies is not seen: the program is called by inserted code, which
 *    stays until jifl_evict, or in the handler of a breakpoint, which has ended when
 *    jifl_probe_clear returns. What the program uses goes later, with the session.
 * 4. Calls of functions that the program makes do not enter the cache (jifl_own_begin).
 *
 * An execution is counted exactly once by a program that begins with HIT, also where it is nested.
 * Behind a condition it is counted if the condition was asked and holds. A condition with which a
 * program begins may have been asked by inserted code (front.c): then it was asked, also where the
 * program behind it is nested.
 *
 * Context: any; from copies any but NMI.
 */
#include <linux/bitops.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../store/flight.h"
#include "../../store/level.h"
#include "../../store/percpu.h"
#include "../../call/program.h"
#include "../../call/whose.h"
#include "probe.h"
#include "act.h"
#include "front.h"
#include "../times/times.h"

static DEFINE_PER_CPU(bool, jifl_act_runs);

/* --- groups -------------------------------------------------------------------------------- */

static void jifl_act_begin_group(struct jifl_acting *a)
{
	struct jifl_group_name *name = &a->room->group;
	u32 i;

	/* What is behind the last name is 0. */
	for (i = 0; i < a->room->named; i += sizeof(u64))
		*(u64 *)(name->name + i) = 0;
	name->unknown = 0;
}

/* Where the next part of the group's name goes; unknown ones are 0. */
static u8 *jifl_act_part(struct jifl_acting *a, u32 bytes)
{
	u8 *at;

	if (!a->parts)
		jifl_act_begin_group(a);
	if (a->unknown)
		a->room->group.unknown |= 1u << a->parts;
	at = a->room->group.name + a->group;
	a->group += bytes;
	a->room->named = a->group;
	a->parts++;
	return at;
}

static void jifl_act_group(struct jifl_acting *a, u64 number)
{
	u8 *at = jifl_act_part(a, sizeof(number));

	if (!a->unknown)
		memcpy(at, &number, sizeof(number));
}

static void jifl_act_group_string(struct jifl_acting *a, const struct jifl_op *op)
{
	char *string = a->room->string;
	const int n = a->unknown ? -1 : jifl_peek_string(a->stack[0], string, op->imm);
	u8 *at;

	a->unknown = n < 0;
	at = jifl_act_part(a, op->arg);
	/* What stands behind the string, up to arg bytes, makes no difference: it is 0. */
	if (n >= 0)
		memcpy(at, string, n);
}

static void jifl_act_group_stack(struct jifl_acting *a)
{
	jifl_peek_stack(a->regs, a->room->frames);
	jifl_act_group(a, jifl_groups_stack(a->probe->groups, a->room->frames));
}

static void jifl_act_sum(struct jifl_acting *a)
{
	struct jifl_group_name *name = &a->room->group;
	const u64 *value = a->has_value ? &a->value : NULL;

	if (!a->parts)
		jifl_act_begin_group(a);
	name->place = a->place - a->probe->places;
	jifl_groups_add(a->probe->groups, name, a->group,
			a->parts ? NULL : &a->place->work->group, value, a->is_signed);
	a->group = 0;
	a->parts = 0;
	a->has_value = false;
}

static void jifl_act_add_up(struct jifl_acting *a, const struct jifl_op *op)
{
	if (a->unknown)
		return;
	a->values.known |= 1u << op->arg;
	if (op->flags & JIFL_OP_SIGNED && (s64)a->stack[0] < 0)
		a->values.below |= 1u << op->arg;
	a->values.value[op->arg] = a->stack[0];
}

/* The call begins here, or ends. It is about what the groups say, if they do. */
static void jifl_act_call(struct jifl_acting *a)
{
	jifl_times_at_place(a->place, a->about ? &a->room->group : NULL, a->group, &a->values,
			    a->count);
}

/* --- records ------------------------------------------------------------------------------- */

static void jifl_act_begin_record(struct jifl_acting *a)
{
	a->hit = jifl_hit_ring_room(a->probe->ring) ?: &a->room->hit;
	a->hit->unknown = 0;
	a->record = sizeof(struct jifl_hit);
}

/* Where the next bytes of the record go. */
static u8 *jifl_act_field(struct jifl_acting *a, u32 bytes)
{
	u8 *at;

	if (!a->fields)
		jifl_act_begin_record(a);
	if (a->unknown)
		a->hit->unknown |= 1ull << a->fields;
	a->fields++;
	at = (u8 *)a->hit + a->record;
	a->record += bytes;
	return at;
}

static void jifl_act_out(struct jifl_acting *a)
{
	*(u64 *)jifl_act_field(a, sizeof(u64)) = a->unknown ? 0 : a->stack[0];
}

static void jifl_act_out_string(struct jifl_acting *a, const struct jifl_op *op)
{
	const int n = a->unknown ? -1 : jifl_peek_string(a->stack[0], a->room->string, op->arg);
	const u32 len = max(n, 0), whole = round_up(len, sizeof(u64));
	u8 *to;

	a->unknown = n < 0;
	to = jifl_act_field(a, sizeof(u64) + whole);
	*(u64 *)to = len;
	memset(to + sizeof(u64), 0, whole);
	memcpy(to + sizeof(u64), a->room->string, len);
}

static void jifl_act_out_stack(struct jifl_acting *a)
{
	const u32 n = jifl_peek_stack(a->regs, a->room->frames);
	u8 *to = jifl_act_field(a, (1 + n) * sizeof(u64));

	*(u64 *)to = n;
	memcpy(to + sizeof(u64), a->room->frames, n * sizeof(u64));
}

static void jifl_act_record(struct jifl_acting *a)
{
	struct jifl_hit *hit;

	static_assert(sizeof(hit->comm) == TASK_COMM_LEN);
	if (!a->fields)
		jifl_act_begin_record(a);
	a->fields = 0;
	hit = a->hit;
	if (hit == &a->room->hit) {
		jifl_hit_ring_lose(a->probe->ring);
		return;
	}
	hit->size = a->record;
	hit->place = a->place - a->probe->places;
	hit->time = ktime_get_mono_fast_ns();
	hit->cpu = raw_smp_processor_id();
	hit->level = a->level;
	hit->pid = jifl_number_get(a->level, JIFL_GET_PID);
	hit->tid = jifl_number_get(a->level, JIFL_GET_TID);
	memcpy(hit->comm, jifl_number_comm(a->level), sizeof(hit->comm));
	/* The name may be about to change. */
	hit->comm[sizeof(hit->comm) - 1] = '\0';
	jifl_hit_ring_commit(a->probe->ring, a->record);
}

/* The numbers go to the flight recorder: they are not read from the session. */
static void jifl_act_flight(struct jifl_acting *a, const struct jifl_op *op)
{
	const struct jifl_hit *hit = a->hit;
	u64 args[JIFL_FLIGHT_ARGS] = {};

	if (a->fields)
		memcpy(args, hit + 1, a->fields * sizeof(u64));
	a->fields = 0;
	if (jifl_flight_program)
		jifl_flight_program(op->arg, op->imm, args, a->count);
}

/* --- programs ------------------------------------------------------------------------------ */

/* false: the program ends. */
static bool jifl_act_condition(struct jifl_acting *a)
{
	if (!a->unknown)
		return a->stack[0];
	atomic64_inc(&a->place->work->untested);
	return false;
}

static void jifl_act_hit(struct jifl_acting *a)
{
	if (!a->counted)
		this_cpu_inc(*a->place->counter);
	a->counted = false;
}

static void jifl_act_bpf_program(struct jifl_acting *a)
{
	if (!jifl_act_bpf(a->place->work->program->bpf, a->regs))
		atomic64_inc(&a->place->work->unrun);
}

/* false: the program ends. */
static bool jifl_act_effect(struct jifl_acting *a, const struct jifl_op *op)
{
	switch (op->code) {
	case JIFL_OP_IF:
		return jifl_act_condition(a);
	case JIFL_OP_HIT:
		jifl_act_hit(a);
		break;
	case JIFL_OP_GROUP:
		jifl_act_group(a, a->stack[0]);
		break;
	case JIFL_OP_GROUP_STR:
		jifl_act_group_string(a, op);
		break;
	case JIFL_OP_GROUP_STACK:
		jifl_act_group_stack(a);
		break;
	case JIFL_OP_VALUE:
		a->has_value = !a->unknown;
		a->value = a->unknown ? 0 : a->stack[0];
		a->is_signed = op->flags & JIFL_OP_SIGNED;
		break;
	case JIFL_OP_SUM:
		jifl_act_sum(a);
		break;
	case JIFL_OP_OUT:
		jifl_act_out(a);
		break;
	case JIFL_OP_OUT_STR:
		jifl_act_out_string(a, op);
		break;
	case JIFL_OP_OUT_STACK:
		jifl_act_out_stack(a);
		break;
	case JIFL_OP_RECORD:
		jifl_act_record(a);
		break;
	case JIFL_OP_OBJECT:
		a->about = true;
		break;
	case JIFL_OP_ADD_UP:
		jifl_act_add_up(a, op);
		break;
	case JIFL_OP_FLIGHT:
		jifl_act_flight(a, op);
		break;
	default:
		jifl_act_bpf_program(a);
	}
	return true;
}

/* from: the op with which it begins. */
static void jifl_act_program(struct jifl_acting *a, u32 from)
{
	const struct jifl_program *program = a->place->work->program;
	const struct jifl_op *op;
	u32 i;

	for (i = from; i < program->n; i++) {
		op = &program->ops[i];
		if (op->code >= JIFL_OP_IF) {
			if (!jifl_act_effect(a, op))
				return;
			a->unknown = false;
			a->depth = 0;
		} else if (a->unknown) {
			continue;
		} else if (op->code >= JIFL_OP_SKIP_ZERO) {
			i += jifl_number_skip(a, op);
		} else {
			a->unknown = !jifl_number_push(a, op);
		}
	}
}

/* Interrupts are off. count: preempt_count(), as the code of the place has it. */
static void jifl_act_at(struct jifl_probe_place *place, struct pt_regs *regs,
			enum jifl_level level, u32 from, unsigned int count)
{
	const bool counted = place->work->program->ops[from].code == JIFL_OP_HIT;
	struct jifl_acting a;

	if (counted)
		this_cpu_inc(*place->counter);
	if (place->owner->times && !jifl_times_asks(place, count)) {
		jifl_times_at_place(place, NULL, 0, NULL, count);
		return;
	}
	if (this_cpu_read(jifl_act_runs) && !JIFL_HOST_PLANTED(programs_nested)) {
		atomic64_inc(&place->work->nested);
		if (place->owner->times)
			jifl_times_at_place(place, NULL, 0, NULL, count);
		return;
	}
	this_cpu_write(jifl_act_runs, true);
	barrier();
	/* Member by member: the stack needs no zeroes. */
	a.place = place;
	a.probe = place->owner;
	a.strings = a.probe->session->programs->strings;
	a.regs = regs;
	a.level = level;
	a.count = count;
	a.counted = counted;
	a.unknown = a.has_value = a.is_signed = a.about = false;
	a.values.known = a.values.below = 0;
	a.depth = a.group = a.parts = a.fields = 0;
	a.room = this_cpu_ptr(a.probe->room);
	jifl_act_program(&a, from);
	if (a.probe->times)
		jifl_act_call(&a);
	barrier();
	this_cpu_write(jifl_act_runs, false);
}

void jifl_act(struct jifl_probe_place *place, struct pt_regs *regs)
{
	enum jifl_level level;
	const unsigned long flags = jifl_own_irq_save_at(&level);

	jifl_act_at(place, regs, level, 0, preempt_count());
	jifl_own_irq_restore_at(flags, level);
}

void jifl_act_rest(struct jifl_probe_place *place, struct pt_regs *regs)
{
	enum jifl_level level;
	const unsigned long flags = jifl_own_irq_save_at(&level);

	jifl_act_at(place, regs, level, place->work->front->from, preempt_count());
	jifl_own_irq_restore_at(flags, level);
}

bool jifl_act_load(u64 address, u32 width, u64 *value)
{
	enum jifl_level level;
	const unsigned long flags = jifl_own_irq_save_at(&level);
	bool loaded = false;

	if (!this_cpu_read(jifl_act_runs)) {
		this_cpu_write(jifl_act_runs, true);
		barrier();
		loaded = jifl_peek_number(address, width, false, value);
		barrier();
		this_cpu_write(jifl_act_runs, false);
	}
	jifl_own_irq_restore_at(flags, level);
	return loaded;
}

u64 jifl_act_ask(u32 what)
{
	enum jifl_level level;
	const unsigned long flags = jifl_own_irq_save_at(&level);
	const u64 value = jifl_number_get(level, what);

	jifl_own_irq_restore_at(flags, level);
	return value;
}

void jifl_act_native(struct jifl_probe_place *place, struct pt_regs *regs, enum jifl_level level)
{
	/* The kernel says where the int3 ends. */
	const unsigned long ip = regs->ip;

	regs->ip = place->address;
	jifl_own_begin();
	/* The exception itself is one level of NMI. */
	jifl_act_at(place, regs, level, 0, preempt_count() - NMI_OFFSET - HARDIRQ_OFFSET);
	jifl_own_end();
	regs->ip = ip;
}
