// SPDX-License-Identifier: GPL-2.0
/*
 * The filter of a session selects tasks: thread, process, its descendants, command name, cgroup. It
 * also selects levels. All conditions of a filter must hold. Context: a filter is set up from a
 * request, in process context. At every entry of a target the call is compared with the filter,
 * without a lock and without sleeping.
 */
#include <linux/bits.h>
#include <linux/cgroup.h>
#include <linux/glob.h>
#include <linux/pid.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/preempt.h"
#include "../store/percpu.h"
#include "filter.h"

#define JIFL_FILTER_ALL	(JIFL_FILTER_PID | JIFL_FILTER_TGID | JIFL_FILTER_COMM | \
			 JIFL_FILTER_CGROUP | JIFL_FILTER_CHILDREN | JIFL_FILTER_LEVELS)

static int jifl_filter_pid(struct pid **pid, s32 nr)
{
	if (nr <= 0)
		return -EINVAL;
	*pid = find_get_pid(nr);
	return *pid ? 0 : -ESRCH;
}

static int jifl_filter_cgroup(struct jifl_filter *f, u64 id)
{
	struct cgroup *cgrp = cgroup_get_from_id(id);

	if (IS_ERR(cgrp))
		return PTR_ERR(cgrp);
	f->cgroup = cgrp;
	return 0;
}

int jifl_filter_init(struct jifl_filter *f, const struct jifl_start *req)
{
	u32 mask = req->filters;
	int ret = 0;

	memset(f, 0, sizeof(*f));
	if (mask & ~JIFL_FILTER_ALL)
		return -EINVAL;
	if ((mask & JIFL_FILTER_CHILDREN) && !(mask & JIFL_FILTER_TGID))
		return -EINVAL;
	if (req->levels & ~(BIT(JIFL_NR_LEVELS) - 1) ||
	    !req->levels != !(mask & JIFL_FILTER_LEVELS))
		return -EINVAL;
	f->levels = req->levels;
	if (mask & JIFL_FILTER_PID)
		ret = jifl_filter_pid(&f->pid, req->pid);
	if (!ret && (mask & JIFL_FILTER_TGID))
		ret = jifl_filter_pid(&f->tgid, req->tgid);
	if (!ret && (mask & JIFL_FILTER_CGROUP))
		ret = jifl_filter_cgroup(f, req->cgroup);
	if (ret) {
		jifl_filter_release(f);
		return ret;
	}
	strscpy(f->comm, req->comm, sizeof(f->comm));
	f->comm_is_pattern = strpbrk(f->comm, "*?");
	f->mask = mask;
	return 0;
}

void jifl_filter_release(struct jifl_filter *f)
{
	put_pid(f->pid);
	put_pid(f->tgid);
	if (f->cgroup)
		cgroup_put(f->cgroup);
	memset(f, 0, sizeof(*f));
}

/*
 * When the parent of a process dies, the process becomes a child of its reaper. Then it is no
 * descendant any more.
 */
static bool jifl_filter_descends(struct task_struct *t, struct pid *tgid)
{
	bool found = false;

	rcu_read_lock();
	while (!found && !is_global_init(t) && t->pid) {
		t = rcu_dereference(t->real_parent);
		found = task_tgid(t) == tgid;
	}
	rcu_read_unlock();
	return found;
}

static bool jifl_filter_under(struct task_struct *t, struct cgroup *cgrp)
{
	bool found;

	rcu_read_lock();
	found = task_under_cgroup_hierarchy(t, cgrp);
	rcu_read_unlock();
	return found;
}

static bool jifl_filter_has_comm(const struct jifl_filter *f, const struct task_struct *t)
{
	return f->comm_is_pattern ? glob_match(f->comm, t->comm) :
				    !strncmp(t->comm, f->comm, sizeof(f->comm));
}

bool jifl_filter_match_task(const struct jifl_filter *f, struct task_struct *t)
{
	const u32 mask = f->mask;

	if (!jifl_filter_has_level(f, JIFL_LEVEL_TASK))
		return false;
	if ((mask & JIFL_FILTER_PID) && task_pid(t) != f->pid)
		return false;
	if ((mask & JIFL_FILTER_COMM) && !jifl_filter_has_comm(f, t))
		return false;
	if ((mask & JIFL_FILTER_TGID) && task_tgid(t) != f->tgid &&
	    !((mask & JIFL_FILTER_CHILDREN) && jifl_filter_descends(t, f->tgid)))
		return false;
	return !(mask & JIFL_FILTER_CGROUP) || jifl_filter_under(t, f->cgroup);
}

bool jifl_filter_match_some(const struct jifl_filter *f, enum jifl_level level)
{
	if (JIFL_HOST_PLANTED(filter_ignored))
		return true;
	/* The task that has been interrupted is not the caller. */
	if (level != JIFL_LEVEL_TASK && !JIFL_HOST_PLANTED(interrupts_filtered))
		return jifl_filter_has_all(f, level);
	return jifl_filter_match_task(f, current);
}

bool jifl_filter_match_inserted(const struct jifl_filter *f)
{
	enum jifl_level level;
	bool match;

	preempt_disable_notrace();
	level = jifl_level();
	jifl_own_begin_at(level);
	match = jifl_filter_match(f, level);
	jifl_own_end_at(level);
	jifl_preempt_enable();
	return match;
}
