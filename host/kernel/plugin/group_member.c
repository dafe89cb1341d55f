// SPDX-License-Identifier: GPL-2.0
/*
 * The members of a group of probes, and the session that is made of them: its targets are their
 * functions, its places are theirs, in the order of addresses. group.c starts it.
 *
 * Context: process, under the mutex of probe.c; sleeps.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../enter/function.h"
#include "../enter/target.h"
#include "../session/aim.h"
#include "../tools/probe/calls.h"
#include "group.h"

static struct jifl_tool jifl_group_tool;

void jifl_group_init(void)
{
	jifl_group_tool = jifl_tool_probe_calls;
	jifl_group_tool.kind = jifl_plugin_tool.kind;
}

static int jifl_member_compare(const void *a, const void *b)
{
	const struct jifl_member *x = a, *y = b;

	if (x->probe->address != y->probe->address)
		return x->probe->address < y->probe->address ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

struct jifl_probe_group *jifl_group_alloc(probe_t *probes, u32 n)
{
	struct jifl_probe_group *g;
	u32 i;

	g = JIFL_ALLOC(kvzalloc(struct_size(g, members, n), GFP_KERNEL));
	if (!g)
		return NULL;
	g->calls = JIFL_ALLOC(kvcalloc(n, sizeof(*g->calls), GFP_KERNEL));
	if (!g->calls) {
		kvfree(g);
		return NULL;
	}
	g->n = n;
	for (i = 0; i < n; i++)
		g->members[i] = (struct jifl_member){ .probe = &probes[i], .order = i };
	sort(g->members, n, sizeof(*g->members), jifl_member_compare, NULL);
	for (i = 0; i < n; i++)
		g->calls[i] = jifl_plugin_probe_call(g->members[i].probe);
	return g;
}

void jifl_group_free(struct jifl_probe_group *g)
{
	kvfree(g->calls);
	kvfree(g);
}

static u32 jifl_group_functions(const struct jifl_probe_group *g)
{
	u32 i, functions = 0;

	for (i = 0; i < g->n; i++)
		functions += !i ||
			     g->members[i].probe->function != g->members[i - 1].probe->function;
	return functions;
}

/* Do all members of the function that begins with member i want no door? */
static bool jifl_group_is_seldom(const struct jifl_probe_group *g, u32 i)
{
	const unsigned long function = g->members[i].probe->function;

	for (; i < g->n && g->members[i].probe->function == function; i++)
		if (!(g->members[i].probe->where & PROBE_SELDOM))
			return false;
	return true;
}

/* Adds the function of member i to the session. NULL, or why it is refused; *ret: its code. */
static const char *jifl_group_add(struct jifl_probe_group *g, struct jifl_session *s, u32 index,
				  u32 i, bool doors, int *ret)
{
	const unsigned long function = g->members[i].probe->function;
	const enum jifl_refusal refused = jifl_function_refusal(function);
	u32 kind = JIFL_TARGET_FUNCTION;

	*ret = -EILSEQ;
	if (refused && refused != JIFL_REFUSED_SITE && refused != JIFL_REFUSED_TAKEN &&
	    refused != JIFL_REFUSED_PATCHED)
		return jifl_plugin_refusal(refused);
	if (!doors || refused || jifl_group_is_seldom(g, i))
		kind = JIFL_TARGET_INSIDE;
	*ret = jifl_aim_add(s, index, kind, function);
	if (*ret == -EBUSY)
		*ret = jifl_aim_add(s, index, JIFL_TARGET_INSIDE, function);
	return *ret == -ENOENT ? "its module is going" : NULL;
}

/*
 * Is the instruction still there that each call was made for? Its module stays from now on. And the
 * plugin's own module is live, so its functions can be looked at.
 */
static int jifl_group_prepare_calls(const struct jifl_probe_group *g)
{
	struct ir_insn insn;
	u32 i;

	for (i = 0; i < g->n; i++) {
		const struct ir_insn *known = &g->calls[i]->insn;
		const probe_t *probe = g->members[i].probe;

		if (jifl_probe_guard(jifl_plugin_probe_call(g->members[i].probe)))
			return jifl_plugin_probe_mistake(probe, -E2BIG, "probe_start",
							 "a function that is not inlined, or calls others, has five arguments at most");
		if (!jifl_probe_decode(probe->address, &insn) || insn.len != known->len ||
		    memcmp(insn.bytes, known->bytes, insn.len))
			return jifl_plugin_probe_mistake(probe, -EILSEQ, "probe_start",
							 "the code there has changed: initialise the probe again");
		cond_resched();
	}
	return 0;
}

/* Fills the session's targets and places. */
static int jifl_group_fill(struct jifl_probe_group *g, struct jifl_session *s, bool doors)
{
	const char *mistake;
	u32 i, target = 0;
	int ret = 0;

	for (i = 0; i < g->n; i++) {
		const probe_t *probe = g->members[i].probe;

		if (!i || probe->function != g->members[i - 1].probe->function) {
			mistake = jifl_group_add(g, s, target, i, doors, &ret);
			if (mistake)
				jifl_plugin_probe_mistake(probe, ret, "probe_start", mistake);
			if (ret)
				return ret;
			target++;
			cond_resched();
		}
		s->splices[i] = (struct jifl_splice){
			.address = probe->address,
			.target = target - 1,
			.where = probe->where & ~PROBE_SELDOM,
		};
	}
	return jifl_group_prepare_calls(g);
}

struct jifl_session *jifl_group_session(struct jifl_probe_group *g, struct jifl_plugin *p,
					bool doors, int *ret)
{
	struct jifl_session *s = jifl_session_alloc(jifl_group_functions(g));

	*ret = -ENOMEM;
	if (!s)
		return NULL;
	s->splices = JIFL_ALLOC(kvcalloc(g->n, sizeof(*s->splices), GFP_KERNEL));
	if (s->splices)
		*ret = jifl_group_fill(g, s, doors);
	if (*ret) {
		jifl_session_free(s);
		return NULL;
	}
	s->nsplices = g->n;
	s->only = true;
	s->tool_data = g->calls;
	s->tool = &jifl_group_tool;
	strscpy(s->name, p->name, sizeof(s->name));
	return s;
}
