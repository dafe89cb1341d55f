// SPDX-License-Identifier: GPL-2.0
/*
 * See program.h. Flags are tracked while code is written: `valid` are those whose
 * values are defined. Before an instruction reads one that is not, and at the
 * end of each block, an instruction that defines all of them is put.
 *
 * Kept for the program's own use: rsp; r15, which points to the data.
 */
#include <sys/mman.h>

#include "../../../engine/ir/ir.h"
#include "../unit.h"
#include "program.h"
#include "state.h"

u8 program_data[PROGRAM_DATA] __attribute__((aligned(64)));
u32 program_fuel;
u8 program_text[PROGRAM_TEXT] __attribute__((aligned(4096)));
static u8 thunks[4096] __attribute__((aligned(4096)));

enum { MAX_BLOCKS = 24, NSUBS = 4, MAX_FIXUPS = 256, THUNK_SIZE = 32 };
enum { DATA_USED = PROGRAM_DATA - 128, SLOTS = PROGRAM_DATA - 64 };
enum { FLAGS_AT = PROGRAM_DATA - 8 };

/* Labels: blocks, then subroutines, then the exit. */
enum { LABEL_SUB = MAX_BLOCKS, LABEL_EXIT = LABEL_SUB + NSUBS, NLABELS };

static u64 seed;
static u32 len;
static u8 valid;
static u16 avoid;		/* registers not to be changed */
static u32 nblocks;
static u32 label[NLABELS];
static bool redefines[NLABELS];	/* flags; what an indirect jump may go to */
static struct { u32 at; u32 label; } fixups[MAX_FIXUPS];
static u32 nfixups;

static u32 rnd(u32 n)
{
	return state_random(&seed) % n;
}

static void byte(u8 b)
{
	REQUIRE(len < PROGRAM_TEXT - 64, "the program is too long");
	program_text[len++] = b;
}

static void bytes(const void *p, u32 n)
{
	while (n--)
		byte(*(const u8 *)p), p = (const u8 *)p + 1;
}

#define CODE(s) bytes(s, sizeof(s) - 1)

static void imm32(u32 v)
{
	bytes(&v, 4);
}

/* rel32 to a label that may not be known yet */
static void rel32(u32 to)
{
	REQUIRE(nfixups < MAX_FIXUPS);
	fixups[nfixups].at = len;
	fixups[nfixups++].label = to;
	imm32(0);
}

/* disp32 from the end of an instruction that has `behind` bytes after it */
static void rip_disp(const void *to, u32 behind)
{
	imm32((u32)((long)to - (long)(program_text + len + 4 + behind)));
}

/* --- operands ---------------------------------------------------------------------- */

/* A register that may be changed. */
static u8 dest(void)
{
	u8 r;

	do
		r = rnd(15);
	while (r == IR_RSP || (avoid & (1u << r)));
	return r;
}

struct operand {
	bool memory;
	u8 reg;
	u8 mode;		/* of memory, below */
	u32 offset;
};

static struct operand reg_operand(u8 reg)
{
	return (struct operand){ .reg = reg };
}

static struct operand mem_operand(void)
{
	return (struct operand){ .memory = true, .mode = rnd(6), .offset = rnd(DATA_USED - 64) };
}

static u8 base_bit(const struct operand *op)
{
	if (!op->memory)
		return op->reg >> 3;
	return op->mode <= 2;		/* r15 */
}

/* ModRM, SIB and displacement; behind: bytes of the immediate */
static void modrm(u8 reg, const struct operand *op, u32 behind)
{
	u8 r = (reg & 7) << 3;

	if (!op->memory) {
		byte(0xc0 | r | (op->reg & 7));
		return;
	}
	switch (op->mode) {
	case 0:			/* disp8(%r15) */
		byte(0x47 | r);
		byte(op->offset & 0x7f);
		return;
	case 1:			/* disp32(%r15) */
		byte(0x87 | r);
		imm32(op->offset);
		return;
	case 2:			/* the same with a SIB byte */
		byte(0x84 | r);
		byte(0x27);
		imm32(op->offset);
		return;
	case 3:			/* rip-relative */
		byte(0x05 | r);
		rip_disp(program_data + op->offset, behind);
		return;
	case 4:			/* absolute */
		byte(0x04 | r);
		byte(0x25);
		imm32((u32)(unsigned long)program_data + op->offset);
		return;
	default:		/* above the return addresses on the stack */
		byte(0x44 | r);
		byte(0x24);
		byte(16 + (op->offset & 0x3f));
		return;
	}
}

/* --- instructions in a table --------------------------------------------------------- */

enum {
	RM = 1, REG = 2,	/* operands that are written */
	M = 4,			/* memory is allowed ... */
	R = 8,			/* ... and registers are */
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

#define RAX (1u << IR_RAX)
#define RDX (1u << IR_RDX)

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

/* An instruction after which all flags are defined; may change a register. */
static void define_flags(void)
{
	u8 r = dest();

	byte(0x48 | r >> 3);
	byte(0x83);
	byte((rnd(2) ? 0xf8 : 0xc0) | (r & 7));		/* cmp or add $imm8 */
	byte(rnd(256));
	valid = IR_FLAGS;
}

static void need_flags(u8 flags)
{
	if (flags & ~valid)
		define_flags();
}

/* Without REX, byte registers 4 to 7 are ah to bh. */
static bool byte_reg_ok(u8 reg, bool rex, bool written)
{
	u8 whole = !rex && reg >= 4 && reg < 8 ? reg - 4 : reg;

	if (!rex && reg >= 8)
		return false;
	if (!written)
		return true;
	return whole != IR_RSP && whole != IR_R15 && !(avoid & (1u << whole));
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

static void table_insn(void)
{
	const struct form *f = &forms[rnd(JIFL_ARRAY_LEN(forms))];
	bool is_byte = f->how & B, rex_forced = rnd(2), word, wide;
	struct operand op;
	u8 reg, rex, imm = f->imm;

	if (f->also & avoid)
		return;
	need_flags(f->reads);
	word = !is_byte && !(f->how & NO16) && !rnd(6);
	wide = !is_byte && !word && rnd(2);
	op = mem_operand();
	/* A locked access across two cache lines costs milliseconds. */
	if (f->how & LOCK)
		op.offset &= ~7u;
	if (!(f->how & M) || ((f->how & R) && rnd(2)))
		op = reg_operand(0);
	/* Memory through r15 needs a REX, which changes what byte registers mean. */
	rex_forced |= wide || (op.memory && base_bit(&op));
	if (!op.memory)
		op = reg_operand(any_reg(is_byte, rex_forced, f->how & RM));
	reg = f->digit >= 0 ? (u8)f->digit : any_reg(is_byte, rex_forced, f->how & REG);
	if (word)
		byte(0x66);
	if ((f->how & LOCK) && op.memory && !rnd(4))
		byte(0xf0);
	if (f->prefix)
		byte(f->prefix);
	rex = 0x40 | (wide ? 8 : 0) | (reg >> 3) << 2 | base_bit(&op);
	if (rex != 0x40 || rex_forced)
		byte(rex);
	if (f->map)
		byte(f->map);
	byte(f->opcode);
	if (imm == 4)
		imm = word ? 2 : 4;
	modrm(reg, &op, imm);
	while (imm--)
		byte(rnd(256));
	if (f->how & KEEPS)
		valid |= f->defines & (valid == IR_FLAGS ? IR_FLAGS : 0);
	else
		valid = f->defines;
}

/* --- instructions that are not in the table ------------------------------------------- */

/* Flags a condition code reads. */
static u8 cc_flags(u8 cc)
{
	static const u8 reads[8] = {
		IR_OF, IR_CF, IR_ZF, IR_CF | IR_ZF, IR_SF, IR_PF, IR_SF | IR_OF,
		IR_SF | IR_OF | IR_ZF,
	};

	return reads[cc >> 1];
}

static void setcc_or_cmov(void)
{
	u8 cc = rnd(16), r = dest(), from = rnd(16);

	need_flags(cc_flags(cc));
	if (rnd(2)) {
		byte(0x40 | r >> 3);
		byte(0x0f);
		byte(0x90 | cc);
		byte(0xc0 | (r & 7));
	} else {
		byte(0x40 | rnd(2) << 3 | (r >> 3) << 2 | from >> 3);
		byte(0x0f);
		byte(0x40 | cc);
		byte(0xc0 | (r & 7) << 3 | (from & 7));
	}
}

static void one_byte(void)
{
	switch (rnd(10)) {
	case 0:
		need_flags(IR_FLAGS & ~IR_OF);
		if (!(avoid & RAX))
			byte(0x9f);		/* lahf */
		break;
	case 1:
		need_flags(IR_OF);
		byte(0x9e);			/* sahf */
		valid = IR_FLAGS;
		break;
	case 2:
		need_flags(IR_CF);
		byte(0xf5);			/* cmc */
		break;
	case 3:
		byte(0xf8 + rnd(2));		/* clc, stc */
		valid |= IR_CF;
		break;
	case 4:
		if (!(avoid & (RAX | RDX)))
			CODE("\x48\x99");	/* cqto */
		break;
	case 5:
		CODE("\x0f\x1f\x80\x11\x22\x33\x44");
		break;
	case 6:
		byte(0x90);
		break;
	case 7: {
		u8 r = dest();

		byte(0x48 | r >> 3);		/* bswap */
		byte(0x0f);
		byte(0xc8 | (r & 7));
		break;
	}
	default: {
		u8 r = dest();

		byte(0x48 | r >> 3);		/* movabs */
		byte(0xb8 | (r & 7));
		imm32(state_random(&seed));
		imm32(state_random(&seed));
	}
	}
}

static void vector(void)
{
	struct operand op = mem_operand();
	u8 x = rnd(8), y = rnd(8);

	switch (rnd(5)) {
	case 0:					/* movdqu, both ways */
		byte(0xf3);
		if (base_bit(&op))
			byte(0x41);
		byte(0x0f);
		byte(rnd(2) ? 0x6f : 0x7f);
		modrm(x, &op, 0);
		break;
	case 1:
		CODE("\x66\x0f\xfe");		/* paddd */
		byte(0xc0 | x << 3 | y);
		break;
	case 2:
		CODE("\x66\x0f\xef");		/* pxor */
		byte(0xc0 | x << 3 | y);
		break;
	case 3:
		CODE("\x66\x48\x0f\x6e");	/* movq %r, %xmm */
		byte(0xc0 | x << 3 | y);
		break;
	default:
		CODE("\x66\x0f\x2e");		/* ucomisd */
		byte(0xc0 | x << 3 | y);
		valid = IR_FLAGS;
		break;
	}
}

static void simple(void)
{
	switch (rnd(12)) {
	case 0:
		one_byte();
		break;
	case 1:
		vector();
		break;
	case 2:
		setcc_or_cmov();
		break;
	default:
		table_insn();
		break;
	}
}

static void some(u32 n)
{
	n = rnd(n) + 1;
	while (n--)
		simple();
}

/* --- sequences ---------------------------------------------------------------------- */

static void push_pop(void)
{
	u8 r = rnd(8);

	switch (rnd(4)) {
	case 0:
		need_flags(IR_FLAGS);
		byte(0x9c);			/* pushf; ...; pop %r8 ... */
		some(3);
		byte(0x41);
		byte(0x58 | rnd(7));
		return;
	case 1:
		byte(0x68);			/* push $; popf */
		imm32(2 | (state_random(&seed) & 0x8d5));
		byte(0x9d);
		valid = IR_FLAGS;
		return;
	case 2:
		need_flags(IR_FLAGS);
		byte(0x9c);			/* pushf; ...; popf */
		some(3);
		byte(0x9d);
		valid = IR_FLAGS;
		return;
	default:
		byte(0x50 | r);
		some(3);
		byte(0x41);			/* pop %r8 ... %r14 */
		byte(0x58 | rnd(7));
		return;
	}
}

/* Values below rsp survive what is inserted between. */
static void red_zone(void)
{
	u8 disp = -8 * (1 + rnd(16)), from = rnd(16), to = dest();

	byte(0x48 | (from >> 3) << 2);		/* mov %from, disp(%rsp) */
	byte(0x89);
	byte(0x44 | (from & 7) << 3);
	byte(0x24);
	byte(disp);
	some(4);
	byte(0x48 | (to >> 3) << 2);		/* mov or add disp(%rsp), %to */
	byte(rnd(2) ? 0x8b : 0x03);
	if (program_text[len - 1] == 0x03)
		valid = IR_FLAGS;
	byte(0x44 | (to & 7) << 3);
	byte(0x24);
	byte(disp);
}

#define STRING_REGS (1u << IR_RCX | 1u << IR_RSI | 1u << IR_RDI)

static void string(void)
{
	static const u8 ops[] = { 0xa4, 0xa6, 0xaa, 0xac, 0xae };
	u8 op = ops[rnd(5)], wide = rnd(4);
	bool compares = op == 0xa6 || op == 0xae, backwards = !rnd(4);

	if (avoid & (STRING_REGS | RAX))
		return;
	CODE("\x48\x8d\x35");			/* lea data(%rip), %rsi; %rdi */
	rip_disp(program_data + 512 + rnd(1024), 0);
	CODE("\x48\x8d\x3d");
	rip_disp(program_data + 2048 + rnd(1024), 0);
	byte(0xb9);				/* mov $, %ecx */
	imm32(rnd(3) ? rnd(60) : rnd(2));
	avoid |= STRING_REGS;
	if (backwards)
		byte(0xfd);
	some(1);
	need_flags(compares ? IR_FLAGS : 0);
	if (wide == 1)
		byte(0x66);
	if (rnd(4))
		byte(compares && rnd(2) ? 0xf2 : 0xf3);
	if (wide == 3)
		byte(0x48);
	byte(op + (wide != 0));
	if (backwards)
		byte(0xfc);
	avoid &= ~STRING_REGS;
}

static void divide(void)
{
	u8 by = rnd(2) ? IR_RCX : IR_R9;

	if (avoid & (RAX | RDX | 1u << by))
		return;
	byte(0x48 | by >> 3);			/* mov $, %by */
	byte(0xc7);
	byte(0xc0 | (by & 7));
	imm32(1 + (state_random(&seed) & 0xffff));
	CODE("\x31\xd2");			/* xor %edx, %edx */
	byte(0x48 | by >> 3);			/* div %by */
	byte(0xf7);
	byte(0xf0 | (by & 7));
	valid = 0;
}

/* Over some instructions, or not: jcc, jrcxz, jecxz, loop, loopne; forward. */
static void skip(void)
{
	static const u8 ops[] = { 0xe3, 0xe2, 0xe1, 0xe0 };
	u8 before;
	u32 at;

	if (avoid & (1u << IR_RCX))
		return;
	need_flags(IR_FLAGS);
	if (rnd(2)) {
		byte(0x70 | rnd(16));
	} else {
		if (!rnd(4))
			byte(0x67);
		byte(ops[rnd(4)]);
	}
	at = len;
	byte(0);
	before = valid;
	some(4);
	valid &= before;
	program_text[at] = (u8)(len - at - 1);
}

/* mov $n, %ecx; 1: ...; loop 1b */
static void count_down(void)
{
	u32 back;

	if (avoid & (1u << IR_RCX))
		return;
	byte(0xb9);
	imm32(1 + rnd(5));
	avoid |= 1u << IR_RCX;
	need_flags(IR_FLAGS);
	back = len;
	some(4);
	need_flags(IR_FLAGS);
	avoid &= ~(1u << IR_RCX);
	if (len - back > 100) {
		CODE("\x48\xff\xc9\x0f\x85");	/* dec %rcx; jne */
		imm32((u32)(back - (len + 4)));
	} else {
		byte(rnd(2) ? 0xe2 : 0xe1 - rnd(2));
		byte((u8)(back - (len + 1)));
	}
}

/* --- control flow ---------------------------------------------------------------------- */

/* lea label(%rip), %r */
static void load_label(u8 r, u32 to)
{
	byte(0x48 | (r >> 3) << 2);
	byte(0x8d);
	byte(0x05 | (r & 7) << 3);
	rel32(to);
}

/* jmp or call (what: 4 or 2) through a register, a thunk or memory */
static void indirect(u32 to, u8 what)
{
	u8 r = dest();
	u32 slot = SLOTS + 8 * rnd(4);

	load_label(r, to);
	some(2);
	/* It may have been changed since; what it was does not matter. */
	load_label(r, to);
	switch (rnd(4)) {
	case 0:
		if (r >= 8)
			byte(0x41);
		byte(0xff);
		byte(0xc0 | what << 3 | (r & 7));
		break;
	case 1:				/* the thunk of r */
		byte(what == 2 ? 0xe8 : 0xe9);
		rip_disp(thunks + r * THUNK_SIZE, 0);
		break;
	case 2:				/* memory, rip-relative or absolute */
		byte(0x48 | (r >> 3) << 2);
		byte(0x89);
		byte(0x05 | (r & 7) << 3);
		rip_disp(program_data + slot, 0);
		byte(0xff);
		if (rnd(2)) {
			byte(0x05 | what << 3);
			rip_disp(program_data + slot, 0);
		} else {
			byte(0x04 | what << 3);
			byte(0x25);
			imm32((u32)(unsigned long)program_data + slot);
		}
		break;
	default:			/* the red zone */
		byte(0x48 | (r >> 3) << 2);
		CODE("\x89");
		byte(0x44 | (r & 7) << 3);
		CODE("\x24\xe0\xff");
		byte(0x44 | what << 3);
		CODE("\x24\xe0");
		break;
	}
}

static void call(void)
{
	u32 to = LABEL_SUB + rnd(NSUBS);

	if (avoid)
		return;
	if (rnd(2)) {
		byte(0xe8);
		rel32(to);
	} else {
		indirect(to, 2);
	}
	/* Flags have no value after a return. */
	define_flags();
}

static void sequence(void)
{
	switch (rnd(16)) {
	case 0:
		push_pop();
		break;
	case 1:
		red_zone();
		break;
	case 2:
		string();
		break;
	case 3:
		divide();
		break;
	case 4:
		skip();
		break;
	case 5:
		count_down();
		break;
	case 6:
		call();
		break;
	default:
		some(5);
		break;
	}
}

static void ret(void)
{
	switch (rnd(4)) {
	case 0:
		CODE("\xf3\xc3");
		break;
	case 1:
		byte(0xe9);		/* the return thunk */
		rip_disp(thunks + 16 * THUNK_SIZE, 0);
		break;
	default:
		byte(0xc3);
		break;
	}
}

/* To a block further on; back, too, as long as there is fuel. */
static void terminate(u32 block)
{
	u32 to = block + 1 + rnd(nblocks - block);

	if (to == nblocks)
		to = LABEL_EXIT;
	need_flags(IR_FLAGS);
	switch (rnd(8)) {
	case 1:
		byte(0xff);		/* decl fuel(%rip); js exit; jcc back */
		byte(0x0d);
		rip_disp(&program_fuel, 0);
		CODE("\x0f\x88");
		rel32(LABEL_EXIT);
		CODE("\x0f");
		byte(0x80 | rnd(16));
		rel32(rnd(block + 1));
		break;
	case 2:
		break;			/* falls through */
	case 3:
		/* It keeps no flags. */
		if (redefines[to]) {
			indirect(to, 4);
			byte(0xcc);
			break;
		}
		/* fall through */
	case 0:
		byte(0xe9);
		rel32(to);
		byte(0xcc);
		break;
	default:
		if (rnd(3) == 0)
			byte(0x2e);
		byte(0x0f);
		byte(0x80 | rnd(16));
		rel32(to);
		break;
	}
}

static void block(u32 i)
{
	u32 n = 1 + rnd(8);

	label[i] = len;
	if (redefines[i])
		define_flags();
	while (n--)
		sequence();
	terminate(i);
}

/* What the cache leaves to the original code; flags count behind it. */
static void go_native(void)
{
	if (rnd(2)) {
		CODE("\x48\x89\xe0\x48\x89\xc4");	/* mov %rsp, %rax; mov %rax, %rsp */
	} else {
		need_flags(IR_FLAGS);
		byte(0x0f);				/* jcc to the return thunk */
		byte(0x80 | rnd(16));
		rip_disp(thunks + 16 * THUNK_SIZE, 0);
	}
	some(4);
}

static void sub(u32 i, bool native)
{
	label[LABEL_SUB + i] = len;
	avoid = 1;			/* no calls in here */
	define_flags();
	some(8);
	if (native && rnd(2))
		go_native();
	avoid = 0;
	ret();
}

static void finish(void)
{
	label[LABEL_EXIT] = len;
	/* pushf; pop flags */
	byte(0x9c);
	CODE("\x8f\x05");
	rip_disp(program_data + FLAGS_AT, 0);
	ret();
}

u32 program_generate(u64 s)
{
	u32 i, rel;

	seed = s * 0x9e3779b97f4a7c15ull + 1;
	len = 0;
	nfixups = 0;
	avoid = 0;
	nblocks = 2 + rnd(MAX_BLOCKS - 2);
	memset(program_text, 0xcc, sizeof(program_text));
	valid = IR_FLAGS;
	for (i = 0; i < nblocks; i++)
		redefines[i] = rnd(3) == 0;
	for (i = 0; i < nblocks; i++)
		block(i);
	define_flags();
	finish();
	for (i = 0; i < NSUBS; i++)
		sub(i, program_goes_native(s));
	for (i = 0; i < nfixups; i++) {
		rel = label[fixups[i].label] - (fixups[i].at + 4);
		memcpy(program_text + fixups[i].at, &rel, 4);
	}
	return len;
}

/* call 1f; int3; 1: mov %r, (%rsp); ret */
static void make_thunk(u8 r)
{
	u8 *t = thunks + r * THUNK_SIZE;

	memcpy(t, "\xe8\x01\0\0\0\xcc\x48\x89\x04\x24\xc3", 11);
	t[6] |= (r >> 3) << 2;
	t[8] |= (r & 7) << 3;
}

void program_init(void)
{
	u8 r;

	memset(thunks, 0xcc, sizeof(thunks));
	for (r = 0; r < 16; r++)
		make_thunk(r);
	/* call 1f; int3; 1: lea 8(%rsp), %rsp; ret */
	memcpy(thunks + 16 * THUNK_SIZE, "\xe8\x01\0\0\0\xcc\x48\x8d\x64\x24\x08\xc3", 12);
	REQUIRE(!mprotect(program_text, sizeof(program_text), PROT_READ | PROT_WRITE | PROT_EXEC));
	REQUIRE(!mprotect(thunks, sizeof(thunks), PROT_READ | PROT_WRITE | PROT_EXEC));
	user_host_set_text(program_text, sizeof(program_text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	user_host_set_text(thunks, sizeof(thunks), JIFL_TEXT_THUNK, JIFL_CAUSE_NONE);
}
