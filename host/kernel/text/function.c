// SPDX-License-Identifier: GPL-2.0
/*
 * Functions, by any address in them, for what is inserted: kallsyms asked once for several
 * blocks. It has nothing better for a module's address than reading all of the module's
 * symbols (find_kallsyms_symbol in kernel/module/kallsyms.c), thousands for a file system.
 *
 * What is remembered holds until a module goes.
 *
 * Contexts: jifl_function_at under the engine lock; jifl_function_forget takes it.
 */
#include <linux/string.h>

#include "../kernel.h"
#include "../compat/ksym.h"
#include "function.h"

enum {
	FUNCTIONS = 256,
	LINE_BITS = 7,		/* of an address, that do not choose the entry: blocks of a function share one */
};

static struct jifl_function functions[FUNCTIONS];
static struct jifl_function last;	/* longer than a line: it goes on in others */

static bool holds(const struct jifl_function *f, unsigned long addr)
{
	return addr - f->start < f->size;
}

static struct jifl_function look_up(unsigned long addr)
{
	struct jifl_function f;

	if (!jifl_ksym_range(addr, &f.start, &f.size))
		return (struct jifl_function){ 0 };
	f.fentry = jifl_ksym_fentry(f.start);
	return f;
}

const struct jifl_function *jifl_function_at(unsigned long addr)
{
	struct jifl_function *f = &functions[addr >> LINE_BITS & (FUNCTIONS - 1)];

	if (holds(f, addr))
		return f;
	*f = holds(&last, addr) ? last : look_up(addr);
	last = *f;
	return f;
}

bool jifl_function_starts(unsigned long addr)
{
	return jifl_function_at(addr)->start == addr;
}

void jifl_function_forget(void)
{
	unsigned long cookie = jifl_host_lock();

	memset(functions, 0, sizeof(functions));
	last.size = 0;
	jifl_host_unlock(cookie);
}
