// SPDX-License-Identifier: GPL-2.0
/* See native_count.h. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../engine/decode/decode.h"
#include "../unit.h"
#include "native_count.h"

static void child(void (*fn)(void *), void *arg)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	fn(arg);
	_exit(0);
}

static bool step(pid_t pid, struct user_regs_struct *regs)
{
	int status;

	return !ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) && waitpid(pid, &status, 0) == pid &&
	       WIFSTOPPED(status) && !ptrace(PTRACE_GETREGS, pid, NULL, regs);
}

/* By an int3 in its place for a while; natively, at full speed. */
static void run_to(pid_t pid, u64 code, struct user_regs_struct *regs)
{
	long word = ptrace(PTRACE_PEEKTEXT, pid, code, NULL);
	int status;

	ptrace(PTRACE_POKETEXT, pid, code, (word & ~0xffl) | 0xcc);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	waitpid(pid, &status, 0);
	ptrace(PTRACE_GETREGS, pid, NULL, regs);
	REQUIRE(WIFSTOPPED(status) && regs->rip == code + 1,
		"the child does not get to its function");
	regs->rip = code;
	ptrace(PTRACE_SETREGS, pid, NULL, regs);
	ptrace(PTRACE_POKETEXT, pid, code, word);
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

/* Calls see for each step: where it began, where it led. */
static void walk(void (*fn)(void *), void *arg, u64 code,
		 void (*see)(u64 from, u64 to, void *seen), void *seen)
{
	struct user_regs_struct regs = { 0 };
	u64 ip, top, back;
	int status;
	pid_t pid = fork();

	if (!pid)
		child(fn, arg);
	waitpid(pid, &status, 0);
	run_to(pid, code, &regs);
	top = regs.rsp;
	back = (u64)ptrace(PTRACE_PEEKDATA, pid, top, NULL);
	do {
		ip = regs.rip;
		REQUIRE(step(pid, &regs), "the child does not come back");
		see(ip, regs.rip, seen);
	} while (regs.rip != back || regs.rsp <= top);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

static void count_insn(u64 from, u64 to, void *seen)
{
	u64 *count = seen;

	if (from != to || !is_repeated(from))
		++*count;
}

u64 native_count(void (*fn)(void *), void *arg, u64 code)
{
	u64 count = 0;

	walk(fn, arg, code, count_insn, &count);
	return count;
}

static void count_edge(u64 from, u64 to, void *seen)
{
	struct edges *found = seen;
	struct ir_insn insn;

	jifl_decode_insn(jifl_orig_at(from), &insn);
	if (!ir_kind_is_conditional(insn.kind))
		return;
	found->executed++;
	/*
	 * A taken branch to the instruction behind it counts as not taken. A test that must know
	 * whether it was taken looks at its condition.
	 */
	found->not_taken += to == from + insn.len;
	found->taken += to != from + insn.len;
}

struct edges native_edges(void (*fn)(void *), void *arg, u64 code)
{
	struct edges found = { 0 };

	walk(fn, arg, code, count_edge, &found);
	return found;
}
