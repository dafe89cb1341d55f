/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the tool tree share: what is counted by call path. */
#ifndef JIFL_HOST_TREE_H
#define JIFL_HOST_TREE_H

#include <linux/atomic.h>
#include <linux/types.h>
#include "../../../../engine/engine.h"
#include "../../store/cells.h"

struct jifl_session;
struct jifl_target;
struct jifl_times;

/* A path is its caller's and a function. A function has a node for each path that leads there. */
struct jifl_tree_name {
	u32 parent;		/* a node's number, or 0 */
	u32 function;		/* low half of its address */
};

struct jifl_tree_node {
	struct jifl_cell cell;
	struct jifl_tree_name name;	/* does not change once it is published */
	/* Without what is in its children. Times are ticks. */
	atomic64_t calls, insns, wall, blocked, runnable;
};

struct jifl_tree {
	struct jifl_cells nodes;	/* struct jifl_tree_node; first, for jifl_cells_end */
	const struct jifl_session *session;
	struct jifl_times *times;	/* where tasks are; NULL: no times are measured */
	struct jifl_tree_node others;	/* of calls of targets that found no room */
	atomic64_t refused;		/* calls that are counted as parts of their callers */
	atomic64_t strays;		/* returns of functions that are not on the path */
	atomic64_t untimed;		/* calls of targets that have no times */
};

/* Nodes have numbers: those of cells, plus 1; and that of `others`. */
#define JIFL_TREE_OTHERS	0x7fffffffu

static inline struct jifl_tree_node *jifl_tree_at(struct jifl_tree *t, u32 number)
{
	if (unlikely(number == JIFL_TREE_OTHERS))
		return &t->others;
	return container_of(jifl_cells_at(&t->nodes, sizeof(struct jifl_tree_node), number - 1),
			    struct jifl_tree_node, cell);
}

/* --- path.c ---------------------------------------------------------------------------------- */

/* Fills an insert that is run where a function begins. function: its address. */
void jifl_tree_fill_enter(struct jifl_tree *t, unsigned long function, struct ir_insert *ins);
/* How a function is left. */
enum jifl_tree_leave {
	JIFL_TREE_RETURNS,
	JIFL_TREE_JUMPS,		/* to another one */
	JIFL_TREE_BEGINS_AGAIN,		/* jumps to its own beginning */
};

/* The same where it is left. function: 0: whichever it is. */
void jifl_tree_fill_leave(struct jifl_tree *t, unsigned long function, enum jifl_tree_leave how,
			  struct ir_insert *ins);
/* The running call ends. It is in its lane still. */
void jifl_tree_ends(struct jifl_tree *t);
/* A task has died in a call. Preemption is off. */
void jifl_tree_ends_dead(struct jifl_tree *t, u64 call, u64 count);

#endif
