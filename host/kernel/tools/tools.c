// SPDX-License-Identifier: GPL-2.0
/*
 * What a session has by its kind: what it inserts into blocks, its tables, and the rings.
 *
 * Context: process; sleeps. Opens under jifl_session_mutex.
 */
#include "../kernel.h"
#include "../store/ring.h"
#include "../call/count.h"
#include "../call/keys.h"
#include "../call/whose.h"
#include "blocks.h"
#include "lock/lock.h"
#include "mem/mem.h"
#include "profile.h"
#include "tools.h"

static int jifl_tools_take_rings(struct jifl_session *s, u64 *busy_session)
{
	const bool words = s->kind == JIFL_KIND_MEM || s->flags & JIFL_FLAGS_FUNCTIONS;

	s->ring = (struct jifl_ring_owner){
		.session = &s->id,
		.running = &s->running,
		.reader = s->owner,
		.order = words ? JIFL_RING_WORDS_ORDER :
			 s->kind == JIFL_KIND_PATH ? JIFL_RING_PATH_ORDER : JIFL_RING_ORDER,
		.words = words,
		.clock = s->flags & JIFL_FLAG_CLOCK,
		.waits = s->flags & JIFL_FLAG_WAIT,
	};
	return jifl_ring_open(&s->ring, busy_session);
}

static int jifl_tools_open(struct jifl_session *s, u64 *busy_session)
{
	s->instrument_arg = s;
	if (s->flags & JIFL_FLAGS_BY) {
		int ret = jifl_keys_open(s);

		if (ret)
			return ret;
	}
	switch (s->kind) {
	case JIFL_KIND_NONE:
	case JIFL_KIND_CALL:
		s->instrument = NULL;
		return 0;
	case JIFL_KIND_INSN:
		s->instrument = s->flags & JIFL_FLAG_REPEATS ? jifl_count_repeats :
							       jifl_count_insns;
		return 0;
	case JIFL_KIND_BLOCK:
		s->instrument = jifl_count_blocks;
		return 0;
	case JIFL_KIND_TRACE:
		s->instrument = jifl_count_functions;
		return jifl_tools_take_rings(s, busy_session);
	case JIFL_KIND_PATH:
		s->instrument = jifl_count_path;
		return jifl_tools_take_rings(s, busy_session);
	case JIFL_KIND_PROFILE:
		s->instrument = jifl_count_profile;
		return jifl_profile_open(s);
	case JIFL_KIND_LOCK:
		s->instrument = jifl_lock_instrument;
		return jifl_lock_open(s);
	case JIFL_KIND_MEM:
		s->instrument = jifl_count_mem;
		return jifl_mem_open(s) ?: jifl_tools_take_rings(s, busy_session);
	}
	return -EINVAL;
}

static void jifl_tools_close(struct jifl_session *s)
{
	jifl_ring_close(&s->ring);
	jifl_profile_close(s);
	jifl_mem_close(s);
	jifl_keys_close(s);
	jifl_lock_close(s);
}

const struct jifl_tool jifl_tools = {
	.open = jifl_tools_open,
	.close = jifl_tools_close,
	.entry = jifl_count_entry,
};
