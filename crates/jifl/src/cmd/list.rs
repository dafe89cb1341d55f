// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl list`: the possible targets.

use clap::Args;

use crate::base::exit::{DONE, Failure};
use crate::base::glob;
use crate::kernel::syscalls::Table;
use crate::show::output;

/// Arguments of `jifl list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only targets that match: sys:*at, or just *at
    #[arg(default_value = "*")]
    glob: String,
}

/// Runs the command.
pub fn run(args: &ListArgs) -> Result<u8, Failure> {
    let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let table = Table::of_kernel(&kallsyms).unwrap_or_else(|| {
        output::note(
            "jifl: /proc/kallsyms shows no system calls here: these are all that x86-64 has, \
             not this kernel's",
        );
        Table::all()
    });
    let lines = select(&args.glob, &table);
    if lines.is_empty() {
        return Err(Failure::failed(format!("{}: matches no target", args.glob)));
    }
    let mut all = vec![vec!["TARGET".to_owned(), "NR".to_owned()]];
    all.extend(lines);
    output::print(&crate::show::table::table(&all))?;
    Ok(DONE)
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

    #[test]
    fn with_and_without_the_kind() {
        let table = Table::all();
        let expected = [["sys:readv", "19"]];
        assert_eq!(select("readv", &table), expected);
        assert_eq!(select("sys:readv", &table), expected);
        assert!(select("fn:*", &table).is_empty());
        assert!(select("*", &table).len() > 330);
    }
}
