// SPDX-License-Identifier: GPL-2.0
/*
 * Addresses of symbols that the kernel does not export. kallsyms_lookup_name is one of them: a
 * kprobe that is registered by this name and removed again tells its address. Called at load, in
 * process context.
 */
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/version.h>
#include <asm/ibt.h>

#include "../kernel.h"
#include "import.h"
#include "ksym.h"

int jifl_ksym_init(void)
{
	struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };
	int err;

	if (!IS_ENABLED(CONFIG_KPROBES) || !IS_ENABLED(CONFIG_KALLSYMS)) {
		pr_err("this kernel has no %s: use one built with it\n",
		       IS_ENABLED(CONFIG_KALLSYMS) ? "CONFIG_KPROBES" : "CONFIG_KALLSYMS");
		return -EOPNOTSUPP;
	}
	err = register_kprobe(&probe);
	if (err) {
		pr_err("cannot find kernel symbols, a kprobe on kallsyms_lookup_name gave error %d: use a kernel that allows kprobes\n",
		       err);
		return -EOPNOTSUPP;
	}
	static_call_update(jifl_import_kallsyms_lookup_name, (void *)probe.addr);
	unregister_kprobe(&probe);

	if (!jifl_ksym("sys_call_table")) {
		pr_err("kallsyms has no data symbols: use a kernel built with CONFIG_KALLSYMS_ALL\n");
		return -EOPNOTSUPP;
	}
	return 0;
}

unsigned long jifl_ksym(const char *name)
{
	return jifl_import(kallsyms_lookup_name)(name);
}

unsigned long jifl_ksym_fentry(unsigned long addr)
{
	const unsigned long behind = addr + ENDBR_INSN_SIZE;
	const unsigned long site = jifl_import(ftrace_location_range)(addr, behind);

	/* A site may begin between the two, or before. */
	return site == addr || site == behind ? site : 0;
}

bool jifl_ksym_range(unsigned long addr, unsigned long *start, unsigned long *size)
{
	unsigned long offset = 0;

	/* It needs no lock: the core kernel's symbols stay, and RCU guards modules' symbols. */
	if (!jifl_import(kallsyms_lookup_size_offset)(addr, size, &offset))
		return false;
	*start = addr - offset;
	return true;
}

unsigned long jifl_ksym_start(unsigned long addr)
{
	unsigned long start, size;

	return jifl_ksym_range(addr, &start, &size) ? start : 0;
}

bool jifl_ksym_begins(unsigned long addr, char *name, size_t size)
{
	unsigned long length, offset = 0;
	char buffer[KSYM_NAME_LEN], *module;
	const char *found;

	/* As in jifl_ksym_range. A module's name may be found where the module has it. */
	preempt_disable();
	found = jifl_import(kallsyms_lookup)(addr, &length, &offset, &module, buffer);
	if (found && !offset)
		strscpy(name, found, size);
	preempt_enable();
	return found && !offset;
}

/* "NAME", "NAME [MODULE]" or a number */
void jifl_ksym_name(unsigned long addr, char *name, size_t size)
{
	char symbol[KSYM_SYMBOL_LEN];

	sprint_symbol_no_offset(symbol, addr);
	*strchrnul(symbol, ' ') = '\0';
	strscpy(name, symbol, size);
}

void jifl_ksym_module(unsigned long addr, char *name, size_t size)
{
	char symbol[KSYM_SYMBOL_LEN], *module;

	sprint_symbol_no_offset(symbol, addr);
	module = strchrnul(symbol, '[');
	if (*module)
		module++;
	*strchrnul(module, ']') = '\0';
	strscpy(name, module, size);
}

int jifl_ksym_hold(unsigned long addr, struct module **module)
{
	struct module *mod;
	int err = 0;

	preempt_disable();
	mod = jifl_import(__module_address)(addr);
	if (mod && !try_module_get(mod))
		err = -ENOENT;
	preempt_enable();
	*module = err ? NULL : mod;
	return err;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
static int call_each(void *fn, const char *name, unsigned long addr)
#else
static int call_each(void *fn, const char *name, struct module *module, unsigned long addr)
#endif
{
	int (*const each)(const char *name, unsigned long addr) = fn;

	return each(name, addr);
}

int jifl_ksym_each(int (*fn)(const char *name, unsigned long addr))
{
	if (!jifl_imported(kallsyms_on_each_symbol))
		return -EOPNOTSUPP;
	return jifl_import(kallsyms_on_each_symbol)(call_each, fn);
}

unsigned long jifl_ksym_end(unsigned long addr)
{
	unsigned long start, size;

	return jifl_ksym_range(addr, &start, &size) ? start + size : addr + 1;
}
