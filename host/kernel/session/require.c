// SPDX-License-Identifier: GPL-2.0
/*
 * Decides whether this kernel may be instrumented. Each refusal is one line that names the cause
 * and the remedy. It is called once at load, after ksym.c. Lockdown can be tightened at any time,
 * so each start of a session asks for it again. If an answer to a request contains kernel
 * addresses, each request asks whether the task may see them.
 *
 * Whether kprobes are switched off (/sys/kernel/debug/kprobes/enabled) is not asked here. Only
 * sessions of `jifl probe` have kprobes, and these ask for it themselves (tools/probe/set.c). The
 * loader checks signatures of modules.
 */
#include <linux/cred.h>
#include <linux/ftrace.h>
#include <linux/security.h>
#include <asm/cpufeature.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/import.h"
#include "../compat/ksym.h"
#include "require.h"

#ifndef CONFIG_X86_64
#error "JIFL translates x86-64 code: other architectures are not supported"
#endif

/*
 * Both levels of lockdown forbid instrumentation. Confidentiality, because counts of instructions
 * tell about secrets of the kernel; it forbids kprobes, too. Integrity, because the kernel would
 * execute code without a signature.
 */
int jifl_require_unlocked(void)
{
	if (!security_locked_down(LOCKDOWN_KPROBES) &&
	    !security_locked_down(LOCKDOWN_MODULE_SIGNATURE))
		return 0;
	pr_err_ratelimited("kernel lockdown forbids instrumentation: boot without lockdown= and with secure boot off\n");
	return -EACCES;
}

int jifl_require_addresses(void)
{
	int ret = jifl_require_unlocked();

	if (ret)
		return ret;
	/* The kernel's own check for /proc/kallsyms; kernel.kptr_restrict is part of it. */
	return jifl_import(kallsyms_show_value)(current_cred()) ||
	       JIFL_HOST_PLANTED(addresses_shown) ? 0 : -EPERM;
}

static int require_machine(void)
{
	if (cpu_feature_enabled(X86_FEATURE_XENPV)) {
		pr_err("a Xen PV guest runs its kernel in ring 3: use an HVM or PVH guest\n");
		return -EOPNOTSUPP;
	}
	return 0;
}

static int require_ftrace(void)
{
	int *disabled = (int *)jifl_ksym("ftrace_disabled");
	int *enabled = (int *)jifl_ksym("ftrace_enabled");

	if (!IS_ENABLED(CONFIG_DYNAMIC_FTRACE_WITH_REGS) || !enabled) {
		pr_err("this kernel's ftrace has no registers: use one built with CONFIG_DYNAMIC_FTRACE_WITH_REGS\n");
		return -EOPNOTSUPP;
	}
	if (disabled && READ_ONCE(*disabled)) {
		pr_err("ftrace has shut itself down after an error: reboot\n");
		return -EOPNOTSUPP;
	}
	if (!READ_ONCE(*enabled)) {
		pr_err("ftrace is switched off: run sysctl kernel.ftrace_enabled=1\n");
		return -EOPNOTSUPP;
	}
	return 0;
}

static int require_entry(void)
{
	if (!jifl_ksym("x64_sys_call")) {
		pr_err("this kernel has no x64_sys_call: use 6.1.85 or later of 6.1, 6.6.26 or later of 6.6, or 6.9 or later\n");
		return -EOPNOTSUPP;
	}
	return 0;
}

int jifl_require(void)
{
	int err = jifl_require_unlocked();

	if (!err)
		err = require_machine();
	if (!err)
		err = require_ftrace();
	if (!err)
		err = require_entry();
	return err;
}
