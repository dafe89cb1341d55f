// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl why`: for system calls and functions that failed, the path of branches that led to the
//! error, and the branch that decided. With `-x NULL`: for functions that returned NULL.

mod cause;
mod code;
mod decide;
mod effect;
mod fixup;
mod origin;
mod show;
mod stack;
mod text;
mod trail;
mod walk;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use clap::{Args, ValueEnum};
use jifl_sys::abi::Kind;

use self::code::Code;
use self::show::Shower;
use crate::base::exit::Failure;
use crate::kernel::disasm::Disassembler;
use crate::kernel::errno;
use crate::kernel::lines::{Build, LinesArgs};
use crate::kernel::memory::Kcore;
use crate::kernel::running;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::measure::Session;
use crate::session::ring::{self, Taken, WaitArgs};
use crate::session::scope::{Outcome, Scope};
use crate::session::targets;
use crate::session::types::{self, Wanted};
use crate::show::output;

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// A JSON object in a line for each group of calls
    Ndjson,
}

/// Which results mean that a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failing {
    /// Each error.
    Errors,
    /// This one.
    Error(i64),
    /// NULL instead of a pointer.
    Null,
}

impl Failing {
    /// As `-x` says.
    fn of(text: Option<&str>) -> Result<Failing, Failure> {
        match text {
            None => Ok(Failing::Errors),
            Some(text) if text.eq_ignore_ascii_case("NULL") => Ok(Failing::Null),
            Some(text) => errno::parse(text).map(Failing::Error),
        }
    }

    fn is(self, result: i64) -> bool {
        match self {
            Failing::Errors => errno::is_error(result),
            Failing::Error(errno) => result == -errno,
            Failing::Null => result == 0,
        }
    }

    /// Calls with other results are let go as soon as they end.
    fn kept(self) -> ring::Wanted {
        match self {
            Failing::Errors | Failing::Error(_) => errno::is_error,
            Failing::Null => |result| result == 0,
        }
    }

    /// So many calls failed, in words.
    fn number(self, failed: usize) -> String {
        let failed = match failed {
            0 => "none".to_owned(),
            n => n.to_string(),
        };
        match self {
            Failing::Errors => format!("{failed} failed"),
            Failing::Error(errno) => format!("{failed} failed with {}", errno::name(errno)),
            Failing::Null => format!("{failed} returned NULL"),
        }
    }
}

/// Arguments of `jifl why`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER, or a function of the kernel: fn:NAME, fn:GLOB,
fn:NAME@MODULE, or mod:NAME for all functions of a module. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. Then the causes of failed calls are
shown, one for all calls that failed alike. With CMD the exit status is CMD's.

Examples:
  jifl why -x ENOTDIR sys:openat -- cat /etc/hostname/x
  jifl why -x EACCES 'sys:*' -p 1234 --for 10s
  jifl why -x NULL fn:find_task_by_vpid --for 10s
  jifl why --all --path sys:bpf -- ./prog
  jifl why -f ndjson -o why.ndjson 'sys:*' -- make")]
pub struct WhyArgs {
    #[arg(required = true, value_name = "TARGET", help = targets::HELP)]
    targets: Vec<String>,
    /// Only calls that fail with this error: ENOENT, 2. NULL: calls of functions that return a
    /// pointer, and returned NULL
    #[arg(short = 'x', long, value_name = "ERRNO")]
    errno: Option<String>,
    /// Show each call that failed, instead of one for all that failed alike
    #[arg(long)]
    all: bool,
    /// Show all branches of the call, not only the last in the function that decided
    #[arg(long)]
    path: bool,
    /// Keep this many records, 8 bytes each; later records are lost
    #[arg(long, value_name = "N", default_value_t = 1 << 24)]
    limit: usize,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    lines: LinesArgs,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    scope: Scope,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &WhyArgs) -> Result<u8, Failure> {
    let failing = Failing::of(args.errno.as_deref())?;
    let table = Table::all();
    let targets = targets::select_here(&args.targets, &table, args.scope.yes)?;
    let mut session = Session::of(Kind::Path, args.wait.flag(), targets);
    let wanted = match failing {
        Failing::Null => Wanted::Pointer,
        Failing::Errors | Failing::Error(_) => Wanted::Result,
    };
    types::set(&mut session, wanted)?;
    args.scope.check()?;
    let mut sink = output::Sink::open(args.output.as_deref())?;
    let door = device::open()?;
    let mut kcore = Kcore::open()?;
    let lines = args.lines.open(Build::running())?;
    let (taken, outcome) = ring::observe_wanted(
        &args.scope,
        &door,
        session,
        &table,
        args.limit,
        Some(failing.kept()),
    )?;
    let (pieces, _) = taken.pieces();
    let gaps = ring::pieces::gaps(taken.each());
    let trails = trail::trails(&pieces, &gaps, |result| failing.is(result));

    let symbols = Rc::new(Symbols::of_kernel());
    let lines = lines.lines(&symbols);
    let code = Code::new(&mut kcore, &symbols, running::modules_here);
    let table = taken.table(&table);
    let mut names = Disassembler::new(symbols.clone());
    let mut shower = Shower {
        table: &table,
        code: &code,
        lines: &lines,
        names: &mut names,
        sources: RefCell::default(),
        spots: RefCell::default(),
    };
    let whole = args.path || args.format == Format::Ndjson;
    let width = output::width(args.output.as_deref());
    let mut modules = BTreeSet::new();
    for (index, group) in cause::groups(&trails.failed, args.all, &code)
        .iter()
        .enumerate()
    {
        let shown = shower.of(group, whole);
        modules.extend(shown.addresses().map(|at| symbols.module(at)));
        sink.write(&match args.format {
            Format::Ndjson => shown.json(),
            Format::Text => {
                let between = if index > 0 { "\n" } else { "" };
                output::fit(between.to_owned() + &text::text(&shown, args.path), width)
            }
        })?;
    }
    lines.note(modules);
    note(&trails, &taken, &outcome, failing);
    Ok(outcome.exit_status())
}

/// Shown even if nothing was lost: that is worth knowing, too.
fn note(trails: &trail::Trails, taken: &Taken, outcome: &Outcome, failing: Failing) {
    let rows = &outcome.report.rows;
    let calls: u64 = rows.iter().map(|row| row.calls).sum();
    let endless: u64 = rows.iter().map(|row| row.no_return).sum();
    let failed = failing.number(trails.failed.len());
    let mut text = format!(
        "{calls} calls, {failed}; records lost {}, calls missed {}",
        taken.lost(),
        outcome.report.missed()
    );
    let unknown = calls.saturating_sub(endless + trails.whole + taken.unwanted);
    if unknown > 0 {
        let of_which = match (taken.lost(), taken.refused) {
            (0, 0) => "of which not all is known",
            (0, _) => "of which records came beyond --limit",
            (_, 0) => "of which records were lost: name fewer system calls, or processes",
            _ => {
                "of which records were lost, or came beyond --limit: name fewer system calls, or \
                 processes"
            }
        };
        text += &format!("; {unknown} calls are not looked at, {of_which}");
    }
    if taken.refused > 0 {
        text += &format!("; {} records beyond --limit are not kept", taken.refused);
    }
    output::note(&(text + &taken.waits.text()));
}

#[cfg(test)]
mod tests;
