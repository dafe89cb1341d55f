// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of a kernel's files, in the order in which their findings should be mended.

use std::env;
use std::path::{Path, PathBuf};

use btf_rs::Btf;
use jifl_code::kernel_file::{KernelFile, Symbols};

use super::super::finding::{Finding, Verdict, finding, ok};
use super::super::needs::{self, versions};
use super::super::{Host, checks as running};
use super::banner::Banner;
use super::{Configuration, find};

/// What is examined.
pub struct Subject<'a> {
    /// What the image tells.
    pub file: &'a KernelFile,
    /// Its version, in its words.
    pub banner: &'a Banner,
    /// What it was built with.
    pub configuration: Configuration,
    /// Where its headers and its module may be.
    pub tops: &'a [PathBuf],
    /// The source tree, if there is one.
    pub tree: Option<&'a Path>,
}

/// Makes all checks.
pub fn all(subject: &Subject<'_>) -> Vec<Finding> {
    let release = &subject.banner.release;
    let mut findings = vec![
        ok("processor", "x86_64"),
        versions::check(release),
        ok("version", subject.banner.build.as_str()),
    ];
    match &subject.configuration {
        Ok((config, from)) => {
            findings.extend(needs::of_options(config, from));
            for (what, found) in [
                ("lockdown", "not by itself"),
                ("module signatures", "are not enforced"),
            ] {
                if !findings.iter().any(|own| own.what == what) {
                    findings.push(ok(what, found));
                }
            }
        }
        Err(why) => findings.push(why.clone()),
    }
    findings.extend(symbols(subject));
    findings.push(types(subject.file.btf.as_deref()));
    findings.push(preemption(subject));
    findings.push(compiler(subject));
    findings.push(match find::headers(release, subject.tops) {
        Some(place) => ok("kernel headers", place.display().to_string()),
        None => finding(
            "kernel headers",
            Verdict::Note,
            format!("none of {release}"),
        )
        .mend(find::headers_remedy(release)),
    });
    findings.push(running::built(&Host::other(release), subject.tree));
    findings
}

/// What needs names: the symbols themselves, the door, the places of the function tracer.
fn symbols(subject: &Subject<'_>) -> Vec<Finding> {
    let what = "symbols";
    let file = subject.file;
    let known = match &file.symbols {
        Ok(known) => known,
        Err(why) => {
            return vec![finding(what, Verdict::Bad, why.0.as_str()).mend(
                "a kernel with CONFIG_KALLSYMS is needed, or the vmlinux with its symbol table",
            )];
        }
    };
    let version = versions::of(&subject.banner.release);
    let mut findings = needs::of_symbols(version, |name| known.address(name).is_some());
    findings.extend(door(file.door_calls));
    findings.extend(sites(file.sites.as_deref(), known));
    findings
}

/// The one call that JIFL leads to itself. Without names the symbols' findings say all.
fn door(calls: Option<usize>) -> Option<Finding> {
    let what = "do_syscall_64";
    Some(match calls? {
        1 => ok(what, "has one call of x64_sys_call"),
        other => finding(
            what,
            Verdict::Bad,
            format!("has {other} calls of x64_sys_call instead of one"),
        )
        .mend("JIFL enters system calls at that call: use another kernel, or `jifl vm`"),
    })
}

/// The places that the function tracer can patch, above all those of functions that are hooked.
fn sites(sites: Option<&[u64]>, known: &Symbols) -> Vec<Finding> {
    /// An endbr64 may stand before the place.
    const ENDBR: u64 = 4;
    let what = "fentry sites";
    let Some(sites) = sites else {
        return vec![
            finding(what, Verdict::Bad, "the kernel lists none")
                .mend("a kernel with CONFIG_DYNAMIC_FTRACE is needed, or `jifl vm`"),
        ];
    };
    let has = |address: u64| sites.binary_search(&address).is_ok();
    let lacking = needs::hooked().filter(|name| {
        // A function that is not there is told of as a symbol.
        let address = known.address(name);
        address.is_some_and(|address| !has(address) && !has(address.saturating_add(ENDBR)))
    });
    let mut findings: Vec<Finding> = lacking
        .map(|name| {
            finding(
                name,
                Verdict::Bad,
                "the function tracer cannot be called in it",
            )
            .mend("JIFL hooks it: use a kernel that traces it, or `jifl vm`")
        })
        .collect();
    if findings.is_empty() {
        findings.push(ok(
            what,
            format!("{}, those that JIFL hooks among them", sites.len()),
        ));
    }
    findings
}

fn types(btf: Option<&[u8]>) -> Finding {
    let what = "types (BTF)";
    let Some(bytes) = btf else {
        return finding(what, Verdict::Note, "none").mend(
            "use a kernel with CONFIG_DEBUG_INFO_BTF if you need names and types of arguments",
        );
    };
    let parsed = match Btf::from_bytes(bytes) {
        Ok(parsed) => parsed,
        Err(error) => {
            return finding(what, Verdict::Note, format!("not understood: {error}"))
                .mend("arguments have no names and types then");
        }
    };
    let lacks = |name: &str| {
        let ids = parsed.resolve_ids_by_name(name);
        !ids.is_ok_and(|ids| !ids.is_empty())
    };
    match needs::TYPES.iter().find(|(name, _)| lacks(name)) {
        Some((name, of)) => finding(what, Verdict::Note, format!("without {name}"))
            .mend(format!("use a kernel that has it if you need {of}")),
        None => ok(what, format!("{} kB", bytes.len() / 1000)),
    }
}

/// By the configuration, or by the kernel's own words, which do not tell all models.
fn preemption(subject: &Subject<'_>) -> Finding {
    let what = "preemption";
    let config = subject
        .configuration
        .as_ref()
        .ok()
        .map(|(config, _)| config);
    let is_on = |name: &str| match config {
        Some(config) => config.is_on(&format!("CONFIG_{name}")),
        None => subject.banner.build.split(' ').any(|word| word == name),
    };
    if is_on("PREEMPT_RT") {
        return finding(what, Verdict::Note, "PREEMPT_RT").mend(
            "not tested. Calls that software interrupts make are missed, and counted as missed; \
             entering a call takes longer",
        );
    }
    let models = [
        ("PREEMPT_DYNAMIC", "chosen at boot (PREEMPT_DYNAMIC)"),
        ("PREEMPT_LAZY", "lazy (PREEMPT_LAZY)"),
        ("PREEMPT", "full (PREEMPT)"),
        ("PREEMPT_VOLUNTARY", "voluntary (PREEMPT_VOLUNTARY)"),
    ];
    let own = models.iter().find(|(name, _)| is_on(name));
    ok(what, own.map_or("none, or voluntary", |(_, said)| said))
}

/// The module has to be built by the kernel's compiler.
fn compiler(subject: &Subject<'_>) -> Finding {
    let what = "compiler";
    let of_config = subject.configuration.as_ref().ok();
    let of_config = of_config.and_then(|(config, _)| config.value("CONFIG_CC_VERSION_TEXT"));
    let said = of_config.unwrap_or(&subject.banner.compiler);
    if said.contains("clang") {
        return finding(what, Verdict::Note, said).mend(
            "JIFL's module is tested with gcc alone; LLVM=1 has make build modules with clang",
        );
    }
    let name = said.split(' ').next().unwrap_or_default();
    if name.is_empty() {
        return finding(what, Verdict::Note, "the kernel does not tell");
    }
    let toolchain = subject
        .tree
        .map(|tree| tree.join("build/kernels/toolchain/usr/bin"));
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&folders).chain(toolchain);
    if folders.any(|folder| folder.join(name).exists()) {
        return ok(what, said);
    }
    let package = name.strip_prefix("x86_64-linux-gnu-").unwrap_or(name);
    finding(
        what,
        Verdict::Note,
        format!("{said}: there is no {name} here"),
    )
    .mend(format!(
        "the kernel's headers bring it on Debian; else apt-get install {package}, or build the \
         module where it is"
    ))
}
