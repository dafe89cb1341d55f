// SPDX-License-Identifier: GPL-2.0
/*
 * The places of all sessions of the tool probe, in the order of their addresses: what is inserted
 * into a block, in whatever context it is translated.
 *
 * Context: the table is written under jifl_session_mutex, which may sleep, and exchanged under the
 * engine lock. It is read under the engine lock alone.
 */
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/sort.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../search.h"
#include "../../call/whose.h"
#include "../../enter/target.h"
#include "../../session/mix.h"
#include "../../text/jump.h"
#include "probe.h"
#include "act.h"
#include "calls.h"
#include "front.h"

struct jifl_probe_row {
	unsigned long address;
	struct jifl_probe_place *place;
};

static LIST_HEAD(jifl_probes);			/* jifl_session_mutex */
static struct jifl_probe_row *jifl_probe_rows;	/* both: the engine lock */
static u32 jifl_probe_nrows;
/*
 * Registers and flags that programs of the table, or calls with all registers, are shown, even if
 * nobody needs them. So no insert may take those for itself.
 */
static struct jifl_probe_shown {
	u16 regs;
	bool flags;
} jifl_probe_shown;

static int jifl_probe_compare(const void *a, const void *b)
{
	const struct jifl_probe_row *x = a, *y = b;
	const struct jifl_session *s = x->place->owner->session, *t = y->place->owner->session;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	/* At one place, the order in which they were started. */
	if (s != t)
		return s->id < t->id ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

static u32 jifl_probe_count(void)
{
	const struct jifl_probe *p;
	u32 n = 0;

	list_for_each_entry(p, &jifl_probes, list)
		n += p->nplaces;
	return n;
}

/* What the places of rows are shown. Without the engine lock: there may be many rows. */
static struct jifl_probe_shown jifl_probe_look(const struct jifl_probe_row *rows, u32 n)
{
	struct jifl_probe_shown shown = {};
	u32 i;

	for (i = 0; i < n; i++) {
		const struct jifl_probe_work *work = rows[i].place->work;

		if (!work)
			continue;
		if (work->program) {
			shown.regs |= work->front->shown;
			shown.flags |= work->front->shown_flags;
		} else if (work->call && ir_insert_context(&work->call->insert)) {
			shown = (struct jifl_probe_shown){ U16_MAX, true };
		}
	}
	return shown;
}

/* Is more shown than before? */
static bool jifl_probe_shows_more(struct jifl_probe_shown before)
{
	return jifl_probe_shown.regs & ~before.regs || (jifl_probe_shown.flags && !before.flags);
}

static void jifl_probe_exchange(struct jifl_probe_row *rows, u32 n)
{
	const struct jifl_probe_shown shown = jifl_probe_look(rows, n);
	struct jifl_probe_row *old;
	unsigned long cookie;

	/* NULL while there is nothing: then a translation makes no call. */
	jifl_garbage_everywhere(n ? jifl_probe_instrument : NULL);
	cookie = jifl_host_lock();
	old = jifl_probe_rows;
	jifl_probe_rows = rows;
	jifl_probe_nrows = n;
	jifl_probe_shown = shown;
	jifl_host_unlock(cookie);
	kvfree(old);
}

/* Makes the table anew from the list. */
static int jifl_probe_rebuild(void)
{
	const u32 n = jifl_probe_count();
	struct jifl_probe_row *rows = NULL;
	struct jifl_probe *p;
	u32 i, k = 0;

	if (n) {
		rows = JIFL_ALLOC(kvmalloc_array(n, sizeof(*rows), GFP_KERNEL));
		if (!rows)
			return -ENOMEM;
	}
	list_for_each_entry(p, &jifl_probes, list)
		for (i = 0; i < p->nplaces; i++)
			if (!p->places[i].stopped)
				rows[k++] = (struct jifl_probe_row){ p->places[i].address,
								     &p->places[i] };
	if (k)
		sort(rows, k, sizeof(*rows), jifl_probe_compare, NULL);
	jifl_probe_exchange(rows, k);
	return 0;
}

/*
 * A piece that has the first instructions of a function is not dropped with copies. True: there may
 * be one. A target with a jump stays under jifl_session_mutex.
 */
static bool jifl_probe_drop_copy(const struct jifl_probe_place *place)
{
	struct jifl_target *t;

	jifl_engine_invalidate(jifl_orig_at(place->address), 1);
	rcu_read_lock();
	t = jifl_notrace_starting(place->aim->target->id);
	if (t && (!t->jump || place->address - t->address >= t->jump->len))
		t = NULL;
	rcu_read_unlock();
	if (t)
		jifl_mix_forget_pieces(t);
	return t;
}

/*
 * Copies that exist are made anew. all: not only those of places that are now stopped. True:
 * threads may be in pieces from before.
 */
static bool jifl_probe_drop_copies(const struct jifl_probe *p, bool all)
{
	bool pieces = false;
	u32 i;

	for (i = 0; i < p->nplaces; i++)
		if (all || (p->places[i].stopped && !p->places[i].lifted))
			pieces |= jifl_probe_drop_copy(&p->places[i]);
	return pieces;
}

int jifl_probe_publish(struct jifl_probe *p)
{
	const struct jifl_probe_shown before = jifl_probe_shown;
	const struct jifl_probe *each;
	bool pieces = false;
	int ret;

	list_add(&p->list, &jifl_probes);
	ret = jifl_probe_rebuild();
	if (ret) {
		list_del_init(&p->list);
		return ret;
	}
	/* Copies from before have inserts that take what is to be shown. */
	list_for_each_entry(each, &jifl_probes, list)
		if (each == p || jifl_probe_shows_more(before))
			pieces |= jifl_probe_drop_copies(each, true);
	if (pieces)
		jifl_probe_wait();
	return 0;
}

/* The rows of p, or of its places that are stopped, are gone. Sorted rows stay sorted. */
static void jifl_probe_remove_rows(const struct jifl_probe *p, bool all)
{
	struct jifl_probe_shown shown;
	unsigned long cookie;
	u32 i, k = 0;

	cookie = jifl_host_lock();
	for (i = 0; i < jifl_probe_nrows; i++)
		if (jifl_probe_rows[i].place->owner != p ||
		    (!all && !jifl_probe_rows[i].place->stopped))
			jifl_probe_rows[k++] = jifl_probe_rows[i];
	jifl_probe_nrows = k;
	jifl_host_unlock(cookie);
	/* What fewer places are shown. Copies that are made before keep more than they need. */
	shown = jifl_probe_look(jifl_probe_rows, k);
	cookie = jifl_host_lock();
	jifl_probe_shown = shown;
	jifl_host_unlock(cookie);
}

void jifl_probe_withdraw(struct jifl_probe *p)
{
	list_del_init(&p->list);
	jifl_probe_remove_rows(p, true);
	if (list_empty(&jifl_probes))
		jifl_probe_exchange(NULL, 0);
	jifl_probe_drop_copies(p, true);
}

void jifl_probe_withdraw_stopped(struct jifl_probe *p)
{
	jifl_probe_remove_rows(p, false);
	if (!JIFL_HOST_PLANTED(calls_kept))
		jifl_probe_drop_copies(p, false);
}

/* The first row at addr or behind it. */
static u32 jifl_probe_first(unsigned long addr)
{
	return jifl_first(i, jifl_probe_nrows, jifl_probe_rows[i].address < addr);
}

/*
 * Of what a door skips, the entry piece counts calls that come by the door. A block counts calls
 * that do not: it begins where the function does, and goes on behind the site. A block that ends
 * before the site leads to the door.
 */
static bool jifl_probe_is_doors(const struct ir_block *b, const struct jifl_probe_place *place)
{
	return place->skipped && b->addr.v + b->src_len < place->aim->target->address;
}

void jifl_probe_keep_all(struct ir_insert *ins)
{
	ins->keeps = jifl_probe_shown.regs;
	ins->keeps_flags = jifl_probe_shown.flags;
}

static void jifl_probe_insert_count(struct ir_insert *ins, const struct jifl_probe_place *place)
{
	ins->kind = IR_INSERT_COUNT;
	ins->counter = (unsigned long)place->counter;
}

/* Calls fn with the place and all registers. */
static void jifl_probe_insert_act(struct ir_insert *ins, struct jifl_probe_place *place,
				  void (*fn)(struct jifl_probe_place *, struct pt_regs *))
{
	ins->kind = IR_INSERT_CALL;
	ins->fn = (unsigned long)fn;
	ins->nargs = 2;
	ins->args[0] = (unsigned long)place;
	ins->fetched = 1u << 1;
	/* Text is in the highest 2 GiB, so the low half says it all. */
	ins->fetches[1] = (struct ir_fetch){ .how = IR_FETCH_CONTEXT, .base = IR_REG_NONE,
					     .index = IR_REG_NONE, .scale = 1,
					     .disp = (s32)place->address };
}

/* Counts, and records numbers; leaves to jifl_act_rest what it cannot do. */
static void jifl_probe_insert_hit(struct ir_insert *ins, struct jifl_probe_place *place)
{
	ins->kind = IR_INSERT_HIT;
	ins->hit = &place->work->front->hit;
	ins->imm = jifl_hit_ring_word(ins->hit, place - place->owner->places);
	ins->counter = (unsigned long)place->counter;
	ins->fn = (unsigned long)jifl_act_rest;
	ins->args[0] = (unsigned long)place;
	ins->args[1] = place->address;
}

/* What inserted code can do of the program; a long insert. */
static void jifl_probe_insert_front(struct ir_insert *ins, struct jifl_probe_place *place)
{
	const struct jifl_front *front = place->work->front;

	if (front->is_made) {
		ins->terms = &front->terms;
		ins->unknown = (unsigned long)&place->work->untested;
	}
	if (front->records)
		jifl_probe_insert_hit(ins, place);
	else if (front->counts)
		jifl_probe_insert_count(ins, place);
	else
		jifl_probe_insert_act(ins, place, jifl_act_rest);
}

static void jifl_probe_insert(struct ir_block *b, struct jifl_probe_place *place, u16 at)
{
	static const u8 places[] = {
		[JIFL_SPLICE_BEFORE] = IR_BEFORE,
		[JIFL_SPLICE_TAKEN] = IR_TAKEN,
		[JIFL_SPLICE_NOT_TAKEN] = IR_AFTER,
	};
	struct ir_insert *ins;
	bool has_front;

	if (place->where != JIFL_SPLICE_BEFORE && !ir_kind_is_conditional(b->insns[at].kind))
		return;
	if (jifl_probe_call(place)) {
		jifl_probe_insert_call(b, place, at);
		return;
	}
	/* Where there is no room for a long insert, the interpreter does it all. */
	has_front = jifl_probe_program(place) &&
		    (place->work->front->is_made || place->work->front->records) &&
		    ir_block_has_room(b, IR_INSERT_LONG);
	if (has_front)
		ins = ir_block_insert_long(b, places[place->where], at);
	else
		ins = ir_block_insert(b, places[place->where], at);
	if (!ins) {
		WRITE_ONCE(place->refused, true);
		return;
	}
	if (has_front)
		jifl_probe_insert_front(ins, place);
	else if (jifl_probe_program(place))
		jifl_probe_insert_act(ins, place, jifl_act);
	else
		jifl_probe_insert_count(ins, place);
	jifl_probe_keep_all(ins);
}

void jifl_probe_instrument(struct ir_block *b, void *unused)
{
	u32 row = jifl_probe_first(b->addr.v);
	u16 at = 0, n = 0;

	for (; row < jifl_probe_nrows; row++) {
		const unsigned long address = jifl_probe_rows[row].address;
		struct jifl_probe_place *place = jifl_probe_rows[row].place;

		if (address >= b->addr.v + b->src_len)
			return;
		while (at < b->ninsns && b->insns[at].addr.v < address)
			at++;
		if (at < b->ninsns && b->insns[at].addr.v == address &&
		    !jifl_probe_is_doors(b, place) &&
		    (++n <= 4 || !JIFL_HOST_PLANTED(places_crowded)))
			jifl_probe_insert(b, place, at);
	}
}
