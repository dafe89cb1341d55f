// SPDX-License-Identifier: GPL-2.0
/* Memory of sessions: the first step of a session, and its last. Context: process; sleeps. */
#include <linux/mm.h>
#include <linux/slab.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/ring.h"
#include "../call/count.h"
#include "../call/filter.h"
#include "../call/program.h"
#include "../call/tool.h"
#include "../call/under.h"
#include "aim.h"
#include "session.h"

struct jifl_session *jifl_session_alloc(u32 ntargets)
{
	struct jifl_session *s;

	s = JIFL_ALLOC(kvzalloc(struct_size(s, aims, ntargets), GFP_KERNEL));
	if (!s)
		return NULL;
	s->ntargets = ntargets;
	return s;
}

void jifl_session_free(struct jifl_session *s)
{
	if (!s)
		return;
	jifl_ring_close(&s->ring);
	if (s->tool) {
		if (s->tool->close)
			s->tool->close(s);
		jifl_stats_free(s);
	}
	kvfree(s->inner);
	jifl_aim_free(s);
	jifl_filter_release(&s->filter);
	jifl_filter_release(&s->watched);
	kvfree(s->conditions);
	jifl_under_close(s->under);
	kvfree(s->splices);
	jifl_programs_close(s->programs);
	kvfree(s);
}
