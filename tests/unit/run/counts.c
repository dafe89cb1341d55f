// SPDX-License-Identifier: GPL-2.0
/*
 * Counted instructions against what the processor says: a child executes the
 * same function natively, one instruction after the other, under ptrace.
 * A repeated string instruction stops after each repetition and counts once.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../inserts.h"
#include "../targets/targets.h"
#include "../unit.h"

static const struct {
	const char *name;
	const struct target *table;
} tables[] = {
	{ "plain", targets_plain },
	{ "slow", targets_slow },
	{ "thunk", targets_thunk },
	{ "asm", targets_asm },
};

static void child(target_fn fn, unsigned long n)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	fn(n);
	_exit(0);
}

static bool step(pid_t pid, struct user_regs_struct *regs)
{
	int status;

	return !ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) && waitpid(pid, &status, 0) == pid &&
	       WIFSTOPPED(status) && !ptrace(PTRACE_GETREGS, pid, NULL, regs);
}

/* The child's text is ours. */
static bool is_repeated(u64 ip)
{
	const u8 *b = (const u8 *)(unsigned long)ip;
	bool rep = false;

	for (;; b++) {
		if (*b == 0xf2 || *b == 0xf3)
			rep = true;
		else if (*b != 0x66 && *b != 0x67 && (*b & 0xf0) != 0x40)
			break;
	}
	return rep && ((*b >= 0xa4 && *b <= 0xa7) || (*b >= 0xaa && *b <= 0xaf) ||
		       (*b >= 0x6c && *b <= 0x6f));
}

static u64 native_count(target_fn fn, unsigned long n)
{
	struct user_regs_struct regs = { 0 };
	u64 ip, top, back, count = 0;
	int status;
	pid_t pid = fork();

	if (!pid)
		child(fn, n);
	waitpid(pid, &status, 0);
	while (regs.rip != (u64)(unsigned long)fn)
		REQUIRE(step(pid, &regs), "the child does not get to its function");
	top = regs.rsp;
	back = (u64)ptrace(PTRACE_PEEKDATA, pid, top, NULL);
	do {
		ip = regs.rip;
		REQUIRE(step(pid, &regs), "the child does not come back");
		if (regs.rip != ip || !is_repeated(ip))
			count++;
	} while (regs.rip != back || regs.rsp <= top);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return count;
}

static u64 counted(jifl_instrument_fn fn, const u64 *counter, const struct target *t,
		   unsigned long n, bool warm)
{
	int context;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	context = jifl_engine_context_create(fn, NULL);
	if (warm)
		user_host_call(context, t->fn, n);
	insert_begin();
	user_host_call(context, t->fn, n);
	CHECK_EQ_IN(t->name, user_host_exits_total(), 0);
	return *counter;
}

UNIT_TEST(exact, "run/counts: counted instructions are those the processor executes")
{
	const struct target *t;
	unsigned long n;
	u64 native;
	u32 i;

	for (i = 0; i < JIFL_ARRAY_LEN(tables); i++) {
		for (t = tables[i].table; t->name; t++) {
			/* Goes on natively by intent: it returns to a pushed address. */
			if (!strcmp(t->name, "returns"))
				continue;
			/* Fewer rounds: 25 microseconds or more an instruction. */
			n = t->n > 9 ? 7 + t->n / 40 : t->n;
			native = native_count(t->fn, n);
			CHECK_EQ_IN(t->name, counted(insert_block_count, &block_count, t, n, false),
				    native);
			CHECK_EQ_IN(t->name, counted(insert_block_count, &block_count, t, n, true),
				    native);
			CHECK_EQ_IN(t->name, counted(insert_ins_count, &ins_count, t, n, true),
				    native);
		}
	}
}
