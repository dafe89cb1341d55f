// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl optimize`: a better order of the kernel's hot code, for what runs now.

mod graph;
mod lay;
mod plan;
mod report;
mod work;

use std::collections::HashSet;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use jifl_sys::abi::Kind;

use self::work::{Here, Measured, Work};
use crate::base::duration;
use crate::base::exit::Failure;
use crate::kernel::syscalls::Table;
use crate::session::measure::Session;
use crate::session::recording::{Destination, Recording};
use crate::session::scope::{self, Scope};
use crate::session::targets::{self, Selected, Target};
use crate::show::output::Format;

/// Arguments of `jifl optimize`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER, or a function of the kernel: fn:NAME, fn:GLOB,
fn:NAME@MODULE, mod:NAME, and interrupts and threads. Filters that are given must all match.

All that the targets execute is counted for --measure, block by block and branch by branch. Then
copies of the executed code are laid anew in the code cache: what runs often lies together, falls
through where it mostly goes, and what seldom runs lies behind. Calls of the targets run in these
copies until CMD ends, after --for, or until Ctrl-C or `jifl restore`. Then the kernel runs its own
code again. Nothing is inserted.

HOT: the share of executed instructions that the hot blocks have.
With --watch it is measured again after each TIME, and laid anew if what runs has changed.
FILE of --load is of --save or `jifl record`, of the same kernel.

Examples:
  jifl optimize 'sys:*' --for 1h
  jifl optimize 'sys:*' --measure 2s -p 1234 --watch 10m
  jifl optimize 'sys:*' --save web.jifl --measure 30s --for 31s
  jifl optimize 'sys:*' --load web.jifl -- ./serve")]
pub struct OptimizeArgs {
    #[arg(required = true, value_name = "TARGET", help = targets::HELP)]
    targets: Vec<String>,
    /// Count for this time before code is laid
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = duration::parse)]
    measure: Duration,
    /// The share of executed instructions that is hot
    #[arg(long, default_value = "99.9%", value_name = "HOT", value_parser = share)]
    hot: f64,
    /// Measure again after each TIME
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    watch: Option<Duration>,
    /// Keep what was measured in FILE
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Lay by what was measured before, at once
    #[arg(long, value_name = "FILE", conflicts_with = "save")]
    load: Option<PathBuf>,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    scope: Scope,
}

/// `99.9%`, as 0.999.
fn share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|text| text.parse().ok());
    number
        .filter(|number: &f64| (0.0..=100.0).contains(number))
        .map(|number| number / 100.0)
        .ok_or_else(|| "a share is a number from 0% to 100%, such as 99.9%".to_owned())
}

/// Runs the command; the result is the exit status.
pub fn run(args: &OptimizeArgs) -> Result<u8, Failure> {
    if args.scope.warms() {
        return Err(Failure::usage(
            "--warm has blocks in the order in which they come: --load FILE lays them",
        ));
    }
    args.scope.check()?;
    let table = Table::all();
    let selected = targets::select_here(&args.targets, &table, args.scope.yes)?;
    let functions = beginnings(&selected);
    let session = Session::of(Kind::Layout, 0, selected);
    let save = args.save.as_deref().map(Destination::open).transpose()?;
    let loaded = args.load.as_deref().map(loaded).transpose()?;
    let (ours, theirs) =
        UnixStream::pair().map_err(|error| Failure::failed(format!("a socket: {error}")))?;
    let work = Work::new(args, &table, &Here, functions, save, theirs)?;
    let work = Mutex::new(work);
    let locked = || work.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = scope::beside(
        &args.scope,
        session,
        &table,
        &ours,
        |session| locked().begin(session, loaded),
        || locked().go_on(),
    )?;
    let work = work.into_inner().unwrap_or_else(PoisonError::into_inner);
    work.end(waited)
}

/// Where the functions that were selected begin, and their cold parts.
fn beginnings(selected: &Selected) -> HashSet<u64> {
    let functions = selected.targets.iter().filter_map(Target::function);
    let all = functions.chain(&selected.parts);
    all.map(|one| one.address).collect()
}

/// The counts of a file of this kernel.
fn loaded(path: &Path) -> Result<Measured, Failure> {
    let recording = Recording::read(path)?;
    Ok(Measured {
        blocks: recording.here(&path.display().to_string())?,
        ns: recording.report.duration_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::check;

    #[test]
    fn the_documented_lines_parse() {
        check::<OptimizeArgs>(
            &[
                "sys:* --for 1h",
                "sys:* --measure 2s -p 1234 --watch 10m",
                "sys:* --save web.jifl --measure 30s --for 31s",
                "sys:* --load web.jifl -- ./serve",
                "fn:tcp_sendmsg --hot 100% -f json",
            ],
            &[
                "",
                "sys:* --hot 101%",
                "sys:* --hot 5",
                "sys:* --save a --load b",
            ],
        );
    }

    #[test]
    fn a_share_is_of_hundred() {
        assert_eq!(share("99.5%"), Ok(0.995));
        assert!(share("1.5").is_err());
    }
}
