// SPDX-License-Identifier: GPL-2.0
/*
 * Following thunks; see thunk.h.
 *
 * A small interpreter that knows only the instructions of which thunks are made
 * (arch/x86/lib/retpoline.S). A retpoline calls over a speculation trap, overwrites its return
 * address with the register and returns. Return thunks for retbleed, SRSO and ITS call or jump
 * around before their ret. All these have one path. Any other instruction ends the walk with
 * JIFL_THUNK_UNKNOWN.
 */
#include "thunk.h"
#include "../base/plant.h"
#include "../host.h"

#define MAX_STEPS 40
#define MAX_DEPTH 20
#define NOT_A_REG 0xff

/* What the walk has pushed: a return address, or a register's value. */
struct slot {
	u64 addr;
	u8 reg;
};

struct walk {
	struct slot stack[MAX_DEPTH];
	u8 depth;
	u8 steps;
	u64 pc;
};

enum step {
	GO_ON,
	DONE_INDIRECT,
	DONE_RETURN,
	GIVE_UP,
};

static s32 imm32_at(const u8 *p)
{
	return (s32)(p[0] | p[1] << 8 | p[2] << 16 | (u32)p[3] << 24);
}

static enum step step_ret(struct walk *w, u8 *reg)
{
	struct slot *top;

	if (!w->depth)
		return DONE_RETURN;
	top = &w->stack[--w->depth];
	if (top->reg != NOT_A_REG) {
		*reg = top->reg;
		return w->depth ? GIVE_UP : DONE_INDIRECT;
	}
	w->pc = top->addr;
	return GO_ON;
}

/* jmp *reg: ff /4, with an optional REX.B */
static enum step step_jmp_reg(const u8 *b, u8 *reg)
{
	u8 rex_b = 0;

	if (b[0] == 0x3e || b[0] == 0x2e)	/* notrack; cs pads */
		b++;
	if ((b[0] & 0xf8) == 0x40)
		rex_b = (*b++ & 1) << 3;
	if (b[0] != 0xff || (b[1] & 0xf8) != 0xe0)
		return GIVE_UP;
	*reg = (b[1] & 7) | rex_b;
	return DONE_INDIRECT;
}

/* mov reg, (%rsp): 48/4c 89 modrm(00 reg 100) sib 24 */
static bool stores_reg_at_top(const u8 *b, u8 *reg)
{
	if ((b[0] != 0x48 && b[0] != 0x4c) || b[1] != 0x89 || (b[2] & 0xc7) != 0x04 ||
	    b[3] != 0x24)
		return false;
	*reg = ((b[2] >> 3) & 7) | (b[0] == 0x4c ? 8 : 0);
	*reg ^= JIFL_PLANTED(thunk_wrong_register);
	return true;
}

/* add $8, %rsp or lea 8(%rsp), %rsp */
static bool drops_top(const u8 *b)
{
	static const u8 add8[] = { 0x48, 0x83, 0xc4, 0x08 };
	static const u8 lea8[] = { 0x48, 0x8d, 0x64, 0x24, 0x08 };

	return !memcmp(b, add8, sizeof(add8)) || !memcmp(b, lea8, sizeof(lea8));
}

/* The length of an instruction that has no effect on where the thunk goes. */
static u8 harmless_length(const u8 *b)
{
	static const struct {
		u8 n;
		u8 bytes[8];
	} known[] = {
		{ 1, { 0x90 } },
		{ 2, { 0x66, 0x90 } },
		{ 3, { 0x0f, 0x1f, 0x00 } },
		{ 4, { 0x0f, 0x1f, 0x40, 0x00 } },
		{ 5, { 0x0f, 0x1f, 0x44, 0x00, 0x00 } },
		{ 6, { 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00 } },
		{ 7, { 0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00 } },
		{ 8, { 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00 } },
		{ 3, { 0x0f, 0xae, 0xe8 } },		/* lfence */
		{ 4, { 0xf3, 0x0f, 0x1e, 0xfa } },	/* endbr64 */
		{ 2, { 0xf3, 0x90 } },			/* pause */
	};
	u32 i;

	for (i = 0; i < JIFL_ARRAY_LEN(known); i++)
		if (!memcmp(b, known[i].bytes, known[i].n))
			return known[i].n;
	return 0;
}

/*
 * Call depth tracking shifts a per-CPU count at every call and return: shlq/sarq $5, %gs:depth,
 * absolute or rip-relative. Returns the length, 0 for other instructions.
 */
static u8 depth_shift_length(const u8 *b)
{
	if (b[0] != 0x65 || b[1] != 0x48 || b[2] != 0xc1)
		return 0;
	if (b[3] == 0x25 || b[3] == 0x3d)
		return 9;
	return (b[3] == 0x24 || b[3] == 0x3c) && b[4] == 0x25 ? 10 : 0;
}

/*
 * The return thunk of call depth tracking refills the predictor when the count comes to 0: jz 1f;
 * ret
 */
static bool skips_a_return(const u8 *b)
{
	return b[0] == 0x74 && b[2] == 0xc3;
}

static enum step step_call(struct walk *w, u64 next, s32 rel)
{
	if (w->depth == MAX_DEPTH)
		return GIVE_UP;
	w->stack[w->depth++] = (struct slot){ .addr = next, .reg = NOT_A_REG };
	w->pc = next + rel;
	return GO_ON;
}

static enum step step(struct walk *w, u8 *reg)
{
	u8 b[15], n;
	u32 there;
	const u8 *p = jifl_host_text(jifl_orig_at(w->pc), &there);

	if (!there)
		return GIVE_UP;
	memset(b, 0xcc, sizeof(b));
	memcpy(b, p, there < sizeof(b) ? there : sizeof(b));
	if (b[0] == 0xc3 || (b[0] == 0xf3 && b[1] == 0xc3))
		return step_ret(w, reg);
	if (b[0] == 0xe8)
		return step_call(w, w->pc + 5, imm32_at(b + 1));
	if (b[0] == 0x2e && b[1] == 0xe8)
		return step_call(w, w->pc + 6, imm32_at(b + 2));
	if (b[0] == 0xe9) {
		w->pc += 5 + imm32_at(b + 1);
		return GO_ON;
	}
	if (b[0] == 0x2e && b[1] == 0xe9) {
		w->pc += 6 + imm32_at(b + 2);
		return GO_ON;
	}
	if (b[0] == 0xeb) {
		w->pc += 2 + (s8)b[1];
		return GO_ON;
	}
	if (w->depth && stores_reg_at_top(b, &w->stack[w->depth - 1].reg)) {
		w->pc += 4;
		return GO_ON;
	}
	if (w->depth && drops_top(b)) {
		w->depth--;
		w->pc += b[1] == 0x83 ? 4 : 5;
		return GO_ON;
	}
	if (skips_a_return(b)) {
		w->pc += 2;
		return GO_ON;
	}
	n = harmless_length(b);
	if (!n)
		n = depth_shift_length(b);
	if (n) {
		w->pc += n;
		return GO_ON;
	}
	return step_jmp_reg(b, reg);
}

void jifl_thunk_follow(jifl_orig addr, struct jifl_thunk *thunk)
{
	struct walk w = { .pc = addr.v };
	enum step s = GO_ON;

	thunk->kind = JIFL_THUNK_UNKNOWN;
	thunk->reg = NOT_A_REG;
	while (s == GO_ON && w.steps < MAX_STEPS) {
		s = step(&w, &thunk->reg);
		w.steps++;
	}
	thunk->insns = w.steps;
	if (s == DONE_INDIRECT)
		thunk->kind = JIFL_THUNK_INDIRECT;
	else if (s == DONE_RETURN)
		thunk->kind = JIFL_THUNK_RETURN;
	if (JIFL_PLANTED(return_thunk_miscounted) && s == DONE_RETURN)
		thunk->insns--;
}

bool jifl_thunk_tracks_depth(const u8 *bytes)
{
	return depth_shift_length(bytes);
}
