// SPDX-License-Identifier: GPL-2.0
/*
 * The fuzzer for libFuzzer, in place of main.c: `make guided`. libFuzzer looks for inputs that
 * reach new code of the engine. JIFL_FORMS names the files of forms, JIFL_CODE_SIZE the bytes of
 * the code cache.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forms.h"
#include "fuzz.h"

/* So many cases have one cache. */
enum { EPOCH = 100 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const u8 *bytes, size_t n);

static u32 code_size = 64 << 10;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *size = getenv("JIFL_CODE_SIZE"), *forms = getenv("JIFL_FORMS");
	char *names = strdup(forms ? forms : ""), *name;

	for (name = strtok(names, " "); name; name = strtok(NULL, " "))
		forms_read(name);
	if (!fuzz_nforms) {
		fprintf(stderr, "JIFL_FORMS names no forms\n");
		exit(2);
	}
	if (size)
		code_size = strtoul(size, NULL, 0);
	fuzz_init();
	free(names);
	return 0;
}

int LLVMFuzzerTestOneInput(const u8 *bytes, size_t n)
{
	struct source from = source_of_bytes(bytes, n);
	const char *what;

	if (fuzz_stats.cases % EPOCH == 0)
		fuzz_begin(code_size, fuzz_stats.cases / EPOCH % 2);
	what = fuzz_case(&from);
	if (!what)
		return 0;
	printf("FAILED: %s\n", what);
	fuzz_dump("/dev/null");
	fflush(stdout);
	abort();
}
