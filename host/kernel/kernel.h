/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What every file of the kernel host begins with. What a file offers to others is in the header
 * of its own name.
 *
 * Locks, outermost first:
 *   jifl_session_mutex   sessions come, go, flush; sleeps
 *   jifl_entry_lock      raw; the entry table and what it points to; any
 *                        process context, interrupts off while held
 *   engine lock          raw; the code cache; everything but NMI
 */
#ifndef JIFL_HOST_KERNEL_H
#define JIFL_HOST_KERNEL_H

#include <linux/types.h>
#include "../../include/uapi/jifl.h"
#include "../../engine/engine.h"
#include "../../engine/host.h"

#undef pr_fmt
#define pr_fmt(fmt) "jifl: " fmt

#define JIFL_VERSION	"0.1.0"

<<<<<<< HEAD
/* main.c */
=======
/* --- ksym.c: symbols the kernel does not export --------------------------- */

int jifl_ksym_init(void);
/* Address of a kernel symbol, 0 when there is none. Sleeps. */
unsigned long jifl_ksym(const char *name);
/* Address of the fentry call of the function at addr, 0 when it has none. */
unsigned long jifl_ksym_fentry(unsigned long addr);
/* The function that addr is in, up to the next symbol; false: in none. Any context, interrupts off. */
bool jifl_ksym_range(unsigned long addr, unsigned long *start, unsigned long *size);
/* Its start, or 0. Likewise. */
unsigned long jifl_ksym_start(unsigned long addr);
/*
 * Its name, without offset and module, and its module's, empty for the kernel's own; cut
 * where they do not fit in. Likewise.
 */
void jifl_ksym_name(unsigned long addr, char *name, size_t size);
void jifl_ksym_module(unsigned long addr, char *name, size_t size);
/* End of the function that is at addr: where the next symbol starts. */
unsigned long jifl_ksym_end(unsigned long addr);

/* --- function.c: functions by the addresses in them, remembered ---------------- */

struct jifl_function {
	unsigned long start;	/* 0: there is none */
	unsigned long size;	/* up to the next symbol */
	unsigned long fentry;	/* its fentry call, 0: none */
};

/* The one that addr is in, until the next call. Under the engine lock, as the next. */
const struct jifl_function *jifl_function_at(unsigned long addr);
bool jifl_function_starts(unsigned long addr);
/* Of a module that goes. */
void jifl_function_forget(void);

/* --- require.c: may this kernel be instrumented at all? -------------------- */

/* 0, or -errno after one line in the log that names the cause and the remedy. */
int jifl_require(void);
/* The part of it that can change later: lockdown. -EACCES. */
int jifl_require_unlocked(void);
/* May the current task see kernel addresses? 0, -EPERM, -EACCES (lockdown). */
int jifl_require_addresses(void);

/* --- audit.c: who instruments this kernel, in its log ----------------------- */

struct jifl_session;

void jifl_audit_started(const struct jifl_session *s);
void jifl_audit_ended(const struct jifl_session *s);
/* A request of the current task; rate-limited. */
void jifl_audit_refused(const char *what, int err);

/* --- codemem.c: executable memory and its writable alias ------------------- */

int jifl_codemem_init(u32 size);
void jifl_codemem_exit(void);
u64 jifl_codemem_base(void);
u32 jifl_codemem_size(void);
/*
 * The writable alias exists from the first open to the last close, at an
 * address chosen anew each time. Sleeps. Without it jifl_host_code_write must
 * not be called.
 */
int jifl_codemem_open(void);
void jifl_codemem_close(void);

/* --- text.c: what stands at an address (jifl_host_classify, jifl_host_text) */

int jifl_text_init(void);
void jifl_text_exit(void);

/* --- stubs.S --------------------------------------------------------------- */

extern char jifl_dispatch_direct[], jifl_dispatch_indirect[];
extern char jifl_entry_stub[];	/* x64_sys_call's fentry calls it */
extern char jifl_entry_slow[];	/* in the entry table: ask jifl_entry_choose */

/* --- dispatch.c: per-CPU stacks, engine lock, C side of the stubs ----------- */

/* Sessions that may have the same system call at a time; each then has a lane. */
#define JIFL_LANES	4

/* What one session counts about the call that runs on a CPU, see count.c. */
struct jifl_lane {
	u64 count;
	u64 call;		/* 0: none; else session and system call */
};

struct jifl_cpu {
	struct jifl_lane lanes[JIFL_LANES];
	u64 exits[JIFL_CAUSES_MAX];
	u64 stack_top;		/* of the private stack the dispatcher runs on */
	u64 ring;		/* ring.c's cell */
	u64 ring_limit;		/* ... from there on it is too full */
	s64 training[JIFL_TRAINING_CELLS]; /* the engine's */
};
DECLARE_PER_CPU(struct jifl_cpu, jifl_cpu);

int jifl_dispatch_init(void);
void jifl_dispatch_exit(void);
/* gs-relative operand of a field of struct jifl_cpu. */
#define jifl_cpu_operand(field) \
	((struct ir_operand){ .disp = (s32)(unsigned long)&jifl_cpu.field, .gs = true })

/* --- hooks.c: ftrace callbacks that rewrite arguments ----------------------- */

/*
 * Calls fn when the kernel function `name` is entered; fn may change the
 * argument registers of regs. Stays while ftrace_enabled=0 (PERMANENT).
 */
struct jifl_hook {
	const char *name;
	void (*fn)(struct pt_regs *regs);
	bool required;
	/* hooks.c's own: */
	struct jifl_hook_state *state;
};
int jifl_hooks_add(struct jifl_hook *hooks, unsigned int n);
void jifl_hooks_remove(struct jifl_hook *hooks, unsigned int n);

/* --- faults.c, unwind.c, text/watch.c: users of hooks.c ---------------------- */

int jifl_faults_init(void);
void jifl_faults_exit(void);
u64 jifl_faults_count(void);
int jifl_unwind_init(void);
void jifl_unwind_exit(void);
int jifl_textwatch_init(void);
void jifl_textwatch_exit(void);

/* --- trap.c: threads in code whose original has changed ---------------------- */

int jifl_trap_init(void);
void jifl_trap_exit(void);
u64 jifl_trap_count(void);

/* --- enter/syscall.c: x64_sys_call's direct call and the table behind it ------------ */

/*
 * Where a system call goes: 0 passes; otherwise an address to jump to, with
 * the stack as on entry to the system call's handler. Written under
 * jifl_entry_lock.
 */
extern u64 jifl_entry_table[JIFL_NR_MAX];
extern raw_spinlock_t jifl_entry_lock;
/* x64_sys_call past its fentry call: where jifl_entry_slow goes to let pass. */
extern u64 jifl_entry_resume;

int jifl_entry_init(void);
void jifl_entry_exit(void);
/* Hooks and unhooks x64_sys_call; nested calls count. Sleeps. */
int jifl_entry_attach(void);
void jifl_entry_detach(void);
/* Address of a system call's handler, 0 when it has none. */
u64 jifl_entry_handler(unsigned int nr);

/* --- evict.c: nobody is left inside the code cache -------------------------- */

/* 0, or -errno after one line in the log. Sleeps. */
int jifl_evict_init(void);

struct jifl_drain {
	unsigned int threads;	/* that were inside */
	u64 ns;
};
/*
 * Replaces every return address into the code cache, or only into code of
 * destroyed contexts, on every kernel stack by its original, and waits until no
 * thread is inside. No entry leads there. Called under jifl_session_mutex; sleeps.
 */
void jifl_evict(struct jifl_drain *drain, bool all);
/* An original `ret`, reached with the stack as at a handler's return. */
u64 jifl_evict_return_site(void);

/* --- profile.c: executions of each block, for JIFL_KIND_PROFILE ------------------ */

struct jifl_profile;

/* FNV-1a of its bytes: who decodes the block later can tell whether it still has these. */
u32 jifl_profile_hash(const struct ir_block *b);

int jifl_profile_init(void);
/* Makes s's cells; -ENOMEM. Sleeps. */
int jifl_profile_open(struct jifl_session *s);
/* When nothing inserted for s is left. No-op if it has none. Sleeps. */
void jifl_profile_close(struct jifl_session *s);
/* Adds what counts b. Under the engine lock. */
void jifl_profile_insert(struct jifl_profile *p, struct ir_block *b);
/* JIFL_IOC_COUNTS. Sleeps. */
int jifl_profile_read(const struct jifl_session *s, struct jifl_counts *req);

/* --- mem.c: what blocks load and store, for JIFL_KIND_MEM -------------------------- */

struct jifl_mem;

/* Makes s's tables; -ENOMEM. Sleeps. */
int jifl_mem_open(struct jifl_session *s);
/* When nothing inserted for s is left. No-op if it has none. Sleeps. */
void jifl_mem_close(struct jifl_session *s);
/* Adds what records the accesses of b. Under the engine lock. */
void jifl_mem_insert(struct jifl_mem *m, struct ir_block *b);
/* JIFL_IOC_ACCESSES. Sleeps. */
int jifl_mem_read(const struct jifl_session *s, struct jifl_accesses *req);

/* --- keys.c: counts by what the tasks are, for JIFL_FLAG_BY_* ----------------------- */

#define JIFL_FLAGS_BY	(JIFL_FLAG_BY_COMM | JIFL_FLAG_BY_PID | JIFL_FLAG_BY_CPU)

struct jifl_keys_table;

int jifl_keys_init(void);
/* Makes s's table; -ENOMEM. Sleeps. */
int jifl_keys_open(struct jifl_session *s);
/* When nothing inserted for s is left. No-op if it has none. Sleeps. */
void jifl_keys_close(struct jifl_session *s);
/* A call of the current task, and what was counted of it. With preemption off, a run queue locked. */
void jifl_keys_add(struct jifl_keys_table *t, u64 value);
/* JIFL_IOC_KEYS. Sleeps. */
int jifl_keys_read(const struct jifl_session *s, struct jifl_keys *req);

/* --- tools/lock/: waits for locks, for JIFL_KIND_LOCK ----------- */

struct jifl_locks_table;

int jifl_lock_init(void);
/* Makes s's table; -ENOMEM. Sleeps. */
int jifl_lock_open(struct jifl_session *s);
/* When nothing inserted for s is left. No-op if it has none. Sleeps. */
void jifl_lock_close(struct jifl_session *s);
/* Instruments a block; arg: the session. Under the engine lock. */
void jifl_lock_instrument(struct ir_block *b, void *arg);
/* JIFL_IOC_LOCKS. Sleeps. */
int jifl_lock_read(const struct jifl_session *s, struct jifl_locks *req);

/* --- count.c, tools/blocks.c, stats.c, switch.c: counts that follow their task - */

/* A value of each call instead of a count. */
#define JIFL_FLAGS_ARG	(JIFL_FLAG_ARG(0) | JIFL_FLAG_ARG(1) | JIFL_FLAG_ARG(2) | \
			 JIFL_FLAG_ARG(3) | JIFL_FLAG_ARG(4) | JIFL_FLAG_ARG(5))
/* Of traces: records with words. */
#define JIFL_FLAGS_FUNCTIONS (JIFL_FLAG_VALUES | JIFL_FLAG_CLOCK)
#define JIFL_FLAGS_VALUE (JIFL_FLAG_DURATION | JIFL_FLAG_RETVAL | JIFL_FLAGS_ARG)

struct jifl_stats;		/* figures of one system call of a session, by CPU */

/* Room for a session's inserts on each side of an entry piece. */
#define JIFL_ENTRY_INSERTS	4

int jifl_count_init(void);
void jifl_count_exit(void);
/*
 * Takes a session's number in the records of running calls. The first counting
 * session brings the sched_switch hook, the last takes it away. Sleeps.
 */
int jifl_count_start(struct jifl_session *s);
/* After the session's last call: its figures are final. Sleeps. */
void jifl_count_stop(struct jifl_session *s);
/* Makes room for the figures of one system call; -ENOMEM. Does not sleep. */
int jifl_count_prepare(struct jifl_session *s, unsigned int nr);
/*
 * Inserts for the entry piece of (session, nr). Fills entry and exit
 * (JIFL_ENTRY_INSERTS each), sets their numbers. Under jifl_entry_lock.
 */
void jifl_count_entry(struct jifl_session *s, unsigned int nr,
		      struct ir_insert *entry, u32 *nentry,
		      struct ir_insert *exit, u32 *nexit);
/*
 * Between these two, with interrupts off, blocks translated on this CPU count
 * as blocks of (session, nr) although the call has not begun.
 */
void jifl_count_translate_begin(struct jifl_session *s, unsigned int nr);
void jifl_count_translate_end(void);
/*
 * Instruments a block for JIFL_KIND_INSN (_repeats: with JIFL_FLAG_REPEATS) or
 * JIFL_KIND_BLOCK; arg: the session.
 */
void jifl_count_insns(struct ir_block *b, void *arg);
void jifl_count_repeats(struct ir_block *b, void *arg);
void jifl_count_blocks(struct ir_block *b, void *arg);
/* ... for JIFL_KIND_TRACE */
void jifl_count_functions(struct ir_block *b, void *arg);
/* ... for JIFL_KIND_PATH */
void jifl_count_path(struct ir_block *b, void *arg);
/*
 * The fixup of an exception goes on natively in place of the original instruction at addr:
 * said to the session that records the running call's path, if one does. Any context.
 */
void jifl_count_fault(unsigned long addr);
/* ... for JIFL_KIND_PROFILE */
void jifl_count_profile(struct ir_block *b, void *arg);
/* ... for JIFL_KIND_MEM */
void jifl_count_mem(struct ir_block *b, void *arg);
/* Are calls of a disarmed session running, or is a task just dying in one? */
bool jifl_count_is_ending(const struct jifl_session *s);
/* Is a task in one whose death its parent may know of, or that may be about to? */
bool jifl_count_has_dead(const struct jifl_session *s);
/* Counts a call that was let pass or cut short. Any context. */
void jifl_count_miss(struct jifl_session *s, unsigned int nr, enum jifl_miss why);
u64 jifl_count_missed(enum jifl_miss why);	/* all sessions ever */
/*
 * What the call that runs on this CPU has counted is not exact: it is missed.
 * With preemption off, from NMI too.
 */
void jifl_count_lose(void);
/* Around jifl_evict: calls are cut, and a task that dies may have lost its way out already. */
void jifl_count_drain_begin(enum jifl_miss why);
void jifl_count_drain_end(void);
/*
 * The task's way back does not lead through an exit piece any more: its call is
 * counted as missed. By jifl_evict, with the machine stopped.
 */
void jifl_count_cut(struct task_struct *task);
/* hist: JIFL_HIST_BUCKETS, or NULL. -ENOENT when nr is not a target. */
int jifl_count_read(struct jifl_session *s, struct jifl_stat *st, u64 *hist);
u64 jifl_count_calls(struct jifl_session *s);
void jifl_count_free(struct jifl_session *s);

/* --- filter.c: which tasks a session is about ------------------------------- */

struct cgroup;

struct jifl_filter {
	u32 mask;		/* JIFL_FILTER_* */
	struct pid *pid, *tgid;	/* references held */
	struct cgroup *cgroup;	/* reference held */
	char comm[TASK_COMM_LEN];
};

/* From a request of the current task. 0; -ESRCH, -ENOENT (cgroup), -EINVAL. */
int jifl_filter_init(struct jifl_filter *f, const struct jifl_start *req);
void jifl_filter_release(struct jifl_filter *f);
/* Is the current task meant? Any process context, no sleep. */
bool jifl_filter_match(const struct jifl_filter *f);

/* --- mix.c: the sessions that a system call is about --------------------------- */

struct jifl_mix {
	struct list_head list;	/* jifl_entry_lock; unused in a session's own */
	struct list_head doomed; /* jifl_session_mutex; likewise */
	struct jifl_session *members[JIFL_LANES]; /* NULL where a lane has none */
	struct jifl_session *in_order[JIFL_LANES + 1]; /* ... as they insert; NULL behind the last */
	int context;		/* of the engine */
	u64 pieces[JIFL_NR_MAX]; /* entry pieces; jifl_entry_lock; 0: not made yet */
	DECLARE_BITMAP(native, JIFL_NR_MAX); /* handlers not to be tried for now */
};

/* Makes s->alone, a mix of s (lane and instrument set); 0 or -ENOSPC. */
int jifl_mix_init_alone(struct jifl_session *s);
/* From here on, calls of s are redirected; no more. In-flight ones go on. */
void jifl_mix_arm(struct jifl_session *s);
void jifl_mix_disarm(const struct jifl_session *s);
/*
 * Around a new generation: no entry leads into the cache and no piece is made;
 * with nobody inside, mixes of several sessions are freed.
 */
void jifl_mix_pause(struct list_head *sessions);
void jifl_mix_free_others(void);
void jifl_mix_resume(void);
/*
 * Around the end of one session among others, which is disarmed: its mixes'
 * contexts are destroyed; with nobody inside, the mixes are freed.
 */
void jifl_mix_doom(struct jifl_session *s);
void jifl_mix_free_doomed(void);
/* Lets handlers that could not run in the cache be tried again. */
void jifl_mix_retry_native(struct list_head *sessions);
/* Called by jifl_entry_slow: the address to jump to, or 0 to let pass. */
u64 jifl_entry_choose(const struct pt_regs *regs, unsigned int nr);

/*
 * Numbers of the sessions that the engine's context is of, the others 0. Under
 * jifl_session_mutex.
 */
void jifl_mix_sessions(int context, u64 ids[JIFL_LANES]);

/* --- session.c -------------------------------------------------------------- */

struct jifl_session {
	struct list_head list;	/* jifl_session_mutex */
	u64 id;
	u32 kind;
	u32 flags;		/* JIFL_FLAG_* */
	u32 slot;		/* count.c's number of it, 0: none */
	u32 lane;		/* no session with one of its system calls has the same */
	pid_t owner;
	char name[JIFL_NAME_MAX];
	struct jifl_filter filter;
	DECLARE_BITMAP(nrs, JIFL_NR_MAX);
	struct jifl_mix alone;	/* for calls that no other session is about */
	jifl_instrument_fn instrument; /* NULL: nothing in blocks */
	void *instrument_arg;
	struct jifl_stats *stats[JIFL_NR_MAX]; /* set once, under jifl_entry_lock */
	u64 blocks[JIFL_NR_MAX]; /* translated first for this call; engine lock */
	atomic64_t missed[JIFL_NR_MAX];
	bool running;		/* jifl_session_mutex */
	struct jifl_profile *profile; /* JIFL_KIND_PROFILE: its cells */
	struct jifl_mem *mem;	/* JIFL_KIND_MEM: its tables */
	struct jifl_keys_table *keys; /* JIFL_FLAG_BY_*: its keys; else NULL */
	struct jifl_locks_table *locks; /* JIFL_KIND_LOCK; else NULL */
	struct jifl_syscall *plugin; /* JIFL_KIND_PLUGIN: its syscall_t, see jifl.h */
};

extern struct mutex jifl_session_mutex;
/* Woken when any has ended and `running` says so. */
extern wait_queue_head_t jifl_session_ended;

int jifl_session_init(void);
void jifl_session_exit(void);
/* An empty session; NULL without memory. */
struct jifl_session *jifl_session_alloc(void);
/*
 * Starts s (kind, filter, nrs, name, owner set). 0; -EINVAL when it names no
 * system call that this kernel has; -EBUSY with *busy_nr and *busy_session set
 * when JIFL_LANES others have one of them; -EACCES when the kernel is locked
 * down; -ENOSPC, -ENOMEM. Sleeps.
 */
int jifl_session_start(struct jifl_session *s, unsigned int *busy_nr, u64 *busy_session);
/*
 * Ends it: disarmed, evicted, context gone; statistics stay until free.
 * -ENOENT when it has ended already.
 */
int jifl_session_stop(struct jifl_session *s, struct jifl_drain *drain);
/* Frees a session that does not run. */
void jifl_session_free(struct jifl_session *s);
/*
 * Ends one running session: number id, or any with id 0, but not `except`.
 * -ENOENT when there is none. A plugin's is left alone and its plugin's name
 * given (-EAGAIN): it is to be stopped through jifl_plugin_ctl.
 */
int jifl_session_detach(u64 id, const struct jifl_session *except,
			struct jifl_drain *drain, char plugin[JIFL_NAME_MAX]);
/*
 * The running session behind s, or the first for NULL; NULL at the end. Under
 * jifl_session_mutex.
 */
struct jifl_session *jifl_session_next(struct jifl_session *s);
/* Fills *info with the running session of the lowest number above info->id. */
int jifl_session_info(struct jifl_session_info *info);
/* Fills what sessions know of the module's status. */
void jifl_session_status(struct jifl_status *st);

/* --- dump.c: the blocks of the cache, for JIFL_IOC_BLOCK ----------------------- */

/* As the request: 0, -ENOENT, -ENOSPC, -EACCES, -EPERM, -EFAULT, -EINVAL, -ENOMEM. Sleeps. */
int jifl_dump_block(struct jifl_block *req);

/* --- plugin.c: include/jifl.h's API; control.c: /dev/jifl -------------------- */

int jifl_plugin_init(void);
void jifl_plugin_exit(void);
int jifl_plugin_ctl(const char *name, bool start);
int jifl_plugin_info(unsigned int index, struct jifl_plugin_info *info);
/* JIFL_IOC_PLUGIN_READ. Sleeps. */
int jifl_plugin_read(struct jifl_plugin_read *req);
/* A plugin session's parts of jifl_count_entry and jifl_count_insns. */
void jifl_plugin_entry(struct jifl_session *s, unsigned int nr,
		       struct ir_insert *entry, u32 *nentry,
		       struct ir_insert *exit, u32 *nexit);
void jifl_plugin_instrument(struct ir_block *b, void *arg);
/* The cache has been emptied, and nobody is inside. Under jifl_session_mutex; sleeps. */
void jifl_plugin_flushed(void);

int jifl_control_init(void);
void jifl_control_exit(void);

/* --- main.c ------------------------------------------------------------------ */

>>>>>>> w/plugin
u64 jifl_side_size(void);	/* bytes of the engine's side tables */

#endif
