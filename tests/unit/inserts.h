/* SPDX-License-Identifier: GPL-2.0 */
/* Callbacks that instrument, and their inserts: shared by the tests. */
#ifndef JIFL_UNIT_INSERTS_H
#define JIFL_UNIT_INSERTS_H

#include "../../engine/engine.h"

/* Each is a jifl_instrument_fn; arg is not used. */
void insert_block_count(struct ir_block *b, void *arg);	/* block_count, anywhere */
void insert_ins_count(struct ir_block *b, void *arg);	/* ins_count, before each */
void insert_store(struct ir_block *b, void *arg);	/* last_block, before the first */
void insert_poison(struct ir_block *b, void *arg);	/* poison() before and after each */
void insert_edges(struct ir_block *b, void *arg);	/* see edges */
void insert_on_edges(struct ir_block *b, void *arg);	/* calls and more, on a branch's ways */
void insert_records(struct ir_block *b, void *arg);	/* address, before each */
void insert_words(struct ir_block *b, void *arg);	/* the same, with what is looked up */
void insert_args(struct ir_block *b, void *arg);	/* check_args() before each */
/* calls that are given all registers, before and after each */
void insert_contexts(struct ir_block *b, void *arg);
void insert_counts(struct ir_block *b, void *arg);	/* near_count or *far_count, before each */
void insert_hists(struct ir_block *b, void *arg);	/* a register, before and after each */
void insert_whens(struct ir_block *b, void *arg);	/* all, before each, if a register is ... */
/* terms.c: counts and calls before each, if random terms hold, which is checked */
void insert_terms(struct ir_block *b, void *arg);
/* hits.c: records of numbers before each, likewise */
void insert_hits(struct ir_block *b, void *arg);
void insert_mixture(struct ir_block *b, void *arg);	/* of all, by insert_seed */

extern u64 block_count, ins_count, last_block;
extern u64 poison_calls, poison_misaligned, poison_backwards;
extern u64 args_calls, args_wrong;
/* Of insert_terms: how often they held; how often that was wrong, or what was seen there. */
extern u64 terms_held, terms_wrong;
/* Of insert_hits: records; what was left to the host; how often something was wrong. */
extern u64 hits_recorded, hits_left, hits_wrong;
extern u64 insert_seed;

/* insert_counts: counters within reach of 32 bits from gs, and further away than that. */
extern u64 near_count, *far_count;
/* Another cell that is not within reach. */
u64 *insert_far_cell(void);

/* insert_edges: blocks that end in a branch on a condition, and which way it goes. */
extern struct edges {
	u64 executed, not_taken, taken;
} edges;

/* The ring of insert_records: its cell, and the records from position 0 on. */
#define RECORDS_ORDER	14
struct record {
	u32 what;	/* an original address, its low half */
	u32 rsp;
};
extern u64 records_cell;
extern struct record records[(1 << RECORDS_ORDER) + IR_CALL_ARGS];

/* The cells of insert_hists. */
extern u64 hist_cells[IR_HIST_BUCKETS];

void terms_begin(void);
void hits_begin(void);
/* Zeroes all of them but the seed. */
void insert_begin(void);

/*
 * An analysis routine that changes all a C function may, leaves nonsense in it,
 * and notes when the stack is not aligned and when DF is set; poison.S.
 */
extern const char poison[];

/* Nothing and every kind above; ends with name NULL. */
enum { INSERT_MODES = 17 };
struct insert_mode {
	const char *name;
	jifl_instrument_fn fn;
};
extern const struct insert_mode insert_modes[INSERT_MODES + 1];

#endif
