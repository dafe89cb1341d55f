// SPDX-License-Identifier: GPL-2.0
/* The engine's interface to its host: contexts, entering, dispatching, dropping; see engine.h. */
#include "engine.h"
#include "translate.h"
#include "base/plant.h"
#include "decode/decode.h"
#include "emit/inlined.h"
#include "emit/hit.h"
#include "emit/terms.h"
#include "instrument/ahead.h"
#include "host.h"

static u64 dispatches;

int jifl_engine_init(const struct jifl_config *config)
{
	int err = jifl_decode_init(config->door);

	if (err)
		return err;
	dispatches = 0;
	jifl_translate_everywhere = NULL;
	memset(&jifl_translated, 0, sizeof(jifl_translated));
	emit_inlined_forget();
	emit_inlined_reset();
	jifl_ahead_forget();
	jifl_ahead_set_fentry(config->fentry);
	return jifl_cache_init(config);
}

void jifl_engine_forget(void)
{
	unsigned long cookie = jifl_host_lock();

	jifl_cache_reset();
	emit_inlined_reset();
	jifl_ahead_forget();
	jifl_host_unlock(cookie);
}

bool jifl_engine_erase(void)
{
	unsigned long cookie = jifl_host_lock();
	bool more = jifl_cache_erase();

	jifl_host_unlock(cookie);
	return more;
}

void jifl_engine_reset(void)
{
	jifl_engine_forget();
	while (jifl_engine_erase())
		;
}

int jifl_engine_context_create(jifl_instrument_fn fn, void *arg)
{
	unsigned long cookie = jifl_host_lock();
	int i, found = -JIFL_ENOSPC;
	bool wasted = false;

	/* A plugin may have come to the address where another plugin was. */
	emit_inlined_forget();
	for (i = 0; i < CACHE_CONTEXTS && found < 0; i++) {
		struct cache_context *c = &cache.contexts[i];

		/* Blocks of a destroyed context do not belong to this context. */
		if (c->used || c->blocks) {
			wasted |= !c->used;
			continue;
		}
		*c = (struct cache_context){ .used = true, .fn = fn, .arg = arg };
		jifl_cache_lookup_reset(c);
		found = i;
		if (cache.ncontexts <= (u32)i)
			cache.ncontexts = (u32)i + 1;
	}
	/* A reset gives back the numbers of destroyed contexts. */
	if (found < 0 && wasted)
		jifl_cache_full = true;
	jifl_host_unlock(cookie);
	return found;
}

void jifl_engine_everywhere(jifl_instrument_fn fn)
{
	unsigned long cookie = jifl_host_lock();

	jifl_translate_everywhere = fn;
	jifl_host_unlock(cookie);
}

void jifl_engine_context_limit(int context, jifl_leaves_fn leaves)
{
	unsigned long cookie = jifl_host_lock();

	cache.contexts[context].limited = true;
	cache.contexts[context].leaves = leaves;
	jifl_host_unlock(cookie);
}

u32 jifl_engine_memory(const struct ir_insn *insn, struct ins_memory *m, u32 max)
{
	return jifl_decode_memory(insn, m, max);
}

u32 jifl_engine_accesses(const struct ir_insn *insn, struct ins_memory *m, u32 max)
{
	return jifl_decode_accesses(insn, m, max);
}

u8 jifl_engine_bit_register(const struct ir_insn *insn)
{
	return jifl_decode_bit_register(insn);
}

bool jifl_engine_stack_moves(const struct ir_insn *insn, s32 *by)
{
	return jifl_decode_stack_moves(insn, by);
}

void jifl_engine_uses(const struct ir_insn *insn, u16 *reads, u16 *writes)
{
	jifl_decode_uses(insn, reads, writes);
}

u32 jifl_engine_properties(const struct ir_insn *insn)
{
	return jifl_decode_properties(insn);
}

bool jifl_engine_reaches(jifl_orig from, jifl_orig to)
{
	return jifl_decode_reaches(from, to);
}

bool jifl_engine_inlined(u32 i, struct ir_inlined *f)
{
	unsigned long cookie = jifl_host_lock();
	bool found = emit_inlined_get(i, f);

	jifl_host_unlock(cookie);
	return found;
}

bool jifl_engine_takes(const struct ir_terms *terms)
{
	return emit_terms_have_code(terms);
}

bool jifl_engine_takes_hit(const struct ir_hit *hit, const struct ir_terms *condition)
{
	return emit_hit_has_code(hit, condition);
}

bool jifl_engine_inlines(u64 fn)
{
	static struct ir_routine routine;	/* under the engine lock */
	const struct ir_step *s;

	if (jifl_decode_routine(fn, &routine) != JIFL_INLINE_YES)
		return false;
	for (s = routine.steps; s < routine.steps + routine.nsteps; s++)
		if (s->insn.kind == IR_CALL ||
		    (s->insn.kind == IR_JMP && s->to == routine.nsteps))
			return false;
	return true;
}

void jifl_engine_context_destroy(int context)
{
	unsigned long cookie = jifl_host_lock();

	cache.contexts[context].used = false;
	cache.contexts[context].fn = NULL;
	cache.contexts[context].leaves = NULL;
	jifl_host_unlock(cookie);
}

/* The block of (context, target); made if there is none. */
static u32 block_for(int context, jifl_orig target, enum jifl_cause *cause)
{
	u32 block = jifl_cache_find(context, target);

	if (block == CACHE_NONE)
		block = jifl_translate(context, target, cause);
	if (block == CACHE_NONE)
		jifl_host_count_exit(*cause);
	return block;
}

u64 jifl_engine_enter(int context, jifl_orig target, enum jifl_cause *cause)
{
	unsigned long cookie = jifl_host_lock();
	u32 block = block_for(context, target, cause);

	jifl_host_unlock(cookie);
	return block == CACHE_NONE ? 0 : cache_address(cache.blocks[block].start);
}

u64 jifl_engine_entry_create(int context, jifl_orig target,
			     const struct ir_insert *entry, u32 nentry,
			     const struct ir_insert *exit, u32 nexit,
			     enum jifl_cause *cause)
{
	unsigned long cookie = jifl_host_lock();
	u32 piece = CACHE_NONE;

	/* The target is translated first, so that the exit of the piece finds it. */
	if (block_for(context, target, cause) != CACHE_NONE)
		piece = jifl_translate_entry(context, target, entry, nentry, exit, nexit, cause);
	jifl_host_unlock(cookie);
	return piece == CACHE_NONE ? 0 : cache_address(cache.blocks[piece].start);
}

u64 jifl_engine_entry_create_beginning(int context, jifl_orig target, u32 len,
				       const struct ir_insert *entry, u32 nentry,
				       enum jifl_cause *cause)
{
	unsigned long cookie = jifl_host_lock();
	u32 piece = CACHE_NONE;

	if (block_for(context, jifl_orig_at(target.v + len), cause) != CACHE_NONE)
		piece = jifl_translate_beginning(context, target, len, entry, nentry, cause);
	jifl_host_unlock(cookie);
	return piece == CACHE_NONE ? 0 : cache_address(cache.blocks[piece].start);
}

static int exit_context(const struct cache_exit *x)
{
	return x->kind == CACHE_EXIT_LOOKUP ? (int)x->block : cache.blocks[x->block].context;
}

/* Makes the exit find the block without the dispatcher the next time. */
static void remember(u32 exit, jifl_orig target, u32 block)
{
	const struct cache_exit *x = &cache.exits[exit];

	switch (x->kind) {
	case CACHE_EXIT_DIRECT:
		/* The exit was linked when the block was made, or by another CPU meanwhile. */
		return;
	case CACHE_EXIT_INDIRECT:
		jifl_cache_chain_add(exit, target, block);
		return;
	case CACHE_EXIT_LOOKUP:
		jifl_cache_lookup_store(exit_context(x), target, block);
		return;
	}
}

void jifl_engine_dispatch(struct jifl_frame *f)
{
	unsigned long cookie = jifl_host_lock();
	const struct cache_exit *x = &cache.exits[f->exit];
	enum jifl_cause cause = JIFL_CAUSE_NONE;
	jifl_orig target;
	u32 block;

	dispatches++;
	target = x->kind == CACHE_EXIT_DIRECT ? cache_orig(x->target) : jifl_orig_at(f->target);
	block = block_for(exit_context(x), target, &cause);
	if (block == CACHE_NONE) {
		f->target = jifl_host_native(target);
	} else {
		remember((u32)f->exit, target, block);
		f->target = cache_address(cache.blocks[block].start);
	}
	jifl_host_unlock(cookie);
}

enum jifl_where jifl_engine_where(u64 addr, jifl_orig *orig)
{
	return jifl_cache_where(addr, CACHE_AT_RETURN, orig);
}

void jifl_engine_insn(jifl_orig addr, struct ir_insn *insn)
{
	jifl_decode_insn(addr, insn);
}

u32 jifl_engine_insn_length(jifl_orig addr)
{
	struct ir_insn insn;

	jifl_decode_insn(addr, &insn);
	return insn.len;
}

enum jifl_where jifl_engine_where_insn(u64 addr, jifl_orig *orig)
{
	return jifl_cache_where(addr, CACHE_AT_INSN, orig);
}

bool jifl_engine_is_doomed(u64 addr)
{
	int context = jifl_cache_where_context(addr);

	return context < 0 || !__atomic_load_n(&cache.contexts[context].used, __ATOMIC_RELAXED);
}

int jifl_engine_context_at(u64 addr)
{
	return jifl_cache_where_context(addr);
}

void *jifl_engine_context_arg(u64 addr)
{
	const int context = jifl_cache_where_context(addr);

	/* A context keeps its number as long as it has code. */
	return context < 0 ? NULL : cache.contexts[context].arg;
}

bool jifl_engine_asker(u64 addr, jifl_orig *orig, void **arg)
{
	*orig = jifl_orig_at(0);
	jifl_cache_where(addr, CACHE_AT_RETURN, orig);
	*arg = jifl_engine_context_arg(addr);
	return !jifl_engine_is_doomed(addr);
}

enum jifl_trap jifl_engine_trap(u64 addr, struct jifl_frame *f)
{
	jifl_orig orig;
	u32 block = jifl_cache_where_trap(addr, &orig);

	if (block == CACHE_NONE)
		return JIFL_TRAP_NONE;
	f->target = orig.v;
	f->exit = cache.contexts[cache.blocks[block].context].lookup_exit;
	return jifl_cache_is_start(addr) ? JIFL_TRAP_START : JIFL_TRAP_INSIDE;
}

bool jifl_engine_is_start(u64 addr)
{
	return jifl_cache_is_start(addr);
}

jifl_orig jifl_engine_begun(u64 addr, u64 *end)
{
	return jifl_cache_begun(addr, end);
}

bool jifl_engine_is_beginning(u64 addr)
{
	return jifl_cache_is_beginning(addr);
}

static void drop_blocks(jifl_orig addr, u32 len, void (*drop)(u32 block))
{
	unsigned long cookie = jifl_host_lock();

	jifl_ahead_forget();
	if (!JIFL_PLANTED(block_not_dropped))
		jifl_cache_page_visit(addr, len, drop);
	jifl_host_unlock(cookie);
}

void jifl_engine_invalidate(jifl_orig addr, u32 len)
{
	drop_blocks(addr, len, jifl_cache_block_drop);
}

void jifl_engine_retire(jifl_orig addr, u32 len)
{
	drop_blocks(addr, len, JIFL_PLANTED(retired_inside) ? jifl_cache_block_drop :
							      jifl_cache_block_retire);
}

void jifl_engine_stats(struct jifl_engine_stats *st)
{
	unsigned long cookie = jifl_host_lock();

	*st = (struct jifl_engine_stats){
		.blocks = cache.live,
		.translated_blocks = jifl_translated.blocks,
		.translated_insns = jifl_translated.insns,
		.translate_ns = jifl_translated.ns,
		.dispatches = dispatches,
		.links = cache.links,
		.code_used = jifl_cache_code_used(),
		.side_used = jifl_cache_side_used(),
		.invalidated = cache.invalidated,
		.full = jifl_translated.refused,
	};
	jifl_host_unlock(cookie);
}
