// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl count`: what system calls execute.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jifl_sys::abi::{FLAG_REPEATS, Kind, Start};

use crate::exit::Failure;
use crate::report::{Format, Report};
use crate::scope::{self, Scope};
use crate::syscalls::Table;
use crate::{device, output, session, target};

/// What is counted.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// Instructions executed
    Insn,
    /// Basic blocks executed
    Block,
    /// The calls alone
    Call,
    /// Nothing: what the code cache itself costs
    None,
}

impl What {
    fn kind(self) -> Kind {
        match self {
            What::Insn => Kind::Insn,
            What::Block => Kind::Block,
            What::Call => Kind::Call,
            What::None => Kind::None,
        }
    }
}

/// Arguments of `jifl count`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. The report goes to stdout
(after CMD's own output) or to FILE. With CMD the exit status is CMD's.

Examples:
  jifl count insn sys:clone --for 10s
  jifl count insn 'sys:*' -f json -o counts.json -- make
  jifl count block sys:read sys:write -p 1234")]
pub struct CountArgs {
    /// What to count
    #[arg(value_enum)]
    what: What,
    /// System calls: sys:openat, sys:*at, sys:*
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// With insn: count a repeated string instruction once more for every
    /// repetition, as processor clocks that tick per iteration see it
    #[arg(long)]
    repeats: bool,
    /// How the report is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write the report to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    scope: Scope,
}

/// Runs the command; the result is the exit status.
pub fn run(args: CountArgs) -> Result<u8, Failure> {
    let table = Table::all();
    let numbers = target::select(&args.targets, &table)?;
    let start = Start {
        kind: args.what.kind() as u32,
        flags: if args.repeats { FLAG_REPEATS } else { 0 },
        nrs: session::bits(&numbers),
        ..Start::default()
    };
    if args.repeats && !matches!(args.what, What::Insn) {
        return Err(Failure::usage("--repeats goes with `count insn` only"));
    }
    args.scope.check()?;
    // Before anything is started: a report nobody can read is none.
    let mut sink = output::Sink::open(args.output.as_deref())?;
    let door = device::open()?;
    let (outcome, ()) = scope::observe(&args.scope, &door, start, &table, None, |_| ())?;
    note_absent(&outcome.report, &args.targets, &table);
    write_report(&outcome.report, args.format, &mut sink)?;
    Ok(outcome.exit_status())
}

/// Names the calls that were asked for one by one and are not in this kernel.
fn note_absent(report: &Report, targets: &[String], table: &Table) {
    for nr in &report.absent {
        let name = format!("sys:{}", table.name(*nr));
        if targets.contains(&name) || targets.contains(&format!("sys:{nr}")) {
            output::note(&format!("jifl: this kernel has no {name}"));
        }
    }
}

fn write_report(report: &Report, format: Format, sink: &mut output::Sink) -> Result<(), Failure> {
    if report.cut_short {
        output::note(
            "jifl: the session was ended from outside (`jifl detach`); this is what it had counted",
        );
    }
    if report.rows.is_empty() && report.kind != Kind::None {
        output::note("jifl: none of the targets was called by what the filters select");
    }
    sink.write(&report.render(format))?;
    if let Some(notes) = report.notes(format) {
        output::note(notes.trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    #[test]
    fn the_documented_lines_parse() {
        for line in [
            "insn sys:clone",
            "block sys:* -p 1 --for 5s",
            "insn sys:read sys:write -n bash --cgroup system.slice -f json -o x",
            "call sys:read -- make -j2",
            "none sys:read --for 100ms -f csv",
        ] {
            assert!(parse::<CountArgs>(line).is_ok(), "{line}");
        }
        for line in [
            "",
            "insn",
            "bogus sys:read",
            "insn sys:read --for 5x",
            "insn sys:read -p 1 -- true",
        ] {
            assert!(parse::<CountArgs>(line).is_err(), "{line}");
        }
    }
}
