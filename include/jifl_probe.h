/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Probes: functions of a plugin that are called wherever the kernel executes an instruction, for
 * all tasks and interrupts. A part of jifl.h.
 *
 *	static probe_t probe;
 *
 *	probe_init_name(&probe, PROBE_BEFORE, "vfs_read", 0);
 *	probe_insert_call(&probe, note, ARG_REG, VALUE_ARG2, ARG_END);
 *	probe_start(&probe);
 *	...
 *	probe_stop(&probe);
 *
 * The kernel's text is not changed for it in most cases: calls of the function run in the code
 * cache, where the call of `note` stands between two instructions, or `note` itself if it can be
 * inlined. What executes the function natively meets a breakpoint, whose handler calls `note` with
 * the same arguments. A thread of a task that meets one goes on in the cache.
 *
 * The function that is inserted is an analysis function: all that jifl.h says of these holds. It
 * runs in the context of the code that executes the instruction: in tasks, softirqs and interrupts,
 * with any lock held. Interrupts are off, unless it calls nothing and could be inlined. In the
 * handler of a breakpoint in_nmi() is true. In addition:
 *
 * - It must not sleep. A probe's end waits until no function of the plugin runs, and takes a task
 *   that sleeps for one that has left.
 * - If it is not inlined, or if it calls or goes on in another function, it has five arguments at
 *   most. `jifl status` names jifl_probe_guarded instead: that calls it.
 * - Each execution calls it once. There are exceptions, where it is not called. The module's own
 *   code executes the instruction, or a function of a probe does, or what that calls; or an NMI
 *   does: probe_uncalled counts these. The handler of somebody's kprobe does; kprobes are switched
 *   off meanwhile; or a copy of the code had no room for the call: probe_stop writes a line to the
 *   log if that has happened, and so does the plugin's end.
 * - An instruction that is executed anew, because a fault has interrupted it or its copy was
 *   exchanged meanwhile, may call it twice: docs/command.md says when `jifl probe` counts twice.
 *
 * A place may have probes of several plugins, several of one, and sessions of `jifl probe`. Their
 * calls are made in the order in which the probes were started, those of one probe_start_all in the
 * order of the array. But before a branch, in a copy, a call with ARG_BRANCH_TAKEN is made on the
 * branch's ways: behind all calls that stand before the branch.
 *
 * Functions here that may sleep return -EPERM in any context but a process's, and in callbacks of
 * events. Each mistake or refusal writes a line to the log that names the place and the cause.
 */
#ifndef _JIFL_PROBE_H
#define _JIFL_PROBE_H

#include <linux/compiler.h>
#include <linux/types.h>

struct jifl_plugin;
struct jifl_probe_group;

enum jifl_probe_where {
	PROBE_BEFORE,		/* before the instruction */
	PROBE_TAKEN,		/* of a branch on a condition: when it branches */
	PROBE_NOT_TAKEN,	/* of a branch on a condition: when it does not branch */
	/*
	 * Added to one of these: calls of the function run natively up to the breakpoint. It costs
	 * what a kprobe costs each time that a call comes to the place, and nothing else. For
	 * places that are seldom executed, and for probes that stop themselves. Without it the
	 * function is entered through a door in its tracer's site: that costs each call a little,
	 * and there is no breakpoint on its way.
	 */
	PROBE_SELDOM = 0x10,
};

/*
 * A probe. The plugin defines it, as a static variable or as memory of its own that is zeroed. It
 * must stay where it is until probe_stop has returned. What the plugin does not stop itself has to
 * stay until plugin_exit. Its members are not for the plugin.
 */
typedef struct jifl_plugin_probe {
	struct jifl_plugin *plugin;	/* NULL: not initialised */
	unsigned int where;
	unsigned int index;		/* in the group's session */
	unsigned long address;
	unsigned long function;		/* where the function begins */
	struct jifl_probe_group *group;	/* NULL: not started */
	bool stop_later;
	bool has_call;
	bool jumps;			/* probe_init_returns: to another function */
	unsigned long call[40];		/* struct jifl_probe_call; it is not moved */
} probe_t;

/*
 * int probe_init(probe_t *probe, unsigned int where, unsigned long address)
 * int probe_init_name(probe_t *probe, unsigned int where, const char *function,
 *		       unsigned long offset)
 *
 * Prepares a probe at an instruction: by its address, or by the name of its function and the offset
 * in it. where: enum jifl_probe_where. At the beginning of a function, its endbr64 or its tracer's
 * site, the place becomes the first instruction behind these: nothing else happens in between.
 *
 * Process context. May be called again while the probe is not started.
 * Errors: -EINVAL: no such function, no instruction begins there, `where` is unknown, or the
 * function comes back to the instruction behind its site, so that this is not its beginning;
 * -EBUSY: the probe is started.
 */
#define probe_init(probe, where, address) \
	jifl_plugin_probe_init(&jifl_this_plugin, probe, where, address)
#define probe_init_name(probe, where, function, offset) \
	jifl_plugin_probe_init_name(&jifl_this_plugin, probe, where, function, offset)

/*
 * int probe_init_returns(probe_t *probes, unsigned int n, unsigned int flags,
 *			  unsigned long address)
 * int probe_init_returns_name(probe_t *probes, unsigned int n, unsigned int flags,
 *			       const char *function)
 *
 * Prepares a probe at each return of a function: before each instruction with which it returns, or
 * jumps to another function, which returns for it. Each execution of the function comes to one of
 * them at its end. flags: PROBE_SELDOM, or 0. Each gets its call by probe_insert_call, and all
 * start at once by probe_start_all.
 *
 * Returns how many there are. If there are more than n, none is prepared. n may be 0.
 *
 * Process context, while none of the n probes is started.
 * Errors: -EINVAL: no such function, it never returns, kprobes of others stand in it, or unknown
 * flags; -EBUSY: one is started.
 */
#define probe_init_returns(probes, n, flags, address) \
	jifl_plugin_probe_init_returns(&jifl_this_plugin, probes, n, flags, address)
#define probe_init_returns_name(probes, n, flags, function) \
	jifl_plugin_probe_init_returns_name(&jifl_this_plugin, probes, n, flags, function)

/*
 * bool probe_jumps(const probe_t *probe)
 *
 * Of a probe of probe_init_returns: does the function jump there to another one? Then what is
 * returned is not known yet. Any context.
 */
static inline bool probe_jumps(const probe_t *probe)
{
	return probe->jumps;
}

/*
 * int probe_insert_call(probe_t *probe, void *fn, ...)
 *
 * What is called: fn, with arguments and a condition as ins_insert_call() of jifl.h has them, of
 * this instruction. At a function's beginning there are VALUE_ARG0 to VALUE_ARG5, and at an
 * instruction that returns VALUE_RETVAL. ARG_CONTEXT gives all registers; their ip is the address
 * of the instruction, or that to which a branch goes on. A probe has one call; a second one takes
 * the place of the first.
 *
 * Process context, while the probe is not started.
 * Errors: as for *_insert_*: -EINVAL, -E2BIG; -EBUSY: the probe is started.
 */
#define probe_insert_call(probe, ...) \
	jifl_plugin_probe_insert(&jifl_this_plugin, probe, __VA_ARGS__)

/*
 * int probe_start(probe_t *probe)
 * int probe_start_all(probe_t *probes, unsigned int n)
 *
 * From the return on each execution of the place calls the function; some call it before. All of an
 * array start at once, or none does: that is much faster than one by one. Process context, between
 * the beginning of plugin_start and the end of plugin_stop; sleeps.
 *
 * Two of all such calls at a time have doors in functions. What is started beyond that, or in a
 * function whose door is not to be had, is as with PROBE_SELDOM.
 *
 * Errors: -EINVAL: not initialised, without a call, or n is 0; -EPERM: the plugin has not been
 * started; -EALREADY: one is started; -E2BIG: too many arguments for a function that is not
 * inlined, or that calls others; -EILSEQ: there can be no probe at the place, or in its function;
 * -EBUSY: as many sessions run as can be; -EACCES: the kernel is locked down; -EINTR, -ENOMEM,
 * -ENOSPC.
 */
#define probe_start(probe)		jifl_plugin_probe_start_all(&jifl_this_plugin, probe, 1)
#define probe_start_all(probes, n)	jifl_plugin_probe_start_all(&jifl_this_plugin, probes, n)

/*
 * int probe_stop(probe_t *probe)
 * int probe_stop_all(probe_t *probes, unsigned int n)
 *
 * When it returns the function is not called any more, and does not run. Of an array, those that
 * are started are stopped. Process context; sleeps, some tens of milliseconds.
 * Errors: -EINVAL: not initialised; -ENOENT: none is started.
 */
#define probe_stop(probe)		jifl_plugin_probe_stop_all(&jifl_this_plugin, probe, 1)
#define probe_stop_all(probes, n)	jifl_plugin_probe_stop_all(&jifl_this_plugin, probes, n)

/*
 * void probe_stop_later(probe_t *probe)
 *
 * The probe is soon stopped, by a task of the module: within a tenth of a second, if that is not
 * busy with other starts and stops. Until then executions call the function. It is made of one
 * store, so the function itself can call it, in any context. The probe counts as started until
 * probe_stop, which is needed to start it again; plugin_stop's end does that, too.
 */
static inline void probe_stop_later(probe_t *probe)
{
	WRITE_ONCE(probe->stop_later, true);
}

/* unsigned long probe_address(const probe_t *probe): of the instruction. Any context. */
static inline unsigned long probe_address(const probe_t *probe)
{
	return probe->address;
}

/*
 * u64 probe_uncalled(probe_t *probe)
 *
 * Executions since its start for which the function was not called, as said above, where its
 * condition held; 0 if it is not started. Process context.
 */
#define probe_uncalled(probe)		jifl_plugin_probe_count_uncalled(&jifl_this_plugin, probe)

/* --- functions behind the names above: not for plugins -------------------------------- */

int jifl_plugin_probe_init(struct jifl_plugin *p, probe_t *probe, unsigned int where,
		    unsigned long address);
int jifl_plugin_probe_init_name(struct jifl_plugin *p, probe_t *probe, unsigned int where,
			 const char *function, unsigned long offset);
int jifl_plugin_probe_init_returns(struct jifl_plugin *p, probe_t *probes, unsigned int n,
				   unsigned int flags, unsigned long address);
int jifl_plugin_probe_init_returns_name(struct jifl_plugin *p, probe_t *probes, unsigned int n,
					unsigned int flags, const char *function);
int jifl_plugin_probe_insert(struct jifl_plugin *p, probe_t *probe, void *fn, ...);
int jifl_plugin_probe_start_all(struct jifl_plugin *p, probe_t *probes, unsigned int n);
int jifl_plugin_probe_stop_all(struct jifl_plugin *p, probe_t *probes, unsigned int n);
u64 jifl_plugin_probe_count_uncalled(struct jifl_plugin *p, probe_t *probe);

#endif /* _JIFL_PROBE_H */
