// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl list`: the possible targets.

use clap::Args;

use crate::base::exit::{DONE, Failure};
use crate::base::glob;
use crate::kernel::functions::{Function, Functions};
use crate::kernel::pattern::Pattern;
use crate::kernel::syscalls::Table;
use crate::session::files::{self, Files};
use crate::session::kinds::{self, Kind, Named};
use crate::show::output;
use crate::show::table::table;

/// Without a pattern.
const EVERYTHING: &str = "*";

/// Arguments of `jifl list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Functions are entered at their ftrace site, or, where they have none, by a jump in place of their
first instructions. Some are refused when a session starts: where no jump can stand, code that the
module needs itself, and what the kernel forbids to probe.

Examples:
  jifl list 'sys:*at'
  jifl list 'fn:vfs_*'
  jifl list mod:ext4
  jifl list 'file:fs/ext4/*.c'
  jifl list line:fs/open.c:1390
  jifl list sys32:
  jifl list softirq:
  jifl list irq:
  jifl list kthread:")]
pub struct ListArgs {
    /// Only targets that match: sys:*at, or just *at; functions with fn:GLOB, mod:NAME, file:GLOB
    /// or line:FILE:LINE; other kinds with sys32:GLOB, softirq:GLOB, irq:GLOB, kthread:GLOB, or the
    /// kind alone
    #[arg(default_value = EVERYTHING)]
    glob: String,
}

/// Runs the command.
pub fn run(args: &ListArgs) -> Result<u8, Failure> {
    let word = &args.glob;
    let called_by = kinds::called_by(word).map(|(pattern, _)| pattern);
    let lines = match (Pattern::parse(word).or(called_by), Kind::of(word)) {
        (Some(pattern), _) => functions(&pattern)?,
        (None, Some((kind, _))) => named(kind, word)?,
        (None, None) => match Files::parse(word)? {
            Some(files) => of_files(&files)?,
            None => syscalls(word)?,
        },
    };
    output::print(&table(&lines))?;
    Ok(DONE)
}

fn syscalls(glob: &str) -> Result<Vec<Vec<String>>, Failure> {
    let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let table = Table::of_kernel(&kallsyms).unwrap_or_else(|| {
        output::note(
            "jifl: /proc/kallsyms shows no system calls here: these are all that x86-64 has, \
             not this kernel's",
        );
        Table::all()
    });
    if glob == EVERYTHING {
        output::note(
            "jifl: system calls; `jifl list` also takes fn:GLOB, mod:NAME, file:GLOB, \
             line:FILE:LINE, sys32:, softirq:, irq:, kthread:, work:GLOB, timer:GLOB",
        );
    }
    let lines = select(glob, &table);
    if lines.is_empty() {
        return Err(Failure::failed(format!("{glob}: matches no target")));
    }
    let mut all = vec![vec!["TARGET".to_owned(), "NR".to_owned()]];
    all.extend(lines);
    Ok(all)
}

fn functions(pattern: &Pattern) -> Result<Vec<Vec<String>>, Failure> {
    let functions = Functions::of_kernel();
    functions.need_addresses(pattern.word())?;
    let found = functions.select(pattern);
    if found.is_empty() {
        return Err(Failure::failed(functions.unknown(pattern)));
    }
    let prefix = match pattern.is_module() {
        true => "fn:",
        false => pattern.prefix(),
    };
    Ok(rows(&functions, &found, prefix))
}

fn of_files(of: &Files) -> Result<Vec<Vec<String>>, Failure> {
    let functions = Functions::of_kernel();
    functions.need_addresses(of.word())?;
    let found = files::functions(of, &functions)?;
    Ok(rows(&functions, &found, "fn:"))
}

fn named(kind: Kind, word: &str) -> Result<Vec<Vec<String>>, Failure> {
    let functions = Functions::of_kernel();
    functions.need_addresses(word)?;
    let all = kind.all(&functions, &Functions::of_kernel)?;
    let found = kind.matching(word, &all)?;
    let mut lines = vec![["TARGET", "NR", "FUNCTION"].map(str::to_owned).into()];
    let row = |one: &&Named| {
        let function = one.function.as_ref().map_or("-".into(), Function::shown);
        let nr = one.nr.map_or("-".into(), |nr| nr.to_string());
        vec![format!("{}{}", kind.prefix(), one.name), nr, function]
    };
    lines.extend(found.iter().map(row));
    Ok(lines)
}

fn rows(functions: &Functions, found: &[Function], prefix: &str) -> Vec<Vec<String>> {
    let mut all = vec![["TARGET", "ADDRESS", "ENTERED"].map(str::to_owned).into()];
    let row = |one: &Function| {
        let by = match functions.may_have_site(one) {
            true => "site",
            false => "jump",
        };
        let address = format!("{:#x}", one.address);
        vec![one.behind(prefix), address, by.to_owned()]
    };
    all.extend(found.iter().map(row));
    all
}

fn select(pattern: &str, table: &Table) -> Vec<Vec<String>> {
    table
        .iter()
        .map(|(nr, name)| (nr, format!("sys:{name}")))
        .filter(|(_, target)| {
            glob::matches(pattern, target) || glob::matches(pattern, &target[4..])
        })
        .map(|(nr, target)| vec![target, nr.to_string()])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::functions::tests::sample;

    #[test]
    fn with_and_without_the_kind() {
        let table = Table::all();
        let expected = [["sys:readv", "19"]];
        assert_eq!(select("readv", &table), expected);
        assert_eq!(select("sys:readv", &table), expected);
        assert!(select("vfs_*", &table).is_empty());
        assert!(select("*", &table).len() > 330);
    }

    #[test]
    fn functions_are_listed_as_they_are_given() {
        let functions = sample();
        let found = |word| functions.select(&Pattern::parse(word).unwrap());
        let expected = [
            ["TARGET", "ADDRESS", "ENTERED"],
            ["fn:read_page@nfs", "0x3000", "site"],
            ["fn:twice@nfs", "0x3040", "site"],
        ];
        assert_eq!(rows(&functions, &found("mod:nfs"), "fn:"), expected);
        let bare = ["fn:vfs_bare", "0x1080", "jump"];
        assert_eq!(rows(&functions, &found("fn:vfs_bare"), "fn:")[1], bare);
    }
}
