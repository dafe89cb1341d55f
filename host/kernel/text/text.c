// SPDX-License-Identifier: GPL-2.0
/*
 * Says what stands at an address of original code: code that may be copied, a thunk, or code that
 * must run natively.
 *
 * init and exit: process context. jifl_host_classify and jifl_host_text: under the engine lock
 * with interrupts off, any context but NMI; they take no lock. Disabled interrupts keep a module's
 * text alive meanwhile: it is freed only after an RCU grace period.
 */
#include <linux/bitmap.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/uaccess.h>
#include <asm/cpufeature.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../compat/import.h"
#include "../compat/ksym.h"
#include "blacklist.h"
#include "ranges.h"
#include "replaced.h"
#include "text.h"

/*
 * Functions whose section says the wrong thing: ordinary text that must not be copied, and text of
 * other sections that may be. Compilers rename functions that they specialise, so both names are
 * looked for.
 */
static const struct {
	const char *name;
	u8 type, cause;
} specials[] = {
	/* These functions change tasks: another task's call returns from them. */
	{ "__schedule", JIFL_TEXT_NATIVE, JIFL_CAUSE_SCHEDULE },
	{ "__switch_to_asm", JIFL_TEXT_NATIVE, JIFL_CAUSE_SCHEDULE },
	{ "__switch_to", JIFL_TEXT_NATIVE, JIFL_CAUSE_SCHEDULE },
	{ "finish_task_switch", JIFL_TEXT_NATIVE, JIFL_CAUSE_SCHEDULE },
	{ "finish_task_switch.isra.0", JIFL_TEXT_NATIVE, JIFL_CAUSE_SCHEDULE },
	{ "schedule_tail", JIFL_TEXT_NATIVE, JIFL_CAUSE_SCHEDULE },
	{ "ret_from_fork", JIFL_TEXT_NATIVE, JIFL_CAUSE_SCHEDULE },
	{ "ret_from_fork_asm", JIFL_TEXT_NATIVE, JIFL_CAUSE_SCHEDULE },
	/* These functions change to another stack, or save the stack for later. */
	{ "rewind_stack_and_make_dead", JIFL_TEXT_NATIVE, JIFL_CAUSE_STACK },
	{ "do_suspend_lowlevel", JIFL_TEXT_NATIVE, JIFL_CAUSE_STACK },
	{ "swsusp_arch_suspend", JIFL_TEXT_NATIVE, JIFL_CAUSE_STACK },
	{ "restore_image", JIFL_TEXT_NATIVE, JIFL_CAUSE_STACK },
	{ "core_restore_code", JIFL_TEXT_NATIVE, JIFL_CAUSE_STACK },
	{ "relocate_kernel", JIFL_TEXT_NATIVE, JIFL_CAUSE_STACK },
	/*
	 * These functions read the return address and the words around it. A function whose fentry
	 * site calls one of them runs natively from that call on.
	 */
	{ "ftrace_caller", JIFL_TEXT_FOREIGN, JIFL_CAUSE_TRACER },
	{ "ftrace_regs_caller", JIFL_TEXT_FOREIGN, JIFL_CAUSE_TRACER },
	{ "ftrace_stub_direct_tramp", JIFL_TEXT_FOREIGN, JIFL_CAUSE_TRACER },
	/*
	 * noinstr keeps traps and tracing out of entry code. These functions are noinstr because
	 * entry code may call them, but other code calls them, too, and a copy neither traps nor
	 * traces: they are ordinary code.
	 */
	{ "__memcpy", JIFL_TEXT_CODE, JIFL_CAUSE_NONE },
	{ "memcpy_erms", JIFL_TEXT_CODE, JIFL_CAUSE_NONE },
	{ "memcpy_orig", JIFL_TEXT_CODE, JIFL_CAUSE_NONE },
	{ "__memmove", JIFL_TEXT_CODE, JIFL_CAUSE_NONE },
	{ "__memset", JIFL_TEXT_CODE, JIFL_CAUSE_NONE },
	{ "memset_erms", JIFL_TEXT_CODE, JIFL_CAUSE_NONE },
	{ "memset_orig", JIFL_TEXT_CODE, JIFL_CAUSE_NONE },
	/* Code returns to these, with a stack that lacks the return address. */
	{ "return_to_handler", JIFL_TEXT_FOREIGN, JIFL_CAUSE_TRACER },
	{ "arch_rethook_trampoline", JIFL_TEXT_FOREIGN, JIFL_CAUSE_TRACER },
	{ "__kretprobe_trampoline", JIFL_TEXT_FOREIGN, JIFL_CAUSE_TRACER },
};

static struct {
	unsigned long start, end;	/* core kernel text */
	struct text_range thunks[4];
	u32 nthunks;
	struct text_range special[ARRAY_SIZE(specials)];	/* sorted */
	u32 nspecial;
	/*
	 * A bit for each 2^PLAIN_SHIFT bytes of core text that contain nothing of the above and
	 * nothing of the blacklist: nearly all. The blacklist's part of core text is settled at
	 * boot.
	 */
	unsigned long *plain;
} text;

#define PLAIN_SHIFT	10

/* --- tables, made at load ---------------------------------------------------- */

static void add_thunks(const char *from, const char *last)
{
	struct text_range *r = &text.thunks[text.nthunks];

	r->start = jifl_ksym(from);
	r->end = jifl_ksym(last);
	if (!r->start || r->end < r->start || text.nthunks == ARRAY_SIZE(text.thunks))
		return;
	r->end = jifl_ksym_end(r->end);
	r->type = JIFL_TEXT_THUNK;
	text.nthunks++;
}

/*
 * The thunks stand in two sections that all kernels put side by side, from the first indirect
 * thunk to the default return thunk. SRSO's alias forms stand elsewhere, at addresses chosen for
 * their bits.
 */
static void find_thunks(void)
{
	add_thunks("__x86_indirect_thunk_array", "__x86_return_thunk");
	add_thunks("srso_alias_untrain_ret", "srso_alias_untrain_ret");
	add_thunks("srso_alias_safe_ret", "srso_alias_safe_ret");
	add_thunks("srso_alias_return_thunk", "srso_alias_return_thunk");
}

static void find_specials(void)
{
	struct text_range *r = text.special;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(specials); i++) {
		r->start = jifl_ksym(specials[i].name);
		if (!r->start)
			continue;
		r->end = jifl_ksym_end(r->start);
		r->type = specials[i].type;
		r->cause = specials[i].cause;
		r++;
	}
	text.nspecial = r - text.special;
	sort(text.special, text.nspecial, sizeof(*r), jifl_text_compare, NULL);
}

static void not_plain(const struct text_range *r, u32 n)
{
	unsigned long from, to;
	u32 i;

	for (i = 0; i < n; i++) {
		from = max(r[i].start, text.start);
		to = min(r[i].end, text.end);
		if (from >= to)
			continue;
		from = (from - text.start) >> PLAIN_SHIFT;
		to = (to - 1 - text.start) >> PLAIN_SHIFT;
		bitmap_clear(text.plain, from, to - from + 1);
	}
}

static int find_symbols(void)
{
	text.start = jifl_ksym("_stext");
	text.end = jifl_ksym("_etext");
	if (!text.start || !text.end) {
		pr_err("kallsyms lacks symbols that say which text may be copied: use a kernel built with CONFIG_KALLSYMS_ALL\n");
		return -EOPNOTSUPP;
	}
	return 0;
}

static int find_plain(void)
{
	unsigned long n = ((text.end - 1 - text.start) >> PLAIN_SHIFT) + 1;

	text.plain = JIFL_ALLOC(bitmap_alloc(n, GFP_KERNEL));
	if (!text.plain)
		return -ENOMEM;
	bitmap_fill(text.plain, n);
	not_plain(text.thunks, text.nthunks);
	not_plain(text.special, text.nspecial);
	jifl_blacklist_visit(not_plain);
	return 0;
}

int jifl_text_init(void)
{
	int err = find_symbols();

	if (err)
		return err;
	find_thunks();
	find_specials();
	err = jifl_blacklist_init();
	if (err)
		return err;
	err = find_plain();
	if (err)
		jifl_blacklist_exit();
	return err;
}

void jifl_text_exit(void)
{
	jifl_blacklist_exit();
	bitmap_free(text.plain);
	text.plain = NULL;
}

/* --- questions, asked by the engine --------------------------------------------- */

static enum jifl_text classify_core(unsigned long addr, enum jifl_cause *cause)
{
	const struct text_range *r;
	u32 i;

	if (test_bit((addr - text.start) >> PLAIN_SHIFT, text.plain))
		return JIFL_TEXT_CODE;
	for (i = 0; i < text.nthunks; i++) {
		if (addr >= text.thunks[i].start && addr < text.thunks[i].end)
			return JIFL_TEXT_THUNK;
	}
	r = jifl_text_find(text.special, text.nspecial, addr);
	if (r) {
		*cause = r->cause;
		return r->type;
	}
	if (jifl_blacklist_has(addr)) {
		*cause = JIFL_CAUSE_NOINSTR;
		return JIFL_TEXT_NATIVE;
	}
	return JIFL_TEXT_CODE;
}

/*
 * The end of the module text that contains addr; 0 when no live module's text does. That of this
 * module is there while it comes up, too.
 */
static unsigned long module_text_end(const struct module *mod, unsigned long addr)
{
	unsigned long base, size;

	if (!mod || (mod != THIS_MODULE && READ_ONCE(mod->state) != MODULE_STATE_LIVE))
		return 0;
	jifl_compat_module_text(mod, &base, &size);
	return addr - base < size ? base + size : 0;
}

static enum jifl_text classify_module(unsigned long addr, enum jifl_cause *cause)
{
	if (jifl_blacklist_has(addr) || jifl_blacklist_is_stale()) {
		*cause = JIFL_CAUSE_NOINSTR;
		return JIFL_TEXT_NATIVE;
	}
	return JIFL_TEXT_CODE;
}

/*
 * The kernel also makes thunks against indirect target selection at run time, in pages that no
 * list names: `jmp *reg; int3` in the upper half of a cache line.
 */
static bool is_its_thunk(unsigned long addr)
{
#ifdef X86_FEATURE_INDIRECT_THUNK_ITS
	u8 bytes[4];
	int i;

	if (!boot_cpu_has(X86_FEATURE_INDIRECT_THUNK_ITS) || !(addr & 0x20) ||
	    addr < MODULES_VADDR || addr >= MODULES_END ||
	    copy_from_kernel_nofault(bytes, (void *)addr, sizeof(bytes)))
		return false;
	i = bytes[0] == 0x41;
	return bytes[i] == 0xff && (bytes[i + 1] & 0xf8) == 0xe0 && bytes[i + 2] == 0xcc;
#else
	return false;
#endif
}

bool jifl_text_is_core(unsigned long addr)
{
	return addr >= text.start && addr < text.end;
}

enum jifl_text jifl_host_classify(jifl_orig addr, enum jifl_cause *cause)
{
	unsigned long a = addr.v;
	const struct module *mod;

	if (jifl_replaced_begins(a)) {
		*cause = JIFL_CAUSE_REPLACED;
		return JIFL_TEXT_NATIVE;
	}
	if (jifl_text_is_core(a))
		return classify_core(a, cause);

	mod = jifl_import(__module_address)(a);
	if (mod == THIS_MODULE) {
		*cause = JIFL_CAUSE_OWN;
		return JIFL_TEXT_NATIVE;
	}
	if (module_text_end(mod, a))
		return classify_module(a, cause);
	if (!mod && is_its_thunk(a))
		return JIFL_TEXT_THUNK;

	*cause = JIFL_CAUSE_FOREIGN;
	if (jifl_import(is_ftrace_trampoline)(a))
		*cause = JIFL_CAUSE_TRACER;
	return JIFL_TEXT_FOREIGN;
}

bool jifl_host_keeps_stack(jifl_orig addr, u32 len)
{
	return jifl_compat_keeps_frame(addr.v, addr.v + len);
}

/*
 * Text that is being patched is seen either as it was or with an int3 in front, because the kernel
 * changes it in steps, and each step waits for this CPU to take an interrupt.
 */
const u8 *jifl_host_text(jifl_orig addr, u32 *n)
{
	unsigned long a = addr.v;
	const struct module *mod;
	unsigned long end;

	if (jifl_text_is_core(a)) {
		end = text.end;
	} else {
		mod = jifl_import(__module_address)(a);
		end = module_text_end(mod, a);
		if (!end && !mod && is_its_thunk(a))
			end = a + 4;
	}
	*n = end ? end - a : 0;
	return (const u8 *)a;
}
