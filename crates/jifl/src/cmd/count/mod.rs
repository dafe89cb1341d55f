// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl count`: what system calls and functions execute.

mod from_blocks;
mod keys;
mod sheet;
mod values;
mod what;

use std::path::PathBuf;

use clap::Args;
use jifl_sys::abi::{FILTER_LEVELS, FLAG_REPEATS, Kind};
use jifl_sys::device::Device;

use self::sheet::Form;
pub use self::what::Context;
use self::what::{By, Plan, Value, What};
use crate::base::exit::Failure;
use crate::kernel::memory::Kcore;
use crate::kernel::pattern::Pattern;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::blocks;
use crate::session::device;
use crate::session::measure::Session;
use crate::session::recording::{self, Destination, Recording};
use crate::session::report::{self, Format, Report};
use crate::session::scope::{self, Outcome, Scope};
use crate::session::targets::{self, Selected};
use crate::session::types;
use crate::show::output::{self, Extent, Sink};

/// Arguments of `jifl count`.
#[derive(Debug, Args)]
#[command(after_help = "\
WHAT is counted, inside targets:
  insn           instructions executed
  block          basic blocks executed
  call           the calls alone
  none           nothing: what the code cache itself costs
  branch         conditional branches executed, taken and not taken
  load, store    memory that instructions read, or write
  opcode         instructions by mnemonic
  func           calls of each of the kernel's functions
  hist:VALUE     calls by VALUE: duration, retval, ARG0 to ARG5, or arg.NAME of functions

TARGET is sys:NAME, sys:GLOB or sys:NUMBER, or a function of the kernel: fn:NAME, fn:GLOB,
fn:NAME@MODULE, or mod:NAME for all functions of a module.
Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. The report goes to stdout
(after CMD's own output) or to FILE. With CMD the exit status is CMD's.

Examples:
  jifl count insn sys:clone --for 10s
  jifl count insn 'sys:*' -f json -o counts.json -- make
  jifl count insn 'sys:*' --by comm,cpu -- make
  jifl count call 'fn:vfs_*' fn:do_filp_open -- ls
  jifl count insn fn:net_rx_action --context softirq --for 10s
  jifl count call 'fn:*' --only --yes -- ls
  jifl count opcode sys:openat -- cat /etc/hostname
  jifl count hist:duration sys:read sys:write -p 1234")]
pub struct CountArgs {
    /// What to count
    what: What,
    #[arg(required = true, value_name = "TARGET", help = targets::HELP)]
    targets: Vec<String>,
    /// Count by this key instead of by target; with several keys, by each combination
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KEY")]
    by: Vec<By>,
    /// Only calls of functions in these contexts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CONTEXT")]
    context: Vec<Context>,
    /// With insn: count a repeated string instruction once more for every repetition, like
    /// processor clocks that tick for each iteration
    #[arg(long)]
    repeats: bool,
    /// How the report is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    extent: Extent,
    /// Also keep all that was counted in FILE, for `jifl report`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    scope: Scope,
}

impl CountArgs {
    /// Are functions among the targets?
    fn has_functions(&self) -> bool {
        let mut words = self.targets.iter();
        words.any(|word| Pattern::parse(word).is_some())
    }

    /// The contexts that were asked for, a bit each; 0: all.
    fn levels(&self) -> u32 {
        (self.context.iter()).fold(0, |levels, context| levels | context.bit())
    }

    /// Refuses contexts in which nothing can be counted.
    fn check_contexts(&self, plan: &Plan) -> Result<(), Failure> {
        let refused = |why: &str| Err(Failure::usage(why.to_owned()));
        if self.context.is_empty() {
            return Ok(());
        }
        if !matches!(plan, Plan::Calls(_) | Plan::Keys(..)) {
            return refused(
                "--context goes with `count insn`, `block`, `call` and `none`, and not with \
                 --by func",
            );
        }
        if self.levels() & Context::Task.bit() != 0 {
            return Ok(());
        }
        let mut words = self.targets.iter();
        if !words.all(|word| Pattern::parse(word).is_some()) {
            return refused(
                "system calls are made by tasks: add task to --context, or leave them out",
            );
        }
        if self.scope.selects_tasks() {
            return refused(
                "a call in a softirq or an interrupt is no task's, so a command, -p, -t, -n and \
                 --cgroup leave all of them out: add task to --context, or use --for",
            );
        }
        if self.scope.is_under_system_calls_alone() {
            return refused(
                "a call in a softirq or an interrupt is under no system call: add task to \
                 --context, or give --under a function",
            );
        }
        Ok(())
    }

    /// The targets of a session that counts call by call.
    fn select(&self, table: &Table) -> Result<Selected, Failure> {
        targets::select_here(&self.targets, table, self.scope.yes)
    }

    fn form(&self) -> Form {
        Form {
            format: self.format,
            lines: self.extent.lines(self.format == Format::Text),
            width: self.extent.width(),
        }
    }
}

/// Runs the command; the result is the exit status.
pub fn run(args: CountArgs) -> Result<u8, Failure> {
    let plan = what::plan(args.what, &args.by)?;
    args.check_contexts(&plan)?;
    if args.repeats && (args.what != What::Insn || plan == Plan::Blocks(true)) {
        return Err(Failure::usage(
            "--repeats goes with `count insn` only, and not with --by func",
        ));
    }
    if args.record.is_some() && !matches!(plan, Plan::Calls(_)) {
        return Err(Failure::usage(
            "--record goes with `count insn`, `block`, `call` and `none`, and not with --by: \
             `jifl record` keeps what blocks have executed",
        ));
    }
    let shows_all = match plan {
        Plan::Calls(_) => !args.has_functions(),
        Plan::Values(_) => true,
        Plan::Keys(..) | Plan::Blocks(_) => false,
    };
    if args.extent.limit.is_some() && shows_all {
        return Err(Failure::usage(
            "--limit goes with functions, --by, branch, load, store, opcode and func: otherwise \
             each system call is shown",
        ));
    }
    match &plan {
        Plan::Calls(kind) => run_calls(&args, *kind),
        Plan::Keys(kind, by, flags) => run_keys(&args, (*kind, by), *flags),
        Plan::Values(value) => run_values(&args, *value),
        Plan::Blocks(by_func) => run_blocks(&args, *by_func),
    }
}

/// Runs a session of this kind, which counts call by call.
fn observe(args: &CountArgs, kind: Kind, flags: u32) -> Result<(Outcome, Device, Sink), Failure> {
    let table = Table::all();
    let flags = flags | if args.repeats { FLAG_REPEATS } else { 0 };
    let mut session = Session::of(kind, flags, args.select(&table)?);
    if !args.context.is_empty() {
        session.start.filters |= FILTER_LEVELS;
        session.start.levels = args.levels();
    }
    if let What::Hist(value) = args.what
        && let Some(wanted) = value.wanted()
    {
        types::set(&mut session, wanted)?;
    }
    args.scope.check()?;
    // Opened before anything starts: if the report cannot be written, nothing is measured.
    let sink = args.extent.sink()?;
    let door = device::open()?;
    let (outcome, ()) = scope::observe(&args.scope, &door, session, &table, None, |_| ())?;
    note(&outcome.report, args, &table, kind);
    Ok((outcome, door, sink))
}

fn run_calls(args: &CountArgs, kind: Kind) -> Result<u8, Failure> {
    let record = args.record.as_deref().map(Destination::open).transpose()?;
    let (outcome, _, mut sink) = observe(args, kind, 0)?;
    let kept = recording::keep_in(record, || Recording::of_report(&outcome.report));
    let Form { lines, width, .. } = args.form();
    let text = outcome.report.render(args.format, lines, width);
    let written = sink.write(&text);
    if let Some(notes) = outcome.report.notes(args.format) {
        output::note(notes.trim_end());
    }
    kept.and(written)?;
    Ok(outcome.exit_status())
}

fn run_keys(args: &CountArgs, (kind, by): (Kind, &[By]), flags: u32) -> Result<u8, Failure> {
    let (outcome, door, mut sink) = observe(args, kind, flags)?;
    let sheet = keys::sheet(&door, kind, by, &outcome.report)?;
    let calls = |other: &Vec<u64>| other.iter().step_by(2).sum::<u64>();
    if let Some(calls) = sheet.other.as_ref().map(calls).filter(|calls| *calls > 0) {
        output::note(&format!(
            "jifl: {calls} calls found no room for their key, and are counted together: load the \
             module with a larger count_keys"
        ));
    }
    let cost = report::cost(&outcome.report);
    sink.write(&sheet.render(args.form(), &outcome.report, &cost))?;
    note_cost(args.format, &cost);
    Ok(outcome.exit_status())
}

fn run_values(args: &CountArgs, value: Value) -> Result<u8, Failure> {
    let (outcome, _, mut sink) = observe(args, Kind::Call, value.flag())?;
    sink.write(&values::render(value, &outcome.report, args.form()))?;
    note_cost(args.format, &report::cost(&outcome.report));
    Ok(outcome.exit_status())
}

fn run_blocks(args: &CountArgs, by_func: bool) -> Result<u8, Failure> {
    let table = Table::all();
    let start = blocks::start(
        &args.targets,
        from_blocks::flags(args.what),
        &table,
        &args.scope,
    )?;
    args.scope.check()?;
    let mut sink = args.extent.sink()?;
    let mut kcore = from_blocks::needs_code(args.what)
        .then(Kcore::open)
        .transpose()?;
    // Only where needed: to read symbols takes longer than everything else.
    let symbols = || {
        if by_func {
            Symbols::of_kernel()
        } else {
            Symbols::default()
        }
    };
    let (profile, status) = blocks::observe(&args.scope, start, &table, symbols)?;
    let (sheet, dark) = from_blocks::sheet(args.what, by_func, &profile, kcore.as_mut());
    let cost = dark.text() + &profile.cost();
    sink.write(&sheet.render(args.form(), &profile.report, &cost))?;
    note_cost(args.format, &cost);
    Ok(status)
}

/// Notes for standard error, for which the columns have no place.
fn note_cost(format: Format, cost: &str) {
    if format == Format::Csv {
        output::note(cost.trim_end());
    }
}

/// Tells the user which calls, asked for one by one, this kernel lacks.
fn note_absent(report: &Report, targets: &[String], table: &Table) {
    for nr in &report.absent {
        let name = format!("sys:{}", table.name(*nr));
        if targets.contains(&name) || targets.contains(&format!("sys:{nr}")) {
            output::note(&format!("jifl: this kernel has no {name}"));
        }
    }
}

/// Notes beside the report.
fn note(report: &Report, args: &CountArgs, table: &Table, kind: Kind) {
    note_absent(report, &args.targets, table);
    report.note_cut();
    if report.rows.is_empty() && kind != Kind::None {
        output::note("jifl: no task that the filters select called any of the targets");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::{check, parse};

    #[test]
    fn the_documented_lines_parse() {
        check::<CountArgs>(
            &[
                "insn sys:clone",
                "block sys:* -p 1 --for 5s",
                "insn sys:read sys:write -n bash --cgroup system.slice -f json -o x",
                "call sys:read -- make -j2",
                "none sys:read --for 100ms -f csv",
                "insn sys:* --by comm,cpu -- make",
                "opcode sys:openat -- cat /etc/hostname",
                "load sys:* --by func --limit 5 -- ls",
                "hist:duration sys:read sys:write -p 1",
                "hist:ARG2 sys:read --for 1s",
                "call fn:vfs_* fn:do_filp_open -- ls",
                "insn fn:* --yes --limit 5 --for 1s",
                "call fn:kfree --by context --context softirq,irq --for 1s",
            ],
            &[
                "",
                "insn",
                "bogus sys:read",
                "hist:ARG6 sys:read",
                "insn sys:read --by thread",
                "call fn:kfree --context nmi",
                "insn sys:read --for 5x",
                "insn sys:read -p 1 -- true",
            ],
        );
    }

    #[test]
    fn contexts_in_which_nothing_is_counted_are_refused() {
        for (line, refused) in [
            ("call fn:kfree --context irq --for 1s", ""),
            ("call fn:kfree sys:read --context irq,task -p 1", ""),
            (
                "call fn:kfree sys:read --context irq --for 1s",
                "system calls",
            ),
            ("call fn:kfree --context softirq -n sh", "no task's"),
            ("insn fn:kfree --context softirq -- ls", "no task's"),
            (
                "call fn:kfree --context irq --under sys:read --for 1s",
                "under no system call",
            ),
            (
                "call fn:kfree --context irq --under sys:read --under fn:fput --for 1s",
                "",
            ),
            ("load sys:read --context task", "--context goes with"),
            ("hist:retval sys:read --context task", "--context goes with"),
        ] {
            let args: CountArgs = parse(line).unwrap();
            let plan = what::plan(args.what, &args.by).unwrap();
            let message = args
                .check_contexts(&plan)
                .err()
                .map(|failure| failure.message);
            let message = message.unwrap_or_default();
            assert_eq!(message.is_empty(), refused.is_empty(), "{line}: {message}");
            assert!(
                message.contains(refused) && !message.contains('\n'),
                "{message}"
            );
        }
    }
}
