// SPDX-License-Identifier: GPL-2.0
/*
 * Faults in the cache are precise: they have the original address, and all registers and flags as
 * natively. A fixup goes on natively, as a kernel's exception table does.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "../inserts.h"
#include "../targets/targets.h"
#include "../unit.h"
#include "state.h"

#define NSITES 5

/* What the handler saw. */
static struct {
	u64 at;			/* original address; 0: it could not be told */
	bool in_cache;
	greg_t regs[NGREG];
} seen;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	jifl_orig orig = jifl_orig_at((u64)r[REG_RIP]);
	enum jifl_where where = jifl_engine_where_insn((u64)r[REG_RIP], &orig);

	memcpy(seen.regs, r, sizeof(seen.regs));
	seen.in_cache = where != JIFL_WHERE_OUTSIDE;
	seen.at = where == JIFL_WHERE_INSIDE ? 0 : orig.v;
	r[REG_RIP] = (greg_t)(unsigned long)target_fault_fixup;
}

static const int compared[] = {
	REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_R8, REG_R9,
	REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
};

/* CF, which is read there, and DF */
#define FLAGS 0x401

static void check_against(const greg_t *native, const char *mode, u32 site, bool flags)
{
	u32 i;

	for (i = 0; i < JIFL_ARRAY_LEN(compared); i++)
		CHECK(seen.regs[compared[i]] == native[compared[i]],
		      "%s, site %u, register %d: %#llx, natively %#llx", mode, site, compared[i],
		      seen.regs[compared[i]], native[compared[i]]);
	if (flags)
		CHECK_EQ_IN(mode, seen.regs[REG_EFL] & FLAGS, native[REG_EFL] & FLAGS);
}

/* Runs into the fault with known registers. */
static void run_site(u64 code, u64 site, u64 bad)
{
	static u8 stack[65536];
	struct state s;
	u64 seed = site;

	s.gpr[IR_RSP] = (u64)(unsigned long)(stack + sizeof(stack) - 8) & ~15ull;
	state_randomize(&s, &seed);
	s.gpr[IR_RDI] = site;
	s.gpr[IR_RSI] = bad;
	memset(&seen, 0, sizeof(seen));
	state_run(&s, code);
	CHECK_EQ(s.gpr[IR_RAX], -14);
}

UNIT_TEST(faults, "run/faults: faults are precise and can be mended")
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	const struct insert_mode *mode;
	greg_t native[NSITES][NGREG];
	enum jifl_cause cause;
	int context;
	u8 *page;
	u64 bad;
	u32 site;

	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(page + 4096, 4096, PROT_NONE);
	bad = (u64)(unsigned long)(page + 4096);
	sigaction(SIGSEGV, &action, NULL);
	user_host_init(UNIT_CODE, UNIT_SIDE);
	for (site = 0; site < NSITES; site++) {
		run_site((u64)(unsigned long)target_faults, site, bad);
		CHECK_EQ(seen.at, target_fault_sites[site]);
		CHECK(!seen.in_cache);
		memcpy(native[site], seen.regs, sizeof(native[site]));
	}
	for (mode = insert_modes; mode->name; mode++) {
		user_host_init(UNIT_CODE, UNIT_SIDE);
		context = jifl_engine_context_create(mode->fn, NULL);
		for (site = 0; site < NSITES; site++) {
			run_site(jifl_engine_enter(context, jifl_orig_at((u64)(unsigned long)
					target_faults), &cause), site, bad);
			CHECK(seen.in_cache);
			CHECK_EQ_IN(mode->name, seen.at, target_fault_sites[site]);
			/* Only there flags have a meaning. */
			check_against(native[site], mode->name, site, site == 2);
		}
	}
}
