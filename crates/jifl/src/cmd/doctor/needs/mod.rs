// SPDX-License-Identifier: MIT OR Apache-2.0
//! What JIFL needs of a kernel: the one list of it, for the kernel that runs and for files of
//! others.

pub mod options;
pub mod symbols;
pub mod versions;

use std::collections::BTreeMap;

use super::config::Config;
use super::finding::{Finding, Verdict, finding, ok};
use versions::Version;

/// What depends on an option or a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Without it the module does not load.
    Load,
    /// Without it this does not work, and all else does.
    Part(&'static str),
    /// Not all kernels have it, and JIFL makes use of it where it is.
    Hint,
}

/// A type of the kernel that a command asks for by name, and what for (BTF).
pub const TYPES: &[(&str, &str)] = &[("vm_event_item", "`jifl stat vmstat:...`")];

/// What a kernel's configuration lacks, and what it has that does not go with JIFL. `from`: where
/// the configuration stands.
pub fn of_options(config: &Config, from: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for wanted in options::WANTED {
        if config.is_on(wanted.name) {
            continue;
        }
        let why = wanted.why;
        findings.push(match wanted.need {
            Need::Load => finding(wanted.name, Verdict::Bad, format!("is not set: {why}")).mend(
                "without it the module does not load: use a kernel that is built with it, or \
                 `jifl vm`",
            ),
            Need::Part(of) => finding(wanted.name, Verdict::Note, format!("is not set: {why}"))
                .mend(format!(
                    "use a kernel that is built with it if you need this: {of}"
                )),
            Need::Hint => continue,
        });
    }
    if findings.is_empty() {
        let count = options::WANTED.len();
        findings.push(ok(
            "configuration",
            format!("all {count} options that JIFL uses are set ({from})"),
        ));
    } else {
        let count = options::WANTED.len() - findings.len();
        let found = format!(
            "{count} of {} options are set ({from})",
            options::WANTED.len()
        );
        findings.insert(0, finding("configuration", Verdict::Note, found));
    }
    let unwanted = options::UNWANTED.iter();
    findings.extend(unwanted.filter(|own| config.is_on(own.name)).map(|own| {
        finding(
            own.what,
            own.verdict,
            format!("{} ({})", own.does, own.name),
        )
        .mend(own.remedy)
    }));
    findings
}

/// Variables of the kernel. If none of them has a name, no variable has one.
const VARIABLES: [&str; 3] = ["sys_call_table", "text_mutex", "init_mm"];

/// Which symbols a kernel lacks: one finding for each without which the module does not load, and
/// one for each part of JIFL that does not work.
pub fn of_symbols(version: Version, has: impl Fn(&str) -> bool) -> Vec<Finding> {
    if !VARIABLES.iter().any(|name| has(name)) {
        let found = "those of functions alone, not of the kernel's data";
        return vec![
            finding("symbols", Verdict::Bad, found)
                .mend("a kernel with CONFIG_KALLSYMS_ALL is needed, or `jifl vm`"),
        ];
    }
    let mut findings = Vec::new();
    let mut parts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut asked = 0;
    for wanted in symbols::WANTED {
        if wanted.need == Need::Hint || wanted.before.is_some_and(|first| version >= first) {
            continue;
        }
        asked += 1;
        if wanted.any_of.iter().any(|name| has(name)) {
            continue;
        }
        match wanted.need {
            Need::Part(of) => parts.entry(of).or_default().extend(wanted.any_of),
            _ => findings.push(
                finding(wanted.any_of[0], Verdict::Bad, none_of(wanted.any_of)).mend(format!(
                    "JIFL needs it {}: use a kernel that has it, or `jifl vm`",
                    wanted.why
                )),
            ),
        }
    }
    if findings.is_empty() && parts.is_empty() {
        let found = format!("all {asked} that JIFL asks for by name");
        findings.push(ok("symbols", found));
    }
    findings.extend(parts.into_iter().map(|(of, names)| {
        finding("symbols", Verdict::Note, none_of(&names))
            .mend(format!("use a kernel that has them if you need this: {of}"))
    }));
    findings
}

fn none_of(names: &[&str]) -> String {
    format!("this kernel has no {}", names.join(", "))
}

/// The functions that must have a site of the function tracer.
pub fn hooked() -> impl Iterator<Item = &'static str> {
    let hooked = symbols::WANTED.iter().filter(|wanted| wanted.is_hooked);
    hooked.flat_map(|wanted| wanted.any_of.iter().copied())
}

#[cfg(test)]
mod tests;
