/* SPDX-License-Identifier: GPL-2.0 */
/*
 * From the intermediate representation to code. A unit is one or more blocks
 * that will lie one after the other: hot code in one writer, stubs and what is
 * rarely executed in another. Nothing here touches the code cache: the caller
 * reserves room, emits, and commits or aborts.
 */
#ifndef JIFL_EMIT_EMIT_H
#define JIFL_EMIT_EMIT_H

#include "x86_enc.h"
#include "../host.h"
#include "../instrument/liveness.h"

#define EMIT_UNIT_BLOCKS 32
#define EMIT_UNIT_AHEAD	12	/* blocks of a unit that is translated straight ahead, at most */
#define EMIT_UNIT_EXITS (2 * EMIT_UNIT_BLOCKS + 2)
/*
 * Bytes; what one block with all its inserts may take, and for a unit: the block
 * being begun, the one behind it, and what is there already.
 */
#define EMIT_INSERT	192
#define EMIT_JUMP	96	/* the branch at its end */
#define EMIT_BLOCK_HOT	(IR_BLOCK_INSNS * 16 + IR_BLOCK_INSERTS * EMIT_INSERT + EMIT_JUMP)
/* Poison at each place of inserts: before an instruction, behind it, and where it branches. */
#define EMIT_POISON	112
#define EMIT_BLOCK_POISON ((2 * IR_BLOCK_INSNS + 1) * EMIT_POISON)
#define EMIT_POISON_VALUE 0xdead0000u	/* and the number of the register */
#define EMIT_BLOCK_MAP	(IR_BLOCK_INSNS * 10 + IR_BLOCK_INSERTS * 6 + EMIT_BLOCK_HOT / 127 + 8)
#define EMIT_UNIT_HOT	(2 * (EMIT_BLOCK_HOT + EMIT_BLOCK_POISON) + 4096)
#define EMIT_UNIT_MAP	(2 * EMIT_BLOCK_MAP + 1024)
#define EMIT_UNIT_COLD	4096

enum emit_exit_kind {
	EMIT_EXIT_DIRECT,	/* one target */
	EMIT_EXIT_INDIRECT,	/* any; grows an inline cache */
};

/* A branch that goes to its stub until it is linked. */
struct emit_exit {
	u32 site;		/* cache offset of its rel32 */
	u32 stub;		/* where it goes while unlinked */
	jifl_orig target;	/* DIRECT */
	u8 kind;		/* enum emit_exit_kind */
	u8 reg;			/* INDIRECT: what the inline cache compares */
	u8 block;		/* index in the unit */
};

struct emit_block {
	u32 start, end;		/* cache offsets of hot code */
	u32 map, map_len;	/* in the unit's map */
};

/* What of the configuration is needed to emit. */
struct emit_config {
	u32 dispatch_direct;	/* as cache offsets, modulo 2^32 */
	u32 dispatch_indirect;
	u64 return_thunk;	/* 0: plain ret */
	bool indirect_jumps;	/* lookups leave by jmp *%rax, not by a retpoline */
	u64 retpoline_return;	/* 0: plain ret */
	struct ir_operand exit_counters;
	struct ir_operand training;
	u32 red_zone;
	bool align_stack;
	bool endbr;
	s32 thread_words;	/* this and the next two as in struct jifl_config */
	u32 targets_end;
	bool keeps_r11;
	u64 asks;		/* as in struct jifl_config */
	bool lahf;		/* the processor has it in 64-bit mode */
	bool interrupts;	/* inserted code may, and has to, switch them off */
	bool poison;		/* put garbage into what is dead where something is inserted */
};

/* What one block may take, in bytes. */
static inline u32 emit_block_room(const struct emit_config *config)
{
	return EMIT_BLOCK_HOT + (config->poison ? EMIT_BLOCK_POISON : 0);
}

/* Second bytes of inserted code; no instruction is as long. */
enum emit_map {
	EMIT_MAP_WALKED = 0,	/* x86_walk() can read what it pushes */
	EMIT_MAP_FIXED = 0x80,	/* pushes nothing */
	EMIT_MAP_CONTINUES = 0x40, /* not the first piece between two instructions */
	EMIT_MAP_PUSHED = 0x3f,	/* words on the stack at its beginning */
};

static inline bool emit_map_is_inserted(u8 what)
{
	return !what || what >= EMIT_MAP_CONTINUES;
}

struct emit_unit {
	const struct emit_config *config;
	struct x86_writer hot, cold;
	u32 exit_base;		/* number of exits[0] in the code cache */
	u32 lookup;		/* cache offset of the context's hash lookup */
	s32 targets;		/* the context's table (jump.c) */
	u32 nexits, nblocks, nmap;
	bool full;		/* of exits, blocks or map */
	bool continues;		/* something was inserted since the last instruction */
	struct emit_exit exits[EMIT_UNIT_EXITS];
	struct emit_block blocks[EMIT_UNIT_BLOCKS];
	/*
	 * Per block pairs of bytes: how much hot code, made from how much original
	 * code, or, for inserted code, enum emit_map. One whose first is
	 * EMIT_MAP_GOES_ON is one piece with the next.
	 */
#define EMIT_MAP_GOES_ON 255
	u8 map[EMIT_UNIT_MAP];
	u8 hot_buf[EMIT_UNIT_HOT], cold_buf[EMIT_UNIT_COLD];
};

/* lookup: cache offset of the context's hash lookup; targets: its table for jump.c, or 0. */
void emit_unit_begin(struct emit_unit *u, const struct emit_config *config, u64 code_base,
		     u32 hot_start, u32 cold_start, u32 exit_base, u32 lookup, s32 targets);

/*
 * Emits b. With followed, the block at which it goes on (b->next, or the
 * target of its final jmp) is emitted right behind it; else an exit to it is.
 */
void emit_block(struct emit_unit *u, struct ir_block *b, bool followed);

/* Emits a block that counts a native exit and goes to the original addr. */
void emit_native_block(struct emit_unit *u, jifl_orig addr, enum jifl_cause cause);

/* Emits a block that goes to the original addr. */
void emit_leaving_block(struct emit_unit *u, jifl_orig addr);

/*
 * Emits the piece through which native code enters: see jifl_engine_entry_create.
 * Its one exit is exits[0]. Returns the cache offset after its call, 0 if it
 * has none.
 */
u32 emit_entry(struct emit_unit *u, jifl_orig target,
	       const struct ir_insert *entry, u32 nentry,
	       const struct ir_insert *exit, u32 nexit);

/*
 * True while two blocks more, the one that is about to be emitted and one behind it, fit into a
 * unit of at most `blocks`, whatever is inserted into them.
 */
static inline bool emit_unit_has_room(const struct emit_unit *u, u32 blocks)
{
	return u->nblocks + 1 < blocks &&
	       u->hot.len + 2 * emit_block_room(u->config) <= u->hot.cap &&
	       u->nmap + 2 * EMIT_BLOCK_MAP <= sizeof(u->map);
}

static inline bool emit_unit_is_full(const struct emit_unit *u)
{
	return u->full || u->hot.full || u->cold.full;
}

/* --- stubs.c -------------------------------------------------------------- */

/* Does a site of this indirect branch get an inline cache? */
static inline bool emit_has_chain(const struct emit_config *config, const struct ir_insn *insn)
{
	return insn->reg != IR_REG_NONE && !config->thread_words;
}

u32 emit_direct_stub(struct emit_unit *u, u32 exit);
u32 emit_indirect_stub(struct emit_unit *u, const struct ir_insn *insn, u32 exit);

/* An inline cache: its targets in their order. */
#define EMIT_CHAIN 192		/* bytes, at most, with its end */
struct emit_chain {
	jifl_orig targets[JIFL_CHAIN_MAX];
	u32 n;
	bool counts;		/* hits, down, in cells of site `training`; below 0 to the stub */
	u32 training;
	u32 stub, miss;
	u32 start;		/* out; and for each target the rel32 of the branch to its block */
	u32 hit_sites[JIFL_CHAIN_MAX];
};
void emit_chain(struct x86_writer *w, const struct emit_config *config, u8 reg,
		struct emit_chain *chain);

/* Behind a full one: goes to the context's hash lookup. */
u32 emit_chain_end(struct x86_writer *w, const struct emit_config *config, u8 reg, u32 lookup);

/*
 * A context's hash lookup: expects the original target on top of the stack,
 * goes to its block, or to the dispatcher with number exit. table: absolute
 * address of (1 << bits) entries, low half original address, high half cache address
 * of the block, or of its landing where lookups leave by plain jumps.
 */
u32 emit_hash_lookup(struct x86_writer *w, const struct emit_config *config, u64 table,
		     u32 bits, u32 exit);
#define EMIT_HASH_SHIFT 4	/* index: address >> 4, lowest bits */

/*
 * What a lookup jumps to for a block, by a plain jump. Returns the rel32 of its branch, which leads
 * to its stub, right behind it, until number exit is linked. The rel32 stands emit_landing_len()
 * bytes from the start.
 */
#define EMIT_LANDING 64		/* bytes, at most */
u32 emit_landing(struct x86_writer *w, const struct emit_config *config, u32 exit);
u32 emit_landing_len(const struct emit_config *config);

/* --- jump.c: indirect branches where they may jump: config.thread_words ------- */

/* Puts a scratch register aside, where that is needed: true; and the branch behind it. */
bool emit_jump_begin(struct emit_unit *u, const struct ir_insn *insn);
void emit_jump(struct emit_unit *u, const struct ir_insn *insn);

/* --- call.c: inserted code -------------------------------------------------- */

/* Emits one insert, without its condition (when.h), where flags and regs are live. */
void emit_insert(struct x86_writer *w, const struct emit_config *config,
		 const struct ir_insert *ins, u8 flags, u16 regs);

#endif
