// SPDX-License-Identifier: GPL-2.0
/*
 * The other side of include/jifl_replace.h: where originals are called, past their doors. The
 * module of an original stays from jifl_original_get to jifl_original_put, because its address
 * stands in the code of the module that has asked. Context: process.
 */
#include <linux/export.h>
#include <linux/module.h>
#include <asm/ibt.h>
#include <asm/text-patching.h>

#include "../../../include/jifl_replace.h"
#include "../kernel.h"
#include "../compat/import.h"
#include "../compat/ksym.h"

void *jifl_original_get(const char *symbol)
{
	const unsigned long begin = jifl_ksym(symbol);
	struct module *module;
	unsigned long site;

	if (!begin || jifl_ksym_hold(begin, &module))
		return NULL;
	/* Only now it is known that what is there stays. */
	site = jifl_ksym(symbol) == begin ? jifl_ksym_fentry(begin) : 0;
	if (site)
		return (void *)(site + CALL_INSN_SIZE);
	module_put(module);
	return NULL;
}
EXPORT_SYMBOL_GPL(jifl_original_get);

void jifl_original_put(void *behind)
{
	struct module *module;

	preempt_disable();
	module = behind ? jifl_import(__module_address)((unsigned long)behind) : NULL;
	preempt_enable();
	module_put(module);
}
EXPORT_SYMBOL_GPL(jifl_original_put);
