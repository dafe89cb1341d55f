// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl trace`: which functions system calls enter, in their order.

mod calls;
mod chrome;
mod clocks;
pub mod events;
mod folded;
mod form;
mod losses;
mod names;
mod ndjson;
mod out;
mod perfetto;
mod prototypes;
mod spans;
mod text;
mod threads;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jifl_sys::abi::{FLAG_CLOCK, FLAG_VALUES, Kind, Start};

use self::calls::{Call, Entered};
use self::chrome::Chrome;
use self::folded::Folded;
use self::form::{Form, Shown, View};
use self::losses::Losses;
use self::names::Names;
use self::ndjson::Ndjson;
use self::out::Out;
use self::perfetto::Perfetto;
use self::prototypes::Prototypes;
use self::text::Text;
use crate::exit::Failure;
use crate::output::Sink;
use crate::records::WaitArgs;
use crate::scope::Scope;
use crate::symbols::Symbols;
use crate::syscalls::Table;
use crate::{device, duration, output, records, session, target};

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each call and each function, indented
    Text,
    /// A JSON object in a line for each call
    Ndjson,
    /// A line for each stack of functions, with how often its last was entered, or with --durations
    /// its own nanoseconds: for flame graphs
    Folded,
    /// Chrome's trace events, JSON, with --durations: for chrome://tracing and ui.perfetto.dev
    Chrome,
    /// Perfetto's own, binary, with --durations: for ui.perfetto.dev
    Perfetto,
}

/// Arguments of `jifl trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C; then the calls are written, in
the order of their ends. With CMD the exit status is CMD's. Functions that the compiler
has inlined are part of their callers; what runs natively is not seen (`jifl status`).

Examples:
  jifl trace sys:openat -- cat /etc/hostname
  jifl trace 'sys:*' -D 3 -n nginx --for 1s -o calls.txt
  jifl trace -A sys:lseek -- tail -n 1 /etc/passwd
  jifl trace -d sys:openat --threshold 10us -- ls
  jifl trace 'sys:*' --longer 10us -- ls
  jifl trace 'sys:*' -f folded -o stacks.txt -- ls
  jifl trace -A 'sys:*' -f perfetto -o ls.pftrace -- ls")]
pub struct TraceArgs {
    /// System calls: sys:openat, sys:*at, sys:*
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// Show what functions get and return, by the kernel's BTF
    #[arg(short = 'A', long)]
    args: bool,
    /// Show how long functions take, too
    #[arg(short, long)]
    durations: bool,
    /// Show only functions, and calls, that took at least so long, such as 10us; with --durations
    #[arg(long, value_parser = duration::parse, value_name = "TIME")]
    threshold: Option<Duration>,
    /// Show functions down to this depth only
    #[arg(short = 'D', long, value_name = "DEPTH")]
    depth: Option<u32>,
    /// Show only calls that took longer, such as 10us, and those that did not end
    #[arg(long, value_parser = duration::parse, value_name = "TIME")]
    longer: Option<Duration>,
    /// Keep this many records, 8 bytes each; what comes later is lost
    #[arg(long, value_name = "N", default_value_t = 1 << 24)]
    limit: usize,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    scope: Scope,
}

/// Runs the command; the result is the exit status.
pub fn run(args: TraceArgs) -> Result<u8, Failure> {
    let table = Table::all();
    let mut start = Start {
        kind: Kind::Trace as u32,
        nrs: session::bits(&target::select(&args.targets, &table)?),
        flags: args.wait.flag(),
        ..Start::default()
    };
    args.scope.check()?;
    let sink = args.sink()?;
    let door = device::open()?;
    let prototypes = args.args.then(prototypes).flatten();
    if prototypes.is_some() {
        start.flags |= FLAG_VALUES;
    }
    if args.timed() {
        start.flags |= FLAG_CLOCK;
    }
    let (taken, outcome) = records::observe(&args.scope, &door, start, &table, args.limit)?;
    let symbols = Symbols::of_kernel();
    if symbols.is_empty() {
        output::note(
            "jifl: /proc/kallsyms shows no addresses here, so functions have no names: be root, and see kernel.kptr_restrict",
        );
    }
    let (pieces, stray) = records::pieces(taken.each());
    let losses = Losses::of(&taken, stray, &outcome);
    let view = View {
        table: &table,
        names: Names::new(&symbols, prototypes.as_ref()),
        timed: args.timed(),
    };
    let mut out = Out::open(args.form(), sink)?;
    calls::each(&taken, &pieces, |call| match args.shown(call) {
        Some(shown) => out.call(&shown, &view),
        None => Ok(()),
    })?;
    out.close(&view, &losses)?;
    output::note(&losses.text());
    Ok(outcome.exit_status())
}

/// What is needed for --args; it is said if there is none.
fn prototypes() -> Option<Prototypes> {
    match Prototypes::of_kernel() {
        Ok(found) => Some(found),
        Err(error) => {
            output::note(&format!(
                "jifl: no arguments and results of functions: the kernel tells no types ({error}); it needs CONFIG_DEBUG_INFO_BTF"
            ));
            None
        }
    }
}

impl TraceArgs {
    /// Are functions' times asked for?
    fn timed(&self) -> bool {
        let viewed = matches!(self.format, Format::Chrome | Format::Perfetto);
        self.durations || self.threshold.is_some() || viewed
    }

    /// What no terminal can show is not written to one.
    fn sink(&self) -> Result<Sink, Failure> {
        let sink = Sink::open(self.output.as_deref())?;
        if self.format == Format::Perfetto && sink.is_terminal() {
            return Err(Failure::usage(
                "a Perfetto trace is binary and not for a terminal: write it to a file with -o FILE",
            ));
        }
        Ok(sink)
    }

    fn form(&self) -> Box<dyn Form> {
        match self.format {
            Format::Text => Box::new(Text),
            Format::Ndjson => Box::new(Ndjson),
            Format::Folded => Box::new(Folded::new(self.timed())),
            Format::Chrome => Box::new(Chrome::default()),
            Format::Perfetto => Box::new(Perfetto::default()),
        }
    }

    /// A call is shown as a whole or not at all; those that did not end always.
    fn shown<'a>(&self, call: &'a Call) -> Option<Shown<'a>> {
        let took = call.duration().map(Duration::from_nanos);
        let longer = self
            .longer
            .is_none_or(|longer| took.is_none_or(|took| took > longer));
        let functions = call.functions.iter();
        (longer && self.shows_time(call.duration())).then(|| Shown {
            call,
            functions: functions
                .filter(|entered| self.shows_function(entered))
                .collect(),
        })
    }

    fn shows_function(&self, entered: &Entered) -> bool {
        self.depth.is_none_or(|limit| entered.depth < limit) && self.shows_time(entered.duration)
    }

    fn shows_time(&self, nanoseconds: Option<u64>) -> bool {
        let took = nanoseconds.map(Duration::from_nanos);
        self.threshold
            .is_none_or(|least| took.is_none_or(|took| took >= least))
    }
}

#[cfg(test)]
mod tests;
