// SPDX-License-Identifier: GPL-2.0
/*
 * The module: its parts in the order in which they come up, and the engine's
 * configuration. The last part, /dev/jifl, makes it visible; nothing is hooked
 * into system calls before the first session.
 */
#include <linux/cpufeature.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/vmalloc.h>
#include <asm/nospec-branch.h>

#include "kernel.h"
#include "plant.h"
#include "compat/compat.h"
#include "compat/direct.h"
#include "compat/import.h"
#include "compat/ksym.h"
#include "text/jump.h"
#include "text/poke.h"
#include "text/return_site.h"
#include "text/text.h"
#include "text/watch.h"
#include "store/percpu.h"
#include "store/ring.h"
#include "run/codemem.h"
#include "run/dispatch.h"
#include "run/faults.h"
#include "run/trap.h"
#include "run/unwind.h"
#include "call/count.h"
#include "call/keys.h"
#include "enter/door_table.h"
#include "enter/function.h"
#include "enter/guard.h"
#include "enter/entry.h"
#include "session/require.h"
#include "session/session.h"
#include "tools/tools.h"
#include "plugin/plugins.h"
#include "flight/flight.h"
#include "device/control.h"

static unsigned int cache_kb = 8192;
module_param(cache_kb, uint, 0444);
MODULE_PARM_DESC(cache_kb, "size of the code cache in KiB, 4 to 1048576 (default 8192)");

static unsigned int side_kb = 8192;
module_param(side_kb, uint, 0444);
MODULE_PARM_DESC(side_kb, "size of the tables beside it in KiB, 64 to 4194304 (default 8192)");

static bool poison;
module_param(poison, bool, 0444);
MODULE_PARM_DESC(poison,
		 "for tests: make garbage of flags and registers that inserted code takes for dead");

static void *jifl_side;

u64 jifl_main_side_size(void)
{
	return (u64)side_kb << 10;
}

static int jifl_main_check(void)
{
	if (cache_kb >= 4 && cache_kb <= 1 << 20 && side_kb >= 64 && side_kb <= 1 << 22)
		return 0;
	pr_err("cache_kb and side_kb must be 4 to 1048576 and 64 to 4194304\n");
	return -EINVAL;
}

static int jifl_main_codemem(void)
{
	return jifl_codemem_init(cache_kb << 10);
}

/*
 * Where the kernel's patched returns jump to: 0 where they are plain `ret`.
 * x86_return_thunk is the kernel's own answer, from when it patched itself.
 */
static u64 jifl_main_return_thunk(void)
{
	void **chosen = (void **)jifl_ksym("x86_return_thunk");

	if (!boot_cpu_has(X86_FEATURE_RETHUNK) || !chosen ||
	    *chosen == (void *)&__x86_return_thunk)
		return 0;
	return (unsigned long)*chosen;
}

/*
 * Does the kernel execute plain indirect jumps? Not where it has retpolines, and not where it puts
 * such jumps into thunks in the upper half of a cache line (ITS). A retpoline there is no weaker.
 */
static bool jifl_main_indirect_jumps(void)
{
#ifdef X86_FEATURE_INDIRECT_THUNK_ITS
	if (boot_cpu_has(X86_FEATURE_INDIRECT_THUNK_ITS))
		return false;
#endif
	return !boot_cpu_has(X86_FEATURE_RETPOLINE);
}

/*
 * The return of a retpoline, as in the kernel's own: like other returns. It is plain where returns
 * are counted (call depth tracking), since nobody counts the retpoline's call.
 */
static u64 jifl_main_retpoline_return(void)
{
#ifdef X86_FEATURE_CALL_DEPTH
	if (boot_cpu_has(X86_FEATURE_CALL_DEPTH))
		return 0;
#endif
	return jifl_main_return_thunk();
}

static int jifl_main_engine(void)
{
	struct jifl_config config = {
		.code_base = jifl_codemem_base(),
		.code_size = jifl_codemem_size(),
		.side_size = jifl_main_side_size(),
		.dispatch_direct = (unsigned long)jifl_dispatch_direct,
		.dispatch_indirect = (unsigned long)jifl_dispatch_indirect,
		.return_thunk = jifl_main_return_thunk(),
		.indirect_jumps = jifl_main_indirect_jumps(),
		.retpoline_return = jifl_main_retpoline_return(),
		.return_site = jifl_return_site(),
		.door = jifl_function_stub_address(),
		.exit_counters = jifl_cpu_operand(exits),
		.training = jifl_cpu_operand(training),
		.training_hits = JIFL_TRAINING_HITS,
		.red_zone = 0,
		.endbr = IS_ENABLED(CONFIG_X86_KERNEL_IBT),
		.asks = (unsigned long)jifl_inside_stub,
		.lahf = boot_cpu_has(X86_FEATURE_LAHF_LM),
		.interrupts = true,
		.fentry = IS_ENABLED(CONFIG_DYNAMIC_FTRACE) && IS_ENABLED(CONFIG_HAVE_FENTRY),
		.poison = poison,
	};
	int ret;

	jifl_side = JIFL_ALLOC(vzalloc(config.side_size));
	if (!jifl_side)
		return -ENOMEM;
	config.side = jifl_side;
	/* It empties the cache. */
	ret = jifl_codemem_open();
	if (!ret) {
		ret = jifl_engine_init(&config);
		jifl_codemem_close();
	}
	if (ret)
		vfree(jifl_side);
	return ret;
}

static void jifl_main_engine_exit(void)
{
	vfree(jifl_side);
}

/* Parts come up in this order and go in the opposite one. */
static const struct jifl_part {
	const char *name;
	int (*init)(void);
	void (*exit)(void);
} jifl_parts[] = {
	{ "plants", jifl_plant_init },
	{ "parameters", jifl_main_check },
	{ "symbols", jifl_ksym_init },
	{ "requirements", jifl_require },
	{ "imports", jifl_import_init },
	{ "direct calls", jifl_compat_direct_init },
	{ "records of returns", jifl_compat_records_init },
	{ "tables of frames", jifl_compat_orc_init },
	{ "code memory", jifl_main_codemem, jifl_codemem_exit },
	{ "text", jifl_text_init, jifl_text_exit },
	{ "dispatcher", jifl_dispatch_init, jifl_dispatch_exit },
	{ "return site", jifl_return_site_init },
	{ "engine", jifl_main_engine, jifl_main_engine_exit },
	{ "pokes", jifl_poke_init },
	{ "jumps", jifl_jump_init, jifl_jump_exit },
	{ "traps", jifl_trap_init, jifl_trap_exit },
	{ "faults", jifl_faults_init, jifl_faults_exit },
	{ "unwinding", jifl_unwind_init, jifl_unwind_exit },
	{ "text changes", jifl_watch_init, jifl_watch_exit },
	{ "direct calls", NULL, jifl_compat_direct_exit },
	{ "names", NULL, jifl_function_refuse_exit },
	{ "doors", NULL, jifl_doors_close },
	{ "entry", jifl_entry_init, jifl_entry_exit },
	{ "guards", jifl_guard_init, jifl_guard_exit },
	{ "counting", jifl_count_init, jifl_count_exit },
	{ "keys", jifl_keys_init },
	{ "tools", jifl_tools_init, jifl_tools_exit },
	{ "rings", NULL, jifl_ring_wait_exit },
	{ "sessions", NULL, jifl_session_exit },
	{ "flight recorder", jifl_flight_init, jifl_flight_exit },
	{ "plugins", jifl_plugin_init, jifl_plugin_exit },
	{ "device", jifl_control_init, jifl_control_exit },
};

static void jifl_main_down(unsigned int n)
{
	while (n--)
		if (jifl_parts[n].exit)
			jifl_parts[n].exit();
}

static int __init jifl_main_init(void)
{
	unsigned int n;
	int ret;

	for (n = 0; n < ARRAY_SIZE(jifl_parts); n++) {
		ret = jifl_parts[n].init ? jifl_parts[n].init() : 0;
		if (!ret)
			continue;
		/* A refusal has said its own line; the others are rare failures. */
		if (ret != -EINVAL && ret != -EOPNOTSUPP && ret != -EACCES)
			pr_err("%s: error %d\n", jifl_parts[n].name, ret);
		jifl_main_down(n);
		return ret;
	}
	return 0;
}
module_init(jifl_main_init);

static void __exit jifl_main_exit(void)
{
	jifl_main_down(ARRAY_SIZE(jifl_parts));
}
module_exit(jifl_main_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(JIFL_VERSION);
MODULE_DESCRIPTION("JIT instrumentation of the running kernel");
