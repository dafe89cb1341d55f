/* SPDX-License-Identifier: GPL-2.0 */
/* The tools: those of JIFL_TOOLS (include/uapi/jifl.h), each in a file or folder of its own. */
#ifndef JIFL_HOST_TOOLS_H
#define JIFL_HOST_TOOLS_H

#include "../call/tool.h"
#include "../../../include/uapi/jifl.h"

#define JIFL_TOOL_DECLARE(kind, tool, number) extern const struct jifl_tool jifl_tool_##tool;
JIFL_TOOLS(JIFL_TOOL_DECLARE)
#undef JIFL_TOOL_DECLARE

/* Calls their inits. 0, or -errno after a line in the log. Sleeps. */
int jifl_tools_init(void);
void jifl_tools_exit(void);
/* The tool of that kind, for JIFL_IOC_START; NULL: there is none. Any context. */
const struct jifl_tool *jifl_tools_of(u32 kind);
/*
 * For open, of tools that record: s takes the rings, which its end gives back. order: log 2 of
 * the records of a ring; words: records may carry words. As jifl_ring_open.
 */
int jifl_tools_take_rings(struct jifl_session *s, unsigned int order, bool words,
			  u64 *busy_session);

#endif
