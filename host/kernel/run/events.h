/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What happens to calls in the code cache, for the files that count calls. They stand in rooms
 * above those that see it happen, so they give a table of functions to call.
 */
#ifndef JIFL_HOST_EVENTS_H
#define JIFL_HOST_EVENTS_H

struct task_struct;

struct jifl_run_events {
	/*
	 * The fixup of an exception goes on natively in place of the original instruction at
	 * addr. mix: what the context of the code was created with; it is there until jifl_evict
	 * has returned for a session of it. NULL: the code is of none. Any context.
	 */
	void (*fault)(unsigned long addr, const void *mix);
	/*
	 * What the calls that run in such code on this CPU have counted is not exact. With
	 * preemption off, from NMI too.
	 */
	void (*lose)(const void *mix);
	/*
	 * Where a thread goes on, in copies or natively, that has left the code cache at `at`,
	 * before the original instruction at addr. It may be behind what was inserted at the start
	 * of a block: a call that begins there has been counted. RCU watches, and the thread keeps
	 * its CPU; NMI, too.
	 */
	unsigned long (*begun)(u64 at, unsigned long addr);
	/*
	 * The task's way back does not lead through an exit piece any more. By jifl_evict, with
	 * the machine stopped.
	 */
	void (*cut)(struct task_struct *task);
	/*
	 * After all tasks were looked at for cut, also those that it was not called for. Returns
	 * for how many tasks jifl_evict is to stop the machine again.
	 */
	u32 (*sweep)(void);
};

/* call/switch.c sets it once, before the first session. No code runs in the cache before that. */
extern const struct jifl_run_events *jifl_run_events;

#endif
