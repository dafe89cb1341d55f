// SPDX-License-Identifier: GPL-2.0
/*
 * The gates of jumps (jump.h): memory in the module's own text, so unwinders and jifl_evict know
 * it. A gate is written while no jump leads there, by text_poke_copy. Before a jump leads there,
 * jump.c has each processor drop what it has fetched.
 *
 * Before each instruction there is a byte for an int3. It is a nop while nobody has a breakpoint
 * there: the calls that the stub lets pass may be most of them, if sessions select tasks. It is the
 * whole of an instruction, so a thread executes the one or the other.
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/cpufeature.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/import.h"
#include "gates.h"
#include "jump.h"
#include "poke.h"

/* A prefix without a meaning for a jmp. The kernel itself has it there (.Lcs_prefix). */
#define PREFIX_CS	0x2e

#define OPCODE_NOP	0x90

extern char jifl_gates[];	/* gates.S */

static unsigned long gates;	/* jifl_gates; objtool follows constants into code. 0: none */
static struct jifl_jump *jumps;	/* by the number of the gate; NULL: there was none yet */

static_assert(2 * CALL_INSN_SIZE + JIFL_JUMP_INSNS + JIFL_JUMP_MAX <= JIFL_GATE_BYTES);

bool jifl_gates_open(void)
{
	if (!jifl_imported(text_poke_copy))
		return false;
#ifdef X86_FEATURE_CALL_DEPTH
	/* The return thunk of a kernel that counts calls changes flags, and so would the stub. */
	if (boot_cpu_has(X86_FEATURE_CALL_DEPTH))
		return false;
#endif
	gates = (unsigned long)jifl_gates + JIFL_GATE_BYTES;
	return true;
}

void jifl_gates_close(void)
{
	kvfree(jumps);
	jumps = NULL;
}

static unsigned long gate_of(const struct jifl_jump *j)
{
	return gates + (j - jumps) * JIFL_GATE_BYTES;
}

struct jifl_jump *jifl_gate_next(struct jifl_jump *j)
{
	for (j = j ? j + 1 : jumps; j && j < jumps + JIFL_GATES; j++)
		if (j->begin)
			return j;
	return NULL;
}

u32 jifl_gates_free(void)
{
	struct jifl_jump *j = NULL;
	u32 n = gates ? JIFL_GATES : 0;

	while ((j = jifl_gate_next(j)))
		n -= j->state != JIFL_JUMP_GOES;
	return n;
}

struct jifl_jump *jifl_gate_take(void)
{
	static u32 last;
	struct jifl_jump *made;
	u32 i;

	if (!jumps) {
		made = JIFL_ALLOC(kvcalloc(JIFL_GATES, sizeof(*jumps), GFP_KERNEL));
		/* Pairs with the acquire in jifl_gate_at. */
		smp_store_release(&jumps, made);
	}
	/* They are taken one behind the other, and given back so. */
	for (i = 0; jumps && i < JIFL_GATES; i++) {
		last = (last + 1) % JIFL_GATES;
		if (!jumps[last].begin)
			return &jumps[last];
	}
	return NULL;
}

unsigned long jifl_gate_door(const struct jifl_jump *j)
{
	return gate_of(j) + CALL_INSN_SIZE;
}

bool jifl_gate_doors(unsigned long *first, unsigned long *last)
{
	if (!gates)
		return false;
	*first = gates + CALL_INSN_SIZE;
	*last = *first + (JIFL_GATES - 1) * JIFL_GATE_BYTES;
	return true;
}

unsigned long jifl_gate_slot(const struct jifl_jump *j, u32 i)
{
	return gate_of(j) + j->slot[i];
}

struct jifl_jump *jifl_gate_at(unsigned long addr)
{
	const unsigned long offset = addr - gates;
	struct jifl_jump *j = smp_load_acquire(&jumps);

	if (!j || offset >= JIFL_GATES * JIFL_GATE_BYTES)
		return NULL;
	j += offset / JIFL_GATE_BYTES;
	return READ_ONCE(j->begin) ? j : NULL;
}

unsigned long jifl_gate_original(unsigned long addr, bool is_return)
{
	const struct jifl_jump *j = jifl_gate_at(addr);
	unsigned long offset;
	u32 i;

	if (!j)
		return addr;
	offset = addr - gate_of(j);
	/* The stub's return address: the function has not begun. */
	if (is_return && offset == CALL_INSN_SIZE)
		return j->begin + 1;
	for (i = j->n; i && j->slot[i] > offset; i--)
		;
	return j->begin + j->from[i];
}

unsigned long jifl_gate_text(unsigned long addr)
{
	const struct jifl_jump *j = jifl_gate_at(addr);
	u32 i;

	if (!j || JIFL_HOST_PLANTED(gates_returned_to))
		return addr;
	/* The jump stays for a kprobe's sake. Its other instructions are not in the text. */
	if (j->state == JIFL_JUMP_STANDS && !j->users)
		return addr == jifl_gate_slot(j, 0) ? j->begin : addr;
	if (j->state != JIFL_JUMP_GOES)
		return addr;
	for (i = 0; i <= j->n; i++)
		if (addr == jifl_gate_slot(j, i))
			return j->begin + j->from[i];
	return addr;
}

/* Writes its i-th int3, or the nop; jifl_poke_sync has all see it. Under jifl_poke_lock. */
static void arm(const struct jifl_jump *j, u32 i, bool armed)
{
	const u8 byte = armed ? INT3_INSN_OPCODE : OPCODE_NOP;

	jifl_poke(jifl_gate_slot(j, i), &byte, 1);
}

void jifl_gates_arm(const unsigned long *addresses, u32 n, bool armed)
{
	const struct jifl_jump *j;
	u32 i, k;

	jifl_poke_lock();
	for (i = 0; i < n; i++) {
		j = jifl_jump_of(addresses[i]);
		for (k = 0; j && k < j->n; k++)
			if (j->begin + j->from[k] == addresses[i])
				arm(j, k, armed);
		cond_resched();
	}
	jifl_poke_sync();
	jifl_poke_unlock();
}

/* True if `to` is in reach of a displacement that ends at `end`. */
static bool put_rel(u8 *at, unsigned long end, unsigned long to)
{
	const long rel = (long)(to - end);
	const s32 rel32 = (s32)rel;

	memcpy(at, &rel32, sizeof(rel32));
	return rel == rel32;
}

/* The i-th instruction, with its operand relative to rip as it is. */
static bool put_insn(const struct jifl_jump *j, u32 i, u8 *to, unsigned long at)
{
	const u32 len = j->from[i + 1] - j->from[i];
	const unsigned long from = j->begin + j->from[i];
	struct ir_insn insn;
	unsigned long cookie;
	s32 disp;

	memcpy(to, j->old + j->from[i], len);
	cookie = jifl_host_lock();
	jifl_engine_insn(jifl_orig_at(from), &insn);
	jifl_host_unlock(cookie);
	if (insn.len != len || memcmp(insn.bytes, to, len))
		return false;
	if (!insn.disp_at)
		return true;
	memcpy(&disp, to + insn.disp_at, sizeof(disp));
	return put_rel(to + insn.disp_at, at + len, from + len + disp);
}

bool jifl_gate_write(struct jifl_jump *j, unsigned long stub)
{
	const unsigned long gate = gate_of(j);
	u8 code[JIFL_GATE_BYTES];
	u32 at = CALL_INSN_SIZE, i;
	bool ok;

	memset(code, INT3_INSN_OPCODE, sizeof(code));
	code[0] = CALL_INSN_OPCODE;
	ok = put_rel(code + 1, gate + CALL_INSN_SIZE, stub);
	for (i = 0; i < j->n; i++) {
		j->slot[i] = at;
		code[at++] = OPCODE_NOP;
		ok &= put_insn(j, i, code + at, gate + at);
		at += j->from[i + 1] - j->from[i];
	}
	j->slot[i] = at;
	code[at] = JMP32_INSN_OPCODE;
	ok &= put_rel(code + at + 1, gate + at + JMP32_INSN_SIZE, j->begin + j->len);
	/* One instruction, however long: nothing else begins where instructions were. */
	memset(j->new, PREFIX_CS, j->len - JMP32_INSN_SIZE);
	j->new[j->len - JMP32_INSN_SIZE] = JMP32_INSN_OPCODE;
	ok &= put_rel(j->new + j->len - sizeof(s32), j->begin + j->len, gate);
	return ok && jifl_import(text_poke_copy)((void *)gate, code, sizeof(code));
}
