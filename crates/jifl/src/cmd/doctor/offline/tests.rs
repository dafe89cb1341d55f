// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made kernels: a good one, and one for each lack; where files are looked for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jifl_code::image::Error;
use jifl_code::kernel_file::Symbols;

use super::super::finding::is_ready;
use super::super::needs;
use super::*;

const BANNER: &str =
    "Linux version 6.12.1-amd64 (x) (gcc-12 (x) 12, ld 2) #1 SMP PREEMPT_DYNAMIC x";

fn names() -> impl Iterator<Item = &'static str> {
    let listed = needs::symbols::WANTED.iter();
    listed.flat_map(|own| own.any_of.iter().copied())
}

/// All names but one, each at an address of its own.
fn symbols_without(lacking: &str) -> Symbols {
    let all = names().zip((0x1000..).step_by(0x10));
    let all = all.filter(|(name, _)| *name != lacking);
    Symbols::of(all.map(|(name, address)| (name.to_owned(), address)))
}

fn good() -> KernelFile {
    KernelFile {
        banner: BANNER.into(),
        symbols: Ok(symbols_without("")),
        config: None,
        btf: None,
        // Each second function begins with an endbr64.
        sites: Some(
            (0x1000..0x2000)
                .step_by(0x10)
                .map(|site| site + (site & 0x10) / 4)
                .collect(),
        ),
        door_calls: Some(1),
    }
}

fn options() -> String {
    let all = needs::options::WANTED.iter();
    all.map(|own| format!("{}=y\n", own.name)).collect()
}

fn findings(file: &KernelFile, config: Option<&str>) -> Vec<Finding> {
    let configuration = match config {
        Some(text) => Ok((Config::parse(text).unwrap(), "made".to_owned())),
        None => Err(none("none".into())),
    };
    checks::all(&checks::Subject {
        file,
        banner: &Banner::parse(&file.banner).unwrap(),
        configuration,
        tops: &[],
        tree: None,
    })
}

fn bad(file: &KernelFile, config: Option<&str>) -> Vec<&'static str> {
    let all = findings(file, config);
    let bad = all.iter().filter(|own| own.verdict == Verdict::Bad);
    bad.inspect(|own| assert!(!own.remedy.is_empty(), "{own:?}"))
        .map(|own| own.what)
        .collect()
}

fn told<'a>(all: &'a [Finding], what: &str) -> &'a Finding {
    all.iter()
        .find(|own| own.what == what)
        .unwrap_or_else(|| panic!("{what}: {all:?}"))
}

#[test]
fn a_good_kernel_has_nothing_bad() {
    let all = findings(&good(), Some(&options()));
    assert!(is_ready(&all), "{all:?}");
    assert_eq!(told(&all, "module signatures").found, "are not enforced");
    assert_eq!(told(&all, "preemption").found, "none, or voluntary");
    assert_eq!(told(&all, "types (BTF)").verdict, Verdict::Note);
    let headers = &told(&all, "kernel headers").remedy;
    assert!(
        headers.contains("apt-get install linux-headers-6.12.1-amd64"),
        "{headers}"
    );
    // Without a configuration the symbols decide.
    let all = findings(&good(), None);
    assert!(is_ready(&all));
    assert!(told(&all, "configuration").remedy.contains("--config"));
    assert!(told(&all, "preemption").found.contains("PREEMPT_DYNAMIC"));
}

#[test]
fn each_lack_is_found_alone() {
    let all = options();
    for name in ["x64_sys_call", "text_poke", "__tracepoint_sched_switch"] {
        let mut file = good();
        file.symbols = Ok(symbols_without(name));
        assert_eq!(bad(&file, Some(&all)), [name]);
    }
    let mut file = good();
    file.door_calls = Some(2);
    assert_eq!(bad(&file, Some(&all)), ["do_syscall_64"]);
    file = good();
    file.sites = None;
    assert_eq!(bad(&file, Some(&all)), ["fentry sites"]);
    file = good();
    let hooked = good().symbols.unwrap().address("fixup_exception").unwrap();
    let near = |site: &u64| !(hooked..hooked + 8).contains(site);
    file.sites.as_mut().unwrap().retain(near);
    assert_eq!(bad(&file, Some(&all)), ["fixup_exception"]);
    file = good();
    file.symbols = Err(Error("no symbols".into()));
    assert_eq!(bad(&file, Some(&all)), ["symbols"]);
    file.symbols = Ok(Symbols::of([("do_syscall_64".to_owned(), 1)]));
    assert_eq!(bad(&file, Some(&all)), ["symbols"]);
    let without = all.replace("CONFIG_KPROBES=y\n", "");
    assert_eq!(bad(&good(), Some(&without)), ["CONFIG_KPROBES"]);
    let forced = all.clone() + "CONFIG_MODULE_SIG_FORCE=y\n";
    assert_eq!(bad(&good(), Some(&forced)), ["module signatures"]);
    let locked = all + "CONFIG_LOCK_DOWN_KERNEL_FORCE_INTEGRITY=y\n";
    assert_eq!(bad(&good(), Some(&locked)), ["lockdown"]);
}

#[test]
fn what_is_not_tested_is_said() {
    let mut file = good();
    file.banner = BANNER.replace("6.12.1", "6.18.4").replace("DYNAMIC", "RT");
    let all = findings(&file, None);
    assert!(told(&all, "kernel").found.contains("not tested"));
    assert!(told(&all, "preemption").remedy.contains("not tested"));
    file.banner = BANNER.replace("gcc-12 (x) 12", "Debian clang version 19");
    let all = findings(&file, None);
    assert!(told(&all, "compiler").remedy.contains("gcc alone"));
    file.banner = BANNER.replace("6.12.1", "5.10.1");
    assert_eq!(bad(&file, None), ["kernel"]);
}

#[test]
fn types_that_are_no_types_are_told() {
    let mut file = good();
    file.btf = Some(vec![1, 2, 3]);
    let all = findings(&file, None);
    assert!(told(&all, "types (BTF)").found.contains("not understood"));
}

/// A directory that is deleted at the end of the test.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[&str]) -> Tree {
        let tree = std::env::temp_dir().join(format!("jifl-offline-{name}-{}", std::process::id()));
        for path in files {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        Tree(fs::canonicalize(tree).unwrap())
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.0)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_are_found_where_systems_put_them() {
    let table = BTreeMap::from([
        // image, configuration, headers
        ("boot/vmlinuz-R", ("boot/config-R", "lib/modules/R/build")),
        (
            "usr/lib/modules/R/vmlinuz",
            ("usr/lib/modules/R/config", "usr/src/linux-headers-R"),
        ),
        (
            "lib/modules/R/vmlinuz",
            ("lib/modules/R/build/.config", "lib/modules/R/build"),
        ),
    ]);
    for (number, (image, (config, headers))) in table.iter().enumerate() {
        let makefile = format!("{headers}/Makefile");
        let tree = Tree::new(&number.to_string(), &[image, config, &makefile]);
        let found = find::image("R", &tree.0, None).unwrap();
        assert_eq!(tree.name(&found), *image);
        // As a directory into which a system was unpacked: its own files, not the machine's.
        let tops = find::tops(&found, Path::new("/"));
        assert_eq!(
            tree.name(&find::config(&found, "R", &tops).unwrap()),
            *config
        );
        assert_eq!(tree.name(&find::headers("R", &tops).unwrap()), *headers);
        let error = find::image("S", &tree.0, None).unwrap_err();
        assert!(
            error.message.contains("boot/vmlinuz-S"),
            "{}",
            error.message
        );
    }
    let tree = Tree::new("beside", &["x/vmlinuz-old", "x/config-old"]);
    let image = tree.0.join("x/vmlinuz-old");
    let config = find::config(&image, "R", &find::tops(&image, &tree.0)).unwrap();
    assert_eq!(tree.name(&config), "x/config-old");
}

#[test]
fn headers_have_a_command_for_each_system() {
    for (release, command) in [
        ("6.12.1-amd64", "apt-get install linux-headers-6.12.1-amd64"),
        (
            "6.17.1-300.fc43.x86_64",
            "dnf install kernel-devel-6.17.1-300.fc43.x86_64",
        ),
        ("6.17.1-arch1-1", "pacman -S linux-headers"),
        ("6.4.0-1-default", "zypper install kernel-default-devel"),
    ] {
        let remedy = find::headers_remedy(release);
        assert!(remedy.starts_with(command), "{remedy}");
    }
}
