// SPDX-License-Identifier: GPL-2.0
/*
 * See program.h. What the processor leaves undefined is kept out: `valid` are the
 * flags whose values are defined; before an instruction reads another, one that
 * defines them all is put. A function begins with a few words of its own on the
 * stack; operands on the stack stay in there.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../host/user/user.h"
#include "forms.h"
#include "program.h"
#include "text.h"

u8 fuzz_sandbox[SANDBOX_SIZE] __attribute__((aligned(4096)));
u8 fuzz_text[FUZZ_TEXT] __attribute__((aligned(4096)));
static u8 thunks[4096] __attribute__((aligned(4096)));
u32 fuzz_fuel;
u64 fuzz_flags, fuzz_flags_valid;

enum { THUNK_SIZE = 32, RETURN_THUNK = 16 };
enum { NSUBS = 4, MAX_CALLS = 512, MAX_USED = 4096, STRING_MAX = 40, MAX_DEPTH = 24 };
/* Enough behind any place for what one step writes. */
enum { MARGIN = 4096 };

static struct source *src;
static u8 valid;
static u32 frame;		/* bytes of the function's own above rsp */
static u32 depth;		/* words it has pushed besides */
static bool level;		/* pushes and pops would not be balanced here */
static u16 avoid;		/* registers that must not change */
static bool faulty;		/* this program may run into a fault on purpose */
static u8 *guard;		/* memory that faults */
static u32 calls[MAX_CALLS], call_to[MAX_CALLS], ncalls;
static u32 used[MAX_USED], nused;
static u8 valid_at[FUZZ_TEXT];

static u32 below(u32 n)
{
	return source_below(src, n);
}

static bool has_room(void)
{
	return len + MARGIN < FUZZ_TEXT && ncalls + 8 < MAX_CALLS && nused + 64 < MAX_USED;
}

/* movabs $v, %r */
static void load(u8 r, u64 v)
{
	byte(0x48 | r >> 3);
	byte(0xb8 | (r & 7));
	bytes(&v, 8);
}

/* cmp $imm8, %r: changes nothing but flags, and defines all */
static void define_flags(void)
{
	u8 r = below(16);

	byte(0x48 | r >> 3);
	byte(0x83);
	byte(0xf8 | (r & 7));
	byte(below(256));
	valid = IR_FLAGS;
}

static void need_flags(u8 flags)
{
	if (flags & ~valid)
		define_flags();
}

/* --- one harvested instruction ------------------------------------------------------------- */

static u16 mask_of(ZydisRegister reg)
{
	ZydisRegister wide = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (wide < ZYDIS_REGISTER_RAX || wide > ZYDIS_REGISTER_R15)
		return 0;
	return 1u << (wide - ZYDIS_REGISTER_RAX);
}

static u8 number_of(ZydisRegister reg)
{
	return (u8)(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg) -
		    ZYDIS_REGISTER_RAX);
}

static u16 written_by(const struct insn *i)
{
	u16 regs = 0;
	u32 k;

	for (k = 0; k < i->zi.operand_count; k++)
		if (i->ops[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    (i->ops[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			regs |= mask_of(i->ops[k].reg.value);
	return regs;
}

static bool same_shape(const struct insn *a, const struct insn *b)
{
	u32 k;

	if (a->zi.mnemonic != b->zi.mnemonic || a->zi.length != b->zi.length ||
	    a->zi.operand_count != b->zi.operand_count)
		return false;
	for (k = 0; k < a->zi.operand_count; k++)
		if (a->ops[k].type != b->ops[k].type || a->ops[k].size != b->ops[k].size)
			return false;
	return true;
}

static void change_modrm(u8 *b, const struct insn *i)
{
	u8 at = i->zi.raw.modrm.offset;

	if (below(2))
		b[at] = (b[at] & 0xc7) | below(8) << 3;
	if (below(2) && (b[at] >> 6 == 3 || (b[at] & 7) != 4))
		b[at] = (b[at] & 0xf8) | below(8);
	if ((i->zi.attributes & ZYDIS_ATTRIB_HAS_SIB) && below(2))
		b[i->zi.raw.sib.offset] = below(256);
	if ((i->zi.attributes & ZYDIS_ATTRIB_HAS_REX) && below(2))
		b[i->zi.raw.rex.offset] ^= below(8);
}

/* Other registers, immediates and displacements, as far as it stays the same form. */
static void change(struct insn *i)
{
	u8 b[15];
	struct insn new;
	u32 k, n;

	memcpy(b, i->bytes, sizeof(b));
	if (i->zi.attributes & ZYDIS_ATTRIB_HAS_MODRM)
		change_modrm(b, i);
	else if (i->ops[0].encoding == ZYDIS_OPERAND_ENCODING_OPCODE)
		b[i->zi.length - 1 - i->zi.raw.imm[0].size / 8] ^= below(8);
	for (k = 0; k < 2; k++)
		for (n = 0; n < i->zi.raw.imm[k].size / 8u; n++)
			b[i->zi.raw.imm[k].offset + n] = below(256);
	for (n = 0; n < i->zi.raw.disp.size / 8u; n++)
		b[i->zi.raw.disp.offset + n] = below(256);
	if (insn_decode(b, i->zi.length, &new) && same_shape(i, &new) &&
	    insn_use(&new) == FORM_USED)
		*i = new;
}

/* An address in the sandbox for so many bytes, or one that faults. */
static u64 somewhere(u32 size, bool string)
{
	u32 room = SANDBOX_SIZE / 2 - size - STRING_MAX * 8, off = below(room);

	/* Aligned: a locked access across two lines may trap for ever instead. */
	if (faulty && !below(16))
		return address(guard) + 64 * below(32);
	/* Strings may go up or down. */
	if (string)
		return address(fuzz_sandbox) + SANDBOX_SIZE / 4 + off;
	if (below(8) || size >= 8)
		off &= size >= 8 && below(16) ? ~63u : ~7u;
	return address(fuzz_sandbox) + off;
}

static void set_disp(struct insn *i, u64 value)
{
	memcpy(i->bytes + i->zi.raw.disp.offset, &value, i->zi.raw.disp.size / 8);
}

/* disp(%rsp,index): within the function's own words */
static bool lead_stack(struct insn *i, const ZydisDecodedOperand *op)
{
	u32 size = op->size / 8, room = frame + 8 * depth;

	if (i->zi.raw.disp.size && i->zi.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return false;
	if (op->mem.index != ZYDIS_REGISTER_NONE) {
		if (mask_of(op->mem.index) & avoid)
			return false;
		load(number_of(op->mem.index), 0);
	}
	/* pop reaches its operand from where it leaves rsp. */
	if (i->zi.meta.category == ZYDIS_CATEGORY_POP)
		room = room < 8 ? 0 : room - 8;
	if (size > room)
		return false;
	if (i->zi.raw.disp.size)
		set_disp(i, below(room - size + 1) & 0x7f & (size > 1 ? ~7u : ~0u));
	return true;
}

static bool lead_registers(struct insn *i, const ZydisDecodedOperand *op, bool string)
{
	/* A locked access across two cache lines costs milliseconds. */
	bool locked = (i->zi.attributes & ZYDIS_ATTRIB_HAS_LOCK) ||
		      i->zi.mnemonic == ZYDIS_MNEMONIC_XCHG;
	u64 to = somewhere(locked && op->size < 64 ? 8 : op->size / 8, string), index = 0;
	ZydisRegister base = op->mem.base;

	if ((mask_of(base) | mask_of(op->mem.index)) & avoid)
		return false;
	if (op->mem.index != ZYDIS_REGISTER_NONE) {
		if (op->mem.index == base)
			return false;
		index = below(5) - 2ull;
		load(number_of(op->mem.index), index);
	}
	if (base != ZYDIS_REGISTER_NONE)
		load(number_of(base), to - (u64)op->mem.disp.value - index * op->mem.scale);
	else
		set_disp(i, to - index * op->mem.scale);
	return true;
}

/* Emits what makes operand k reach the sandbox. False when that cannot be. */
static bool lead_operand(struct insn *i, u32 k)
{
	const ZydisDecodedOperand *op = &i->ops[k];
	bool string = op->visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT;

	if (op->type != ZYDIS_OPERAND_TYPE_MEMORY)
		return true;
	if (op->mem.base == ZYDIS_REGISTER_RIP)
		return true;	/* when its place is known */
	if (op->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
		return true;
	if (op->mem.base == ZYDIS_REGISTER_RSP)
		return string || lead_stack(i, op);
	return lead_registers(i, op, string);
}

static bool has_rip_operand(const struct insn *i)
{
	u32 k;

	for (k = 0; k < i->zi.operand_count; k++)
		if (i->ops[k].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    i->ops[k].mem.base == ZYDIS_REGISTER_RIP)
			return true;
	return false;
}

/* Registers whose values matter: counts of strings, bits in memory, dividends. */
static bool prepare_registers(const struct insn *i)
{
	const u32 repeats = ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE;

	switch (i->zi.mnemonic) {
	case ZYDIS_MNEMONIC_BT:
	case ZYDIS_MNEMONIC_BTS:
	case ZYDIS_MNEMONIC_BTR:
	case ZYDIS_MNEMONIC_BTC:
		if (i->ops[0].type != ZYDIS_OPERAND_TYPE_MEMORY ||
		    i->ops[1].type != ZYDIS_OPERAND_TYPE_REGISTER)
			return true;
		if ((mask_of(i->ops[0].mem.base) | mask_of(i->ops[0].mem.index) | avoid |
		     1u << IR_RSP) & mask_of(i->ops[1].reg.value))
			return false;
		/* On the stack, not beyond the operand: a return address may be there. */
		load(number_of(i->ops[1].reg.value),
		     below(i->ops[0].mem.base == ZYDIS_REGISTER_RSP ? 16 : 256));
		return true;
	case ZYDIS_MNEMONIC_DIV:
	case ZYDIS_MNEMONIC_IDIV:
		if (avoid || (i->ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
			      (mask_of(i->ops[0].mem.base) | mask_of(i->ops[0].mem.index)) &
			      (1u << IR_RAX | 1u << IR_RDX)))
			return false;
		if (below(8)) {
			load(IR_RDX, 0);
			load(IR_RAX, below(128));
		}
		return true;
	default:
		break;
	}
	if (i->zi.meta.category == ZYDIS_CATEGORY_STRINGOP && (i->zi.attributes & repeats)) {
		if (avoid & (1u << IR_RCX))
			return false;
		load(IR_RCX, below(STRING_MAX));
	}
	return true;
}

static u8 status(u32 zydis)
{
	return ((zydis & ZYDIS_CPUFLAG_CF) ? IR_CF : 0) | ((zydis & ZYDIS_CPUFLAG_PF) ? IR_PF : 0) |
	       ((zydis & ZYDIS_CPUFLAG_AF) ? IR_AF : 0) | ((zydis & ZYDIS_CPUFLAG_ZF) ? IR_ZF : 0) |
	       ((zydis & ZYDIS_CPUFLAG_SF) ? IR_SF : 0) | ((zydis & ZYDIS_CPUFLAG_OF) ? IR_OF : 0);
}

/* Shifts by nothing and strings of no length leave flags as they are. */
static bool may_keep_flags(const struct insn *i)
{
	return i->zi.meta.category == ZYDIS_CATEGORY_SHIFT ||
	       i->zi.meta.category == ZYDIS_CATEGORY_ROTATE ||
	       (i->zi.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE |
				    ZYDIS_ATTRIB_HAS_REPNE));
}

static void follow_flags(const struct insn *i)
{
	const ZydisAccessedFlags *f = i->zi.cpu_flags;

	if (!f)
		return;
	if (!may_keep_flags(i))
		valid |= status(f->modified | f->set_0 | f->set_1);
	valid &= ~status(f->undefined);
}

static bool follow_stack(const struct insn *i)
{
	bool push = i->zi.meta.category == ZYDIS_CATEGORY_PUSH;

	if (!push && i->zi.meta.category != ZYDIS_CATEGORY_POP)
		return true;
	if (level || (push ? depth == MAX_DEPTH : !depth))
		return false;
	depth += push ? 1 : -1;
	return true;
}

static u8 flags_needed(const struct insn *i)
{
	if (i->zi.mnemonic == ZYDIS_MNEMONIC_PUSHFQ)
		return IR_FLAGS;
	return i->zi.cpu_flags ? status(i->zi.cpu_flags->tested) : 0;
}

static bool put_insn(struct insn *i)
{
	u32 k, start = len;

	if (written_by(i) & avoid)
		return false;
	for (k = 0; k < i->zi.operand_count; k++)
		if (!lead_operand(i, k))
			goto no;
	if (!prepare_registers(i) || !follow_stack(i))
		goto no;
	need_flags(flags_needed(i));
	/* rip-relative: from behind this instruction to the sandbox */
	if (has_rip_operand(i))
		set_disp(i, somewhere(64, false) - (address(fuzz_text) + len + i->zi.length));
	valid_at[len] = valid;
	bytes(i->bytes, i->zi.length);
	follow_flags(i);
	return true;
no:
	len = start;
	return false;
}

static void harvested(void)
{
	u32 form = below(fuzz_nforms);
	struct insn i = fuzz_forms[form].insn;

	change(&i);
	if (!has_room() || !put_insn(&i))
		return;
	fuzz_forms[form].generated++;
	used[nused++] = form;
}

static void some(u32 n)
{
	n = 1 + below(n);
	while (n--)
		harvested();
}

/* --- shapes ------------------------------------------------------------------------------------ */

static bool begin_level(void)
{
	bool was = level;

	level = true;
	return was;
}

/* A conditional branch over a few instructions: every condition, both lengths. */
static void skip(void)
{
	static const u8 short_ones[] = { 0xe3, 0xe2, 0xe1, 0xe0 };
	u32 kind = below(3), at;
	bool was = begin_level();
	u8 before;

	if (kind == 2 && (avoid & (1u << IR_RCX)))
		kind = 0;
	need_flags(IR_FLAGS);
	if (kind == 0) {
		byte(0x0f);
		byte(0x80 | below(16));
		imm32(0);
	} else if (kind == 1) {
		byte(0x70 | below(16));
		byte(0);
	} else {
		if (!below(4))
			byte(0x67);
		byte(short_ones[below(4)]);
		byte(0);
	}
	at = len;
	before = valid;
	some(4);
	valid &= before;
	level = was;
	if (kind == 0) {
		u32 rel = len - at;

		memcpy(fuzz_text + at - 4, &rel, 4);
	} else if (len - at < 128) {
		fuzz_text[at - 1] = len - at;
	} else {
		/* too far: nothing is skipped */
		fuzz_text[at - 1] = 0;
	}
}

/* mov $n, %rcx; 1: ...; loop 1b, or lea -1(%rcx), %rcx; jrcxz 2f; jmp 1b; 2: */
static void loop(void)
{
	bool was = begin_level();
	u16 avoided = avoid;
	u32 back;

	if (avoid) {
		level = was;
		return;
	}
	load(IR_RCX, 1 + below(6));
	avoid |= 1u << IR_RCX;
	valid = 0;
	back = len;
	some(4);
	if (len - back < 100 && below(2)) {
		byte(0xe2);
		byte(back - (len + 1));
	} else {
		CODE("\x48\x8d\x49\xff\xe3\x05\xe9");
		imm32(back - (len + 4));
	}
	avoid = avoided;
	level = was;
}

/* Over bytes that are no code. */
static void jump(void)
{
	u32 n = below(20);

	if (below(2)) {
		byte(0xeb);
		byte(n);
	} else {
		byte(0xe9);
		imm32(n);
	}
	while (n--)
		byte(0xcc);
}

/* push $; popf */
static void set_flags(void)
{
	byte(0x68);
	imm32(2 | (source_u64(src) & 0x8d5));
	byte(0x9d);
	valid = IR_FLAGS;
}

/* A string instruction that goes down. */
static void backwards(void)
{
	static const u8 ops[] = { 0xa4, 0xa6, 0xaa, 0xac, 0xae };
	u8 op = ops[below(5)];
	bool compares = op == 0xa6 || op == 0xae;

	if (avoid)
		return;
	load(IR_RSI, somewhere(8, true));
	load(IR_RDI, somewhere(8, true));
	load(IR_RCX, below(STRING_MAX));
	need_flags(IR_FLAGS);
	byte(0xfd);
	valid_at[len] = valid;
	if (below(4))
		byte(compares && below(2) ? 0xf2 : 0xf3);
	if (below(2))
		byte(0x48);
	byte(op + below(2));
	byte(0xfc);
}

/* A jump or call (digit 4 or 2) to what is in r: itself, a thunk, or from memory. */
static void through(u8 r, u8 digit)
{
	switch (below(3)) {
	case 0:
		byte(0x40 | r >> 3);
		byte(0xff);
		byte(0xc0 | digit << 3 | (r & 7));
		return;
	case 1:
		byte(digit == 2 ? 0xe8 : 0xe9);
		rel32(thunks + r * THUNK_SIZE);
		return;
	default:
		/* mov %r, disp32 below; ff /digit disp32 */
		byte(0x48 | (r >> 3) << 2);
		byte(0x89);
		byte(0x04 | (r & 7) << 3);
		byte(0x25);
		imm32((u32)address(fuzz_sandbox) + SANDBOX_SIZE - 8);
		byte(0xff);
		byte(0x04 | digit << 3);
		byte(0x25);
		imm32((u32)address(fuzz_sandbox) + SANDBOX_SIZE - 8);
	}
}

static u8 free_register(void)
{
	u8 r;

	do
		r = below(16);
	while (r == IR_RSP || (avoid & (1u << r)));
	return r;
}

/* lea 1f(%rip), %r; jmp *%r; 1: */
static void jump_indirect(void)
{
	u8 r = free_register();
	u32 at, n;

	byte(0x48 | (r >> 3) << 2);
	byte(0x8d);
	byte(0x05 | (r & 7) << 3);
	imm32(0);
	at = len;
	through(r, 4);
	for (n = below(10); n; n--)
		byte(0xcc);
	n = len - at;
	memcpy(fuzz_text + at - 4, &n, 4);
	valid = 0;
}

static void call(void)
{
	u8 r = free_register();
	bool direct = below(2);

	if (avoid)
		return;
	if (direct) {
		byte(0xe8);
	} else {
		byte(0x48 | (r >> 3) << 2);
		byte(0x8d);
		byte(0x05 | (r & 7) << 3);
	}
	call_to[ncalls] = below(NSUBS);
	calls[ncalls++] = len;
	imm32(0);
	if (!direct)
		through(r, 2);
	valid = 0;
}

/* mov %from, n(%rsp); ...; mov n(%rsp), %to: below rsp, where functions may keep things */
static void red_zone(void)
{
	u8 disp = -8 * (1 + below(16)), from = below(16), to = free_register();
	bool was = begin_level();

	byte(0x48 | (from >> 3) << 2);
	byte(0x89);
	byte(0x44 | (from & 7) << 3);
	byte(0x24);
	byte(disp);
	some(4);
	byte(0x48 | (to >> 3) << 2);
	byte(0x8b);
	byte(0x44 | (to & 7) << 3);
	byte(0x24);
	byte(disp);
	level = was;
}

static void shape(void)
{
	if (!has_room())
		return;
	switch (below(20)) {
	case 0:
	case 1:
		skip();
		break;
	case 2:
		loop();
		break;
	case 3:
		jump();
		break;
	case 4:
		set_flags();
		break;
	case 5:
		backwards();
		break;
	case 6:
		jump_indirect();
		break;
	case 7:
		red_zone();
		break;
	case 8:
	case 9:
		call();
		break;
	default:
		some(6);
		break;
	}
}

/* --- functions ----------------------------------------------------------------------------------- */

static void begin_function(u32 words)
{
	depth = 0;
	frame = 8 * words;
	valid = 0;
	while (words--) {
		byte(0x68);
		imm32((u32)source_u64(src));
	}
}

static void end_function(void)
{
	CODE("\x48\x8d\xa4\x24");	/* lea n(%rsp), %rsp */
	imm32(frame + 8 * depth);
	switch (below(4)) {
	case 0:
		CODE("\xf3\xc3");
		break;
	case 1:
		byte(0xe9);
		rel32(thunks + RETURN_THUNK * THUNK_SIZE);
		break;
	default:
		byte(0xc3);
	}
}

/* decl fuel(%rip); js 1f; call self; 1: */
static void recurse(u32 start)
{
	byte(0xff);
	byte(0x0d);
	rel32(&fuzz_fuel);
	CODE("\x78\x05\xe8");
	imm32(start - (len + 4));
	valid = 0;
}

/* Subroutines call nothing but themselves. */
static u32 subroutine(void)
{
	u32 start = len;

	begin_function(2);
	some(4);
	if (!below(3))
		recurse(start);
	some(4);
	end_function();
	return start;
}

static void finish_main(void)
{
	fuzz_flags_valid = valid;
	byte(0x9c);			/* pushf; pop fuzz_flags(%rip) */
	CODE("\x8f\x05");
	rel32(&fuzz_flags);
	end_function();
}

static void begin(struct source *from)
{
	src = from;
	memset(fuzz_text, 0xcc, FUZZ_TEXT);
	len = ncalls = nused = 0;
	level = false;
	avoid = 0;
}

u32 fuzz_program(struct source *from)
{
	u32 n, i, subs[NSUBS], rel;

	begin(from);
	faulty = !below(4);
	begin_function(8);
	n = below(12) ? 1 + below(12) : 60 + below(140);
	for (i = 0; i < n; i++)
		shape();
	finish_main();
	for (i = 0; i < NSUBS; i++)
		subs[i] = subroutine();
	for (i = 0; i < ncalls; i++) {
		rel = subs[call_to[i]] - (calls[i] + 4);
		memcpy(fuzz_text + calls[i], &rel, 4);
	}
	return len;
}

u32 fuzz_program_of_form(u32 form)
{
	static struct source none;
	struct insn i = fuzz_forms[form].insn;

	begin(&none);
	faulty = false;
	begin_function(8);
	need_flags(IR_FLAGS);
	depth = 1;
	byte(0x50);
	put_insn(&i);
	finish_main();
	return len;
}

void fuzz_program_count(void)
{
	u32 i;

	for (i = 0; i < nused; i++)
		fuzz_forms[used[i]].executed++;
}

/* --- set-up ------------------------------------------------------------------------------------------ */

/* call 1f; int3; 1: mov %r, (%rsp); ret */
static void make_thunk(u8 r)
{
	u8 *t = thunks + r * THUNK_SIZE;

	memcpy(t, "\xe8\x01\0\0\0\xcc\x48\x89\x04\x24\xc3", 11);
	t[6] |= (r >> 3) << 2;
	t[8] |= (r & 7) << 3;
}

u8 fuzz_valid_at(u32 offset)
{
	return offset < FUZZ_TEXT ? valid_at[offset] : 0;
}

const u8 *fuzz_program_thunk(u8 reg)
{
	return thunks + reg * THUNK_SIZE;
}

static void make_executable(u8 *p, u32 n, enum jifl_text text)
{
	if (mprotect(p, n, PROT_READ | PROT_WRITE | PROT_EXEC)) {
		perror("mprotect");
		exit(2);
	}
	user_host_set_text(p, n, text, JIFL_CAUSE_NONE);
}

void fuzz_program_init(void)
{
	u8 r;

	memset(thunks, 0xcc, sizeof(thunks));
	for (r = 0; r < 16; r++)
		make_thunk(r);
	/* call 1f; int3; 1: lea 8(%rsp), %rsp; ret */
	memcpy(thunks + RETURN_THUNK * THUNK_SIZE, "\xe8\x01\0\0\0\xcc\x48\x8d\x64\x24\x08\xc3",
	       12);
	make_executable(fuzz_text, FUZZ_TEXT, JIFL_TEXT_CODE);
	make_executable(thunks, sizeof(thunks), JIFL_TEXT_THUNK);
	guard = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	if (guard == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
}
