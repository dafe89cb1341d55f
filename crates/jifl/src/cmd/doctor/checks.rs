// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks, in the order in which their findings should be mended.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use jifl_sys::abi::{ABI_VERSION, from_name};
use jifl_vm::{accel, host as vm_host, kernel};

use super::Host;
use super::config::Config;
use super::finding::{Finding, Verdict, finding, ok};
use super::needs::{self, versions};
use crate::base::environment::VERSION;
use crate::base::{module, root};
use crate::session::device;

/// Capabilities, by their bits (linux/capability.h).
const CAPABILITIES: &[(u32, &str)] = &[
    (21, "CAP_SYS_ADMIN"),
    (16, "CAP_SYS_MODULE"),
    (34, "CAP_SYSLOG"),
];

/// Makes all checks.
pub fn all(host: &Host, tree: Option<&Path>) -> Vec<Finding> {
    let symbols = Symbols::read(host);
    let mut findings = vec![machine(host)];
    findings.extend(xen(host));
    findings.push(versions::check(&host.release));
    findings.extend(options(host));
    findings.extend(by_name(host, &symbols));
    findings.extend([
        ftrace(host, &symbols),
        kprobes(host, &symbols),
        lockdown(host),
        secure_boot(host),
        signatures(host, tree),
        modules_allowed(host),
        capabilities(host),
        addresses(host),
        headers(host),
        built(host, tree),
        loaded(host),
    ]);
    if host.is_real() {
        findings.extend(virtual_machine(tree));
    }
    findings
}

/// The kernel's own symbols that /proc/kallsyms has. `None`: it cannot be read.
struct Symbols(Option<HashSet<String>>);

impl Symbols {
    fn read(host: &Host) -> Symbols {
        let text = host.read("/proc/kallsyms").filter(|text| !text.is_empty());
        Symbols(text.map(|text| {
            text.lines()
                .filter(|line| !line.ends_with(']'))
                .filter_map(|line| line.split_whitespace().nth(2))
                .map(str::to_owned)
                .collect()
        }))
    }

    /// `None`: the list cannot be read.
    fn has(&self, symbol: &str) -> Option<bool> {
        self.0.as_ref().map(|known| known.contains(symbol))
    }
}

fn machine(host: &Host) -> Finding {
    let what = "processor";
    if host.machine == "x86_64" {
        return ok(what, "x86_64");
    }
    finding(what, Verdict::Bad, host.machine.as_str())
        .mend("JIFL translates 64-bit x86 code only; use another machine")
}

/// The processor does not let a kernel in ring 3 do what the module does.
fn xen(host: &Host) -> Option<Finding> {
    let guest = host.read("/sys/hypervisor/guest_type")?;
    (guest == "PV").then(|| {
        finding("hypervisor", Verdict::Bad, "a Xen PV guest")
            .mend("the module refuses to load in one: use an HVM or PVH guest, or `jifl vm`")
    })
}

const HIDDEN: &str = "/proc/kallsyms cannot be read here";
const KALLSYMS: &str = "a kernel with CONFIG_KALLSYMS is needed, and /proc mounted";

/// What the module asks for by name.
fn by_name(host: &Host, symbols: &Symbols) -> Vec<Finding> {
    let Some(known) = &symbols.0 else {
        return vec![finding("symbols", Verdict::Bad, HIDDEN).mend(KALLSYMS)];
    };
    needs::of_symbols(versions::of(&host.release), |name| known.contains(name))
}

/// The options that the kernel was built with, where they can be read.
fn options(host: &Host) -> Vec<Finding> {
    let release = &host.release;
    let places = [
        "/proc/config.gz".to_owned(),
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
        format!("/lib/modules/{release}/build/.config"),
    ];
    let found = places.iter().find_map(|place| {
        let config = Config::read(&host.path(place)).ok()?;
        let is_own = config.stranger(versions::of(release)).is_none();
        is_own.then(|| needs::of_options(&config, place))
    });
    // What the running kernel demands is asked of it, not of what it was built with.
    let is_asked = |own: &Finding| !matches!(own.what, "lockdown" | "module signatures");
    match found {
        Some(findings) => findings.into_iter().filter(is_asked).collect(),
        None => vec![finding(
            "configuration",
            Verdict::Note,
            format!("there is no file of it ({} and others)", places[1]),
        )],
    }
}

fn ftrace(host: &Host, symbols: &Symbols) -> Finding {
    let what = "ftrace";
    match symbols.has("register_ftrace_function") {
        Some(true) => {}
        Some(false) => {
            return finding(what, Verdict::Bad, "this kernel has none")
                .mend("a kernel with CONFIG_DYNAMIC_FTRACE_WITH_REGS is needed, or `jifl vm`");
        }
        None => return finding(what, Verdict::Bad, HIDDEN).mend(KALLSYMS),
    }
    match host.read("/proc/sys/kernel/ftrace_enabled").as_deref() {
        Some("0") => finding(what, Verdict::Bad, "ftrace is turned off")
            .mend("sysctl kernel.ftrace_enabled=1"),
        _ => ok(what, "is there"),
    }
}

fn kprobes(host: &Host, symbols: &Symbols) -> Finding {
    let what = "kprobes";
    if symbols.has("register_kprobe") == Some(false) {
        return finding(what, Verdict::Bad, "this kernel has none")
            .mend("a kernel with CONFIG_KPROBES is needed, or `jifl vm`");
    }
    match host.read("/sys/kernel/debug/kprobes/enabled").as_deref() {
        // The module does without them (host/kernel/session/require.c).
        Some("0") => finding(
            what,
            Verdict::Note,
            "are turned off: `jifl probe` by breakpoints is refused",
        )
        .mend("echo 1 > /sys/kernel/debug/kprobes/enabled"),
        Some(_) => ok(what, "are enabled"),
        None => finding(
            what,
            Verdict::Note,
            "whether they are enabled cannot be seen (debugfs is not mounted or not readable)",
        ),
    }
}

fn lockdown(host: &Host) -> Finding {
    let what = "lockdown";
    let Some(modes) = host.read("/sys/kernel/security/lockdown") else {
        return finding(
            what,
            Verdict::Note,
            "cannot be seen (securityfs is not mounted, or the kernel has no lockdown)",
        );
    };
    let mode = modes
        .split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
        .unwrap_or("none");
    if mode == "none" {
        return ok(what, "none");
    }
    let cause = if is_secure_boot(host) == Some(true) {
        "Secure Boot locks this kernel down, and a signed jifl.ko is refused, too: turn Secure Boot \
         off in the firmware's set-up, or by `mokutil --disable-validation` and a reboot"
    } else {
        "it forbids changing kernel text: boot with secure boot off and without lockdown="
    };
    finding(what, Verdict::Bad, mode).mend(format!("{cause}; or use `jifl vm`"))
}

/// Whether the firmware checks what it boots. `None`: the machine has no such firmware, or does
/// not say. The variable is one byte behind four of attributes (UEFI 2.10, section 3.3).
fn is_secure_boot(host: &Host) -> Option<bool> {
    let name = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    let text = host.read(&format!("/sys/firmware/efi/efivars/{name}"))?;
    Some(text.ends_with('\u{1}'))
}

fn secure_boot(host: &Host) -> Finding {
    let what = "Secure Boot";
    match is_secure_boot(host) {
        Some(true) => finding(what, Verdict::Note, "is on").mend(
            "where the kernel is not locked down, a signed module suffices: `mokutil --import \
             /var/lib/dkms/mok.pub`, then a reboot, enrols the key with which DKMS signs",
        ),
        Some(false) => ok(what, "is off"),
        None => ok(what, "is not in use"),
    }
}

fn signatures(host: &Host, tree: Option<&Path>) -> Finding {
    let what = "module signatures";
    match host
        .read("/sys/module/module/parameters/sig_enforce")
        .as_deref()
    {
        Some("Y") if is_loaded(host) => finding(
            what,
            Verdict::Note,
            "are enforced, and the module is loaded",
        ),
        Some("Y") if module_file(host, tree).is_some_and(|file| module::is_signed(&file)) => {
            finding(what, Verdict::Note, "are enforced, and the module has one").mend(
                "if it is refused, have the kernel trust its key: `mokutil --import \
                 /var/lib/dkms/mok.pub` enrols the one with which DKMS signs",
            )
        }
        Some("Y") => finding(what, Verdict::Bad, "are enforced").mend(
            "sign jifl.ko with a key this kernel trusts (`mokutil --import /var/lib/dkms/mok.pub` \
             enrols the one with which DKMS signs), or boot without module.sig_enforce and secure \
             boot, or use `jifl vm`",
        ),
        _ => ok(what, "are not enforced"),
    }
}

fn modules_allowed(host: &Host) -> Finding {
    let what = "loading modules";
    match host.read("/proc/sys/kernel/modules_disabled").as_deref() {
        Some("0") => ok(what, "is allowed"),
        Some(_) if is_loaded(host) => finding(
            what,
            Verdict::Note,
            "is turned off until the next boot, and the module is loaded",
        )
        .mend("boot without kernel.modules_disabled=1 for plugins, or for another version"),
        Some(_) => finding(what, Verdict::Bad, "is turned off until the next boot")
            .mend("boot without kernel.modules_disabled=1"),
        None => finding(what, Verdict::Bad, "this kernel has no modules")
            .mend("a kernel with CONFIG_MODULES is needed, or `jifl vm`"),
    }
}

fn capabilities(host: &Host) -> Finding {
    let what = "capabilities";
    let status = host.read("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let lacking: Vec<&str> = CAPABILITIES
        .iter()
        .filter(|(bit, _)| effective >> bit & 1 == 0)
        .map(|(_, name)| *name)
        .collect();
    if lacking.is_empty() {
        return ok(what, "all that are needed");
    }
    finding(
        what,
        Verdict::Bad,
        format!("without {}", lacking.join(", ")),
    )
    .mend("run jifl as root, or give it these capabilities")
}

/// Without addresses only reports lack names: the module finds addresses by itself.
fn addresses(host: &Host) -> Finding {
    let what = "kptr_restrict";
    match host.read("/proc/sys/kernel/kptr_restrict").as_deref() {
        Some("2") => finding(what, Verdict::Note, "2: addresses are hidden from everyone")
            .mend("sysctl kernel.kptr_restrict=1, should you want addresses in reports"),
        Some(value) => ok(what, value),
        None => finding(what, Verdict::Note, "cannot be read"),
    }
}

pub fn headers(host: &Host) -> Finding {
    let what = "kernel headers";
    let build = format!("/lib/modules/{}/build", host.release);
    if host.has(&format!("{build}/Makefile")) {
        return ok(what, build);
    }
    finding(what, Verdict::Note, format!("none at {build}")).mend(format!(
        "apt-get install linux-headers-{}, to build the module for this kernel",
        host.release
    ))
}

/// The file of the module that `jifl load` takes: the source tree's, or the installed one.
fn module_file(host: &Host, tree: Option<&Path>) -> Option<PathBuf> {
    match tree {
        Some(tree) => Some(root::module(tree, &host.release)).filter(|file| file.exists()),
        None => module::installed(host.top(), &host.release),
    }
}

/// Whether there is a module for `jifl load`.
pub fn built(host: &Host, tree: Option<&Path>) -> Finding {
    let what = "module built";
    if let Some(module) = module_file(host, tree) {
        return ok(what, module.display().to_string());
    }
    let remedy = match tree {
        Some(_) => "make modules".into(),
        None => module::remedy(host.top(), &host.release),
    };
    finding(what, Verdict::Note, format!("not for {}", host.release)).mend(remedy)
}

fn is_loaded(host: &Host) -> bool {
    host.has("/sys/module/jifl")
}

fn loaded(host: &Host) -> Finding {
    let what = "module loaded";
    if !is_loaded(host) {
        return finding(what, Verdict::Note, "no").mend("jifl load");
    }
    if !host.is_real() {
        return ok(what, "yes");
    }
    // `info` checks whether the device opens, and the version of the ABI.
    match device::open().and_then(|door| device::info(&door)) {
        Ok(info) => of_version(&from_name(&info.version), VERSION),
        Err(failure) => finding(what, Verdict::Bad, "yes, but").mend(failure.message),
    }
}

/// About a loaded module whose ABI is this command's.
fn of_version(module: &str, command: &str) -> Finding {
    let what = "module loaded";
    let found = format!("{module}, ABI {ABI_VERSION}");
    if is_same(module, command) {
        return ok(what, found);
    }
    finding(what, Verdict::Note, found).mend(format!(
        "this command is {command}: have both of one version (`apt-get install jifl jifl-dkms`), \
         then `jifl unload jifl` and `jifl load`"
    ))
}

/// Whether two versions are the same, as far as both say. Behind a plus stands the commit, which
/// modules of a source tree do not say.
fn is_same(one: &str, other: &str) -> bool {
    match (one.split_once('+'), other.split_once('+')) {
        (Some(_), Some(_)) | (None, None) => one == other,
        (Some((base, _)), None) => base == other,
        (None, Some((base, _))) => base == one,
    }
}

fn virtual_machine(tree: Option<&Path>) -> Vec<Finding> {
    let qemu = match vm_host::qemu_version() {
        Ok((major, line)) if major >= vm_host::QEMU_MINIMUM => ok("vm: QEMU", line),
        Ok((_, line)) => finding("vm: QEMU", Verdict::Note, line)
            .mend("10 or later is needed for `jifl vm`: make setup"),
        Err(why) => finding("vm: QEMU", Verdict::Note, "none").mend(why),
    };
    let (accel, why) = accel::auto();
    let accel = ok("vm: accelerator", format!("{accel:?}: {why}"));
    let kernels = tree.map(|tree| tree.join("build/kernels"));
    let tested = versions::TESTED.iter();
    let found: Vec<String> = tested
        .filter(|(_, tested)| *tested == versions::Tested::Whole)
        .filter_map(|((major, minor), _)| {
            kernel::find(&format!("{major}.{minor}"), kernels.as_deref()?).ok()
        })
        .map(|kernel| kernel.release)
        .collect();
    let kernels = if tree.is_none() {
        ok("vm: kernels", "any that `jifl vm --kernel PATH` names")
    } else if found.is_empty() {
        finding("vm: kernels", Verdict::Note, "none").mend("make setup")
    } else {
        ok("vm: kernels", found.join(", "))
    };
    vec![qemu, accel, kernels]
}

#[cfg(test)]
mod tests;
