// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl lock`: the locks for which system calls wait, and the operations that they try again.

mod rows;
mod show;

use clap::{Args, ValueEnum};
use jifl_sys::abi::Kind;

use crate::base::exit::Failure;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::measure::Session;
use crate::session::report;
use crate::session::scope::{self, Scope};
use crate::session::{table, targets};
use crate::show::output;
use crate::show::output::Extent;

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table of waits, and one of retries
    Text,
    /// A JSON object in a line for each
    Ndjson,
}

/// What waits are added up by, beside their type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// The lock itself
    Lock,
    /// The code that takes the lock
    Caller,
}

/// Arguments of `jifl lock`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER, or a function of the kernel: fn:NAME, fn:GLOB,
fn:NAME@MODULE, or mod:NAME for all functions of a module. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. With CMD the exit status is CMD's.
CONTENDED: how often a lock was not free at once. A wait ends when the task has the lock, or
gives up. RETRIES: how often a locked cmpxchg failed and was tried again.

Examples:
  jifl lock 'sys:*' -- make -j8
  jifl lock --by lock sys:write -n nginx --for 10s
  jifl lock sys:write -f ndjson -p 1234 --for 1s")]
pub struct LockArgs {
    #[arg(required = true, value_name = "TARGET", help = targets::HELP)]
    targets: Vec<String>,
    /// Add up waits and retries that have the same lock, the same caller, or both
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "lock,caller",
        value_name = "WHAT"
    )]
    by: Vec<By>,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    extent: Extent,
    #[command(flatten)]
    scope: Scope,
}

impl LockArgs {
    fn limit(&self) -> usize {
        self.extent.lines(self.format == Format::Text)
    }
}

/// Runs the command; the result is the exit status.
pub fn run(args: &LockArgs) -> Result<u8, Failure> {
    let calls = Table::all();
    let targets = targets::select_here(&args.targets, &calls, args.scope.yes)?;
    let session = Session::of(Kind::Lock, 0, targets);
    args.scope.check()?;
    let mut sink = args.extent.sink()?;
    let door = device::open()?;
    let (outcome, ()) = scope::observe(&args.scope, &door, session, &calls, None, |_| ())?;
    let (locks, rest) = table::read(&door, "reading the locks")?;
    let status = outcome.exit_status();
    let found = show::Found {
        rows: rows::rows(&locks, &args.by),
        rest,
        report: outcome.report,
        symbols: Symbols::of_kernel(),
    };
    found.note();
    let width = args.extent.width();
    match args.format {
        Format::Text => sink.write(&output::fit(found.text(args, width), width))?,
        Format::Ndjson => {
            sink.write(&found.ndjson(args))?;
            output::note(found.summary().trim_start_matches("# "));
            output::note_lines(&report::adopted(&found.report));
        }
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::parse;
    use crate::session::fake::Fake;
    use jifl_sys::abi::{LOCK_UNTIMED, Lock};

    #[test]
    fn the_documented_lines_parse() {
        for line in [
            "sys:* -- make -j8",
            "--by lock sys:write -n nginx --for 10s",
            "sys:write -f ndjson -p 1234 --for 1s",
            "--by caller,lock sys:write",
        ] {
            assert!(parse::<LockArgs>(line).is_ok(), "{line}");
        }
        for line in ["", "--by cpu sys:write", "sys:read -f xml"] {
            assert!(parse::<LockArgs>(line).is_err(), "{line}");
        }
        let args: LockArgs = parse("sys:read").unwrap();
        assert_eq!((args.by.len(), args.limit()), (2, 30));
    }

    #[test]
    fn locks_are_read_to_the_last() {
        let fake = Fake::default();
        let lock = |n| Lock {
            lock: n,
            ..Lock::default()
        };
        let n = 2 * table::ROOM as u64;
        fake.add_table((0..n).map(lock).collect(), [0, 0, 3]);
        let (all, rest) = table::read::<Lock>(&fake, "").unwrap();
        assert_eq!((all.len() as u64, rest[LOCK_UNTIMED]), (n, 3));
    }
}
