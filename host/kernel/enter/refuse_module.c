// SPDX-License-Identifier: GPL-2.0
/*
 * Which functions of modules are refused by their names. For one address the kernel goes through
 * all symbols of the module: tens of thousands of instructions. So where many functions are asked
 * about, and a module's come one after the other, its symbols are read once, into a table.
 *
 * The table says what the kernel would say (find_kallsyms_symbol, kernel/module/kallsyms.c): of
 * several symbols at one address the first one counts, and those without a name do not. It has a
 * reference to its module, so nothing else comes to these addresses while there is a table. That
 * module has come up: one whose beginning fails is freed in spite of references.
 *
 * Context: process, sleeps.
 */
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../compat/import.h"
#include "function.h"
#include "refuse_module.h"

/* So many functions of one module, one after the other, are worth a table. */
#define MANY	16

struct table {
	struct module *module;		/* of whose functions this is */
	unsigned long base, size;	/* its text */
	unsigned int bits;
	struct {
		unsigned long begin;	/* 0: none */
		enum jifl_refusal why;
	} slots[];
};

static DEFINE_MUTEX(table_mutex);
static struct table *table;		/* NULL: none */
static unsigned int expecting;		/* who wants one */
static const void *last;		/* the module that was asked about before; never followed */
static unsigned int times;		/* so often, one after the other */

/* Where the function's slot is, or would be. At least one is free. */
static u32 slot_of(const struct table *t, unsigned long begin)
{
	u32 i = hash_long(begin, t->bits);

	while (t->slots[i].begin && t->slots[i].begin != begin)
		i = (i + 1) & ((1u << t->bits) - 1);
	return i;
}

/* Labels of assembly, which the kernel leaves out (is_mapping_symbol; 6.1 leaves out fewer). */
static bool is_label(const char *name)
{
	return (name[0] == '.' && name[1] == 'L') || (name[0] == 'L' && name[1] == '0') ||
	       name[0] == '$';
}

static bool is_function_of(const struct table *t, const Elf_Sym *symbol, const char *name)
{
	return symbol->st_shndx != SHN_UNDEF && symbol->st_value - t->base < t->size && *name &&
	       !is_label(name);
}

static void fill(struct table *t, const struct mod_kallsyms *symbols)
{
	u32 i, k;

	for (i = 0; i < symbols->num_symtab; i++) {
		const Elf_Sym *symbol = &symbols->symtab[i];
		const char *name = symbols->strtab + symbol->st_name;

		if (!is_function_of(t, symbol, name))
			continue;
		k = slot_of(t, symbol->st_value);
		if (t->slots[k].begin)
			continue;
		t->slots[k].begin = symbol->st_value;
		t->slots[k].why = JIFL_HOST_PLANTED(module_names_ignored) ?
					  JIFL_REFUSED_NO :
					  jifl_function_name_refusal(name);
	}
}

static void drop(void)
{
	if (table)
		module_put(table->module);
	kvfree(table);
	table = NULL;
	times = 0;
}

/* The module in which the function begins, with a reference; NULL: none, or it has not come up. */
static struct module *hold(unsigned long begin)
{
	struct module *module;

	preempt_disable();
	module = jifl_import(__module_address)(begin);
	if (module &&
	    (READ_ONCE(module->state) != MODULE_STATE_LIVE || !try_module_get(module)))
		module = NULL;
	preempt_enable();
	return module;
}

/* The table becomes that of the module in which the function begins, if there can be one. */
static void make(unsigned long begin)
{
	const struct mod_kallsyms *symbols;
	struct module *module;
	unsigned int bits;
	struct table *t;

	drop();
	module = hold(begin);
	if (!module)
		return;
	symbols = &module->core_kallsyms;
	bits = ilog2(symbols->num_symtab + 1) + 2;
	t = JIFL_ALLOC(kvzalloc(struct_size(t, slots, 1u << bits), GFP_KERNEL));
	if (!t) {
		module_put(module);
		return;
	}
	t->module = module;
	t->bits = bits;
	jifl_compat_module_text(module, &t->base, &t->size);
	fill(t, symbols);
	table = t;
}

/* Is there a table for the function? Under table_mutex. */
static bool has_table(unsigned long begin)
{
	const struct module *module;

	if (table && begin - table->base < table->size)
		return true;
	if (!expecting)
		return false;
	preempt_disable();
	module = jifl_import(__module_address)(begin);
	preempt_enable();
	/* Addresses of its data are in no table. */
	if (!module || (table && table->module == module))
		return false;
	times = module == last ? times + 1 : 0;
	last = module;
	if (times < MANY)
		return false;
	make(begin);
	return table && begin - table->base < table->size;
}

bool jifl_refuse_in_module(unsigned long begin, enum jifl_refusal *why)
{
	bool known;
	u32 k;

	mutex_lock(&table_mutex);
	known = has_table(begin);
	if (known) {
		k = slot_of(table, begin);
		*why = table->slots[k].begin ? table->slots[k].why : JIFL_REFUSED_UNKNOWN;
	}
	mutex_unlock(&table_mutex);
	return known;
}

void jifl_refuse_in_modules_begin(void)
{
	mutex_lock(&table_mutex);
	expecting++;
	mutex_unlock(&table_mutex);
}

void jifl_refuse_in_modules_end(void)
{
	mutex_lock(&table_mutex);
	if (!--expecting)
		drop();
	mutex_unlock(&table_mutex);
}
