// SPDX-License-Identifier: GPL-2.0
/*
 * What inserted code and stubs have on the stack at any place inside them, so
 * that a stack can be walked that was left there: by an interrupt, or by the
 * call of an analysis function.
 *
 * Little is recorded for that: the code itself is read. Inserted code leaves
 * rsp as it found it, so what it has pushed is what its instructions up to
 * here push; routines that are inlined push nothing, and have it recorded. A stub, on the other
 * hand, ends in a jump to one of few places, each of which expects a certain depth.
 *
 * Any context, NMI too; takes no lock. Stubs are written before anything leads to
 * them, and after that only the targets of their branches change.
 */
#include "cache.h"

/* Instructions of the longest stub, the hash lookup, and more. */
#define STUB_INSNS 24
/* When the hash lookup leaves by a plain jump: rcx, rax, the original target. */
#define LOOKUP_DEPTH 24

static const u8 *code_at(u32 off)
{
	return (const u8 *)(unsigned long)cache_address(off);
}

static u32 known(s32 pushed)
{
	return pushed > 0 ? (u32)pushed : 0;
}

static u32 pushed_since(const struct cache_run *run, u32 off)
{
	s32 pushed = (s32)run->pushed;
	u32 at = run->from, len;

	while (at < off && !run->fixed) {
		len = x86_walk(code_at(at), &pushed);
		if (!len)
			return 0;
		at += len;
	}
	return known(pushed);
}

/* Where the last push of r10 up to off left it, in bytes from the top of the stack at off. */
static bool find_r10(u32 run, u32 off, u32 *at)
{
	static const u8 push_r10[] = { 0x41, 0x52 };
	s32 pushed = 0, depth = 0;
	u32 len;

	while (run < off) {
		bool is_push = !memcmp(code_at(run), push_r10, sizeof(push_r10));

		len = x86_walk(code_at(run), &pushed);
		if (!len)
			return false;
		run += len;
		if (is_push)
			depth = pushed;
		else if (pushed < depth)
			depth = 0;
	}
	*at = (u32)(pushed - depth);
	return depth > 0;
}

static bool is_lookup(u32 off)
{
	u32 i;

	for (i = 0; i < cache.ncontexts; i++)
		if (cache.contexts[i].lookup == off || cache.contexts[i].gate == off)
			return true;
	return false;
}

/* Offsets are modulo 2^32. */
static bool is_return(u32 to)
{
	return cache.config.retpoline_return &&
	       to == (u32)(cache.config.retpoline_return - cache.code_base);
}

/* What is on the stack when a stub jumps to `to`. */
static s32 depth_at(u32 to)
{
	if (to == cache.config.dispatch_indirect)
		return 16;
	return to == cache.config.dispatch_direct || is_lookup(to) || is_return(to) ? 8 : 0;
}

static s32 load_s32(const u8 *p)
{
	s32 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* The number that the push at p has, or the one before p. */
static u32 pushed_number(const u8 *p)
{
	if (p[0] == 0x68)
		return (u32)load_s32(p + 1);
	if (p[0] == 0x6a)
		return (u32)(s8)p[1];
	return CACHE_NONE;
}

/*
 * In a direct exit's stub everything is as it is at the target's start, the
 * return address of a call included, but for the number of the exit.
 */
static void find_target(u32 off, jifl_orig *orig)
{
	const u8 *p = code_at(off);
	u32 numbers[] = { pushed_number(p), pushed_number(p - 5), pushed_number(p - 2) };
	u32 i;

	for (i = 0; i < JIFL_ARRAY_LEN(numbers); i++) {
		const struct cache_exit *x = &cache.exits[numbers[i]];

		if (numbers[i] < cache.nexits && x->kind == CACHE_EXIT_DIRECT &&
		    off - x->stub < 8) {
			*orig = cache_orig(x->target);
			return;
		}
	}
}

static u32 pushed_in_stub(u32 off, jifl_orig *orig)
{
	s32 pushed = 0;
	u32 at = off, i;

	for (i = 0; i < STUB_INSNS; i++) {
		const u8 *p = code_at(at);
		u32 len, to;

		if (p[0] == 0xff && p[1] == 0xe0)	/* jmp *%rax */
			return known(LOOKUP_DEPTH - pushed);
		if (p[0] == 0xc3)
			return known(8 - pushed);
		while (p[0] == 0x2e)
			p++, at++;
		if (x86_is_retpoline_call(p)) {
			pushed += 8;
			at += 5 + (u32)load_s32(p + 1);
			continue;
		}
		if (p[0] == 0xe9) {
			to = at + 5 + (u32)load_s32(p + 1);
			if (to == at + 5) {		/* a gate without a lookup */
				at = to;
				continue;
			}
			if (to == cache.config.dispatch_direct)
				find_target(off, orig);
			return known(depth_at(to) - pushed);
		}
		len = x86_walk(p, &pushed);
		if (!len)
			return 0;
		at += len;
	}
	return 0;
}

enum jifl_where jifl_engine_where_stack(u64 addr, bool is_return, jifl_orig *orig, u32 *pushed)
{
	u32 off = (u32)(addr - cache.code_base);
	struct cache_run run = { 0 };
	enum jifl_where where = jifl_cache_where_run(addr,
						     is_return ? CACHE_AT_RETURN : CACHE_AT_INSN,
						     orig, &run);

	*pushed = 0;
	if (where == JIFL_WHERE_INSIDE)
		*pushed = run.from == CACHE_NONE ? pushed_in_stub(off, orig) :
			  pushed_since(&run, off);
	return where;
}

bool jifl_engine_where_r10(u64 addr, u32 *at)
{
	struct cache_run run = { 0 };
	jifl_orig orig;

	if (jifl_cache_where_run(addr, CACHE_AT_RETURN, &orig, &run) != JIFL_WHERE_INSIDE ||
	    run.from == CACHE_NONE)
		return false;
	/* An inlined routine has had it saved by the piece before its own. */
	return run.fixed ? find_r10(run.before, run.from, at) :
			   find_r10(run.from, (u32)(addr - cache.code_base), at);
}
