// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that the module refuses by their names: what host/kernel/enter/function_refuse.c,
//! host/kernel/text/text.c and host/kernel/tools/probe/place.c list. A test compares the lists.

use jifl_sys::abi::{
    REFUSALS, REFUSED_IDLE, REFUSED_OWN, REFUSED_PATCHING, REFUSED_RCU_TASKS, REFUSED_SCHEDULE,
    REFUSED_STOP, SPLICE_OWN, SPLICE_REFUSALS,
};

/// Patterns of names, and why such functions cannot be targets. The first that fits decides.
const REFUSED: &[(u32, &[&str])] = &[
    (
        REFUSED_SCHEDULE,
        &[
            "__schedule",
            "schedule_tail",
            "finish_task_switch",
            "__switch_to*",
            "ret_from_fork*",
            "rewind_stack_and_make_dead",
        ],
    ),
    (
        REFUSED_IDLE,
        &[
            "irq_enter*",
            "irq_exit*",
            "__irq_exit*",
            "__do_softirq",
            "handle_softirqs",
            "do_softirq*",
            "do_idle",
            "play_idle*",
            "cpu_startup_entry",
            "default_idle*",
            "arch_cpu_idle*",
            "rest_init",
        ],
    ),
    (
        REFUSED_PATCHING,
        &[
            "text_poke*",
            "__text_poke*",
            "smp_text_poke*",
            "perf_event_text_poke",
            "do_sync_core",
            "ftrace_*",
            "__ftrace_*",
            "arch_ftrace_*",
            "register_ftrace*",
            "unregister_ftrace*",
            "__SCT__*",
        ],
    ),
    (
        REFUSED_STOP,
        &[
            "stop_machine*",
            "stop_cpus*",
            "__stop_cpus",
            "stop_one_cpu*",
            "stop_two_cpus",
            "multi_cpu_stop",
            "cpu_stop*",
        ],
    ),
    (
        REFUSED_RCU_TASKS,
        &["synchronize_rcu_tasks*", "call_rcu_tasks*", "rcu_tasks_*"],
    ),
    (
        REFUSED_OWN,
        &[
            "unwind_next_frame",
            "unwind_get_return_address*",
            "__kernel_text_address",
            "kernel_text_address",
            "kallsyms_lookup_buildid",
            "perf_instruction_pointer",
            "perf_callchain_kernel",
            "fixup_exception",
            "search_exception_tables",
            "rethook_*",
            "rcu_read_lock_any_held",
            "rcu_lockdep_current_cpu_online",
            "arch_rethook_*",
            "objpool_*",
        ],
    ),
];

/// Functions that the engine knows by their names: they change to another stack.
const STACKS: &[&str] = &[
    "do_suspend_lowlevel",
    "swsusp_arch_suspend",
    "restore_image",
    "core_restore_code",
    "relocate_kernel",
];

/// Functions that are called where a thread meets a breakpoint: no place in them is probed, but
/// their entries.
const CALLED: &[&str] = &[
    "__module_address",
    "mod_find",
    "is_ftrace_trampoline",
    "copy_from_kernel_nofault*",
    "kallsyms_*",
    "get_symbol_pos",
    "cleanup_symbol_name",
    "module_address_lookup",
    "find_kallsyms_symbol*",
    "__bpf_address_lookup",
    "bpf_address_lookup",
    "lookup_rec",
    "bsearch",
    "sprint_symbol*",
    "__sprint_symbol*",
    "sprintf",
    "snprintf",
    "vsprintf",
    "vsnprintf",
    "format_decode",
    "string",
    "string_nocheck",
    "number",
    "put_dec*",
    "strscpy",
    "sized_strscpy",
    "strncpy",
    "strlen",
    "strnlen",
    "strcmp",
    "strncmp",
    "strstr",
    "strchr",
    "strchrnul",
    "memcmp",
    "memchr",
    "memcpy",
    "memmove",
    "memset",
    "copy_from_user_nofault",
    "copy_user_*",
    "rep_movs_alternative",
    "__check_object_size",
    "check_heap_object",
    "check_stack_object",
    "is_vmalloc_addr",
    "__virt_addr_valid",
    "nmi_uaccess_okay",
    "search_extable",
    "search_module_extables",
    "search_bpf_extables",
    "ex_handler_*",
    "unwind_*",
    "__unwind_start",
    "get_stack_info*",
    "orc_*",
    "__orc_find",
    "stack_access_ok",
    "deref_stack_*",
    "core_kernel_text",
    "is_module_text_address",
    "__module_text_address",
    "is_bpf_text_address",
    "bpf_ksym_*",
    "ftrace_graph_ret_addr",
    "sched_clock*",
    "local_clock*",
    "__rcu_read_*",
    "rcu_read_unlock_special",
    "read_hpet",
    "ktime_get_mono_fast_ns",
    "read_tsc",
    "kvm_clock_*",
    "pvclock_*",
];

/// Is a name what a pattern means: itself, or how the name begins?
fn fits(name: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == pattern,
    }
}

/// Without what the compiler has added: `f` of `f.isra.0`.
fn bare(name: &str) -> &str {
    name.split_once('.').map_or(name, |(bare, _)| bare)
}

/// Why a function of this name is refused.
pub fn function(name: &str) -> Option<&'static str> {
    let name = bare(name);
    let is_it = |(_, patterns): &&(u32, &[&str])| patterns.iter().any(|one| fits(name, one));
    let why = match REFUSED.iter().find(is_it) {
        Some((why, _)) => *why,
        None if STACKS.contains(&name) => REFUSED_SCHEDULE,
        None => return None,
    };
    REFUSALS.get(why as usize).copied()
}

/// Why places in a function of this name are refused, but for its entry.
pub fn places(name: &str) -> Option<&'static str> {
    let name = bare(name);
    let is_called = CALLED.iter().any(|pattern| fits(name, pattern));
    is_called.then(|| SPLICE_REFUSALS[SPLICE_OWN as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands in quotes in a piece of C, without comments.
    fn quoted(text: &str) -> Vec<&str> {
        let lines = text
            .lines()
            .filter(|line| !line.trim().starts_with(['/', '*']));
        lines
            .flat_map(|line| line.split('"').skip(1).step_by(2))
            .collect()
    }

    /// The list that begins with a line of a file of the module.
    fn list(file: &str, begin: &str) -> String {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../host/kernel/");
        let text = std::fs::read_to_string(format!("{root}{file}")).unwrap();
        let (_, list) = text.split_once(begin).unwrap();
        list.split_once("};").unwrap().0.to_owned()
    }

    #[test]
    fn names_are_those_of_the_module() {
        let theirs = list("enter/function_refuse.c", "} refused[] = {");
        let reason = |line: &str| {
            let (_, name) = line.split_once("JIFL_REFUSED_")?;
            Some(match name.trim_end_matches(" },") {
                "SCHEDULE" => REFUSED_SCHEDULE,
                "IDLE" => REFUSED_IDLE,
                "PATCHING" => REFUSED_PATCHING,
                "STOP" => REFUSED_STOP,
                "RCU_TASKS" => REFUSED_RCU_TASKS,
                "OWN" => REFUSED_OWN,
                other => panic!("{other}"),
            })
        };
        let reasons = theirs.lines().filter_map(reason);
        let theirs: Vec<(u32, &str)> = reasons.zip(quoted(&theirs)).collect();
        let each = |(why, names): &(u32, &[&'static str])| {
            let why = *why;
            names
                .iter()
                .map(move |name| (why, *name))
                .collect::<Vec<_>>()
        };
        let own: Vec<(u32, &str)> = REFUSED.iter().flat_map(each).collect();
        assert_eq!(own, theirs);
        let called = list("tools/probe/place.c", "jifl_probe_own[] = {");
        assert_eq!(CALLED, quoted(&called));
        let known = list("text/text.c", "} specials[] = {");
        let is_native =
            |line: &&str| line.contains("JIFL_CAUSE_SCHEDULE") || line.contains("JIFL_CAUSE_STACK");
        let wanted = Some(REFUSALS[REFUSED_SCHEDULE as usize]);
        let mut stacks = 0;
        for line in known.lines().filter(is_native) {
            let name = quoted(line)[0];
            assert_eq!(function(name), wanted, "{name}");
            stacks += usize::from(STACKS.contains(&name));
        }
        assert_eq!(stacks, STACKS.len());
    }

    #[test]
    fn names_are_bare() {
        assert_eq!(
            function("finish_task_switch.isra.0"),
            function("__schedule")
        );
        assert!(function("ftrace_ops_test").is_some() && function("vfs_read").is_none());
        assert!(places("kallsyms_lookup").is_some() && places("kfree").is_none());
    }
}
