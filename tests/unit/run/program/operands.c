// SPDX-License-Identifier: GPL-2.0
/* Operands of the program's instructions (draft.h): registers, and memory in all its modes. */
#include "draft.h"

struct operand operand_reg(u8 reg)
{
	return (struct operand){ .reg = reg };
}

struct operand operand_mem(void)
{
	return (struct operand){ .memory = true, .mode = rnd(6), .offset = rnd(DATA_USED - 64) };
}

u8 operand_base_bit(const struct operand *op)
{
	if (!op->memory)
		return op->reg >> 3;
	return op->mode <= 2;		/* r15 */
}

void operand_modrm(u8 reg, const struct operand *op, u32 behind)
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
