// SPDX-License-Identifier: GPL-2.0
/*
 * See fuzz.h. A case compares all registers, the defined flags, and memory. On a fault it compares
 * the fault's kind, its original address, and registers: all registers where memory was reached
 * through a register, because an exception table may go on there (liveness.h). It compares flags
 * at a fault only where nothing is inserted.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "../../host/user/user.h"
#include "../unit/inserts.h"
#include "../unit/invariants.h"
#include "../../engine/cache/cache.h"
#include "forms.h"
#include "fuzz.h"
#include "program.h"
#include "state.h"

/* DF in rflags */
enum { DIRECTION = 0x400 };
enum { STACK = 1 << 20, STACK_ABOVE = 1024, RUNS = 2 };

struct fuzz_stats fuzz_stats;

struct outcome {
	struct fuzz_state state;
	u8 sandbox[SANDBOX_SIZE];
	u64 flags;
	int fault;		/* a signal, 0: none */
	u64 fault_at;		/* original address; 0: it cannot be told */
	u64 fault_ip;
	greg_t regs[NGREG];
};

static u8 stack[STACK] __attribute__((aligned(4096)));
static int contexts[INSERT_MODES];
static struct outcome native, cached, *current;
static u32 program_len;

static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };

static void on_fault(int sig, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	jifl_orig orig = jifl_orig_at((u64)r[REG_RIP]);
	struct outcome *o = current;

	if (!o) {
		signal(sig, SIG_DFL);
		return;
	}
	current = NULL;
	o->fault = sig;
	o->fault_ip = (u64)r[REG_RIP];
	o->fault_at = jifl_engine_where_insn((u64)r[REG_RIP], &orig) == JIFL_WHERE_INSIDE ?
		      0 : orig.v;
	memcpy(o->regs, r, sizeof(o->regs));
	r[REG_RIP] = (greg_t)(unsigned long)fuzz_leave;
	r[REG_EFL] &= ~DIRECTION;
}

static void catch_faults(void)
{
	static u8 alternative[1 << 16];
	stack_t alt = { .ss_sp = alternative, .ss_size = sizeof(alternative) };
	struct sigaction action = { .sa_sigaction = on_fault,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
	u32 i;

	sigaltstack(&alt, NULL);
	for (i = 0; i < JIFL_ARRAY_LEN(signals); i++)
		sigaction(signals[i], &action, NULL);
}

/* The same beginning for every run of a case. */
static void prepare(struct outcome *o, u64 seed)
{
	static const u32 fuels[] = { 3, 20, 3, 1500 };
	struct source from = source_of_seed(seed);
	u64 v;
	u32 i;

	memset(o, 0, sizeof(*o));
	for (i = 0; i < SANDBOX_SIZE; i += 8) {
		v = source_value(&from);
		memcpy(fuzz_sandbox + i, &v, 8);
	}
	memset(stack + STACK - STACK_ABOVE, 0xa5, STACK_ABOVE);
	fuzz_fuel = fuels[source_below(&from, JIFL_ARRAY_LEN(fuels))];
	fuzz_flags = 0;
	o->state.gpr[IR_RSP] = (u64)(unsigned long)(stack + STACK - STACK_ABOVE);
	fuzz_state_randomize(&o->state, &from);
}

static void run(struct outcome *o, u64 seed, u64 code)
{
	prepare(o, seed);
	fuzz_stats.runs++;
	current = o;
	fuzz_run(&o->state, code);
	current = NULL;
	memcpy(o->sandbox, fuzz_sandbox, SANDBOX_SIZE);
	o->flags = fuzz_flags;
}

/* --- comparing -------------------------------------------------------------------------------- */

static u64 status_bits(u8 valid)
{
	return ((valid & IR_CF) ? 1 : 0) | ((valid & IR_PF) ? 4 : 0) |
	       ((valid & IR_AF) ? 0x10 : 0) | ((valid & IR_ZF) ? 0x40 : 0) |
	       ((valid & IR_SF) ? 0x80 : 0) | ((valid & IR_OF) ? 0x800 : 0);
}

/* Does the instruction there reach memory through a register other than rsp? */
static bool through_register(u64 at)
{
	struct insn i;
	u32 k;

	if (!insn_decode((const u8 *)(unsigned long)at, 15, &i))
		return false;
	for (k = 0; k < i.zi.operand_count; k++) {
		const ZydisDecodedOperand *op = &i.ops[k];

		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    op->mem.type != ZYDIS_MEMOP_TYPE_AGEN &&
		    ((op->mem.base != ZYDIS_REGISTER_NONE &&
		      op->mem.base != ZYDIS_REGISTER_RSP &&
		      op->mem.base != ZYDIS_REGISTER_RIP) ||
		     op->mem.index != ZYDIS_REGISTER_NONE))
			return true;
	}
	return false;
}

/* Inserts of these modes change no register, dead or not; flags are put into a dead rax. */
static bool keeps_registers(const struct insert_mode *mode)
{
	return !mode->fn || (mode->fn == insert_store && !user_host_poison);
}

static const char *compare_faults(const struct insert_mode *mode)
{
	u8 valid;
	int r;

	if (native.fault != cached.fault)
		return "another signal";
	if (native.fault_at != cached.fault_at)
		return "the address of the fault";
	if (keeps_registers(mode) || through_register(native.fault_at))
		for (r = REG_R8; r <= REG_RSP; r++)
			if (native.regs[r] != cached.regs[r])
				return "a register at the fault";
	valid = fuzz_valid_at((u32)(native.fault_at - (u64)(unsigned long)fuzz_text));
	if (!mode->fn && (native.regs[REG_EFL] ^ cached.regs[REG_EFL]) &
	    (DIRECTION | status_bits(valid)))
		return "flags at the fault";
	return NULL;
}

static const char *compare(const struct insert_mode *mode)
{
	const char *what;

	if (native.fault || cached.fault) {
		what = compare_faults(mode);
	} else {
		what = fuzz_state_differs(&native.state, &cached.state);
		if (!what && (native.flags ^ cached.flags) & status_bits(fuzz_flags_valid))
			what = "flags";
	}
	if (!what && memcmp(native.sandbox, cached.sandbox, SANDBOX_SIZE))
		what = "memory";
	return what;
}

/* --- one case -------------------------------------------------------------------------- */

/* Cached code where there is room; a full cache is emptied, nobody being in it. */
static u64 enter(int context)
{
	enum jifl_cause cause = JIFL_CAUSE_NONE;
	u64 at;

	if (jifl_engine_is_full()) {
		fuzz_stats.resets++;
		jifl_engine_reset();
	}
	at = jifl_engine_enter(context, jifl_orig_at((u64)(unsigned long)fuzz_text), &cause);
	if (at)
		return at;
	fuzz_stats.refused++;
	return (u64)(unsigned long)fuzz_text;
}

static const char *try_mode(u32 mode, u64 seed)
{
	static char text[200];
	const char *what;
	u32 i;

	for (i = 0; i < RUNS; i++) {
		insert_seed = seed;
		insert_begin();
		run(&cached, seed, enter(contexts[mode]));
		what = compare(&insert_modes[mode]);
		if (!what && (poison_misaligned || poison_backwards || args_wrong || terms_wrong ||
			      hits_wrong))
			what = "what an analysis routine was given";
		if (!what)
			continue;
		snprintf(text, sizeof(text), "%s, run %u: %s", insert_modes[mode].name, i, what);
		return text;
	}
	return NULL;
}

static const char *check_invariants(bool now)
{
	if (now)
		check_cache("fuzz");
	return fuzz_failures ? "the cache's invariants" : NULL;
}

const char *fuzz_case(struct source *from)
{
	const char *what;
	u64 seed;
	u32 i;

	program_len = fuzz_program(from);
	jifl_engine_invalidate(jifl_orig_at((u64)(unsigned long)fuzz_text), FUZZ_TEXT);
	seed = source_u64(from);
	run(&native, seed, (u64)(unsigned long)fuzz_text);
	fuzz_stats.cases++;
	if (native.fault)
		fuzz_stats.faults++;
	else
		fuzz_program_count();
	/* With nothing inserted, and two ways of inserting. */
	what = try_mode(0, seed);
	for (i = 0; i < 2 && !what; i++)
		what = try_mode(1 + source_below(from, INSERT_MODES - 1), seed);
	return what ? what : check_invariants(fuzz_stats.cases % 50 == 0);
}

const char *fuzz_text_case(u64 seed)
{
	const char *what = NULL;
	u32 i;

	program_len = FUZZ_TEXT;
	fuzz_flags_valid = 0;
	run(&native, seed, (u64)(unsigned long)fuzz_text);
	if (native.fault)
		return "a fault";
	for (i = 0; i < INSERT_MODES && !what; i++)
		what = try_mode(i, seed);
	return what ? what : check_invariants(true);
}

void fuzz_begin(u32 code_size, bool jumping)
{
	u32 i;

	if (jumping)
		user_host_init_jumping(code_size, 4 << 20, false);
	else
		user_host_init(code_size, 4 << 20);
	for (i = 0; insert_modes[i].name; i++)
		contexts[i] = jifl_engine_context_create(insert_modes[i].fn, NULL);
}

/* --- set-up ---------------------------------------------------------------------------- */

/* Does it work at all, in one of a few states? */
static enum form_use try_form(u32 form)
{
	enum form_use use = FORM_LACKING;
	u32 i;

	fuzz_program_of_form(form);
	for (i = 0; i < 4; i++) {
		run(&native, i, (u64)(unsigned long)fuzz_text);
		if (!native.fault)
			return FORM_USED;
		if (native.fault != SIGILL)
			use = FORM_SYSTEM;
		/* A division is allowed to fail with what it was given. */
		if (native.fault == SIGFPE)
			return FORM_USED;
	}
	return use;
}

void fuzz_init(void)
{
	enum form_use use;
	u32 i;

	/* Programs are short. */
	user_host_training_hits = 2;
	fuzz_state_init();
	fuzz_program_init();
	catch_faults();
	fuzz_begin(1 << 20, false);
	for (i = fuzz_nforms; i-- > 0;) {
		use = try_form(i);
		if (use != FORM_USED)
			form_set_aside(i, use);
	}
	fuzz_stats = (struct fuzz_stats){ 0 };
}

void fuzz_dump(const char *path)
{
	FILE *f = fopen(path, "w");

	if (f) {
		fwrite(fuzz_text, 1, program_len, f);
		fclose(f);
	}
	printf("  program at %p written to %s\n", fuzz_text, path);
	printf("  objdump -D -b binary -m i386:x86-64 --adjust-vma=%p %s\n", fuzz_text, path);
	printf("  natively: signal %d at %#llx; in the cache: %d at %#llx (ip %#llx)\n",
	       native.fault, native.fault_at, cached.fault, cached.fault_at, cached.fault_ip);
}
