// SPDX-License-Identifier: GPL-2.0
/*
 * JIFL_IOC_WARM: makes blocks of a session before its calls come to them, so that a first call
 * costs what later calls do. In: addresses, and what must stand there. Context: process, sleeps;
 * takes jifl_session_mutex.
 *
 * A request harms nothing, whatever it says:
 *
 * 1. Code reaches a block only by the block's address, and a block is made of the text at that
 *    address. So a block that is made early is the one that the dispatcher would have made
 *    (engine/warm.c).
 * 2. No thread comes to an address at which no instruction begins, so a block that is made there
 *    never runs. It would take room in the cache, and it would stand in the tables of tools, which
 *    would show code that does not exist. The check of length, instructions and bytes keeps such
 *    blocks out.
 * 3. Text is read as the dispatcher reads it: it is classified first, under the engine lock with
 *    interrupts off, so a module does not go meanwhile. Each block is watched from then on.
 * 4. jifl_session_mutex is held. So the session does not end, the cache is not emptied, and the
 *    cache's writable alias stays.
 * 5. Nothing here is part of a call. But the task that asks may itself be in a call that a session
 *    counts. So the CPU's records of running calls are put aside while blocks and entry pieces are
 *    made, with interrupts off. No block is taken for a block of that call. An entry piece clears
 *    the records when it is made, but the running call is not lost. Nothing else reads or writes
 *    this CPU's records meanwhile: jifl_switch_is_ending and jifl_evict run under
 *    jifl_session_mutex, and jifl_switch_lose needs code of the cache that runs on this CPU.
 * 6. The engine stops while a quarter of the cache is free. So the cache is not emptied for this.
 * 7. The handler of a breakpoint (tools/probe/catch.c) calls jifl_warm_address without the mutex.
 *    Interrupts are off from before it asks jifl_mix_is_paused until it returns. The cache is
 *    emptied after jifl_evict has stopped the machine in the pause, so not meanwhile. The aim's
 *    session has not ended: jifl_probe_clear waits for handlers, and is called before jifl_evict.
 *    As for step 5: jifl_evict does not stop the machine in between, and no code of the cache runs
 *    on this CPU before the exception returns. jifl_switch_is_ending may look from another CPU, and
 *    find no call where one is put aside. So it may do where session/choose.c makes a piece. The
 *    end of that other session then does not wait for the call, and counts it as missed.
 * 8. Each block of a chain is checked as in step 2. Where a chain breaks, its rest is a chain of
 *    its own. Dropped blocks come back when a call needs them. A thread that is caught in one ends
 *    its call for tools that count, so only sessions that count nothing have layouts.
 *
 * The engine lock is held for one unit at a time, as by the dispatcher.
 */
#include <linux/err.h>
#include <linux/irqflags.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/block_name.h"
#include "../store/percpu.h"
#include "../call/count.h"
#include "../call/tool.h"
#include "../enter/target.h"
#include "../text/jump.h"
#include "aim.h"
#include "choose.h"
#include "session.h"
#include "warm.h"

/* The records of this CPU's running calls, put aside. */
struct jifl_warm_aside {
	u64 calls[JIFL_LANES];
	unsigned long flags;
};

static void jifl_warm_put_aside(struct jifl_warm_aside *a)
{
	unsigned int lane;

	local_irq_save(a->flags);
	for (lane = 0; lane < JIFL_LANES; lane++) {
		a->calls[lane] = this_cpu_read(jifl_cpu.lanes[lane].call);
		if (!JIFL_HOST_PLANTED(warmed_attributed))
			this_cpu_write(jifl_cpu.lanes[lane].call, 0);
	}
}

static void jifl_warm_put_back(const struct jifl_warm_aside *a)
{
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++)
		this_cpu_write(jifl_cpu.lanes[lane].call, a->calls[lane]);
	local_irq_restore(a->flags);
}

static bool jifl_warm_is(const struct ir_block *b, const void *arg)
{
	const struct jifl_warm_block *meant = arg;

	if (JIFL_HOST_PLANTED(warmed_unchecked))
		return true;
	return b->src_len == meant->src_len && b->count == meant->insns &&
	       (!meant->hash || jifl_block_hash(b) == meant->hash);
}

static void jifl_warm_one(const struct jifl_session *s, const struct jifl_warm_block *block,
			  struct jifl_warm *req, struct jifl_warmed_cost *cost)
{
	struct jifl_warm_aside aside;
	enum jifl_warmed warmed;

	jifl_warm_put_aside(&aside);
	warmed = jifl_engine_warm(s->alone.context, jifl_orig_at(block->orig), jifl_warm_is,
				  block, cost);
	jifl_warm_put_back(&aside);
	switch (warmed) {
	case JIFL_WARMED_MADE:
	case JIFL_WARMED_THERE:
		req->present++;
		break;
	case JIFL_WARMED_OTHER:
		req->other++;
		break;
	case JIFL_WARMED_FULL:
		req->left++;
		break;
	}
}

/*
 * The n blocks of a chain. They are dropped where they exist, and made in this order; see step 8.
 */
static int jifl_warm_chain(const struct jifl_session *s, const struct jifl_warm_block *blocks,
			   u32 n, struct jifl_warm *req, struct jifl_warmed_cost *cost)
{
	struct jifl_warm_aside aside;
	jifl_orig chain[JIFL_LAY_MAX];
	enum jifl_warmed result;
	u32 done, laid, i;

	for (done = 0; done < n; done += laid ?: 1) {
		if (fatal_signal_pending(current))
			return -EINTR;
		for (i = 0; i < JIFL_LAY_MAX && done + i < n; i++)
			chain[i] = jifl_orig_at(blocks[done + i].orig);
		jifl_warm_put_aside(&aside);
		laid = jifl_engine_lay(s->alone.context, chain, i, jifl_warm_is, &blocks[done],
				       sizeof(*blocks), &result, cost);
		jifl_warm_put_back(&aside);
		req->present += laid;
		req->other += !laid && result == JIFL_WARMED_OTHER;
		req->left += !laid && result == JIFL_WARMED_FULL;
		cond_resched();
	}
	return 0;
}

static u32 jifl_warm_chain_length(const struct jifl_warm_block *blocks, u32 n)
{
	u32 i = 1;

	while (i < n && blocks[i].flags & JIFL_WARM_FOLLOWS)
		i++;
	return i;
}

static bool jifl_warm_any(const struct ir_block *b, const void *arg)
{
	return true;
}

void jifl_warm_address(const struct jifl_aim *aim, unsigned long addr)
{
	struct jifl_warmed_cost cost = {};
	struct jifl_warm_aside aside;

	jifl_warm_put_aside(&aside);
	jifl_count_translate_begin(aim);
	jifl_engine_warm(aim->session->alone.context, jifl_orig_at(addr), jifl_warm_any, NULL,
			 &cost);
	jifl_warm_put_back(&aside);
}

/* Makes the entry piece of a target whose first block is translated. True if there is one now. */
static bool jifl_warm_entry(struct jifl_aim *aim)
{
	struct jifl_warm_aside aside;
	u64 piece;

	const struct jifl_target *t = aim->target;

	if (!jifl_engine_has(aim->session->alone.context,
			     jifl_orig_at(t->address + (t->jump ? t->jump->len : 0))))
		return false;
	jifl_warm_put_aside(&aside);
	piece = jifl_choose_way_in(&aim->way);
	jifl_warm_put_back(&aside);
	return piece;
}

static int jifl_warm_all(struct jifl_session *s, const struct jifl_warm_block *blocks,
			 struct jifl_warm *req)
{
	struct jifl_warmed_cost cost = {};
	struct jifl_aim *aim;
	u32 i, n;
	int err;

	for (i = 0; i < req->n; i += n) {
		if (fatal_signal_pending(current))
			return -EINTR;
		n = 1;
		if (blocks[i].flags & JIFL_WARM_LAY) {
			n = jifl_warm_chain_length(&blocks[i], req->n - i);
			err = jifl_warm_chain(s, &blocks[i], n, req, &cost);
			if (err)
				return err;
		} else {
			jifl_warm_one(s, &blocks[i], req, &cost);
		}
		cond_resched();
	}
	for_each_aim(aim, s, i) {
		req->entries += jifl_warm_entry(aim);
		cond_resched();
	}
	req->blocks = cost.blocks;
	req->insns = cost.insns;
	req->translate_ns = cost.ns;
	return 0;
}

/* Copies the caller's list into blocks. 0, -EFAULT or -EINVAL. *lays: some are a layout. */
static int jifl_warm_take(struct jifl_warm_block *blocks, const struct jifl_warm *req, bool *lays)
{
	u32 i;

	if (copy_from_user(blocks, u64_to_user_ptr(req->buf), req->n * sizeof(*blocks)))
		return -EFAULT;
	for (i = 0; i < req->n; i++) {
		const u32 flags = blocks[i].flags;

		if (flags & ~(JIFL_WARM_LAY | JIFL_WARM_FOLLOWS) || flags == JIFL_WARM_FOLLOWS)
			return -EINVAL;
		*lays |= flags;
	}
	return 0;
}

int jifl_warm(struct jifl_session *s, struct jifl_warm *req)
{
	struct jifl_warm_block *blocks;
	bool lays = false;
	int ret;

	if (req->n > JIFL_WARM_MAX)
		return -EINVAL;
	req->present = req->other = req->left = req->entries = 0;
	blocks = JIFL_ALLOC(kvmalloc_array(req->n ?: 1, sizeof(*blocks), GFP_KERNEL));
	if (!blocks)
		return -ENOMEM;
	ret = jifl_warm_take(blocks, req, &lays);
	if (!ret) {
		mutex_lock(&jifl_session_mutex);
		if (!s->running)
			ret = -ENOENT;
		else if (lays && !s->tool->lays)
			ret = -EINVAL;
		else
			ret = jifl_warm_all(s, blocks, req);
		mutex_unlock(&jifl_session_mutex);
	}
	kvfree(blocks);
	return ret;
}
