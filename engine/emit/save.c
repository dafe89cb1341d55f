// SPDX-License-Identifier: GPL-2.0
/*
 * Saves flags and registers around inserted code; see save.h.
 *
 * popf is microcode and takes about twenty cycles; lahf, seto and their way back take four. lahf
 * and sahf need a processor that has them in 64-bit mode. All processors made since 2006 have
 * them, but not all emulated ones (emit_config.lahf).
 */
#include "save.h"
#include "../base/plant.h"

#define RAX (1u << IR_RAX)

/* Where the flags are while the body runs. */
enum emit_flags_in {
	FLAGS_NOWHERE,		/* not saved */
	FLAGS_IN_RAX,		/* rax is dead */
	FLAGS_IN_RAX_MOVED,	/* rax is in a dead register meanwhile */
	FLAGS_IN_RAX_PUSHED,	/* rax is on the stack */
	FLAGS_PUSHED_RAX,	/* on the stack, by way of rax; above them rax, if it is live */
	FLAGS_PUSHED,		/* pushf */
};

/* A register that neither the kernel nor the body needs; IR_REG_NONE: there is none. */
static u8 spare_register(u16 needed)
{
	u8 reg;

	for (reg = 0; reg < 16; reg++)
		if (!(needed & 1u << reg))
			return reg;
	return IR_REG_NONE;
}

static u8 choose(const struct emit_config *config, const struct emit_body *body, u8 flags,
		 u16 regs, u8 *reg)
{
	*reg = IR_REG_NONE;
	if (!flags)
		return FLAGS_NOWHERE;
	/* A called function needs DF clear, and only popf restores DF. */
	if (!config->lahf || (flags & IR_DF))
		return FLAGS_PUSHED;
	if (body->changes & RAX)
		return body->reads & RAX && !(regs & RAX) ? FLAGS_PUSHED : FLAGS_PUSHED_RAX;
	if (!((regs | body->reads) & RAX))
		return FLAGS_IN_RAX;
	*reg = spare_register(regs | body->changes | body->reads | 1u << IR_RSP);
	if (*reg != IR_REG_NONE)
		return FLAGS_IN_RAX_MOVED;
	return body->reads & RAX ? FLAGS_PUSHED : FLAGS_IN_RAX_PUSHED;
}

static void flags_to_rax(struct x86_writer *w, u8 flags)
{
	if (flags & ~IR_OF)
		x86_lahf(w);
	if (flags & IR_OF)
		x86_seto_al(w);
}

static void flags_from_rax(struct x86_writer *w, u8 flags)
{
	if (flags & IR_OF)
		x86_overflow_al(w);
	if (flags & ~IR_OF)
		x86_sahf(w);
}

static void push(struct x86_writer *w, enum ir_reg reg, struct emit_saved *saved)
{
	x86_push(w, reg);
	saved->pushed++;
}

static void save_flags(struct x86_writer *w, const struct emit_body *body, struct emit_saved *saved)
{
	switch (saved->how) {
	case FLAGS_NOWHERE:
		return;
	case FLAGS_PUSHED:
		x86_pushf(w);
		saved->pushed++;
		return;
	case FLAGS_IN_RAX_MOVED:
		x86_mov(w, saved->reg, IR_RAX);
		break;
	case FLAGS_IN_RAX_PUSHED:
		push(w, IR_RAX, saved);
		break;
	case FLAGS_PUSHED_RAX:
		if (saved->regs & RAX)
			push(w, IR_RAX, saved);
		break;
	}
	flags_to_rax(w, saved->flags);
	if (saved->how != FLAGS_PUSHED_RAX)
		return;
	push(w, IR_RAX, saved);
	if (body->reads & RAX)
		x86_load_stack(w, IR_RAX, 8);
}

static void restore_flags(struct x86_writer *w, const struct emit_saved *saved)
{
	switch (saved->how) {
	case FLAGS_NOWHERE:
		return;
	case FLAGS_PUSHED:
		x86_popf(w);
		return;
	case FLAGS_PUSHED_RAX:
		x86_pop(w, IR_RAX);
		break;
	}
	flags_from_rax(w, saved->flags);
	if (saved->how == FLAGS_IN_RAX_MOVED)
		x86_mov(w, IR_RAX, saved->reg);
	else if (saved->how == FLAGS_IN_RAX_PUSHED ||
		 (saved->how == FLAGS_PUSHED_RAX && (saved->regs & RAX)))
		x86_pop(w, IR_RAX);
}

/* The registers that are pushed behind the flags. */
static u16 registers_behind(const struct emit_saved *saved)
{
	return saved->how == FLAGS_PUSHED_RAX ? saved->regs & ~RAX : saved->regs;
}

void emit_save(struct x86_writer *w, const struct emit_config *config,
	       const struct emit_body *body, u8 flags, u16 regs, struct emit_saved *saved)
{
	u8 reg;

	if (JIFL_PLANTED(register_not_saved))
		regs &= ~(1u << IR_R11);
	*saved = (struct emit_saved){ .flags = body->flags ? flags : 0,
				      .regs = regs & body->changes };
	saved->how = choose(config, body, saved->flags, regs, &saved->reg);
	saved->red_zone = config->red_zone &&
			  (saved->regs || body->calls || saved->how >= FLAGS_IN_RAX_PUSHED);
	if (saved->red_zone && !JIFL_PLANTED(red_zone_not_skipped)) {
		x86_move_stack(w, -(s32)config->red_zone);
		saved->pushed = config->red_zone / 8;
	}
	save_flags(w, body, saved);
	for (reg = 0; reg < 16; reg++)
		if (registers_behind(saved) & 1u << reg)
			push(w, reg, saved);
}

void emit_restore(struct x86_writer *w, const struct emit_config *config,
		  const struct emit_saved *saved)
{
	u8 reg;

	for (reg = 16; reg-- > 0;)
		if (registers_behind(saved) & 1u << reg)
			x86_pop(w, reg);
	restore_flags(w, saved);
	if (saved->red_zone && !JIFL_PLANTED(red_zone_not_skipped))
		x86_move_stack(w, (s32)config->red_zone);
}

enum ir_reg emit_saved_at(const struct emit_saved *saved, enum ir_reg reg)
{
	return saved->how == FLAGS_IN_RAX_MOVED && reg == IR_RAX ? saved->reg : reg;
}

void emit_saved_lookups(const struct emit_saved *saved, struct ir_insert *ins)
{
	u32 i;

	for (i = 0; ins->fetched >> i; i++) {
		struct ir_fetch *l = &ins->fetches[i];

		if (!(ins->fetched & 1u << i) || l->how >= IR_FETCH_CELL)
			continue;
		l->base = emit_saved_at(saved, l->base);
		l->index = emit_saved_at(saved, l->index);
	}
	ins->pushed += saved->pushed;
}

u16 emit_saved_in(const struct emit_saved *saved)
{
	switch (JIFL_PLANTED(saved_flags_dead) ? FLAGS_NOWHERE : saved->how) {
	case FLAGS_IN_RAX:
	case FLAGS_IN_RAX_PUSHED:
		return RAX;
	case FLAGS_IN_RAX_MOVED:
		return RAX | 1u << saved->reg;
	default:
		return 0;
	}
}

/*
 * r11 first: functions seldom keep a value in it. Last are those that functions give back. Only
 * records read so many that these are reached.
 */
static const u8 scratch[] = { IR_R11, IR_R10, IR_RAX, IR_RCX, IR_RDX, IR_RSI, IR_RDI,
			      IR_R8,  IR_R9,  IR_RBX, IR_R15, IR_R14, IR_R13, IR_R12, IR_RBP };
#define GIVEN_BACK	(1u << IR_RBX | 1u << IR_RBP | 1u << IR_R12 | 1u << IR_R13 | \
			 1u << IR_R14 | 1u << IR_R15)

static u32 scratch_not_in(u16 regs)
{
	u32 i;

	for (i = 0; i < sizeof(scratch) && regs & 1u << scratch[i]; i++)
		;
	return i;
}

enum ir_reg emit_scratch(u16 live, u16 reads)
{
	u32 i = scratch_not_in(live | reads | GIVEN_BACK);

	if (i == sizeof(scratch))
		i = scratch_not_in(reads);
	return i < sizeof(scratch) ? scratch[i] : IR_REG_NONE;
}

/* The bits of rflags for enum ir_flag, in its order. */
static u32 rflags_of(u8 flags)
{
	static const u8 bits[] = { 0, 2, 4, 6, 7, 11 };
	u32 i, mask = 0;

	for (i = 0; i < sizeof(bits); i++)
		if (flags & 1u << i)
			mask |= 1u << bits[i];
	return mask;
}

/* The flags are inverted: so each gets a value that it did not have. */
static void poison_flags(struct x86_writer *w, const struct emit_config *config, u8 dead)
{
	if (config->red_zone)
		x86_move_stack(w, -(s32)config->red_zone);
	x86_pushf(w);
	x86_xor_top(w, rflags_of(dead));
	x86_popf(w);
	if (config->red_zone)
		x86_move_stack(w, (s32)config->red_zone);
}

void emit_poison(struct x86_writer *w, const struct emit_config *config, u8 flags, u16 regs)
{
	u8 dead = IR_FLAGS & ~flags;
	u8 reg;

	if (dead)
		poison_flags(w, config, dead);
	for (reg = 0; reg < 16; reg++)
		if (reg != IR_RSP && !(regs & 1u << reg))
			x86_mov_imm(w, reg, EMIT_POISON_VALUE | reg);
}
