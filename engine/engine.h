/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that hosts may call. There is one engine in a host: one code cache, shared by all
 * CPUs, and one lock that guards everything that is written.
 *
 * The life of a block:
 *
 * 1. A host asks jifl_engine_enter for the cache address of an original address.
 * 2. The block runs.
 * 3. Where the end of the block is not linked yet, the block jumps to the host's dispatch stub.
 *    The stub calls jifl_engine_dispatch and goes on at the address that this function returns.
 */
#ifndef JIFL_ENGINE_H
#define JIFL_ENGINE_H

#include "base/types.h"
#include "ir/routine.h"
#include "jifl_causes.h"

/* Memory and addresses with which the engine works; jifl_engine_init fixes all of them. */
struct jifl_config {
	u64 code_base;		/* executable address of the code cache, page aligned */
	u32 code_size;		/* bytes; 4 KiB to 1 GiB */
	void *side;		/* writable memory for the side tables */
	u64 side_size;		/* bytes */
	u64 dispatch_direct;	/* host's stub, see struct jifl_frame */
	u64 dispatch_indirect;
	u64 return_thunk;	/* where a mitigated return jumps to; 0: plain ret */
	/*
	 * Lookups leave by a plain indirect jump, as the host's own code does. Else they leave by a
	 * retpoline, whose return jumps to retpoline_return; 0: plain ret.
	 */
	bool indirect_jumps;
	u64 retpoline_return;
	u64 return_site;	/* an original ret; stands for the end of an entry piece */
	/*
	 * The host patches calls of this address over nops of 5 bytes, where threads are to enter
	 * the cache. Decoded, such a call is the nop that it replaces. 0: the host does not.
	 */
	u64 door;
	struct ir_operand exit_counters; /* u64 per enum jifl_cause */
	/*
	 * s64 per CPU, JIFL_TRAINING_CELLS of them. The targets of an inline cache are ordered by
	 * their hits as soon as one target has training_hits hits; training_hits 0: never.
	 */
	struct ir_operand training;
	u32 training_hits;
	u32 red_zone;		/* bytes below rsp that original code may use: 0 or 128 */
	bool align_stack;	/* analysis calls need a 16 byte aligned stack */
	bool endbr;		/* entries start with endbr64 */
	/*
	 * Two u64 of each thread's own, relative to fs. Where a host gives them, indirect branches
	 * execute unprotected indirect jumps and have no inline caches. 0: the host gives none,
	 * and inline caches lead to lookups.
	 */
	s32 thread_words;
	/*
	 * Only with thread_words: gives the table of a context. It has targets_end u32, one for
	 * each address from 0 on, all of them 0 each time that this function is called. The table
	 * lies in the low 2 GiB, and so does the code cache. 0: there is no memory. Most of the
	 * table is never touched.
	 */
	u64 (*targets)(int context);
	u32 targets_end;
	/*
	 * Only with thread_words: calls may pass r11, or get it back, which compiled code does not
	 * do.
	 */
	bool keeps_r11;
	/*
	 * Called where a block begins that asks (struct ir_block), with the stack as it is there.
	 * jifl_engine_asker knows the block by the return address. The function may change flags,
	 * and registers that have no value where a compiled function begins. It may return to any
	 * code instead, with the same stack. 0: no block asks.
	 */
	u64 asks;
	bool lahf;		/* the processor has lahf and sahf in 64-bit mode */
	bool interrupts;	/* inserted code may, and has to, switch interrupts off */
	/* All compiled functions begin with 5 bytes for tracers. Nothing else does. */
	bool fentry;
	/*
	 * For tests: wherever something is inserted, the engine puts garbage into what liveness
	 * calls dead.
	 */
	bool poison;
};

/*
 * What an exit stub leaves on the stack, at the lowest address first. The host's dispatch stubs
 * save all registers and flags, call jifl_engine_dispatch and leave through the address that the
 * function puts into target.
 *
 * The exit stub jumps to dispatch_direct with only `exit` pushed; the host makes the other slot.
 * With a red zone, the exit stub has moved rsp below it first, and the host's stub moves rsp back.
 */
struct jifl_frame {
	u64 exit;
	u64 target;		/* in: original target; out: where to go on */
};

/* Which place of original code an address of the code cache stands for. */
enum jifl_where {
	JIFL_WHERE_OUTSIDE,	/* not an address of the code cache in use */
	JIFL_WHERE_EXACT,	/* all registers are the original's at *orig */
	JIFL_WHERE_INSIDE,	/* inside inserted code or a stub; *orig is the nearest */
};

/* What stands at an int3 that a thread in the cache has executed. */
enum jifl_trap {
	JIFL_TRAP_NONE,		/* none of the engine's */
	JIFL_TRAP_START,	/* the start of a block: no part of the block has run */
	JIFL_TRAP_INSIDE,	/* some inserted code of the block may have run */
};

/* A callback that instruments a block while it is translated. Its context is that of host.h. */
typedef void (*jifl_instrument_fn)(struct ir_block *b, void *arg);

struct jifl_engine_stats {
	u64 blocks;		/* live */
	u64 translated_blocks;	/* ever */
	u64 translated_insns;	/* ever */
	u64 translate_ns;
	u64 dispatches;
	u64 links;
	u64 code_used;		/* bytes */
	u64 side_used;		/* bytes */
	u64 invalidated;	/* blocks dropped by jifl_engine_invalidate */
	u64 full;		/* translations refused for want of memory, ever */
};

/*
 * Fills f with what became of the calls of the i-th analysis routine that was inserted since the
 * last reset. False: there is no i-th routine.
 */
bool jifl_engine_inlined(u32 i, struct ir_inlined *f);

/*
 * True when the analysis routine at fn calls nothing, and does not go on in another one, and is
 * inlined wherever there is room; not with IR_FETCH_CONTEXT. Under the engine lock.
 */
bool jifl_engine_inlines(u64 fn);

/* Can an insert have these terms? Under the engine lock. */
bool jifl_engine_takes(const struct ir_terms *terms);
/* Can an insert append this record, if these terms hold (NULL: always)? Under the engine lock. */
bool jifl_engine_takes_hit(const struct ir_hit *hit, const struct ir_terms *condition);

/*
 * For instrumentation callbacks, about an instruction of their block. jifl_engine_memory gives the
 * operands in memory that the instruction accesses, up to max, without what push, pop, call and
 * ret do to the stack. jifl_engine_uses gives the registers that it names, or uses without naming
 * them. jifl_engine_properties gives bits of enum jifl_ins_property.
 */
u32 jifl_engine_memory(const struct ir_insn *insn, struct ins_memory *m, u32 max);
/*
 * Of bt, bts, btr and btc with a bit's number in a register: that register; else IR_REG_NONE. The
 * operand in memory is then the first word of a string of bits. What is accessed lies as many words
 * of the operand's size behind it as the number, which may be negative, has (SDM vol. 2, BT). As
 * jifl_engine_memory.
 */
u8 jifl_engine_bit_register(const struct ir_insn *insn);
/*
 * As jifl_engine_memory, with what push, pop, call and ret do to the stack. Registers in addresses
 * have their values from before the instruction.
 */
u32 jifl_engine_accesses(const struct ir_insn *insn, struct ins_memory *m, u32 max);
/* True when it is known by how many bytes the instruction moves rsp; 0 if it does not move it. */
bool jifl_engine_stack_moves(const struct ir_insn *insn, s32 *by);
void jifl_engine_uses(const struct ir_insn *insn, u16 *reads, u16 *writes);
u32 jifl_engine_properties(const struct ir_insn *insn);

/*
 * For instrumentation callbacks. True when the code at `from` leads to `to` within a few dozen
 * instructions, over direct branches, stepping over calls. A loop does.
 */
bool jifl_engine_reaches(jifl_orig from, jifl_orig to);

/* Returns 0, or -JIFL_EINVAL for a configuration that cannot work. */
int jifl_engine_init(const struct jifl_config *config);

/*
 * Forgets all blocks and fills the cache with int3. Contexts stay. The caller has made sure that
 * no thread is inside the cache or returns to it, and that nothing is translated until this
 * function is done.
 */
void jifl_engine_reset(void);

/*
 * jifl_engine_reset in pieces: call jifl_engine_forget once, then jifl_engine_erase until it
 * returns false. Each call is short. Erasing all of a large cache at once may take long.
 */
void jifl_engine_forget(void);
bool jifl_engine_erase(void);

/*
 * Makes a context: blocks instrumented by fn(block, arg), or by nothing when
 * fn is NULL. Returns its number (>= 0) or -JIFL_ENOSPC.
 */
int jifl_engine_context_create(jifl_instrument_fn fn, void *arg);

/*
 * Has fn(block, NULL) called for each block of each context, and also for blocks of destroyed
 * contexts. It has the room for inserts that the context's own callback leaves, and has to say what
 * it finds no room for. At the same instruction its inserts run first. NULL: nothing is called.
 * Blocks that exist stay as they are. Any context but NMI.
 */
void jifl_engine_everywhere(jifl_instrument_fn fn);

/*
 * Whether a branch leaves a limited context, from a block of the context to `to`. call: a direct
 * call; else another direct branch, or the end of a block. from.v is 0 where an indirect branch has
 * come to `to`. arg: the context's. The function's own context is that of host.h.
 */
typedef bool (*jifl_leaves_fn)(jifl_orig from, jifl_orig to, bool call, void *arg);
/*
 * Limits a context that has no blocks yet to a part of the code. What leaves the context runs
 * natively, and is not counted as an exit. Native code returns into the cache as copies do.
 * Indirect calls leave as they are where the host's own code has such branches anywhere; elsewhere
 * they are looked up, as jumps are.
 */
void jifl_engine_context_limit(int context, jifl_leaves_fn leaves);

/*
 * The blocks of the context stay until the next reset, and so does its number. Nobody may enter
 * the blocks any more. Blocks that are translated for threads that are still inside are not
 * instrumented, but by jifl_engine_everywhere. In a limited context all their calls leave. Until
 * the reset jifl_engine_is_doomed tells the code of this context from the code of others.
 */
void jifl_engine_context_destroy(int context);

/*
 * Makes the piece of code through which native code enters a context at target: the entry inserts,
 * the translated target, the exit inserts after the target's return, then a return to the caller.
 * Inserts may be NULL with n 0. The call moves arguments on the stack by a word: with exit
 * inserts, target must take no arguments there. Returns the piece's executable address, or 0 when
 * target cannot be entered. Then *cause says why: memory, out of reach, an int3 there. A target
 * that runs natively can be entered: it is counted as an exit.
 */
u64 jifl_engine_entry_create(int context, jifl_orig target,
			     const struct ir_insert *entry, u32 nentry,
			     const struct ir_insert *exit, u32 nexit,
			     enum jifl_cause *cause);

/*
 * The same for a target that native code calls at its first instruction, which a jump has replaced:
 * the piece itself has the instructions of the first len bytes, which run straight on, between the
 * entry inserts and the translated rest. So the block that copies of calls lead to is another one:
 * it is a call that comes there by no piece. What each block gets is inserted there, too (ir_block,
 * in_piece). The host says that these bytes do not change while the piece is used. There are at
 * most IR_BLOCK_INSERTS / 2 entry inserts.
 */
u64 jifl_engine_entry_create_beginning(int context, jifl_orig target, u32 len,
				       const struct ir_insert *entry, u32 nentry,
				       enum jifl_cause *cause);

/* The cache address of a block, translated now if need be; 0 as for jifl_engine_entry_create. */
u64 jifl_engine_enter(int context, jifl_orig target, enum jifl_cause *cause);

/* Called by the host's dispatch stubs; sets f->target. */
void jifl_engine_dispatch(struct jifl_frame *f);

/*
 * Which place of original code addr, a return address, stands for: right behind the call. Any
 * context, NMI too; takes no lock.
 */
enum jifl_where jifl_engine_where(u64 addr, jifl_orig *orig);

/*
 * As jifl_engine_where, for the address of an instruction that faulted or was interrupted. The two
 * functions differ where original instructions have left no code, such as a nop or a jump to what
 * comes next. These instructions stand before such a place for jifl_engine_where, and behind it
 * for this function.
 */
enum jifl_where jifl_engine_where_insn(u64 addr, jifl_orig *orig);

/* Does a block begin at addr, of which nothing has run there? As jifl_engine_where. */
bool jifl_engine_is_start(u64 addr);
/*
 * Where the block begins in whose middle addr is, *end: and ends, in original code. 0: it is in
 * none, at a start, or where the code runs natively. Likewise.
 */
jifl_orig jifl_engine_begun(u64 addr, u64 *end);
/* Is that the start of an entry piece that has a function's beginning itself? */
bool jifl_engine_is_beginning(u64 addr);

/*
 * The number of bytes of the original instruction at addr, 0 or 1 where there is none. Under the
 * engine lock.
 */
u32 jifl_engine_insn_length(jifl_orig addr);
/*
 * Decodes the instruction at addr as a block has it. Always fills *insn: what cannot be decoded or
 * read is IR_NATIVE, of length 0 or 1. Under the engine lock.
 */
void jifl_engine_insn(jifl_orig addr, struct ir_insn *insn);

/*
 * True when addr, an address of the code cache, belongs to a destroyed context, or may belong to
 * one. Any context, NMI too; takes no lock.
 */
bool jifl_engine_is_doomed(u64 addr);

/*
 * The context of the code at addr, an address of the code cache; negative: none. As
 * jifl_engine_where.
 */
int jifl_engine_context_at(u64 addr);

/*
 * What the context of the code at addr, an address of the code cache, was created with, also if it
 * has been destroyed since; NULL: the code is of none. As jifl_engine_where.
 */
void *jifl_engine_context_arg(u64 addr);

/*
 * The block that has called struct jifl_config's asks, by the return address: its original address
 * and what its context was created with. False: that context has been destroyed. As
 * jifl_engine_where.
 */
bool jifl_engine_asker(u64 addr, jifl_orig *orig, void **arg);

/*
 * jifl_engine_where with is_return, jifl_engine_where_insn without, for code between original
 * instructions too. At addr *pushed more bytes lie on the stack than at *orig. In such code
 * registers other than rsp may differ as well. They may also differ where the number of bytes is
 * not known: *pushed is 0 then. See cache/pushed.c.
 */
enum jifl_where jifl_engine_where_stack(u64 addr, bool is_return, jifl_orig *orig, u32 *pushed);

/*
 * True when at addr, a return address, inserted code has r10 on the stack, *at bytes from its top.
 * Functions that realign the stack keep their frame in r10.
 */
bool jifl_engine_where_r10(u64 addr, u32 *at);

/*
 * Drops all blocks made from bytes in [addr, addr + len). Threads inside such blocks meet an int3
 * at the next original instruction, and the host asks jifl_engine_trap about that int3. Any
 * context but NMI.
 */
void jifl_engine_invalidate(jifl_orig addr, u32 len);

/*
 * The same where what is inserted changes, and not the bytes. Threads inside such blocks go on in
 * them to the next block, with what was inserted: what they have counted of a block stays exact.
 * A thread that comes to the start of one meets an int3.
 */
void jifl_engine_retire(jifl_orig addr, u32 len);

/*
 * A thread that runs in the cache has executed the int3 at addr. When the thread stands in a
 * dropped block it goes on, with all registers as they are, in dispatch_indirect with *f pushed
 * (below the red zone, if there is one). Any context, NMI too; takes no lock.
 */
enum jifl_trap jifl_engine_trap(u64 addr, struct jifl_frame *f);

/* The engine's. Read it by jifl_engine_is_full, which hosts ask at each call's end. */
extern bool jifl_cache_full;

/*
 * True once a translation was refused for want of memory, or a context was refused for want of
 * numbers that a reset would give back. Stays true until the next reset.
 */
static inline bool jifl_engine_is_full(void)
{
	return __atomic_load_n(&jifl_cache_full, __ATOMIC_RELAXED);
}

void jifl_engine_stats(struct jifl_engine_stats *st);

/* --- warm.c: blocks made before anything comes to them -------------------------- */

/* Is this the block that was meant? */
typedef bool (*jifl_block_matches_fn)(const struct ir_block *b, const void *arg);

enum jifl_warmed {
	JIFL_WARMED_MADE,	/* with what lies behind it in its unit */
	JIFL_WARMED_THERE,	/* the context had it already */
	JIFL_WARMED_OTHER,	/* `is` said no, or what stands there is never copied */
	JIFL_WARMED_FULL,	/* not looked at: the cache has no room to spare */
};

/* What was translated for it: added to. */
struct jifl_warmed_cost {
	u64 blocks;
	u64 insns;
	u64 ns;
};

/*
 * Makes the block of (context, addr) if is(block, arg) says that it is the one that was
 * meant. Never fills the cache: a quarter of it stays free. Any context but NMI.
 */
enum jifl_warmed jifl_engine_warm(int context, jifl_orig addr, jifl_block_matches_fn is,
				  const void *arg, struct jifl_warmed_cost *cost);

/* Has the context a block that begins at addr? Any context but NMI. */
bool jifl_engine_has(int context, jifl_orig addr);

/*
 * Where a thread can go on that stands before the original instruction at addr, with all registers
 * as they are: the beginning of the context's block there, which jifl_engine_where with is_return,
 * or jifl_engine_where_insn without, takes for addr again. 0: there is no such block now; nothing
 * is translated. Any context but NMI.
 */
u64 jifl_engine_landing(int context, jifl_orig addr, bool is_return);

/* --- lay.c: blocks in an order of the host's ------------------------------------- */

/* As many blocks of a chain are looked at in one call. */
enum { JIFL_LAY_MAX = 32 };

/*
 * Makes the n blocks at chain[], n > 0, anew, one right behind the other: a layout. Blocks of the
 * context that begin there are dropped, as by jifl_engine_retire. A conditional branch that
 * leads to the next block is turned round. Returns how many have been made: fewer than n where
 * nothing leads from one to the next, or where the unit, or the room, ends. 0: the first could not
 * be made, or lies outside of the limited context. `is` is asked about each block, with args,
 * args + size and so on. Never fills the cache, as jifl_engine_warm. *result as there; *cost is
 * added to. Any context but NMI.
 */
u32 jifl_engine_lay(int context, const jifl_orig *chain, u32 n, jifl_block_matches_fn is,
		    const void *args, u32 size, enum jifl_warmed *result,
		    struct jifl_warmed_cost *cost);

/* --- dump.c: what the cache holds ------------------------------------------------ */

/* What a piece of a block is. The numbers are those of the host's ABI. */
enum jifl_piece_kind {
	JIFL_PIECE_ORIGINAL,	/* the copy of one instruction; its code may be empty */
	JIFL_PIECE_INSERTED,
	JIFL_PIECE_INLINED,	/* of an analysis routine or a record: its body */
	JIFL_PIECE_ONWARD,	/* goes on to what stands behind the original block */
};

struct jifl_piece {
	u16 code_len;		/* bytes of the copy */
	u8 src_len;		/* ORIGINAL: bytes of the instruction */
	u8 kind;		/* enum jifl_piece_kind */
	u8 pushed;		/* words of inserted code on the stack at its beginning */
	u8 flags;		/* live before it: enum ir_flag */
	u16 regs;		/* registers live before it: 1 << enum ir_reg */
};

enum jifl_dump_flags {
	JIFL_DUMP_DEAD = 1,	/* its source has changed */
	JIFL_DUMP_NATIVE = 2,	/* counts an exit and leaves; no source */
	JIFL_DUMP_ENTRY = 4,	/* an entry piece, of orig; no source */
	JIFL_DUMP_FALLS = 8,	/* runs, or its call returns, into the next block */
	JIFL_DUMP_LIVENESS = 16, /* liveness and insns are known: the source is as it was */
};

/* More than any block has. */
enum { JIFL_DUMP_SRC = 1024, JIFL_DUMP_CODE = 40960, JIFL_DUMP_PIECES = 1152 };

struct jifl_dump {
	jifl_orig orig;
	u64 code_at;		/* address of the copy */
	u32 flags;		/* enum jifl_dump_flags */
	u32 insns;		/* original instructions that it stands for */
	u32 src_len, code_len, npieces;
	struct jifl_piece pieces[JIFL_DUMP_PIECES];
	u8 src[JIFL_DUMP_SRC];	/* as it is now */
	u8 code[JIFL_DUMP_CODE];
};

/*
 * The context of the cache's block i; the context may have been destroyed. Negative when there are
 * not so many blocks. Takes no lock; no reset may happen meanwhile.
 */
int jifl_engine_block_context(u32 i);

/* Fills d for block i, which exists. No reset may happen meanwhile. Any context but NMI. */
void jifl_engine_dump(u32 i, struct jifl_dump *d);

#endif
