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
 * 3. An execution of the original text meets the breakpoint (catch.c). There it is counted, or it
 *    becomes one of a copy. It is not counted in the handler of another kprobe: the kernel counts
 *    those.
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
 * What is not counted right: A copy is dropped because its text changes, while a thread stands
 * between the counter and the instruction: the thread goes on in a new copy, and counts again. An
 * instruction that runs natively under its breakpoint and faults is executed again, and counted
 * again; so does each kprobe. A call that is made where RCU does not watch is not counted at what
 * the door skips: nothing is looked up there (session/choose.c).
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
#include "../../compat/ksym.h"
#include "../../store/answer.h"
#include "../../call/count.h"
#include "../../call/whose.h"
#include "../../enter/target.h"
#include "../../text/overlay.h"
#include "../tools.h"
#include "probe.h"

/* --- making ----------------------------------------------------------------------------- */

/* Is the address in the function, or in what the compiler has put aside of it (NAME.cold)? */
static bool jifl_probe_is_in(const struct jifl_target *t, unsigned long address)
{
	char own[KSYM_NAME_LEN], other[KSYM_NAME_LEN];
	const unsigned long start = jifl_ksym_start(address);
	size_t n;

	if (start == t->id)
		return true;
	if (!start)
		return false;
	jifl_ksym_name(t->id, own, sizeof(own));
	jifl_ksym_name(start, other, sizeof(other));
	n = strlen(own);
	return !strncmp(own, other, n) && !strncmp(other + n, ".cold", 5);
}

static enum jifl_splice_refusal jifl_probe_fill(struct jifl_session *s,
						const struct jifl_splice *from,
						struct jifl_probe_place *place)
{
	struct jifl_aim *aim = jifl_aim_at(s, from->target);

	if (!aim || aim->target->kind != JIFL_TARGET_FUNCTION || aim->condition ||
	    !jifl_probe_is_in(aim->target, from->address))
		return JIFL_SPLICE_OUTSIDE;
	place->address = from->address;
	place->where = from->where;
	place->aim = aim;
	place->skipped = from->address >= aim->target->id && from->address < aim->target->address;
	/* There are an endbr64, if the function has one, and the site. */
	if (place->skipped && from->address != aim->target->id &&
	    from->address != aim->target->address - CALL_INSN_SIZE)
		return JIFL_SPLICE_BOUNDARY;
	if (place->skipped && place->where != JIFL_SPLICE_BEFORE)
		return JIFL_SPLICE_BRANCH;
	return JIFL_SPLICE_OK;
}

static int jifl_probe_refuse(struct jifl_session *s, u32 n, enum jifl_splice_refusal why)
{
	s->splices[n].refused = why;
	s->refused_splice = n;
	return -EILSEQ;
}

static int jifl_probe_fill_all(struct jifl_session *s, struct jifl_probe *p)
{
	enum jifl_splice_refusal why;
	u32 i;

	for (i = 0; i < s->nsplices; i++) {
		why = jifl_probe_fill(s, &s->splices[i], &p->places[i]);
		if (why)
			return jifl_probe_refuse(s, i, why);
		p->places[i].counter = JIFL_ALLOC(alloc_percpu(u64));
		if (!p->places[i].counter)
			return -ENOMEM;
		p->nplaces++;
	}
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
	}
}

static int jifl_probe_open(struct jifl_session *s, u64 *busy_session)
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
	if (!p->places || !p->sites)
		return -ENOMEM;
	ret = jifl_probe_fill_all(s, p);
	if (!ret)
		jifl_probe_find_sites(p);
	return ret;
}

static void jifl_probe_close(struct jifl_session *s)
{
	struct jifl_probe *p = s->tool_data;
	u32 i;

	if (!p)
		return;
	for (i = 0; i < p->nplaces; i++)
		free_percpu(p->places[i].counter);
	kvfree(p->places);
	kvfree(p->sites);
	kfree(p);
	s->tool_data = NULL;
}

static void jifl_probe_detach(struct jifl_session *s)
{
	jifl_probe_withdraw(s->tool_data);
	jifl_probe_clear(s->tool_data);
}

static int jifl_probe_nothing(void *unused)
{
	return 0;
}

/*
 * The session does not come to run, so jifl_evict is not called for it. No thread has entered the
 * cache because of it (jifl_probe.leads). Copies of other sessions may have its counters: step 6.
 */
static void jifl_probe_give_up(struct jifl_session *s)
{
	jifl_probe_detach(s);
	stop_machine(jifl_probe_nothing, NULL, NULL);
	synchronize_rcu_tasks();
}

static int jifl_probe_attach(struct jifl_session *s)
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
	/* From here on the session runs to its end. */
	WRITE_ONCE(p->leads, true);
	return 0;
}

/* --- what the door skips ------------------------------------------------------------------ */

static void jifl_probe_entry(struct jifl_aim *aim, struct ir_insert *entry, u32 *nentry,
			     struct ir_insert *exit, u32 *nexit)
{
	const struct jifl_probe *p = aim->session->tool_data;
	u32 i;

	*nentry = 0;
	*nexit = 0;
	/* There are two at most: the endbr64 and the site. */
	for (i = 0; i < p->nplaces && *nentry < JIFL_ENTRY_INSERTS; i++)
		if (p->places[i].skipped && p->places[i].aim == aim)
			entry[(*nentry)++] = (struct ir_insert){
				.kind = IR_INSERT_COUNT,
				.counter = (unsigned long)p->places[i].counter,
				.convention = true,
			};
}

static void jifl_probe_passes(struct jifl_aim *aim)
{
	const struct jifl_probe *p = aim->session->tool_data;
	u32 i;

	for (i = 0; i < p->nplaces; i++)
		if (p->places[i].skipped && p->places[i].aim == aim)
			this_cpu_inc(*p->places[i].counter);
}

/* --- reading --------------------------------------------------------------------------------- */

static u32 jifl_probe_end(const void *table)
{
	const struct jifl_probe *p = table;

	return p->nplaces;
}

static u64 jifl_probe_caught_at(const struct jifl_probe *p, u32 place)
{
	u32 i;

	for (i = 0; i < p->nsites; i++)
		if (place - p->sites[i].first < p->sites[i].n)
			return atomic64_read(&p->sites[i].caught);
	return 0;
}

static void jifl_probe_answer(const void *table, u32 i, void *answer)
{
	const struct jifl_probe *p = table;
	struct jifl_hits *hits = answer;
	int cpu;

	*hits = (struct jifl_hits){ .caught = jifl_probe_caught_at(p, i) };
	for_each_possible_cpu(cpu)
		hits->hits += READ_ONCE(*per_cpu_ptr(p->places[i].counter, cpu));
}

static void jifl_probe_rest(const void *table, struct jifl_table_read *req)
{
	const struct jifl_probe *p = table;
	u32 i;

	req->rest[JIFL_HITS_MOVED] = atomic64_read(&p->moved);
	req->rest[JIFL_HITS_MISSED] = jifl_probe_missed(p);
	for (i = 0; i < p->nplaces; i++)
		req->rest[JIFL_HITS_REFUSED] += READ_ONCE(p->places[i].refused);
}

static const struct jifl_answer jifl_probe_table = {
	.size = sizeof(struct jifl_hits),
	.end = jifl_probe_end,
	.fill = jifl_probe_answer,
	.rest = jifl_probe_rest,
};

static int jifl_probe_init(void)
{
	jifl_overlay_init(jifl_probe_caught);
	return 0;
}

const struct jifl_tool jifl_tool_probe = {
	.name = "probe",
	.kind = JIFL_KIND_PROBE,
	.flags = JIFL_FLAG_ADOPT,
	.calls = JIFL_CALLS_UNCOUNTED,
	.alone = true,
	.interrupts = true,
	.places = true,
	.table = &jifl_probe_table,
	.init = jifl_probe_init,
	.open = jifl_probe_open,
	.close = jifl_probe_close,
	.attach = jifl_probe_attach,
	.detach = jifl_probe_detach,
	.passes = jifl_probe_passes,
	.entry = jifl_probe_entry,
};
