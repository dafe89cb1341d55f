// SPDX-License-Identifier: GPL-2.0
/*
 * Names of addresses, and addresses of names, for plugins. Contexts are ksym.c's.
 */
#include <linux/module.h>
#include <linux/preempt.h>

#include "../compat/ksym.h"
#include "plugin.h"

/* Writes the answer of ask() about an address to name. */
static int jifl_symbol_ask(struct jifl_plugin *p, unsigned long address, char *name, size_t size,
			   const char *what, void (*ask)(unsigned long, char *, size_t))
{
	if (!name || !size)
		return jifl_plugin_mistake(p, -EINVAL, what, "no room for a name");
	ask(address, name, size);
	return jifl_ksym_start(address) ? 0 : -ENOENT;
}

int jifl_symbol_name(struct jifl_plugin *p, unsigned long address, char *name, size_t size)
{
	return jifl_symbol_ask(p, address, name, size, "symbol_name", jifl_ksym_name);
}
EXPORT_SYMBOL_GPL(jifl_symbol_name);

int jifl_symbol_module(struct jifl_plugin *p, unsigned long address, char *name, size_t size)
{
	return jifl_symbol_ask(p, address, name, size, "symbol_module", jifl_ksym_module);
}
EXPORT_SYMBOL_GPL(jifl_symbol_module);

unsigned long jifl_symbol_start(unsigned long address)
{
	return jifl_ksym_start(address);
}
EXPORT_SYMBOL_GPL(jifl_symbol_start);

unsigned long jifl_symbol_address(struct jifl_plugin *p, const char *name)
{
	static const char what[] = "symbol_address";

	if (!preemptible()) {
		jifl_plugin_mistake(p, -EPERM, what, "not in process context");
		return 0;
	}
	if (!name || !*name) {
		jifl_plugin_mistake(p, -EINVAL, what, "no name");
		return 0;
	}
	return jifl_ksym(name);
}
EXPORT_SYMBOL_GPL(jifl_symbol_address);
