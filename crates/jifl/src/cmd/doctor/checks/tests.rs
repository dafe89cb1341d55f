// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invented machines: a good one, and one for each lack.

use super::*;
use std::fs;
use std::path::PathBuf;

const GOOD: &[(&str, &str)] = &[
    ("proc/sys/kernel/ftrace_enabled", "1\n"),
    ("proc/sys/kernel/kptr_restrict", "0\n"),
    ("proc/sys/kernel/modules_disabled", "0\n"),
    ("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n"),
    ("sys/kernel/debug/kprobes/enabled", "1\n"),
    (
        "sys/kernel/security/lockdown",
        "[none] integrity confidentiality\n",
    ),
    ("sys/module/module/parameters/sig_enforce", "N\n"),
    ("sys/module/jifl/refcnt", "0\n"),
    ("lib/modules/6.1.0-9-amd64/build/Makefile", ""),
];

/// /proc/kallsyms with all names that are asked for but one.
fn kallsyms_without(lacking: &str) -> String {
    let listed = needs::symbols::WANTED.iter().flat_map(|own| own.any_of);
    let names = listed.chain(&["register_ftrace_function", "register_kprobe"]);
    let names = names.filter(|name| **name != lacking);
    names.map(|name| format!("0 T {name}\n")).collect()
}

/// A directory that is deleted at the end of the test.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, changes: &[(&str, &str)]) -> Tree {
        let tree = std::env::temp_dir().join(format!("jifl-{name}-{}", std::process::id()));
        let kallsyms = kallsyms_without("");
        let symbols = [("proc/kallsyms", kallsyms.as_str())];
        for (path, text) in symbols.iter().chain(GOOD).chain(changes) {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Tree(tree)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bad(name: &str, release: &str, changes: &[(&str, &str)]) -> Vec<&'static str> {
    let tree = Tree::new(name, changes);
    let findings = all(&Host::made_up(&tree.0, "x86_64", release), None);
    for finding in &findings {
        assert!(finding.verdict != Verdict::Bad || !finding.remedy.is_empty());
    }
    findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Bad)
        .map(|finding| finding.what)
        .collect()
}

#[test]
fn a_good_machine_has_nothing_bad() {
    assert!(bad("good", "6.1.0-9-amd64", &[]).is_empty());
    assert!(bad("good12", "6.12.117+deb12-amd64", &[]).is_empty());
}

#[test]
fn each_lack_is_found_alone() {
    let release = "6.1.0-9-amd64";
    let (door, tracer, text) = (
        kallsyms_without("x64_sys_call"),
        kallsyms_without("register_ftrace_function"),
        kallsyms_without("kprobe_blacklist"),
    );
    let small = "CONFIG_SMP=y\nCONFIG_X86_64=y\nCONFIG_MODULES=y\nCONFIG_KALLSYMS=y\n\
                 CONFIG_KALLSYMS_ALL=y\nCONFIG_KPROBES=y\nCONFIG_TRACEPOINTS=y\n\
                 CONFIG_PERF_EVENTS=y\nCONFIG_MODULE_SIG_FORCE=y\n";
    let table: &[(&str, &str, &str)] = &[
        ("x64_sys_call", "proc/kallsyms", &door),
        ("ftrace", "proc/kallsyms", &tracer),
        ("kprobe_blacklist", "proc/kallsyms", &text),
        (
            "CONFIG_DYNAMIC_FTRACE_WITH_REGS",
            "boot/config-6.1.0-9-amd64",
            small,
        ),
        ("ftrace", "proc/sys/kernel/ftrace_enabled", "0\n"),
        ("hypervisor", "sys/hypervisor/guest_type", "PV\n"),
        (
            "frame pointers",
            "boot/config-6.1.0-9-amd64",
            &with_frame_pointers(),
        ),
        (
            "lockdown",
            "sys/kernel/security/lockdown",
            "none [integrity] confidentiality\n",
        ),
        (
            "capabilities",
            "proc/self/status",
            "CapEff:\t0000000000000000\n",
        ),
    ];
    for (index, (what, path, text)) in table.iter().enumerate() {
        let name = format!("lack{index}");
        assert_eq!(bad(&name, release, &[(path, text)]), [*what]);
    }
    assert_eq!(bad("old", "5.10.0-9-amd64", &[]), ["kernel"]);
}

/// A configuration with all that is asked for, and frame pointers.
fn with_frame_pointers() -> String {
    let wanted = needs::options::WANTED.iter();
    let wanted = wanted.map(|wanted| format!("{}=y\n", wanted.name));
    wanted.collect::<String>() + "CONFIG_FRAME_POINTER=y\n"
}

#[test]
fn kprobes_that_are_turned_off_are_no_obstacle() {
    let tree = Tree::new("kprobes", &[("sys/kernel/debug/kprobes/enabled", "0\n")]);
    let host = Host::made_up(&tree.0, "x86_64", "6.1.0");
    let found = kprobes(&host, &Symbols::read(&host));
    assert_eq!(found.verdict, Verdict::Note);
    assert!(found.found.contains("`jifl probe` by breakpoints"));
    assert!(found.remedy.starts_with("echo 1 > "));
}

#[test]
fn other_xen_guests_are_good() {
    for guest in ["HVM", "PVH"] {
        let changes = [("sys/hypervisor/guest_type", guest)];
        assert!(bad("xen", "6.1.0-9-amd64", &changes).is_empty(), "{guest}");
    }
}

#[test]
fn a_loaded_module_needs_not_be_loaded() {
    for (name, path, text, check) in [
        (
            "signed",
            "sys/module/module/parameters/sig_enforce",
            "Y\n",
            (|host: &Host| signatures(host, None)) as fn(&Host) -> Finding,
        ),
        (
            "disabled",
            "proc/sys/kernel/modules_disabled",
            "1\n",
            modules_allowed,
        ),
    ] {
        let tree = Tree::new(name, &[(path, text)]);
        let host = Host::made_up(&tree.0, "x86_64", "6.1.0-9-amd64");
        let found = check(&host);
        assert_eq!(found.verdict, Verdict::Note, "{name}");
        assert!(found.found.contains("the module is loaded"));
        fs::remove_dir_all(tree.0.join("sys/module/jifl")).unwrap();
        let found = check(&host);
        assert_eq!(found.verdict, Verdict::Bad, "{name}");
        assert!(!found.remedy.is_empty());
    }
}

#[test]
fn a_signed_module_may_satisfy_a_kernel_that_wants_signatures() {
    let signed = "code~Module signature appended~\n";
    for (text, verdict) in [(signed, Verdict::Note), ("code", Verdict::Bad)] {
        let tree = Tree::new(
            "signature",
            &[
                ("sys/module/module/parameters/sig_enforce", "Y\n"),
                ("lib/modules/6.1.0/modules.dep", "updates/jifl.ko:\n"),
                ("lib/modules/6.1.0/updates/jifl.ko", text),
                ("tree/build/modules/6.1.0/jifl.ko", text),
            ],
        );
        fs::remove_dir_all(tree.0.join("sys/module/jifl")).unwrap();
        let host = Host::made_up(&tree.0, "x86_64", "6.1.0");
        let source = tree.0.join("tree");
        for root in [None, Some(source.as_path())] {
            let found = signatures(&host, root);
            assert_eq!(found.verdict, verdict, "{text} {root:?}");
            assert!(found.remedy.contains("mokutil --import"));
        }
    }
}

#[test]
fn secure_boot_decides_what_lockdown_needs() {
    let variable = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    let locked = ("sys/kernel/security/lockdown", "none [integrity]\n");
    for (name, value, needs) in [
        ("secure", "\u{6}\0\0\0\u{1}", "mokutil --disable-validation"),
        ("insecure", "\u{6}\0\0\0\0", "lockdown="),
    ] {
        let tree = Tree::new(name, &[locked, (variable, value)]);
        let found = lockdown(&Host::made_up(&tree.0, "x86_64", "6.1.0"));
        assert_eq!(found.verdict, Verdict::Bad);
        assert!(found.remedy.contains(needs), "{}", found.remedy);
    }
}

#[test]
fn the_installed_module_is_found_without_a_tree() {
    let release = "6.1.0-9-amd64";
    let dep = "lib/modules/6.1.0-9-amd64/modules.dep";
    let tree = Tree::new("built", &[(dep, "updates/dkms/jifl.ko:\n")]);
    let host = Host::made_up(&tree.0, "x86_64", release);
    let found = built(&host, None);
    assert_eq!(found.verdict, Verdict::Ok);
    assert!(
        found.found.ends_with("updates/dkms/jifl.ko"),
        "{}",
        found.found
    );
    assert_eq!(built(&host, Some(&tree.0)).remedy, "make modules");
}

#[test]
fn another_version_has_a_remedy() {
    for (module, command, same) in [
        ("0.1.0", "0.1.0", true),
        ("0.1.0", "0.1.0+git7.abc", true),
        ("0.1.0+git7.abc", "0.1.0", true),
        ("0.1.0+git7.abc", "0.1.0+git7.abc", true),
        ("0.1.0+git7.abc", "0.1.0+git8.abd", false),
        ("0.1.0", "0.2.0+git8.abd", false),
    ] {
        let found = of_version(module, command);
        assert_eq!(found.verdict == Verdict::Ok, same, "{module} {command}");
        assert_eq!(found.remedy.contains("jifl-dkms"), !same);
    }
}

#[test]
fn another_processor_is_refused() {
    let tree = Tree::new("arm", &[]);
    let findings = all(&Host::made_up(&tree.0, "aarch64", "6.1.0"), None);
    assert_eq!(findings[0].verdict, Verdict::Bad);
}
