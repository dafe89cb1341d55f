// SPDX-License-Identifier: GPL-2.0
/*
 * Which places there may be: in the function of their target, and not in what the handler of
 * breakpoints calls. set.c refuses what the kernel refuses. Context: process, sleeps.
 */
#include <linux/irqflags.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/static_call_types.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/ibt.h>
#include <asm/text-patching.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/compat.h"
#include "../../compat/import.h"
#include "../../compat/ksym.h"
#include "../../search.h"
#include "../../call/program.h"
#include "../../call/tool.h"
#include "../../call/whose.h"
#include "../../enter/function.h"
#include "../../enter/target.h"
#include "front.h"
#include "probe.h"

/*
 * Functions that are called where the handler translates: the engine asks what text stands at an
 * address, and whose. Patterns as jifl_function_is_among has them. Functions that cannot be targets
 * are not listed (enter/function_refuse.c).
 */
static const char *const jifl_probe_own[] = {
	"__module_address", "mod_find", "is_ftrace_trampoline", "copy_from_kernel_nofault*",
	"kallsyms_*", "get_symbol_pos", "cleanup_symbol_name", "module_address_lookup",
	"find_kallsyms_symbol*", "__bpf_address_lookup", "bpf_address_lookup", "lookup_rec",
	"bsearch", "sprint_symbol*", "__sprint_symbol*", "sprintf", "snprintf", "vsprintf",
	"vsnprintf", "format_decode", "string", "string_nocheck", "number", "put_dec*",
	"strscpy", "sized_strscpy", "strncpy", "strlen", "strnlen", "strcmp", "strncmp", "strstr", "strchr",
	"strchrnul", "memcmp", "memchr", "memcpy", "memmove", "memset",
	/* What programs read and write with. */
	"copy_from_user_nofault", "copy_user_*", "rep_movs_alternative", "__check_object_size",
	"check_heap_object", "check_stack_object", "is_vmalloc_addr", "__virt_addr_valid",
	"nmi_uaccess_okay", "search_extable", "search_module_extables", "search_bpf_extables",
	"ex_handler_*", "unwind_*", "__unwind_start", "get_stack_info*", "orc_*", "__orc_find",
	"stack_access_ok", "deref_stack_*", "core_kernel_text", "is_module_text_address",
	"__module_text_address", "is_bpf_text_address", "bpf_ksym_*", "ftrace_graph_ret_addr",
	"sched_clock*", "local_clock*",
	/* Around the chain of those who are asked about an int3: a breakpoint there has no end. */
	"__rcu_read_*", "rcu_read_unlock_special",
	/* With the first of these clocks: it spins for a lock that the probed code may hold. */
	"read_hpet", "ktime_get_mono_fast_ns", "read_tsc", "kvm_clock_*", "pvclock_*",
};

static bool jifl_probe_is_own(unsigned long begin)
{
	return jifl_function_is_among(begin, jifl_probe_own, ARRAY_SIZE(jifl_probe_own));
}

/* The session holds the module of its function. That of the same name elsewhere may go. */
static bool jifl_probe_same_module(unsigned long a, unsigned long b)
{
	bool same;

	preempt_disable();
	same = jifl_import(__module_address)(a) == jifl_import(__module_address)(b);
	preempt_enable();
	return same || JIFL_HOST_PLANTED(parts_by_name);
}

/* Is a function the target's, or what the compiler has put aside of that (NAME.cold)? */
static bool jifl_probe_is_part(const struct jifl_target *t, unsigned long start)
{
	char own[KSYM_NAME_LEN], other[KSYM_NAME_LEN];
	size_t n;

	if (start == t->id)
		return true;
	if (!start || !jifl_probe_same_module(start, t->id))
		return false;
	jifl_ksym_name(t->id, own, sizeof(own));
	jifl_ksym_name(start, other, sizeof(other));
	n = strlen(own);
	return !strncmp(own, other, n) && !strncmp(other + n, ".cold", 5);
}

static bool jifl_probe_is_endbr(unsigned long address)
{
	u32 insn;

	return !copy_from_kernel_nofault(&insn, (void *)address, sizeof(insn)) &&
	       jifl_compat_is_endbr(insn);
}

/*
 * What the kernel itself changes in its own text: the tables of static keys and of static calls.
 * All of them NULL: the kernel does not name them.
 */
static const struct jump_entry *jifl_keys, *jifl_keys_end;
static const struct static_call_site *jifl_static_calls, *jifl_static_calls_end;

void jifl_probe_find_kernels(void)
{
	const unsigned long keys = jifl_ksym("__start___jump_table");
	const unsigned long keys_end = jifl_ksym("__stop___jump_table");
	const unsigned long calls = jifl_ksym("__start_static_call_sites");
	const unsigned long calls_end = jifl_ksym("__stop_static_call_sites");

	if (!keys || !keys_end || !calls || !calls_end)
		return;
	jifl_keys = (void *)keys;
	jifl_keys_end = (void *)keys_end;
	jifl_static_calls = (void *)calls;
	jifl_static_calls_end = (void *)calls_end;
}

/* Refuses the session's places at this address. */
static void jifl_probe_refuse_at(struct jifl_session *s, unsigned long address)
{
	u32 k = jifl_first(i, s->nsplices, s->splices[i].address < address);

	for (; k < s->nsplices && s->splices[k].address == address; k++)
		if (!s->splices[k].refused)
			s->splices[k].refused = JIFL_SPLICE_OWNED;
}

/* Those in these tables, of the kernel itself, or of a module whose text is still there. */
static void jifl_probe_refuse_tables(struct jifl_session *s, const struct module *mod,
				     const struct jump_entry *key,
				     const struct jump_entry *keys_end,
				     const struct static_call_site *call,
				     const struct static_call_site *calls_end)
{
	/* What a module had for its beginning is gone, and what is there now is another's. */
	for (; key < keys_end; key++)
		if (!mod || within_module_core(jump_entry_code(key), mod))
			jifl_probe_refuse_at(s, jump_entry_code(key));
	for (; call < calls_end; call++) {
		const unsigned long at = (unsigned long)&call->addr + call->addr;

		if (!mod || within_module_core(at, mod))
			jifl_probe_refuse_at(s, at);
	}
}

static void jifl_probe_refuse_module(struct jifl_session *s, const struct module *mod)
{
	const struct static_call_site *calls = NULL;
	const struct jump_entry *keys = NULL;
	unsigned int nkeys = 0, ncalls = 0;

#ifdef CONFIG_JUMP_LABEL
	keys = mod->jump_entries;
	nkeys = mod->num_jump_entries;
#endif
#ifdef CONFIG_HAVE_STATIC_CALL_INLINE
	calls = mod->static_call_sites;
	ncalls = mod->num_static_call_sites;
#endif
	jifl_probe_refuse_tables(s, mod, keys, keys + nkeys, calls, calls + ncalls);
}

void jifl_probe_refuse_kernels(struct jifl_session *s)
{
	const struct module *last = NULL;
	struct jifl_aim *aim;
	u32 i;

	if (!jifl_keys)
		return;
	jifl_probe_refuse_tables(s, NULL, jifl_keys, jifl_keys_end, jifl_static_calls,
				 jifl_static_calls_end);
	/* A target holds its module. Functions of one mostly come one after the other. */
	for_each_aim(aim, s, i) {
		if (aim->target->module && aim->target->module != last &&
		    !JIFL_HOST_PLANTED(keys_of_modules_missed))
			jifl_probe_refuse_module(s, aim->target->module);
		last = aim->target->module ?: last;
	}
}

/*
 * Where the kernel does not name its tables: is an instruction in these bytes in one of them? As
 * register_kprobe asks, which looks through all tables, and decodes what stands at each entry.
 */
static bool jifl_probe_is_kernels(unsigned long from, unsigned long last)
{
	return jifl_import(jump_label_text_reserved)((void *)from, (void *)last) ||
	       jifl_import(static_call_text_reserved)((void *)from, (void *)last);
}

/*
 * Finds what all places of a part have in common. The names of functions, and the kernel's lists of
 * what it changes, are too long to be looked through for each of some thousand places.
 */
static void jifl_probe_find_part(struct jifl_probe_part *part, const struct jifl_aim *aim,
				 unsigned long address)
{
	unsigned long flags, size = 0;

	if (part->aim == aim && address - part->begin < part->size)
		return;
	*part = (struct jifl_probe_part){ .aim = aim };
	local_irq_save(flags);
	if (!jifl_ksym_range(address, &part->begin, &size))
		size = 0;
	local_irq_restore(flags);
	part->size = size;
	part->is_targets = size && jifl_probe_is_part(aim->target, part->begin);
	part->is_own = jifl_probe_is_own(aim->target->id);
	part->has_kernels = size && !jifl_keys &&
			    jifl_probe_is_kernels(part->begin, part->begin + size - 1);
}

/* The number of the place's program, from 1 on; 0: none. */
static u32 jifl_probe_program_of(const struct jifl_session *s, const struct jifl_splice *from)
{
	if (s->tool->objects)
		return from->action / JIFL_TIMES_PROGRAM;
	return s->programs ? from->action : 0;
}

enum jifl_splice_refusal jifl_probe_fill(struct jifl_session *s, const struct jifl_splice *from,
					 struct jifl_probe_place *place,
					 struct jifl_probe_part *part)
{
	struct jifl_aim *aim = jifl_aim_at(s, from->target);
	const u32 program = jifl_probe_program_of(s, from);

	if (!aim || aim->target->kind == JIFL_TARGET_SYSCALL || aim->condition)
		return JIFL_SPLICE_OUTSIDE;
	jifl_probe_find_part(part, aim, from->address);
	if (!part->is_targets)
		return JIFL_SPLICE_OUTSIDE;
	place->address = from->address;
	place->where = from->where;
	place->aim = aim;
	place->owner = s->tool_data;
	if (place->owner->works)
		place->work = &place->owner->works[place - place->owner->places];
	if (program) {
		place->work->program = &s->programs->programs[program - 1];
		place->work->front = &place->owner->fronts[program - 1];
	}
	place->skipped = from->address >= aim->target->id && from->address < aim->target->address;
	/* The kernel moves a breakpoint from there behind it (arch_adjust_kprobe_addr). */
	if (aim->target->kind != JIFL_TARGET_FUNCTION && from->address == aim->target->id &&
	    jifl_probe_is_endbr(from->address) &&
	    aim->target->address <= aim->target->id + ENDBR_INSN_SIZE)
		return JIFL_SPLICE_BOUNDARY;
	/* There are an endbr64, if the function has one, and the site. */
	if (place->skipped && from->address != aim->target->id &&
	    from->address != aim->target->address - CALL_INSN_SIZE)
		return JIFL_SPLICE_BOUNDARY;
	/* Who has the site has no piece of the module's that counts there. */
	if (place->skipped && aim->target->kind == JIFL_TARGET_NOTRACE)
		return JIFL_SPLICE_SITE;
	if (place->skipped && place->where != JIFL_SPLICE_BEFORE)
		return JIFL_SPLICE_BRANCH;
	if (place->skipped && (from->action || s->tool->calls_functions))
		return JIFL_SPLICE_ENTRY;
	/* At the door there is no breakpoint, so no handler. */
	if (!place->skipped && !JIFL_HOST_PLANTED(handlers_own_probed) && part->is_own)
		return JIFL_SPLICE_OWN;
	if (!place->skipped && part->has_kernels &&
	    jifl_probe_is_kernels(from->address, from->address))
		return JIFL_SPLICE_OWNED;
	return JIFL_SPLICE_OK;
}
