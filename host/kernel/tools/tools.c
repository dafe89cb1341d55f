// SPDX-License-Identifier: GPL-2.0
/*
 * The table of tools, made of JIFL_TOOLS, and code that several tools share. Context: process. The
 * table is constant.
 */
#include <linux/bug.h>
#include <linux/kernel.h>

#include "../kernel.h"
#include "../store/ring.h"
#include "../call/whose.h"
#include "tools.h"

/* By kind. */
static const struct jifl_tool * const jifl_tools[] = {
#define JIFL_TOOL_PLACE(kind, tool, number) [number] = &jifl_tool_##tool,
	JIFL_TOOLS(JIFL_TOOL_PLACE)
#undef JIFL_TOOL_PLACE
};

int jifl_tools_init(void)
{
	u32 kind;
	int ret;

	for (kind = 0; kind < ARRAY_SIZE(jifl_tools); kind++) {
		const struct jifl_tool *tool = jifl_tools[kind];

		if (!tool)
			continue;
		if (WARN_ON(tool->kind != kind))
			return -EINVAL;
		ret = tool->init ? tool->init() : 0;
		if (ret)
			return ret;
	}
	return 0;
}

void jifl_tools_exit(void)
{
	u32 kind;

	for (kind = 0; kind < ARRAY_SIZE(jifl_tools); kind++)
		if (jifl_tools[kind] && jifl_tools[kind]->exit)
			jifl_tools[kind]->exit();
}

const struct jifl_tool *jifl_tools_of(u32 kind)
{
	return kind < ARRAY_SIZE(jifl_tools) ? jifl_tools[kind] : NULL;
}

int jifl_tools_take_rings(struct jifl_session *s, unsigned int order, bool words,
			  u64 *busy_session)
{
	s->ring = (struct jifl_ring_owner){
		.session = &s->id,
		.running = &s->running,
		.reader = s->owner,
		.order = order,
		.words = words,
		.clock = s->flags & JIFL_FLAG_CLOCK,
		.waits = s->flags & JIFL_FLAG_WAIT,
	};
	return jifl_ring_open(&s->ring, busy_session);
}
