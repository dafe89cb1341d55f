// SPDX-License-Identifier: GPL-2.0
/*
 * What leads to a jump in place, or between the instructions that it replaces, from the rest of the
 * text: the second half of step 2, step 3, and the static calls of step 5 in the head of
 * jump_check.c.
 *
 * Context: process, sleeps; under jump.c's mutex.
 */
#include <linux/bitmap.h>
#include <linux/extable.h>
#include <linux/jump_label.h>
#include <linux/kernel.h>
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
#include "jump.h"

/* Bytes of a function before the jump: an endbr64, and a site. */
#define BEFORE_JUMP_MAX	(ENDBR_INSN_SIZE + CALL_INSN_SIZE)

/* Jumps that are asked for together, by address, and the bytes between the lowest and the last. */
struct asked {
	struct jifl_jump **jumps;
	u32 n;
	unsigned long low, span;
	unsigned long *near;	/* a bit for each 64 bytes: a jump is there; NULL: no memory */
};

bool jifl_jump_is_led_to(const struct jifl_jump *j, unsigned long to)
{
	return to >= j->function && to <= j->begin;
}

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

		if (jifl_jump_is_led_to(j, to))
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
#define AT_ONCE	8

static void check_text(const struct asked *a, unsigned long from, unsigned long end)
{
	const u8 *p = (const u8 *)from + 1, *last = (const u8 *)end - CALL_INSN_SIZE;
	unsigned int i;

	for (; p + AT_ONCE <= last; p += AT_ONCE) {
#pragma GCC unroll 8
		for (i = 0; i < AT_ONCE; i++)
			if (ends_opcode[p[i]])
				check_lead(a, p + i);
		if (!((unsigned long)p & (PAGE_SIZE - AT_ONCE)))
			cond_resched();
	}
	for (; p <= last; p++)
		if (ends_opcode[*p])
			check_lead(a, p);
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

void jifl_jump_leads_check(struct jifl_jump **jumps, u32 n)
{
	u32 i, k;

	for (i = 0; i < n; i += k) {
		k = gather(jumps + i, n - i);
		check_alike(jumps + i, k);
	}
}
