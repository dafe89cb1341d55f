// SPDX-License-Identifier: GPL-2.0
/*
 * The tool probe: counts executions of places in functions: before an instruction, or on one way of
 * a branch on a condition. For all callers, in all contexts.
 *
 * Why each execution of a place is counted once, from the return of JIFL_IOC_START on:
 *
 * 1. An execution of the instruction is one of a copy or one of the original text.
 * 2. Each copy that was made since jifl_probe_publish has the counter, in whatever context, also of
 *    sessions that have ended (jifl_engine_everywhere). Copies from before were dropped then. A
 *    thread inside one of them goes on in a new copy at its next instruction.
 * 3. An execution of the original text meets the breakpoint (set.c), or the session says that some
 *    may not have. There it is counted, or it becomes one of a copy (catch.c). It is not counted in
 *    the handler of a kprobe: the kernel counts those.
 * 4. What the door skips, at a function's beginning, has no breakpoint, because the door stands
 *    there. A call comes to it by the door, or in a copy. At the door, the entry piece counts it,
 *    or jifl_probe_passes if the call passes. In a copy, the block where the function begins counts
 *    it, if it runs on behind the site. If it ends before the site the copy leads to the door,
 *    which counts.
 * 5. A counter is a word for each processor (engine/emit/count.c has the proof). Its figure is the
 *    sum over all possible processors.
 * 6. At the end the table is withdrawn first, so no new copy has the counter. Then the breakpoints
 *    go and copies with the counter are dropped. jifl_evict stops the machine and waits for RCU
 *    tasks after that: no thread is between the two instructions of a counter any more. Counters
 *    are freed after jifl_evict, with the session.
 *
 * What is counted twice. The counter stands before the instruction, and a thread that has run the
 * counter may come to the instruction anew:
 *
 *  - The thread is interrupted between the two, or it sleeps in a page fault of the instruction.
 *    Meanwhile its block is dropped, so it goes on in a new one. A block is dropped when the kernel
 *    changes a byte of it, and when a session of this tool with a place in it begins or ends.
 *  - The same, and meanwhile jifl_evict replaces the thread's address by that of the original: when
 *    another session ends in whose context the thread is, and when the cache is emptied. The thread
 *    meets the breakpoint then.
 *  - The instruction runs natively under its breakpoint, and faults. When it is executed again,
 *    each kprobe has another hit.
 *
 * To go on behind the counter, the thread would need a copy of its own that begins without one, and
 * natively a mark that outlasts its sleep. The ways of branches have no such case: no place on an
 * edge is exact (engine/emit/inserts.c), so a thread there runs the counter and nothing else.
 *
 * What is not counted, of what the door skips: a call where RCU does not watch, because nothing is
 * looked up there (session/choose.c); and a call inside the handler of a tracer that has the same
 * function, where several have its site: ftrace calls nobody in such a recursion. The door does not
 * hear of these calls.
 *
 * Contexts: instrumenting: under the engine lock; entries: under jifl_entry_lock;
 * jifl_probe_passes: any; the others sleep.
 */
#include <linux/cpumask.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/stop_machine.h>
#include <linux/string.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/compat.h"
#include "../../store/answer.h"
#include "../../store/counters.h"
#include "../../search.h"
#include "../../call/count.h"
#include "../../call/program.h"
#include "../../call/whose.h"
#include "../../enter/target.h"
#include "../../text/jump.h"
#include "../../text/overlay.h"
#include "../tools.h"
#include "probe.h"
#include "act.h"
#include "calls.h"
#include "front.h"

/* --- making ----------------------------------------------------------------------------- */

static int jifl_probe_refuse(struct jifl_session *s, u32 n, enum jifl_splice_refusal why)
{
	s->splices[n].refused = why;
	s->refused_splice = n;
	return -EILSEQ;
}

/* Each place is asked about: who has thousands leaves out all that cannot be probed, at once. */
static int jifl_probe_fill_all(struct jifl_session *s, struct jifl_probe *p)
{
	struct jifl_probe_part part = {};
	u32 i, first = s->nsplices;

	for (i = 0; i < s->nsplices; i++) {
		cond_resched();
		s->splices[i].refused = jifl_probe_fill(s, &s->splices[i], &p->places[i], &part);
	}
	jifl_probe_refuse_kernels(s);
	for (i = s->nsplices; i--;)
		if (s->splices[i].refused)
			first = i;
	if (first < s->nsplices)
		return jifl_probe_refuse(s, first, s->splices[first].refused);
	p->counters = jifl_counters_open(s->nsplices);
	if (!p->counters)
		return -ENOMEM;
	for (i = 0; i < s->nsplices; i++)
		p->places[i].counter = jifl_counters_at(p->counters, i);
	p->nplaces = s->nsplices;
	return 0;
}

/* Places of one address stand side by side. */
static void jifl_probe_find_sites(struct jifl_probe *p)
{
	struct jifl_probe_site *site = NULL;
	u32 i;

	for (i = 0; i < p->nplaces; i++) {
		if (p->places[i].skipped)
			continue;
		if (!site || p->places[site->first].address != p->places[i].address) {
			site = &p->sites[p->nsites++];
			site->owner = p;
			site->first = i;
		}
		site->n++;
		p->places[i].site = site;
	}
}

/* What the session's programs need. */
static int jifl_probe_open_programs(const struct jifl_session *s, struct jifl_probe *p)
{
	const struct jifl_programs *programs = s->programs;
	int ret = 0;

	if (!programs)
		return 0;
	if (programs->bpf && !jifl_act_bpf_may())
		return -EINVAL;
	p->room = JIFL_ALLOC(alloc_percpu(struct jifl_act_room));
	if (!p->room)
		return -ENOMEM;
	/* Objects have a table of their own. They may be stacks, too. */
	if (programs->groups && (!programs->objects || programs->stacks))
		ret = jifl_groups_open(&p->groups, programs->stacks);
	if (!ret && programs->records)
		ret = jifl_hit_ring_open(&p->ring, programs->ring, false);
	return ret ?: jifl_fronts_open(p, programs);
}

int jifl_probe_open(struct jifl_session *s, u64 *busy_session)
{
	struct jifl_probe *p = JIFL_ALLOC(kzalloc(sizeof(*p), GFP_KERNEL));
	int ret;

	if (!p)
		return -ENOMEM;
	s->tool_data = p;
	p->session = s;
	INIT_LIST_HEAD(&p->list);
	p->places = JIFL_ALLOC(kvcalloc(s->nsplices, sizeof(*p->places), GFP_KERNEL));
	p->sites = JIFL_ALLOC(kvcalloc(s->nsplices, sizeof(*p->sites), GFP_KERNEL));
	p->leaving = JIFL_ALLOC(kvcalloc(s->nsplices, sizeof(*p->leaving), GFP_KERNEL));
	if (s->programs || s->tool->calls_functions)
		p->works = JIFL_ALLOC(kvcalloc(s->nsplices, sizeof(*p->works), GFP_KERNEL));
	if (!p->places || !p->sites || !p->leaving ||
	    ((s->programs || s->tool->calls_functions) && !p->works))
		return -ENOMEM;
	ret = jifl_probe_open_programs(s, p) ?: jifl_probe_fill_all(s, p);
	if (!ret)
		jifl_probe_find_sites(p);
	return ret;
}

void jifl_probe_close(struct jifl_session *s)
{
	struct jifl_probe *p = s->tool_data;

	if (!p)
		return;
	if (p->had_own)
		jifl_int3_free();
	jifl_hit_ring_close(p->inlined);
	jifl_hit_ring_close(p->ring);
	jifl_groups_close(p->groups);
	free_percpu(p->room);
	jifl_counters_close(p->counters);
	jifl_fronts_close(p);
	kvfree(p->places);
	kvfree(p->works);
	kvfree(p->sites);
	kvfree(p->leaving);
	kfree(p);
	s->tool_data = NULL;
}

void jifl_probe_detach(struct jifl_session *s)
{
	jifl_probe_withdraw(s->tool_data);
	jifl_probe_clear(s->tool_data);
}

void jifl_probe_ended(struct jifl_session *s)
{
	jifl_probe_cleared(s->tool_data);
}

static int jifl_probe_nothing(void *unused)
{
	return 0;
}

void jifl_probe_wait(void)
{
	stop_machine(jifl_probe_nothing, NULL, NULL);
	synchronize_rcu_tasks();
}

/*
 * The session does not come to run, so jifl_evict is not called for it. No thread has entered its
 * context (jifl_probe.leads). Copies of other sessions may have its counters: step 6.
 */
static void jifl_probe_give_up(struct jifl_session *s)
{
	jifl_probe_detach(s);
	jifl_probe_wait();
	jifl_probe_cleared(s->tool_data);
}

int jifl_probe_attach(struct jifl_session *s)
{
	struct jifl_probe *p = s->tool_data;
	enum jifl_splice_refusal why = JIFL_SPLICE_OK;
	u32 bad = 0;
	int ret = jifl_probe_publish(p);

	if (ret)
		return ret;
	ret = jifl_probe_set(p, &bad, &why);
	if (ret) {
		jifl_probe_give_up(s);
		if (ret == -EILSEQ)
			jifl_probe_refuse(s, p->sites[bad].first, why);
		return ret;
	}
	/* From here on the session runs to its end. Nobody asks for its list of places any more. */
	kvfree(s->splices);
	s->splices = NULL;
	s->nsplices = 0;
	smp_store_release(&p->leads, true);
	return 0;
}

/* --- what the door skips ------------------------------------------------------------------ */

/* The first place at the address or behind it. */
static u32 jifl_probe_place_from(const struct jifl_probe *p, unsigned long address)
{
	return jifl_first(i, p->nplaces, p->places[i].address < address);
}

/* The places that the aim's door skips. There are two at most: the endbr64 and the site. */
#define for_each_skipped(i, p, aim)						\
	for ((i) = jifl_probe_place_from((p), (aim)->target->id);		\
	     (i) < (p)->nplaces && (p)->places[i].address < (aim)->target->address; (i)++) \
		if ((p)->places[i].skipped && (p)->places[i].aim == (aim))

void jifl_probe_entry(struct jifl_aim *aim, struct ir_insert *entry, u32 *nentry,
		      struct ir_insert *exit, u32 *nexit)
{
	const struct jifl_probe *p = aim->session->tool_data;
	u32 i;

	*nentry = 0;
	*nexit = 0;
	for_each_skipped(i, p, aim)
		if (*nentry < JIFL_ENTRY_INSERTS)
			entry[(*nentry)++] = (struct ir_insert){
				.kind = IR_INSERT_COUNT,
				.counter = (unsigned long)p->places[i].counter,
				.convention = true,
			};
}

void jifl_probe_passes(struct jifl_aim *aim)
{
	const struct jifl_probe *p = aim->session->tool_data;
	u32 i;

	for_each_skipped(i, p, aim)
		this_cpu_inc(*p->places[i].counter);
}

/* --- reading --------------------------------------------------------------------------------- */

static u32 jifl_probe_end(const void *table)
{
	const struct jifl_probe *p = table;

	return p->nplaces;
}

static void jifl_probe_answer(const void *table, u32 i, void *answer)
{
	const struct jifl_probe *p = table;
	const struct jifl_probe_place *place = &p->places[i];
	const struct jifl_probe_site *site = place->site;
	struct jifl_hits *hits = answer;
	int cpu;

	*hits = (struct jifl_hits){ .caught = site ? atomic64_read(&site->caught) : 0 };
	if (place->work) {
		hits->untested = atomic64_read(&place->work->untested);
		hits->nested = atomic64_read(&place->work->nested);
		hits->unrun = atomic64_read(&place->work->unrun);
	}
	if (READ_ONCE(place->refused))
		hits->flags |= JIFL_HITS_NO_ROOM;
	if (site && READ_ONCE(site->lifted))
		hits->flags |= JIFL_HITS_SWITCHED_OFF;
	for_each_possible_cpu(cpu)
		hits->hits += READ_ONCE(*per_cpu_ptr(place->counter, cpu));
}

static void jifl_probe_rest(const void *table, struct jifl_table_read *req)
{
	const struct jifl_probe *p = table;

	req->rest[JIFL_HITS_MOVED] = atomic64_read(&p->moved);
	req->rest[JIFL_HITS_MISSED] = jifl_probe_missed(p);
}

static const struct jifl_answer jifl_probe_table = {
	.size = sizeof(struct jifl_hits),
	.end = jifl_probe_end,
	.fill = jifl_probe_answer,
	.rest = jifl_probe_rest,
};

/* Of sessions with programs. */
const struct jifl_answer *jifl_probe_other(const struct jifl_session *s, u32 table,
					   const void **of)
{
	const struct jifl_probe *p = s->tool_data;

	if (!p)
		return NULL;
	*of = p->groups;
	if (table == JIFL_TABLE_GROUPS && p->groups)
		return &jifl_groups_answer;
	if (table == JIFL_TABLE_STACKS && p->groups && s->programs->stacks)
		return &jifl_groups_stacks_answer;
	return NULL;
}

static int jifl_probe_hits(const struct jifl_session *s, struct jifl_hit_read *req)
{
	const struct jifl_probe *p = s->tool_data;

	return jifl_hit_rings_read(p->inlined, p->ring, req);
}

static int jifl_probe_init(void)
{
	jifl_probe_find_kernels();
	jifl_peek_init();
	jifl_compat_irq_stack_init();
	jifl_overlay_init(jifl_probe_caught, jifl_probe_lifted, jifl_int3_beneath);
	jifl_jump_handle(jifl_probe_caught_in_gate);
	return jifl_groups_init() ?: jifl_act_bpf_init() ?: jifl_int3_init();
}

const struct jifl_tool jifl_tool_probe = {
	.name = "probe",
	.kind = JIFL_KIND_PROBE,
	.flags = JIFL_FLAG_ADOPT,
	.calls = JIFL_CALLS_UNCOUNTED,
	.alone = true,
	.places = true,
	.table = &jifl_probe_table,
	.other_table = jifl_probe_other,
	.hits = jifl_probe_hits,
	.init = jifl_probe_init,
	.exit = jifl_int3_exit,
	.open = jifl_probe_open,
	.close = jifl_probe_close,
	.attach = jifl_probe_attach,
	.detach = jifl_probe_detach,
	.ended = jifl_probe_ended,
	.passes = jifl_probe_passes,
	.entry = jifl_probe_entry,
};

/* --- for plugins -------------------------------------------------------------------------- */

static int jifl_probe_open_calls(struct jifl_session *s, u64 *busy_session)
{
	const struct jifl_probe_call *const *calls = s->tool_data;
	struct jifl_probe *p;
	u32 i;
	int ret;

	s->tool_data = NULL;
	ret = jifl_probe_open(s, busy_session);
	if (ret)
		return ret;
	p = s->tool_data;
	for (i = 0; i < p->nplaces; i++)
		p->works[i].call = calls[i];
	return 0;
}

/*
 * A plugin's session is read by nobody: its functions are called. It adopts no thread. Its kind is
 * that of plugins, which plugin/ knows.
 */
const struct jifl_tool jifl_tool_probe_calls = {
	.name = "plugin",
	.calls = JIFL_CALLS_UNCOUNTED,
	.alone = true,
	.places = true,
	.calls_functions = true,
	.is_plugin = true,
	.open = jifl_probe_open_calls,
	.close = jifl_probe_close,
	.attach = jifl_probe_attach,
	.detach = jifl_probe_detach,
	.ended = jifl_probe_ended,
	.passes = jifl_probe_passes,
	.entry = jifl_probe_entry,
};
