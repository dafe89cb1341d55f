// SPDX-License-Identifier: GPL-2.0
/* See check.h. */
#include <Zydis/Zydis.h>
#include <stdio.h>
#include <string.h>

#include "../../engine/cache/cache.h"
#include "check.h"

#define SHOWN 20

struct check_stats check_stats;

static ZydisDecoder decoder;

struct decoded {
	u64 at;
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
};

/* Registers by hardware number. */
static ZydisRegister gpr(u8 reg)
{
	return ZYDIS_REGISTER_RAX + reg;
}

static bool decode(const u8 *bytes, u64 left, u64 at, struct decoded *d)
{
	memset(d, 0, sizeof(*d));
	d->at = at;
	return bytes && ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, left, &d->insn,
							    d->ops));
}

static bool decode_code(u32 off, struct decoded *d)
{
	return off < HOST_CODE_SIZE - 16 &&
	       decode(host_code(off), 16, HOST_CODE_BASE + off, d);
}

static void differs(const struct decoded *original, u32 off, const char *what)
{
	u32 i;

	if (check_stats.differences++ >= SHOWN)
		return;
	printf("  original %#llx, code %#llx: %s;", original->at, HOST_CODE_BASE + off, what);
	for (i = 0; i < 16; i++)
		printf(" %02x", host_code(off)[i]);
	printf("\n");
}

/* --- operands --------------------------------------------------------------------------- */

/* moved: how much further rsp is from what the operand means. */
static bool same_memory(const struct decoded *a, const ZydisDecodedOperand *x,
			const struct decoded *b, const ZydisDecodedOperand *y, s64 moved)
{
	s64 dx = x->mem.disp.value, dy = y->mem.disp.value;

	if (x->mem.base != y->mem.base || x->mem.index != y->mem.index ||
	    x->mem.scale != y->mem.scale || x->mem.segment != y->mem.segment)
		return false;
	if (x->mem.base == ZYDIS_REGISTER_RIP)
		return a->at + a->insn.length + dx == b->at + b->insn.length + dy;
	return dx + (x->mem.base == ZYDIS_REGISTER_RSP ? moved : 0) == dy;
}

static bool same_operand(const struct decoded *a, const ZydisDecodedOperand *x,
			 const struct decoded *b, const ZydisDecodedOperand *y)
{
	if (x->type != y->type || x->size != y->size || x->actions != y->actions ||
	    x->encoding != y->encoding || x->visibility != y->visibility)
		return false;
	switch (x->type) {
	case ZYDIS_OPERAND_TYPE_REGISTER:
		return x->reg.value == y->reg.value;
	case ZYDIS_OPERAND_TYPE_MEMORY:
		return same_memory(a, x, b, y, 0);
	case ZYDIS_OPERAND_TYPE_IMMEDIATE:
		return x->imm.value.u == y->imm.value.u;
	default:
		return true;
	}
}

static bool same_insn(const struct decoded *a, const struct decoded *b)
{
	u32 i;

	if (a->insn.mnemonic != b->insn.mnemonic || a->insn.length != b->insn.length ||
	    a->insn.attributes != b->insn.attributes ||
	    a->insn.operand_count != b->insn.operand_count)
		return false;
	for (i = 0; i < a->insn.operand_count; i++)
		if (!same_operand(a, &a->ops[i], b, &b->ops[i]))
			return false;
	return true;
}

/* --- branches ---------------------------------------------------------------------------- */

static u64 target_of(const struct decoded *d)
{
	return d->at + d->insn.length + (u64)d->insn.raw.imm[0].value.s;
}

static bool is_direct(const struct decoded *d)
{
	return d->insn.raw.imm[0].is_relative && d->insn.meta.branch_type;
}

/* A direct branch of that kind with a 32-bit offset, which takes up all of [off, end). */
static bool is_near(u32 off, u32 end, ZydisMnemonic mnemonic, struct decoded *d)
{
	return decode_code(off, d) && d->insn.mnemonic == mnemonic && is_direct(d) &&
	       d->insn.raw.imm[0].size == 32 && off + d->insn.length == end;
}

static u32 offset_of(u64 address)
{
	return (u32)(address - HOST_CODE_BASE);
}

/* push $exit at *off, which is moved behind it; the number, or CACHE_NONE. */
static u32 pushed_exit(u32 *off)
{
	struct decoded d;

	if (!decode_code(*off, &d) || d.insn.mnemonic != ZYDIS_MNEMONIC_PUSH ||
	    d.ops[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
		return CACHE_NONE;
	*off += d.insn.length;
	return (u32)d.ops[0].imm.value.u;
}

static bool jumps_to(u32 off, u64 address)
{
	struct decoded d;

	return decode_code(off, &d) && d.insn.mnemonic == ZYDIS_MNEMONIC_JMP && is_direct(&d) &&
	       target_of(&d) == address;
}

/* What a branch in the code leads to, is it the original target? */
static bool reaches(const struct decoded *branch, u64 target)
{
	u32 off = offset_of(target_of(branch)), stub = off;
	u32 block = jifl_cache_find(0, jifl_orig_at(target)), exit;

	if (block != CACHE_NONE && cache.blocks[block].start == off &&
	    cache_orig(cache.blocks[block].orig).v == target) {
		check_stats.linked++;
		return true;
	}
	exit = pushed_exit(&off);
	return block == CACHE_NONE && exit < cache.nexits && cache.exits[exit].stub == stub &&
	       cache.exits[exit].kind == CACHE_EXIT_DIRECT &&
	       cache_orig(cache.exits[exit].target).v == target &&
	       jumps_to(off, HOST_DISPATCH_DIRECT);
}

static void check_direct(const struct decoded *o, u32 off, u32 end)
{
	struct decoded d;

	check_stats.direct++;
	if (!is_near(off, end, o->insn.mnemonic, &d))
		differs(o, off, "not the same branch");
	else if (!reaches(&d, target_of(o)) &&
		 (target_of(&d) != target_of(o) || !host_is_thunk(target_of(o))))
		differs(o, off, "a branch to something else");
}

/* jrcxz 1f; jmp 2f; 1: jmp target; 2: */
static void check_loop(const struct decoded *o, u32 off, u32 end)
{
	struct decoded d, skip, jump;
	u32 second = off + o->insn.length;

	check_stats.loops++;
	if (!decode_code(off, &d) || d.insn.mnemonic != o->insn.mnemonic ||
	    d.insn.attributes != o->insn.attributes || d.insn.length != o->insn.length ||
	    !decode_code(second, &skip) || skip.insn.mnemonic != ZYDIS_MNEMONIC_JMP ||
	    target_of(&d) != skip.at + skip.insn.length ||
	    target_of(&skip) != HOST_CODE_BASE + end ||
	    !is_near(second + skip.insn.length, end, ZYDIS_MNEMONIC_JMP, &jump))
		differs(o, off, "not the same loop");
	else if (!reaches(&jump, target_of(o)))
		differs(o, off, "a loop to something else");
}

/* push reg; push $exit; jmp dispatch_indirect */
static bool is_register_stub(u32 off, u8 reg)
{
	u32 stub = off, exit;
	struct decoded d;

	if (!decode_code(off, &d) || d.insn.mnemonic != ZYDIS_MNEMONIC_PUSH ||
	    d.ops[0].type != ZYDIS_OPERAND_TYPE_REGISTER || d.ops[0].reg.value != gpr(reg))
		return false;
	off += d.insn.length;
	exit = pushed_exit(&off);
	return exit < cache.nexits && cache.exits[exit].kind == CACHE_EXIT_INDIRECT &&
	       cache.exits[exit].stub == stub && jumps_to(off, HOST_DISPATCH_INDIRECT);
}

static void check_register(const struct decoded *o, u8 reg, u32 off, u32 end)
{
	struct decoded d;

	if (!is_near(off, end, o->insn.mnemonic, &d) ||
	    !is_register_stub(offset_of(target_of(&d)), reg))
		differs(o, off, "not a branch through the register");
}

/* push operand; jmp lookup: a call's return address stands above it by then */
static void check_memory(const struct decoded *o, u32 off, u32 end)
{
	s64 moved = o->insn.mnemonic == ZYDIS_MNEMONIC_CALL ? 8 : 0;
	struct decoded d, push;
	u32 stub;

	if (!is_near(off, end, o->insn.mnemonic, &d)) {
		differs(o, off, "not a branch");
		return;
	}
	stub = offset_of(target_of(&d));
	if (!decode_code(stub, &push) || push.insn.mnemonic != ZYDIS_MNEMONIC_PUSH ||
	    push.ops[0].type != ZYDIS_OPERAND_TYPE_MEMORY || push.ops[0].size != 64 ||
	    !same_memory(o, &o->ops[0], &push, &push.ops[0], moved) ||
	    !jumps_to(stub + push.insn.length, HOST_CODE_BASE + cache.contexts[0].lookup))
		differs(o, off, "not a branch through the operand");
}

static void check_indirect(const struct decoded *o, u32 off, u32 end)
{
	check_stats.indirect++;
	if (o->ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER)
		check_register(o, (u8)(o->ops[0].reg.value - ZYDIS_REGISTER_RAX), off, end);
	else
		check_memory(o, off, end);
}

static void check_thunk(const struct decoded *o, const struct image_thunk *thunk, u32 off, u32 end)
{
	struct decoded d;

	check_stats.thunks++;
	if (thunk->reg != IMAGE_RETURN)
		check_register(o, thunk->reg, off, end);
	else if (!is_near(off, end, o->insn.mnemonic, &d) || target_of(&d) != thunk->addr)
		differs(o, off, "not the return thunk");
}

/* --- instructions ------------------------------------------------------------------------- */

/* Original instructions that leave no code; next: what the code behind it was made from. */
static void check_left_out(const struct decoded *o, u32 off, u64 next)
{
	check_stats.left_out++;
	if (o->insn.mnemonic == ZYDIS_MNEMONIC_NOP || o->insn.mnemonic == ZYDIS_MNEMONIC_ENDBR64)
		return;
	if (o->insn.mnemonic != ZYDIS_MNEMONIC_JMP || !is_direct(o) || target_of(o) != next)
		differs(o, off, "left out");
}

static void check_copy(const struct decoded *o, u32 off, u32 end)
{
	struct decoded copy;

	check_stats.copied++;
	if ((o->insn.attributes & ZYDIS_ATTRIB_HAS_MODRM) && o->insn.raw.modrm.mod == 0 &&
	    o->insn.raw.modrm.rm == 5)
		check_stats.relocated++;
	if (!decode_code(off, &copy) || off + copy.insn.length != end || !same_insn(o, &copy))
		differs(o, off, "not a copy");
}

static void check_branch(const struct decoded *o, u32 off, u32 end)
{
	const struct image_thunk *thunk = is_direct(o) ? host_thunk(target_of(o)) : NULL;

	switch (o->insn.meta.category) {
	case ZYDIS_CATEGORY_RET:
		check_stats.returns++;
		check_copy(o, off, end);
		return;
	case ZYDIS_CATEGORY_COND_BR:
		if (o->insn.raw.imm[0].size == 8 && o->insn.opcode >= 0xe0)
			check_loop(o, off, end);
		else
			check_direct(o, off, end);
		return;
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_UNCOND_BR:
		if (thunk && (thunk->reg != IMAGE_RETURN ||
			      o->insn.mnemonic == ZYDIS_MNEMONIC_JMP))
			check_thunk(o, thunk, off, end);
		else if (is_direct(o))
			check_direct(o, off, end);
		else
			check_indirect(o, off, end);
		return;
	default:
		differs(o, off, "a kind of branch that is not known");
	}
}

/* Is it all code of a block whose instructions leave none: a place for an int3? */
static bool is_place(const struct cache_block *b, u32 off)
{
	return b->len == 1 && off == b->start && *host_code(off) == 0x90;
}

static void check_insn(const struct cache_block *b, u64 at, u8 src_len, u32 off, u8 len, u64 next)
{
	jifl_orig orig = jifl_orig_at(0);
	struct decoded o;
	u64 left = 0;
	const u8 *bytes = host_original(at, &left);

	if (!decode(bytes, left, at, &o) || o.insn.length != src_len) {
		differs(&o, off, "not one original instruction");
		return;
	}
	if (!len || is_place(b, off))
		check_left_out(&o, off, next);
	if (!len)
		return;
	if (is_place(b, off))
		check_stats.places++;
	else if (o.insn.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE)
		check_branch(&o, off, off + len);
	else
		check_copy(&o, off, off + len);
	if (jifl_engine_where_insn(HOST_CODE_BASE + off, &orig) != JIFL_WHERE_EXACT ||
	    orig.v != at)
		differs(&o, off, "the address says it is another");
}

/* What the code right behind block i was made from; 0: from nothing. */
static u64 original_behind(u32 i)
{
	return i + 1 < cache.nblocks ? cache_orig(cache.blocks[i + 1].orig).v : 0;
}

static void check_block(u32 i)
{
	const struct cache_block *b = &cache.blocks[i];
	u32 m = b->map, end = i + 1 < cache.nblocks ? cache.blocks[i + 1].map : cache.nmap;
	u64 at = cache_orig(b->orig).v;
	struct decoded d = { .at = at };
	u32 off = b->start;

	for (; m < end; m += 2) {
		u8 len = cache.map[m], src_len = cache.map[m + 1];
		bool last = m + 2 == end;

		if (src_len) {
			check_insn(b, at, src_len, off, len, last ? original_behind(i) : 0);
		} else if (!last || !is_near(off, off + len, ZYDIS_MNEMONIC_JMP, &d) ||
			   !reaches(&d, at)) {
			d.at = at;
			differs(&d, off, "it does not go on where the original does");
		}
		at += src_len;
		off += len;
	}
	d.at = at;
	if (off != b->start + b->len || at != cache_orig(b->orig).v + b->src_len)
		differs(&d, off, "the map does not cover the block");
}

/* pushf; incq counter; popf; jmp original */
static void check_native(const struct cache_block *b)
{
	static const u8 count[] = { 0x9c, 0x65, 0x48, 0x83, 0x04, 0x25 };
	struct decoded d = { .at = cache_orig(b->orig).v };
	u32 disp, off = b->start;

	memcpy(&disp, host_code(off + sizeof(count)), 4);
	disp -= HOST_COUNTERS;
	if (memcmp(host_code(off), count, sizeof(count)) || disp % 8 || !disp ||
	    disp / 8 >= JIFL_NR_CAUSES || memcmp(host_code(off + 10), "\x01\x9d", 2) ||
	    !jumps_to(off + 12, d.at))
		differs(&d, off, "not a native exit");
}

void check_init(void)
{
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

void check_blocks(void)
{
	u32 i;

	for (i = 0; i < cache.nblocks; i++) {
		if (cache.blocks[i].flags & CACHE_BLOCK_NATIVE)
			check_native(&cache.blocks[i]);
		else
			check_block(i);
	}
}
