// SPDX-License-Identifier: GPL-2.0
/*
 * JIFL_IOC_START: checks what a session is asked to be, and makes it. In: struct jifl_start, with
 * its list of targets in user space. Out: the file's session. Context: process, under the file's
 * lock; sleeps.
 */
#include <linux/capability.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/pid.h>		/* with sched.h, by kernel version: task_tgid_nr */
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "../kernel.h"
#include "../plant.h"
#include "../call/condition.h"
#include "../call/filter.h"
#include "../call/program.h"
#include "../call/under.h"
#include "../call/value.h"
#include "../enter/function.h"
#include "../enter/target.h"
#include "../session/aim.h"
#include "../session/audit.h"
#include "../session/require.h"
#include "../session/session.h"
#include "../tools/tools.h"
#include "request.h"

/* -EOPNOTSUPP with spec->refused set: it cannot be entered. */
static int jifl_start_function(struct jifl_session *s, u32 index, struct jifl_target_spec *spec)
{
	const struct jifl_condition *condition = NULL;
	enum jifl_refusal refused;
	/* The answer tells whether a function begins at an address. */
	int ret = s->nfunctions ? 0 : jifl_require_addresses();

	if (ret)
		return ret;
	if (!spec->id != !s->tool->replaces ||
	    !jifl_value_is_type(spec->flags & ~JIFL_TARGET_OPTIONAL) ||
	    spec->name[sizeof(spec->name) - 1] || spec->condition > s->nconditions)
		return -EINVAL;
	if (spec->condition)
		condition = &s->conditions[spec->condition - 1];
	ret = jifl_aim_add_function(s, index, spec->address, condition, &refused);
	spec->refused = refused;
	if (ret)
		return ret == -EOPNOTSUPP && spec->flags & JIFL_TARGET_OPTIONAL ? 0 : ret;
	s->aims[index]->value = spec->flags & ~JIFL_TARGET_OPTIONAL;
	s->aims[index]->replacement = spec->id;
	return 0;
}

static int jifl_start_target(struct jifl_session *s, u32 index, struct jifl_target_spec *spec)
{
	const bool only = spec->scope == JIFL_SCOPE_ONLY;

	if (spec->reserved || !jifl_target_is_kind(spec->kind) ||
	    (!only && spec->scope != JIFL_SCOPE_UNDER) ||
	    (only && (spec->kind != JIFL_TARGET_FUNCTION || !s->tool->alone)) ||
	    (index && only != s->only) ||
	    (s->tool->replaces && (only || spec->kind != JIFL_TARGET_FUNCTION)))
		return -EINVAL;
	s->only = only;
	if (spec->kind == JIFL_TARGET_FUNCTION)
		return jifl_start_function(s, index, spec);
	if (spec->address || spec->flags || spec->condition || s->under ||
	    memchr_inv(spec->name, 0, sizeof(spec->name)))
		return -EINVAL;
	return jifl_aim_add(s, index, spec->kind, spec->id);
}

/* Tells the caller why a function was refused, or that it was not. */
static int jifl_start_answer(u64 targets, u32 index, u32 refused)
{
	struct jifl_target_spec __user *spec = u64_to_user_ptr(targets);

	return put_user(refused, &spec[index].refused) ? -EFAULT : 0;
}

/* The i-th function of the list is refused for want of a door. Returns as jifl_start_function. */
static int jifl_start_refuse(const struct jifl_start *req, u32 i)
{
	struct jifl_target_spec __user *list = u64_to_user_ptr(req->targets);
	u64 begin;
	u32 flags;

	if (get_user(flags, &list[i].flags) || get_user(begin, &list[i].address) ||
	    jifl_start_answer(req->targets, i, jifl_function_without_door(begin)))
		return -EFAULT;
	return flags & JIFL_TARGET_OPTIONAL ? 0 : -EOPNOTSUPP;
}

/* Of the functions that are entered by jumps, those stay that can be. */
static int jifl_start_notrace(struct jifl_session *s, struct jifl_start *req)
{
	bool *refused;
	u32 i;
	int ret;

	if (s->tool->places)
		return 0;
	refused = JIFL_ALLOC(kvcalloc(s->ntargets, sizeof(*refused), GFP_KERNEL));
	if (!refused)
		return -ENOMEM;
	ret = jifl_aim_refuse_notrace(s, refused);
	for (i = 0; i < s->ntargets && !ret; i++) {
		if (!refused[i])
			continue;
		ret = jifl_start_refuse(req, i);
		if (ret == -EOPNOTSUPP)
			req->busy_target = i;
	}
	kvfree(refused);
	return ret;
}

static int jifl_start_listed(struct jifl_session *s, struct jifl_start *req)
{
	struct jifl_target_spec __user *list = u64_to_user_ptr(req->targets);
	struct jifl_target_spec spec;
	int ret = 0;
	u32 i;

	for (i = 0; i < s->ntargets && !ret; i++) {
		if (copy_from_user(&spec, &list[i], sizeof(spec)))
			return -EFAULT;
		ret = jifl_start_target(s, i, &spec);
		if (ret == -EOPNOTSUPP)
			req->busy_target = i;
		if (spec.kind == JIFL_TARGET_FUNCTION &&
		    jifl_start_answer(req->targets, i, spec.refused))
			return -EFAULT;
		cond_resched();
	}
	return ret;
}

static int jifl_start_targets(struct jifl_session *s, struct jifl_start *req)
{
	int ret;

	jifl_function_expect(s->ntargets);
	ret = jifl_start_listed(s, req) ?: jifl_start_notrace(s, req);
	jifl_function_asked();
	return ret;
}

/* Copies the conditions of the session's targets. */
static int jifl_start_conditions(struct jifl_session *s, const struct jifl_start *req)
{
	const size_t size = req->nconditions * sizeof(*s->conditions);
	u32 i;

	if (req->nconditions > JIFL_CONDITIONS_MAX)
		return -EINVAL;
	if (!req->nconditions)
		return 0;
	s->conditions = JIFL_ALLOC(kvmalloc(size, GFP_KERNEL));
	if (!s->conditions)
		return -ENOMEM;
	if (copy_from_user(s->conditions, u64_to_user_ptr(req->conditions), size))
		return -EFAULT;
	for (i = 0; i < req->nconditions; i++)
		if (!jifl_condition_is_valid(&s->conditions[i]))
			return -EINVAL;
	s->nconditions = req->nconditions;
	return 0;
}

static int jifl_start_under(struct jifl_session *s, const struct jifl_start *req)
{
	struct jifl_under *u;
	int ret = req->nunder ? jifl_require_addresses() : 0;

	if (ret)
		return ret;
	u = jifl_under_open(u64_to_user_ptr(req->under), req->nunder);
	if (IS_ERR(u))
		return PTR_ERR(u);
	s->under = u;
	return 0;
}

/* Are they in order, each once? */
static bool jifl_start_is_sorted(const struct jifl_splice *splices, u32 n)
{
	u32 i;

	for (i = 1; i < n; i++)
		if (splices[i].address < splices[i - 1].address ||
		    (splices[i].address == splices[i - 1].address &&
		     splices[i].where <= splices[i - 1].where))
			return false;
	return true;
}

/* Is there the program that a place names, if it names one? */
static bool jifl_start_has_program(const struct jifl_session *s, const struct jifl_start *req,
				   u32 action)
{
	if (s->tool->objects)
		return action / JIFL_TIMES_PROGRAM <= req->nactions;
	return s->tool->calls_functions || action <= req->nactions;
}

/* Copies the places that the session is about. */
static int jifl_start_splices(struct jifl_session *s, const struct jifl_start *req)
{
	const size_t size = req->nsplices * sizeof(*s->splices);
	u32 i;

	if (req->nsplices > JIFL_SPLICES_MAX || !req->nsplices != !s->tool->places ||
	    (req->nsplices && (req->nunder || req->nconditions)))
		return -EINVAL;
	if (!req->nsplices)
		return 0;
	s->splices = JIFL_ALLOC(kvmalloc(size, GFP_KERNEL));
	if (!s->splices)
		return -ENOMEM;
	if (copy_from_user(s->splices, u64_to_user_ptr(req->splices), size))
		return -EFAULT;
	s->nsplices = req->nsplices;
	for (i = 0; i < s->nsplices; i++)
		if (s->splices[i].refused ||
		    !jifl_start_has_program(s, req, s->splices[i].action) ||
		    s->splices[i].where > JIFL_SPLICE_NOT_TAKEN)
			return -EINVAL;
	return jifl_start_is_sorted(s->splices, s->nsplices) ? 0 : -EINVAL;
}

static int jifl_start_programs(struct jifl_session *s, struct jifl_start *req)
{
	struct jifl_programs *p;

	if (req->nactions && !s->tool->meant &&
	    (!req->nsplices || (s->tool->calls_functions && !s->tool->objects)))
		return -EINVAL;
	p = jifl_programs_open(req);
	if (IS_ERR(p))
		return PTR_ERR(p);
	s->programs = p;
	if (!p)
		return 0;
	if (s->tool->meant)
		return jifl_programs_is_condition(p) ? 0 : -EINVAL;
	/* What programs do of calls, and nothing else, is done by tools that have objects. */
	return (p->objects || p->sums) != s->tool->objects ? -EINVAL : 0;
}

/* Copies what is counted beside times. */
static int jifl_start_counters(struct jifl_session *s, const struct jifl_start *req)
{
	u32 i;

	if (req->ncounters > (s->tool->counters ? JIFL_COUNTERS_MAX : 0))
		return -EINVAL;
	if (copy_from_user(s->meters, u64_to_user_ptr(req->counters),
			   req->ncounters * sizeof(*s->meters)))
		return -EFAULT;
	s->nmeters = req->ncounters;
	for (i = 0; i < s->nmeters; i++)
		if (!memchr(s->meters[i].tracepoint, 0, JIFL_COUNTER_NAME_MAX) ||
		    !*s->meters[i].tracepoint != (s->meters[i].kind != JIFL_COUNTER_TRACEPOINT) ||
		    !s->meters[i].kind || s->meters[i].kind >= JIFL_COUNTER_KINDS)
			return -EINVAL;
	return 0;
}

/* Tells the caller why places were refused. */
static int jifl_start_answer_splices(const struct jifl_session *s, u64 splices)
{
	struct jifl_splice __user *list = u64_to_user_ptr(splices);
	u32 i;

	for (i = 0; i < s->nsplices; i++)
		if (s->splices[i].refused && put_user(s->splices[i].refused, &list[i].refused))
			return -EFAULT;
	return -EILSEQ;
}

static struct jifl_session *jifl_start_session(struct jifl_start *req,
					       const struct jifl_tool *tool)
{
	struct jifl_session *s = jifl_session_alloc(req->ntargets);
	int ret;

	if (!s)
		return ERR_PTR(-ENOMEM);
	s->tool = tool;
	ret = jifl_filter_init(tool->watches ? &s->watched : &s->filter, req) ?:
	      jifl_start_conditions(s, req) ?: jifl_start_under(s, req) ?:
	      jifl_start_splices(s, req) ?: jifl_start_programs(s, req) ?:
	      jifl_start_counters(s, req) ?: jifl_start_targets(s, req);
	if (ret) {
		s->tool = NULL;
		jifl_session_free(s);
		return ERR_PTR(ret);
	}
	s->flags = req->flags;
	s->owner = task_tgid_nr(current);
	strscpy(s->name, current->comm, TASK_COMM_LEN);
	return s;
}

static bool jifl_start_may(const struct jifl_start *req, const struct jifl_tool *tool)
{
	const u32 value = req->flags & JIFL_FLAGS_VALUE;

	if (!tool || req->reserved || !req->ntargets || req->ntargets > JIFL_TARGETS_MAX)
		return false;
	/* A place counts whatever comes to it. */
	if (tool->places && req->filters && !tool->watches)
		return false;
	if (tool->replaces && req->ntargets != 1)
		return false;
	/* One value, and not of each key. */
	if (value & (value - 1) || (value && req->flags & JIFL_FLAGS_BY))
		return false;
	return !(req->flags & ~tool->flags);
}

static int jifl_start_try(struct jifl_file *f, struct jifl_start *req)
{
	const struct jifl_tool *tool = jifl_tools_of(req->kind);
	u32 busy_target = 0;
	u64 busy_session = 0;
	struct jifl_session *s;
	int ret;

	req->busy_target = 0;
	req->busy_session = 0;
	req->session = 0;
	if (f->session && READ_ONCE(f->session->running))
		return -EBUSY;
	if (!jifl_start_may(req, tool))
		return -EINVAL;
	/* Has the kernel run a module's code where it did not ask for it. */
	if (tool->replaces && !capable(CAP_SYS_MODULE))
		return -EPERM;
	if (tool->shows_addresses) {
		ret = jifl_require_addresses();
		if (ret)
			return ret;
	}
	s = jifl_start_session(req, tool);
	if (IS_ERR(s))
		return PTR_ERR(s);
	ret = jifl_session_start(s, &busy_target, &busy_session);
	/* Only now it is known who else has the function, or its site. */
	if (ret == -EXDEV && jifl_start_answer(req->targets, busy_target, JIFL_REFUSED_SCOPE))
		ret = -EFAULT;
	else if (ret == -EXDEV)
		ret = -EOPNOTSUPP;
	else if (ret == -EOPNOTSUPP && s->nfunctions &&
		 jifl_start_answer(req->targets, busy_target, s->refused ?: JIFL_REFUSED_TAKEN))
		ret = -EFAULT;
	if (ret == -EILSEQ) {
		busy_target = s->refused_splice;
		ret = jifl_start_answer_splices(s, req->splices);
	}
	if (ret) {
		req->bad_counter = s->bad_meter;
		req->busy_target = busy_target;
		req->busy_session = busy_session;
		jifl_session_free(s);
		return ret;
	}
	req->session = s->id;
	req->adopted = s->adopted;
	memcpy(req->left, s->left, sizeof(s->left));
	jifl_session_free(f->session);
	f->session = s;
	return 0;
}

int jifl_start_request(struct jifl_file *f, void *arg)
{
	int ret = jifl_start_try(f, arg);

	if (ret)
		jifl_audit_refused("start", ret);
	return ret;
}
