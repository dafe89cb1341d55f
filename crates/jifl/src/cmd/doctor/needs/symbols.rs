// SPDX-License-Identifier: MIT OR Apache-2.0
//! The symbols that the module asks for by name. A test reads host/kernel, and compares.
//!
//! What the module is linked with (EXPORT_SYMBOL) is not here: the loader says what is missing of
//! that.

use super::Need;
use super::versions::Version;

/// A symbol, or several of which a kernel has one.
pub struct Wanted {
    /// The names; the first that a kernel has is taken.
    pub any_of: &'static [&'static str],
    /// What depends on it.
    pub need: Need,
    /// What JIFL does with it; empty where a part's name says it.
    pub why: &'static str,
    /// Only kernels before this one are asked for it.
    pub before: Option<Version>,
    /// The function tracer must be able to call JIFL where it begins.
    pub is_hooked: bool,
}

const fn wanted(any_of: &'static [&'static str], need: Need, why: &'static str) -> Wanted {
    Wanted {
        any_of,
        need,
        why,
        before: None,
        is_hooked: false,
    }
}

const fn load(any_of: &'static [&'static str], why: &'static str) -> Wanted {
    wanted(any_of, Need::Load, why)
}

const fn hooked(any_of: &'static [&'static str], why: &'static str) -> Wanted {
    Wanted {
        is_hooked: true,
        ..wanted(any_of, Need::Load, why)
    }
}

const fn part(any_of: &'static [&'static str], of: &'static str) -> Wanted {
    wanted(any_of, Need::Part(of), "")
}

const fn before(version: Version, wanted: Wanted) -> Wanted {
    Wanted {
        before: Some(version),
        ..wanted
    }
}

/// Each of them by itself.
const fn hint(any_of: &'static [&'static str]) -> Wanted {
    wanted(any_of, Need::Hint, "")
}

const FUNCTIONS: &str = "functions as targets";
const OWNERS: &str = "to see which functions other tracers have";
const RETURNS: &str = "functions as targets; returns of threads that are inside already";
const PAGES: &str = "large pages for the code cache";
const PROBES: &str = "probes by breakpoints and jumps of JIFL's own";
const JUMPS: &str = "jumps to probes, which are breakpoints then";
const FRAMES: &str = "jumps to probes; exact counts behind `mov %reg,%rsp`";
const VARIABLES: &str = "the kernel's variables as counters of `jifl stat`";
const LOCKS: &str = "callers and variables of each processor in `jifl lock`";
const FLIGHT: &str = "memory of its own for the flight recorder";
const CALLS: &str = "system calls in the flight recorder without the slow way of tracepoints";
const EVENTS: &str = "events of the flight recorder";

/// All of them.
pub const WANTED: &[Wanted] = &[
    // Symbols and text.
    load(&["kallsyms_lookup_name"], "to find symbols"),
    load(&["kallsyms_lookup"], "to name functions"),
    load(
        &["kallsyms_lookup_size_offset"],
        "to tell where functions end",
    ),
    load(&["__module_address"], "to tell which module code is of"),
    load(&["_stext"], "to know the kernel's text"),
    load(&["_etext"], "to know the kernel's text"),
    load(
        &["kprobe_blacklist"],
        "to know the text that may not be copied",
    ),
    load(&["kprobe_mutex"], "to know the text that may not be copied"),
    load(
        &["ftrace_location_range"],
        "to find where functions can be traced",
    ),
    load(
        &["is_ftrace_trampoline"],
        "to know code that the function tracer makes",
    ),
    load(
        &["ftrace_enabled"],
        "to ask whether the function tracer is on",
    ),
    part(
        &["kallsyms_show_value"],
        "answers with addresses of the kernel, as of `jifl dump`",
    ),
    // Targets of plugins.
    part(&["softirq_vec"], "softirqs as targets of plugins"),
    part(&["softirq_to_name"], "softirqs as targets of plugins"),
    part(
        &["irq_default_primary_handler"],
        "interrupts that a thread handles as targets of plugins",
    ),
    // Memory for the code cache.
    load(
        &["execmem_alloc", "module_alloc"],
        "for memory that holds code",
    ),
    load(&["set_memory_ro"], "for memory that holds code"),
    load(&["set_memory_x"], "for memory that holds code"),
    load(
        &["__get_vm_area_caller"],
        "for a second view of the code cache",
    ),
    load(&["init_mm"], "for a second view of the code cache"),
    part(&["set_memory_rw"], PAGES),
    part(&["set_memory_nx"], PAGES),
    part(
        &["__vmalloc_node_range_noprof", "__vmalloc_node_range"],
        PAGES,
    ),
    // The door of system calls.
    load(
        &["x64_sys_call"],
        "as the door of system calls, which came with Linux 6.1.85, 6.6.26 and 6.9",
    ),
    load(
        &["do_syscall_64"],
        "because the call of x64_sys_call is there",
    ),
    load(&["sys_call_table"], "to know the handlers of system calls"),
    load(
        &["__x64_sys_ni_syscall"],
        "for a return that stands for the end of a call",
    ),
    // Changes of text.
    load(&["text_mutex"], "to change text"),
    load(
        &["text_poke_bp", "smp_text_poke_single"],
        "to change text in steps",
    ),
    load(
        &["text_poke_sync", "smp_text_poke_sync_each_cpu"],
        "to have all processors see a change of text",
    ),
    hooked(&["text_poke"], "to see changes of text"),
    hooked(&["perf_event_text_poke"], "to see changes of text"),
    part(
        &["text_poke_copy"],
        "chains of comparisons at indirect calls; replaced functions",
    ),
    // Stack walks and faults in copies.
    hooked(
        &["unwind_next_frame"],
        "to show stack walks the original code",
    ),
    hooked(
        &["unwind_get_return_address"],
        "to show stack walks the original code",
    ),
    hooked(
        &["__kernel_text_address"],
        "to show stack walks the original code",
    ),
    hooked(
        &["kernel_text_address"],
        "to show stack walks the original code",
    ),
    hooked(
        &["kallsyms_lookup_buildid"],
        "to name copies as their originals",
    ),
    hooked(&["fixup_exception"], "to mend faults in copies"),
    hooked(&["search_exception_tables"], "to mend faults in copies"),
    hint(&["unwind_get_return_address_ptr"]),
    hint(&["perf_instruction_pointer"]),
    hint(&["perf_callchain_kernel"]),
    part(&["__start_orc_unwind_ip"], FRAMES),
    part(&["__stop_orc_unwind_ip"], FRAMES),
    part(&["__start_orc_unwind"], FRAMES),
    // Tasks.
    load(
        &["stop_sched_class"],
        "to tell the tasks that stop processors",
    ),
    load(
        &["task_work_add"],
        "to have tasks wait for readers of their records",
    ),
    load(
        &["task_work_cancel_match"],
        "to have tasks wait for readers of their records",
    ),
    hooked(
        &["play_idle_precise"],
        "to tell when a processor idles by force",
    ),
    load(&["__tracepoint_sched_switch"], "to see which task runs"),
    load(
        &["__tracepoint_sched_wakeup"],
        "to see who waits for a processor",
    ),
    part(
        &["task_call_func"],
        "threads that are inside a call already",
    ),
    part(
        &["__tracepoint_sched_process_free"],
        "plugins that keep data for each task",
    ),
    part(&["modules"], "plugins that ask for modules"),
    // Functions as targets.
    part(&["ftrace_find_rec_direct"], OWNERS),
    part(&["ftrace_ops_test"], OWNERS),
    part(&["ftrace_ops_list"], OWNERS),
    part(&["kprobe_ipmodify_ops"], OWNERS),
    before((6, 7), part(&["direct_mutex"], FUNCTIONS)),
    before((6, 7), part(&["direct_functions"], FUNCTIONS)),
    part(&["rethook_alloc"], RETURNS),
    part(&["rethook_free"], RETURNS),
    part(&["rethook_try_get"], RETURNS),
    part(&["rethook_recycle"], RETURNS),
    part(&["rethook_hook"], RETURNS),
    before((6, 7), part(&["rethook_add_node"], RETURNS)),
    part(&["arch_rethook_trampoline"], RETURNS),
    part(&["irq_to_desc"], "interrupts as targets"),
    // Probes and jumps.
    part(&["get_kprobe"], PROBES),
    part(&["jump_label_text_reserved"], PROBES),
    part(&["static_call_text_reserved"], PROBES),
    // A kernel without it does not patch lock prefixes.
    hint(&["alternatives_text_reserved"]),
    part(&["__start___ex_table"], JUMPS),
    part(&["__stop___ex_table"], JUMPS),
    part(&["__start___jump_table"], JUMPS),
    part(&["__stop___jump_table"], JUMPS),
    part(&["__start_static_call_sites"], JUMPS),
    part(&["__stop_static_call_sites"], JUMPS),
    part(&["bpf_prog_active"], "programs of BPF at probes"),
    // Counters.
    part(
        &["perf_event_read_local"],
        "counters of the processor: `jifl stat perf:...`",
    ),
    part(&["_sdata"], VARIABLES),
    part(&["_edata"], VARIABLES),
    part(&["__bss_start"], VARIABLES),
    part(&["__bss_stop"], VARIABLES),
    part(&["__per_cpu_start"], LOCKS),
    part(&["__per_cpu_end"], LOCKS),
    part(&["__sched_text_start"], LOCKS),
    part(&["__sched_text_end"], LOCKS),
    // The flight recorder.
    part(&["e820__mapped_raw_any"], FLIGHT),
    part(
        &["vmlinux_build_id"],
        "the kernel's build in the flight recorder",
    ),
    // Later kernels have no such function, and the tracepoints have to do.
    before((6, 16), part(&["syscall_exit_to_user_mode"], CALLS)),
    before((6, 16), part(&["syscall_exit_to_user_mode_prepare"], CALLS)),
    // Without programs of 32 bits there is none.
    hint(&["ia32_sys_call"]),
    part(&["__tracepoint_sys_enter"], EVENTS),
    part(&["__tracepoint_sys_exit"], EVENTS),
    part(&["__tracepoint_sched_migrate_task"], EVENTS),
    part(&["__tracepoint_sched_process_fork"], EVENTS),
    part(&["__tracepoint_sched_process_exec"], EVENTS),
    part(&["__tracepoint_sched_process_exit"], EVENTS),
    part(&["__tracepoint_signal_generate"], EVENTS),
    part(&["__tracepoint_irq_handler_entry"], EVENTS),
    part(&["__tracepoint_irq_handler_exit"], EVENTS),
    part(&["__tracepoint_softirq_entry"], EVENTS),
    part(&["__tracepoint_softirq_exit"], EVENTS),
    part(&["__tracepoint_block_rq_issue"], EVENTS),
    part(&["__tracepoint_block_rq_complete"], EVENTS),
    part(&["__tracepoint_page_fault_user"], EVENTS),
    part(&["__tracepoint_page_fault_kernel"], EVENTS),
    part(&["__tracepoint_mark_victim"], EVENTS),
    part(&["__tracepoint_module_load"], EVENTS),
    part(&["__tracepoint_module_free"], EVENTS),
    part(&["__tracepoint_error_report_end"], EVENTS),
    part(&["__tracepoint_console"], EVENTS),
    part(&["__tracepoint_netif_receive_skb"], EVENTS),
    part(&["__tracepoint_net_dev_start_xmit"], EVENTS),
    // Kernels have some of these each, by version, compiler and options.
    hint(&["ftrace_disabled"]),
    hint(&["hardirq_stack_ptr"]),
    // Without programs of BPF in machine code there is none.
    hint(&["is_bpf_text_address"]),
    // Interrupts that a processor may not have.
    hint(&[
        "__tracepoint_local_timer_entry",
        "__tracepoint_local_timer_exit",
        "__tracepoint_reschedule_entry",
        "__tracepoint_reschedule_exit",
        "__tracepoint_call_function_entry",
        "__tracepoint_call_function_exit",
        "__tracepoint_call_function_single_entry",
        "__tracepoint_call_function_single_exit",
        "__tracepoint_irq_work_entry",
        "__tracepoint_irq_work_exit",
        "__tracepoint_x86_platform_ipi_entry",
        "__tracepoint_x86_platform_ipi_exit",
        "__tracepoint_thermal_apic_entry",
        "__tracepoint_thermal_apic_exit",
        "__tracepoint_threshold_apic_entry",
        "__tracepoint_threshold_apic_exit",
        "__tracepoint_deferred_error_apic_entry",
        "__tracepoint_deferred_error_apic_exit",
        "__tracepoint_spurious_apic_entry",
        "__tracepoint_spurious_apic_exit",
        "__tracepoint_error_apic_entry",
        "__tracepoint_error_apic_exit",
    ]),
    hint(&["kallsyms_on_each_symbol"]),
    hint(&["x86_return_thunk"]),
    hint(&["return_to_handler"]),
    hint(&["do_exit", "do_group_exit", "make_task_dead"]),
    hint(&["__noinstr_text_start", "__noinstr_text_end"]),
    hint(&["__entry_text_start", "__entry_text_end"]),
    hint(&["__kprobes_text_start", "__kprobes_text_end"]),
    hint(&["__cpuidle_text_start", "__cpuidle_text_end"]),
    hint(&["__x86_indirect_thunk_array", "__x86_return_thunk"]),
    hint(&[
        "srso_alias_untrain_ret",
        "srso_alias_safe_ret",
        "srso_alias_return_thunk",
    ]),
    hint(&[
        "__schedule",
        "__switch_to_asm",
        "__switch_to",
        "finish_task_switch",
        "finish_task_switch.isra.0",
        "schedule_tail",
        "ret_from_fork",
        "ret_from_fork_asm",
    ]),
    hint(&[
        "rewind_stack_and_make_dead",
        "do_suspend_lowlevel",
        "swsusp_arch_suspend",
        "restore_image",
        "core_restore_code",
        "relocate_kernel",
    ]),
    hint(&[
        "ftrace_caller",
        "ftrace_regs_caller",
        "ftrace_stub_direct_tramp",
        "__kretprobe_trampoline",
    ]),
    hint(&[
        "__memcpy",
        "memcpy_erms",
        "memcpy_orig",
        "__memmove",
        "__memset",
        "memset_erms",
        "memset_orig",
    ]),
    hint(&[
        "native_queued_spin_lock_slowpath",
        "__pv_queued_spin_lock_slowpath",
        "queued_read_lock_slowpath",
        "queued_write_lock_slowpath",
        "__mutex_lock",
        "__ww_mutex_lock",
        "rwsem_down_read_slowpath",
        "rwsem_down_write_slowpath",
        "__down_common",
        "__rt_mutex_slowlock_locked",
        "percpu_rwsem_wait",
    ]),
];
