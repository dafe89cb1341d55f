// SPDX-License-Identifier: GPL-2.0
/* Liveness: code in, live flags and registers before each instruction out. */
#include "../../../engine/engine.h"
#include "../../../engine/instrument/ahead.h"
#include "../../../engine/instrument/liveness.h"
#include "../../../engine/decode/decode.h"
#include "../unit.h"

static u8 text[256];
static struct ir_block block;
static struct jifl_liveness live;

/* Decodes and computes; an insert makes it look past the block's end. */
static void compute(const void *bytes, u32 n, bool with_registers)
{
	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	memset(text, 0xcc, sizeof(text));
	memcpy(text, bytes, n);
	jifl_decode_block(jifl_orig_at((u64)(unsigned long)text), &block);
	ir_block_insert(&block, IR_ANYWHERE, 0);
	jifl_liveness_compute(&block, with_registers ? JIFL_LIVENESS_AHEAD : JIFL_LIVENESS_FLAGS,
			      &live);
}

#define COMPUTE(bytes, with_registers) compute(bytes, sizeof(bytes) - 1, with_registers)

UNIT_TEST(flags, "instrument/liveness: flags inside a block")
{
	/* mov; add; mov; adc; jne ... */
	COMPUTE("\x48\x89\xc3\x48\x01\xc3\x48\x89\xc3\x48\x11\xc3\x75\x00\xcc", false);
	CHECK_EQ(live.flags[0], 0);
	CHECK_EQ(live.flags[1], 0);
	CHECK_EQ(live.flags[2], IR_CF);
	CHECK_EQ(live.flags[3], IR_CF);
	CHECK(live.flags[4] & IR_ZF);
	CHECK_EQ(jifl_liveness_cheapest(&live, 0, block.ninsns - 1, false), 0);
	/* inc keeps cf: live up to the first if the end needs it */
	COMPUTE("\x48\xff\xc0\x48\xff\xc0\x72\x00\xcc", false);
	CHECK_EQ(live.flags[0], IR_CF);
	CHECK_EQ(live.flags[1], IR_CF);
	/* shl %cl may leave all as they were */
	COMPUTE("\x48\xd3\xe0\x74\x00\xcc", false);
	CHECK_EQ(live.flags[0], IR_FLAGS);
	/* je; je: zf before, in one block only the first */
	COMPUTE("\x48\x89\xc3\x74\x02\xcc\xcc", false);
	CHECK(live.flags[0] & IR_ZF);
	CHECK_EQ(jifl_liveness_cheapest(&live, 0, block.ninsns - 1, false), 0);
	/* setne; test; ret: cheapest is behind the setne */
	COMPUTE("\x0f\x95\xc0\x48\x85\xc0\xc3", false);
	CHECK_EQ(live.flags[0], IR_ZF);
	CHECK_EQ(live.flags[1], 0);
	CHECK_EQ(jifl_liveness_cheapest(&live, 0, block.ninsns - 1, false), 1);
}

UNIT_TEST(direction, "instrument/liveness: where strings run backwards")
{
	/* std; rep movsq; cld; test; ret */
	COMPUTE("\xfd\xf3\x48\xa5\xfc\x85\xc0\xc3", false);
	CHECK_EQ(live.flags[0] & IR_DF, 0);
	CHECK_EQ(live.flags[1] & IR_DF, IR_DF);
	CHECK_EQ(live.flags[2] & IR_DF, IR_DF);
	CHECK_EQ(live.flags[3] & IR_DF, 0);
	COMPUTE("\xfd\x90\xc3", false);
	CHECK_EQ(live.flags[3] & IR_DF, IR_DF);
}

UNIT_TEST(reading, "instrument/liveness: inserts that read a register")
{
	struct ir_insert *ins;

	/* nop; mov $1, %ecx; ret */
	COMPUTE("\x90\xb9\x01\0\0\0\xc3", true);
	CHECK(!(live.regs[1] & (1u << IR_RCX)));
	ins = ir_block_insert(&block, IR_AFTER, 0);
	ins->kind = IR_INSERT_ADD_REG;
	ins->reg = IR_RCX;
	jifl_liveness_compute(&block, JIFL_LIVENESS_AHEAD, &live);
	CHECK(live.regs[1] & (1u << IR_RCX));
	CHECK(live.regs[0] & (1u << IR_RCX));
	/* The same of what is counted, and of conditions. */
	ins->kind = IR_INSERT_HIST;
	ins->value = (struct ir_source){ .width = 8, .reg = IR_RCX };
	jifl_liveness_compute(&block, JIFL_LIVENESS_AHEAD, &live);
	CHECK(live.regs[1] & (1u << IR_RCX));
	ins->kind = IR_INSERT_STORE;
	ins->value = (struct ir_source){ 0 };
	jifl_liveness_compute(&block, JIFL_LIVENESS_AHEAD, &live);
	CHECK(!(live.regs[1] & (1u << IR_RCX)));
	ins->when = (struct ir_source){ .width = 4, .reg = IR_RCX };
	jifl_liveness_compute(&block, JIFL_LIVENESS_AHEAD, &live);
	CHECK(live.regs[1] & (1u << IR_RCX));
}

/* Behind a branch that is taken what its target needs is live, and no more. */
UNIT_TEST(taken, "instrument/liveness: on the edge of a branch that is taken")
{
	struct ir_insert *ins;

	/* je 1f; adc %rcx, %rbx; ret; 1: mov $1, %ecx; add %rcx, %rbx; ret */
	COMPUTE("\x74\x04\x48\x11\xcb\xc3\xb9\x01\0\0\0\x48\x01\xcb\xc3", true);
	ins = ir_block_insert(&block, IR_TAKEN, 0);
	ins->kind = IR_INSERT_ADD;
	jifl_liveness_compute(&block, JIFL_LIVENESS_AHEAD, &live);
	CHECK_EQ(live.flags[1], IR_CF);
	CHECK_EQ(live.flags[2], 0);
	CHECK(live.regs[1] & (1u << IR_RCX));
	CHECK(!(live.regs[2] & (1u << IR_RCX)));
	/* What an insert there reads is live, there and before the branch. */
	ins->kind = IR_INSERT_ADD_REG;
	ins->reg = IR_RCX;
	jifl_liveness_compute(&block, JIFL_LIVENESS_AHEAD, &live);
	CHECK(live.regs[2] & (1u << IR_RCX));
	CHECK(live.regs[0] & (1u << IR_RCX));
	/* What is shown all registers there is shown the flags as the branch has them. */
	ins->kind = IR_INSERT_CALL;
	ins->nargs = 1;
	ins->fetched = 1;
	ins->fetches[0] = (struct ir_fetch){ .how = IR_FETCH_CONTEXT };
	jifl_liveness_compute(&block, JIFL_LIVENESS_AHEAD, &live);
	CHECK_EQ(live.flags[0], IR_FLAGS);
}

UNIT_TEST(ends, "instrument/liveness: flags at the ends of blocks")
{
	/* Nothing is known of what is behind an int3. */
	COMPUTE("\x48\x89\xc3\xcc", false);
	CHECK_EQ(live.flags[0], IR_FLAGS);
	/* At calls, returns and indirect jumps flags have no value. */
	COMPUTE("\x48\x89\xc3\xe8\0\0\0\0\xcc", false);
	CHECK_EQ(live.flags[0], 0);
	COMPUTE("\x48\x89\xc3\xc3", false);
	CHECK_EQ(live.flags[0], 0);
	COMPUTE("\x48\x89\xc3\xff\xe0", false);
	CHECK_EQ(live.flags[0], 0);
	COMPUTE("\x48\x89\xc3\xff\x10\xcc", false);
	CHECK_EQ(live.flags[0], 0);
	/* mov; je 1f; add: dead one way; 1: adc: carry the other */
	COMPUTE("\x48\x89\xc3\x74\x04\x48\x01\xc3\xc3\x48\x11\xc3\xc3", false);
	CHECK_EQ(live.flags[0], IR_ZF | IR_CF);
	CHECK_EQ(live.flags[2], IR_CF);
	/* mov; jmp 1f; 1: je 2f; add; ret; 2: adc: the same behind a jump */
	COMPUTE("\x48\x89\xc3\xeb\x00\x74\x04\x48\x01\xc3\xc3\x48\x11\xc3\xc3", false);
	CHECK_EQ(live.flags[0], IR_ZF | IR_CF);
	/* mov; jmp to itself: no flag is ever read, but liveness cannot tell */
	COMPUTE("\x48\x89\xc3\xeb\xfe", false);
	CHECK_EQ(live.flags[0], IR_FLAGS);
	/* jrcxz reads none itself */
	COMPUTE("\x48\x89\xc3\xe3\x01\xc3\xc3", false);
	CHECK_EQ(live.flags[0], 0);
	/* Over nops and jumps: nop; jmp; add. */
	COMPUTE("\x48\x89\xc3\xeb\x01\xcc\x90\xeb\x01\xcc\x48\x01\xc3\xc3", false);
	CHECK_EQ(live.flags[0], 0);
	/* A dozen of moves is further than it looks. */
	COMPUTE("\x48\x89\xc3\xeb\x00\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x48\x01\xc3",
		false);
	CHECK_EQ(live.flags[0], IR_FLAGS);
	/* A loop: nested conditional branches end somewhere. */
	COMPUTE("\x48\x89\xc3\x74\xfb\x74\xf9\x74\xf7\x74\xf5\xc3", false);
	CHECK_EQ(live.flags[0], IR_FLAGS);
}

#define R(reg) (1u << IR_##reg)

UNIT_TEST(registers, "instrument/liveness: registers")
{
	/* mov %rax, %rcx; lea (%rcx), %rdx; xor %eax, %eax; mov %eax, %r8d; ret */
	COMPUTE("\x48\x89\xc1\x48\x8d\x11\x31\xc0\x41\x89\xc0\xc3", true);
	CHECK(live.regs[0] & R(RAX), "read by the first");
	CHECK(!(live.regs[0] & (R(RCX) | R(RDX) | R(R8))), "%#x", live.regs[0]);
	CHECK(live.regs[1] & R(RCX));
	CHECK(!(live.regs[1] & R(RDX)));
	CHECK(live.regs[2] & R(RDX));
	CHECK(!(live.regs[3] & R(R8)));
	CHECK(live.regs[4] & R(R8));
	/* All are live at the end: assembly keeps to no convention. */
	CHECK_EQ(live.regs[5], 0xffff);
	/* A part of a register does not end it. */
	COMPUTE("\xb0\x01\x66\xb9\x02\x00\xc3", true);
	CHECK_EQ(live.regs[0] & (R(RAX) | R(RCX)), R(RAX) | R(RCX));
	/* mov $0, %ecx; mov %rcx, %rax; bsf keeps its destination for 0 */
	COMPUTE("\x48\x0f\xbc\xd0\x31\xc0\xc3", true);
	CHECK(live.regs[0] & R(RDX));
	/* mov (%rsi), %rax; mov $5, %ecx: a fault may go on where rcx counts */
	COMPUTE("\x48\x89\xd7\x48\x8b\x06\xb9\x05\0\0\0\xc3", true);
	CHECK(!(live.regs[0] & R(RDI)), "rdi is dead before it is written");
	CHECK_EQ(live.regs[1], 0xffff);
	CHECK(!(live.regs[2] & R(RCX)), "behind the load rcx is dead");
	/* Not asked for: all. */
	COMPUTE("\x48\x89\xc1\xc3", false);
	CHECK_EQ(jifl_liveness_regs(&live, 0), 0xffff);
}

/* --- beyond the block --------------------------------------------------------------------- */

UNIT_TEST(ahead, "instrument/liveness: registers beyond the block")
{
	/* mov %rsp, %rbp; je 1f; both ways: xor %ecx, %ecx; rdx one way only */
	COMPUTE("\x48\x89\xe5\x74\x05\x31\xc9\x31\xd2\xcc\x31\xc9\xcc", true);
	CHECK(!(live.regs[2] & R(RCX)));
	CHECK(live.regs[2] & R(RDX));
	/* jmp 1f; add %rdi, %rsi; 1: xor %ecx, %ecx; a jump label may hide what is next to it */
	COMPUTE("\xeb\x03\x48\x01\xfe\x31\xc9\x31\xff\xcc", true);
	CHECK(!(live.regs[0] & R(RCX)));
	CHECK(live.regs[0] & R(RDI), "read where the jump may not be");
	/* jmp with 32 bits: a static call may get another target, with other arguments */
	COMPUTE("\xe9\x02\0\0\0\x31\xc0\x31\xc9\x31\xc0\xcc", true);
	CHECK(!(live.regs[0] & R(RAX)));
	CHECK(live.regs[0] & R(RCX));
	/*
	 * je with 32 bits: its target counts as the jmp's above; the code behind it counts as it
	 * is
	 */
	COMPUTE("\x0f\x84\x05\0\0\0\x31\xc0\x31\xc9\xcc\x31\xc9\x31\xc0\xcc", true);
	CHECK(!(live.regs[0] & R(RAX)));
	CHECK(live.regs[0] & R(RCX));
	/* 12 moves and then xor %ecx, %ecx are further than it looks. */
	COMPUTE("\xeb\x00\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x50\x31\xc9\xcc", true);
	CHECK(live.regs[0] & R(RCX));
	/* A fault behind the block may go on where anything is needed. */
	COMPUTE("\x74\x00\x48\x8b\x06\x31\xc9\xcc", true);
	CHECK_EQ(live.regs[0], 0xffff);
	/* jrcxz reads rcx; behind it r8 is dead both ways */
	COMPUTE("\xe3\x00\x45\x31\xc0\xcc", true);
	CHECK(live.regs[0] & R(RCX));
	CHECK(!(live.regs[0] & R(R8)));
	/* Returns, indirect branches, int3: nothing is known. */
	COMPUTE("\xeb\x00\xc3\xc3", true);
	CHECK_EQ(live.regs[0], 0xffff);
	COMPUTE("\xeb\x00\xff\xd0\xcc", true);
	CHECK_EQ(live.regs[0], 0xffff);
	COMPUTE("\xeb\x00\xcc\xcc", true);
	CHECK_EQ(live.regs[0], 0xffff);
}

UNIT_TEST(changing, "instrument/liveness: registers where text may change")
{
	/* mov $0, %ecx kills it, but nops of 2 and 5 bytes may become jumps */
	COMPUTE("\x66\x90\xb9\0\0\0\0\xc3", true);
	CHECK_EQ(live.regs[0], 0xffff);
	CHECK(!(live.regs[1] & R(RCX)));
	COMPUTE("\x0f\x1f\x44\0\0\xb9\0\0\0\0\xc3", true);
	CHECK_EQ(live.regs[0], 0xffff);
	/* what a static call that returns 0 becomes */
	COMPUTE("\x2e\x2e\x2e\x31\xc0\xb9\0\0\0\0\xc3", true);
	CHECK_EQ(live.regs[0], 0xffff);
	/* of other lengths they stay nops */
	COMPUTE("\x90\x0f\x1f\x00\x0f\x1f\x40\x00\x66\x0f\x1f\x44\0\0\xb9\0\0\0\0\xc3", true);
	CHECK(!(live.regs[0] & R(RCX)));
	/* the same behind the block */
	COMPUTE("\x74\x00\x66\x90\x31\xc9\xcc", true);
	CHECK_EQ(live.regs[0], 0xffff);
	/* flags are dead at all of these, whatever stands there: mov; je 1f; 1: nop; add; ret */
	COMPUTE("\xeb\x00\x0f\x1f\x44\0\0\x48\x01\xc3\xc3", true);
	CHECK_EQ(live.flags[0], 0);
}

UNIT_TEST(calls, "instrument/liveness: registers at calls")
{
	const u16 no_argument = R(RAX) | R(R10) | R(R11);

	/* call 1f; int3; 1: endbr64; nopl of 5 bytes: compiled code, if all of that begins so */
	static const char compiled[] = "\xe8\x01\0\0\0\xcc\xf3\x0f\x1e\xfa\x0f\x1f\x44\0\0\xc3";
	static const char assembly[] = "\xe8\x01\0\0\0\xcc\x31\xc0\x0f\x1f\x44\0\0\xc3";

	COMPUTE(compiled, true);
	CHECK_EQ(live.regs[0], 0xffff);
	jifl_ahead_set_fentry(true);
	jifl_liveness_compute(&block, JIFL_LIVENESS_AHEAD, &live);
	CHECK_EQ(live.regs[0], (u16)~no_argument);
	/* The same without endbr64. */
	memcpy(text + 6, "\x0f\x1f\x44\0\0\xc3", 6);
	jifl_liveness_compute(&block, JIFL_LIVENESS_AHEAD, &live);
	CHECK_EQ(live.regs[0], (u16)~no_argument);
	COMPUTE(assembly, true);
	jifl_ahead_set_fentry(true);
	jifl_liveness_compute(&block, JIFL_LIVENESS_AHEAD, &live);
	CHECK_EQ(live.regs[0], 0xffff);
}

UNIT_TEST(result_in_flags, "instrument/liveness: flags that are given back")
{
	/* popf; ret: as in this_cpu_cmpxchg16b_emu */
	COMPUTE("\x9d\xc3", false);
	CHECK_EQ(live.flags[0], 0);
	CHECK_EQ(live.flags[1], IR_FLAGS);
	/* popf; pop %rax; ret: interrupts on again */
	COMPUTE("\x9d\x58\xc3", false);
	CHECK_EQ(live.flags[1], 0);
	/* push; popf; call *%rax runs natively: flags go in, and come back */
	COMPUTE("\x57\x9d\xff\xd0\x9c\xcc", false);
	CHECK_EQ(block.ninsns, 1);
	/* with lfence, as some processors want it */
	COMPUTE("\x57\x9d\x0f\xae\xe8\xff\xd0\x9c\xcc", false);
	CHECK_EQ(block.ninsns, 1);
	COMPUTE("\x57\x9d\x58\xff\xd0\xcc", false);
	CHECK_EQ(block.ninsns, 4);
}

UNIT_TEST(counted, "instrument/liveness: flags and shifts by a constant")
{
	/* mov; shl $3; 32 is no shift, 0 neither; rol keeps zf; by one */
	COMPUTE("\x48\x89\xc3\x48\xc1\xe0\x03\x74\x00\xcc", false);
	CHECK_EQ(live.flags[0], 0);
	COMPUTE("\x89\xc3\xc1\xe0\x20\x74\x00\xcc", false);
	CHECK_EQ(live.flags[0], IR_FLAGS);
	COMPUTE("\x89\xc3\xc1\xe0\x00\x74\x00\xcc", false);
	CHECK_EQ(live.flags[0], IR_FLAGS);
	COMPUTE("\x89\xc3\xc1\xc0\x03\x74\x00\xcc", false);
	CHECK_EQ(live.flags[0], IR_FLAGS);
	COMPUTE("\x89\xc3\xd1\xe0\x74\x00\xcc", false);
	CHECK_EQ(live.flags[0], 0);
}

UNIT_TEST(unnamed, "instrument/liveness: instructions that take registers of their choice")
{
	/* vmcall, vmmcall, wrmsr; mov $0, %ebx */
	COMPUTE("\x0f\x01\xc1\xbb\0\0\0\0\xc3", true);
	CHECK_EQ(live.regs[0], 0xffff);
	COMPUTE("\x0f\x01\xd9\xbb\0\0\0\0\xc3", true);
	CHECK_EQ(live.regs[0], 0xffff);
	COMPUTE("\x0f\x30\xbb\0\0\0\0\xc3", true);
	CHECK_EQ(live.regs[0], 0xffff);
}

UNIT_TEST(memory, "instrument/liveness: what was seen ahead is remembered until text changes")
{
	/* mov; je 1f; cut; 1: all before one of 6, then add */
	static const char before[] = "\x48\x89\xc3\xeb\x00\x48\x01\xc3\xc3";

	COMPUTE(before, false);
	CHECK_EQ(live.flags[0], 0);
	memcpy(text + 5, "\x48\x11\xc3", 3);	/* adc: reads the carry */
	jifl_liveness_compute(&block, JIFL_LIVENESS_FLAGS, &live);
	CHECK_EQ(live.flags[0], 0);
	jifl_engine_invalidate(jifl_orig_at((u64)(unsigned long)text + 5), 3);
	jifl_liveness_compute(&block, JIFL_LIVENESS_FLAGS, &live);
	CHECK_EQ(live.flags[0], IR_CF);
}

UNIT_TEST(cheapest, "instrument/liveness: the cheapest place")
{
	/* seto; adc; ret: nothing is live behind both; a call looks at registers, too */
	COMPUTE("\x0f\x90\xc0\x11\xd8\xc3", false);
	CHECK_EQ(live.flags[0], IR_OF | IR_CF);
	CHECK_EQ(live.flags[1], IR_CF);
	CHECK_EQ(live.flags[2], 0);
	CHECK_EQ(jifl_liveness_cheapest(&live, 0, block.ninsns - 1, false), 2);
	/* push %rax; push %rcx; xor both: behind the pushes they are dead */
	COMPUTE("\x50\x51\x31\xc0\x31\xc9\xc3", true);
	CHECK_EQ(jifl_liveness_cheapest(&live, 0, block.ninsns - 1, false), 0);
	CHECK_EQ(jifl_liveness_cheapest(&live, 0, block.ninsns - 1, true), 2);
	CHECK_EQ(jifl_liveness_cheapest(&live, 1, 1, true), 1);
}
