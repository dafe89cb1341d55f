// SPDX-License-Identifier: GPL-2.0
/*
 * Programs of user space for places: copied, and checked once, so that tools/probe/act.c needs no
 * check when it runs them.
 *
 * What a checked program cannot do:
 *
 * 1. Run without end: ops lead forward only, and there are JIFL_OPS_MAX at most. What one op does
 *    is bounded by its argument.
 * 2. Leave its stack. The depth before each op is one number, whichever way led there: a skip notes
 *    the depth at the op to which it leads, and the walk finds the same depth there. It is 0 to
 *    JIFL_OP_STACK, and 1 or 0 before an effect, as the effect takes one number or none.
 * 3. Come to an effect past another one: a skip does not lead over an effect. So all effects run in
 *    their order, up to an IF that ends the program. The name of a group and a record then have the
 *    same parts each time, and fit what there is room for.
 * 4. Read where that faults, or write at all: act.c reads by the functions of the kernel that
 *    return an error instead. What a read of a device's memory does is the user's to know.
 *
 * Context: process; sleeps.
 */
#include <linux/bpf.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "program.h"

/* What an op takes from the stack and puts there. */
static const struct jifl_op_rule {
	bool known;
	u8 takes, puts;
	bool width, sign, cut;	/* may have these */
	bool effect;
} jifl_op_rules[] = {
	[JIFL_OP_CONST] = { .known = true, .puts = 1 },
	[JIFL_OP_REG] = { .known = true, .puts = 1 },
	[JIFL_OP_GET] = { .known = true, .puts = 1 },
	[JIFL_OP_LOAD] = { .known = true, .takes = 1, .puts = 1, .width = true, .sign = true },
	[JIFL_OP_EXTEND] = { .known = true, .takes = 1, .puts = 1, .width = true, .sign = true },
	[JIFL_OP_BITS] = { .known = true, .takes = 1, .puts = 1, .sign = true },
	[JIFL_OP_NEGATE ... JIFL_OP_NOT] = { .known = true, .takes = 1, .puts = 1 },
	[JIFL_OP_ADD ... JIFL_OP_LE] = { .known = true, .takes = 2, .puts = 1, .sign = true },
	[JIFL_OP_STR_EQ] = { .known = true, .takes = 1, .puts = 1, .cut = true },
	[JIFL_OP_SKIP_ZERO] = { .known = true, .takes = 1 },
	[JIFL_OP_SKIP_NONZERO] = { .known = true, .takes = 1 },
	[JIFL_OP_IF] = { .known = true, .takes = 1, .effect = true },
	[JIFL_OP_HIT] = { .known = true, .effect = true },
	[JIFL_OP_GROUP] = { .known = true, .takes = 1, .effect = true },
	[JIFL_OP_GROUP_STR] = { .known = true, .takes = 1, .effect = true },
	[JIFL_OP_GROUP_STACK] = { .known = true, .effect = true },
	[JIFL_OP_VALUE] = { .known = true, .takes = 1, .sign = true, .effect = true },
	[JIFL_OP_SUM] = { .known = true, .effect = true },
	[JIFL_OP_OUT] = { .known = true, .takes = 1, .effect = true },
	[JIFL_OP_OUT_STR] = { .known = true, .takes = 1, .effect = true },
	[JIFL_OP_OUT_STACK] = { .known = true, .effect = true },
	[JIFL_OP_RECORD] = { .known = true, .effect = true },
	[JIFL_OP_BPF] = { .known = true, .effect = true },
	[JIFL_OP_OBJECT] = { .known = true, .effect = true },
	[JIFL_OP_ADD_UP] = { .known = true, .takes = 1, .sign = true, .effect = true },
	[JIFL_OP_FLIGHT] = { .known = true, .effect = true },
};

/* The walk over one program. */
struct jifl_check {
	struct jifl_programs *all;
	const struct jifl_action *action;
	u32 depth;
	bool hit;		/* HIT has come */
	u32 group, record;	/* bytes used so far */
	u32 parts, fields;	/* GROUPs and OUTs so far */
	u32 added;		/* bit n: an ADD_UP of the counter n has come */
	bool wide;		/* some OUT is no number */
	s8 wanted[JIFL_OPS_MAX + 1]; /* depth that a skip leads there with; -1: none does */
};

static bool jifl_check_width(const struct jifl_op *op, const struct jifl_op_rule *rule)
{
	if (!rule->width)
		return !op->width;
	return op->width == 1 || op->width == 2 || op->width == 4 || op->width == 8;
}

static bool jifl_check_flags(const struct jifl_op *op, const struct jifl_op_rule *rule)
{
	const u8 may = (rule->sign ? JIFL_OP_SIGNED : 0) | (rule->cut ? JIFL_OP_CUT : 0);

	return !(op->flags & ~may);
}

/* Adds bytes to a group's name or to a record. */
static bool jifl_check_room(u32 *used, u32 bytes, u32 room, u32 *parts, u32 max)
{
	*used += bytes;
	return bytes <= room && *used <= room && (*parts)++ < max;
}

static bool jifl_check_group(struct jifl_check *c, u32 bytes)
{
	c->all->groups = true;
	return bytes && jifl_check_room(&c->group, bytes, JIFL_GROUP_MAX, &c->parts, 32);
}

static bool jifl_check_out(struct jifl_check *c, u32 bytes)
{
	const u32 room = JIFL_HIT_MAX - sizeof(struct jifl_hit);

	c->all->records = true;
	return jifl_check_room(&c->record, bytes, room, &c->fields, 64);
}

/* What OUT has written, numbers, goes to the flight recorder. */
static bool jifl_check_flight(struct jifl_check *c)
{
	const bool fits = c->fields <= JIFL_FLIGHT_ARGS && !c->wide;

	c->all->records = true;
	c->record = 0;
	c->fields = 0;
	return fits;
}

static bool jifl_check_effect(struct jifl_check *c, const struct jifl_op *op)
{
	switch (op->code) {
	case JIFL_OP_HIT:
		/* An execution counts once. */
		return !c->hit && (c->hit = true);
	case JIFL_OP_GROUP:
		return jifl_check_group(c, sizeof(u64));
	case JIFL_OP_GROUP_STACK:
		c->all->stacks = true;
		return jifl_check_group(c, sizeof(u64));
	case JIFL_OP_GROUP_STR:
		return op->arg <= JIFL_STRING_MAX && jifl_check_group(c, op->arg);
	case JIFL_OP_SUM:
		c->all->groups = true;
		c->group = 0;
		c->parts = 0;
		return true;
	case JIFL_OP_OUT:
		return jifl_check_out(c, sizeof(u64));
	case JIFL_OP_OUT_STACK:
		c->wide = true;
		return jifl_check_out(c, (1 + JIFL_FRAMES_MAX) * sizeof(u64));
	case JIFL_OP_OUT_STR:
		c->wide = true;
		return op->arg && op->arg <= JIFL_STRING_MAX &&
		       jifl_check_out(c, sizeof(u64) + round_up(op->arg, sizeof(u64)));
	case JIFL_OP_RECORD:
		c->all->records = true;
		c->record = 0;
		c->fields = 0;
		c->wide = false;
		return true;
	case JIFL_OP_FLIGHT:
		return jifl_check_flight(c);
	case JIFL_OP_BPF:
		return c->action->bpf >= 0;
	case JIFL_OP_OBJECT:
		c->all->objects = true;
		/* All 32 unknown would be the name of the others. */
		return c->parts && c->parts < 32;
	case JIFL_OP_ADD_UP:
		if (c->added & BIT(op->arg))
			return false;
		c->added |= BIT(op->arg);
		c->all->sums = true;
		return true;
	}
	return true;
}

/* Do arg and imm mean something to the op? */
static bool jifl_check_arguments(const struct jifl_check *c, const struct jifl_op *op)
{
	switch (op->code) {
	case JIFL_OP_CONST:
	case JIFL_OP_LOAD:
		return !op->arg;
	case JIFL_OP_REG:
		return op->arg <= 17 && !op->imm;
	case JIFL_OP_GET:
		return op->arg < JIFL_NR_GETS && !op->imm;
	case JIFL_OP_BITS:
		return op->arg && op->arg <= 64 && op->imm < 64 && op->arg + op->imm <= 64;
	case JIFL_OP_STR_EQ:
		return op->arg < JIFL_STRING_MAX && op->imm <= c->all->nstrings &&
		       op->arg <= c->all->nstrings - op->imm &&
		       (op->arg || !(op->flags & JIFL_OP_CUT));
	case JIFL_OP_ADD_UP:
		return op->arg < JIFL_COUNTERS_MAX && !op->imm;
	case JIFL_OP_SKIP_ZERO:
	case JIFL_OP_SKIP_NONZERO:
	case JIFL_OP_OUT_STR:
		return !op->imm;
	case JIFL_OP_GROUP_STR:
		return op->imm && op->imm <= op->arg;
	case JIFL_OP_FLIGHT:
		return op->arg < JIFL_FLIGHT_EVENTS_MAX && op->imm <= U32_MAX;
	default:
		return !op->arg && !op->imm;
	}
}

/* A skip from op i: the number stays on the stack there. */
static bool jifl_check_skip(struct jifl_check *c, const struct jifl_op *ops, u32 i)
{
	const u32 n = c->action->n, to = i + 1 + ops[i].arg;
	u32 k;

	if (ops[i].arg >= n || to >= n)
		return false;
	for (k = i + 1; k < to; k++)
		if (ops[k].code >= JIFL_OP_IF && !JIFL_HOST_PLANTED(effects_skipped))
			return false;
	if (c->wanted[to] >= 0 && c->wanted[to] != c->depth + 1)
		return false;
	c->wanted[to] = c->depth + 1;
	return true;
}

static bool jifl_check_op(struct jifl_check *c, const struct jifl_op *ops, u32 i)
{
	const struct jifl_op *op = &ops[i];
	const struct jifl_op_rule *rule;

	if (op->code >= ARRAY_SIZE(jifl_op_rules))
		return false;
	rule = &jifl_op_rules[op->code];
	if (!rule->known || op->reserved || !jifl_check_width(op, rule) ||
	    !jifl_check_flags(op, rule) || !jifl_check_arguments(c, op))
		return false;
	if (c->wanted[i] >= 0 && c->wanted[i] != c->depth)
		return false;
	if (c->depth < rule->takes || (rule->effect && c->depth != rule->takes))
		return false;
	c->depth += rule->puts - rule->takes;
	if (c->depth > JIFL_OP_STACK)
		return false;
	if (op->code == JIFL_OP_SKIP_ZERO || op->code == JIFL_OP_SKIP_NONZERO)
		return jifl_check_skip(c, ops, i);
	return !rule->effect || jifl_check_effect(c, op);
}

/* Checks a program; *bad: the op that is wrong. */
static bool jifl_check(struct jifl_programs *p, const struct jifl_action *action, u32 *bad)
{
	struct jifl_check c = { .all = p, .action = action };
	const struct jifl_op *ops = p->ops + action->from;

	memset(c.wanted, -1, sizeof(c.wanted));
	for (*bad = 0; *bad < action->n; (*bad)++)
		if (!jifl_check_op(&c, ops, *bad))
			return false;
	/* It ends with an effect, which leaves nothing, or with nothing for anybody. */
	return !c.depth && ops[action->n - 1].code >= JIFL_OP_IF;
}

static int jifl_programs_take_bpf(struct jifl_program *program, s32 fd)
{
	struct bpf_prog *prog = bpf_prog_get_type(fd, BPF_PROG_TYPE_KPROBE);

	if (IS_ERR(prog))
		return PTR_ERR(prog);
	/* It would sleep, is to be called elsewhere, or would have the function return at once. */
	if (jifl_compat_bpf_sleeps(prog) || prog->expected_attach_type || prog->kprobe_override) {
		bpf_prog_put(prog);
		return -EINVAL;
	}
	program->bpf = prog;
	return 0;
}

static int jifl_programs_add(struct jifl_programs *p, u32 i, const struct jifl_action *action,
			     struct jifl_start *req)
{
	struct jifl_program *program = &p->programs[i];

	req->bad_action = i;
	req->bad_op = 0;
	if (action->reserved || action->bpf < -1 || !action->n || action->n > JIFL_OPS_MAX ||
	    action->from > req->nops || action->n > req->nops - action->from ||
	    !jifl_check(p, action, &req->bad_op))
		return -EBADRQC;
	program->ops = p->ops + action->from;
	program->n = action->n;
	if (action->bpf < 0)
		return 0;
	p->bpf = true;
	return jifl_programs_take_bpf(program, action->bpf);
}

static int jifl_programs_copy(struct jifl_programs *p, const struct jifl_start *req)
{
	const size_t ops = req->nops * sizeof(*p->ops);

	p->ops = JIFL_ALLOC(kvmalloc(ops, GFP_KERNEL));
	p->strings = JIFL_ALLOC(kvmalloc(req->nstrings + 1, GFP_KERNEL));
	p->programs = JIFL_ALLOC(kvcalloc(req->nactions, sizeof(*p->programs), GFP_KERNEL));
	if (!p->ops || !p->strings || !p->programs)
		return -ENOMEM;
	if (copy_from_user(p->ops, u64_to_user_ptr(req->ops), ops) ||
	    copy_from_user(p->strings, u64_to_user_ptr(req->strings), req->nstrings))
		return -EFAULT;
	p->nstrings = req->nstrings;
	return 0;
}

static int jifl_programs_fill(struct jifl_programs *p, struct jifl_start *req)
{
	const struct jifl_action __user *list = u64_to_user_ptr(req->actions);
	struct jifl_action action;
	int ret = jifl_programs_copy(p, req);

	for (; !ret && p->n < req->nactions; p->n++) {
		if (copy_from_user(&action, &list[p->n], sizeof(action)))
			return -EFAULT;
		ret = jifl_programs_add(p, p->n, &action, req);
		if (ret)
			break;
		cond_resched();
	}
	return ret;
}

struct jifl_programs *jifl_programs_open(struct jifl_start *req)
{
	struct jifl_programs *p;
	int ret;

	if (!req->nactions)
		return req->nops || req->nstrings || req->ring ? ERR_PTR(-EINVAL) : NULL;
	if (req->nactions > JIFL_ACTIONS_MAX || req->nops > req->nactions * JIFL_OPS_MAX ||
	    req->nstrings > JIFL_STRINGS_MAX || req->ring > JIFL_RING_MAX)
		return ERR_PTR(-EINVAL);
	p = JIFL_ALLOC(kzalloc(sizeof(*p), GFP_KERNEL));
	if (!p)
		return ERR_PTR(-ENOMEM);
	p->ring = req->ring;
	ret = jifl_programs_fill(p, req);
	if (!ret && p->records && !p->ring)
		ret = -EINVAL;
	if (!ret)
		return p;
	jifl_programs_close(p);
	return ERR_PTR(ret);
}

/* rdi, rsi, rdx, rcx, r8, r9, rsp: as instructions number them. */
#define JIFL_CONDITION_REGS \
	(1u << 7 | 1u << 6 | 1u << 2 | 1u << 1 | 1u << 8 | 1u << 9 | 1u << 4)

bool jifl_programs_is_condition(const struct jifl_programs *p)
{
	const struct jifl_op *op = p->programs[0].ops;

	for (; op->code < JIFL_OP_IF; op++)
		if ((op->code == JIFL_OP_REG && !(JIFL_CONDITION_REGS & 1u << op->arg)) ||
		    (op->code == JIFL_OP_GET && op->arg == JIFL_GET_CALLER))
			return false;
	return p->n == 1 && !p->bpf && !p->ring && op->code == JIFL_OP_IF &&
	       op == &p->programs[0].ops[p->programs[0].n - 1];
}

void jifl_programs_close(struct jifl_programs *p)
{
	u32 i;

	if (!p)
		return;
	for (i = 0; i < p->n; i++)
		if (p->programs[i].bpf)
			bpf_prog_put(p->programs[i].bpf);
	kvfree(p->programs);
	kvfree(p->strings);
	kvfree(p->ops);
	kfree(p);
}
