// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of a kernel's configuration that JIFL needs, and those that it does not go with.
//! docs/kernels.md has the same, and packaging/module/lack asks for the first of them.

use super::super::finding::Verdict;
use super::Need;

/// An option that is to be `y`.
pub struct Wanted {
    /// With `CONFIG_`.
    pub name: &'static str,
    /// What depends on it.
    pub need: Need,
    /// What JIFL does with it.
    pub why: &'static str,
}

const fn load(name: &'static str, why: &'static str) -> Wanted {
    let need = Need::Load;
    Wanted { name, need, why }
}

const fn part(name: &'static str, of: &'static str, why: &'static str) -> Wanted {
    let need = Need::Part(of);
    Wanted { name, need, why }
}

/// In the order in which a person would set them.
pub const WANTED: &[Wanted] = &[
    load("CONFIG_X86_64", "the code that JIFL translates"),
    load("CONFIG_SMP", "tells the tasks that stop processors"),
    load("CONFIG_MODULES", "JIFL is a module"),
    load("CONFIG_KALLSYMS", "finds functions by their names"),
    load(
        "CONFIG_KALLSYMS_ALL",
        "finds the kernel's data by their names",
    ),
    load(
        "CONFIG_KPROBES",
        "finds the first symbol, and the text that may not be copied",
    ),
    load(
        "CONFIG_DYNAMIC_FTRACE_WITH_REGS",
        "rewrites arguments of stack walks, faults and changes of text",
    ),
    load("CONFIG_TRACEPOINTS", "sees which task runs"),
    load("CONFIG_PERF_EVENTS", "is told of changes of text"),
    part(
        "CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS",
        "functions as targets",
        "enters functions at their first instruction",
    ),
    part(
        "CONFIG_RETHOOK",
        "functions as targets; returns of threads that are inside already",
        "sees returns",
    ),
    part(
        "CONFIG_UNWINDER_ORC",
        "jumps to probes; exact counts behind `mov %reg,%rsp`",
        "tells where frames end",
    ),
    part(
        "CONFIG_DEBUG_INFO_BTF",
        "names and types of arguments, members in expressions",
        "reads the kernel's description of its types",
    ),
    part(
        "CONFIG_BPF_SYSCALL",
        "programs of BPF at probes",
        "runs them",
    ),
    part(
        "CONFIG_VM_EVENT_COUNTERS",
        "`jifl stat vmstat:...`",
        "reads the kernel's counters of memory",
    ),
];

/// An option with which a kernel is worse for JIFL, or refuses it.
pub struct Unwanted {
    /// With `CONFIG_`.
    pub name: &'static str,
    /// What the option is about, as a finding says it.
    pub what: &'static str,
    /// How bad it is.
    pub verdict: Verdict,
    /// What it does.
    pub does: &'static str,
    /// The way out.
    pub remedy: &'static str,
}

/// What the kernel demands of modules and of those who change it, and what is not tested.
pub const UNWANTED: &[Unwanted] = &[
    // CONFIG_UNWINDER_FRAME_POINTER selects it. The return in __x64_sys_ni_syscall stands right
    // behind the result then no more (host/kernel/text/return_site.c).
    Unwanted {
        name: "CONFIG_FRAME_POINTER",
        what: "frame pointers",
        verdict: Verdict::Bad,
        does: "functions have them, and the module refuses to load",
        remedy: "use a kernel with CONFIG_UNWINDER_ORC instead of CONFIG_UNWINDER_FRAME_POINTER, \
                 or `jifl vm`",
    },
    Unwanted {
        name: "CONFIG_MODULE_SIG_FORCE",
        what: "module signatures",
        verdict: Verdict::Bad,
        does: "are enforced",
        remedy: "sign jifl.ko with a key that this kernel trusts, which is one in the kernel's own \
                 keyring; or use a kernel without this option, or `jifl vm`",
    },
    Unwanted {
        name: "CONFIG_LOCK_DOWN_KERNEL_FORCE_INTEGRITY",
        what: "lockdown",
        verdict: Verdict::Bad,
        does: "integrity, at each boot",
        remedy: "it forbids changing kernel text: use a kernel without this option, or `jifl vm`",
    },
    Unwanted {
        name: "CONFIG_LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY",
        what: "lockdown",
        verdict: Verdict::Bad,
        does: "confidentiality, at each boot",
        remedy: "it forbids changing kernel text: use a kernel without this option, or `jifl vm`",
    },
    Unwanted {
        name: "CONFIG_LOCK_DOWN_IN_EFI_SECURE_BOOT",
        what: "lockdown",
        verdict: Verdict::Note,
        does: "under Secure Boot alone",
        remedy: "turn Secure Boot off in the firmware's set-up, or by `mokutil --disable-validation`",
    },
    Unwanted {
        name: "CONFIG_TRIM_UNUSED_KSYMS",
        what: "exported symbols",
        verdict: Verdict::Note,
        does: "those that no module of the kernel's build uses are not exported",
        remedy: "if jifl.ko does not load because of unknown symbols, use a kernel without this \
                 option",
    },
    Unwanted {
        name: "CONFIG_KASAN",
        what: "KASAN",
        verdict: Verdict::Note,
        does: "without the table of doors, so entering a call takes longer",
        remedy: "",
    },
    Unwanted {
        name: "CONFIG_CFI",
        what: "control flow integrity",
        verdict: Verdict::Note,
        does: "checks indirect calls; JIFL is not tested with it",
        remedy: "boot with cfi=off if the kernel reports calls of JIFL's",
    },
    Unwanted {
        name: "CONFIG_CFI_CLANG",
        what: "control flow integrity",
        verdict: Verdict::Note,
        does: "checks indirect calls; JIFL is not tested with it",
        remedy: "boot with cfi=off if the kernel reports calls of JIFL's",
    },
];
