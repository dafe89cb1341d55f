/* SPDX-License-Identifier: GPL-2.0 */
/*
 * jifl.h: the only header a JIFL plugin includes.
 *
 * A plugin is one C file that becomes a kernel module. It implements four
 * functions:
 *
 *	int plugin_init(void)	the module is being loaded: choose system calls, add
 *				callbacks. 0 or -errno, which refuses the module.
 *	void plugin_exit(void)	the module is being unloaded.
 *	int plugin_start(void)	`jifl start NAME`: start instrumenting. 0 or -errno,
 *				which leaves it stopped.
 *	void plugin_stop(void)	`jifl stop NAME`: stop instrumenting and say what was found.
 *
 * All four may be static. plugin_init and plugin_start may also be void: then they always
 * succeed. These two are macros, so the plugin itself cannot call them.
 *
 * All four run in process context, one at a time, and may sleep. A plugin that
 * has been started cannot be unloaded. What plugin_stop or a failed plugin_start
 * leaves running is stopped for it.
 *
 * Its Makefile is two lines, see plugins/plugin.mk:
 *
 *	PLUGIN := NAME
 *	include /path/to/jifl/plugins/plugin.mk
 *
 * Two kinds of functions of a plugin run at other times:
 *
 * - Callbacks (the *_callback types below; those of events apart, which run in process
 *   context) are called once for each piece of
 *   code when it is translated, and insert calls and counts into it. They run with
 *   interrupts off and with whatever locks the translated code holds: they must
 *   not sleep, take locks, print or allocate but by heap_alloc(), and must be quick. The handle they
 *   are given is good until they return; which routine it is, a routine's handle tells for ever. Code is translated anew when the code
 *   cache was emptied or when the kernel changed the code, so a callback may see
 *   an address more than once. Those of routines, blocks and instructions run one
 *   at a time, on whichever CPU.
 *
 * - Analysis functions are what is inserted. They are called each time that
 *   the instrumented code is executed, before or after an instruction, in the
 *   context of that code: any lock may be held, interrupts may be off, page
 *   faults may be forbidden. They return void, are given up to JIFL_ARGS_MAX
 *   arguments, find all registers and flags saved, and may change none of the
 *   kernel's state. They must not sleep, take locks that others hold with
 *   interrupts on, print, allocate, touch user memory, use the FPU, change the
 *   interrupt flag for good, or need much of the stack. Several CPUs execute them
 *   at once, and interrupt handlers between their instructions: count with
 *   this_cpu_add() or atomics where the sum must be exact. At the exit of a system call the
 *   kernel's code holds no lock any more: there they may print and ask for names.
 *
 * An analysis function that is small, uses no stack of its own and branches only
 * within itself is copied to where it is inserted, with its arguments put in; a
 * counter's is then a single instruction. `jifl status` says which are, and what
 * keeps others from it.
 *
 * What cannot be contained: a callback that faults or does not return takes the
 * machine with it, as translation holds a lock and interrupts are off. So does an
 * analysis function that changes registers which a C function must keep, leaves the
 * direction flag set or the stack moved, or sleeps while instrumentation ends. One
 * that faults ends the process it runs in, like any oops; one that is slow makes
 * system calls slow. docs/robustness.md says what happens and which test shows it.
 *
 * Errors: functions that return int give 0 or a negative errno. A mistake
 * (-EINVAL, -EPERM, -EBUSY, -EALREADY, -ENOENT) also puts one line into the
 * kernel log that names the plugin and the mistake, from inside callbacks only
 * the first one after each start; and it changes nothing.
 */
#ifndef _JIFL_H
#define _JIFL_H

#include <linux/build_bug.h>
#include <linux/cpumask.h>
#include <linux/kallsyms.h>	/* KSYM_NAME_LEN */
#include <linux/list.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/ptrace.h>	/* struct pt_regs, for ARG_CONTEXT */
#include <linux/string.h>
#include <linux/types.h>
#include <asm/proto.h>		/* declares a syscall_init of its own */
#include <asm/unistd.h>		/* __NR_* */

#include "jifl_ins.h"
#include "jifl_store.h"

struct jifl_plugin;
struct jifl_session;

/* --- handles --------------------------------------------------------------------- */

typedef struct jifl_point syscall_point_t;	/* entry to or exit from a system call */
typedef struct jifl_routine routine_t;		/* a function of the kernel */
typedef struct jifl_bb bb_t;			/* a basic block */
typedef struct jifl_ins ins_t;			/* an instruction of a basic block */

/* --- callbacks ------------------------------------------------------------------- */

/*
 * Each gets what was translated and the arg it was added with.
 */
typedef void (*syscall_callback)(syscall_point_t *point, void *arg);
typedef void (*routine_callback)(routine_t *routine, void *arg);
typedef void (*bb_callback)(bb_t *bb, void *arg);
typedef void (*ins_callback)(ins_t *ins, void *arg);

/* A module of the kernel that has come or goes: see syscall_add_module_callback. */
struct module_event {
	const char *name;
	unsigned long text, size;	/* its code, without that of its init */
	bool going;
	bool there;			/* since before the start */
};

typedef void (*module_callback)(const struct module_event *event, void *arg);
typedef void (*event_callback)(void *arg);

/* --- system calls ------------------------------------------------------------------ */

enum jifl_callback_kind {
	JIFL_CALLBACK_ENTRY,
	JIFL_CALLBACK_EXIT,
	JIFL_CALLBACK_ROUTINE,
	JIFL_CALLBACK_BB,
	JIFL_CALLBACK_INS,
	JIFL_CALLBACK_MODULE,
	JIFL_CALLBACK_FLUSH,
	JIFL_CALLBACK_END,
	JIFL_CALLBACK_KINDS
};

/* Callbacks of one kind that one syscall_t can have. */
#define JIFL_CALLBACKS_MAX	4

struct jifl_callback {
	void *fn;
	void *arg;
};

/*
 * What is to be instrumented: one system call or all of them, and the
 * callbacks. The plugin defines it as a static variable; its members are not
 * for the plugin.
 */
typedef struct jifl_syscall {
	struct jifl_plugin *plugin;		/* NULL: not initialised */
	struct list_head list;
	int nr;					/* -1: all */
	unsigned int ncallbacks[JIFL_CALLBACK_KINDS];
	struct jifl_callback callbacks[JIFL_CALLBACK_KINDS][JIFL_CALLBACKS_MAX];
	struct jifl_session *session;		/* not NULL: instrumenting */
	struct list_head events;		/* of those that are told of events */
	bool exits;				/* of routines have been asked for */
} syscall_t;

/*
 * int syscall_init(syscall_t *s, int nr)
 *
 * Prepares s for the system call nr (__NR_openat, ...), without callbacks.
 * Process context. May be called again while s is not instrumenting.
 * Errors: -EINVAL no such system call, or s is NULL; -EBUSY instrumenting.
 */
#define syscall_init(s, nr)	jifl_syscall_init(&jifl_this_plugin, s, nr)

/*
 * int syscall_init_all(syscall_t *s)
 *
 * The same for all system calls at once.
 */
#define syscall_init_all(s)	jifl_syscall_init_all(&jifl_this_plugin, s)

/*
 * int syscall_add_entry_instrumentation(syscall_t *s, syscall_callback fn, void *arg)
 * int syscall_add_exit_instrumentation(syscall_t *s, syscall_callback fn, void *arg)
 * int syscall_add_routine_instrumentation(syscall_t *s, routine_callback fn, void *arg)
 * int syscall_add_bb_instrumentation(syscall_t *s, bb_callback fn, void *arg)
 * int syscall_add_ins_instrumentation(syscall_t *s, ins_callback fn, void *arg)
 *
 * From the next start on, fn(handle, arg) is called
 * - entry, exit: once for each system call of s, before it is made first;
 * - routine: for each block at which a function begins (its address is that of
 *   a symbol), whether it is reached by a call or a jump; and, from the first
 *   routine_insert_exit_call() on, for each block in which one is left;
 * - bb: for each basic block that the system call executes;
 * - ins: for each instruction of each basic block, in order.
 * For one block the routine callbacks come first, then bb, then ins. Callbacks
 * of one kind are called in the order in which they were added.
 *
 * Process context. Errors: -EINVAL fn is NULL, or s was not initialised;
 * -EBUSY instrumenting; -ENOSPC more than JIFL_CALLBACKS_MAX.
 */
#define syscall_add_entry_instrumentation(s, fn, arg) \
	jifl_add_syscall_callback(&jifl_this_plugin, s, JIFL_CALLBACK_ENTRY, fn, arg)
#define syscall_add_exit_instrumentation(s, fn, arg) \
	jifl_add_syscall_callback(&jifl_this_plugin, s, JIFL_CALLBACK_EXIT, fn, arg)
#define syscall_add_routine_instrumentation(s, fn, arg) \
	jifl_add_routine_callback(&jifl_this_plugin, s, fn, arg)
#define syscall_add_bb_instrumentation(s, fn, arg) \
	jifl_add_bb_callback(&jifl_this_plugin, s, fn, arg)
#define syscall_add_ins_instrumentation(s, fn, arg) \
	jifl_add_ins_callback(&jifl_this_plugin, s, fn, arg)

/*
 * int syscall_add_module_callback(syscall_t *s, module_callback fn, void *arg)
 * int syscall_add_flush_callback(syscall_t *s, event_callback fn, void *arg)
 * int syscall_add_end_callback(syscall_t *s, event_callback fn, void *arg)
 *
 * Events. From the next start on, fn is called
 * - module: fn(event, arg), with event->there, for each module of the kernel that is there at
 *   the start, before that returns, the oldest first; without, when one has been put into memory,
 *   before any of its code is executed and thus instrumented, plugins too; and, with
 *   event->going, when it goes: its code is not executed any more, its symbols are still there.
 *   One whose init fails goes, too.
 * - flush: fn(arg), when the code cache has been emptied because it was full. All that was
 *   inserted is gone with it, and the other callbacks will be called anew for what is
 *   executed again. Until fn returns neither callbacks of code nor analysis functions run, of
 *   any plugin: tables that both use can be changed without a lock, heap_reset() be called. System calls
 *   are not instrumented meanwhile, and are counted as missed: be quick.
 * - end: fn(arg), once for each start, when no analysis function of s runs or will run any
 *   more: in syscall_stop_instrumenting() before it returns, behind plugin_stop or a failed plugin_start
 *   that left s instrumenting, and where JIFL has ended it. It is the last event.
 *
 * Events come in process context and may sleep, one at a time over all plugins, in the order in
 * which the instrumented syscall_t were started and the callbacks added. They may call all that process context
 * may but the syscall_*() functions (-EPERM), and must not load or unload modules, nor wait for
 * who does. A lock that is held over syscall_start_instrumenting() or syscall_stop_instrumenting()
 * must not be taken in them.
 *
 * Process context. Errors: as above.
 */
#define syscall_add_module_callback(s, fn, arg) \
	jifl_add_module_callback(&jifl_this_plugin, s, fn, arg)
#define syscall_add_flush_callback(s, fn, arg) \
	jifl_add_event_callback(&jifl_this_plugin, s, JIFL_CALLBACK_FLUSH, fn, arg)
#define syscall_add_end_callback(s, fn, arg) \
	jifl_add_event_callback(&jifl_this_plugin, s, JIFL_CALLBACK_END, fn, arg)

/*
 * int syscall_start_instrumenting(syscall_t *s)
 *
 * From now on the system calls of s run instrumented, for every task. Process
 * context, between the beginning of plugin_start and the end of plugin_stop.
 * Errors: -EINVAL s was not initialised; -EPERM the plugin has not been started;
 * -EALREADY instrumenting; -EBUSY four others instrument one of the calls;
 * -ENOMEM, -ENOSPC.
 */
#define syscall_start_instrumenting(s)	jifl_syscall_start(&jifl_this_plugin, s)

/*
 * int syscall_stop_instrumenting(syscall_t *s)
 *
 * Ends that. When it returns no analysis function inserted for s runs or will
 * run any more. Process context; sleeps until every task has left the
 * instrumented code, which is soon even if some sleep in a system call.
 * Errors: -EINVAL s was not initialised; -ENOENT not instrumenting.
 */
#define syscall_stop_instrumenting(s)	jifl_syscall_stop(&jifl_this_plugin, s)

/* --- arguments of analysis functions ------------------------------------------------ */

/*
 * The *_insert_call functions take the analysis function and then pairs of a
 * type and a value, closed by ARG_END:
 *
 *	bb_insert_call(bb, add_count, ARG_VOID_PTR, &count, ARG_INT32, bb_size(bb),
 *		       ARG_END);
 *
 * These values are fixed when the call is inserted. Others are looked up each time that
 * it is made; but for ARG_REG their types stand alone:
 *
 *	ins_insert_call(ins, IPOINT_BEFORE, note, ARG_INS_ADDRESS, ARG_REG, VALUE_RCX,
 *			ARG_MEMORY_ADDRESS, ARG_END);
 *
 * Each is an unsigned long, or an int or a pointer where it fits, and costs an
 * instruction, ARG_SYSCALL_NR three where the syscall_t has all system calls. What follows
 * from the place alone costs nothing: it is a constant, and specialised as one. -EINVAL
 * where there is no such thing.
 */
enum jifl_arg {
	ARG_END = 0x4a00,	/* no more */
	ARG_VOID_PTR,		/* a pointer */
	ARG_INT32,		/* a 32-bit integer, signed or not */
	ARG_INT64,		/* a 64-bit integer, signed or not */
	IF_EQUAL,		/* not an argument: see `conditions` below */
	/*
	 * ARG_REG, value: a value of the kernel, enum jifl_value below: a register, an argument,
	 * what is returned. ARG_VALUE is the same.
	 */
	ARG_REG,
	ARG_VALUE = ARG_REG,
	ARG_SYSCALL_NR,		/* the number of the system call that runs; once in a call */
	ARG_TASK,		/* struct task_struct *: current */
	/*
	 * The address of the instruction; of the block's or the routine's first one; where a
	 * routine is left, of the one that leaves. Not at entries and exits.
	 */
	ARG_INS_ADDRESS,
	/*
	 * At a jump or a call: where it goes, of a conditional one where it would go. Not
	 * at returns: what is on the stack is no address of the kernel's own.
	 */
	ARG_BRANCH_TARGET,
	/*
	 * At jumps, calls and returns: 1 if it branches, 0 if not. A call that asks for it
	 * before a conditional jump is made right behind the jump, on either way, and takes
	 * the room of two.
	 */
	ARG_BRANCH_TAKEN,
	/*
	 * Of the first operand in memory that the instruction accesses, not the stack of
	 * push, pop, call and ret: its address, before the instruction and not where it is
	 * relative to a segment (per-CPU data are, to gs); and its size in bytes, of one
	 * repetition where it repeats.
	 */
	ARG_MEMORY_ADDRESS,
	ARG_MEMORY_SIZE,
	/*
	 * const struct pt_regs *: all registers, flags, sp, and as ip where the original code goes
	 * on: the address of the instruction; behind it of the next, on the edge of a jump that is
	 * taken of its target. At the entry of a system call the registers of user space that it
	 * came with, not at its exit. Good until the function returns, and not to be written to:
	 * what is changed may become the kernel's own. As with single registers (enum jifl_value)
	 * and as with flags, what the kernel no longer needs may hold anything; return addresses
	 * on the stack may be those of copies. Once in a call, which has no condition and is not
	 * inlined: some thirty instructions.
	 */
	ARG_CONTEXT,
};

#define JIFL_ARGS_MAX	6

/* --- values of the kernel ------------------------------------------------------------ */

/*
 * Values that conditions, histograms and ARG_REG look at, each time anew:
 * - at the entry of a system call its arguments VALUE_ARG0 to VALUE_ARG5, as its
 *   caller gave them, and at its exit VALUE_RETVAL, what it returns;
 * - where a routine begins its first six arguments, VALUE_ARG0 to VALUE_ARG5, those
 *   that it has, of integers and pointers; and registers;
 * - where a routine is left VALUE_RETVAL, what it returns, and registers;
 * - at blocks and instructions registers.
 *
 * A register is worth looking at where the kernel still reads it, or between the
 * instruction that writes it and the end of that block. At the beginning of a block
 * one that the kernel no longer needs may hold anything.
 */
enum jifl_value {
	VALUE_RAX = 0x4a80, VALUE_RCX, VALUE_RDX, VALUE_RBX,
	VALUE_RBP = VALUE_RAX + 5, VALUE_RSI, VALUE_RDI,
	VALUE_R8, VALUE_R9, VALUE_R10, VALUE_R11, VALUE_R12, VALUE_R13, VALUE_R14, VALUE_R15,
	VALUE_ARG0 = 0x4aa0, VALUE_ARG1, VALUE_ARG2, VALUE_ARG3, VALUE_ARG4, VALUE_ARG5,
	VALUE_RETVAL,
};

#define JIFL_VALUE_LOW	0x100

/*
 * The low 32 bits of a value, for histograms: an int's or unsigned int's, such as a
 * file descriptor's, whose upper half says nothing.
 */
#define VALUE_32(value)	((value) | JIFL_VALUE_LOW)

/* --- conditions ------------------------------------------------------------------------ */

/*
 * The *_insert_* functions take, first among the pairs and once,
 *
 *	IF_EQUAL, value, type, constant
 *
 * and do what they insert only when the value (enum jifl_value) is the constant: all
 * 64 bits for ARG_INT64 and ARG_VOID_PTR, the low 32 for ARG_INT32.
 *
 *	syscall_insert_call(point, add_one, IF_EQUAL, VALUE_ARG0, ARG_INT32, 3,
 *			    ARG_VOID_PTR, &reads_of_3, ARG_END);
 *
 * It is two instructions in the copied code; what is inserted, with all that it saves
 * but live flags, costs only where the condition holds.
 */

/* --- errors of insertions ---------------------------------------------------------------- */

/*
 * Errors of all *_insert_*: -EPERM the handle is not one of the callback
 * that runs; -EINVAL the function is NULL or not kernel code, the arguments are
 * malformed, it cannot be done there, what is to be looked at is not there, or
 * the histogram is none of DEFINE_HIST; -E2BIG more than JIFL_ARGS_MAX
 * arguments; -ENOSPC the block has no room for more. For a plugin that goes on for
 * thousands of times after that, all that it instruments is ended: one line in
 * the log says so, and until the next start nothing can be started.
 *
 * What is inserted at the same place is done in the order of insertion: what one callback inserts,
 * then what the one behind it does. Of several syscall_t, of one plugin or several, that have the
 * same system call, those started first come first, behind what the command's own sessions (`jifl
 * count` and others) insert into code.
 */

/* --- histograms -------------------------------------------------------------------------- */

/*
 * Counts of values by powers of two, as bpftrace's hist(): bucket 0 counts the value
 * 0, bucket n values from 2^(n - 1) to 2^n - 1, the last one all that are larger, too.
 * Values have no sign: with HIST_BUCKETS_MAX buckets bucket 64 has the negative ones, a
 * system call's errors for example.
 *
 * Each CPU has cells of its own, and each is counted by one instruction: interrupts and
 * other CPUs take nothing away. No function is called for it; docs/performance.md says
 * what it costs.
 */
#define HIST_BUCKETS_MAX 65

typedef struct jifl_hist {
	u64 __percpu *buckets;
	unsigned int nbuckets;
} hist_t;

/*
 * DEFINE_HIST(name, n): a static hist_t of n buckets, from 2 to HIST_BUCKETS_MAX. They
 * lie in the static per-CPU data of the plugin, of which the kernel has 8 KiB for all
 * modules together; a module that finds no room there is not loaded.
 */
#define DEFINE_HIST(name, n) \
	static_assert((n) >= 2 && (n) <= HIST_BUCKETS_MAX); \
	static DEFINE_PER_CPU(u64 [n], name##_buckets); \
	static hist_t name = { .buckets = (u64 __percpu *)&name##_buckets, .nbuckets = (n) }

/* The smallest value of a bucket. */
static inline u64 hist_low(unsigned int bucket)
{
	return bucket ? 1ull << (bucket - 1) : 0;
}

/*
 * What a bucket has counted on all CPUs; 0 for one that h does not have. Any context.
 * While h is being counted in, buckets read one after the other need not be of one moment.
 */
static inline u64 hist_count(const hist_t *h, unsigned int bucket)
{
	u64 n = 0;
	int cpu;

	if (bucket >= h->nbuckets)
		return 0;
	for_each_possible_cpu(cpu)
		n += READ_ONCE(per_cpu_ptr(h->buckets, cpu)[bucket]);
	return n;
}

/* Zeroes it. Any context, while nobody counts in it. */
static inline void hist_clear(hist_t *h)
{
	int cpu;

	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(h->buckets, cpu), 0, h->nbuckets * sizeof(u64));
}

/*
 * int syscall_insert_hist(syscall_point_t *point, hist_t *h, int value, ...)
 * int routine_insert_hist(routine_t *routine, hist_t *h, int value, ...)
 * int bb_insert_hist(bb_t *bb, hist_t *h, int value, ...)
 * int ins_insert_hist(ins_t *ins, enum jifl_ipoint where, hist_t *h, int value, ...)
 *
 * Count a value (enum jifl_value) in h where and when the function of *_insert_call
 * would be called. Behind it ARG_END, before that perhaps a condition:
 *
 *	syscall_insert_hist(point, &sizes, VALUE_ARG2, ARG_END);
 *	syscall_insert_hist(point, &sizes_of_3, VALUE_ARG2,
 *			    IF_EQUAL, VALUE_ARG0, ARG_INT32, 3, ARG_END);
 *
 * h stays until instrumentation has been stopped.
 */
#define syscall_insert_hist(point, ...) \
	jifl_insert_hist(&jifl_this_plugin, jifl_place_point(point), __VA_ARGS__)
#define routine_insert_hist(routine, ...) \
	jifl_insert_hist(&jifl_this_plugin, jifl_place_routine(routine), __VA_ARGS__)
#define bb_insert_hist(bb, ...) \
	jifl_insert_hist(&jifl_this_plugin, jifl_place_bb(bb), __VA_ARGS__)
#define ins_insert_hist(ins, where, ...) \
	jifl_insert_hist(&jifl_this_plugin, jifl_place_ins(ins, where), __VA_ARGS__)

/* --- entry and exit -------------------------------------------------------------------- */

/* int syscall_nr(syscall_point_t *point): the number of the system call, or -EPERM. */
#define syscall_nr(point)	jifl_syscall_nr(&jifl_this_plugin, point)

/*
 * int syscall_insert_call(syscall_point_t *point, void *fn, ...)
 *
 * Calls fn each time the system call is entered, or when it returns. A call
 * that never returns (exit), or during which instrumentation ends, has no exit.
 * Room for 4 insertions at each.
 */
#define syscall_insert_call(point, ...) \
	jifl_insert_call(&jifl_this_plugin, jifl_place_point(point), __VA_ARGS__)

/* --- routines ---------------------------------------------------------------------------- */

/*
 * unsigned long routine_address(routine_t *routine)
 *
 * The address at which the routine begins; 0 for what is no handle of a routine. Any context but
 * NMI, and behind the callback, too: what is kept of a routine may be its handle. Not to be shown
 * to users.
 */
#define routine_address(routine) jifl_routine_address(&jifl_this_plugin, routine)

/*
 * int routine_insert_call(routine_t *routine, void *fn, ...)
 *
 * Calls fn each time the routine is entered.
 */
#define routine_insert_call(routine, ...) \
	jifl_insert_call(&jifl_this_plugin, jifl_place_routine(routine), __VA_ARGS__)

/*
 * int routine_insert_exit_call(routine_t *routine, void *fn, ...)
 * int routine_insert_exit_hist(routine_t *routine, hist_t *h, int value, ...)
 *
 * Call fn, or count a value, each time the routine is left: before it returns, and before it
 * jumps to another routine, which then returns in its stead (a tail call). There is no
 * value yet in that case: what looks at VALUE_RETVAL is done at returns alone.
 *
 * To be called from the routine's callback, which is called anew for each of its blocks
 * in which it is left, if it has once asked for exits: what it inserts at the beginning is
 * inserted only there, so it can do the same each time. A routine is what is between two
 * symbols; what gcc has put aside as NAME.cold counts as one, which nobody
 * tail-calls. Exits in code that runs natively are not seen: `jifl status` says how much does.
 */
#define routine_insert_exit_call(routine, ...) \
	jifl_insert_call(&jifl_this_plugin, jifl_place_exit(routine), __VA_ARGS__)
#define routine_insert_exit_hist(routine, ...) \
	jifl_insert_hist(&jifl_this_plugin, jifl_place_exit(routine), __VA_ARGS__)

/*
 * int routine_name(routine_t *routine, char *name, size_t size)
 * int routine_module(routine_t *routine, char *name, size_t size)
 *
 * The routine's name, and that of the module it is in, empty for the kernel's own; cut to
 * size, of which MAX_NAME_SIZE is enough for each. They take some microseconds. Also behind the
 * callback, as routine_address(), and where symbol_name() may be called, which names any address,
 * as printk's %ps does.
 */
#define MAX_NAME_SIZE	KSYM_NAME_LEN

#define routine_name(routine, name, size) \
	jifl_routine_name(&jifl_this_plugin, routine, name, size)
#define routine_module(routine, name, size) \
	jifl_routine_module(&jifl_this_plugin, routine, name, size)

/* --- basic blocks ------------------------------------------------------------------------ */

/*
 * int bb_size(bb_t *bb)
 *
 * The number of the kernel's instructions in the block, or -EPERM. Includes
 * those of a mitigated branch or return that the block carries out at once.
 */
#define bb_size(bb)		jifl_bb_size(&jifl_this_plugin, bb)

/*
 * unsigned long bb_address(bb_t *bb)
 *
 * The address of its first instruction, 0 for a stale handle.
 */
#define bb_address(bb)		jifl_bb_address(&jifl_this_plugin, bb)

/*
 * int bb_insert_call(bb_t *bb, void *fn, ...)
 *
 * Calls fn each time the block is executed, before its first instruction.
 */
#define bb_insert_call(bb, ...) \
	jifl_insert_call(&jifl_this_plugin, jifl_place_bb(bb), __VA_ARGS__)

/* --- instructions -------------------------------------------------------------------------- */

/*
 * ins_t *ins_first(bb_t *bb), ins_t *ins_last(bb_t *bb)
 * ins_t *ins_next(ins_t *ins), ins_t *ins_prev(ins_t *ins)
 *
 * The instructions of a block in order. NULL past either end, and for a stale
 * handle.
 */
#define ins_first(bb)		jifl_ins_first(&jifl_this_plugin, bb)
#define ins_last(bb)		jifl_ins_last(&jifl_this_plugin, bb)
#define ins_next(ins)		jifl_ins_next(&jifl_this_plugin, ins)
#define ins_prev(ins)		jifl_ins_prev(&jifl_this_plugin, ins)

/*
 * enum jifl_ins_type ins_type(ins_t *ins)
 *
 * What kind it is (jifl_ins.h): a class, or for conditional jumps, direct jumps and calls, returns
 * and cmpxchg the instruction. ins_other for a stale handle, and for NULL, which stands past the
 * ends of a block.
 *
 * ins_jcc is any conditional jump: ins_type(ins) == ins_jcc for each. It is no constant (there can
 * be none that equals both ins_je and ins_jne) but what ins_type() says of the conditional jump
 * that ends the callback's block; and what it says of no instruction, where the block ends
 * otherwise. So it is not for `case`, and only for callbacks of routines, blocks and instructions.
 */
#define ins_type(ins)		jifl_ins_type(&jifl_this_plugin, ins)
#define ins_jcc			jifl_ins_jcc(&jifl_this_plugin)

/*
 * unsigned long ins_address(ins_t *ins)
 *
 * Its address, 0 for a stale handle.
 */
#define ins_address(ins)	jifl_ins_address(&jifl_this_plugin, ins)

/*
 * unsigned long ins_target(ins_t *ins)
 *
 * Where a direct jump or call goes, a conditional one if it is taken; 0 for others.
 */
#define ins_target(ins)		jifl_ins_target(&jifl_this_plugin, ins)

/*
 * unsigned int ins_properties(ins_t *ins)
 *
 * Bits of enum jifl_ins_property: whether it is atomic, repeats, loads, stores. 0 for a stale handle.
 */
#define ins_properties(ins)	jifl_ins_properties(&jifl_this_plugin, ins)

/*
 * bool ins_lock_prefix(ins_t *ins)
 * bool ins_branch_hint(ins_t *ins)
 * bool ins_bnt_prefix(ins_t *ins)
 *
 * Has it a lock prefix; is it a conditional jump with a prefix that says which way it mostly goes;
 * and does that say "branch not taken"? Compilers no longer make such hints. False for a stale handle.
 */
#define ins_lock_prefix(ins)	jifl_ins_lock_prefix(&jifl_this_plugin, ins)
#define ins_branch_hint(ins)	jifl_ins_branch_hint(&jifl_this_plugin, ins)
#define ins_bnt_prefix(ins)	jifl_ins_bnt_prefix(&jifl_this_plugin, ins)

/*
 * bool ins_reads_reg(ins_t *ins, int reg), bool ins_writes_reg(ins_t *ins, int reg)
 *
 * Does it read, or write, any part of a register, VALUE_RAX to VALUE_R15? Also those that
 * it does not name, as a string instruction does rcx, and those in addresses.
 */
#define ins_reads_reg(ins, reg)	 jifl_ins_reads_reg(&jifl_this_plugin, ins, reg)
#define ins_writes_reg(ins, reg) jifl_ins_writes_reg(&jifl_this_plugin, ins, reg)

/*
 * int ins_memory_operands(ins_t *ins, struct ins_memory *operands, int max)
 *
 * Fills in its operands in memory, up to max of them (an instruction has two at most, a
 * string move), and returns how many; without the stack of push, pop, call and ret.
 */
#define ins_memory_operands(ins, operands, max) \
	jifl_ins_memory_operands(&jifl_this_plugin, ins, operands, max)

enum jifl_ipoint {
	IPOINT_BEFORE,		/* right before the instruction */
	IPOINT_AFTER,		/* right after it; not for one that branches */
	IPOINT_TAKEN,		/* of a conditional jump: when it jumps */
	IPOINT_NOT_TAKEN,	/* ... when it does not */
};

/*
 * int ins_insert_call(ins_t *ins, enum jifl_ipoint where, void *fn, ...)
 *
 * Calls fn each time the instruction is about to be executed, or has been.
 * -EINVAL for IPOINT_AFTER on a jump, call or return, and for the two of conditional jumps on
 * others.
 */
#define ins_insert_call(ins, where, ...) \
	jifl_insert_call(&jifl_this_plugin, jifl_place_ins(ins, where), __VA_ARGS__)

/*
 * int ins_insert_bt_call(ins_t *ins, void *fn, ...)
 * int ins_insert_bnt_call(ins_t *ins, void *fn, ...)
 *
 * The same for a conditional jump when it is taken, and when it is not.
 */
#define ins_insert_bt_call(ins, ...)  ins_insert_call(ins, IPOINT_TAKEN, __VA_ARGS__)
#define ins_insert_bnt_call(ins, ...) ins_insert_call(ins, IPOINT_NOT_TAKEN, __VA_ARGS__)

/* --- symbols -------------------------------------------------------------------------------- */

/*
 * int symbol_name(unsigned long address, char *name, size_t size)
 * int symbol_module(unsigned long address, char *name, size_t size)
 *
 * The name of the kernel's symbol that the address is in, without offset; and that of the module
 * it is in, empty for the kernel's own; cut to size. Process context and callbacks, where they
 * take some microseconds; analysis functions should keep addresses, as names also take a kilobyte
 * of the stack. A module's names go with it: its going is the last that they can be asked
 * (syscall_add_module_callback). Errors: -ENOENT in none, the name is the address then; -EINVAL no
 * room for a name.
 */
#define symbol_name(address, name, size) \
	jifl_symbol_name(&jifl_this_plugin, address, name, size)
#define symbol_module(address, name, size) \
	jifl_symbol_module(&jifl_this_plugin, address, name, size)

/*
 * unsigned long symbol_start(unsigned long address)
 *
 * The address of the symbol that it is in, 0 if in none. Any context but NMI.
 */
#define symbol_start(address)	jifl_symbol_start(address)

/*
 * unsigned long symbol_address(const char *name)
 *
 * The address of the symbol of that name, the first there is; 0 if there is none. Process
 * context (else 0, and a line in the log); it may take some milliseconds.
 */
#define symbol_address(name)	jifl_symbol_address(&jifl_this_plugin, name)

/* --- what stands behind the names above: not for plugins -------------------------------- */

#define JIFL_PLUGIN_ABI	5

struct jifl_plugin {
	unsigned int size;
	unsigned int abi;		/* JIFL_PLUGIN_ABI */
	const char *name;
	struct module *owner;
	int (*init)(void);
	void (*exit)(void);
	int (*start)(void);
	void (*stop)(void);
	/* jifl.ko's: */
	struct list_head list;
	struct list_head syscalls;	/* of syscall_t */
	struct list_head stores;	/* of struct jifl_store */
	unsigned int state;
	bool complained;
	bool expelled;			/* went on inserting without room */
	bool told;			/* ... and the log says so */
};

int jifl_plugin_register(struct jifl_plugin *p);
void jifl_plugin_unregister(struct jifl_plugin *p);

int jifl_syscall_init(struct jifl_plugin *p, syscall_t *s, int nr);
int jifl_syscall_init_all(struct jifl_plugin *p, syscall_t *s);
int jifl_add_callback(struct jifl_plugin *p, syscall_t *s,
		      enum jifl_callback_kind kind, void *fn, void *arg);
int jifl_syscall_start(struct jifl_plugin *p, syscall_t *s);
int jifl_syscall_stop(struct jifl_plugin *p, syscall_t *s);

int jifl_syscall_nr(struct jifl_plugin *p, syscall_point_t *point);
unsigned long jifl_routine_address(struct jifl_plugin *p, routine_t *routine);
int jifl_routine_name(struct jifl_plugin *p, routine_t *routine, char *name, size_t size);
int jifl_routine_module(struct jifl_plugin *p, routine_t *routine, char *name, size_t size);
int jifl_symbol_name(struct jifl_plugin *p, unsigned long address, char *name, size_t size);
int jifl_symbol_module(struct jifl_plugin *p, unsigned long address, char *name, size_t size);
unsigned long jifl_symbol_start(unsigned long address);
unsigned long jifl_symbol_address(struct jifl_plugin *p, const char *name);
int jifl_bb_size(struct jifl_plugin *p, bb_t *bb);
unsigned long jifl_bb_address(struct jifl_plugin *p, bb_t *bb);
ins_t *jifl_ins_first(struct jifl_plugin *p, bb_t *bb);
ins_t *jifl_ins_last(struct jifl_plugin *p, bb_t *bb);
ins_t *jifl_ins_next(struct jifl_plugin *p, ins_t *ins);
ins_t *jifl_ins_prev(struct jifl_plugin *p, ins_t *ins);
enum jifl_ins_type jifl_ins_type(struct jifl_plugin *p, ins_t *ins);
enum jifl_ins_type jifl_ins_jcc(struct jifl_plugin *p);
unsigned long jifl_ins_address(struct jifl_plugin *p, ins_t *ins);
unsigned long jifl_ins_target(struct jifl_plugin *p, ins_t *ins);
unsigned int jifl_ins_properties(struct jifl_plugin *p, ins_t *ins);
bool jifl_ins_lock_prefix(struct jifl_plugin *p, ins_t *ins);
bool jifl_ins_branch_hint(struct jifl_plugin *p, ins_t *ins);
bool jifl_ins_bnt_prefix(struct jifl_plugin *p, ins_t *ins);
bool jifl_ins_reads_reg(struct jifl_plugin *p, ins_t *ins, int value);
bool jifl_ins_writes_reg(struct jifl_plugin *p, ins_t *ins, int value);
int jifl_ins_memory_operands(struct jifl_plugin *p, ins_t *ins, struct ins_memory *operands,
			     int max);

/* Where something is inserted. */
struct jifl_place {
	const void *handle;
	enum {
		JIFL_PLACE_POINT,
		JIFL_PLACE_ROUTINE,
		JIFL_PLACE_ROUTINE_EXIT,
		JIFL_PLACE_BB,
		JIFL_PLACE_INS,
	} kind;
	enum jifl_ipoint where;		/* INS */
};

int jifl_insert_call(struct jifl_plugin *p, struct jifl_place place, void *fn, ...);
int jifl_insert_hist(struct jifl_plugin *p, struct jifl_place place, hist_t *hist, int value, ...);

/* Inline, so that the compiler sees a handle of the wrong type. */
static inline struct jifl_place jifl_place_point(syscall_point_t *point)
{
	return (struct jifl_place){ point, JIFL_PLACE_POINT };
}

static inline struct jifl_place jifl_place_routine(routine_t *routine)
{
	return (struct jifl_place){ routine, JIFL_PLACE_ROUTINE };
}

static inline struct jifl_place jifl_place_exit(routine_t *routine)
{
	return (struct jifl_place){ routine, JIFL_PLACE_ROUTINE_EXIT };
}

static inline struct jifl_place jifl_place_bb(bb_t *bb)
{
	return (struct jifl_place){ bb, JIFL_PLACE_BB };
}

static inline struct jifl_place jifl_place_ins(ins_t *ins, enum jifl_ipoint where)
{
	return (struct jifl_place){ ins, JIFL_PLACE_INS, where };
}

/* Likewise, of a callback. */
static inline int jifl_add_syscall_callback(struct jifl_plugin *p, syscall_t *s,
					    enum jifl_callback_kind kind,
					    syscall_callback fn, void *arg)
{
	return jifl_add_callback(p, s, kind, (void *)fn, arg);
}

static inline int jifl_add_routine_callback(struct jifl_plugin *p, syscall_t *s,
					    routine_callback fn, void *arg)
{
	return jifl_add_callback(p, s, JIFL_CALLBACK_ROUTINE, (void *)fn, arg);
}

static inline int jifl_add_bb_callback(struct jifl_plugin *p, syscall_t *s,
				       bb_callback fn, void *arg)
{
	return jifl_add_callback(p, s, JIFL_CALLBACK_BB, (void *)fn, arg);
}

static inline int jifl_add_ins_callback(struct jifl_plugin *p, syscall_t *s,
					ins_callback fn, void *arg)
{
	return jifl_add_callback(p, s, JIFL_CALLBACK_INS, (void *)fn, arg);
}

static inline int jifl_add_module_callback(struct jifl_plugin *p, syscall_t *s,
					   module_callback fn, void *arg)
{
	return jifl_add_callback(p, s, JIFL_CALLBACK_MODULE, (void *)fn, arg);
}

static inline int jifl_add_event_callback(struct jifl_plugin *p, syscall_t *s,
					  enum jifl_callback_kind kind,
					  event_callback fn, void *arg)
{
	return jifl_add_callback(p, s, kind, (void *)fn, arg);
}

#ifndef JIFL_HOST

/*
 * plugin_init and plugin_start return an int or nothing. Which, only their definitions say: so each
 * of them brings a function of a known type with it, which calls it.
 */
#define JIFL_RETURNS_NOTHING(fn)	__builtin_types_compatible_p(typeof(fn()), void)
#define JIFL_CALL_EITHER(fn) \
	__builtin_choose_expr(JIFL_RETURNS_NOTHING(fn), (fn(), 0), fn())
#define plugin_init(...) \
	plugin_init(void); \
	static int jifl_plugin_init(void) { return JIFL_CALL_EITHER((plugin_init)); } \
	typeof((plugin_init)()) plugin_init(void)
#define plugin_start(...) \
	plugin_start(void); \
	static int jifl_plugin_start(void) { return JIFL_CALL_EITHER((plugin_start)); } \
	typeof((plugin_start)()) plugin_start(void)

static int jifl_plugin_init(void);
static void plugin_exit(void);
static int jifl_plugin_start(void);
static void plugin_stop(void);

static struct jifl_plugin jifl_this_plugin = {
	.size = sizeof(struct jifl_plugin),
	.abi = JIFL_PLUGIN_ABI,
	.name = KBUILD_MODNAME,
	.owner = THIS_MODULE,
	.init = jifl_plugin_init,
	.exit = plugin_exit,
	.start = jifl_plugin_start,
	.stop = plugin_stop,
};

static int __init jifl_plugin_module_init(void)
{
	return jifl_plugin_register(&jifl_this_plugin);
}
module_init(jifl_plugin_module_init);

static void __exit jifl_plugin_module_exit(void)
{
	jifl_plugin_unregister(&jifl_this_plugin);
}
module_exit(jifl_plugin_module_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("JIFL plugin " KBUILD_MODNAME);

#endif /* !JIFL_HOST */

#endif /* _JIFL_H */
