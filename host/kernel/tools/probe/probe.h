/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the tool probe share. */
#ifndef JIFL_HOST_PROBE_H
#define JIFL_HOST_PROBE_H

#include <linux/atomic.h>
#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/types.h>
#include "../../../../include/uapi/jifl.h"

struct ir_block;
struct jifl_answer;
struct ir_insert;
struct jifl_aim;
struct jifl_groups;
struct jifl_groups_cell;
struct jifl_front;
struct jifl_hit_ring;
struct jifl_probe;
struct jifl_probe_call;
struct jifl_program;
struct jifl_act_room;
struct jifl_session;
struct jifl_times;

/* What an instruction does to a thread that executes it aside (step.c). */
enum jifl_step_kind {
	JIFL_STEP_COPY,
	JIFL_STEP_JMP,
	JIFL_STEP_JCC,
	JIFL_STEP_CALL,
	JIFL_STEP_RET,
};

struct jifl_step {
	u64 to;				/* the copy, or where the branch goes; RET: unused */
	u8 kind;			/* enum jifl_step_kind */
	u8 cc;				/* JCC: its condition */
	u8 len;				/* bytes of the instruction */
	u8 byte;			/* the first of them */
};

/* The int3 that a breakpoint is. */
enum jifl_breakpoint_kind {
	JIFL_BREAKPOINT_KPROBE,
	JIFL_BREAKPOINT_OWN,	/* of the module's own, in the text (int3.c) */
	JIFL_BREAKPOINT_GATE,	/* in the gate of a jump that has replaced the instruction */
};

/*
 * The breakpoint at an instruction. There is one, however many sessions have places there.
 * jifl_session_mutex, if nothing else is said. `address`, `step` and `kind` do not change while the
 * breakpoint is in the table.
 */
struct jifl_breakpoint {
	struct hlist_node node;		/* in set.c's table, by address; read under RCU */
	struct list_head sites;		/* of these sessions; set.c says who reads and writes it */
	unsigned long address;
	struct jifl_step step;		/* OWN */
	u8 kind;			/* enum jifl_breakpoint_kind */
	bool is_armed;			/* OWN, GATE: the int3 stands */
	struct kprobe probe[];		/* KPROBE: one */
};

/* What a session has at an instruction. */
struct jifl_probe_site {
	struct list_head node;		/* in breakpoint->sites */
	struct jifl_breakpoint *breakpoint; /* NULL: not set; jifl_session_mutex */
	struct jifl_probe *owner;
	u32 first, n;			/* its places */
	atomic64_t caught;
	bool lifted;			/* the kernel has taken the breakpoint away for a time */
	bool is_leaving;		/* off the list, and not cleared; jifl_session_mutex */
	/*
	 * Of the kprobe's nmissed; jifl_session_mutex. While the breakpoint is set, what it was at
	 * the beginning. Then, by how much it has grown.
	 */
	unsigned long missed;
};

/* What else is done at a place: of sessions with programs, and of plugins. */
struct jifl_probe_work {
	/* Both NULL: the executions are counted, and nothing else. */
	const struct jifl_program *program;
	const struct jifl_front *front;	/* of the program */
	const struct jifl_probe_call *call; /* a plugin's */
	struct jifl_groups_cell *group;	/* of the hits without a name; NULL: not yet known */
	atomic64_t untested, nested, unrun; /* as in struct jifl_hits */
};

/* A place in the list of a session. There may be tens of thousands. */
struct jifl_probe_place {
	unsigned long address;
	u8 where;			/* enum jifl_splice_where */
	u8 cc;				/* the low nibble of a jcc's opcode; JIFL_PROBE_JRCXZ */
	bool skipped;			/* a door skips the instruction: no breakpoint there */
	bool refused;			/* a copy has found no room for the counter */
	bool stopped;			/* a plugin's: it is to be lifted, or it is lifted */
	bool lifted;			/* its copies are dropped; jifl_session_mutex */
	struct jifl_probe_site *site;	/* NULL: skipped */
	struct jifl_aim *aim;
	struct jifl_probe *owner;
	u64 __percpu *counter;
	struct jifl_probe_work *work;	/* NULL: executions are counted, and nothing else */
};

static inline const struct jifl_program *jifl_probe_program(const struct jifl_probe_place *place)
{
	return place->work ? place->work->program : NULL;
}

static inline const struct jifl_probe_call *jifl_probe_call(const struct jifl_probe_place *place)
{
	return place->work ? place->work->call : NULL;
}

#define JIFL_PROBE_JRCXZ	0x10
#define JIFL_PROBE_JECXZ	0x11

/* What a session has, s->tool_data. */
struct jifl_probe {
	struct list_head list;		/* of those in the table; jifl_session_mutex */
	struct jifl_session *session;
	u32 nplaces;
	u32 nsites;
	struct jifl_probe_place *places;
	struct jifl_counters *counters;	/* of all places, in their order */
	struct jifl_probe_work *works;	/* of all places; NULL: no place has one */
	struct jifl_probe_site *sites;
	/*
	 * Room for one a site: the end needs no memory. From the front kprobes, from the back
	 * `probe` of the other breakpoints.
	 */
	struct kprobe **leaving;
	/* How many there are of both, and RCU's state since; jifl_session_mutex. */
	u32 nleaving, nothers;
	unsigned long left;
	bool had_own;			/* it has had breakpoints of the module's own */
	/* Of programs; NULL: none needs it. */
	struct jifl_act_room __percpu *room;
	struct jifl_front *fronts;	/* by program */
	u32 nfronts;
	struct jifl_groups *groups;
	struct jifl_hit_ring *ring, *inlined; /* the second: what inserted code writes; or NULL */
	struct jifl_times *times;	/* the tool times' own; else NULL */
	/* Each place is known: breakpoints may lead threads into its context, and count. */
	bool leads;
	atomic64_t moved;
};

/* --- table.c: the places of all sessions ------------------------------------------------ */

/*
 * From here on new copies of the places count; from the next return on no new copy does. -ENOMEM.
 * Under jifl_session_mutex; they sleep.
 */
int jifl_probe_publish(struct jifl_probe *p);
void jifl_probe_withdraw(struct jifl_probe *p);
/* The same as withdraw for places that are stopped. */
void jifl_probe_withdraw_stopped(struct jifl_probe *p);
/* The insert leaves all registers and flags, if any place is shown them. Under the engine lock. */
void jifl_probe_keep_all(struct ir_insert *ins);
/* Inserts the counters of the block's places. As jifl_instrument_fn; under the engine lock. */
void jifl_probe_instrument(struct ir_block *b, void *unused);

/* --- tool.c ------------------------------------------------------------------------------ */

/* As in struct jifl_tool, for tools whose sessions are of this kind, too. */
int jifl_probe_open(struct jifl_session *s, u64 *busy_session);
void jifl_probe_close(struct jifl_session *s);
int jifl_probe_attach(struct jifl_session *s);
void jifl_probe_detach(struct jifl_session *s);
void jifl_probe_ended(struct jifl_session *s);
const struct jifl_answer *jifl_probe_other(const struct jifl_session *s, u32 table,
					   const void **of);
void jifl_probe_entry(struct jifl_aim *aim, struct ir_insert *entry, u32 *nentry,
		      struct ir_insert *exit, u32 *nexit);
void jifl_probe_passes(struct jifl_aim *aim);

/*
 * The rows are withdrawn and the breakpoints are cleared. When it returns no thread is in inserted
 * code of theirs, or in what that calls. Sleeps.
 */
void jifl_probe_wait(void);

/* --- place.c: which places there may be -------------------------------------------------- */

/* What is known of the function, or of the cold part of one, that the last place was in. */
struct jifl_probe_part {
	const struct jifl_aim *aim;	/* NULL: there was no place yet */
	unsigned long begin, size;
	bool is_targets;		/* its places may be the aim's */
	bool is_own;			/* the handler of breakpoints calls it */
	bool has_kernels;		/* instructions are changed, which _refuse_kernels misses */
};

/* At load. Sleeps. */
void jifl_probe_find_kernels(void);
/* Refuses places of the session at instructions that the kernel itself changes. */
void jifl_probe_refuse_kernels(struct jifl_session *s);

/* Fills the place. The part is that of the place before. Process context, sleeps. */
enum jifl_splice_refusal jifl_probe_fill(struct jifl_session *s, const struct jifl_splice *from,
					 struct jifl_probe_place *place,
					 struct jifl_probe_part *part);

/* --- catch.c: who meets breakpoints ----------------------------------------------------- */

/*
 * A thread has met a breakpoint. Where it goes on in the cache; 0: natively, and it is counted. In
 * an int3 exception; regs->ip is behind the int3.
 */
u64 jifl_probe_meet(const struct jifl_breakpoint *b, struct pt_regs *regs);
/* The same as the handler of a kprobe. */
int jifl_probe_caught(struct kprobe *kp, struct pt_regs *regs);
/* The same for an int3 in the gate of a jump (text/jump.h). */
bool jifl_probe_caught_in_gate(unsigned long address, struct pt_regs *regs);
/* Does the module's own code run on this CPU? In an int3 exception. */
bool jifl_probe_in_own_code(void);

/* --- branch.c: branches on conditions ----------------------------------------------------- */

/*
 * Notes the conditions of the branches at which the site's places are. The breakpoint is set:
 * before, the bytes behind the first could have been those of the jump of another kprobe. No
 * handler needs a condition yet: it counts nothing before the session leads. Under
 * jifl_session_mutex.
 */
enum jifl_splice_refusal jifl_probe_learn(struct jifl_probe *p,
					  const struct jifl_probe_site *site);
/* Does a branch with this condition, as in jifl_probe_place.cc, branch? Any context. */
bool jifl_probe_branches(u8 cc, const struct pt_regs *regs);

/* --- call.c: functions of plugins -------------------------------------------------------- */

/* Inserts the call of the place, at the block's instruction `at`. Under the engine lock. */
void jifl_probe_insert_call(struct ir_block *b, struct jifl_probe_place *place, u16 at);
/* Makes the call in the handler of a breakpoint. taken: a branch stands there, and is taken. */
void jifl_probe_call_native(struct jifl_probe_place *place, struct pt_regs *regs, bool taken);

/* --- step.c: instructions beneath breakpoints of the module's own ------------------------- */

/* Finds what the instruction does. false: it cannot be executed aside. Process context. */
bool jifl_step_find(unsigned long address, struct jifl_step *step);
/* Bytes that its copy takes. */
u32 jifl_step_size(const struct jifl_step *step);
/* Writes the copy. false: the text has changed, or it is too far away. Process context. */
bool jifl_step_copy(unsigned long address, struct jifl_step *step, u8 *to);
/* Executes it, or leads the thread to the copy. In an int3 exception. */
void jifl_step(unsigned long address, const struct jifl_step *step, struct pt_regs *regs);

/* --- int3.c: breakpoints of the module's own ----------------------------------------------- */

/* How far a function was decoded. */
struct jifl_int3_walk {
	unsigned long begin, size, at;
	bool refused;			/* that function has none */
	u32 copies;			/* bytes that copies of instructions take so far */
	u32 made;			/* breakpoints so far */
};

/* 0. At load, and at the end. */
int jifl_int3_init(void);
void jifl_int3_exit(void);
/* Under jifl_session_mutex, but for _free; they sleep. Does the session set them where it may? */
bool jifl_int3_wanted(const struct jifl_probe *p);
/* Are there any? */
bool jifl_int3_stand(void);
/* Does it where the kernel refuses a kprobe? That of another session may be the reason. */
bool jifl_int3_instead(const struct jifl_probe *p, int err);
/* May there be one, at this address? Fills the step. In the order of addresses. */
bool jifl_int3_may(struct jifl_int3_walk *walk, unsigned long address, struct jifl_step *step);
/* Makes the copies of instructions of `walk`. 0; -ENOMEM; -EBUSY: text has changed. */
int jifl_int3_copy(struct jifl_probe *p, const struct jifl_int3_walk *walk);
/* All int3s of the session are there when it returns 0; -EBUSY: none is. *bad: why is that site. */
int jifl_int3_arm(struct jifl_probe *p, u32 *bad);
/* Those of these n that are armed are gone, from all processors, when it returns. */
void jifl_int3_disarm(struct kprobe **leaving, u32 n);
/* Gives copies of instructions back, if nobody can be in one. Takes jifl_session_mutex. */
void jifl_int3_free(void);
/* Is there one? *byte: what is beneath. Any context, preemption off. */
bool jifl_int3_beneath(unsigned long address, u8 *byte);

/* --- set.c: breakpoints come and go ----------------------------------------------------- */

/* The breakpoint at the address, or NULL. Under RCU, or jifl_session_mutex. */
struct jifl_breakpoint *jifl_probe_find(unsigned long address);

/*
 * Sets a breakpoint at each site. 0; -ENOMEM; -EINTR: the task is being killed; -EILSEQ with *bad
 * set, the site, and *why. What was set then goes with jifl_probe_clear. Under jifl_session_mutex;
 * they sleep.
 */
int jifl_probe_set(struct jifl_probe *p, u32 *bad, enum jifl_splice_refusal *why);
/*
 * When the first returns no handler runs any more that knows the session. The second frees the
 * breakpoints, when no handler may have one in its hands.
 */
void jifl_probe_clear(struct jifl_probe *p);
void jifl_probe_cleared(struct jifl_probe *p);
/* When it returns no handler runs any more that knows the place, of each one that is stopped. */
void jifl_probe_clear_stopped(struct jifl_probe *p);
/* The kernel takes the breakpoint away. Under text_mutex, preemption off. */
void jifl_probe_lifted(struct kprobe *kp);
/* Executions that the kernel has not told of. They take jifl_session_mutex. */
u64 jifl_probe_site_missed(const struct jifl_probe_site *site);
u64 jifl_probe_missed(const struct jifl_probe *p);

#endif
