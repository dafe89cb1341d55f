/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What only a module built for tests has (scripts/build-modules --test): bugs
 * planted on purpose, which the test suite must catch, allocations that fail
 * on request, which nothing may come to harm by, and garbage in what a list calls
 * dead (garbage.c). Otherwise no code is left of these. The engine's plants are in
 * engine/base/plant.h.
 */
#ifndef JIFL_HOST_PLANT_H
#define JIFL_HOST_PLANT_H

#include <linux/errno.h>
#include <linux/types.h>

#include "../../engine/engine.h"

/* X(name, what it breaks); chosen by the module's parameter plant=name. */
#define JIFL_HOST_PLANTS(X) \
	X(faults_not_replaced, "exception tables are asked for cache addresses") \
	X(unwinder_off, "stack walks see cache addresses") \
	X(hooked_shown, "dumps of the stack have the trampoline of hooked returns") \
	X(preempted_walked, "walks of preempted tasks have the kernel resolve hooked returns") \
	X(pokes_ignored, "blocks stay when the kernel's text is poked") \
	X(module_text_kept, "blocks stay when their module goes") \
	X(functions_kept, "functions of a module that is gone are taken for those of the next") \
	X(traps_ignored, "traps in dropped blocks are nobody's") \
	X(filter_ignored, "every task passes the filters") \
	X(capability_skipped, "anyone may open the device") \
	X(switch_not_saved, "counts stay behind when a task leaves its CPU") \
	X(saved_uncounted, "half of the tasks come back without the counts that were saved") \
	X(lane_shared, "sessions on the same system call count into the same cells") \
	X(cells_not_locked, "processors add to counters of blocks at the same time") \
	X(ways_freed_early, "ways of several sessions are freed while tasks may stand on them") \
	X(chain_exchanged, "a comparison of the entry stub leads to another call's piece") \
	X(pieces_kept, "entry pieces are used while the cache is emptied") \
	X(drain_skipped, "the cache is emptied with threads inside") \
	X(large_pages_split, "the cache's permissions are changed small page by small page") \
	X(direct_map_kept, "freed pages of the cache stay read-only in the direct map") \
	X(records_not_visited, "tracers' records keep cache addresses") \
	X(slots_overwritten, "hooked returns are put back on stacks where there are none") \
	X(owner_outlived, "a session goes on when its owner has died") \
	X(full_unnoticed, "calls of which parts ran natively are counted") \
	X(addresses_shown, "whoever has the device sees kernel addresses") \
	X(cuts_untold, "records of who was interrupted are those of a call that was given up") \
	X(times_of_counters, "records of calls are read with the processor's counter as their time") \
	X(losses_untold, "records that were overwritten are not counted as lost") \
	X(waits_by_task, "of waits within waits the last to begin takes the others' place") \
	X(once_is_retry, "a cmpxchg that failed is taken for one that is tried again") \
	X(names_cut, "keys that begin alike are one") \
	X(bits_in_first_word, "mem tells the first word of a string of bits for all of them") \
	X(bases_kept, "addresses are made of registers as they were before") \
	X(flushes_untold, "plugins do not hear of an emptied cache") \
	X(ends_kept, "what plugins do where calls end stays when the cache is emptied") \
	X(tasks_kept, "storage of tasks that are gone is not given back") \
	X(offline_forgotten, "calls that were counted on processors that are offline are forgotten") \
	X(start_order_lost, "what is inserted at one place is done in the order of lanes") \
	X(values_not_extended, "what is above a value in its register counts as a part of it") \
	X(rings_not_waited_for, "tasks do not wait for the reader of their records") \
	X(chosen_on_stack, "entry pieces are made on the stack of the task that makes the call") \
	X(faults_untold, "paths that a fault has cut look whole") \
	X(warmed_unchecked, "blocks are made ahead of time wherever a request says") \
	X(warmed_attributed, "blocks made ahead of time are those of the call that asks for them") \
	X(waits_as_running, "tasks that could run and do not count as running") \
	X(insiders_untold, "who is inside a function at the start is not looked for") \
	X(tree_counted_twice, "what a function has counted is its own, and of the next one, too") \
	X(tree_jumps_kept, "functions that jump to another one stay on the call path") \
	X(records_unchecked, "records of the flight recorder are written without their check") \
	X(front_returns, "the flight recorder's front calls, where it is to end with a jump") \
	X(cells_mixed, "inserted code writes a record as another event's") \
	X(cells_kept, "inserted code writes to the rings of a recording that has ended") \
	X(stopped_by_counter, "a recording that has stopped goes on where the counter is set back") \
	X(rings_kept, "system calls write to the rings of a recording that has ended") \
	X(objects_late, "calls that have not ended are about nothing") \
	X(objects_kept, "a row's calls are all about what the first one was about") \
	X(events_uncounted, "events inside of functions are not counted") \
	X(interrupts_untimed, "interrupts take no time") \
	X(values_not_added, "values of calls are not added up") \
	X(distribution_flat, "all values of a distribution are in its first bucket") \
	X(numbers_not_switched, "what a processor counts for others is a task's that comes back") \
	X(ac_lost, "tasks are switched while the kernel may access user memory") \
	X(own_entered, "calls of functions that the module makes enter the cache") \
	X(stack_kept, "calls that the module makes on a stack that is known enter the cache") \
	X(lanes_not_saved, "calls in interrupts take the place of the calls that they interrupt") \
	X(lanes_not_given_back, "what an interrupt has interrupted is in no call any more") \
	X(interrupts_filtered, "calls in interrupts are the interrupted task's") \
	X(nmi_entered, "calls in NMIs enter the cache") \
	X(unwatched_entered, "calls enter the cache where RCU does not watch") \
	X(text_not_refused, "functions that the kernel forbids to probe are targets") \
	X(owners_ignored, "functions are entered at sites that others have") \
	X(sites_assumed, "functions without a site are looked for at one") \
	X(takers_ignored, "functions are entered at sites whose calls are another tracer's") \
	X(patches_ignored, "a live patch is taken for another tracer") \
	X(scopes_mixed, "a function has sessions with and without what it calls") \
	X(idle_entered, "idle tasks enter the cache") \
	X(stoppers_entered, "threads that stop the machine enter the cache") \
	X(door_nmi, "doors that lead straight take calls in NMIs") \
	X(door_own, "doors that lead straight take calls of the module's own code in tasks") \
	X(door_own_above, "doors that lead straight take those in softirqs and interrupts") \
	X(door_stack, "doors that lead straight take calls on the dispatcher's stack") \
	X(door_idle, "doors that lead straight take calls of idle tasks") \
	X(door_injected, "doors that lead straight take calls of threads that inject idle time") \
	X(door_injects, "doors remember stacks of threads that are about to inject idle time") \
	X(door_stopper, "doors that lead straight take calls of threads that stop the machine") \
	X(stacks_remembered, "the stack of a thread that injects idle time stays remembered") \
	X(hooks_endless, "calls whose return has no hook enter the cache") \
	X(level_kept, "calls whose return has no hook take the lanes of what they interrupt") \
	X(names_not_refused, "functions that are refused by name are targets") \
	X(module_names_ignored, "where many are asked about, names of modules' functions refuse nothing") \
	X(nested_entered, "calls inside a call of the same session take its place") \
	X(inside_alone, "calls inside others' calls leave those out") \
	X(skips_untold, "what a door skips inside others' calls is not told to these") \
	X(apart_left_out, "a profile of functions alone has one call at a time") \
	X(inner_followed, "calls inside a call of such a profile take its place") \
	X(joined_unasked, "copies call functions whose condition does not hold") \
	X(nested_untold, "calls of functions inside the cache are not seen") \
	X(beginnings_shared, "calls by jumps in place come to the block that counts calls of copies") \
	X(loops_counted, "functions are entered by jumps to which their own loops lead") \
	X(gates_returned_to, "who sleeps keeps the address of a gate whose jump goes") \
	X(held_let_go, "a jump goes while a breakpoint stands in its gate") \
	X(gates_unarmed, "breakpoints at instructions that a jump has replaced are not written") \
	X(tracers_skipped, "copies enter pieces past the call of another tracer") \
	X(entered_twice, "a function is entered at its site and behind it") \
	X(replaced_always, "calls are replaced whatever the session's condition says") \
	X(nested_kept, "blocks that name a session stay when it ends") \
	X(calls_not_swept, "calls that ran natively when their session ended are taken for later ones") \
	X(limits_ignored, "sessions about functions alone run what they call") \
	X(adopted_as_keys, "calls that had begun before their session have the keys of whole ones") \
	X(adopted_as_whole, "calls that had begun before their session count as whole ones") \
	X(effects_skipped, "programs of places may skip effects, so records lack parts") \
	X(programs_nested, "a program runs inside another one of the same CPU") \
	X(hits_unfinished, "records of inserted code in interrupts have the interrupted task") \
	X(hits_overwritten, "records of programs are written where there is no room") \
	X(returns_kept, "calls whose session has ended keep their return hooks") \
	X(not_looked_ahead, "the machine is stopped to find out which copies are wanted") \
	X(adopted_over_tracers, "return addresses that tracers keep are overwritten by adoption") \
	X(adopted_twice, "threads that are in the cache are adopted again") \
	X(doors_kept, "doors lead straight on when another session comes, and when code goes") \
	X(tables_lost, "ftrace of older kernels makes a table for each of many sites") \
	X(doors_freed_early, "targets are freed while threads may be at their doors") \
	X(callers_ignored, "targets that are meant by their callers are entered by others, too") \
	X(callers_forgotten, "calls that had begun before are taken over, whoever has made them") \
	X(values_ignored, "targets that are meant by their first argument are entered with others, too") \
	X(conditions_settled, "doors of targets that have conditions lead straight on") \
	X(nested_unconditional, "conditions are not looked at inside the cache") \
	X(under_ignored, "calls count that are made under something else") \
	X(under_itself, "functions are called under themselves") \
	X(breakpoints_copied, "the module's own breakpoints are taken for others'") \
	X(keys_of_modules_missed, "a breakpoint is set where a module has a static key") \
	X(places_crowded, "a block has counters of four places, and no more") \
	X(natives_not_caught, "what comes to a probe natively is not counted") \
	X(kprobes_hidden, "kprobes of others are not seen where a probe is") \
	X(sites_apart, "what a copy counts for two sessions is counted natively for one, too") \
	X(natives_uncalled, "what comes to a plugin's probe natively does not call its function") \
	X(calls_kept, "copies go on calling functions of probes that are stopped") \
	X(lifted_untold, "nobody is told that the kernel has taken breakpoints away") \
	X(parts_by_name, "parts of functions are told by their names alone") \
	X(jumps_at_once, "a jump is written while threads may stand between its instructions") \
	X(jumps_unchecked, "a jump is written where a branch leads between its instructions") \
	X(replaced_copied, "copies run the original of a function that is replaced") \
	X(own_threads_inside, "a module's own thread keeps the module, which alone can end it") \
	X(modules_let_go, "the module of a replacement may go while threads are inside") \
	X(handlers_own_probed, "breakpoints are set in what their own handler calls") \
	X(data_taken_for_address, "words of a stack are changed by their looks") \
	X(guess_believed, "a frame that the unwinder has guessed is taken for the next one")

#define JIFL_HOST_PLANT_NAME(name, what) jifl_host_plant_##name,
enum jifl_host_plant {
	jifl_host_plant_none,
	JIFL_HOST_PLANTS(JIFL_HOST_PLANT_NAME)
};
#undef JIFL_HOST_PLANT_NAME

#ifdef JIFL_TEST_BUILD
extern enum jifl_host_plant jifl_host_plant;
/*
 * As jifl_engine_everywhere, beside garbage.c's inserts. Takes the engine lock. There is one
 * caller, so fn is what the tool probe inserts.
 */
void jifl_garbage_everywhere(jifl_instrument_fn fn);
/* Is this allocation the one that is to fail? Any context. */
bool jifl_plant_fails(void);
/*
 * A thread may be at the door of a function that is about to go. With the parameter door=1 one is:
 * jifl_plant_close_door waits until a thread has come to the door, and jifl_plant_at_door keeps
 * it there until the parameter is 0. The thread may be preempted meanwhile. Task level, preemption
 * on; the second is called by the stub.
 */
void jifl_plant_close_door(void);
void jifl_plant_at_door(void);
/*
 * The thread whose number the parameter front has waits at the flight recorder's front, until the
 * parameter is 0. Meanwhile that is the number below 0.
 */
void jifl_plant_at_front(void);
/* -EINVAL for an unknown plant. */
int jifl_plant_init(void);
#else
#define jifl_host_plant jifl_host_plant_none
#define jifl_garbage_everywhere jifl_engine_everywhere
static inline bool jifl_plant_fails(void)
{
	return false;
}

static inline void jifl_plant_close_door(void)
{
}

static inline void jifl_plant_at_front(void)
{
}

static inline int jifl_plant_init(void)
{
	return 0;
}
#endif

#define JIFL_HOST_PLANTED(name) (jifl_host_plant == jifl_host_plant_##name)

/* Round whatever may be out of memory: an expression that gives a pointer, or 0 or -errno. */
#define JIFL_ALLOC(pointer) (jifl_plant_fails() ? NULL : (pointer))
#define JIFL_TRY(error) (jifl_plant_fails() ? -ENOMEM : (error))

#endif
