// SPDX-License-Identifier: GPL-2.0
/* Encodings: the bytes that each function of the writer emits. */
#include "../../../engine/emit/x86_enc.h"
#include "../unit.h"

static u8 buf[64];

/* A writer at an address where everything is 8 byte aligned and in reach. */
static struct x86_writer writer(u32 start)
{
	return (struct x86_writer){ .buf = buf, .cap = sizeof(buf), .start = start,
				    .code_base = 0x40000000 };
}

#define EXPECT(w, ...) \
	do { \
		static const u8 want_[] = { __VA_ARGS__ }; \
		CHECK((w)->len == sizeof(want_) && !memcmp(buf, want_, sizeof(want_)), \
		      "%s, wanted %s", unit_hex(buf, (w)->len), \
		      unit_hex(want_, sizeof(want_))); \
		CHECK(!(w)->full); \
	} while (0)

/* ENCODES(call, bytes...): a call on a fresh writer w. */
#define ENCODES(call, ...) \
	do { \
		struct x86_writer w_ = writer(0), *w = &w_; \
		call; \
		EXPECT(w, __VA_ARGS__); \
	} while (0)

static const struct ir_operand cell = { .disp = 0x12345678 };
static const struct ir_operand shared = { .disp = 0x12345678, .locked = true };
static const struct ir_operand percpu = { .disp = (s32)0x80001000, .gs = true };

UNIT_TEST(table, "emit/x86_enc: encodings")
{
	ENCODES(x86_push(w, IR_RAX), 0x50);
	ENCODES(x86_push(w, IR_RSP), 0x54);
	ENCODES(x86_push(w, IR_R15), 0x41, 0x57);
	ENCODES(x86_pop(w, IR_RDI), 0x5f);
	ENCODES(x86_pop(w, IR_R8), 0x41, 0x58);
	ENCODES(x86_push_imm(w, 127), 0x6a, 0x7f);
	ENCODES(x86_push_imm(w, -128), 0x6a, 0x80);
	ENCODES(x86_push_imm(w, 128), 0x68, 0x80, 0, 0, 0);
	ENCODES(x86_push_imm(w, -129), 0x68, 0x7f, 0xff, 0xff, 0xff);
	ENCODES(x86_pushf(w), 0x9c);
	ENCODES(x86_popf(w), 0x9d);
	ENCODES(x86_cld(w), 0xfc);
	ENCODES(x86_ret(w), 0xc3);
	ENCODES(x86_add_cell_reg(w, cell, IR_RCX, false),
		0x48, 0x01, 0x0c, 0x25, 0x78, 0x56, 0x34, 0x12);
	ENCODES(x86_add_cell_reg(w, percpu, IR_R9, true),
		0x65, 0x4c, 0x29, 0x0c, 0x25, 0x00, 0x10, 0x00, 0x80);
	ENCODES(x86_add_cell(w, shared, 1),
		0xf0, 0x48, 0x83, 0x04, 0x25, 0x78, 0x56, 0x34, 0x12, 0x01);
	ENCODES(x86_add_cell_reg(w, shared, IR_RCX, false),
		0xf0, 0x48, 0x01, 0x0c, 0x25, 0x78, 0x56, 0x34, 0x12);
	ENCODES(x86_xadd_cell(w, percpu, IR_R11),
		0x65, 0x4c, 0x0f, 0xc1, 0x1c, 0x25, 0x00, 0x10, 0x00, 0x80);
	ENCODES(x86_xadd_cell(w, cell, IR_RCX),
		0x48, 0x0f, 0xc1, 0x0c, 0x25, 0x78, 0x56, 0x34, 0x12);
	ENCODES(x86_rol32(w, IR_R11, 16), 0x41, 0xc1, 0xc3, 0x10);
	ENCODES(x86_rol32(w, IR_RCX, 3), 0xc1, 0xc1, 0x03);
	ENCODES(x86_store_word(w, 0x1000, IR_R11, IR_RSP),
		0x42, 0x89, 0x24, 0xdd, 0x00, 0x10, 0x00, 0x00);
	ENCODES(x86_store_word(w, 0x1000, IR_RCX, IR_R9),
		0x44, 0x89, 0x0c, 0xcd, 0x00, 0x10, 0x00, 0x00);
	ENCODES(x86_add_word_imm(w, 0x1000, IR_R11, 144),
		0x42, 0x81, 0x04, 0xdd, 0x00, 0x10, 0x00, 0x00, 0x90, 0x00, 0x00, 0x00);
	ENCODES(x86_store_quad(w, 0x1008, IR_R11, IR_RDI),
		0x4a, 0x89, 0x3c, 0xdd, 0x08, 0x10, 0, 0);
	ENCODES(x86_store_quad(w, 0x1008, IR_RCX, IR_R9),
		0x4c, 0x89, 0x0c, 0xcd, 0x08, 0x10, 0, 0);
	ENCODES(x86_store_word_imm(w, (s32)0x80001000, IR_RAX, 7),
		0xc7, 0x04, 0xc5, 0x00, 0x10, 0x00, 0x80, 0x07, 0x00, 0x00, 0x00);
	ENCODES(x86_ret_imm(w, 0x1234), 0xc2, 0x34, 0x12);
	ENCODES(x86_endbr64(w), 0xf3, 0x0f, 0x1e, 0xfa);
	/* lea n(%rsp), %rsp */
	ENCODES(x86_move_stack(w, -128), 0x48, 0x8d, 0x64, 0x24, 0x80);
	ENCODES(x86_move_stack(w, 128), 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0);
	ENCODES(x86_mov(w, IR_RBP, IR_RSP), 0x48, 0x89, 0xe5);
	ENCODES(x86_mov(w, IR_R8, IR_RAX), 0x49, 0x89, 0xc0);
	ENCODES(x86_mov(w, IR_RAX, IR_R9), 0x4c, 0x89, 0xc8);
	ENCODES(x86_mov_imm(w, IR_RDI, 0), 0xbf, 0, 0, 0, 0);
	ENCODES(x86_mov_imm(w, IR_R9, 0xffffffff), 0x41, 0xb9, 0xff, 0xff, 0xff, 0xff);
	ENCODES(x86_mov_imm(w, IR_RDX, -2ull), 0x48, 0xc7, 0xc2, 0xfe, 0xff, 0xff, 0xff);
	ENCODES(x86_mov_imm(w, IR_R8, -2ull), 0x49, 0xc7, 0xc0, 0xfe, 0xff, 0xff, 0xff);
	ENCODES(x86_mov_imm(w, IR_RSI, 0x100000000), 0x48, 0xbe, 0, 0, 0, 0, 1, 0, 0, 0);
	ENCODES(x86_mov_imm(w, IR_R9, 0xffffffff7fffffff),
		0x49, 0xb9, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff);
	ENCODES(x86_load_stack(w, IR_RAX, 16), 0x48, 0x8b, 0x44, 0x24, 0x10);
	ENCODES(x86_load_stack(w, IR_R10, 8), 0x4c, 0x8b, 0x54, 0x24, 0x08);
	ENCODES(x86_store_stack(w, IR_RCX, 16), 0x48, 0x89, 0x4c, 0x24, 0x10);
	ENCODES(x86_cmp_imm(w, IR_RAX, -1), 0x48, 0x3d, 0xff, 0xff, 0xff, 0xff);
	ENCODES(x86_cmp_imm(w, IR_RCX, 1), 0x48, 0x81, 0xf9, 1, 0, 0, 0);
	ENCODES(x86_cmp_imm(w, IR_R8, 1), 0x49, 0x81, 0xf8, 1, 0, 0, 0);
	ENCODES(x86_cmp_imm(w, IR_R12, 1), 0x49, 0x81, 0xfc, 1, 0, 0, 0);
	ENCODES(x86_add_cell(w, cell, 1),
		0x48, 0x83, 0x04, 0x25, 0x78, 0x56, 0x34, 0x12, 1);
	ENCODES(x86_add_cell(w, percpu, -128),
		0x65, 0x48, 0x83, 0x04, 0x25, 0x00, 0x10, 0x00, 0x80, 0x80);
	ENCODES(x86_add_cell(w, cell, 128),
		0x48, 0x81, 0x04, 0x25, 0x78, 0x56, 0x34, 0x12, 0x80, 0, 0, 0);
	ENCODES(x86_store_cell(w, percpu, 7),
		0x65, 0x48, 0xc7, 0x04, 0x25, 0x00, 0x10, 0x00, 0x80, 7, 0, 0, 0);
	/* Out of the cache, from where they stand. */
	ENCODES(x86_jmp_out(w, 0x40000105), 0xe9, 0, 1, 0, 0);
	ENCODES(x86_call_out(w, 0x40000000), 0xe8, 0xfb, 0xff, 0xff, 0xff);
}

/* A register, and what it points to. */
static struct ir_source source(enum ir_reg reg, u8 width, bool memory)
{
	return (struct ir_source){ .width = width, .reg = reg, .memory = memory,
				   .disp = memory ? -8 : 0 };
}

UNIT_TEST(sources, "emit/x86_enc: what looks at values of the kernel's")
{
	struct ir_source rdi = source(IR_RDI, 8, false), at_rdi = source(IR_RDI, 8, true);
	struct ir_source r13 = source(IR_R13, 4, false), at_r13 = source(IR_R13, 4, true);

	ENCODES(x86_cmp_source_imm(w, &rdi, -1), 0x48, 0x83, 0xff, 0xff);
	ENCODES(x86_cmp_source_imm(w, &rdi, 128), 0x48, 0x81, 0xff, 0x80, 0, 0, 0);
	ENCODES(x86_cmp_source_imm(w, &r13, 3), 0x41, 0x83, 0xfd, 3);
	ENCODES(x86_cmp_source_imm(w, &at_rdi, 3), 0x48, 0x83, 0x7f, 0xf8, 3);
	ENCODES(x86_cmp_source_imm(w, &at_r13, 128), 0x41, 0x81, 0x7d, 0xf8, 0x80, 0, 0, 0);
	ENCODES(x86_cmp_source(w, &rdi, IR_R11), 0x4c, 0x39, 0xdf);
	ENCODES(x86_cmp_source(w, &at_rdi, IR_RAX), 0x48, 0x39, 0x47, 0xf8);
	ENCODES(x86_bsr(w, IR_R11, &rdi), 0x4c, 0x0f, 0xbd, 0xdf);
	ENCODES(x86_bsr(w, IR_RAX, &at_r13), 0x49, 0x0f, 0xbd, 0x45, 0xf8);
	ENCODES(x86_load32(w, IR_RCX, &rdi), 0x8b, 0xcf);
	ENCODES(x86_load32(w, IR_R11, &at_r13), 0x45, 0x8b, 0x5d, 0xf8);
	ENCODES(x86_lea_twice_and_1(w, IR_R11), 0x4f, 0x8d, 0x5c, 0x1b, 1);
	ENCODES(x86_lea_twice_and_1(w, IR_RAX), 0x48, 0x8d, 0x44, 0x00, 1);
	ENCODES(x86_count_cell(w, cell, IR_RCX), 0x48, 0x83, 0x04, 0xcd, 0x78, 0x56, 0x34, 0x12, 1);
	ENCODES(x86_count_at(w, IR_R11), 0x65, 0x49, 0x83, 0x03, 1);
	ENCODES(x86_count_at(w, IR_RDX), 0x65, 0x48, 0x83, 0x02, 1);
	ENCODES(x86_count_cell(w, percpu, IR_R11),
		0x65, 0x4a, 0x83, 0x04, 0xdd, 0x00, 0x10, 0x00, 0x80, 1);
}

UNIT_TEST(reach, "emit/x86_enc: what is out of reach is refused")
{
	struct x86_writer w = writer(0);

	x86_jmp_out(&w, 0x40000005 + 0x7fffffffull);
	CHECK(!w.full);
	x86_jmp_out(&w, 0x4000000a + 0x80000000ull);
	CHECK(w.full);
	w = writer(0);
	w.cap = 3;
	x86_u32(&w, 0);
	CHECK(w.full && !w.len, "a full buffer takes nothing");
}

/* Every field that may be patched while other CPUs execute it. */
UNIT_TEST(aligned, "emit/x86_enc: no offset crosses 8 bytes")
{
	u32 start, kind, field, to, opcode, i;
	struct x86_writer w;
	s32 rel;

	for (start = 0; start < 64; start++) {
		for (kind = 0; kind < 3; kind++) {
			w = writer(start);
			to = 0x1000 + 7 * start;
			field = kind == 0 ? x86_jmp(&w, to) : kind == 1 ? x86_call(&w, to) :
				x86_jcc(&w, X86_CC_NE, to);
			CHECK(field / 8 == (field + 3) / 8, "start %u kind %u field %u",
			      start, kind, field);
			CHECK_EQ(field + 4, x86_here(&w));
			memcpy(&rel, buf + (field - start), 4);
			CHECK_EQ((u32)(field + 4 + rel), to);
			x86_set_rel32(&w, field, 5);
			memcpy(&rel, buf + (field - start), 4);
			CHECK_EQ((u32)(field + 4 + rel), 5);
			/* Nothing but cs in front, and no more than it takes. */
			opcode = w.len - 4 - (kind == 2 ? 2 : 1);
			CHECK(opcode <= 3, "%u prefixes", opcode);
			for (i = 0; i < opcode; i++)
				CHECK_EQ(buf[i], 0x2e);
		}
	}
}

UNIT_TEST(branches, "emit/x86_enc: direct branches")
{
	ENCODES(x86_jmp(w, 0x105), 0xe9, 0x00, 1, 0, 0);
	ENCODES(x86_call(w, 0), 0xe8, 0xfb, 0xff, 0xff, 0xff);
	ENCODES(x86_jcc(w, X86_CC_E, 0x106), 0x0f, 0x84, 0x00, 1, 0, 0);
	ENCODES((x86_u8(w, 0x90), x86_u8(w, 0x90), x86_u8(w, 0x90), x86_u8(w, 0x90),
		 x86_jmp(w, 0x10d)),
		0x90, 0x90, 0x90, 0x90, 0x2e, 0x2e, 0x2e, 0xe9, 0x01, 1, 0, 0);
	ENCODES(x86_set_rel8_here(w, (x86_jcc_short(w, X86_CC_NE))), 0x75, 0);
	ENCODES(({ u32 at = x86_jcc_short(w, X86_CC_E); x86_u32(w, 0x90909090);
		   x86_set_rel8_here(w, at); }), 0x74, 4, 0x90, 0x90, 0x90, 0x90);
}

/* An original instruction, as decode would describe it. */
static struct ir_insn insn(u64 addr, u8 modrm_at, u8 disp_at, const void *bytes, u8 len)
{
	struct ir_insn i = { .addr = { addr }, .len = len, .modrm_at = modrm_at,
			     .disp_at = disp_at };

	memcpy(i.bytes, bytes, len);
	return i;
}

#define COPIES(addr, disp_at, original, ...) \
	do { \
		struct ir_insn i_ = insn(addr, disp_at ? disp_at - 1 : 0, disp_at, \
					 original, sizeof(original) - 1); \
		ENCODES(x86_copy(w, &i_), __VA_ARGS__); \
	} while (0)

UNIT_TEST(copies, "emit/x86_enc: originals are copied, rip-relative ones moved")
{
	/* mov %rax, %rbx */
	COPIES(0x400000, 0, "\x48\x89\xc3", 0x48, 0x89, 0xc3);
	/* mov 0x10(%rip), %rax; operand at 0x40000017 + 0x1000 */
	COPIES(0x40001000, 3, "\x48\x8b\x05\x10\0\0\0",
	       0x48, 0x8b, 0x05, 0x10, 0x10, 0, 0);
	/* movl $0x11223344, -0x20(%rip): the immediate counts too */
	COPIES(0x40000100, 2, "\xc7\x05\xe0\xff\xff\xff\x44\x33\x22\x11",
	       0xc7, 0x05, 0xe0, 0x00, 0x00, 0x00, 0x44, 0x33, 0x22, 0x11);
}

/* PUSHES(modrm_at, disp_at, moved, original, bytes...) */
#define PUSHES(modrm_at, disp_at, moved, original, ...) \
	do { \
		struct ir_insn i_ = insn(0x40000100, modrm_at, disp_at, original, \
					 sizeof(original) - 1); \
		ENCODES(x86_push_operand_of(w, &i_, moved), __VA_ARGS__); \
	} while (0)

/* LOADS(modrm_at, disp_at, original, bytes...), into r11 */
#define LOADS(modrm_at, disp_at, original, ...) \
	do { \
		struct ir_insn i_ = insn(0x40000100, modrm_at, disp_at, original, \
					 sizeof(original) - 1); \
		ENCODES(x86_load_operand_of(w, IR_R11, &i_), __VA_ARGS__); \
	} while (0)
#define IMM 0x78, 0x56, 0x34, 0x12

UNIT_TEST(loads, "emit/x86_enc: operands of indirect branches are loaded")
{
	/* call *(%rax); jmp *8(%rbx,%rcx,8); call *0x1000(%rip); jmp *table(,%rax,8) */
	LOADS(1, 0, "\xff\x10", 0x4c, 0x8b, 0x18);
	LOADS(1, 0, "\xff\x64\xcb\x08", 0x4c, 0x8b, 0x5c, 0xcb, 0x08);
	LOADS(1, 2, "\xff\x15\x00\x10\0\0", 0x4c, 0x8b, 0x1d, 0xff, 0x10, 0, 0);
	LOADS(1, 0, "\xff\x24\xc5\x00\x10\0\0", 0x4c, 0x8b, 0x1c, 0xc5, 0, 0x10, 0, 0);
	/* call *(%rsp); call *8(%rsp): nothing was pushed */
	LOADS(1, 0, "\xff\x14\x24", 0x4c, 0x8b, 0x1c, 0x24);
	LOADS(1, 0, "\xff\x54\x24\x08", 0x4c, 0x8b, 0x5c, 0x24, 0x08);
	/* call *8(%r12); notrack jmp *(%r8,%r9); bnd jmp *(%rax); jmp *(%rax) with REX.R */
	LOADS(2, 0, "\x41\xff\x54\x24\x08", 0x4d, 0x8b, 0x5c, 0x24, 0x08);
	LOADS(3, 0, "\x3e\x43\xff\x24\x08", 0x3e, 0x4f, 0x8b, 0x1c, 0x08);
	LOADS(2, 0, "\xf2\xff\x20", 0x4c, 0x8b, 0x18);
	LOADS(2, 0, "\x44\xff\x20", 0x4c, 0x8b, 0x18);
	/* call *%gs:8(%rsp) */
	LOADS(2, 0, "\x65\xff\x54\x24\x08", 0x65, 0x4c, 0x8b, 0x5c, 0x24, 0x08);
}

UNIT_TEST(lookups, "emit/x86_enc: what lookups that jump are made of")
{
	ENCODES(x86_store_thread(w, -16, IR_RCX),
		0x64, 0x48, 0x89, 0x0c, 0x25, 0xf0, 0xff, 0xff, 0xff);
	ENCODES(x86_load_thread(w, IR_R9, -8), 0x64, 0x4c, 0x8b, 0x0c, 0x25, 0xf8, 0xff, 0xff,
		0xff);
	ENCODES(x86_branch_thread(w, false, -8), 0x64, 0xff, 0x24, 0x25, 0xf8, 0xff, 0xff, 0xff);
	ENCODES(x86_branch_thread(w, true, -8), 0x64, 0xff, 0x14, 0x25, 0xf8, 0xff, 0xff, 0xff);
	ENCODES(x86_call_reg(w, IR_R11), 0x41, 0xff, 0xd3);
	ENCODES(x86_call_reg(w, IR_RDX), 0xff, 0xd2);
	/* mov 0x12345678(,%r11,4), %r11d, and of rcx; test %r11d, %r11d; test %ecx, %ecx */
	ENCODES(x86_load_entry(w, IR_R11, 0x12345678), 0x46, 0x8b, 0x1c, 0x9d, IMM);
	ENCODES(x86_load_entry(w, IR_RCX, 0x12345678), 0x8b, 0x0c, 0x8d, IMM);
	ENCODES(x86_test(w, IR_R11), 0x45, 0x85, 0xdb);
	ENCODES(x86_test(w, IR_RCX), 0x85, 0xc9);
}

UNIT_TEST(pushes, "emit/x86_enc: operands of indirect branches are pushed")
{
	/* call *(%rax); jmp *8(%rbx,%rcx,8) */
	PUSHES(1, 0, 136, "\xff\x10", 0xff, 0x30);
	PUSHES(1, 0, 128, "\xff\x64\xcb\x08", 0xff, 0x74, 0xcb, 0x08);
	/* call *0x1000(%rip) */
	PUSHES(1, 2, 136, "\xff\x15\x00\x10\0\0", 0xff, 0x35, 0x00, 0x11, 0, 0);
	/* jmp *table(,%rax,8), absolute */
	PUSHES(1, 0, 128, "\xff\x24\xc5\x78\x56\x34\x12",
	       0xff, 0x34, 0xc5, 0x78, 0x56, 0x34, 0x12);
	/* call *(%rsp), *8(%rsp), *-0x1000(%rsp,%rax,2): further away now */
	PUSHES(1, 0, 136, "\xff\x14\x24", 0xff, 0xb4, 0x24, 136, 0, 0, 0);
	PUSHES(1, 0, 136, "\xff\x54\x24\x08", 0xff, 0xb4, 0x24, 144, 0, 0, 0);
	PUSHES(1, 0, 8, "\xff\x94\x44\x00\xf0\xff\xff",
	       0xff, 0xb4, 0x44, 0x08, 0xf0, 0xff, 0xff);
	/* call *8(%r12): base r12 is not rsp; notrack jmp *(%r8) */
	PUSHES(2, 0, 136, "\x41\xff\x54\x24\x08", 0x41, 0xff, 0x74, 0x24, 0x08);
	PUSHES(3, 0, 128, "\x3e\x41\xff\x20", 0x3e, 0x41, 0xff, 0x30);
	/* call *%gs:8(%rsp); rex with index only */
	PUSHES(2, 0, 8, "\x65\xff\x54\x24\x08", 0x65, 0xff, 0xb4, 0x24, 16, 0, 0, 0);
	PUSHES(2, 0, 8, "\x42\xff\x14\xc4", 0x42, 0xff, 0xb4, 0xc4, 8, 0, 0, 0);
}
