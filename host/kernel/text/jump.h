/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Jumps over the first instructions of functions, in the text itself: they lead to gates.
 *
 *   jump.c		the text changes, and is given back
 *   jump_table.c	which jumps there are, for all that read text or meet an int3
 *   gate.c	what a gate holds, and which address of it stands for which of the text
 *   jump_look.c	which functions can have one
 *   jump_check.c	where there may be a jump
 *   jump_lead.c	what leads there from elsewhere
 *
 * A gate is a piece of the module's text:
 *
 *	call stub	returns here, or goes on elsewhere with the stack as the function had it
 *	nop		\  for each instruction that the jump has replaced. If somebody has a
 *	instruction	/  breakpoint at it, an int3 stands for the nop: the handler is called as
 *			   if it stood at the instruction itself.
 *	jmp		behind the replaced instructions
 */
#ifndef JIFL_HOST_JUMP_H
#define JIFL_HOST_JUMP_H

#include <linux/list.h>
#include <linux/ptrace.h>
#include <linux/types.h>

#define JIFL_JUMP_MAX	15	/* bytes of the longest instruction, which a jump has to be */
#define JIFL_JUMP_INSNS	5	/* in the five bytes that a jump needs */

enum jifl_jump_state {
	JIFL_JUMP_NEW,		/* not in the text */
	JIFL_JUMP_COMES,	/* an int3 stands there */
	JIFL_JUMP_STANDS,
	JIFL_JUMP_GOES,		/* the text is as it was */
};

struct jifl_jump {
	/* Constant while it can be found. */
	unsigned long begin;	/* its address; 0: the gate is free */
	unsigned long function;	/* where it begins: there, or before, at endbr64 or site */
	u8 len;			/* of the instructions that it replaces, and so its own */
	u8 n;			/* these instructions */
	u8 from[JIFL_JUMP_INSNS + 1]; /* where each begins, from begin on; the last: len */
	u8 slot[JIFL_JUMP_INSNS + 1]; /* in the gate, the nop of each; the last: the jmp */
	u8 old[JIFL_JUMP_MAX], new[JIFL_JUMP_MAX];

	struct hlist_node node;	/* in jump.c's table */
	u8 state;		/* enum jifl_jump_state; written under jump.c's mutex */
	bool refused;		/* it cannot be there; jump.c's mutex */
	bool looped;		/* the function itself leads to it: it is met without a call */
	bool looked;		/* what leads there was looked at before; jump.c's mutex */
	u32 users;		/* jump.c's mutex */
	u32 held;		/* for int3s in its gate; jump.c's mutex */
	bool evicted;		/* jifl_evict came after its last user; jump.c's mutex */
	struct module *module;	/* somebody else's kprobe keeps it: a reference for that time */
	void *owner;		/* whose calls the stub looks at; NULL: nobody's */
	u32 *straight;		/* the word by which the stub leads on; NULL: there is none */
	bool taken;		/* somebody else has put a kprobe on it: no call is led on */
};

/* --- jump_table.c -------------------------------------------------------------------------- */

/*
 * Has `at` called for an int3 in a gate: with the address of the replaced instruction, and
 * registers as they are before it. True: it has set where the thread goes on. Once, at load.
 */
void jifl_jump_handle(bool (*at)(unsigned long address, struct pt_regs *regs));
/*
 * Under jump.c's mutex. Readers may have a removed jump until RCU has waited, and threads may be in
 * its gate until the jump is forgotten, too.
 */
void jifl_jump_add(struct jifl_jump *j);
void jifl_jump_remove(struct jifl_jump *j);
void jifl_jump_forget(void);
/* The jump that has replaced the instruction at addr; NULL: none. jump.c's mutex. */
struct jifl_jump *jifl_jump_of(unsigned long addr);
/* The jump that begins at addr; NULL: none. jump.c's mutex. */
struct jifl_jump *jifl_jump_at(unsigned long addr);
/* Does any jump lead to a gate, or may a thread be in one? */
bool jifl_jumps_any(void);
/* Has a jump replaced the instruction at addr? It stays so until the caller's jumps are put. */
bool jifl_jump_has(unsigned long addr);
/*
 * Where a thread goes on natively that is to execute the instruction at addr: in the gate, if a
 * jump has replaced the instruction. Preemption off.
 */
unsigned long jifl_jump_native(unsigned long addr);
/*
 * The kernel changes the text there, for a kprobe or otherwise, to begin so. Returns from where on
 * copies are other ones: what stands before a jump counts calls, unless a kprobe is on the jump
 * (session/nested.c). text_mutex is held.
 */
unsigned long jifl_jump_changes(unsigned long addr, u8 first);
/*
 * Has the jump stay that has replaced the instruction at addr, or takes that back. False: none has.
 * As jifl_jump_arm.
 */
bool jifl_jump_hold(unsigned long addr, bool held);
/*
 * Has an int3 stand in the gate before each of these instructions, which a jump has replaced, or
 * takes it away. Before it returns, each processor has seen it. The jumps are held. Process
 * context, not under jifl_poke_lock; sleeps.
 */
void jifl_jump_arm(const unsigned long *addresses, u32 n, bool armed);
/* An int3 exception of the kernel's: was it at a jump, or in a gate? Then regs are changed. */
bool jifl_jump_trap(struct pt_regs *regs);

/* --- jump.c -------------------------------------------------------------------------------- */

int jifl_jump_init(void);
void jifl_jump_exit(void);
struct jifl_jumps_looked;	/* what jifl_jumps_may has learned */

/*
 * Jumps for n functions, by their addresses. jumps[i]: the function's jump, one more user of it;
 * NULL: there can be none. make[i]: else a jump that exists is used, and none is made. At stub,
 * [rsp] is an address in the gate and [rsp + 8] what the function has at [rsp]. Without memory
 * there are none. looked: what was learned of functions in this order, of the kernel or of modules
 * that were held since; NULL: nothing. When it returns each jump stands. Sleeps. The caller
 * serializes get and put.
 */
void jifl_jumps_get(const unsigned long *functions, const bool *make, u32 n, unsigned long stub,
		    const struct jifl_jumps_looked *looked, struct jifl_jump **jumps);
/*
 * Of n functions, may[i] says whether calls of it, and nothing else, come to a jump that it has or
 * could have now: each is one call. *looked: for jifl_jumps_get; NULL, or kvfree frees it. 0;
 * -ENOMEM. Sleeps.
 */
int jifl_jumps_may(const unsigned long *functions, u32 n, bool *may,
		   struct jifl_jumps_looked **looked);
/*
 * One user less for each. Those that nobody uses are gone from the text when it returns. Returns
 * how many, which stand first. Where somebody else has a kprobe on a jump, the jump stays until the
 * kprobe goes, with the module. jifl_jumps_free is called for all that have no user. Sleeps.
 */
u32 jifl_jumps_put(struct jifl_jump **jumps, u32 n);
/*
 * Frees the gates of the first jumps, which are gone, and lets the others of n go when they can.
 * Since jifl_jumps_put jifl_evict has returned, and then RCU tasks has waited: no thread is at
 * their gates, or comes back there. Sleeps.
 */
void jifl_jumps_free(struct jifl_jump **jumps, u32 gone, u32 n);

/* --- gate.c --------------------------------------------------------------------------- */

/*
 * Where a thread goes on for which no gate may be needed any more, if it would go on at addr: at
 * the same instruction of the text, if addr is a gate's and nobody uses its jump. Else addr. Under
 * jifl_session_mutex, without which no jump gains or loses users. Any context.
 */
unsigned long jifl_gate_text(unsigned long addr);
/* Finds memory and what is needed of the kernel. False: there are no jumps. */
bool jifl_gates_open(void);
void jifl_gates_close(void);
/* How many are free. jump.c's mutex. */
u32 jifl_gates_free(void);
/* The next gate behind j that is taken, or the first one for NULL; NULL: none. jump.c's mutex. */
struct jifl_jump *jifl_gate_next(struct jifl_jump *j);
/* A free gate; NULL: there is none. jump.c's mutex. */
struct jifl_jump *jifl_gate_take(void);
/* Writes the gate, and what is to stand at its jump. False: out of reach. */
bool jifl_gate_write(struct jifl_jump *j, unsigned long stub);
/* The address to which the gate's call returns. It is five bytes behind a multiple of 32. */
unsigned long jifl_gate_door(const struct jifl_jump *j);
/* That of the first gate, and of the last one. False: there are no gates. */
bool jifl_gate_doors(unsigned long *first, unsigned long *last);
/* jifl_jump_arm; jump.c's mutex. */
void jifl_gates_arm(const unsigned long *addresses, u32 n, bool armed);
/* The gate's address of its i-th int3, or nop. */
unsigned long jifl_gate_slot(const struct jifl_jump *j, u32 i);
/* The jump whose gate contains addr; NULL: none. Any context. */
struct jifl_jump *jifl_gate_at(unsigned long addr);
/*
 * The text's address for which an address in a gate stands; other addresses stay. is_return: the
 * caller looks at the byte before it. Any context.
 */
unsigned long jifl_gate_original(unsigned long addr, bool is_return);

/* --- jump_check.c -------------------------------------------------------------------------- */

/* Where a jump of the function begins, whether or not one is there: behind endbr64 and site. */
unsigned long jifl_jump_begin(unsigned long function);
/*
 * Fills what the jump replaces, of the function there, and `looped` as far as the function itself
 * says. False: it cannot be replaced. Sleeps.
 */
bool jifl_jump_learn(struct jifl_jump *j, unsigned long function);
/* The same from what was learned and checked before. False: other bytes stand there now. */
bool jifl_jump_learn_again(struct jifl_jump *j, const struct jifl_jump *looked);
/*
 * Sets `refused` of those between whose instructions something leads, unless they were looked at,
 * or which the kernel changes, and `looped` where code that is no call leads to the first one.
 * Their order changes.
 */
void jifl_jumps_check(struct jifl_jump **jumps, u32 n);

/* --- jump_look.c --------------------------------------------------------------------------- */

/* jifl_jumps_may, where there are jumps. */
int jifl_jumps_look(const unsigned long *functions, u32 n, bool *may,
		    struct jifl_jumps_looked **looked);
/* What was learned of the function, from the *at-th on; NULL: nothing. */
const struct jifl_jump *jifl_jumps_find_looked(const struct jifl_jumps_looked *looked, u32 *at,
					       unsigned long function);

/* --- jump_lead.c --------------------------------------------------------------------------- */

/* The part of it that is about what leads there from elsewhere. */
void jifl_jump_leads_check(struct jifl_jump **jumps, u32 n);
/* Does what leads to `to` come to the jump, straight or by what stands before it? */
bool jifl_jump_is_led_to(const struct jifl_jump *j, unsigned long to);

#endif
