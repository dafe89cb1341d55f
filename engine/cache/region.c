// SPDX-License-Identifier: GPL-2.0
/* The memory of the code cache: its division, its reset, and when it is full. */
#include "cache.h"
#include "../host.h"

struct cache cache;
bool jifl_cache_full;

/*
 * Shares of the side memory in 1/128, from figures of kernel code. A block has 0.93 exits and 10
 * to 14 bytes of map, depending on the inserts (gcc under every kind of session, 19,000 to 23,000
 * blocks).
 */
enum { SHARE_BLOCKS = 58, SHARE_EXITS = 40, SHARE_MAP = 22, SHARE_HASH = 8 };
/* The share of hot code in the executable memory, in 1/128. */
enum { SHARE_HOT = 80 };

static void *carve(u8 **at, u64 size)
{
	void *p = *at;

	*at += size;
	return p;
}

static void set_side(void *side, u64 size)
{
	u64 part = size / 128 & ~7ull;	/* arrays stay aligned */
	u8 *at = side;
	u64 buckets;

	cache.blocks_max = (u32)(part * SHARE_BLOCKS / sizeof(struct cache_block));
	cache.exits_max = (u32)(part * SHARE_EXITS / sizeof(struct cache_exit));
	cache.map_max = (u32)(part * SHARE_MAP);
	buckets = part * SHARE_HASH / (2 * sizeof(u32));
	cache.hash_bits = 4;
	while ((2ull << cache.hash_bits) <= buckets)
		cache.hash_bits++;
	cache.blocks = carve(&at, part * SHARE_BLOCKS);
	cache.exits = carve(&at, part * SHARE_EXITS);
	cache.map = carve(&at, part * SHARE_MAP);
	cache.hash = carve(&at, sizeof(u32) << cache.hash_bits);
	cache.waiting = carve(&at, sizeof(u32) << cache.hash_bits);
}

/* The tables of some contexts leave more than half of the cold code for stubs. */
static u32 lookup_bits(u32 code_size)
{
	u64 cold = (u64)code_size * (128 - SHARE_HOT) / 128;
	u32 bits = CACHE_LOOKUP_BITS;

	while (bits > 3 && (64ull << bits) > cold)
		bits--;
	return bits;
}

int jifl_cache_init(const struct jifl_config *config)
{
	if (config->code_size < 4096 || config->code_size > (1u << 30) ||
	    config->side_size < 65536 || !config->side ||
	    !jifl_fits_s32((s64)config->code_base) ||
	    !jifl_fits_s32((s64)(config->code_base + config->code_size)) ||
	    (config->thread_words && config->code_base >> 31))
		return -JIFL_EINVAL;
	memset(&cache, 0, sizeof(cache));
	cache.code_base = config->code_base;
	cache.code_size = config->code_size;
	cache.return_site = config->return_site;
	cache.config = (struct emit_config){
		.dispatch_direct = (u32)(config->dispatch_direct - config->code_base),
		.dispatch_indirect = (u32)(config->dispatch_indirect - config->code_base),
		.return_thunk = config->return_thunk,
		.indirect_jumps = config->indirect_jumps,
		.retpoline_return = config->retpoline_return,
		.exit_counters = config->exit_counters,
		.training = config->training,
		.red_zone = config->red_zone,
		.align_stack = config->align_stack,
		.endbr = config->endbr,
		.thread_words = config->thread_words,
		.targets_end = config->targets_end,
		.keeps_r11 = config->keeps_r11,
		.asks = config->asks,
		.lahf = config->lahf,
		.interrupts = config->interrupts,
		.poison = config->poison,
	};
	cache.host_targets = config->targets;
	cache.training_hits = config->training_hits;
	cache.lookup_bits = lookup_bits(config->code_size);
	set_side(config->side, config->side_size);
	jifl_cache_reset();
	return 0;
}

bool jifl_cache_erase(void)
{
	u8 int3[256];
	u32 i, n;

	memset(int3, 0xcc, sizeof(int3));
	for (i = 0; i < JIFL_ARRAY_LEN(cache.stale); i++) {
		n = cache.stale[i].to - cache.stale[i].from;
		if (!n)
			continue;
		n = n < sizeof(int3) ? n : sizeof(int3);
		jifl_host_code_write(jifl_pos_at(cache.stale[i].from), int3, n);
		cache.stale[i].from += n;
		return true;
	}
	return false;
}

void jifl_cache_reset(void)
{
	u32 i;

	/* Readers of where() see an empty table before its contents change. */
	__atomic_store_n(&cache.nblocks, 0, __ATOMIC_RELEASE);
	cache.stale[0].from = 0;
	cache.stale[0].to = cache.hot;
	cache.stale[1].from = cache.hot_end;
	cache.stale[1].to = cache.cold;
	cache.nexits = 0;
	cache.nmap = 0;
	cache.live = 0;
	jifl_cache_full = false;
	cache.hot = 0;
	cache.hot_end = (u32)((u64)cache.code_size * SHARE_HOT / 128) & ~63u;
	cache.cold = cache.hot_end;
	cache.cold_end = cache.code_size;
	for (i = 0; i < 1u << cache.hash_bits; i++) {
		cache.hash[i] = CACHE_NONE;
		cache.waiting[i] = CACHE_NONE;
	}
	for (i = 0; i < CACHE_PAGES; i++)
		cache.pages[i] = CACHE_NONE;
	jifl_cache_training_reset();
	for (i = 0; i < cache.ncontexts; i++) {
		jifl_cache_lookup_reset(&cache.contexts[i]);
		cache.contexts[i].blocks = 0;
	}
}

bool jifl_cache_may_grow(u32 hot)
{
	return cache.hot_end - cache.hot >= hot + 2 * emit_block_room(&cache.config);
}

bool jifl_cache_has_room(u32 hot, u32 cold)
{
	if (cache.hot_end - cache.hot >= hot && cache.cold_end - cache.cold >= cold &&
	    cache.blocks_max - cache.nblocks > EMIT_UNIT_BLOCKS &&
	    cache.exits_max - cache.nexits > EMIT_UNIT_EXITS + 2 &&
	    cache.map_max - cache.nmap > EMIT_UNIT_MAP)
		return true;
	jifl_cache_full = true;
	return false;
}

/* Of `all`, a quarter is left behind `used`, and as much as is needed at once. */
static bool has_spare(u32 used, u32 all, u32 needed)
{
	return all - used > needed && all - used >= all / 4;
}

bool jifl_cache_has_spare_room(void)
{
	return jifl_cache_may_grow(0) && has_spare(cache.hot, cache.hot_end, 0) &&
	       has_spare(cache.cold - cache.hot_end, cache.cold_end - cache.hot_end,
			 EMIT_UNIT_COLD + 64) &&
	       has_spare(cache.nblocks, cache.blocks_max, EMIT_UNIT_BLOCKS) &&
	       has_spare(cache.nexits, cache.exits_max, EMIT_UNIT_EXITS + 2) &&
	       has_spare(cache.nmap, cache.map_max, EMIT_UNIT_MAP);
}

u32 jifl_cache_code_used(void)
{
	return cache.hot + (cache.cold - cache.hot_end);
}

u64 jifl_cache_side_used(void)
{
	return (u64)cache.nblocks * sizeof(*cache.blocks) +
	       (u64)cache.nexits * sizeof(*cache.exits) + cache.nmap +
	       2 * (sizeof(*cache.hash) << cache.hash_bits);
}
