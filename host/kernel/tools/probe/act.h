/* SPDX-License-Identifier: GPL-2.0 */
/* Programs at places: run, and what they keep. */
#ifndef JIFL_HOST_PROBE_ACT_H
#define JIFL_HOST_PROBE_ACT_H

#include <linux/ptrace.h>
#include <linux/types.h>
#include "../../../../include/uapi/jifl.h"
#include "../../store/cells.h"

struct bpf_prog;
struct jifl_answer;
struct jifl_probe;
struct jifl_programs;
struct jifl_probe_place;

/* What GROUP ops have made, up to SUM. The first two and the name stand as cells' names do. */
struct jifl_group_name {
	u32 place;
	u32 unknown;
	u8 name[JIFL_GROUP_MAX];
};

/* What a running program writes to, one for each CPU and session. */
struct jifl_act_room {
	u64 frames[JIFL_FRAMES_MAX];
	struct jifl_group_name group;
	u32 named;			/* bytes of its name that may not be 0 */
	char string[JIFL_STRING_MAX];
	union {				/* a record that there is no room for */
		struct jifl_hit hit;
		u8 record[JIFL_HIT_MAX];
	};
};

/* What programs of the tool times add up of a call. */
struct jifl_times_values {
	u32 known;			/* bit n: of the counter n there is one */
	u32 below;			/* it is below 0 */
	u64 value[JIFL_COUNTERS_MAX];
};

/* A program that runs. */
struct jifl_acting {
	struct jifl_probe_place *place;
	struct jifl_probe *probe;
	const char *strings;		/* those of the session */
	struct pt_regs *regs;
	enum jifl_level level;
	unsigned int count;		/* preempt_count(), as the code of the place has it */
	bool counted;			/* HIT was done before */
	bool unknown;			/* the expression has no value */
	u32 depth;
	u64 stack[JIFL_OP_STACK];
	u32 group, parts;		/* bytes of the group's name, and its parts, so far */
	u32 record, fields;		/* likewise of the record */
	struct jifl_hit *hit;		/* the record, from its first field on */
	bool has_value, is_signed;
	u64 value;
	bool about;			/* the call is about the group */
	struct jifl_times_values values; /* of the call */
	struct jifl_act_room *room;
};

/* --- number.c ------------------------------------------------------------------------------- */

/* Does an op that is neither an effect nor a skip. false: the value is unknown. */
bool jifl_number_push(struct jifl_acting *a, const struct jifl_op *op);
/* Does one that is a skip: how many ops are skipped. */
u32 jifl_number_skip(struct jifl_acting *a, const struct jifl_op *op);
/*
 * Does the condition hold that is a session's only program (jifl_programs_is_condition)? regs: with
 * those that it may know. *known: it could be told. Preemption is off, as code of the module; any
 * context but NMI.
 */
bool jifl_number_holds(const struct jifl_programs *p, struct pt_regs *regs, bool *known);
/* A register as JIFL_OP_REG numbers it. */
u64 jifl_number_reg(const struct pt_regs *regs, u32 reg);
/* What JIFL_OP_GET means. */
u64 jifl_number_get(enum jifl_level level, u32 what);
/* The name of the command, or what is said of an interrupt: TASK_COMM_LEN bytes. */
const char *jifl_number_comm(enum jifl_level level);

/* --- act.c ---------------------------------------------------------------------------------- */

/*
 * A copy executes the place: runs its program. regs: as at the instruction, with its address. Any
 * context but NMI. The second function: the condition with which the program begins holds.
 */
void jifl_act(struct jifl_probe_place *place, struct pt_regs *regs);
void jifl_act_rest(struct jifl_probe_place *place, struct pt_regs *regs);
/* What load.S asks: jifl_peek_number, without a sign; jifl_number_get. Any context but NMI. */
bool jifl_act_load(u64 address, u32 width, u64 *value);
u64 jifl_act_ask(u32 what);
/* The same in the handler of a breakpoint. level: of what it has interrupted. */
void jifl_act_native(struct jifl_probe_place *place, struct pt_regs *regs, enum jifl_level level);

/* --- peek.c: what programs read ------------------------------------------------------------ */

/* Reads a number of 1, 2, 4 or 8 bytes. false: it cannot be read. Interrupts are off. */
bool jifl_peek_number(u64 address, u8 width, bool is_signed, u64 *value);
/*
 * Reads the string at an address, of the kernel or the task's own, into room for max bytes; its end
 * is a 0. Returns its length without the end; negative: it cannot be read. Interrupts are off.
 */
int jifl_peek_string(u64 address, char *to, u32 max);
/*
 * Is the string the one of so many bytes? cut: does it begin with them? Then there is at least one.
 * Negative: it cannot be read. Interrupts are off.
 */
int jifl_peek_is(u64 address, const char *string, u32 len, bool cut);
/*
 * The callers of the code with these registers, innermost first, original addresses. Returns how
 * many; behind them 0. Interrupts are off.
 */
u32 jifl_peek_stack(struct pt_regs *regs, u64 frames[JIFL_FRAMES_MAX]);
/*
 * The first of them. begins: the function has executed nothing, so the return address is on top of
 * the stack. false: nobody can tell. Interrupts are off.
 */
bool jifl_peek_caller(struct pt_regs *regs, bool begins, u64 *caller);
/* At load. Sleeps. */
void jifl_peek_init(void);

/* --- group.c: hits by what was asked for ------------------------------------------------------ */

struct jifl_groups;
struct jifl_groups_cell;

/* How many groups a session may have. Any context. */
u32 jifl_groups_room(void);
/* -ENOMEM. stacks: stacks have numbers. Sleeps. */
int jifl_groups_open(struct jifl_groups **groups, bool stacks);
/* Takes NULL, too. Sleeps. */
void jifl_groups_close(struct jifl_groups *g);
/*
 * Adds a hit, with its value; NULL: it has none. used: bytes of the name, behind which it is 0.
 * known: where the place keeps its group, if the name is the same each time; else NULL.
 * Context: any.
 */
void jifl_groups_add(struct jifl_groups *g, const struct jifl_group_name *name, u32 used,
		     struct jifl_groups_cell **known, const u64 *value, bool is_signed);
/* Of the place, of what is unknown, and of the name's words, for a table of cells. Any context. */
u32 jifl_groups_hash(const struct jifl_group_name *name, u32 used);
/* The number of a stack; 0: no room. Any context. */
u64 jifl_groups_stack(struct jifl_groups *g, const u64 frames[JIFL_FRAMES_MAX]);
extern const struct jifl_answer jifl_groups_answer, jifl_groups_stacks_answer;
/* 0, or -EINVAL after a line in the log: the module's parameter. */
int jifl_groups_init(void);

/* --- hit.c: records --------------------------------------------------------------------------- */

struct jifl_hit_ring;
struct ir_hit;

/* bytes: for each CPU. inlined: inserted code writes to it, and nobody else. -ENOMEM. Sleeps. */
int jifl_hit_ring_open(struct jifl_hit_ring **ring, u32 bytes, bool inlined);
/* Takes NULL, too. Sleeps. */
void jifl_hit_ring_close(struct jifl_hit_ring *ring);
/*
 * The next three: of a ring that is not inlined, while a program runs on this CPU (act.c, step 2).
 * Any context.
 *
 * Where this CPU's next record is to be written: JIFL_HIT_MAX bytes. NULL: there is no room.
 */
struct jifl_hit *jifl_hit_ring_room(struct jifl_hit_ring *ring);
/* The record has been written there, and has so many bytes. */
void jifl_hit_ring_commit(struct jifl_hit_ring *ring, u32 bytes);
/* A record is lost. */
void jifl_hit_ring_lose(struct jifl_hit_ring *ring);
/* JIFL_IOC_HITS, of the session's two rings; the first may be NULL. Sleeps. */
int jifl_hit_rings_read(struct jifl_hit_ring *inlined, struct jifl_hit_ring *ring,
			struct jifl_hit_read *req);
/* Can inserted code write records on this machine? */
bool jifl_hits_inline(void);
/* Says where the ring is, and what else than values stands in a record of inserted code. */
void jifl_hit_ring_describe(const struct jifl_hit_ring *ring, struct ir_hit *hit);
/* The first word of a record of that place. */
s32 jifl_hit_ring_word(const struct ir_hit *hit, u32 place);

/* --- act_bpf.c -------------------------------------------------------------------------------- */

/* Finds what the kernel knows of programs that run. 0. Sleeps. */
int jifl_act_bpf_init(void);
/* Can this kernel run programs at kprobes? */
bool jifl_act_bpf_may(void);
/* Runs the program. false: one runs on this CPU, so it did not. Interrupts are off. */
bool jifl_act_bpf(struct bpf_prog *prog, struct pt_regs *regs);

#endif
