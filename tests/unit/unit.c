// SPDX-License-Identifier: GPL-2.0
/* Runs the tests; see unit.h. Usage: unit [-v] [PART OF A NAME] */
#define _GNU_SOURCE
#include <execinfo.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "unit.h"

/* Seconds a test may take, if UNIT_LIMIT does not say; the slowest take a few. */
#define TIME_LIMIT 120
/* Failed checks of one test that are shown. */
#define SHOWN 20

static struct unit_test *first, **last = &first;
static int failures;

void unit_register(struct unit_test *test)
{
	*last = test;
	last = &test->next;
}

void unit_fail(const char *file, int line, const char *what, const char *format, ...)
{
	va_list args;

	if (failures++ >= SHOWN)
		return;
	va_start(args, format);
	printf("  %s:%d: not so: %s: ", file, line, what);
	vprintf(format, args);
	printf("\n");
	va_end(args);
}

const char *unit_hex(const void *bytes, u32 n)
{
	static char text[4][200];
	static u32 turn;
	char *t = text[turn++ % 4];
	u32 i;

	t[0] = 0;
	for (i = 0; i < n && i < 60; i++)
		sprintf(t + 3 * i, "%02x ", ((const u8 *)bytes)[i]);
	return t;
}

/* Where it happened, in original code too. */
static void on_signal(int sig, siginfo_t *info, void *context)
{
	const greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	u64 ip = (u64)r[REG_RIP];
	jifl_orig orig = jifl_orig_at(0);
	enum jifl_where where = jifl_engine_where(ip, &orig);

	fprintf(stderr, "  signal %d at %#llx, address %p\n", sig, ip, info->si_addr);
	fprintf(stderr, "  rsp %#llx rax %#llx rcx %#llx rdi %#llx\n", (u64)r[REG_RSP],
		(u64)r[REG_RAX], (u64)r[REG_RCX], (u64)r[REG_RDI]);
	if (where != JIFL_WHERE_OUTSIDE)
		fprintf(stderr, "  in the cache, %s original %#llx\n",
			where == JIFL_WHERE_EXACT ? "at" : "near", orig.v);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void catch_signals(void)
{
	static const int fatal[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };
	static char stack[65536];
	stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK };
	u32 i;

	sigaltstack(&alt, NULL);
	for (i = 0; i < JIFL_ARRAY_LEN(fatal); i++)
		sigaction(fatal[i], &action, NULL);
}

static bool run(const struct unit_test *test)
{
	const char *limit = getenv("UNIT_LIMIT");
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		alarm(limit ? (unsigned int)atoi(limit) : TIME_LIMIT);
		catch_signals();
		test->run();
		if (failures > SHOWN)
			printf("  and %d failed checks more\n", failures - SHOWN);
		exit(failures != 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		perror("fork or waitpid");
		return false;
	}
	if (WIFSIGNALED(status))
		printf("  ended by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";
	unsigned int passed = 0, failed = 0;
	const struct unit_test *test;
	bool good;

	for (test = first; test; test = test->next) {
		if (!strstr(test->name, part))
			continue;
		good = run(test);
		printf("%s %s\n", good ? "ok    " : "FAILED", test->name);
		if (good)
			passed++;
		else
			failed++;
	}
	printf("%u passed, %u failed\n", passed, failed);
	return failed || !passed;
}
