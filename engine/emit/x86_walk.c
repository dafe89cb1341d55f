// SPDX-License-Identifier: GPL-2.0
/*
 * Reads back the code that x86_enc.c writes: how long an instruction of inserted code or of a stub
 * is, and what it pushes. Stack walks need this for every place at which such code can be
 * interrupted. This file only reads: any context, NMI too.
 */
#include "x86_enc.h"

enum {
	PREFIX_CS = 0x2e,
	PREFIX_GS = 0x65,
	PREFIX_LOCK = 0xf0,
	REX = 0x40,
	REX_W = 0x48,
	REX_R = 0x04,
};

static s32 load_s32(const u8 *p)
{
	s32 v;

	memcpy(&v, p, 4);
	return v;
}

/* Length from ModRM on, of a register or of disp8(register) without a SIB: not rsp, not r12. */
static u32 plain_operand(const u8 *p)
{
	return p[0] >= 0xc0 ? 1 : 2;
}

u32 x86_operand_len(const u8 *p)
{
	u32 mod = p[0] >> 6, sib = mod != 3 && (p[0] & 7) == 4;
	bool disp32 = mod == 2 || (!mod && ((p[0] & 7) == 5 || (sib && (p[1] & 7) == 5)));

	return 1 + sib + (mod == 1 ? 1 : disp32 ? 4 : 0);
}

/* Instructions with a 64-bit operand. p: behind a REX prefix with W, rex. */
static u32 wide(u8 rex, const u8 *p, s32 *pushed)
{
	if ((p[0] & 0xf8) == 0xb8)
		return 9;				/* mov $imm64, reg */
	switch (p[0]) {
	case 0x0f:					/* bsr reg or disp8(reg), reg */
		return p[1] == 0xbd ? 2 + plain_operand(p + 2) : 0;
	case 0x8d:					/* lea n(%rsp), %rsp; lea memory, reg */
		if ((p[1] & 0x38) != 0x20 || rex & REX_R)
			return 1 + x86_operand_len(p + 1);
		if (p[1] == 0x64) {
			*pushed -= (s8)p[3];
			return 4;
		}
		*pushed -= load_s32(p + 3);
		return 7;
	case 0x8b:					/* mov memory, reg */
		return 1 + x86_operand_len(p + 1);
	case 0x01:					/* add reg, cell */
	case 0x29:					/* sub reg, cell */
	case 0x39:					/* cmp reg, to n(%rsp), reg or disp8(reg) */
	case 0x89:					/* mov reg, to stack or reg */
		if (p[1] >= 0xc0)
			return 2;
		if (p[1] >> 6 == 1)
			return (p[1] & 7) == 4 ? 4 : 3;
		return 7;
	case 0x63:					/* movslq */
		return 2;
	case 0x81:				/* op $imm32, reg, cell, disp8(reg) or n(%rsp) */
	case 0xc7:					/* mov $imm32, reg, cell or n(%rsp) */
		if (p[1] == 0x44)
			return 8;
		return p[1] >= 0xc0 ? 6 : p[1] >> 6 == 1 ? 7 : 11;
	case 0x83:					/* op $imm8, reg or memory */
		return 2 + x86_operand_len(p + 1);
	case 0x3d:					/* cmp $imm32, %rax */
		return 5;
	case 0xc1:					/* shift $imm8, reg */
		return 3;
	}
	return 0;
}

u32 x86_walk(const u8 *p, s32 *pushed)
{
	u32 rest;

	if ((p[0] & 0xf8) == 0x50) {			/* push reg */
		*pushed += 8;
		return 1;
	}
	if ((p[0] & 0xf8) == 0x58) {			/* pop reg */
		*pushed -= 8;
		return 1;
	}
	if ((p[0] & 0xf8) == 0xb8 || p[0] == 0x25)	/* mov $imm32, reg; and $imm32, %eax */
		return 5;
	if ((p[0] & REX_W) == REX_W && p[0] < 0x50) {
		rest = wide(p[0], p + 1, pushed);
		return rest ? rest + 1 : 0;
	}
	if ((p[0] & 0xf8) == REX) {
		rest = x86_walk(p + 1, pushed);
		return rest ? rest + 1 : 0;
	}
	switch (p[0]) {
	case PREFIX_CS:
	case PREFIX_GS:
	case PREFIX_LOCK:
		rest = x86_walk(p + 1, pushed);
		return rest ? rest + 1 : 0;
	case 0x9c:					/* pushf */
		*pushed += 8;
		return 1;
	case 0x9d:					/* popf */
		*pushed -= 8;
		return 1;
	case 0x68:					/* push $imm32 */
		*pushed += 8;
		return 5;
	case 0x6a:					/* push $imm8 */
		*pushed += 8;
		return 2;
	case 0xff:					/* push of an operand in memory */
		if ((p[1] & 0x38) != 0x30)
			return 0;
		*pushed += 8;
		return 1 + x86_operand_len(p + 1);
	case 0xfc:					/* cld */
		return 1;
	case 0xe8:					/* call */
		return 5;
	case 0xc1:					/* shift $imm8, %eax */
		return 3;
	case 0x75:					/* jne; taken, it leads to the same depth */
	case 0x7e:					/* jle; taken, it leads to the same depth */
		return 2;
	case 0x83:					/* cmp $imm8, reg32 or disp8(reg) */
		return 2 + plain_operand(p + 1);
	case 0x8b:					/* mov reg32 or memory, reg32 */
		return 1 + x86_operand_len(p + 1);
	case 0x0f:					/* jcc, not taken; seto %al */
		if (p[1] == 0x90)
			return 3;
		return (p[1] & 0xf0) == 0x80 ? 6 : 0;
	/* cmp $imm32, reg or disp8(reg); xorl $imm32, (%rsp) */
	case 0x81:
		return p[1] >= 0xc0 ? 6 : 7;
	case 0x9e:					/* sahf */
	case 0x9f:					/* lahf */
		return 1;
	case 0x04:					/* add $imm8, %al */
		return 2;
	case 0x3d:					/* cmp $imm32, %eax */
		return 5;
	case 0xf3:					/* endbr64 */
		return 4;
	}
	return 0;
}
