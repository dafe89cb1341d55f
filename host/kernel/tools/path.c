// SPDX-License-Identifier: GPL-2.0
/*
 * The tool path: a record for each basic block, made where the block begins.
 *
 * Contexts: jifl_path_instrument: under the engine lock; jifl_path_open sleeps.
 */
#include "../kernel.h"
#include "../store/ring.h"
#include "../call/count.h"
#include "tools.h"

static void jifl_path_instrument(struct ir_block *b, void *arg)
{
	jifl_count_attribute(arg);
	jifl_ring_insert(b, 0, (u32)b->addr.v);
}

static int jifl_path_open(struct jifl_session *s, u64 *busy_session)
{
	return jifl_tools_take_rings(s, JIFL_RING_PATH_ORDER, false, busy_session);
}

static const struct jifl_tool_records jifl_path_records = {
	.results = true,
	.faults = true,
};

const struct jifl_tool jifl_tool_path = {
	.name = "path",
	.kind = JIFL_KIND_PATH,
	.flags = JIFL_FLAG_WAIT,
	.calls = JIFL_CALLS_FOLLOWED,
	.records = &jifl_path_records,
	.shows_addresses = true,
	.instrument = jifl_path_instrument,
	.open = jifl_path_open,
	.entry = jifl_count_entry,
};
