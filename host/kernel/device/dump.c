// SPDX-License-Identifier: GPL-2.0
/*
 * JIFL_IOC_BLOCK: blocks of the code cache, with their source and their liveness.
 *
 * Context: process; sleeps. Under jifl_session_mutex the cache is not emptied and no session ends
 * while a block is searched. Blocks are only added meanwhile.
 *
 * The answer contains kernel addresses, and code with more of them. So the caller must be allowed
 * to see the addresses in /proc/kallsyms.
 */
#include <linux/build_bug.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "../session/mix.h"
#include "../session/session.h"
#include "dump.h"

static_assert(JIFL_BLOCK_SESSIONS == JIFL_LANES);
static_assert((int)JIFL_SEGMENT_ORIGINAL == JIFL_PIECE_ORIGINAL &&
	      (int)JIFL_SEGMENT_INSERTED == JIFL_PIECE_INSERTED &&
	      (int)JIFL_SEGMENT_INLINED == JIFL_PIECE_INLINED &&
	      (int)JIFL_SEGMENT_ONWARD == JIFL_PIECE_ONWARD);
static_assert(JIFL_BLOCK_DEAD == JIFL_DUMP_DEAD && JIFL_BLOCK_NATIVE == JIFL_DUMP_NATIVE &&
	      JIFL_BLOCK_ENTRY == JIFL_DUMP_ENTRY && JIFL_BLOCK_FALLS == JIFL_DUMP_FALLS &&
	      JIFL_BLOCK_LIVENESS == JIFL_DUMP_LIVENESS);
static_assert(JIFL_LIVE_CF == IR_CF && JIFL_LIVE_PF == IR_PF && JIFL_LIVE_AF == IR_AF &&
	      JIFL_LIVE_ZF == IR_ZF && JIFL_LIVE_SF == IR_SF && JIFL_LIVE_OF == IR_OF &&
	      JIFL_LIVE_DF == IR_DF);

static bool jifl_dump_is_wanted(const struct jifl_block *req)
{
	unsigned int i;

	for (i = 0; i < JIFL_BLOCK_SESSIONS; i++)
		if (req->sessions[i] == req->session)
			return true;
	return !req->session;
}

/* Searches from req->index on; sets index and sessions. Under jifl_session_mutex. */
static int jifl_dump_find(struct jifl_block *req)
{
	int context;

	while ((context = jifl_engine_block_context(req->index)) >= 0) {
		jifl_mix_sessions(context, req->sessions);
		if (jifl_dump_is_wanted(req))
			return 0;
		req->index++;
		cond_resched();
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	return -ENOENT;
}

static int jifl_dump_read(struct jifl_block *req, struct jifl_dump *d)
{
	int ret;

	mutex_lock(&jifl_session_mutex);
	ret = jifl_dump_find(req);
	if (!ret)
		jifl_engine_dump(req->index, d);
	mutex_unlock(&jifl_session_mutex);
	return ret;
}

static int jifl_dump_segments(u64 to, const struct jifl_dump *d)
{
	struct jifl_segment segment;
	const struct jifl_piece *p;
	u32 i;

	for (i = 0; i < d->npieces; i++) {
		p = &d->pieces[i];
		segment = (struct jifl_segment){
			.code_len = p->code_len,
			.src_len = p->src_len,
			.kind = p->kind,
			.pushed = p->pushed,
			.live_flags = p->flags,
			.live_regs = p->regs,
		};
		if (copy_to_user(u64_to_user_ptr(to + i * sizeof(segment)), &segment,
				 sizeof(segment)))
			return -EFAULT;
	}
	return 0;
}

static int jifl_dump_write(struct jifl_block *req, const struct jifl_dump *d)
{
	bool has_room = req->src_len >= d->src_len && req->code_len >= d->code_len &&
			req->nsegments >= d->npieces;

	req->orig = d->orig.v;
	req->cache = d->code_at;
	req->flags = d->flags;
	req->insns = d->insns;
	req->src_len = d->src_len;
	req->code_len = d->code_len;
	req->nsegments = d->npieces;
	if (!has_room)
		return -ENOSPC;
	if (copy_to_user(u64_to_user_ptr(req->src), d->src, d->src_len) ||
	    copy_to_user(u64_to_user_ptr(req->code), d->code, d->code_len))
		return -EFAULT;
	return jifl_dump_segments(req->segments, d);
}

int jifl_dump_block(struct jifl_block *req)
{
	struct jifl_dump *d;
	int ret;

	if (req->reserved)
		return -EINVAL;
	d = JIFL_ALLOC(kvmalloc(sizeof(*d), GFP_KERNEL));
	if (!d)
		return -ENOMEM;
	ret = jifl_dump_read(req, d);
	if (!ret)
		ret = jifl_dump_write(req, d);
	kvfree(d);
	return ret;
}
