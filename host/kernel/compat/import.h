/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions of the kernel that JIFL calls although the kernel does not export them. An import
 * has the type of the kernel's own declaration. What no header for modules declares is declared
 * here.
 *
 * An import is a static call: an indirect call would need an endbr64, which the kernel removes from
 * functions whose address it never takes itself. Context: that of the function.
 */
#ifndef JIFL_HOST_IMPORT_H
#define JIFL_HOST_IMPORT_H

#include <linux/extable.h>
#include <linux/filter.h>
#include <linux/ftrace.h>
#include <linux/irqnr.h>
#include <linux/jump_label.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/rethook.h>
#include <linux/set_memory.h>
#include <linux/static_call.h>
#include <linux/task_work.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <asm/alternative.h>
#include <asm/e820/api.h>
#include <asm/text-patching.h>

/* Of one kernel's headers or another's: asm/text-patching.h, asm/alternative.h. See poke.h. */
void text_poke_bp(void *addr, const void *opcode, size_t len, const void *emulate);
void text_poke_sync(void);
void smp_text_poke_single(void *addr, const void *opcode, size_t len, const void *emulate);
void smp_text_poke_sync_each_cpu(void);
int alternatives_text_reserved(void *start, void *end);

/* kernel/trace/ftrace_internal.h */
int ftrace_ops_test(struct ftrace_ops *ops, unsigned long ip, void *regs);

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
#include <linux/execmem.h>
#define JIFL_IMPORTS_BY_VERSION(X) \
	X(NEEDED, execmem_alloc) \
	X(OPTIONAL, __vmalloc_node_range_noprof)
#else
#include <linux/moduleloader.h>
#define JIFL_IMPORTS_BY_VERSION(X) \
	X(NEEDED, module_alloc) \
	X(OPTIONAL, __vmalloc_node_range)
#endif

#if !defined(CONFIG_RETHOOK)
#define JIFL_IMPORTS_OF_RETHOOK(X)
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
#define JIFL_IMPORTS_OF_RETHOOK(X) \
	X(OPTIONAL, rethook_alloc) \
	X(OPTIONAL, rethook_free) \
	X(OPTIONAL, rethook_try_get) \
	X(OPTIONAL, rethook_recycle) \
	X(OPTIONAL, rethook_hook)
#else
#define JIFL_IMPORTS_OF_RETHOOK(X) \
	X(OPTIONAL, rethook_alloc) \
	X(OPTIONAL, rethook_add_node) \
	X(OPTIONAL, rethook_free) \
	X(OPTIONAL, rethook_try_get) \
	X(OPTIONAL, rethook_recycle) \
	X(OPTIONAL, rethook_hook)
#endif

/*
 * X(need, function). NEEDED: without the function JIFL does not load. OPTIONAL: without it calls
 * return 0.
 */
#define JIFL_IMPORTS(X) \
	X(NEEDED, kallsyms_lookup_name) \
	X(NEEDED, kallsyms_lookup) \
	X(OPTIONAL, kallsyms_lookup_size_offset) \
	X(OPTIONAL, kallsyms_on_each_symbol) \
	X(OPTIONAL, kallsyms_show_value) \
	X(OPTIONAL, ftrace_location_range) \
	X(NEEDED, is_ftrace_trampoline) \
	X(NEEDED, __module_address) \
	X(NEEDED, set_memory_ro) \
	X(NEEDED, set_memory_x) \
	X(OPTIONAL, set_memory_rw) \
	X(OPTIONAL, set_memory_nx) \
	X(NEEDED, task_work_add) \
	X(NEEDED, task_work_cancel_match) \
	X(OPTIONAL, task_call_func) \
	X(NEEDED, __get_vm_area_caller) \
	X(OPTIONAL, text_poke_bp) \
	X(OPTIONAL, smp_text_poke_single) \
	X(OPTIONAL, text_poke) \
	X(OPTIONAL, text_poke_sync) \
	X(OPTIONAL, smp_text_poke_sync_each_cpu) \
	X(OPTIONAL, text_poke_copy) \
	X(OPTIONAL, ftrace_find_rec_direct) \
	X(OPTIONAL, ftrace_ops_test) \
	X(OPTIONAL, irq_to_desc) \
	X(OPTIONAL, get_kprobe) \
	X(OPTIONAL, jump_label_text_reserved) \
	X(OPTIONAL, static_call_text_reserved) \
	X(OPTIONAL, alternatives_text_reserved) \
	X(OPTIONAL, search_exception_tables) \
	X(OPTIONAL, perf_event_text_poke) \
	X(OPTIONAL, is_bpf_text_address) \
	X(OPTIONAL, perf_event_read_local) \
	X(OPTIONAL, e820__mapped_raw_any) \
	JIFL_IMPORTS_OF_RETHOOK(X) \
	JIFL_IMPORTS_BY_VERSION(X)

enum jifl_import {
#define JIFL_IMPORT_NUMBER(need, function) JIFL_IMPORT_##function,
	JIFL_IMPORTS(JIFL_IMPORT_NUMBER)
#undef JIFL_IMPORT_NUMBER
};

#define JIFL_IMPORT_DECLARE(need, function) DECLARE_STATIC_CALL(jifl_import_##function, function);
JIFL_IMPORTS(JIFL_IMPORT_DECLARE)
#undef JIFL_IMPORT_DECLARE

/* Calls the function: jifl_import(function)(arguments). */
#define jifl_import(function)	static_call(jifl_import_##function)
/* Does the kernel have the function? After jifl_import_init; any context. */
#define jifl_imported(function)	jifl_import_has(JIFL_IMPORT_##function)
bool jifl_import_has(enum jifl_import import);

/* Finds all imports. 0, or -EOPNOTSUPP after a line in the log. After jifl_ksym_init; sleeps. */
int jifl_import_init(void);

#endif
