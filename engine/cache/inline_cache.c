// SPDX-License-Identifier: GPL-2.0
/*
 * Indirect branches: the inline cache of a site has a compare and a branch for each target it
 * meets, up to CACHE_CHAIN_MAX; then the site uses its context's hash lookup, whose table lies in
 * the cache's own memory so that code reaches it by a 32-bit address. Where lookups leave by plain
 * jumps, the table leads to landings (emit/stubs.c): a block has one from the first time on that a
 * lookup is to find it, and it goes over to what becomes of the block. Where unprotected jumps may
 * be executed there are no inline caches (targets.c).
 *
 * An inline cache is made anew for each target that is added, and once more when its
 * order is known (training.c); one store to the site's branch puts it in the old one's
 * place. Who executes the old one goes on as if there had been no other: its links
 * are kept up like all exits'.
 */
#include "cache.h"
#include "../base/plant.h"
#include "../host.h"

static void cold_end(const struct x86_writer *w)
{
	jifl_host_code_write(jifl_pos_at(w->start), w->buf, w->len);
	cache.cold += w->len;
}

/* Code is put off the hot path: the writer for so much of it, and its end. */
static struct x86_writer cold_begin(u8 *buf, u32 cap)
{
	return (struct x86_writer){ .buf = buf, .cap = cap, .start = cache.cold,
				    .code_base = cache.code_base };
}

static u32 exit_new(u8 kind, u32 block, u32 site, u32 stub, jifl_orig target)
{
	struct cache_exit *x = &cache.exits[cache.nexits];

	memset(x, 0, sizeof(*x));
	x->kind = kind;
	x->block = block;
	x->site = site;
	x->stub = stub;
	x->target = (u32)target.v;
	x->next = CACHE_NONE;
	return cache.nexits++;
}

void jifl_cache_lookup_reset(struct cache_context *c)
{
	c->lookup = CACHE_NONE;
	c->gate = CACHE_NONE;
	c->table = CACHE_NONE;
	c->targets = 0;
}

/* The gate: jmp to the lookup, while there is none to push $exit; jmp dispatch_indirect. */
int jifl_cache_lookup_create(int context)
{
	struct cache_context *c = &cache.contexts[context];
	u8 buf[32];
	struct x86_writer w;

	if (c->lookup != CACHE_NONE)
		return 0;
	if (!jifl_cache_has_room(0, sizeof(buf)))
		return -JIFL_ENOMEM;
	w = cold_begin(buf, sizeof(buf));
	c->lookup = w.start;
	c->gate = w.start;
	c->gate_site = x86_jmp(&w, 0);
	x86_set_rel32(&w, c->gate_site, x86_here(&w));
	x86_push_imm(&w, (s32)cache.nexits);
	x86_jmp(&w, cache.config.dispatch_indirect);
	cold_end(&w);
	c->lookup_exit = exit_new(CACHE_EXIT_LOOKUP, context, 0, 0, jifl_orig_at(0));
	return 0;
}

/* Most contexts never have a site with so many targets, and do without a table. */
static int make_table(struct cache_context *c)
{
	u8 buf[160];
	struct x86_writer w;
	u32 i;

	if (!jifl_cache_has_room(0, (8u << cache.lookup_bits) + sizeof(buf) + 8))
		return -JIFL_ENOMEM;
	cache.cold = (cache.cold + 7) & ~7u;
	c->table = cache.cold;
	for (i = 0; i < 1u << cache.lookup_bits; i++)
		jifl_host_code_store64(jifl_pos_at(c->table + 8 * i), 0);
	cache.cold += 8u << cache.lookup_bits;
	w = cold_begin(buf, sizeof(buf));
	emit_hash_lookup(&w, &cache.config, cache_address(c->table), cache.lookup_bits,
			 c->lookup_exit);
	cold_end(&w);
	jifl_host_code_store32(jifl_pos_at(c->gate_site), x86_rel32(c->gate_site, w.start));
	c->lookup = w.start;	/* new code need not go through the gate */
	return 0;
}

static u32 table_slot(const struct cache_context *c, u32 orig)
{
	return c->table + 8 * ((orig >> EMIT_HASH_SHIFT) & ((1u << cache.lookup_bits) - 1));
}

/* No other exit off the hot path has its stub right behind it. */
bool jifl_cache_is_landing(const struct cache_exit *x)
{
	return x->kind == CACHE_EXIT_DIRECT && x->site >= cache.hot_end && x->stub == x->site + 4;
}

static u32 landing_make(u32 block)
{
	u32 len = emit_landing_len(&cache.config), site;
	u8 buf[EMIT_LANDING];
	struct x86_writer w;

	if (!jifl_cache_has_room(0, sizeof(buf) + 8))
		return CACHE_NONE;
	/* So that its rel32 is in one quadword, and at a fixed distance from its start. */
	while (((cache.cold + len) & 7) > 4)
		cache.cold++;
	w = cold_begin(buf, sizeof(buf));
	site = emit_landing(&w, &cache.config, cache.nexits);
	cold_end(&w);
	jifl_cache_exit_add(exit_new(CACHE_EXIT_DIRECT, block, site, site + 4,
				     cache_orig(cache.blocks[block].orig)));
	return w.start;
}

/* Cache offset of the block's landing; CACHE_NONE: there is no memory for one. */
static u32 landing_of(u32 block)
{
	u32 exit;

	for (exit = cache.blocks[block].links; exit != CACHE_NONE; exit = cache.exits[exit].next)
		if (jifl_cache_is_landing(&cache.exits[exit]))
			return cache.exits[exit].site - emit_landing_len(&cache.config);
	return landing_make(block);
}

void jifl_cache_lookup_store(int context, jifl_orig addr, u32 block)
{
	struct cache_context *c = &cache.contexts[context];
	u32 to;

	if (jifl_cache_targets_store(c, addr, block))
		return;
	/* Without a table, or a landing, the dispatcher finds the block each time. */
	if (c->table == CACHE_NONE && make_table(c))
		return;
	to = cache.config.indirect_jumps ? landing_of(block) : cache.blocks[block].start;
	if (to == CACHE_NONE)
		return;
	/* One store: key and value are always seen together. */
	jifl_host_code_store64(jifl_pos_at(table_slot(c, (u32)addr.v)),
			       (u64)(u32)addr.v | cache_address(to) << 32);
}

void jifl_cache_lookup_forget(const struct cache_block *b)
{
	const struct cache_context *c = &cache.contexts[b->context];

	if (JIFL_PLANTED(lookup_not_forgotten))
		return;
	jifl_cache_targets_forget(c, cache_orig(b->orig));
	if (c->table != CACHE_NONE)
		jifl_host_code_store64(jifl_pos_at(table_slot(c, b->orig)), 0);
}

/*
 * True when x's inline cache has the block already: another CPU was faster, or the block is new
 * for a target that was in there. A block has one indirect branch, so its exits off the hot path
 * are that one's.
 */
static bool has_hit(const struct cache_exit *x, u32 block)
{
	u32 exit;

	for (exit = cache.blocks[block].links; exit != CACHE_NONE; exit = cache.exits[exit].next)
		if (cache.exits[exit].block == x->block &&
		    cache.exits[exit].site >= cache.hot_end &&
		    !jifl_cache_is_landing(&cache.exits[exit]))
			return true;
	return false;
}

static void lead_to(const struct cache_exit *x, u32 to)
{
	jifl_host_code_store32(jifl_pos_at(x->site), x86_rel32(x->site, to));
}

/* The hits are ordinary links, to be made before anything leads to them. */
static void add_hits(struct cache_exit *x, const struct emit_chain *chain)
{
	u32 i, hit;

	x->next = cache.nexits;
	for (i = 0; i < chain->n; i++) {
		hit = exit_new(CACHE_EXIT_DIRECT, x->block, chain->hit_sites[i], x->stub,
			       chain->targets[i]);
		jifl_cache_exit_add(hit);
	}
}

static void make_chain(struct cache_exit *x, struct emit_chain *chain)
{
	int context = cache.blocks[x->block].context;
	struct x86_writer w;
	u8 buf[EMIT_CHAIN];

	w = cold_begin(buf, sizeof(buf));
	chain->stub = x->stub;
	chain->miss = x->stub;
	if (x->chained > CACHE_CHAIN_MAX)
		chain->miss = emit_chain_end(&w, &cache.config, x->reg,
					     cache.contexts[context].lookup);
	emit_chain(&w, &cache.config, x->reg, chain);
	cold_end(&w);
	add_hits(x, chain);
	lead_to(x, chain->start);
}

u32 jifl_cache_chain_length(const struct cache_exit *x)
{
	return x->chained < CACHE_CHAIN_MAX ? x->chained : CACHE_CHAIN_MAX;
}

static void get_chain(const struct cache_exit *x, struct emit_chain *chain)
{
	u32 i;

	*chain = (struct emit_chain){ .n = jifl_cache_chain_length(x) };
	for (i = 0; i < chain->n; i++)
		chain->targets[i] = cache_orig(cache.exits[x->next + i].target);
}

/* One target more, or the lookup behind so many, which has it. */
static void grow(u32 exit, jifl_orig target)
{
	struct cache_exit *x = &cache.exits[exit];
	struct emit_chain chain;

	get_chain(x, &chain);
	if (x->chained++ < CACHE_CHAIN_MAX)
		chain.targets[chain.n++] = target;
	chain.counts = chain.n > 1 && cache.training_hits;
	if (chain.counts)
		chain.training = jifl_cache_training_begin(exit);
	make_chain(x, &chain);
}

void jifl_cache_chain_order(u32 exit, const u8 order[CACHE_CHAIN_MAX])
{
	struct cache_exit *x = &cache.exits[exit];
	struct emit_chain old, chain;
	u32 i;

	get_chain(x, &old);
	chain = old;
	for (i = 0; i < chain.n; i++)
		chain.targets[i] = old.targets[order[i]];
	make_chain(x, &chain);
}

void jifl_cache_chain_add(u32 exit, jifl_orig target, u32 block)
{
	struct cache_exit *x = &cache.exits[exit];

	if (has_hit(x, block)) {
		jifl_cache_training_check(exit);
		return;
	}
	/* Before the room is looked at: it may make the table, or a landing. */
	if (x->chained >= CACHE_CHAIN_MAX)
		jifl_cache_lookup_store(cache.blocks[block].context, target, block);
	/* Another site's training may end with a chain of its own. */
	if (x->chained <= CACHE_CHAIN_MAX && jifl_cache_has_room(0, 2 * EMIT_CHAIN))
		grow(exit, target);
}
