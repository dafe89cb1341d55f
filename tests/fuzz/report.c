// SPDX-License-Identifier: GPL-2.0
/* What tests/unit's shared parts report to. */
#include <stdarg.h>

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

const char *unit_hex(const void *bytes, u32 n)
{
	static char text[64];
	u32 i;

	for (i = 0; i < n && i < 15; i++)
		sprintf(text + 3 * i, "%02x ", ((const u8 *)bytes)[i]);
	return text;
}
