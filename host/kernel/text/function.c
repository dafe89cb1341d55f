// SPDX-License-Identifier: GPL-2.0
/*
 * Functions, by any address in them, for inserted code. kallsyms is asked once for several blocks.
 * For a module's address kallsyms reads all of the module's symbols (find_kallsyms_symbol in
 * kernel/module/kallsyms.c), thousands for a file system.
 *
 * A remembered function is valid until a module goes.
 *
 * Contexts: jifl_function_at under the engine lock; jifl_function_forget takes the lock.
 */
#include <linux/kallsyms.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../compat/ksym.h"
#include "function.h"

enum {
	FUNCTIONS = 256,
	/* Bits of an address that do not choose the entry: blocks of a function share an entry. */
	LINE_BITS = 7,
};

static struct jifl_function functions[FUNCTIONS];
/* Longer than a line: the function continues in other lines. */
static struct jifl_function last;

static bool holds(const struct jifl_function *f, unsigned long addr)
{
	return addr - f->start < f->size;
}

static bool is_cold(unsigned long start)
{
	char name[KSYM_SYMBOL_LEN];

	jifl_ksym_name(start, name, sizeof(name));
	return strstr(name, ".cold");
}

static struct jifl_function look_up(unsigned long addr)
{
	struct jifl_function f;

	if (!jifl_ksym_range(addr, &f.start, &f.size))
		return (struct jifl_function){ 0 };
	f.fentry = jifl_ksym_fentry(f.start);
	/* Such a part has no site. */
	f.cold = !f.fentry && is_cold(f.start);
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
