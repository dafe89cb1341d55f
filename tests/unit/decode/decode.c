// SPDX-License-Identifier: GPL-2.0
/* The meaning of instructions for translation: bytes in, fields of struct ir_insn out. */
#include "../../../engine/decode/decode.h"
#include "../unit.h"

/* Instructions under test stand here; what follows them is int3. */
static u8 text[256];

static void put(u32 at, const void *bytes, u32 n)
{
	memset(text + at, 0xcc, sizeof(text) - at);
	memcpy(text + at, bytes, n);
}

static jifl_orig at(u32 offset)
{
	return jifl_orig_at((u64)(unsigned long)text + offset);
}

static void begin(void)
{
	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
}

#define BYTES(s) (s), sizeof(s) - 1

struct kind_case {
	const char *asm_text;
	const char *bytes;
	u8 n;
	u8 kind;
	u8 cause;		/* IR_NATIVE */
};

static const struct kind_case kinds[] = {
	{ "mov %rax, %rbx", BYTES("\x48\x89\xc3"), IR_PLAIN, 0 },
	{ "nop", BYTES("\x90"), IR_NOP, 0 },
	{ "data16 nop", BYTES("\x66\x90"), IR_NOP, 0 },
	{ "nopl 0(%rax,%rax)", BYTES("\x0f\x1f\x44\0\0"), IR_NOP, 0 },
	{ "nopw cs: 0(%rax,%rax)", BYTES("\x66\x2e\x0f\x1f\x84\0\0\0\0\0"), IR_NOP, 0 },
	{ "endbr64", BYTES("\xf3\x0f\x1e\xfa"), IR_NOP, 0 },
	{ "xchg %rax, %r8", BYTES("\x49\x90"), IR_PLAIN, 0 },
	{ "pause", BYTES("\xf3\x90"), IR_PLAIN, 0 },
	{ "jmp short", BYTES("\xeb\x10"), IR_JMP, 0 },
	{ "jmp near", BYTES("\xe9\x10\0\0\0"), IR_JMP, 0 },
	{ "jne short", BYTES("\x75\x10"), IR_JCC, 0 },
	{ "js near", BYTES("\x0f\x88\x10\0\0\0"), IR_JCC, 0 },
	{ "je near with cs", BYTES("\x2e\x0f\x84\x10\0\0\0"), IR_JCC, 0 },
	{ "jrcxz", BYTES("\xe3\x10"), IR_JCXZ, 0 },
	{ "jecxz", BYTES("\x67\xe3\x10"), IR_JCXZ, 0 },
	{ "loop", BYTES("\xe2\x10"), IR_JCXZ, 0 },
	{ "loopne", BYTES("\xe0\x10"), IR_JCXZ, 0 },
	{ "call near", BYTES("\xe8\x10\0\0\0"), IR_CALL, 0 },
	{ "ret", BYTES("\xc3"), IR_RET, 0 },
	{ "rep ret", BYTES("\xf3\xc3"), IR_RET, 0 },
	{ "ret $8", BYTES("\xc2\x08\0"), IR_RET, 0 },
	{ "jmp *%rax", BYTES("\xff\xe0"), IR_JMP_IND, 0 },
	{ "notrack jmp *%r9", BYTES("\x3e\x41\xff\xe1"), IR_JMP_IND, 0 },
	{ "jmp *(%rax)", BYTES("\xff\x20"), IR_JMP_IND, 0 },
	{ "call *%r15", BYTES("\x41\xff\xd7"), IR_CALL_IND, 0 },
	{ "call *0(%rip)", BYTES("\xff\x15\0\0\0\0"), IR_CALL_IND, 0 },
	{ "jmp *%rsp", BYTES("\xff\xe4"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	{ "ud2", BYTES("\x0f\x0b"), IR_NATIVE, JIFL_CAUSE_UD2 },
	{ "ud1 %eax, %eax", BYTES("\x0f\xb9\xc0"), IR_NATIVE, JIFL_CAUSE_UD2 },
	{ "int3", BYTES("\xcc"), IR_NATIVE, JIFL_CAUSE_INT3 },
	{ "int $0x80", BYTES("\xcd\x80"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	{ "iretq", BYTES("\x48\xcf"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	{ "lretq", BYTES("\x48\xcb"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	{ "ljmp *(%rax)", BYTES("\xff\x28"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	{ "lcall *(%rax)", BYTES("\xff\x18"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	{ "syscall", BYTES("\x0f\x05"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	{ "sysretq", BYTES("\x48\x0f\x07"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	{ "swapgs", BYTES("\x0f\x01\xf8"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	{ "mov %ax, %ss", BYTES("\x8e\xd0"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	{ "mov %eax, %gs", BYTES("\x8e\xe8"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	{ "pop %gs", BYTES("\x0f\xa9"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	{ "mov %eax, %ds", BYTES("\x8e\xd8"), IR_PLAIN, 0 },
	{ "mov %eax, %fs", BYTES("\x8e\xe0"), IR_PLAIN, 0 },
	{ "xbegin", BYTES("\xc7\xf8\0\0\0\0"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	/* In the branches' categories, but they only look like them. */
	{ "xabort $1", BYTES("\xc6\xf8\x01"), IR_PLAIN, 0 },
	{ "xend", BYTES("\x0f\x01\xd5"), IR_PLAIN, 0 },
	{ "wrgsbase %rax", BYTES("\xf3\x48\x0f\xae\xd8"), IR_NATIVE, JIFL_CAUSE_PRIVILEGED },
	{ "mov %ds, %eax", BYTES("\x8c\xd8"), IR_PLAIN, 0 },
	{ "mov %rax, %cr3", BYTES("\x0f\x22\xd8"), IR_PLAIN, 0 },
	{ "push %es in 64 bits", BYTES("\x06"), IR_NATIVE, JIFL_CAUSE_UNDECODED },
	{ "mov 0(%eip), %eax", BYTES("\x67\x8b\x05\0\0\0\0"), IR_NATIVE, JIFL_CAUSE_UNDECODED },
	{ "mov (%eax), %eax", BYTES("\x67\x8b\x00"), IR_PLAIN, 0 },
	/* the stack pointer replaced, and used */
	{ "mov %rax, %rsp", BYTES("\x48\x89\xc4"), IR_NATIVE, JIFL_CAUSE_STACK },
	{ "mov %r8, %rsp", BYTES("\x49\x8b\xe0"), IR_NATIVE, JIFL_CAUSE_STACK },
	{ "mov (%rax), %rsp", BYTES("\x48\x8b\x20"), IR_NATIVE, JIFL_CAUSE_STACK },
	{ "mov $1, %rsp", BYTES("\x48\xc7\xc4\x01\0\0\0"), IR_NATIVE, JIFL_CAUSE_STACK },
	{ "mov $1, %esp", BYTES("\xbc\x01\0\0\0"), IR_NATIVE, JIFL_CAUSE_STACK },
	{ "pop %rsp", BYTES("\x5c"), IR_NATIVE, JIFL_CAUSE_STACK },
	{ "pop %r12", BYTES("\x41\x5c"), IR_PLAIN, 0 },
	{ "xchg %rax, %rsp", BYTES("\x48\x94"), IR_NATIVE, JIFL_CAUSE_STACK },
	{ "lea 8(%r10), %rsp", BYTES("\x49\x8d\x62\x08"), IR_PLAIN, 0 },
	{ "mov %rbp, %rsp", BYTES("\x48\x89\xec"), IR_PLAIN, 0 },
	{ "mov %r13, %rsp", BYTES("\x4c\x89\xec"), IR_NATIVE, JIFL_CAUSE_STACK },
	{ "mov %rsp, %rax", BYTES("\x48\x89\xe0"), IR_PLAIN, 0 },
	{ "mov %rax, %r12", BYTES("\x49\x89\xc4"), IR_PLAIN, 0 },
	{ "mov %rsp, (%rdi)", BYTES("\x48\x89\x27"), IR_PLAIN, 0 },
	{ "lea -0x28(%rbp), %rsp", BYTES("\x48\x8d\x65\xd8"), IR_PLAIN, 0 },
	{ "lea 8(%rsp), %rsp", BYTES("\x48\x8d\x64\x24\x08"), IR_PLAIN, 0 },
	{ "sub $8, %rsp", BYTES("\x48\x83\xec\x08"), IR_PLAIN, 0 },
	{ "and $-16, %rsp", BYTES("\x48\x83\xe4\xf0"), IR_PLAIN, 0 },
	{ "leave", BYTES("\xc9"), IR_PLAIN, 0 },
	{ "rep movsb", BYTES("\xf3\xa4"), IR_PLAIN, 0 },
	{ "vmovdqu 0(%rip), %ymm0", BYTES("\xc5\xfe\x6f\x05\0\0\0\0"), IR_PLAIN, 0 },
};

UNIT_TEST(kind, "decode/decode: kinds and causes")
{
	struct ir_insn insn;
	u32 i;

	begin();
	for (i = 0; i < JIFL_ARRAY_LEN(kinds); i++) {
		put(0, kinds[i].bytes, kinds[i].n);
		jifl_decode_insn(at(0), &insn);
		CHECK(insn.kind == kinds[i].kind && insn.cause == kinds[i].cause,
		      "%s: kind %u, cause %u", kinds[i].asm_text, insn.kind, insn.cause);
		CHECK(insn.len == kinds[i].n || kinds[i].cause == JIFL_CAUSE_UNDECODED,
		      "%s: length %u", kinds[i].asm_text, insn.len);
	}
}

/* The host knows the frame. */
UNIT_TEST(kept, "decode/decode: moves of the stack pointer within a frame")
{
	struct ir_insn insn;
	bool kept;
	u32 i;

	begin();
	user_host_keeps_stack = true;
	for (i = 0; i < JIFL_ARRAY_LEN(kinds); i++) {
		put(0, kinds[i].bytes, kinds[i].n);
		jifl_decode_insn(at(0), &insn);
		kept = kinds[i].cause == JIFL_CAUSE_STACK && kinds[i].n == 3 &&
		       !strncmp(kinds[i].asm_text, "mov %", 5);
		CHECK(insn.kind == (kept ? IR_PLAIN : kinds[i].kind), "%s: kind %u",
		      kinds[i].asm_text, insn.kind);
	}
	user_host_keeps_stack = false;
}

UNIT_TEST(fields, "decode/decode: targets, condition codes, registers, operands' places")
{
	struct ir_insn insn;

	begin();
	put(16, BYTES("\xeb\xfe"));
	jifl_decode_insn(at(16), &insn);
	CHECK_EQ(insn.target.v, at(16).v);
	put(16, BYTES("\x0f\x8f\x20\0\0\0"));
	jifl_decode_insn(at(16), &insn);
	CHECK_EQ(insn.target.v, at(16 + 6 + 32).v);
	CHECK_EQ(insn.cc, 0xf);
	put(16, BYTES("\x7e\x02"));
	jifl_decode_insn(at(16), &insn);
	CHECK_EQ(insn.cc, 0xe);
	put(16, BYTES("\x41\xff\xd4"));
	jifl_decode_insn(at(16), &insn);
	CHECK_EQ(insn.reg, IR_R12);
	put(16, BYTES("\x41\xff\x14\x24"));	/* call *(%r12) */
	jifl_decode_insn(at(16), &insn);
	CHECK_EQ(insn.reg, IR_REG_NONE);
	CHECK_EQ(insn.modrm_at, 2);
	CHECK_EQ(insn.disp_at, 0);
	put(16, BYTES("\x48\xc7\x05\x11\x22\0\0\x01\0\0\0")); /* movq $1, 0x2211(%rip) */
	jifl_decode_insn(at(16), &insn);
	CHECK_EQ(insn.modrm_at, 2);
	CHECK_EQ(insn.disp_at, 3);
	put(16, BYTES("\x62\xf1\x7c\x48\x10\x05\x40\0\0\0")); /* vmovups 64(%rip), %zmm0 */
	jifl_decode_insn(at(16), &insn);
	CHECK_EQ(insn.disp_at, 6);
	put(16, BYTES("\x8b\x04\x25\x40\0\0\0"));	/* mov 64, %eax: absolute */
	jifl_decode_insn(at(16), &insn);
	CHECK_EQ(insn.disp_at, 0);
}

#define NOT_ZF (IR_FLAGS & ~IR_ZF)
#define NOT_CF (IR_FLAGS & ~IR_CF)

static const struct {
	const char *asm_text;
	const char *bytes;
	u8 n;
	u8 read, written;
} flags[] = {
	{ "mov", BYTES("\x48\x89\xc3"), 0, 0 },
	{ "lea", BYTES("\x48\x8d\x04\x11"), 0, 0 },
	{ "add", BYTES("\x48\x01\xc3"), 0, IR_FLAGS },
	{ "inc", BYTES("\x48\xff\xc0"), 0, NOT_CF },
	{ "adc", BYTES("\x48\x11\xc3"), IR_CF, IR_FLAGS },
	{ "and: af undefined", BYTES("\x48\x21\xc3"), 0, IR_FLAGS },
	{ "xor", BYTES("\x31\xc0"), 0, IR_FLAGS },
	{ "not", BYTES("\x48\xf7\xd0"), 0, 0 },
	{ "neg", BYTES("\x48\xf7\xd8"), 0, IR_FLAGS },
	{ "test", BYTES("\x48\x85\xc0"), 0, IR_FLAGS },
	{ "imul", BYTES("\x48\x0f\xaf\xc3"), 0, IR_FLAGS },
	{ "div: all undefined", BYTES("\x48\xf7\xf3"), 0, IR_FLAGS },
	{ "clc", BYTES("\xf8"), 0, IR_CF },
	{ "cmc", BYTES("\xf5"), IR_CF, IR_CF },
	{ "sete", BYTES("\x0f\x94\xc0"), IR_ZF, 0 },
	{ "cmova", BYTES("\x48\x0f\x47\xc3"), IR_CF | IR_ZF, 0 },
	{ "jg", BYTES("\x7f\x00"), IR_ZF | IR_SF | IR_OF, 0 },
	{ "jp", BYTES("\x7a\x00"), IR_PF, 0 },
	{ "loopne", BYTES("\xe0\x00"), IR_ZF, 0 },
	{ "jrcxz", BYTES("\xe3\x00"), 0, 0 },
	{ "pushf", BYTES("\x9c"), IR_FLAGS, 0 },
	{ "popf", BYTES("\x9d"), 0, IR_FLAGS },
	{ "lahf", BYTES("\x9f"), IR_FLAGS & ~IR_OF, 0 },
	{ "sahf", BYTES("\x9e"), 0, IR_FLAGS & ~IR_OF },
	{ "cmpxchg", BYTES("\x48\x0f\xb1\x0f"), 0, IR_FLAGS },
	{ "cmpxchg16b", BYTES("\x48\x0f\xc7\x0f"), 0, IR_ZF },
	{ "bt: others undefined but zf", BYTES("\x48\x0f\xa3\xc3"), 0, NOT_ZF },
	/* A count of zero leaves them alone. */
	{ "shl %cl", BYTES("\x48\xd3\xe0"), IR_FLAGS, 0 },
	{ "shld %cl", BYTES("\x48\x0f\xa5\xc3"), IR_FLAGS, 0 },
	{ "rcr %cl", BYTES("\x48\xd3\xd8"), IR_CF | IR_OF, 0 },
	{ "rep movsb", BYTES("\xf3\xa4"), 0, 0 },
	{ "repe cmpsb", BYTES("\xf3\xa6"), IR_FLAGS, 0 },
	{ "cmpsb", BYTES("\xa6"), 0, IR_FLAGS },
	{ "shlx", BYTES("\xc4\xe2\xf1\xf7\xc3"), 0, 0 },
	{ "ucomisd", BYTES("\x66\x0f\x2e\xc1"), 0, IR_FLAGS },
};

UNIT_TEST(flag, "decode/decode: flags read and written")
{
	struct ir_insn insn;
	u32 i;

	begin();
	for (i = 0; i < JIFL_ARRAY_LEN(flags); i++) {
		put(0, flags[i].bytes, flags[i].n);
		jifl_decode_insn(at(0), &insn);
		CHECK(insn.flags_read == flags[i].read && insn.flags_written == flags[i].written,
		      "%s: reads %#x, writes %#x", flags[i].asm_text, insn.flags_read,
		      insn.flags_written);
	}
}

#define R(reg) (1u << IR_##reg)

static const struct {
	const char *asm_text;
	const char *bytes;
	u8 n;
	u16 read, written;	/* rsp and what else is implied: as listed */
} regs[] = {
	{ "mov %rax, %rbx", BYTES("\x48\x89\xc3"), R(RAX), R(RBX) },
	{ "mov %eax, %ebx: whole", BYTES("\x89\xc3"), R(RAX), R(RBX) },
	{ "mov %ax, %bx: part", BYTES("\x66\x89\xc3"), R(RAX) | R(RBX), 0 },
	{ "mov %ah, %bh", BYTES("\x88\xe7"), R(RAX) | R(RBX), 0 },
	/* After a fault it may go on where every register counts. */
	{ "mov 8(%rsi,%r9,2), %r10", BYTES("\x4e\x8b\x54\x4e\x08"), 0xffff, 0 },
	{ "mov %r10, (%rdi)", BYTES("\x4c\x89\x17"), 0xffff, 0 },
	{ "mov table(,%rax,8), %rcx", BYTES("\x48\x8b\x0c\xc5\0\0\0\0"), 0xffff, 0 },
	{ "mov 8(%rsp), %r10", BYTES("\x4c\x8b\x54\x24\x08"), R(RSP), R(R10) },
	{ "mov 0(%rip), %rax", BYTES("\x48\x8b\x05\0\0\0\0"), 0, R(RAX) },
	{ "mov %gs:0, %rax", BYTES("\x65\x48\x8b\x04\x25\0\0\0\0"), 0, R(RAX) },
	{ "add %rcx, %rdx", BYTES("\x48\x01\xca"), R(RCX) | R(RDX), R(RDX) },
	{ "lea (%rcx,%rdx), %rcx", BYTES("\x48\x8d\x0c\x11"), R(RCX) | R(RDX), R(RCX) },
	{ "cmove %rcx, %rdx", BYTES("\x48\x0f\x44\xd1"), R(RCX) | R(RDX), 0 },
	{ "sete %al", BYTES("\x0f\x94\xc0"), R(RAX), 0 },
	{ "movzbl %al, %ecx", BYTES("\x0f\xb6\xc8"), R(RAX), R(RCX) },
	{ "mul %rcx", BYTES("\x48\xf7\xe1"), R(RAX) | R(RCX), R(RAX) | R(RDX) },
	{ "div %rcx", BYTES("\x48\xf7\xf1"), R(RAX) | R(RCX) | R(RDX), R(RAX) | R(RDX) },
	{ "cqto", BYTES("\x48\x99"), R(RAX), R(RDX) },
	{ "shl %cl, %rax", BYTES("\x48\xd3\xe0"), R(RCX) | R(RAX), R(RAX) },
	{ "rep movsq", BYTES("\xf3\x48\xa5"), 0xffff, 0 },
	{ "cpuid", BYTES("\x0f\xa2"), R(RAX) | R(RCX), R(RAX) | R(RBX) | R(RCX) | R(RDX) },
	{ "rdtsc", BYTES("\x0f\x31"), 0xffff, 0 },
	{ "xchg %rax, %rcx", BYTES("\x48\x91"), R(RAX) | R(RCX), R(RAX) | R(RCX) },
	{ "push %rax", BYTES("\x50"), R(RAX) | R(RSP), R(RSP) },
	{ "pop %rcx", BYTES("\x59"), R(RSP), R(RCX) | R(RSP) },
	/* The destination stays when the source is 0, and kernels count on it. */
	{ "bsf %rax, %rcx", BYTES("\x48\x0f\xbc\xc8"), R(RAX) | R(RCX), 0 },
	{ "bsr %eax, %ecx", BYTES("\x0f\xbd\xc8"), R(RAX) | R(RCX), 0 },
	{ "cmpxchg %rcx, (%rdi)", BYTES("\x48\x0f\xb1\x0f"), 0xffff, 0 },
	{ "xgetbv", BYTES("\x0f\x01\xd0"), R(RCX), R(RAX) | R(RDX) },
	{ "wrmsr", BYTES("\x0f\x30"), 0xffff, 0 },
	{ "rdmsr", BYTES("\x0f\x32"), 0xffff, 0 },
	{ "lar %ecx, %eax: if zf", BYTES("\x0f\x02\xc1"), R(RAX) | R(RCX), 0 },
};

UNIT_TEST(reg, "decode/decode: registers read and written")
{
	struct ir_block b;
	const struct ir_insn *insn = &b.insns[0];
	u16 missed, killed;
	u32 i;

	begin();
	for (i = 0; i < JIFL_ARRAY_LEN(regs); i++) {
		put(0, regs[i].bytes, regs[i].n);
		jifl_decode_block(at(0), &b);
		jifl_decode_registers(&b.insns[0]);
		missed = regs[i].read & ~insn->regs_read;
		/* What is read and then written is not dead before it. */
		killed = insn->regs_written & ~regs[i].written & ~insn->regs_read;
		CHECK(!missed && !killed, "%s: reads %#x, writes %#x, wanted %#x, %#x",
		      regs[i].asm_text, insn->regs_read, insn->regs_written,
		      regs[i].read, regs[i].written);
		/* And it is not blind to what dies. */
		CHECK_EQ_IN(regs[i].asm_text, regs[i].written & ~regs[i].read & ~R(RSP),
			    insn->regs_written & ~insn->regs_read & ~R(RSP));
	}
}

UNIT_TEST(blocks, "decode/decode: where blocks end")
{
	struct ir_block b;
	u32 i;

	begin();
	/* mov; nop; jne: three instructions, goes on behind */
	put(0, BYTES("\x48\x89\xc3\x90\x75\x10\xc3"));
	CHECK_EQ(jifl_decode_block(at(0), &b), JIFL_CAUSE_NONE);
	CHECK_EQ(b.ninsns, 3);
	CHECK_EQ(b.count, 3);
	CHECK_EQ(b.src_len, 6);
	CHECK_EQ(b.next.v, at(6).v);
	/* jmp: goes nowhere else */
	put(0, BYTES("\x90\xeb\x10"));
	jifl_decode_block(at(0), &b);
	CHECK_EQ(b.ninsns, 2);
	CHECK_EQ(b.next.v, 0);
	/* call: what it returns to */
	put(0, BYTES("\xe8\x10\0\0\0"));
	jifl_decode_block(at(0), &b);
	CHECK_EQ(b.next.v, at(5).v);
	/* std where the block would soon be cut: it ends before, and the next has it all */
	for (i = 0; i < 60; i++)
		put(i, BYTES("\x90"));
	put(60, BYTES("\xfd\xf3\x48\xa5\xfc\xc3"));
	CHECK_EQ(jifl_decode_block(at(0), &b), JIFL_CAUSE_NONE);
	CHECK_EQ(b.ninsns, 60);
	CHECK_EQ(b.next.v, at(60).v);
	jifl_decode_block(at(60), &b);
	CHECK_EQ(b.ninsns, 4);
	/* ud2 in second place: the block ends before it */
	put(0, BYTES("\x90\x0f\x0b"));
	CHECK_EQ(jifl_decode_block(at(0), &b), JIFL_CAUSE_NONE);
	CHECK_EQ(b.ninsns, 1);
	CHECK_EQ(b.next.v, at(1).v);
	/* ud2 in the first place */
	put(0, BYTES("\x0f\x0b"));
	CHECK_EQ(jifl_decode_block(at(0), &b), JIFL_CAUSE_UD2);
	CHECK_EQ(b.ninsns, 0);
	/* Call depth tracking, sarq $5, %gs:0x10 in both forms: what follows begins a block. */
	put(0, BYTES("\x65\x48\xc1\x3d\x10\0\0\0\x05\x90\xc3"));
	CHECK_EQ(jifl_decode_block(at(0), &b), JIFL_CAUSE_NONE);
	CHECK_EQ(b.ninsns, 1);
	CHECK_EQ(b.next.v, at(9).v);
	put(0, BYTES("\x65\x48\xc1\x3c\x25\x10\0\0\0\x05\x90\xc3"));
	jifl_decode_block(at(0), &b);
	CHECK_EQ(b.ninsns, 1);
	CHECK_EQ(b.next.v, at(10).v);
	/* A long run is cut. */
	for (i = 0; i < sizeof(text); i++)
		text[i] = 0x50;
	jifl_decode_block(at(0), &b);
	CHECK_EQ(b.ninsns, IR_BLOCK_INSNS);
	CHECK_EQ(b.next.v, at(IR_BLOCK_INSNS).v);
	/* Bytes that end in the middle of an instruction. */
	put(0, BYTES("\x90"));
	text[255] = 0xe9;
	text[254] = 0x90;
	CHECK_EQ(jifl_decode_block(at(254), &b), JIFL_CAUSE_NONE);
	CHECK_EQ(b.ninsns, 1);
	CHECK_EQ(jifl_decode_block(at(255), &b), JIFL_CAUSE_UNDECODED);
}

UNIT_TEST(targets, "decode/decode: direct branches by what stands at their targets")
{
	static u8 other[16] = { 0xff, 0xe2, 0xcc };	/* jmp *%rdx */
	struct ir_insn insn;
	s32 rel = (s32)(long)(other - (text + 5));

	begin();
	put(0, BYTES("\xe8\0\0\0\0"));
	memcpy(text + 1, &rel, 4);
	user_host_set_text(other, sizeof(other), JIFL_TEXT_NATIVE, JIFL_CAUSE_OWN);
	jifl_decode_insn(at(0), &insn);
	CHECK_EQ(insn.kind, IR_CALL);
	user_host_set_text(other, sizeof(other), JIFL_TEXT_FOREIGN, JIFL_CAUSE_TRACER);
	jifl_decode_insn(at(0), &insn);
	CHECK_EQ(insn.kind, IR_NATIVE);
	CHECK_EQ(insn.cause, JIFL_CAUSE_TRACER);
	user_host_set_text(other, sizeof(other), JIFL_TEXT_THUNK, JIFL_CAUSE_NONE);
	jifl_decode_insn(at(0), &insn);
	CHECK_EQ(insn.kind, IR_CALL_IND);
	CHECK_EQ(insn.reg, IR_RDX);
	CHECK_EQ(insn.folded, 1);
	text[0] = 0xe9;
	jifl_decode_insn(at(0), &insn);
	CHECK_EQ(insn.kind, IR_JMP_IND);
	memcpy(other, "\x90\xc3", 2);
	jifl_decode_insn(at(0), &insn);
	CHECK_EQ(insn.kind, IR_RET_THUNK);
	CHECK_EQ(insn.folded, 2);
	/* A call of a return thunk and an unknown thunk: an ordinary branch to it. */
	text[0] = 0xe8;
	jifl_decode_insn(at(0), &insn);
	CHECK_EQ(insn.kind, IR_CALL);
	memcpy(other, "\x50\x58", 2);
	jifl_decode_insn(at(0), &insn);
	CHECK_EQ(insn.kind, IR_CALL);
}

UNIT_TEST(door, "decode/decode: a call of the door is the nop that it replaces")
{
	static u8 door[16] = { 0xc3 };
	struct ir_insn insn;
	struct ir_block b;
	s32 rel = (s32)(long)(door - (text + 5));

	begin();
	user_host_set_text(door, sizeof(door), JIFL_TEXT_FOREIGN, JIFL_CAUSE_OWN);
	put(0, BYTES("\xe8\0\0\0\0\x90\xc3"));
	memcpy(text + 1, &rel, 4);
	jifl_decode_insn(at(0), &insn);
	CHECK_EQ(insn.kind, IR_NATIVE);
	CHECK_EQ(jifl_decode_init((u64)(unsigned long)door), 0);
	jifl_decode_insn(at(0), &insn);
	CHECK_EQ(insn.kind, IR_NOP);
	CHECK_EQ(insn.len, 5);
	CHECK_EQ(insn.regs_read, 0);
	CHECK_EQ(jifl_decode_block(at(0), &b), JIFL_CAUSE_NONE);
	CHECK_EQ(b.ninsns, 3);
	CHECK_EQ(b.src_len, 7);
	/* Another call is a call, and a jump there a jump. */
	text[1]++;
	jifl_decode_insn(at(0), &insn);
	CHECK_EQ(insn.kind, IR_NATIVE);
	text[1]--;
	text[0] = 0xe9;
	jifl_decode_insn(at(0), &insn);
	CHECK_EQ(insn.kind, IR_NATIVE);
	jifl_decode_init(0);
}
