// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Times the forms of forms.S, which take turns, and has front-end.so write what it counted.
 *
 * usage: forms ROUNDS CALLS
 *
 * Prints for each round of each form: `form NAME NANOSECONDS-PER-CALL`. Under the plugin, each
 * such line has a file of its own, in the same order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "marks.h"

#define FORMS(_) \
	_(plain) _(call_dropped) _(jump) _(call_retargeted) _(return_replaced) \
	_(function_door) _(function_jump) \
	_(place_counter) _(place_registers) _(place_record) _(kprobe_jump) \
	_(lookup_return) _(lookup_retpoline) _(lookup_jump)

/* Where the form place_record writes to. */
extern unsigned char form_records[FORM_RECORDS];

#define DECLARE(name) void form_##name(unsigned int calls);
FORMS(DECLARE)

static const struct {
	const char *name;
	void (*run)(unsigned int calls);
} forms[] = {
#define ENTRY(name) { #name, form_##name },
	FORMS(ENTRY)
};

#define MARK(value) \
	__asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00; .long %c0" :: "i"(value) : "memory")

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	unsigned int rounds, calls;

	if (argc != 3 || !(rounds = strtoul(argv[1], NULL, 10)) ||
	    !(calls = strtoul(argv[2], NULL, 10))) {
		fprintf(stderr, "usage: %s ROUNDS CALLS, both more than 0\n", argv[0]);
		return 2;
	}
	/* No page of it is missing when it is timed. */
	memset(form_records, 1, sizeof(form_records));
	for (unsigned int round = 0; round < rounds; round++) {
		for (unsigned int i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
			double start = now();

			forms[i].run(calls);
			printf("form %s %.3f\n", forms[i].name, (now() - start) / calls);
			MARK(MARK_WRITE);
			MARK(MARK_STOP);
		}
	}
	return 0;
}
