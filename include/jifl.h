/* SPDX-License-Identifier: GPL-2.0 */
/*
 * jifl.h: the only header a JIFL plugin includes.
 *
 * A plugin is one C file that becomes a kernel module. It implements four
 * functions:
 *
 *	int plugin_init(void)	the module is being loaded: choose system calls or functions, add
 *				callbacks. 0 or -errno, which refuses the module.
 *	void plugin_exit(void)	the module is being unloaded.
 *	int plugin_start(void)	`jifl start NAME`: start instrumenting. 0 or -errno,
 *				which leaves it stopped.
 *	void plugin_stop(void)	`jifl stop NAME`: stop instrumenting and say what was found.
 *
 * All four may be static. plugin_init and plugin_start may also return void: then they always
 * succeed. These two are macros, so the plugin itself cannot call them.
 *
 * All four run in process context, one at a time, and may sleep. A started plugin cannot be
 * unloaded. If plugin_stop or a failed plugin_start leaves instrumentation running, JIFL stops it.
 *
 * Its Makefile is two lines, see plugins/plugin.mk:
 *
 *	PLUGIN := NAME
 *	include /path/to/jifl/plugins/plugin.mk
 *
 * Two kinds of functions of a plugin run at other times:
 *
 * - Callbacks (the *_callback types below) are called once for each piece of code when it is
 *   translated. They insert calls and counts into it. They run with interrupts off, and the
 *   translated code may hold any lock. So they must not sleep, take locks or print, must allocate
 *   only by heap_alloc(), and must be quick. Their handle is valid until they return; only a
 *   routine's handle tells for ever which routine it is. Code is translated anew after the code
 *   cache was emptied or the kernel changed the code, so a callback may see an address more than
 *   once. Callbacks of routines, blocks and instructions run one at a time, on any CPU. Callbacks
 *   of events differ: they run in process context.
 *
 * - Analysis functions are inserted by callbacks. They are called each time that the instrumented
 *   code is executed, before or after an instruction, in the context of that code: any lock may be
 *   held, interrupts may be off, page faults may be forbidden. They return void and have up to
 *   JIFL_ARGS_MAX arguments. All registers and flags are saved for them. They may change none of
 *   the kernel's state. They must not sleep, take locks that others hold with interrupts on, print,
 *   allocate, touch user memory, use the FPU, change the interrupt flag for good, or need much of
 *   the stack. Several CPUs execute them at once, and interrupt handlers can execute them in the
 *   middle of another call: if a sum must be exact, count with this_cpu_add() or atomics. At the
 *   exit of a system call the kernel's code holds no lock any more: there they may print and ask
 *   for names. At the exit of a function they may not, and interrupts are off.
 *
 * If an analysis function is small, uses no stack of its own and branches only within itself, it is
 * inlined: copied to the place of its call, with its arguments as constants. A counter is a single
 * instruction then. `jifl status` says which functions are inlined, and why others are not.
 *
 * JIFL cannot contain everything. A callback that faults or does not return stops the machine,
 * because translation holds a lock and interrupts are off. So does an analysis function that
 * changes registers which a C function must keep, leaves the direction flag set or the stack moved,
 * or sleeps while instrumentation ends. An analysis function that faults ends the process in which
 * it runs, like any oops. A slow one makes system calls slow. docs/robustness.md says what happens
 * and which test shows it.
 *
 * Errors: functions that return int return 0 or a negative errno. A mistake (-EINVAL, -EPERM,
 * -EBUSY, -EALREADY, -ENOENT) changes nothing and writes one line to the kernel log that names the
 * plugin and the mistake. Inside callbacks only the first mistake after each start is logged.
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
#include "jifl_probe.h"
#include "jifl_store.h"

struct jifl_plugin;
struct jifl_session;

/* --- handles --------------------------------------------------------------------- */

typedef struct jifl_point syscall_point_t;	/* entry to or exit from a system call */
typedef struct jifl_point target_point_t;	/* the same, of a function, too */
typedef struct jifl_routine routine_t;		/* a function of the kernel */
typedef struct jifl_bb bb_t;			/* a basic block */
typedef struct jifl_ins ins_t;			/* an instruction of a basic block */

/* --- callbacks ------------------------------------------------------------------- */

/*
 * Each gets a handle of what was translated, and the arg with which the callback was added.
 */
typedef void (*syscall_callback)(syscall_point_t *point, void *arg);
typedef void (*target_callback)(target_point_t *point, void *arg);
typedef void (*routine_callback)(routine_t *routine, void *arg);
typedef void (*bb_callback)(bb_t *bb, void *arg);
typedef void (*ins_callback)(ins_t *ins, void *arg);

/* A module of the kernel was loaded, or is removed: see syscall_add_module_callback. */
struct module_event {
	const char *name;
	unsigned long text, size;	/* its code, without that of its init */
	bool going;
	bool there;			/* it was loaded before the start */
};

typedef void (*module_callback)(const struct module_event *event, void *arg);
typedef void (*event_callback)(void *arg);

/* --- what is instrumented ---------------------------------------------------------- */

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

/* Maximum of callbacks of one kind in one syscall_t. */
#define JIFL_CALLBACKS_MAX	4

struct jifl_callback {
	void *fn;
	void *arg;
};

/*
 * What to instrument, and the callbacks. The plugin defines it as a static variable; its members
 * are not for the plugin. A syscall_t is about system calls, one or all, a target_t about functions
 * of the kernel. Both are one type: what is said of one holds for the other, where nothing else is
 * said.
 */
typedef struct jifl_plugin_target {
	struct jifl_plugin *plugin;		/* NULL: not initialised */
	struct list_head list;
	int nr;					/* -1: all system calls, or functions */
	bool functions;
	unsigned long address;			/* of one function; 0: those that are named */
	char named[128];			/* what target_init was given */
	unsigned int ncallbacks[JIFL_CALLBACK_KINDS];
	struct jifl_callback callbacks[JIFL_CALLBACK_KINDS][JIFL_CALLBACKS_MAX];
	struct jifl_session *session;		/* not NULL: instrumenting */
	struct list_head events;		/* in the list of those with event callbacks */
	bool exits;				/* it has asked for exits of routines */
	struct jifl_plugin_end *ends;		/* what is done where functions end; or NULL */
} target_t;

typedef target_t syscall_t;

/*
 * int syscall_init(syscall_t *s, int nr)
 *
 * Prepares s for the system call nr (__NR_openat, ...), without callbacks.
 * Process context. May be called again while s is not instrumenting.
 * Errors: -EINVAL: no such system call, or s is NULL; -EBUSY: s is instrumenting.
 */
#define syscall_init(s, nr)	jifl_syscall_init(&jifl_this_plugin, s, nr)

/*
 * int syscall_init_all(syscall_t *s)
 *
 * Prepares s for all system calls at once. Context and errors: as for syscall_init.
 */
#define syscall_init_all(s)	jifl_syscall_init_all(&jifl_this_plugin, s)

/*
 * int target_init(target_t *t, const char *target)
 * int target_init_address(target_t *t, unsigned long address)
 *
 * Prepares t for functions of the kernel, without callbacks. target is one of
 *
 *	fn:NAME			each function of that name; NAME may have * ? [...], as a file
 *				name in a shell. What a compiler appends to a name (.isra.0,
 *				.constprop.0, .part.0) does not count.
 *	fn:NAME@MODULE		those of a module
 *	mod:MODULE		all functions of a module
 *	softirq:NAME		what runs as that softirq, by its name in /proc/softirqs, upper or
 *				lower case; NAME may have * ? [...]
 *	work:NAME		the function, where it is called as a work item; NAME as behind fn:,
 *	work:NAME@MODULE	without * ? [...]
 *	timer:NAME		where a timer or a high-resolution timer calls it; the same
 *	timer:NAME@MODULE
 *	irq:NR			what handles that interrupt, for that interrupt alone
 *	irq:NAME		the same by the device's name in /proc/interrupts, if one function
 *				handles all interrupts of that name, which are eight at most
 *
 * without regard to white space at its end; or the address at which a function begins, as the
 * kernel's tables of functions have it. Names are looked up again at each start.
 *
 * Other calls of the functions of work, timer and irq are not calls of t, and are not missed.
 * A call whose return a tracer has taken before (the function graph tracer, a kretprobe) does not
 * show who made it: it is none of work and timer. Threads of the kernel (the command's kthread:)
 * are refused: they never enter their function again, and a plugin takes over no call that has
 * begun.
 *
 * Calls run instrumented that come to the function's beginning, from any caller: in tasks, in
 * softirqs and in hard interrupts, together with all that they call. Functions that may not be
 * entered are left out: the kernel forbids it, JIFL needs them itself, or they have no call of the
 * function tracer at their beginning, and no jump can stand there in its place. Where a jump stands
 * the first instructions are a block of their own, if the call comes from outside.
 *
 * A call inside another call of the same target_t, of the same task or interrupt, is a part of that
 * one: it has no entry and no exit of its own. So analysis functions may call what t instruments.
 * A call inside a call of another syscall_t or target_t, of any plugin, is a part of that one
 * alone; inside calls that the command counts it is a call of t, too. target_missed() counts both,
 * and all that could not be instrumented.
 *
 * Process context. May be called again while t is not instrumenting. A pattern may take some tenths
 * of a second, more where modules have many symbols.
 * Errors: -EINVAL: no such form, too long, NULL, or what one target cannot be; -ENOENT: no such
 * function, module, softirq or interrupt; -EBUSY: t is instrumenting; -E2BIG: more functions than a
 * session can have, or more than eight interrupts; -ENOMEM.
 */
#define target_init(t, target)	jifl_target_init(&jifl_this_plugin, t, target)
#define target_init_address(t, address) jifl_target_init_address(&jifl_this_plugin, t, address)

/*
 * int syscall_add_entry_instrumentation(syscall_t *s, syscall_callback fn, void *arg)
 * int syscall_add_exit_instrumentation(syscall_t *s, syscall_callback fn, void *arg)
 * int syscall_add_routine_instrumentation(syscall_t *s, routine_callback fn, void *arg)
 * int syscall_add_bb_instrumentation(syscall_t *s, bb_callback fn, void *arg)
 * int syscall_add_ins_instrumentation(syscall_t *s, ins_callback fn, void *arg)
 * int target_add_..., the same of a target_t
 *
 * From the next start on, fn(handle, arg) is called
 * - entry, exit: at least once for each system call or function of s, before its first call; those
 *   for exits of functions before the start returns, and before anything runs again when the code
 *   cache was emptied;
 * - routine: for each block at which a function begins (its address is that of a symbol, or a call
 *   of a target_t begins there), whether it is reached by a call or a jump; after the first
 *   routine_insert_exit_call(), also for each block in which a function is left. A loop that leads
 *   to the first instruction of a target begins the routine anew each time;
 * - bb: for each basic block that the system call or function executes;
 * - ins: for each instruction of each basic block, in order.
 * For one block the routine callbacks come first, then bb, then ins. Callbacks
 * of one kind are called in the order in which they were added.
 *
 * A function's first instructions, its endbr64 and the call of the function tracer, are executed
 * before a call of a target_t begins: neither bb nor ins has them there.
 *
 * Process context.
 * Errors: -EINVAL: fn is NULL, or s was not initialised; -EBUSY: s is instrumenting; -ENOSPC: more
 * than JIFL_CALLBACKS_MAX.
 */
#define syscall_add_entry_instrumentation(s, fn, arg) \
	jifl_add_point_callback(&jifl_this_plugin, s, JIFL_CALLBACK_ENTRY, fn, arg)
#define syscall_add_exit_instrumentation(s, fn, arg) \
	jifl_add_point_callback(&jifl_this_plugin, s, JIFL_CALLBACK_EXIT, fn, arg)
#define syscall_add_routine_instrumentation(s, fn, arg) \
	jifl_add_routine_callback(&jifl_this_plugin, s, fn, arg)
#define syscall_add_bb_instrumentation(s, fn, arg) \
	jifl_add_bb_callback(&jifl_this_plugin, s, fn, arg)
#define syscall_add_ins_instrumentation(s, fn, arg) \
	jifl_add_ins_callback(&jifl_this_plugin, s, fn, arg)
#define target_add_entry_instrumentation(t, fn, arg) \
	syscall_add_entry_instrumentation(t, fn, arg)
#define target_add_exit_instrumentation(t, fn, arg) \
	syscall_add_exit_instrumentation(t, fn, arg)
#define target_add_routine_instrumentation(t, fn, arg) \
	syscall_add_routine_instrumentation(t, fn, arg)
#define target_add_bb_instrumentation(t, fn, arg)  syscall_add_bb_instrumentation(t, fn, arg)
#define target_add_ins_instrumentation(t, fn, arg) syscall_add_ins_instrumentation(t, fn, arg)

/*
 * int syscall_add_module_callback(syscall_t *s, module_callback fn, void *arg)
 * int syscall_add_flush_callback(syscall_t *s, event_callback fn, void *arg)
 * int syscall_add_end_callback(syscall_t *s, event_callback fn, void *arg)
 * int target_add_..., the same of a target_t
 *
 * Events. From the next start on, fn is called
 * - module: fn(event, arg) for each module of the kernel, plugins too. With event->there: the
 *   module was loaded before the start; called before the start returns, the oldest module first.
 *   With event->going: the module is removed, also because its init failed; its code is not
 *   executed any more, its symbols still exist. With neither: the module has been put into memory;
 *   none of its code has been executed, and thus instrumented.
 * - flush: fn(arg), when the code cache has been emptied because it was full. All inserted code is
 *   gone with it. The other callbacks are called anew for code that is executed again. Until fn
 *   returns, no callback of code and no analysis function runs, of any plugin: fn can change tables
 *   that both use without a lock, and can call heap_reset(). System calls are not instrumented
 *   meanwhile and count as missed, so fn must be quick.
 * - end: fn(arg), once for each start, when no analysis function of s runs or will run any more. It
 *   is called in syscall_stop_instrumenting() before that returns, after a plugin_stop or failed
 *   plugin_start that left s instrumenting, and if JIFL has ended the instrumentation. It is the
 *   last event.
 *
 * Callbacks of events run in process context and may sleep. They run one at a time over all
 * plugins, in the order in which the syscall_t were started and the callbacks were added. They may
 * call all functions for process context, except syscall_*() and target_*() (-EPERM). They must not
 * load or unload modules, nor wait for a task that does. They must not take a lock that a task
 * holds while it calls a function of syscall_*() or target_*().
 *
 * Process context.
 * Errors: as for syscall_add_entry_instrumentation.
 */
#define syscall_add_module_callback(s, fn, arg) \
	jifl_add_module_callback(&jifl_this_plugin, s, fn, arg)
#define syscall_add_flush_callback(s, fn, arg) \
	jifl_add_event_callback(&jifl_this_plugin, s, JIFL_CALLBACK_FLUSH, fn, arg)
#define syscall_add_end_callback(s, fn, arg) \
	jifl_add_event_callback(&jifl_this_plugin, s, JIFL_CALLBACK_END, fn, arg)
#define target_add_module_callback(t, fn, arg)	syscall_add_module_callback(t, fn, arg)
#define target_add_flush_callback(t, fn, arg)	syscall_add_flush_callback(t, fn, arg)
#define target_add_end_callback(t, fn, arg)	syscall_add_end_callback(t, fn, arg)

/*
 * int syscall_start_instrumenting(syscall_t *s)
 * int target_start_instrumenting(target_t *t)
 *
 * From now on the system calls of s run instrumented, for every task, or the calls of the functions
 * of t. Process context, between the beginning of plugin_start and the end of plugin_stop.
 * Errors: -EINVAL: s was not initialised; -EPERM: the plugin has not been started; -EALREADY: s is
 * instrumenting; -EBUSY: four others instrument one of the calls, or, of functions, four others
 * instrument anything: at most three sessions go with one that is about functions; -ENOMEM,
 * -ENOSPC. Of functions also -ENOENT: no such function is there now; -EOPNOTSUPP: none of them can
 * be entered, or another tracer or a session of another scope has one. The log says which, and why.
 */
#define syscall_start_instrumenting(s)	jifl_plugin_target_start(&jifl_this_plugin, s)
#define target_start_instrumenting(t)	syscall_start_instrumenting(t)

/*
 * int syscall_stop_instrumenting(syscall_t *s)
 * int target_stop_instrumenting(target_t *t)
 *
 * Stops the instrumentation of s. When it returns, no analysis function inserted for s runs or will
 * run any more. Process context; sleeps until every task has left the instrumented code, which is
 * soon even if tasks sleep in system calls.
 * Errors: -EINVAL: s was not initialised; -ENOENT: s is not instrumenting.
 */
#define syscall_stop_instrumenting(s)	jifl_plugin_target_stop(&jifl_this_plugin, s)
#define target_stop_instrumenting(t)	syscall_stop_instrumenting(t)

/*
 * u64 target_missed(target_t *t)
 *
 * Calls since the start that had no entry of their own, or were lost in their middle: inside
 * another call, without room in the code cache, where no return could be hooked, when the code
 * cache was emptied (docs/command.md names the causes). 0 if t is not instrumenting. Process
 * context; also of a syscall_t.
 */
#define target_missed(t)		jifl_target_missed(&jifl_this_plugin, t)

/* --- arguments of analysis functions ------------------------------------------------ */

/*
 * The *_insert_call functions take the analysis function and then pairs of a type and a value.
 * ARG_END closes the list:
 *
 *	bb_insert_call(bb, add_count, ARG_VOID_PTR, &count, ARG_INT32, bb_size(bb),
 *		       ARG_END);
 *
 * These values are fixed when the call is inserted. Other types are looked up at each call. They
 * have no value, except ARG_REG:
 *
 *	ins_insert_call(ins, IPOINT_BEFORE, note, ARG_INS_ADDRESS, ARG_REG, VALUE_RCX,
 *			ARG_MEMORY_ADDRESS, ARG_END);
 *
 * Each is an unsigned long, or an int or a pointer if that fits. It costs one instruction;
 * ARG_SYSCALL_NR costs three if the syscall_t has all system calls. An argument that follows from
 * the place alone costs nothing: it is a constant, and inlined code is specialised for it. -EINVAL:
 * the argument does not exist at this place.
 */
enum jifl_arg {
	ARG_END = 0x4a00,	/* no more */
	ARG_VOID_PTR,		/* a pointer */
	ARG_INT32,		/* a 32-bit integer, signed or not */
	ARG_INT64,		/* a 64-bit integer, signed or not */
	IF_EQUAL,		/* no argument: see `conditions` below */
	/*
	 * ARG_REG, value: a value of the kernel, enum jifl_value below: a register, an argument, a
	 * return value. ARG_VALUE is the same.
	 */
	ARG_REG,
	ARG_VALUE = ARG_REG,
	/* The number of the system call that runs; once in a call. Of a syscall_t alone. */
	ARG_SYSCALL_NR,
	ARG_TASK,		/* struct task_struct *: current */
	/*
	 * The address of the instruction; for a block or routine, of its first instruction; at a
	 * routine's exit, of the instruction that leaves. At entry and exit of a function: where
	 * the function begins. Not at entry or exit of a system call.
	 */
	ARG_INS_ADDRESS,
	/*
	 * At a jump or a call: its target, also of a conditional jump that may not be taken. Not at
	 * returns: the address on the stack is not the kernel's own.
	 */
	ARG_BRANCH_TARGET,
	/*
	 * At jumps, calls and returns: 1 if it branches, 0 if not. If a call before a conditional
	 * jump has this argument, the call is made right after the jump instead, on either way, and
	 * takes the room of two.
	 */
	ARG_BRANCH_TAKEN,
	/*
	 * Address and size of the first memory operand that the instruction accesses, without the
	 * stack of push, pop, call and ret. The address: only before the instruction, and only of
	 * an operand that is not relative to a segment (per-CPU data are relative to gs). The size
	 * in bytes: of one repetition, if the instruction repeats.
	 */
	ARG_MEMORY_ADDRESS,
	ARG_MEMORY_SIZE,
	/*
	 * const struct pt_regs *: all registers, flags, sp, and ip. ip is the address at which the
	 * original code goes on: before an instruction its own address, after it the next one's,
	 * where a jump is taken the jump's target. At the entry of a system call: the registers of
	 * user space with which it came. Not at its exit, and neither at the entry nor at the exit
	 * of a function. Valid until the function returns. The function must not write to it:
	 * changes may become the kernel's own. Registers (as for enum jifl_value) and flags that
	 * the kernel no longer needs may have any value. Return addresses on the stack may be those
	 * of copies. Once in a call. That call has no condition and is not inlined; it costs some
	 * thirty instructions.
	 */
	ARG_CONTEXT,
};

#define JIFL_ARGS_MAX	6

/* --- values of the kernel ------------------------------------------------------------ */

/*
 * Values that conditions, histograms and ARG_REG read each time:
 * - at the entry of a system call its arguments VALUE_ARG0 to VALUE_ARG5, as its caller gave them,
 *   and at its exit VALUE_RETVAL, its return value;
 * - at the entry of a function those of its first six arguments that exist, VALUE_ARG0 to
 *   VALUE_ARG5, if they are integers or pointers, and at its exit VALUE_RETVAL;
 * - at the beginning of a routine those of its first six arguments that exist, VALUE_ARG0 to
 *   VALUE_ARG5, if they are integers or pointers; and registers;
 * - at the exit of a routine VALUE_RETVAL, its return value, and registers;
 * - at blocks and instructions registers.
 *
 * The value of a register is meaningful if the kernel still reads it, or between the instruction
 * that writes it and the end of that block. At the beginning of a block, a register that the kernel
 * no longer needs may have any value.
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
 * The low 32 bits of a value, for histograms: for an int or unsigned int, such as a file
 * descriptor, whose upper half may be anything.
 */
#define VALUE_32(value)	((value) | JIFL_VALUE_LOW)

/* --- conditions ------------------------------------------------------------------------ */

/*
 * The *_insert_* functions can have one condition, which is the first of the pairs:
 *
 *	IF_EQUAL, value, type, constant
 *
 * Then the inserted call or count is executed only if the value (enum jifl_value) is equal to the
 * constant: in all 64 bits for ARG_INT64 and ARG_VOID_PTR, in the low 32 for ARG_INT32.
 *
 *	syscall_insert_call(point, add_one, IF_EQUAL, VALUE_ARG0, ARG_INT32, 3,
 *			    ARG_VOID_PTR, &reads_of_3, ARG_END);
 *
 * A condition is two instructions in the copied code. If it does not hold, the inserted code costs
 * nothing more than saving live flags.
 */

/* --- errors of insertions ---------------------------------------------------------------- */

/*
 * Errors of all *_insert_*: -EPERM: the handle is not of the callback that runs; -EINVAL: the
 * function is NULL or not kernel code, the arguments are malformed, the insertion or a value is
 * impossible at this place, or the histogram is not of DEFINE_HIST; -E2BIG: more than JIFL_ARGS_MAX
 * arguments; -ENOSPC: the block has no room for more. If a plugin ignores -ENOSPC thousands of
 * times, JIFL ends all its instrumentation: one line in the log says so, and until the plugin's
 * next start nothing can be started.
 *
 * Insertions at the same place are executed in the order of insertion: those of one callback, then
 * those of the next. If several syscall_t, of one plugin or several, have the same system call,
 * they come in the order in which they were started. The command's own sessions (`jifl count` and
 * others) come before all of them.
 */

/* --- histograms -------------------------------------------------------------------------- */

/*
 * Counts of values by powers of two, like bpftrace's hist(): bucket 0 counts the value 0, bucket n
 * values from 2^(n - 1) to 2^n - 1. The last bucket counts all larger values, too. Values have no
 * sign: with HIST_BUCKETS_MAX buckets, bucket 64 has negative values, for example a system call's
 * errors.
 *
 * Each CPU has cells of its own, and one instruction counts in a cell. So interrupts and other CPUs
 * lose no count. No function is called; docs/performance.md says what it costs.
 */
#define HIST_BUCKETS_MAX 65

typedef struct jifl_hist {
	u64 __percpu *buckets;
	unsigned int nbuckets;
} hist_t;

/*
 * DEFINE_HIST(name, n): a static hist_t of n buckets, from 2 to HIST_BUCKETS_MAX. They are in the
 * static per-CPU data of the plugin. The kernel has 8 KiB of these for all modules together; it
 * does not load a module for which there is no room.
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
 * The count of a bucket on all CPUs; 0 if h has no such bucket. Any context. While code counts in
 * h, buckets that are read one after the other may be of different moments.
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

/* Sets all counts to 0. Any context, while no code counts in h. */
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
 * int target_insert_hist(target_point_t *point, hist_t *h, int value, ...)
 * int ins_insert_hist(ins_t *ins, enum jifl_ipoint where, hist_t *h, int value, ...)
 *
 * Count a value (enum jifl_value) in h, at the same place and time at which *_insert_call calls its
 * function. After the value comes a condition, if there is one, then ARG_END:
 *
 *	syscall_insert_hist(point, &sizes, VALUE_ARG2, ARG_END);
 *	syscall_insert_hist(point, &sizes_of_3, VALUE_ARG2,
 *			    IF_EQUAL, VALUE_ARG0, ARG_INT32, 3, ARG_END);
 *
 * h must exist until instrumentation has been stopped.
 */
#define syscall_insert_hist(point, ...) \
	jifl_insert_hist(&jifl_this_plugin, jifl_place_point(point), __VA_ARGS__)
#define target_insert_hist(point, ...) syscall_insert_hist(point, __VA_ARGS__)
#define routine_insert_hist(routine, ...) \
	jifl_insert_hist(&jifl_this_plugin, jifl_place_routine(routine), __VA_ARGS__)
#define bb_insert_hist(bb, ...) \
	jifl_insert_hist(&jifl_this_plugin, jifl_place_bb(bb), __VA_ARGS__)
#define ins_insert_hist(ins, where, ...) \
	jifl_insert_hist(&jifl_this_plugin, jifl_place_ins(ins, where), __VA_ARGS__)

/* --- entry and exit -------------------------------------------------------------------- */

/*
 * int syscall_nr(syscall_point_t *point)
 *
 * The number of the system call; -EPERM for a stale handle; -EINVAL: it is a function's point.
 */
#define syscall_nr(point)	jifl_syscall_nr(&jifl_this_plugin, point)

/*
 * unsigned long target_address(target_point_t *point)
 *
 * The address where the function begins, or the system call's handler; 0 for a stale handle.
 */
#define target_address(point)	jifl_point_address(&jifl_this_plugin, point)

/*
 * int syscall_insert_call(syscall_point_t *point, void *fn, ...)
 * int target_insert_call(target_point_t *point, void *fn, ...)
 *
 * Calls fn each time the system call or the function is entered, or returns, by the kind of the
 * point. A call has no exit if it never returns (exit), if instrumentation ends meanwhile, also
 * that of another session that has the call, or if the code cache is emptied; a function's call has
 * none either if the kernel changes its code meanwhile. Do not rely on pairs. Each point has room
 * for 4 insertions.
 */
#define syscall_insert_call(point, ...) \
	jifl_insert_call(&jifl_this_plugin, jifl_place_point(point), __VA_ARGS__)
#define target_insert_call(point, ...) syscall_insert_call(point, __VA_ARGS__)

/* --- routines ---------------------------------------------------------------------------- */

/*
 * unsigned long routine_address(routine_t *routine)
 *
 * The address at which the routine begins; 0 if routine is no handle of a routine. Any context but
 * NMI. Valid after the callback, too, so a plugin can keep the handle. The address must not be
 * shown to users.
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
 * Call fn, or count a value, each time the routine is left: before it returns, and before it jumps
 * to another routine, which then returns in its place (a tail call). A tail call has no return
 * value yet, so insertions with VALUE_RETVAL are executed at returns only.
 *
 * Called from the routine's callback. After that has asked for exits once, it is called anew for
 * each block in which the routine is left. It can insert the same each time: insertions for the
 * beginning are made only there. A routine is the code between two symbols. A part that gcc has
 * split off as NAME.cold counts as a routine of its own, which is never tail-called. Exits in code
 * that runs natively are not seen: `jifl status` says how much code does.
 */
#define routine_insert_exit_call(routine, ...) \
	jifl_insert_call(&jifl_this_plugin, jifl_place_exit(routine), __VA_ARGS__)
#define routine_insert_exit_hist(routine, ...) \
	jifl_insert_hist(&jifl_this_plugin, jifl_place_exit(routine), __VA_ARGS__)

/*
 * int routine_name(routine_t *routine, char *name, size_t size)
 * int routine_module(routine_t *routine, char *name, size_t size)
 *
 * The name of the routine, and of its module, which is empty for the kernel's own code. Names are
 * cut to size; MAX_NAME_SIZE is always enough. Each takes some microseconds. Valid after the
 * callback, too, like routine_address(), in the contexts of symbol_name(). That function names any
 * address, like printk's %ps.
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
 * The number of the kernel's instructions in the block, or -EPERM. Includes the instructions of a
 * mitigated branch or return that the block executes itself.
 */
#define bb_size(bb)		jifl_bb_size(&jifl_this_plugin, bb)

/*
 * unsigned long bb_address(bb_t *bb)
 *
 * The address of the block's first instruction; 0 for a stale handle.
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
 * The kind of instruction (jifl_ins.h): a class, or, for conditional jumps, direct jumps and calls,
 * returns and cmpxchg, the instruction itself. ins_other for a stale handle, and for NULL, which is
 * past an end of a block.
 *
 * ins_jcc is any conditional jump: ins_type(ins) == ins_jcc for each. It cannot be a constant,
 * because no constant equals both ins_je and ins_jne. It is the ins_type() of the conditional jump
 * that ends the callback's block. If the block ends otherwise, it is a value that ins_type()
 * returns for no instruction. So it cannot be used with `case`, and only in callbacks of routines,
 * blocks and instructions.
 */
#define ins_type(ins)		jifl_ins_type(&jifl_this_plugin, ins)
#define ins_jcc			jifl_ins_jcc(&jifl_this_plugin)

/*
 * unsigned long ins_address(ins_t *ins)
 *
 * The instruction's address; 0 for a stale handle.
 */
#define ins_address(ins)	jifl_ins_address(&jifl_this_plugin, ins)

/*
 * unsigned long ins_target(ins_t *ins)
 *
 * The target of a direct jump or call, conditional or not; 0 for other instructions.
 */
#define ins_target(ins)		jifl_ins_target(&jifl_this_plugin, ins)

/*
 * unsigned int ins_properties(ins_t *ins)
 *
 * Bits of enum jifl_ins_property: atomic, repeats, loads, stores. 0 for a stale handle.
 */
#define ins_properties(ins)	jifl_ins_properties(&jifl_this_plugin, ins)

/*
 * bool ins_lock_prefix(ins_t *ins)
 * bool ins_branch_hint(ins_t *ins)
 * bool ins_bnt_prefix(ins_t *ins)
 *
 * True if the instruction has a lock prefix; if it is a conditional jump with a prefix that hints
 * which way it mostly goes; if this hint is "branch not taken". Compilers no longer make such
 * hints. False for a stale handle.
 */
#define ins_lock_prefix(ins)	jifl_ins_lock_prefix(&jifl_this_plugin, ins)
#define ins_branch_hint(ins)	jifl_ins_branch_hint(&jifl_this_plugin, ins)
#define ins_bnt_prefix(ins)	jifl_ins_bnt_prefix(&jifl_this_plugin, ins)

/*
 * bool ins_reads_reg(ins_t *ins, int reg), bool ins_writes_reg(ins_t *ins, int reg)
 *
 * True if the instruction reads, or writes, any part of a register, VALUE_RAX to VALUE_R15.
 * Registers in addresses count, and registers that the instruction uses without naming them, such
 * as rcx in string instructions.
 */
#define ins_reads_reg(ins, reg)	 jifl_ins_reads_reg(&jifl_this_plugin, ins, reg)
#define ins_writes_reg(ins, reg) jifl_ins_writes_reg(&jifl_this_plugin, ins, reg)

/*
 * int ins_memory_operands(ins_t *ins, struct ins_memory *operands, int max)
 *
 * Fills in the instruction's operands in memory, at most max, and returns their number. An
 * instruction has at most two (a string move). The stack of push, pop, call and ret is no operand.
 * Of bt, bts, btr and btc with the bit's number in a register it is the first word of the bits:
 * another one may be accessed, and ARG_MEMORY_ADDRESS is refused.
 */
#define ins_memory_operands(ins, operands, max) \
	jifl_ins_memory_operands(&jifl_this_plugin, ins, operands, max)

enum jifl_ipoint {
	IPOINT_BEFORE,		/* right before the instruction */
	IPOINT_AFTER,		/* right after it; not for one that branches */
	IPOINT_TAKEN,		/* of a conditional jump: when it jumps */
	IPOINT_NOT_TAKEN,	/* of a conditional jump: when it does not jump */
};

/*
 * int ins_insert_call(ins_t *ins, enum jifl_ipoint where, void *fn, ...)
 *
 * Calls fn each time before or after the instruction is executed. -EINVAL: IPOINT_AFTER on a jump,
 * call or return; IPOINT_TAKEN or IPOINT_NOT_TAKEN on anything but a conditional jump.
 */
#define ins_insert_call(ins, where, ...) \
	jifl_insert_call(&jifl_this_plugin, jifl_place_ins(ins, where), __VA_ARGS__)

/*
 * int ins_insert_bt_call(ins_t *ins, void *fn, ...)
 * int ins_insert_bnt_call(ins_t *ins, void *fn, ...)
 *
 * ins_insert_call with IPOINT_TAKEN, and with IPOINT_NOT_TAKEN.
 */
#define ins_insert_bt_call(ins, ...)  ins_insert_call(ins, IPOINT_TAKEN, __VA_ARGS__)
#define ins_insert_bnt_call(ins, ...) ins_insert_call(ins, IPOINT_NOT_TAKEN, __VA_ARGS__)

/* --- symbols -------------------------------------------------------------------------------- */

/*
 * int symbol_name(unsigned long address, char *name, size_t size)
 * int symbol_module(unsigned long address, char *name, size_t size)
 *
 * The name of the kernel's symbol at the address, without offset; and the name of its module, which
 * is empty for the kernel's own code. Names are cut to size. Process context and callbacks, where
 * each takes some microseconds. Analysis functions should keep addresses instead, because names
 * also take a kilobyte of the stack. A module's names are lost with the module: the last time to
 * ask for them is its going event (syscall_add_module_callback).
 * Errors: -ENOENT: the address is in no symbol; the name is the address then; -EINVAL: no room for
 * a name.
 */
#define symbol_name(address, name, size) \
	jifl_symbol_name(&jifl_this_plugin, address, name, size)
#define symbol_module(address, name, size) \
	jifl_symbol_module(&jifl_this_plugin, address, name, size)

/*
 * unsigned long symbol_start(unsigned long address)
 *
 * The address of the symbol at the address; 0 if there is none. Any context but NMI.
 */
#define symbol_start(address)	jifl_symbol_start(address)

/*
 * unsigned long symbol_address(const char *name)
 *
 * The address of the first symbol with this name; 0 if there is none. Process context (otherwise it
 * returns 0 and writes a line to the log). It may take some milliseconds.
 */
#define symbol_address(name)	jifl_symbol_address(&jifl_this_plugin, name)

/* --- functions behind the names above: not for plugins -------------------------------- */

#define JIFL_PLUGIN_ABI	7

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
	struct list_head targets;	/* of target_t */
	struct list_head stores;	/* of struct jifl_store */
	struct list_head probes;	/* of struct jifl_probe_group */
	unsigned int state;
	bool complained;
	bool expelled;			/* went on inserting without room */
	bool told;			/* the log has a line about that */
};

int jifl_plugin_register(struct jifl_plugin *p);
void jifl_plugin_unregister(struct jifl_plugin *p);

int jifl_syscall_init(struct jifl_plugin *p, syscall_t *s, int nr);
int jifl_syscall_init_all(struct jifl_plugin *p, syscall_t *s);
int jifl_target_init(struct jifl_plugin *p, target_t *t, const char *target);
int jifl_target_init_address(struct jifl_plugin *p, target_t *t, unsigned long address);
int jifl_add_callback(struct jifl_plugin *p, target_t *t,
		      enum jifl_callback_kind kind, void *fn, void *arg);
int jifl_plugin_target_start(struct jifl_plugin *p, target_t *t);
int jifl_plugin_target_stop(struct jifl_plugin *p, target_t *t);
u64 jifl_target_missed(struct jifl_plugin *p, target_t *t);

int jifl_syscall_nr(struct jifl_plugin *p, syscall_point_t *point);
unsigned long jifl_point_address(struct jifl_plugin *p, target_point_t *point);
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

/* Inline functions, so that the compiler refuses a handle of the wrong type. */
static inline struct jifl_place jifl_place_point(target_point_t *point)
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

/* Inline functions, so that the compiler refuses a callback of the wrong type. */
static inline int jifl_add_point_callback(struct jifl_plugin *p, target_t *s,
					  enum jifl_callback_kind kind,
					  target_callback fn, void *arg)
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
 * plugin_init and plugin_start return int or void, which only their definitions tell. So each macro
 * also defines a function of a known type that calls the definition.
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
