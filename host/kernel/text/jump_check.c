// SPDX-License-Identifier: GPL-2.0
/*
 * Where a jump may replace the first instructions of a function. The jump is one instruction, so
 * nothing may lead between the replaced ones, and each of them must do the same in the gate.
 *
 * 1. The instructions follow each other, from the first one of the function on: no branch, call or
 *    return is among them, and nothing that the engine does not copy. So the way through them is
 *    straight, and no call returns between them. They do not fault: no entry of the exception table
 *    is about one of them. A fault without an entry ends the kernel's run in any case.
 * 2. No direct branch leads between them. In the function itself each instruction is looked at, as
 *    it is beneath breakpoints of the module's own. A kprobe of somebody else's hides one: a
 *    function that has such a kprobe is refused.
 *    Elsewhere in the same text, each byte is taken for the beginning of a branch with an offset
 *    of four bytes: that finds all of them without knowing where instructions begin. An int3 may
 *    be a breakpoint on a branch, so it is taken for one. Branches with an offset of one byte
 *    between two symbols are not looked for. Of 453,300 branches in the core text of Linux 6.1 and
 *    526,847 of 6.12 three lead so into the first bytes of a symbol: from and to labels of
 *    assembly that have no jump (the start of a processor, ftrace's end, entry text).
 * 3. No jump label leads between them when its key is the other way than now, and no fixup of an
 *    exception.
 * 4. No indirect jump of the function leads between them: a function that has one is refused. An
 *    indirect branch of another function leads to the beginning of a function, behind its site, or
 *    back.
 * 5. The kernel changes none of them. It could where it has jump labels (step 3), static calls,
 *    alternatives that may change again, warnings, which step 1 leaves out, or sites of ftrace: if
 *    the function has one, the jump stands behind it. Nor is there a kprobe, or text where probes
 *    are forbidden.
 * 6. It is a function that is called: [rsp] is a return address there, which the stub may hook.
 *    Labels of assembly are symbols, too, and may be jumped to with words pushed.
 *
 * Who calls the function comes to the jump. Does anything else? It may be a loop that leads back to
 * the first instruction, or to the one behind a site: the function itself is looked at, its part
 * that a compiler has put aside, jump labels and fixups. A jump from another function is a tail
 * call, and so one. Trampolines of BPF come back to what is behind the site, or call it once: that
 * is the call for which they were called.
 *
 * The kernel's own jumps in place (kernel/kprobes.c, arch/x86/kernel/kprobes/opt.c) rest on 1, the
 * first half of 2, 4 and 5.
 *
 * Context: process, sleeps; under jump.c's mutex.
 */
#include <linux/extable.h>
#include <linux/jump_label.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <asm/extable.h>
#include <asm/ibt.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../compat/import.h"
#include "../compat/ksym.h"
#include "../search.h"
#include "blacklist.h"
#include "jump.h"
#include "overlay.h"
#include "poke.h"

/* Bytes of a function before the jump: an endbr64, and a site. */
#define BEFORE_JUMP_MAX	(ENDBR_INSN_SIZE + CALL_INSN_SIZE)

#define OPCODE_STI	0xfb
#define PREFIX_LOCK	0xf0

/* Jumps that are asked for together, by address, and the bytes between the lowest and the last. */
struct asked {
	struct jifl_jump **jumps;
	u32 n;
	unsigned long low, span;
	unsigned long *near;	/* a bit for each 64 bytes: a jump is there; NULL: no memory */
};

/* --- the function itself -------------------------------------------------------------------- */

static void decode(unsigned long addr, struct ir_insn *insn)
{
	const unsigned long cookie = jifl_host_lock();

	jifl_engine_insn(jifl_orig_at(addr), insn);
	jifl_host_unlock(cookie);
}

/* Step 1. */
static bool can_move(const struct ir_insn *insn)
{
	if (insn->kind != IR_PLAIN && insn->kind != IR_NOP)
		return false;
	/* Something leads to an endbr64 indirectly. */
	if (insn->len == ENDBR_INSN_SIZE && is_endbr(*(const u32 *)insn->bytes))
		return false;
	/* The interrupts that an sti holds back would come at the int3 of the gate. */
	return insn->len && insn->bytes[0] != OPCODE_STI && insn->bytes[0] != PREFIX_LOCK;
}

/* Does a kprobe of somebody else's hide the instruction? */
static bool is_hidden(unsigned long addr)
{
	bool hidden;
	u8 byte;

	preempt_disable();
	hidden = jifl_overlay_has(addr) && !jifl_overlay_is_own(addr, &byte);
	preempt_enable();
	return hidden;
}

/* Does what leads to `to` come to the jump, straight or by what stands before it? */
static bool leads_to(const struct jifl_jump *j, unsigned long to)
{
	return to >= j->function && to <= j->begin;
}

/* Steps 2 and 4, for the function that ends there. Notes whether it loops. */
static bool leads_between(struct jifl_jump *j, unsigned long end)
{
	unsigned long addr = j->begin + j->len;
	struct ir_insn insn;

	for (; addr < end; addr += insn.len) {
		decode(addr, &insn);
		/* What is not known may lead anywhere. */
		if (!insn.len || insn.kind == IR_JMP_IND || is_hidden(addr))
			return true;
		if (insn.kind >= IR_JMP && insn.kind <= IR_CALL &&
		    insn.target.v > j->begin && insn.target.v < j->begin + j->len)
			return true;
		if (insn.kind >= IR_JMP && insn.kind < IR_CALL && leads_to(j, insn.target.v))
			j->looped = true;
		cond_resched();
	}
	return false;
}

unsigned long jifl_jump_begin(unsigned long function)
{
	const unsigned long site = jifl_ksym_fentry(function);

	if (site)
		return site + CALL_INSN_SIZE;
	return function + (is_endbr(*(u32 *)function) ? ENDBR_INSN_SIZE : 0);
}

bool jifl_jump_learn(struct jifl_jump *j, unsigned long function)
{
	const unsigned long end = jifl_ksym_end(function);
	struct ir_insn insn;
	u32 at = 0;

	j->begin = jifl_jump_begin(function);
	if (!jifl_compat_is_called(j->begin))
		return false;
	j->looped = false;
	j->function = function;
	for (j->n = 0; at < JMP32_INSN_SIZE; j->n++) {
		decode(j->begin + at, &insn);
		if (!can_move(&insn) || at + insn.len > JIFL_JUMP_MAX ||
		    j->begin + at + insn.len > end)
			return false;
		memcpy(j->old + at, insn.bytes, insn.len);
		j->from[j->n] = at;
		at += insn.len;
	}
	j->from[j->n] = at;
	j->len = at;
	/* What was decoded is what stands there: nobody has a breakpoint of his own there. */
	return !memcmp((void *)j->begin, j->old, at) &&
	       (!leads_between(j, end) || JIFL_HOST_PLANTED(jumps_unchecked));
}

/* --- the rest of the text --------------------------------------------------------------------- */

enum lead {
	LEAD_CALL,		/* a call may lead to the first instruction */
	LEAD_JUMP,		/* so may a jump, as a tail call, but not from its own part */
	LEAD_LOOP,		/* what leads there is no call */
	LEAD_NEVER,		/* it may not be led to, nor may the first one */
};

/* Is what stands there a branch out of a part of a function that a compiler has put aside? */
static bool is_in_part(unsigned long addr)
{
	char name[KSYM_NAME_LEN];

	jifl_ksym_name(addr, name, sizeof(name));
	return strstr(name, ".cold");
}

/* So many bytes from a function's beginning on belong to its jump. */
#define JUMP_REACH	(BEFORE_JUMP_MAX + JIFL_JUMP_MAX)
#define NEAR_SHIFT	6

/* Most branches lead nowhere near a jump. */
static __always_inline bool is_near(const struct asked *a, unsigned long to)
{
	return to - a->low < a->span &&
	       (!a->near || test_bit((to - a->low) >> NEAR_SHIFT, a->near));
}

static void find_near(struct asked *a)
{
	unsigned long from, to;
	u32 i;

	a->near = JIFL_ALLOC(kvcalloc(BITS_TO_LONGS((a->span >> NEAR_SHIFT) + 1), sizeof(long),
				      GFP_KERNEL));
	for (i = 0; a->near && i < a->n; i++) {
		from = a->jumps[i]->function - a->low;
		to = min(from + JUMP_REACH, a->span);
		for (from >>= NEAR_SHIFT; from <= to >> NEAR_SHIFT; from++)
			__set_bit(from, a->near);
	}
}

/* Something at `from` leads to `to`. */
static void refuse(const struct asked *a, unsigned long from, unsigned long to, enum lead lead)
{
	u32 k;

	if (!is_near(a, to))
		return;
	/* Those that begin there, or before. */
	k = jifl_first(i, a->n, a->jumps[i]->function <= to);
	while (k-- && to - a->jumps[k]->function < JUMP_REACH) {
		struct jifl_jump *j = a->jumps[k];

		if (leads_to(j, to))
			j->looped |= lead == LEAD_LOOP ||
				     (lead == LEAD_JUMP && is_in_part(from));
		if (to - j->begin < j->len)
			j->refused |= lead == LEAD_NEVER || to != j->begin;
	}
}

/* Bytes with which the opcode of a branch with an offset of four bytes may end. */
static const bool ends_opcode[256] = {
	[CALL_INSN_OPCODE] = true,
	[JMP32_INSN_OPCODE] = true,
	[INT3_INSN_OPCODE] = true,
	[0x80 ... 0x8f] = true,		/* behind 0f */
};

/* Such a byte stands there. Is it the end of an opcode, or may it be one? */
static bool is_opcode(const u8 *p)
{
	return (*p & 0xf0) != 0x80 || p[-1] == 0x0f || p[-1] == INT3_INSN_OPCODE;
}

static void check_lead(const struct asked *a, const u8 *p)
{
	const enum lead lead = *p == CALL_INSN_OPCODE ? LEAD_CALL : LEAD_JUMP;
	unsigned long to;
	s32 rel;

	memcpy(&rel, p + 1, sizeof(rel));
	to = (unsigned long)p + CALL_INSN_SIZE + rel;
	if (is_near(a, to) && is_opcode(p))
		refuse(a, (unsigned long)p, to, lead);
}

/* There are megabytes: few instructions for each byte. */
static void check_text(const struct asked *a, unsigned long from, unsigned long end)
{
	const u8 *p = (const u8 *)from + 1, *last = (const u8 *)end - CALL_INSN_SIZE;

	while (p <= last) {
		const u8 *stop = min_t(const u8 *, p + PAGE_SIZE, last + 1);

		for (; p < stop; p++)
			if (ends_opcode[*p])
				check_lead(a, p);
		cond_resched();
	}
}

static void check_fixups(const struct asked *a, const struct exception_table_entry *x,
			 const struct exception_table_entry *end)
{
	for (; x < end; x++) {
		refuse(a, 0, (unsigned long)&x->insn + x->insn, LEAD_NEVER);
		refuse(a, 0, (unsigned long)&x->fixup + x->fixup, LEAD_LOOP);
	}
}

static void check_keys(const struct asked *a, struct jump_entry *e, const struct jump_entry *end)
{
	for (; e < end; e++) {
		refuse(a, 0, jump_entry_code(e), LEAD_NEVER);
		refuse(a, 0, jump_entry_target(e), LEAD_LOOP);
	}
}

/* static_call_text_reserved tells the same of one function, and goes through all of them for it. */
static void check_calls(const struct asked *a, const struct static_call_site *s,
			const struct static_call_site *end)
{
	for (; s < end; s++) {
		const unsigned long addr = (unsigned long)&s->addr + s->addr;

		refuse(a, 0, addr, LEAD_NEVER);
		refuse(a, 0, addr + CALL_INSN_SIZE - 1, LEAD_NEVER);
	}
}

static void check_core(const struct asked *a)
{
	const unsigned long text = jifl_ksym("_stext"), end = jifl_ksym("_etext");
	void *fixups = (void *)jifl_ksym("__start___ex_table");
	void *last_fixup = (void *)jifl_ksym("__stop___ex_table");
	void *keys = (void *)jifl_ksym("__start___jump_table");
	void *last_key = (void *)jifl_ksym("__stop___jump_table");
	void *calls = (void *)jifl_ksym("__start_static_call_sites");
	void *last_call = (void *)jifl_ksym("__stop_static_call_sites");
	u32 i;

	if (!text || !end || !fixups || !last_fixup || !keys || !last_key || !calls || !last_call) {
		for (i = 0; i < a->n; i++)
			a->jumps[i]->refused = true;
		return;
	}
	check_calls(a, calls, last_call);
	if (JIFL_HOST_PLANTED(jumps_unchecked))
		return;
	check_text(a, text, end);
	check_fixups(a, fixups, last_fixup);
	check_keys(a, keys, last_key);
}

/* The targets of the jumps hold their modules. */
static void check_module(const struct asked *a, const struct module *mod)
{
	unsigned long base, size;

	check_calls(a, mod->static_call_sites, mod->static_call_sites + mod->num_static_call_sites);
	if (JIFL_HOST_PLANTED(jumps_unchecked))
		return;
	jifl_compat_module_text(mod, &base, &size);
	check_text(a, base, base + size);
	check_fixups(a, mod->extable, mod->extable + mod->num_exentries);
	check_keys(a, mod->jump_entries, mod->jump_entries + mod->num_jump_entries);
}

static const struct module *module_of(const struct jifl_jump *j)
{
	const struct module *mod;

	preempt_disable();
	mod = jifl_import(__module_address)(j->begin);
	preempt_enable();
	return mod;
}

/* Those of one module, or of the kernel itself, stand first. Returns how many they are. */
static u32 gather(struct jifl_jump **jumps, u32 n)
{
	const struct module *mod = module_of(jumps[0]);
	u32 i, k = 1;

	for (i = 1; i < n; i++)
		if (module_of(jumps[i]) == mod) {
			swap(jumps[i], jumps[k]);
			k++;
		}
	return k;
}

static int compare(const void *a, const void *b)
{
	const struct jifl_jump *x = *(struct jifl_jump *const *)a;
	const struct jifl_jump *y = *(struct jifl_jump *const *)b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void check_alike(struct jifl_jump **jumps, u32 n)
{
	struct asked a = { .jumps = jumps, .n = n };
	const struct module *mod = module_of(jumps[0]);

	sort(jumps, n, sizeof(*jumps), compare, NULL);
	a.low = jumps[0]->function;
	a.span = jumps[n - 1]->begin + JIFL_JUMP_MAX - a.low;
	find_near(&a);
	if (mod)
		check_module(&a, mod);
	else
		check_core(&a);
	kvfree(a.near);
}

/* --- what the kernel changes ------------------------------------------------------------------ */

static bool has_kprobe(const struct jifl_jump *j)
{
	bool found = false;
	u32 i;

	preempt_disable();
	for (i = 0; i < j->len; i++)
		found |= jifl_import(get_kprobe)((void *)(j->begin + i)) != NULL;
	preempt_enable();
	return found;
}

static bool is_blacklisted(unsigned long addr)
{
	unsigned long flags;
	bool is;

	local_irq_save(flags);
	is = jifl_blacklist_has(addr);
	local_irq_restore(flags);
	return is;
}

/* Step 5. The kernel's list of modules with alternatives is under text_mutex. */
static void check_reserved(struct jifl_jump **jumps, u32 n)
{
	u32 i;

	jifl_poke_lock();
	for (i = 0; i < n; i++) {
		void *first = (void *)jumps[i]->begin, *last = first + jumps[i]->len - 1;

		jumps[i]->refused |= has_kprobe(jumps[i]) || is_blacklisted(jumps[i]->begin) ||
				     jifl_import(alternatives_text_reserved)(first, last);
		cond_resched();
	}
	jifl_poke_unlock();
}

void jifl_jumps_check(struct jifl_jump **jumps, u32 n)
{
	u32 i, k;

	for (i = 0; i < n; i += k) {
		k = gather(jumps + i, n - i);
		check_alike(jumps + i, k);
	}
	check_reserved(jumps, n);
}
