/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a session of one kind does: a tool. Each tool has a file or a folder in tools/ (plugins: in
 * plugin/), and says there all that others have to know of it. They know a tool by this structure
 * alone, and never ask which one it is.
 *
 * A session has its tool from the room that makes it: device/ by the kind that was asked for,
 * plugin/ its own.
 */
#ifndef JIFL_HOST_TOOL_H
#define JIFL_HOST_TOOL_H

#include <linux/types.h>
#include "../../../engine/engine.h"

struct jifl_aim;
struct jifl_answer;
struct jifl_facts;
struct jifl_hit_read;
struct jifl_session;
struct jifl_target;
struct task_struct;

/* What is known of the calls of a session's targets. */
enum jifl_tool_calls {
	JIFL_CALLS_UNCOUNTED = 0,	/* nothing */
	JIFL_CALLS_COUNTED,		/* their number: each is counted where it begins */
	JIFL_CALLS_FOLLOWED,		/* what was counted in each: it is known until its end */
};

/* What is recorded of calls in the rings (store/ring.h), by a tool that follows them. */
struct jifl_tool_records {
	bool results;			/* what calls return */
	bool stacks;			/* JIFL_RECORD_STACK behind each beginning */
	bool faults;			/* where the kernel's fixups went on */
};

struct jifl_tool {
	const char *name;		/* in the log */
	u32 kind;			/* enum jifl_kind */
	u32 flags;			/* JIFL_FLAG_* that its sessions may have */
	enum jifl_tool_calls calls;
	/*
	 * FOLLOWED: what is counted belongs to blocks, not to calls. So with functions alone a call
	 * inside another one is a part of that, and of its own function (jifl_count_is_apart).
	 */
	bool counts_apart;
	bool counts_insns;		/* FOLLOWED: what is counted are instructions */
	bool alone;			/* functions may be its targets without what they call */
	/*
	 * Calls of the targets of others may begin inside the calls of its sessions: nested.c. Not
	 * where what it inserts, or what reads its records, knows a function by its first block.
	 */
	bool holds;
	const struct jifl_tool_records *records; /* NULL: nothing is recorded */
	bool places;			/* its sessions are about s->splices, of all tasks */
	/* A place calls a function (tools/probe/calls.h); a splice's `action` is the tool's. */
	bool calls_functions;
	bool counters;			/* s->meters are counted, too */
	bool objects;			/* programs of its places tell what calls are about */
	bool watches;			/* with places: a filter is s->watched, which it asks */
	bool shows_addresses;		/* what is read of it has addresses of the kernel */
	bool lays;			/* blocks of its sessions may be laid anew */
	/* Its sessions have one target, a function, whose calls go to another one; aim->gate. */
	bool replaces;
	/*
	 * Does s->programs, a condition on calls of the aim's function, hold for this one? NULL:
	 * there are no such conditions. false, too, where it cannot tell, after that has been
	 * counted. Preemption is off, as code of the module; any context but NMI.
	 */
	bool (*meant)(struct jifl_aim *aim, const struct jifl_facts *facts);
	bool is_plugin;			/* plugin/ makes its sessions, which insert last */
	const struct jifl_answer *table; /* how s->tool_data is read; NULL: not as a table */
	/* The table of another number, *of, and how it is read; NULL: there is none. */
	const struct jifl_answer *(*other_table)(const struct jifl_session *s, u32 number,
						 const void **of);
	/* JIFL_IOC_HITS; NULL: there are none. Sleeps. */
	int (*hits)(const struct jifl_session *s, struct jifl_hit_read *req);

	/* Once, at load; NULL: nothing. 0, or -errno after one line in the log. Sleeps. */
	int (*init)(void);
	/* Once, at the end, if all tools were made; NULL: nothing. Sleeps. */
	void (*exit)(void);
	/* Inserts into blocks; NULL: nothing. arg: the session, unless open sets another. */
	jifl_instrument_fn instrument;
	/*
	 * Makes s->tool_data, NULL: it has none. 0; -EALREADY with *busy_session set when another
	 * session has the rings; -EOPNOTSUPP with s->refused set; -ENOMEM. What was made before an
	 * error goes with close. Under jifl_session_mutex; sleeps.
	 */
	int (*open)(struct jifl_session *s, u64 *busy_session);
	/*
	 * Called when s has its doors and is about to be armed; NULL: nothing is done. 0; -ENOMEM;
	 * -EINTR: the task is being killed; -EILSEQ with s->refused_splice set; -EOPNOTSUPP with
	 * s->refused set. Under jifl_session_mutex; sleeps. detach undoes it, when s has been
	 * disarmed and before jifl_evict; ended, NULL: nothing is left to do, when jifl_evict has
	 * returned and s has no doors.
	 */
	int (*attach)(struct jifl_session *s);
	void (*detach)(struct jifl_session *s);
	void (*ended)(struct jifl_session *s);
	/*
	 * With the machine stopped, when all is inserted: first that the session begins now; then,
	 * with JIFL_FLAG_ADOPT, for each call of its targets that has begun before, as its task's
	 * stack tells. index: of the target. Both NULL: nothing is told.
	 */
	void (*begins)(struct jifl_session *s);
	void (*insider)(struct jifl_session *s, struct task_struct *task, u32 index);
	/*
	 * A call of the aim's function passes its door and runs natively. NULL: it is counted as
	 * missed. Any context, preemption off.
	 */
	void (*passes)(struct jifl_aim *aim);
	/* Called when no inserted code of s is left. NULL: nothing was made. Sleeps. */
	void (*close)(struct jifl_session *s);
	/*
	 * Of a tool that holds: a call of s goes on behind the door of t, another's target. Fills,
	 * for the entry piece, what its blocks would have told of what the door skips: JIFL_SKIPS
	 * at most. Returns how many. NULL: nothing. Under jifl_entry_lock.
	 */
	u32 (*skips)(const struct jifl_session *s, const struct jifl_target *t,
		     struct ir_insert *entry);
	/*
	 * Inserts at the entry and the exit of the aim's target: fills JIFL_ENTRY_INSERTS each at
	 * most. Under jifl_entry_lock.
	 */
	void (*entry)(struct jifl_aim *aim, struct ir_insert *entry, u32 *nentry,
		      struct ir_insert *exit, u32 *nexit);
	/*
	 * A call of the aim's function ends, with what rax holds; NULL: nothing more is done. Of
	 * tools that follow calls. The call is in its lane still. As code of the module, with
	 * interrupts off; any lock may be held.
	 */
	void (*ends)(const struct jifl_aim *aim, u64 result);
	/* The task has died in a call of s, with this in its lane. NULL: nothing. Likewise. */
	void (*dies)(struct jifl_session *s, u64 call, u64 count);
};

#endif
