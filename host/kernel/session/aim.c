// SPDX-License-Identifier: GPL-2.0
/*
 * The targets of a session: makes an aim for each entry of the list in the request. The place in
 * the list is the number by which inserted code, records and requests name a target.
 *
 * Context: process, sleeps. Code at the entry of a target uses the aim from jifl_mix_arm until
 * jifl_evict has returned after jifl_mix_disarm. The aim is freed later, with its session.
 */
#include <linux/err.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "../kernel.h"
#include "../plant.h"
#include "../call/returns.h"
#include "../call/tool.h"
#include "../enter/function.h"
#include "../enter/entry.h"
#include "../enter/target.h"
#include "aim.h"
#include "session.h"

int jifl_aim_add(struct jifl_session *s, u32 index, u32 kind, u64 id)
{
	struct jifl_target *t = jifl_target_get(kind, id);
	struct jifl_aim *aim;

	if (IS_ERR_OR_NULL(t))
		return PTR_ERR(t);
	aim = JIFL_ALLOC(kzalloc(struct_size(aim, cpu, nr_cpu_ids), GFP_KERNEL));
	if (!aim) {
		jifl_target_put(t);
		return -ENOMEM;
	}
	aim->target = t;
	aim->session = s;
	aim->index = index;
	aim->way.target = t;
	aim->way.mix = &s->alone;
	s->aims[index] = aim;
	s->naims++;
	/* All that may be entered by doors of functions. */
	s->nfunctions += kind == JIFL_TARGET_FUNCTION || kind == JIFL_TARGET_NOTRACE;
	s->nsyscalls += kind == JIFL_TARGET_SYSCALL;
	return 0;
}

static void jifl_aim_drop(struct jifl_session *s, struct jifl_aim *aim)
{
	const u32 kind = aim->target->kind;

	s->aims[aim->index] = NULL;
	s->naims--;
	s->nfunctions -= kind == JIFL_TARGET_FUNCTION || kind == JIFL_TARGET_NOTRACE;
	s->nsyscalls -= kind == JIFL_TARGET_SYSCALL;
	jifl_target_put(aim->target);
	kfree(aim);
}

/* Those without a site, n at most. Returns how many there are. */
static u32 jifl_aim_find_notrace(const struct jifl_session *s, unsigned long *begins)
{
	struct jifl_aim *aim;
	u32 i, n = 0;

	for_each_aim(aim, s, i)
		if (aim->target->kind == JIFL_TARGET_NOTRACE)
			begins[n++] = aim->target->id;
	return n;
}

int jifl_aim_refuse_notrace(struct jifl_session *s, bool *refused)
{
	unsigned long *begins;
	struct jifl_aim *aim;
	bool *may;
	u32 i, n = 0;
	int ret = -ENOMEM;

	begins = JIFL_ALLOC(kvmalloc_array(s->ntargets, sizeof(*begins), GFP_KERNEL));
	may = JIFL_ALLOC(kvmalloc_array(s->ntargets, sizeof(*may), GFP_KERNEL));
	if (begins && may) {
		n = jifl_aim_find_notrace(s, begins);
		ret = n ? jifl_notrace_may(begins, n, may) : 0;
	}
	n = 0;
	for (i = 0; i < s->ntargets && !ret; i++) {
		aim = s->aims[i];
		refused[i] = aim && aim->target->kind == JIFL_TARGET_NOTRACE && !may[n++];
		if (refused[i])
			jifl_aim_drop(s, aim);
	}
	kvfree(may);
	kvfree(begins);
	return ret;
}

/* Each list has a number of its own, which marks the targets that stand in the list. */
int jifl_aim_check(const struct jifl_session *s)
{
	static u64 last;	/* jifl_session_mutex */
	struct jifl_aim *aim;
	u32 i;

	lockdep_assert_held(&jifl_session_mutex);
	last++;
	for_each_aim(aim, s, i) {
		if (aim->target->list == last)
			return -EINVAL;
		aim->target->list = last;
	}
	return s->naims ? 0 : -EINVAL;
}

/* Of the session's n-th function, its place in the list. */
static u32 jifl_aim_index(const struct jifl_session *s, u32 n)
{
	struct jifl_aim *aim;
	u32 i;

	for_each_aim(aim, s, i)
		if (aim->target->kind == JIFL_TARGET_FUNCTION && !n--)
			break;
	return i;
}

/* Lists the targets that are functions: those with sites, then the others. 0; -ENOMEM. */
static int jifl_aim_list(struct jifl_session *s)
{
	struct jifl_aim *aim;
	u32 i, n = 0;

	s->doors = JIFL_ALLOC(kvmalloc_array(s->naims, sizeof(*s->doors), GFP_KERNEL));
	s->jumps = JIFL_ALLOC(kvmalloc_array(s->naims, sizeof(*s->jumps), GFP_KERNEL));
	if (!s->doors || !s->jumps)
		return -ENOMEM;
	for_each_aim(aim, s, i)
		if (aim->target->kind == JIFL_TARGET_FUNCTION)
			s->doors[n++] = aim->target;
	s->nsites = n;
	for_each_aim(aim, s, i)
		if (aim->target->kind != JIFL_TARGET_FUNCTION &&
		    aim->target->kind != JIFL_TARGET_SYSCALL)
			s->doors[n++] = aim->target;
	s->ndoors = n;
	return 0;
}

static void jifl_aim_unlist(struct jifl_session *s)
{
	kvfree(s->jumps);
	kvfree(s->doors);
	s->jumps = NULL;
	s->doors = NULL;
}

/* What stands in the text may have changed since jifl_aim_refuse_notrace has asked. */
static bool jifl_aim_all_have_doors(struct jifl_session *s, u32 *busy_target)
{
	struct jifl_aim *aim;

	for_each_aim(aim, s, *busy_target)
		if (aim->target->kind == JIFL_TARGET_NOTRACE && !aim->target->jump)
			break;
	if (*busy_target == s->ntargets)
		return true;
	s->refused = JIFL_REFUSED_SITE;
	return false;
}

/* The doors of all that is listed. As jifl_aim_attach. */
static int jifl_aim_attach_listed(struct jifl_session *s, u32 *busy_target)
{
	int ret = 0;
	u32 i;

	if (s->nsites)
		ret = jifl_function_attach(s->doors, s->nsites, &i);
	if (ret == -EBUSY) {
		*busy_target = jifl_aim_index(s, i);
		return -EOPNOTSUPP;
	}
	if (ret || s->ndoors == s->nsites)
		return ret;
	ret = jifl_notrace_attach(s->doors + s->nsites, s->ndoors - s->nsites);
	if (!ret && !s->tool->places && !jifl_aim_all_have_doors(s, busy_target)) {
		jifl_notrace_detach(s->doors + s->nsites, s->jumps, s->ndoors - s->nsites);
		ret = -EOPNOTSUPP;
	}
	if (ret && s->nsites)
		jifl_function_detach(s->doors, s->nsites);
	return ret;
}

static int jifl_aim_attach_functions(struct jifl_session *s, u32 *busy_target)
{
	int ret;

	if (s->naims == s->nsyscalls)
		return 0;
	ret = jifl_aim_list(s);
	/* Also if no call is followed: see call/levels.c. */
	if (!ret && s->nfunctions)
		ret = jifl_returns_open();
	if (!ret) {
		ret = jifl_aim_attach_listed(s, busy_target);
		if (ret && s->nfunctions)
			jifl_returns_close();
	}
	if (ret)
		jifl_aim_unlist(s);
	return ret;
}

int jifl_aim_attach(struct jifl_session *s, u32 *busy_target)
{
	/* Without a session about them no system call pays for their door. */
	int ret = s->nsyscalls ? jifl_entry_attach() : 0;

	if (ret)
		return ret;
	ret = jifl_aim_attach_functions(s, busy_target);
	if (ret && s->nsyscalls)
		jifl_entry_detach();
	return ret;
}

void jifl_aim_detach(struct jifl_session *s)
{
	if (s->nsyscalls)
		jifl_entry_detach();
	if (!s->doors)
		return;
	if (s->ndoors > s->nsites)
		jifl_notrace_detach(s->doors + s->nsites, s->jumps, s->ndoors - s->nsites);
	if (s->nsites)
		jifl_function_detach(s->doors, s->nsites);
	jifl_aim_unlist(s);
	if (s->nfunctions)
		jifl_returns_close();
}

void jifl_aim_free(struct jifl_session *s)
{
	struct jifl_aim *aim;
	u32 i;

	for_each_aim(aim, s, i)
		jifl_aim_drop(s, aim);
}
