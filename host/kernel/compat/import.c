// SPDX-License-Identifier: GPL-2.0
/*
 * Finds the kernel's functions that import.h lists, at load, in process context. Until then, and
 * where the kernel does not have a function, its call returns 0.
 */
#include "../kernel.h"
#include "import.h"
#include "ksym.h"

#define JIFL_IMPORT_DEFINE(need, function) \
	DEFINE_STATIC_CALL_RET0(jifl_import_##function, function);
JIFL_IMPORTS(JIFL_IMPORT_DEFINE)

enum need { OPTIONAL, NEEDED };

static struct {
	const char *name;
	struct static_call_key *key;
	void *tramp;
	enum need need;
	bool found;
} imports[] = {
#define JIFL_IMPORT_ENTRY(need, function) \
	[JIFL_IMPORT_##function] = { #function, &STATIC_CALL_KEY(jifl_import_##function), \
				     STATIC_CALL_TRAMP_ADDR(jifl_import_##function), need },
	JIFL_IMPORTS(JIFL_IMPORT_ENTRY)
};

bool jifl_import_has(enum jifl_import import)
{
	return imports[import].found;
}

int jifl_import_init(void)
{
	unsigned long addr;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(imports); i++) {
		addr = jifl_ksym(imports[i].name);
		imports[i].found = addr;
		if (addr) {
			__static_call_update(imports[i].key, imports[i].tramp, (void *)addr);
		} else if (imports[i].need == NEEDED) {
			pr_err("no %s: use a kernel that has it\n", imports[i].name);
			return -EOPNOTSUPP;
		}
	}
	return 0;
}
