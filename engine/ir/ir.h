/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The intermediate representation: one basic block of original instructions and the inserts
 * between them.
 *
 * decode fills a block, instrument adds inserts to it, emit reads it. The block lives in the
 * engine's scratch memory while it is translated, under the engine lock; nothing keeps a pointer
 * to it afterwards.
 */
#ifndef JIFL_IR_IR_H
#define JIFL_IR_IR_H

#include "../base/types.h"
#include "jifl_causes.h"
#include "jifl_ins.h"
#include "hits.h"
#include "terms.h"

#define IR_BLOCK_INSNS	64	/* a longer run of code is cut into blocks */
#define IR_BLOCK_INSERTS 192
#define IR_INSERT_LONG	7	/* inserts whose room a long one takes */
#define IR_CALL_ARGS	6	/* those passed in registers */
#define IR_GARBAGE_FLAGS 16	/* the first bit of flags in IR_INSERT_GARBAGE's imm */
#define IR_HIST_BUCKETS	65	/* one for 0, one for each power of two: all 64-bit values */

/* How emit treats an instruction. */
enum ir_kind {
	IR_PLAIN,	/* copied; a rip-relative operand is relocated */
	IR_NOP,		/* counted, not copied */
	IR_JMP,		/* direct jump */
	IR_JCC,		/* conditional jump, near or short */
	IR_JCXZ,	/* jrcxz, jecxz, loop, loope, loopne: short only */
	IR_CALL,	/* direct call */
	IR_JMP_IND,	/* through a register or memory, thunks folded */
	IR_CALL_IND,
	IR_RET,		/* ret, ret imm16 */
	IR_RET_THUNK,	/* jmp to the return thunk */
	IR_NATIVE,	/* not understood: the block ends before it */
};

/* Status flags, a bit each. */
enum ir_flag {
	IR_CF = 1 << 0,
	IR_PF = 1 << 1,
	IR_AF = 1 << 2,
	IR_ZF = 1 << 3,
	IR_SF = 1 << 4,
	IR_OF = 1 << 5,
	IR_FLAGS = 0x3f,
	IR_DF = 1 << 6,		/* not a status flag: set where strings run backwards */
};

/* General registers by hardware number; sets of them are masks of 1 << number. */
enum ir_reg {
	IR_RAX, IR_RCX, IR_RDX, IR_RBX, IR_RSP, IR_RBP, IR_RSI, IR_RDI,
	IR_R8, IR_R9, IR_R10, IR_R11, IR_R12, IR_R13, IR_R14, IR_R15,
	IR_REG_NONE = 0xff,
};

/* The registers that a function of the System V ABI may change. */
#define IR_CALLER_SAVED (1u << IR_RAX | 1u << IR_RCX | 1u << IR_RDX | 1u << IR_RSI | \
			 1u << IR_RDI | 1u << IR_R8 | 1u << IR_R9 | 1u << IR_R10 | 1u << IR_R11)

/* The registers that hold the arguments of a function of the System V ABI (3.2.3), in order. */
extern const u8 ir_arg_regs[IR_CALL_ARGS];

/* How often a string instruction repeats; the count is in rcx. */
enum ir_repeat {
	IR_REPEAT_NONE,
	IR_REPEAT_COUNT,	/* rep: as often as rcx says */
	IR_REPEAT_WHILE,	/* repe, repne: at most as often as rcx says */
};

#define IR_INSN_MAX	15	/* bytes, the processor's limit */

/*
 * What the bytes of an instruction say about it, wherever it stands. struct ir_insn and the
 * remembered forms (decode/form.h) both have these members, so that one is copied from the other
 * as a whole.
 */
#define IR_TRAITS \
	u8 len; \
	u8 kind;		/* enum ir_kind */ \
	u8 cc;			/* JCC: low nibble of its opcode */ \
	u8 reg;			/* *_IND: enum ir_reg, IR_REG_NONE for memory */ \
	u8 disp_at;		/* offset of a rip-relative disp32, 0: none */ \
	u8 modrm_at;		/* offset of the ModRM byte, 0: none */ \
	u8 flags_read;		/* enum ir_flag */ \
	u8 flags_written;	/* written or left undefined in every case */ \
	u8 cause;		/* NATIVE: enum jifl_cause */ \
	u8 type;		/* enum jifl_ins_type, for tools */ \
	u8 repeat;		/* enum ir_repeat */ \
	u8 sets_df, clears_df;	/* std, cld */ \
	u8 folded;		/* further original instructions it stands for; of a form 0 */ \
	u16 regs_read;		/* registers that must hold their values before it */ \
	u16 regs_written;	/* registers whose old values end with it */

struct ir_traits {
	IR_TRAITS
};

struct ir_insn {
	jifl_orig addr;
	jifl_orig target;	/* JMP, JCC, JCXZ, CALL; a folded thunk */
	u8 bytes[IR_INSN_MAX];
	bool leaves;		/* JMP, JCC, CALL*: the branch goes to native code */
	union {
		struct {
			IR_TRAITS
		};
		struct ir_traits traits;
	};
};

/*
 * A counter or other cell that inserted code reaches by one instruction: an absolute 32-bit
 * sign-extended address, relative to gs where gs is set. Inserted code adds by a locked
 * instruction to a cell that processors share.
 */
struct ir_operand {
	s32 disp;
	bool gs;
	bool locked;
};

/*
 * A value that inserted code looks at: a register's value, as the kernel left it, or a value in
 * memory to which a register points. Liveness keeps the register up to the insert, from the start
 * of the block. What other blocks leave in a register that the kernel no longer needs is not
 * known.
 */
struct ir_source {
	u8 width;		/* bytes: 8, or 4, the low half; 0: none */
	u8 reg;			/* enum ir_reg, not rsp; with memory, nor r12 */
	bool memory;		/* at reg + disp, which must not fault */
	s8 disp;
};

/* How an argument is fetched each time that the call is made. */
enum ir_fetch_how {
	IR_FETCH_REG,		/* the register base */
	IR_FETCH_REG32,		/* the low half of base */
	IR_FETCH_LOAD,		/* memory at base + index * scale + disp, which must not fault */
	IR_FETCH_LOAD32,
	IR_FETCH_ADDRESS,	/* the address of that memory */
	IR_FETCH_CELL,		/* the 64-bit cell at disp, relative to gs */
	IR_FETCH_THEN,		/* as CELL, then on from where that points: see ir_insert.then */
	/*
	 * The address of a struct pt_regs of the kernel's: all registers, flags, and disp, the low
	 * half of the original address. At most one argument of a call can be this. Such a call
	 * has no condition but `terms`, is not inlined, and stands only in blocks.
	 */
	IR_FETCH_CONTEXT,
	IR_FETCH_TSC,		/* the processor's time stamp counter; RECORD: only as the last */
};

/*
 * An argument that inserted code fetches. Registers have the values that the kernel left, as in
 * struct ir_source.
 */
struct ir_fetch {
	u8 how;			/* enum ir_fetch_how */
	u8 base, index;		/* enum ir_reg; IR_REG_NONE: none. base: may be rsp, as it was */
	u8 scale;
	s32 disp;
};
_Static_assert(sizeof(struct ir_fetch) == sizeof(u64), "stands where a constant does");

enum ir_insert_kind {
	IR_INSERT_ADD,		/* add imm to a 64-bit cell; clobbers flags */
	IR_INSERT_ADD_REG,	/* add reg, or subtract it with imm < 0; clobbers flags */
	IR_INSERT_COUNT,	/* add 1 to a 64-bit counter of the processor's; clobbers flags */
	IR_INSERT_STORE,	/* store imm to a 64-bit cell */
	IR_INSERT_CALL,		/* call fn(args); preserves everything */
	IR_INSERT_RECORD,	/* append imm, rsp and fetched values to a ring: emit/record.c */
	IR_INSERT_HIST,		/* count a value in a histogram, see emit/hist.c */
	/*
	 * Count, and append a record: emit/hit.c. Where that has to be left to the host: call
	 * fn(args[0], registers); args[1] is the original address. Long, and only in blocks.
	 */
	IR_INSERT_HIT,
	/*
	 * For tests: put garbage into these, whatever the engine's own liveness says of them: bit
	 * i of imm stands for register i, those from IR_GARBAGE_FLAGS on stand for enum ir_flag.
	 * rsp is left alone.
	 */
	IR_INSERT_GARBAGE,
};

/* Where an insert goes. */
enum ir_place {
	IR_BEFORE,		/* right before instruction `at` */
	/*
	 * Right after it. For a branch on a condition: when it does not branch. Not for other
	 * branches.
	 */
	IR_AFTER,
	/* On the edge of the taken branch; only for branches on a condition. */
	IR_TAKEN,
	/*
	 * Once per execution of the block, where it is cheapest; not for inserts that look at
	 * registers.
	 */
	IR_ANYWHERE,
	/*
	 * Before one of the instructions `from` to `at`, where it is cheapest. The values that the
	 * insert looks at are used by instruction `at` or behind it.
	 */
	IR_BETWEEN,
};

/* What is left undone for an insert, to measure the effect of that step. */
enum ir_without {
	IR_WITHOUT_LIVENESS = 1 << 0,	/* all counts as live, and no place is looked for */
	IR_WITHOUT_INLINING = 1 << 1,	/* CALL: always called */
};

struct ir_insert {
	u8 kind;		/* enum ir_insert_kind */
	u8 place;		/* enum ir_place */
	u16 at;			/* index of the instruction */
	u16 from;		/* BETWEEN */
	u8 nargs;		/* CALL; RECORD: all of these are fetched */
	u8 reg;			/* enum ir_reg */
	u8 order;		/* RECORD: log2 of a ring's records */
	u8 without;		/* enum ir_without */
	u8 buckets;		/* HIST: cells from `cell` on, 2 to IR_HIST_BUCKETS */
	/* COUNT, RECORD: a C function begins or returns: r11 and flags are dead */
	bool convention;
	s32 imm;		/* HIT: the first word of a record, sign-extended */
	s32 rings;		/* RECORD: where they are, an absolute address */
	struct ir_source value;	/* HIST */
	struct ir_source when;	/* if not none: the insert runs only if this equals `equals` */
	u64 equals;		/* as wide as `when`; sign bits or zeroes above do not matter */
	struct ir_operand cell;
	u64 fn;			/* address of the analysis routine */
	const struct ir_hit *hit; /* HIT; as `terms` it is there as long as blocks are translated */
	u64 counter;		/* COUNT, HIT: relative to gs, any 64 bits; see emit/count.c */
	/*
	 * COUNT, CALL, HIT, in blocks: if not NULL, the insert runs only if this holds. It is there
	 * as long as blocks are translated. The insert is long (ir_block_insert_long), and has no
	 * `when`.
	 */
	const struct ir_terms *terms;
	u64 unknown;		/* with LOADs: address of a u64, how often one could not be read */
	u16 keeps;		/* registers that it may not use for itself, even if dead */
	bool keeps_flags;	/* likewise flags */
	u8 fetched;		/* bit i: fetches[i] is argument i, not args[i] */
	u8 pushed;		/* emit's: words pushed on the stack since the instruction */
	s32 then[2];		/* THEN, of one argument: displacements of two loads */
	union {
		u64 args[IR_CALL_ARGS];
		struct ir_fetch fetches[IR_CALL_ARGS];
	};
};

struct ir_block {
	jifl_orig addr;
	jifl_orig next;		/* where it goes on without branching; v 0: nowhere */
	u16 ninsns;
	u16 ninserts;
	u16 nlong;		/* inserts with room for IR_INSERT_LONG */
	u32 count;		/* original instructions it stands for, folded ones too */
	u32 src_len;		/* bytes of original code */
	bool inserts_full;	/* an insert was refused for want of room */
	bool sets_df;		/* an instruction of the block sets DF */
	/*
	 * The host is asked each time before anything of the block runs: struct jifl_config, asks.
	 * Only for blocks where functions begin.
	 */
	bool asks;
	/*
	 * It stands in an entry piece, with what is inserted there, and only its function's first
	 * instructions: jifl_engine_entry_create_beginning. Where copies call, another block is.
	 */
	bool in_piece;
	struct ir_insn insns[IR_BLOCK_INSNS];
	struct ir_insert inserts[IR_BLOCK_INSERTS];
};

/* True for the kinds that end a block. */
static inline bool ir_kind_ends_block(u8 kind)
{
	return kind != IR_PLAIN && kind != IR_NOP;
}

/* True for branches that may not be taken: the block then goes on at its next. */
static inline bool ir_kind_is_conditional(u8 kind)
{
	return kind == IR_JCC || kind == IR_JCXZ;
}

/*
 * Adds an insert to the block. Returns the insert for the caller to fill, or NULL when there is no
 * room (noted in inserts_full).
 */
struct ir_insert *ir_block_insert(struct ir_block *b, enum ir_place place, u16 at);
/* The same for an insert that takes the room of IR_INSERT_LONG others. */
struct ir_insert *ir_block_insert_long(struct ir_block *b, enum ir_place place, u16 at);
/* Is there room for n more inserts? */
bool ir_block_has_room(const struct ir_block *b, u32 n);

/* The registers whose values a fetch reads, without rsp. */
u16 ir_fetch_reads(const struct ir_fetch *l);
u16 ir_insert_reads(const struct ir_insert *ins);
/* The insert's argument of IR_FETCH_CONTEXT; NULL: it has none. */
const struct ir_fetch *ir_insert_context(const struct ir_insert *ins);

#endif
