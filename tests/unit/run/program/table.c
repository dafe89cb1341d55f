// SPDX-License-Identifier: GPL-2.0
/*
 * Instructions that a table describes (draft.h): one row a form, with the flags that it
 * reads and defines; and an instruction of a random row with random operands.
 */
#include "draft.h"

enum {
	RM = 1, REG = 2,	/* operands that are written */
	M = 4,			/* rm may be memory */
	R = 8,			/* rm may be a register */
	B = 16,			/* operands are bytes */
	LOCK = 32,		/* may be locked, or is, when rm is memory */
	NO16 = 64,		/* not with 16 bits */
	KEEPS = 128,		/* does not make flags valid that were not */
};

#define AF_UNDEFINED (IR_FLAGS & ~IR_AF)
#define MUL_UNDEFINED (IR_CF | IR_OF)
#define BT_UNDEFINED (IR_CF | IR_ZF)

struct form {
	u8 prefix;
	u8 map;			/* 0x0f, or 0 */
	u8 opcode;
	s8 digit;		/* -1: ModRM.reg is a register */
	u8 imm;			/* 1; 4: of the operand's size; 0 */
	u8 how;
	u16 also;		/* registers changed besides */
	u8 reads;		/* flags */
	u8 defines;		/* flags valid after it, if changed at all */
};

#define ALU(k, dst, rd, def) \
	{ 0, 0, 8 * (k), -1, 0, (dst) | M | R | B | LOCK, 0, rd, def }, \
	{ 0, 0, 8 * (k) + 1, -1, 0, (dst) | M | R | LOCK, 0, rd, def }, \
	{ 0, 0, 8 * (k) + 2, -1, 0, ((dst) ? REG : 0) | M | R | B, 0, rd, def }, \
	{ 0, 0, 8 * (k) + 3, -1, 0, ((dst) ? REG : 0) | M | R, 0, rd, def }, \
	{ 0, 0, 0x80, k, 1, (dst) | M | R | B | LOCK, 0, rd, def }, \
	{ 0, 0, 0x81, k, 4, (dst) | M | R | LOCK, 0, rd, def }, \
	{ 0, 0, 0x83, k, 1, (dst) | M | R | LOCK, 0, rd, def }

#define SHIFT(k, rd) \
	{ 0, 0, 0xc0, k, 1, RM | M | R | B | KEEPS, 0, rd, 0 }, \
	{ 0, 0, 0xc1, k, 1, RM | M | R | KEEPS, 0, rd, 0 }, \
	{ 0, 0, 0xd0, k, 0, RM | M | R | B | KEEPS, 0, rd, 0 }, \
	{ 0, 0, 0xd1, k, 0, RM | M | R | KEEPS, 0, rd, 0 }, \
	{ 0, 0, 0xd2, k, 0, RM | M | R | B | KEEPS, 0, rd, 0 }, \
	{ 0, 0, 0xd3, k, 0, RM | M | R | KEEPS, 0, rd, 0 }

static const struct form forms[] = {
	ALU(0, RM, 0, IR_FLAGS),
	ALU(1, RM, 0, AF_UNDEFINED),
	ALU(2, RM, IR_CF, IR_FLAGS),
	ALU(3, RM, IR_CF, IR_FLAGS),
	ALU(4, RM, 0, AF_UNDEFINED),
	ALU(5, RM, 0, IR_FLAGS),
	ALU(6, RM, 0, AF_UNDEFINED),
	{ 0, 0, 0x38, -1, 0, M | R | B, 0, 0, IR_FLAGS },		/* cmp */
	{ 0, 0, 0x3b, -1, 0, M | R, 0, 0, IR_FLAGS },
	{ 0, 0, 0x81, 7, 4, M | R, 0, 0, IR_FLAGS },
	{ 0, 0, 0x84, -1, 0, M | R | B, 0, 0, AF_UNDEFINED },		/* test */
	{ 0, 0, 0x85, -1, 0, M | R, 0, 0, AF_UNDEFINED },
	{ 0, 0, 0xf6, 0, 1, M | R | B, 0, 0, AF_UNDEFINED },
	{ 0, 0, 0xf7, 0, 4, M | R, 0, 0, AF_UNDEFINED },
	{ 0, 0, 0xf7, 2, 0, RM | M | R | LOCK | KEEPS, 0, 0, 0 },	/* not */
	{ 0, 0, 0xf7, 3, 0, RM | M | R | LOCK, 0, 0, IR_FLAGS },	/* neg */
	{ 0, 0, 0xf6, 4, 0, M | R | B, RAX, 0, MUL_UNDEFINED },		/* mul */
	{ 0, 0, 0xf7, 4, 0, M | R, RAX | RDX, 0, MUL_UNDEFINED },
	{ 0, 0, 0xf7, 5, 0, M | R, RAX | RDX, 0, MUL_UNDEFINED },	/* imul */
	{ 0, 0x0f, 0xaf, -1, 0, REG | M | R, 0, 0, MUL_UNDEFINED },
	{ 0, 0, 0x69, -1, 4, REG | M | R, 0, 0, MUL_UNDEFINED },
	{ 0, 0, 0x6b, -1, 1, REG | M | R, 0, 0, MUL_UNDEFINED },
	{ 0, 0, 0xfe, 0, 0, RM | M | R | B | LOCK | KEEPS, 0, 0, IR_FLAGS & ~IR_CF }, /* inc */
	{ 0, 0, 0xff, 1, 0, RM | M | R | LOCK | KEEPS, 0, 0, IR_FLAGS & ~IR_CF },
	{ 0, 0, 0x88, -1, 0, RM | M | R | B | KEEPS, 0, 0, 0 },		/* mov */
	{ 0, 0, 0x89, -1, 0, RM | M | R | KEEPS, 0, 0, 0 },
	{ 0, 0, 0x8a, -1, 0, REG | M | R | B | KEEPS, 0, 0, 0 },
	{ 0, 0, 0x8b, -1, 0, REG | M | R | KEEPS, 0, 0, 0 },
	{ 0, 0, 0xc6, 0, 1, RM | M | R | B | KEEPS, 0, 0, 0 },
	{ 0, 0, 0xc7, 0, 4, RM | M | R | KEEPS, 0, 0, 0 },
	{ 0, 0, 0x8d, -1, 0, REG | M | KEEPS, 0, 0, 0 },		/* lea */
	{ 0, 0, 0x63, -1, 0, REG | M | R | NO16 | KEEPS, 0, 0, 0 },	/* movsxd */
	{ 0, 0x0f, 0xb6, -1, 0, REG | M | R | KEEPS, 0, 0, 0 },		/* movzx ... */
	{ 0, 0x0f, 0xb7, -1, 0, REG | M | R | KEEPS, 0, 0, 0 },
	{ 0, 0x0f, 0xbe, -1, 0, REG | M | R | KEEPS, 0, 0, 0 },
	{ 0, 0x0f, 0xbf, -1, 0, REG | M | R | KEEPS, 0, 0, 0 },
	{ 0, 0, 0x86, -1, 0, RM | REG | M | R | B | LOCK | KEEPS, 0, 0, 0 }, /* xchg */
	{ 0, 0, 0x87, -1, 0, RM | REG | M | R | LOCK | KEEPS, 0, 0, 0 },
	{ 0, 0x0f, 0xc1, -1, 0, RM | REG | M | R | LOCK, 0, 0, IR_FLAGS }, /* xadd */
	{ 0, 0x0f, 0xb0, -1, 0, RM | M | R | B | LOCK, RAX, 0, IR_FLAGS }, /* cmpxchg */
	{ 0, 0x0f, 0xb1, -1, 0, RM | M | R | LOCK, RAX, 0, IR_FLAGS },
	SHIFT(0, 0), SHIFT(1, 0), SHIFT(2, IR_CF), SHIFT(3, IR_CF),
	SHIFT(4, 0), SHIFT(5, 0), SHIFT(7, 0),
	{ 0, 0x0f, 0xa4, -1, 1, RM | M | R | NO16 | KEEPS, 0, 0, 0 },	/* shld ... */
	{ 0, 0x0f, 0xa5, -1, 0, RM | M | R | NO16 | KEEPS, 0, 0, 0 },
	{ 0, 0x0f, 0xad, -1, 0, RM | M | R | NO16 | KEEPS, 0, 0, 0 },
	{ 0, 0x0f, 0xa3, -1, 0, R, 0, IR_ZF, BT_UNDEFINED },		/* bt ... */
	{ 0, 0x0f, 0xab, -1, 0, RM | R, 0, IR_ZF, BT_UNDEFINED },
	{ 0, 0x0f, 0xba, 4, 1, M | R, 0, IR_ZF, BT_UNDEFINED },
	{ 0, 0x0f, 0xba, 6, 1, RM | M | R | LOCK, 0, IR_ZF, BT_UNDEFINED },
	{ 0, 0x0f, 0xba, 7, 1, RM | M | R | LOCK, 0, IR_ZF, BT_UNDEFINED },
	{ 0, 0x0f, 0xbc, -1, 0, REG | M | R | NO16, 0, 0, IR_ZF },	/* bsf, bsr */
	{ 0, 0x0f, 0xbd, -1, 0, REG | M | R | NO16, 0, 0, IR_ZF },
	{ 0xf3, 0x0f, 0xbc, -1, 0, REG | M | R, 0, 0, IR_ZF | IR_CF },	/* tzcnt, lzcnt */
	{ 0xf3, 0x0f, 0xbd, -1, 0, REG | M | R, 0, 0, IR_ZF | IR_CF },
	{ 0xf3, 0x0f, 0xb8, -1, 0, REG | M | R, 0, 0, IR_FLAGS },	/* popcnt */
};

/* Without REX, byte registers 4 to 7 are ah to bh. */
static bool byte_reg_ok(u8 reg, bool rex, bool written)
{
	u8 whole = !rex && reg >= 4 && reg < 8 ? reg - 4 : reg;

	if (!rex && reg >= 8)
		return false;
	if (!written)
		return true;
	return whole != IR_RSP && whole != IR_R15 && !(draft.avoid & (1u << whole));
}

static u8 any_reg(bool is_byte, bool rex, bool written)
{
	u8 reg;

	if (!is_byte)
		return written ? dest() : rnd(16);
	do
		reg = rnd(16);
	while (!byte_reg_ok(reg, rex, written));
	return reg;
}

void draft_table_insn(void)
{
	const struct form *f = &forms[rnd(JIFL_ARRAY_LEN(forms))];
	bool is_byte = f->how & B, rex_forced = rnd(2), word, wide;
	struct operand op;
	u8 reg, rex, imm = f->imm;

	if (f->also & draft.avoid)
		return;
	need_flags(f->reads);
	word = !is_byte && !(f->how & NO16) && !rnd(6);
	wide = !is_byte && !word && rnd(2);
	op = operand_mem();
	/* A locked access across two cache lines costs milliseconds. */
	if (f->how & LOCK)
		op.offset &= ~7u;
	if (!(f->how & M) || ((f->how & R) && rnd(2)))
		op = operand_reg(0);
	/* Memory through r15 needs a REX, which changes what byte registers mean. */
	rex_forced |= wide || (op.memory && operand_base_bit(&op));
	if (!op.memory)
		op = operand_reg(any_reg(is_byte, rex_forced, f->how & RM));
	reg = f->digit >= 0 ? (u8)f->digit : any_reg(is_byte, rex_forced, f->how & REG);
	if (word)
		byte(0x66);
	if ((f->how & LOCK) && op.memory && !rnd(4))
		byte(0xf0);
	if (f->prefix)
		byte(f->prefix);
	rex = 0x40 | (wide ? 8 : 0) | (reg >> 3) << 2 | operand_base_bit(&op);
	if (rex != 0x40 || rex_forced)
		byte(rex);
	if (f->map)
		byte(f->map);
	byte(f->opcode);
	if (imm == 4)
		imm = word ? 2 : 4;
	operand_modrm(reg, &op, imm);
	while (imm--)
		byte(rnd(256));
	if (f->how & KEEPS)
		draft.valid |= f->defines & (draft.valid == IR_FLAGS ? IR_FLAGS : 0);
	else
		draft.valid = f->defines;
}
