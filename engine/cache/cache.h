/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The code cache: executable memory, the blocks in it, and the links between them. There is one
 * cache for all CPUs and contexts.
 *
 * The cache gets its memory once. Hot code grows up from the start of the executable memory, stubs
 * and inline caches from the start of the second part. Side tables are arrays that only grow.
 * Nothing is freed singly: a generation ends as a whole (jifl_cache_reset), once no thread can be
 * inside.
 *
 * Everything is written under the engine lock. jifl_cache_where reads without the lock.
 */
#ifndef JIFL_CACHE_CACHE_H
#define JIFL_CACHE_CACHE_H

#include "../emit/emit.h"
#include "../engine.h"

#define CACHE_NONE 0xffffffffu
#define CACHE_CONTEXTS 4096
#define CACHE_LOOKUP_BITS 9	/* entries of a context's hash lookup, log 2, at most */
#define CACHE_CHAIN_MAX JIFL_CHAIN_MAX	/* targets of an inline cache; others use the lookup */
#define CACHE_PAGE_BITS 12	/* of original code, see struct cache.pages */
#define CACHE_PAGES 2048

enum cache_block_flags {
	CACHE_BLOCK_DEAD = 1,	/* its source changed; no longer linked or found */
	CACHE_BLOCK_NATIVE = 2,	/* leaves; counts an exit, if the context is not limited there */
	CACHE_BLOCK_ENTRY = 4,	/* an entry piece; src_len: offset behind its call */
	CACHE_BLOCK_FALLS = 8,	/* runs, or its call returns, into the next block */
	CACHE_BLOCK_ASKS = 16,	/* its first piece asks the host: struct jifl_config, asks */
	/*
	 * An entry piece that has instructions of its target: nothing finds it by its address, and
	 * no change of its source drops it.
	 */
	CACHE_BLOCK_BEGINS = 32,
};

struct cache_block {
	u32 orig;		/* low half of the original address */
	u32 start;		/* cache offset of its code */
	u32 map;		/* index in the map; its pairs end where the next block's begin */
	u32 hash_next;		/* chain of the hash table */
	u32 page_next;		/* next block with original code in a page of the same number */
	u32 links;		/* exits linked to it: the first of a list */
	u16 len;		/* bytes of code */
	u16 src_len;		/* bytes of original code */
	u16 context;
	u8 flags;		/* enum cache_block_flags */
	u8 reserved;
};

struct cache_exit {
	u32 site;		/* rel32 of the branch */
	u32 stub;
	union {
		u32 target;	/* DIRECT: low half of the original address */
		struct {	/* INDIRECT */
			/* The number of targets for which its inline cache was made anew. */
			u8 chained;
			u8 reg;		/* the register through which it branches */
		};
	};
	/*
	 * Linked: the next exit that is linked to the same block. Waiting: the next exit that
	 * waits. INDIRECT: the first hit of its inline cache; the others follow.
	 */
	u32 next;
	u32 block : 30;		/* the block to which the exit belongs */
	u32 kind : 2;		/* enum cache_exit_kind */
};

_Static_assert(sizeof(struct cache_block) == 32 && sizeof(struct cache_exit) == 20,
	       "there are some of these for each block that runs");

enum cache_exit_kind {
	CACHE_EXIT_DIRECT,
	CACHE_EXIT_INDIRECT,
	CACHE_EXIT_LOOKUP,	/* a context's hash lookup missed; block: the context's number */
};

struct cache_context {
	bool used;
	u32 blocks;		/* blocks with this context's number, made since the last reset */
	jifl_instrument_fn fn;
	bool limited;
	jifl_leaves_fn leaves;	/* of a limited context that is not destroyed; else NULL */
	void *arg;
	u32 lookup;		/* cache offset of its hash lookup; CACHE_NONE: not made */
	u32 lookup_exit;	/* its CACHE_EXIT_LOOKUP */
	u32 gate;		/* cache offset at which the first units reach the lookup */
	u32 gate_site;		/* the rel32 of the gate */
	u32 table;		/* cache offset of the lookup's table; CACHE_NONE: no table */
	u64 targets;		/* address of its table for jumps (targets.c); 0: none */
};

struct cache {
	struct emit_config config;
	u64 code_base;
	u32 code_size;
	u64 return_site;

	u32 hot, hot_end;	/* next free, end of hot code */
	u32 cold, cold_end;
	/* What a reset has left to erase: [from, to) of the hot and cold code. */
	struct { u32 from, to; } stale[2];

	struct cache_block *blocks;
	u32 nblocks, blocks_max; /* nblocks is published: see jifl_cache_where */
	u32 live;		/* blocks that are not dead */
	struct cache_exit *exits;
	u32 nexits, exits_max;
	u8 *map;
	u32 nmap, map_max;
	u32 *hash;		/* of blocks, by (context, original address) */
	u32 *waiting;		/* of direct exits without a block, by the same key */
	u32 hash_bits;		/* size of both tables, log 2 */
	/* Blocks by the page, modulo CACHE_PAGES, in which their original code begins. */
	u32 pages[CACHE_PAGES];

	struct cache_context contexts[CACHE_CONTEXTS];
	u32 ncontexts;		/* contexts that have been used; the others are all zero */
	u64 links;		/* ever */
	u64 invalidated;	/* ever */
	u32 lookup_bits;	/* entries of each context's hash lookup, log 2 */
	u64 (*host_targets)(int context);	/* struct jifl_config, targets */
	/*
	 * Indirect exits whose inline caches count, CACHE_NONE: none. training_next: whose
	 * training is ended next.
	 */
	u32 training[JIFL_TRAINING_SITES];
	u32 training_next;
	u32 training_hits;
};

extern struct cache cache;

/* Kernel addresses are kept as their low halves, because they sign-extend. */
static inline jifl_orig cache_orig(u32 low)
{
	return jifl_orig_at((u64)(s64)(s32)low);
}

static inline u64 cache_address(u32 off)
{
	return cache.code_base + off;
}

/* Where the map's pairs of block i end, of n blocks. */
static inline u32 cache_map_end(u32 i, u32 n)
{
	return i + 1 < n ? cache.blocks[i + 1].map : cache.nmap;
}

/* --- region.c --- */
int jifl_cache_init(const struct jifl_config *config);
/* Forgets all blocks. The code has to be erased before the next block is made. */
void jifl_cache_reset(void);
/*
 * Fills a piece of the old code with int3, small enough for interrupts to wait. False at the end.
 */
bool jifl_cache_erase(void);
/* True when a unit of so much hot code may grow by two blocks of any size. */
bool jifl_cache_may_grow(u32 hot);
/*
 * True when this much code and the side tables of a unit still fit. Else notes that the cache is
 * full.
 */
bool jifl_cache_has_room(u32 hot, u32 cold);
/*
 * True while a quarter of all memory is free, and room for any unit: what is made ahead of
 * time must not fill the cache, which would be emptied for it.
 */
bool jifl_cache_has_spare_room(void);
u32 jifl_cache_code_used(void);
u64 jifl_cache_side_used(void);

/* --- table.c --- */
u32 jifl_cache_find(int context, jifl_orig addr);
void jifl_cache_hash_add(u32 block);
void jifl_cache_hash_remove(u32 block);
/*
 * Head of the exits that wait for (context, original address). Other exits may be in the same
 * list.
 */
u32 *jifl_cache_waiting(int context, u32 orig);
void jifl_cache_page_add(u32 block);
/* Calls fn for each block made from bytes in [addr, addr + len), dead or not. */
void jifl_cache_page_visit(jifl_orig addr, u64 len, void (*fn)(u32 block));

/* --- commit.c --- */
struct cache_source {
	jifl_orig addr;
	u32 len;
	u8 flags;		/* enum cache_block_flags */
};
/*
 * Publishes an emitted unit: source[i] is the original code of its block i. Returns the number of
 * the unit's first block.
 */
u32 jifl_cache_commit(const struct emit_unit *u, int context, const struct cache_source *source);

/* --- link.c --- */
/* Links a direct exit to the block of its target, now or when there is one. */
void jifl_cache_exit_add(u32 exit);
/* Links all exits that waited for this new block. */
void jifl_cache_block_add(u32 block);
/*
 * Forgets a block whose source has changed, and the blocks that run into it. Puts a trap before
 * each instruction of the block: see jifl_engine_trap.
 */
void jifl_cache_block_drop(u32 block);
/* The same with a trap at the block's start alone: its source has not changed. */
void jifl_cache_block_retire(u32 block);

/* --- inline_cache.c --- */
/* Notes that the context has no lookup any more. */
void jifl_cache_lookup_reset(struct cache_context *c);
int jifl_cache_lookup_create(int context);
void jifl_cache_lookup_store(int context, jifl_orig addr, u32 block);
void jifl_cache_lookup_forget(const struct cache_block *b);
/* Is it the branch of a landing, which is among the links of its block? */
bool jifl_cache_is_landing(const struct cache_exit *x);
/* How many targets the exit's inline cache has. */
u32 jifl_cache_chain_length(const struct cache_exit *x);
/* Makes the inline cache anew with its targets in this order, without counters. There is room. */
void jifl_cache_chain_order(u32 exit, const u8 order[CACHE_CHAIN_MAX]);
void jifl_cache_chain_add(u32 exit, jifl_orig target, u32 block);

/* --- training.c --- */
void jifl_cache_training_reset(void);
/* Gives the exit's number in cache.training; its counters are fresh. There is room for a chain. */
u32 jifl_cache_training_begin(u32 exit);
/*
 * A hit has come to the dispatcher. If a counter of the exit is at its end, the training ends;
 * where there is no room for the new inline cache, the counters start again.
 */
void jifl_cache_training_check(u32 exit);

/* --- targets.c: only with config.thread_words --- */
/* True unless the context needs a table and there is none. */
bool jifl_cache_targets_create(int context);
/* False for an address that is in no table. */
bool jifl_cache_targets_store(const struct cache_context *c, jifl_orig addr, u32 block);
void jifl_cache_targets_forget(const struct cache_context *c, jifl_orig addr);

/* --- where.c --- */
enum cache_at {
	CACHE_AT_RETURN,	/* a return address */
	CACHE_AT_INSN,		/* address of an instruction; see jifl_engine_where_insn */
};
enum jifl_where jifl_cache_where(u64 addr, enum cache_at at, jifl_orig *orig);
/*
 * A piece of inserted code. `pushed` bytes are on the stack at its start, or, if fixed, all
 * through it.
 */
struct cache_run {
	u32 from;		/* cache offset; CACHE_NONE: among stubs */
	u32 before;		/* the same of the piece before it */
	u32 pushed;
	bool fixed;
};
enum jifl_where jifl_cache_where_run(u64 addr, enum cache_at at, jifl_orig *orig,
				     struct cache_run *run);
/* The context whose code stands at addr; negative where the code belongs to no single context. */
int jifl_cache_where_context(u64 addr);
/* See jifl_engine_is_start. */
bool jifl_cache_is_start(u64 addr);
/* See jifl_engine_is_beginning. */
bool jifl_cache_is_beginning(u64 addr);
/* See jifl_engine_begun. */
jifl_orig jifl_cache_begun(u64 addr, u64 *end);
/*
 * The dead block in which a thread that is about to execute the bytes at addr has come to a trap,
 * and the place in original code; CACHE_NONE: no trap.
 */
u32 jifl_cache_where_trap(u64 addr, jifl_orig *orig);
/* Puts an int3 wherever jifl_cache_where_trap can say where a thread is. */
void jifl_cache_trap_all(const struct cache_block *b);
/* Puts one at the block's start alone. */
void jifl_cache_trap_start(const struct cache_block *b);

/* --- pieces.c --- */
/* Fills d's pieces, their number and src_len for block i. Under the engine lock. */
void jifl_cache_pieces(u32 i, struct jifl_dump *d);

#endif
