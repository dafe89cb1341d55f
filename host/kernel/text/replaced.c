// SPDX-License-Identifier: GPL-2.0
/*
 * Gates of replaced functions. A gate is
 *
 *	endbr64				if the kernel uses it, as entry pieces have it
 *	movabs	$counter, %r11
 *	addq	$1, %gs:(%r11)
 *	jmp	replacement
 *
 * r11 and the flags have no value where a compiled function begins. engine/emit/count.c says why
 * the count is exact.
 *
 * A gate is in the module's own text. So it stays when the code cache is emptied, and unwinders
 * know it: its stack is that of a function's first instruction. It is written while nobody can be
 * in it, by text_poke_copy. Before a door leads there, each processor has dropped what it had
 * fetched.
 *
 * A copy must not run the beginning of a replaced function: it would go on in a copy of the
 * original, without a look at the door. So the beginning is native text for the engine. A copy that
 * calls the function leaves the cache there, comes to the function's door, and returns into the
 * cache.
 */
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <asm/ibt.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/import.h"
#include "poke.h"
#include "replaced.h"
#include "replaced_gates.h"

struct jifl_replaced {
	unsigned long begin, behind;	/* 0: a free gate, or none is hidden; engine lock */
	bool used;			/* jifl_session_mutex */
};

extern char jifl_replaced_gates[];	/* replaced_gates.S */

static struct jifl_replaced replaced[JIFL_REPLACED_GATES];
static unsigned int nreplaced;	/* that are hidden; written under the engine lock */

static unsigned long gate_of(const struct jifl_replaced *r)
{
	/* Objtool follows constants into code. */
	unsigned long gates = (unsigned long)jifl_replaced_gates;

	OPTIMIZER_HIDE_VAR(gates);
	return gates + (r - replaced + 1) * JIFL_REPLACED_GATE_BYTES;
}

u64 jifl_replaced_gate(const struct jifl_replaced *r)
{
	return gate_of(r);
}

/* Nobody is in the gate. */
static bool write_text(const struct jifl_replaced *r, u8 code[JIFL_REPLACED_GATE_BYTES])
{
	return jifl_import(text_poke_copy)((void *)gate_of(r), code, JIFL_REPLACED_GATE_BYTES);
}

static bool write_gate(const struct jifl_replaced *r, u64 counter, unsigned long to)
{
	static const u8 endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	static const u8 mov_r11[] = { 0x49, 0xbb };
	static const u8 add_at_r11[] = { 0x65, 0x49, 0x83, 0x03, 0x01 };
	u8 code[JIFL_REPLACED_GATE_BYTES], *at = code;
	const unsigned long gate = gate_of(r);
	s32 rel;

	memset(code, INT3_INSN_OPCODE, sizeof(code));
	if (IS_ENABLED(CONFIG_X86_KERNEL_IBT)) {
		memcpy(at, endbr, sizeof(endbr));
		at += sizeof(endbr);
	}
	memcpy(at, mov_r11, sizeof(mov_r11));
	memcpy(at + sizeof(mov_r11), &counter, sizeof(counter));
	at += sizeof(mov_r11) + sizeof(counter);
	memcpy(at, add_at_r11, sizeof(add_at_r11));
	at += sizeof(add_at_r11);
	*at++ = JMP32_INSN_OPCODE;
	rel = (s32)(to - (gate + (at - code) + sizeof(rel)));
	memcpy(at, &rel, sizeof(rel));
	return write_text(r, code);
}

static void set_hidden(struct jifl_replaced *r, unsigned long begin, unsigned long behind)
{
	const unsigned long cookie = jifl_host_lock();

	WRITE_ONCE(nreplaced, nreplaced + !!begin - !!r->begin);
	r->begin = begin;
	r->behind = behind;
	jifl_host_unlock(cookie);
}

struct jifl_replaced *jifl_replaced_add(unsigned long begin, unsigned long behind, u64 counter,
					unsigned long to)
{
	struct jifl_replaced *r = replaced;

	if (!jifl_imported(text_poke_copy) || !jifl_poke_works())
		return ERR_PTR(-EOPNOTSUPP);
	while (r < replaced + JIFL_REPLACED_GATES && r->used)
		r++;
	if (r == replaced + JIFL_REPLACED_GATES)
		return ERR_PTR(-ENOSPC);
	if (!write_gate(r, counter, to))
		return ERR_PTR(-EOPNOTSUPP);
	jifl_poke_lock();
	jifl_poke_sync();
	jifl_poke_unlock();
	r->used = true;
	if (!JIFL_HOST_PLANTED(replaced_copied))
		set_hidden(r, begin, behind);
	return r;
}

void jifl_replaced_show(struct jifl_replaced *r)
{
	set_hidden(r, 0, 0);
}

void jifl_replaced_free(struct jifl_replaced *r)
{
	u8 code[JIFL_REPLACED_GATE_BYTES];

	/* Whoever came there by an error is seen, and does not go to text that may be gone. */
	memset(code, INT3_INSN_OPCODE, sizeof(code));
	write_text(r, code);
	r->used = false;
}

bool jifl_replaced_begins(unsigned long addr)
{
	u32 i;

	if (!READ_ONCE(nreplaced))
		return false;
	for (i = 0; i < JIFL_REPLACED_GATES; i++)
		if (addr >= replaced[i].begin && addr < replaced[i].behind)
			return true;
	return false;
}
