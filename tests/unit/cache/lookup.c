// SPDX-License-Identifier: GPL-2.0
/*
 * How the hash lookup leaves (engine/emit/stubs.c), in each form, in single steps: with calls and
 * returns in balance, and at each instruction with the stack known.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "../invariants.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

extern const char __x86_return_thunk[];

/* Functions `lea n(%rdi), %rax; ret`, 16 bytes apart. */
#define NFUNCTIONS 8
static u8 functions[16 * NFUNCTIONS] __attribute__((aligned(4096)));
/* sub $8, rsp; call *(rsi); add $8, rsp; ret: an operand in memory is always looked up. */
static u8 caller[] = "\x48\x83\xec\x08\xff\x16\x48\x83\xc4\x08\xc3";

enum { TRAP = 0x100, DEPTH = 16, ANY = DEPTH };

/* What a processor's stack of returns would hold, and what came of it. */
static struct {
	u64 returns[DEPTH];
	u32 n, mispredicted, steps, inside;
	u64 expected;	/* by the last return; 0: it was none */
	u64 rsp;	/* at the caller's first instruction */
	bool walks;
} seen;

static void predict(const u8 *p)
{
	while (*p == 0x2e)
		p++;
	if (*p == 0xe8 || (*p == 0xff && (p[1] & 0x38) == 0x10)) {
		REQUIRE(seen.n < DEPTH);
		seen.returns[seen.n++] = (u64)(unsigned long)p + (*p == 0xe8 ? 5 : 2);
	} else if (*p == 0xc3 || *p == 0xc2) {
		seen.expected = seen.n ? seen.returns[--seen.n] : 1;
	}
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	u64 rip = (u64)r[REG_RIP], rsp = (u64)r[REG_RSP];
	enum jifl_where where;
	jifl_orig orig;
	u32 pushed;

	where = jifl_engine_where_stack(rip, false, &orig, &pushed);
	if (!seen.steps && where == JIFL_WHERE_OUTSIDE)
		return;
	if (!seen.steps++) {
		seen.rsp = rsp;
		memcpy(&seen.returns[seen.n++], (const void *)rsp, 8);
	}
	seen.mispredicted += seen.expected && seen.expected != rip;
	seen.expected = 0;
	if (rsp > seen.rsp) {
		r[REG_EFL] &= ~TRAP;
		return;
	}
	predict((const u8 *)rip);
	if (where != JIFL_WHERE_INSIDE)
		return;
	seen.inside++;
	/* What is on it beside that is what there is at the target's start. */
	CHECK(!seen.walks || rsp + pushed == seen.rsp - 16, "at %s: %u, wanted %llu",
	      unit_hex((const void *)rip, 8), pushed, seen.rsp - 16 - rsp);
}

static u64 step(u64 code, u64 argument, u64 *target)
{
	u64 result;

	seen.n = seen.mispredicted = seen.steps = seen.inside = 0;
	seen.expected = 0;
	/* Aligned, and below the red zone. */
	asm volatile("mov %%rsp, %%rbx; sub $256, %%rsp; and $-16, %%rsp\n\t"
		     "pushfq; orl %[trap], (%%rsp); popfq\n\t"
		     "call *%[code]; mov %%rbx, %%rsp"
		     : "=a" (result), "+D" (argument), "+S" (target)
		     : [code] "r" (code), [trap] "i" (TRAP)
		     : "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
	return result;
}

static void check_form(struct jifl_config *config, bool walks, u32 mispredicted)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	enum jifl_cause cause;
	int context;
	u64 code, target;
	u32 i, round;

	REQUIRE(!jifl_engine_init(config));
	sigaction(SIGTRAP, &action, NULL);	/* instead of the host's */
	seen.walks = walks;
	context = jifl_engine_context_create(NULL, NULL);
	code = jifl_engine_enter(context, jifl_orig_at((u64)(unsigned long)caller), &cause);
	REQUIRE(code);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < NFUNCTIONS; i++) {
			target = (u64)(unsigned long)(functions + 16 * i);
			if (!round) {
				CHECK_EQ(user_host_call(context, caller, 7,
							(u64)(unsigned long)&target), 7 + i);
				continue;
			}
			CHECK_EQ(step(code, 7, &target), 7 + i);
			CHECK(seen.inside > 10, "%u of %u steps inside", seen.inside, seen.steps);
			CHECK(mispredicted == ANY || seen.mispredicted == mispredicted,
			      "%u returns mispredicted", seen.mispredicted);
			CHECK(mispredicted == ANY || !seen.n, "%u returns are still to come",
			      seen.n);
		}
		check_cache("lookups");
	}
}

static void begin(void)
{
	static const u8 code[] = { 0x48, 0x8d, 0x47, 0, 0xc3 };
	u32 i;

	for (i = 0; i < NFUNCTIONS; i++) {
		memcpy(functions + 16 * i, code, sizeof(code));
		functions[16 * i + 3] = i;
	}
	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(functions, sizeof(functions), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	user_host_set_text(caller, sizeof(caller), JIFL_TEXT_CODE, 0);
	mprotect(functions, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
}

UNIT_TEST(retpoline, "cache/lookup: leaves by a retpoline, of whose returns one is mispredicted")
{
	struct jifl_config config;

	begin();
	config = user_host_config(UNIT_CODE, UNIT_SIDE);
	check_form(&config, false, 1);
	config = user_host_kernel_config(UNIT_CODE, UNIT_SIDE, NULL);
	config.indirect_jumps = false;
	check_form(&config, true, 1);
	/* That thunk is a retpoline itself, so each return is mispredicted. */
	config = user_host_kernel_config(UNIT_CODE, UNIT_SIDE, __x86_return_thunk);
	check_form(&config, true, ANY);
}

UNIT_TEST(plain, "cache/lookup: leaves by a plain jump, and no return is mispredicted")
{
	struct jifl_config config;

	begin();
	config = user_host_config(UNIT_CODE, UNIT_SIDE);
	config.indirect_jumps = true;
	check_form(&config, false, 0);
	config = user_host_kernel_config(UNIT_CODE, UNIT_SIDE, NULL);
	check_form(&config, true, 0);
}

/* A block goes while the lookup knows it, and comes back: by the same landing. */
UNIT_TEST(changes, "cache/lookup: targets that change are found by the landings that there are")
{
	struct jifl_config config;
	u64 target;
	int context;
	u32 i, round, exits = 0;

	begin();
	config = user_host_kernel_config(UNIT_CODE, UNIT_SIDE, NULL);
	REQUIRE(!jifl_engine_init(&config));
	context = jifl_engine_context_create(NULL, NULL);
	for (round = 0; round < 5; round++) {
		for (i = 0; i < NFUNCTIONS; i++) {
			target = (u64)(unsigned long)(functions + 16 * i);
			functions[16 * i + 3] = 10 * round + i;
			jifl_engine_invalidate(jifl_orig_at(target), 5);
			CHECK_EQ(user_host_call(context, caller, 7, (u64)(unsigned long)&target),
				 7 + 10 * round + i);
			CHECK_EQ(user_host_call(context, caller, 7, (u64)(unsigned long)&target),
				 7 + 10 * round + i);
			check_cache("landings");
		}
		CHECK(round < 2 || cache.nexits == exits, "%u exits, before %u", cache.nexits,
		      exits);
		exits = cache.nexits;
	}
}
