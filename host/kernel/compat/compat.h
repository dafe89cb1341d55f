/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Everything that differs between kernel versions. No file of the kernel host outside of this
 * folder asks for a version.
 */
#ifndef JIFL_HOST_COMPAT_H
#define JIFL_HOST_COMPAT_H

#include <linux/bpf.h>
#include <linux/mm.h>
#include <linux/types.h>
#include <linux/version.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <asm/ibt.h>

#include "current.h"

struct task_struct;
struct tracepoint;

/* --- tracepoint.c: tracepoints by their names ------------------------------ */

/* That of the kernel itself; NULL: it has none of that name. Sleeps. */
struct tracepoint *jifl_compat_tracepoint(const char *name);

/* --- memory that outlives a restart ---------------------------------------- */

/* What reserve_mem= has set aside under this name. false: nothing, or the kernel has no such. */
static inline bool jifl_compat_reserved_memory(const char *name, phys_addr_t *start,
					       phys_addr_t *size)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	return reserve_mem_find_by_name(name, start, size);
#else
	return false;
#endif
}

/* --- execmem.c: executable memory in the module area ----------------------- */

/* Finds out whether large pages can be had. After jifl_import_init. */
void jifl_compat_exec_init(void);
/*
 * Writable, not executable memory within reach of kernel text; NULL when there is none. vfree()
 * frees it, and also gives the pages' direct map its usual permissions back. Sleeps.
 */
void *jifl_compat_exec_alloc(unsigned long size);
/*
 * The same in large pages alone; NULL where the kernel gives none. size: whole large
 * pages (PMD_SIZE). Freed by jifl_compat_exec_free_large, with the same size. Both sleep.
 */
void *jifl_compat_exec_alloc_large(unsigned long size);
void jifl_compat_exec_free_large(void *mem, unsigned long size);
/* PMD_SIZE where the page tables have nothing but large pages there, else PAGE_SIZE. */
unsigned long jifl_compat_exec_page(const void *mem, unsigned long size);
/* Makes memory from either allocator executable and read-only. Sleeps. */
int jifl_compat_exec_protect(void *mem, unsigned long size);

/* --- irq_stack.c: the stacks of interrupts ------------------------------------ */

/* At load, after jifl_ksym_init. Sleeps. */
void jifl_compat_irq_stack_init(void);
/*
 * The highest word of the stack of that CPU's interrupts, IRQ_STACK_SIZE bytes; NULL: the kernel
 * does not name it. Any context.
 */
void *jifl_compat_irq_stack(unsigned int cpu);

/* --- records.c: return addresses that tracers keep for a task ----------------- */

/*
 * Calls fn on each word in which a tracer (kretprobe, fprobe, function graph) keeps a return
 * address of a task that does not run. All CPUs are stopped.
 */
void jifl_compat_visit_return_records(struct task_struct *task,
			       void (*fn)(unsigned long *word, void *arg),
			       void *arg);

/* Once, at load: finds the trampoline. 0. */
int jifl_compat_records_init(void);
/*
 * Puts return addresses that return hooks (rethook) keep back on the stack of a task that does not
 * run, and hides them again. Between the two the caller changes words on the stack and in records
 * alike. The kernel does not resolve hooked returns in walks of a task that is ready to run, and
 * Linux 6.1 warns. begin, end: the stack's words in use. All CPUs are stopped from the first to the
 * second.
 */
void jifl_compat_show_returns(struct task_struct *task, unsigned long *begin, unsigned long *end);
void jifl_compat_hide_returns(struct task_struct *task, unsigned long *begin, unsigned long *end);
/* Does the word, a return address of a task that does not run, lead to that trampoline? */
bool jifl_compat_is_hooked(const unsigned long *word);
/* Is ip in the trampoline to which hooked functions return? */
bool jifl_compat_is_returning(unsigned long ip);

/* --- orc.c: the tables for stack walks ------------------------------------------ */

/*
 * Is [rsp] a return address, and no word of a frame is above it, before the instruction at addr? So
 * it is where functions begin, but not at each label of assembly. False: it is not known.
 */
bool jifl_compat_is_called(unsigned long addr);
/*
 * The instruction at addr writes rsp, and next is the one behind it. Is rsp in the frame of the
 * same function as before? False: it is not known. Any context.
 */
bool jifl_compat_keeps_frame(unsigned long addr, unsigned long next);
/*
 * Where the return address of a function's frame is: addr is in the function, and rsp and rbp have
 * these values there. NULL: it is not known. Any context.
 */
unsigned long *jifl_compat_return_slot(unsigned long addr, unsigned long sp, unsigned long bp);
/* At load, after jifl_import_init: finds the kernel's own table. 0. */
int jifl_compat_orc_init(void);

/* --- per-CPU data ------------------------------------------------------------- */

/* The place of the current task, relative to gs. */
static inline s32 jifl_compat_current_cell(void)
{
	return (s32)(unsigned long)JIFL_CURRENT_CELL;
}

/* --- text ------------------------------------------------------------------- */

/*
 * Is the instruction an endbr64, or what the kernel has written in place of one that it does not
 * need? insn: its four bytes.
 */
static inline bool jifl_compat_is_endbr(u32 insn)
{
#ifdef CONFIG_X86_KERNEL_IBT
	return insn == gen_endbr_poison() || insn == gen_endbr();
#else
	return false;
#endif
}

/* --- BPF -------------------------------------------------------------------- */

/* May the program sleep? */
static inline bool jifl_compat_bpf_sleeps(const struct bpf_prog *prog)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
	return prog->sleepable;
#else
	return prog->aux->sleepable;
#endif
}

/* --- modules ----------------------------------------------------------------- */

/* The text that stays for a module's life, without the text of its init. */
static inline void jifl_compat_module_text(const struct module *mod,
					   unsigned long *base,
					   unsigned long *size)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	*base = (unsigned long)mod->mem[MOD_TEXT].base;
	*size = mod->mem[MOD_TEXT].size;
#else
	*base = (unsigned long)mod->core_layout.base;
	*size = mod->core_layout.text_size;
#endif
}

#endif
