// SPDX-License-Identifier: GPL-2.0
/* Receives the reports of tests/unit's shared parts, and ends cases that do not end. */
#include <signal.h>
#include <stdarg.h>
#include <sys/time.h>
#include <unistd.h>

#include "../unit/unit.h"
#include "fuzz.h"

u64 fuzz_failures;

void unit_fail(const char *file, int line, const char *what, const char *format, ...)
{
	va_list args;

	if (fuzz_failures++ > 20)
		return;
	va_start(args, format);
	printf("  %s:%d: not so: %s: ", file, line, what);
	vprintf(format, args);
	printf("\n");
	va_end(args);
}

/* Cases take milliseconds, shapes up to a second, ten when poisoned. */
#define LIMIT 60

static struct {
	const char *what;
	u64 number;
} limited;

static void on_time(int sig)
{
	printf("FAILED %s %llu: it does not end\n", limited.what, limited.number);
	fflush(stdout);
	_exit(1);
}

void fuzz_limit_time(const char *what, u64 number)
{
	const struct itimerval limit = { .it_value.tv_sec = LIMIT };

	limited.what = what;
	limited.number = number;
	signal(SIGVTALRM, on_time);
	setitimer(ITIMER_VIRTUAL, &limit, NULL);
}

const char *unit_hex(const void *bytes, u32 n)
{
	static char text[64];
	u32 i;

	for (i = 0; i < n && i < 15; i++)
		sprintf(text + 3 * i, "%02x ", ((const u8 *)bytes)[i]);
	return text;
}
