// SPDX-License-Identifier: GPL-2.0
/*
 * The requests that read what the file's session has counted and recorded. The session may be over.
 * Context: process, under the file's lock; sleeps.
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/answer.h"
#include "../store/ring.h"
#include "../call/count.h"
#include "../call/keys.h"
#include "../session/audit.h"
#include "../session/require.h"
#include "../session/session.h"
#include "../session/warm.h"
#include "../tools/tools.h"
#include "request.h"

int jifl_read_stat(struct jifl_file *f, void *arg)
{
	const size_t size = JIFL_HIST_BUCKETS * sizeof(u64);
	struct jifl_stat *req = arg;
	struct jifl_aim *aim;
	u64 *hist = NULL;
	int ret = 0;

	aim = f->session ? jifl_aim_at(f->session, req->target) : NULL;
	if (!aim)
		return -ENOENT;
	if (req->hist) {
		hist = JIFL_ALLOC(kmalloc(size, GFP_KERNEL));
		if (!hist)
			return -ENOMEM;
	}
	jifl_stats_read(aim, req, hist);
	if (hist && copy_to_user(u64_to_user_ptr(req->hist), hist, size))
		ret = -EFAULT;
	kfree(hist);
	return ret;
}

int jifl_read_may_see(const char *what)
{
	int ret = jifl_require_addresses();

	if (ret)
		jifl_audit_refused(what, ret);
	return ret;
}

/* Only a session has something to read, be it over. */
static int jifl_read_has(struct jifl_file *f, u32 reserved)
{
	if (!f->session)
		return -ENOENT;
	return reserved ? -EINVAL : 0;
}

int jifl_read_records(struct jifl_file *f, void *arg)
{
	struct jifl_records *req = arg;

	return jifl_read_may_see("records") ?: jifl_read_has(f, req->reserved) ?:
	       jifl_ring_read(&f->session->ring, req);
}

/* What the tool of that kind keeps. */
static int jifl_read_tool(struct jifl_file *f, struct jifl_table_read *req)
{
	const struct jifl_tool *tool = jifl_tools_of(req->table);
	int ret;

	if (!tool)
		return -EINVAL;
	ret = tool->shows_addresses ? jifl_read_may_see("table") : 0;
	if (ret)
		return ret;
	if (!f->session || f->session->tool != tool || !tool->table)
		return -ENOENT;
	return jifl_answer_read(tool->table, f->session->tool_data, req);
}

/* A table that sessions of some tools have beside their own. */
static int jifl_read_other(struct jifl_file *f, struct jifl_table_read *req)
{
	const struct jifl_session *s = f->session;
	const struct jifl_answer *answer = NULL;
	const void *of;
	const int ret = jifl_read_may_see("table");

	if (ret)
		return ret;
	if (s && s->tool->other_table)
		answer = s->tool->other_table(s, req->table, &of);
	return answer ? jifl_answer_read(answer, of, req) : -ENOENT;
}

int jifl_read_hits(struct jifl_file *f, void *arg)
{
	const struct jifl_session *s = f->session;

	return jifl_read_may_see("hits") ?:
	       (s && s->tool->hits ? s->tool->hits(s, arg) : -ENOENT);
}

int jifl_read_table(struct jifl_file *f, void *arg)
{
	struct jifl_table_read *req = arg;

	if (req->table == JIFL_TABLE_GROUPS || req->table == JIFL_TABLE_STACKS ||
	    req->table == JIFL_TABLE_OBJECTS || req->table == JIFL_TABLE_DISTRIBUTIONS)
		return jifl_read_other(f, req);
	if (req->table != JIFL_TABLE_KEYS)
		return jifl_read_tool(f, req);
	if (!f->session || !f->session->keys)
		return -ENOENT;
	return jifl_answer_read(&jifl_keys_answer, f->session->keys, req);
}

int jifl_read_warm(struct jifl_file *f, void *arg)
{
	/* Its answer tells which code stands at an address. */
	return jifl_read_may_see("warm") ?: jifl_read_has(f, 0) ?:
	       jifl_warm(f->session, arg);
}
