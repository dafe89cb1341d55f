// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl trace`: which functions system calls enter, in their order.

mod choice;
mod chrome;
mod folded;
mod form;
mod instant;
mod kept;
mod names;
mod ndjson;
mod out;
pub(in crate::cmd) mod perfetto;
mod spans;
mod text;

use std::path::PathBuf;

use clap::Args;
use jifl_sys::abi::{FLAG_CLOCK, FLAG_VALUES, Kind};

pub use self::choice::{Choice, Format};
use self::form::View;
pub use self::form::{Described, Details};
pub use self::instant::{Instant, Track, Viewer};
use self::names::Names;
use self::out::Out;
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::kernel::prototypes::Prototypes;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::calls;
use crate::session::calls::losses::Losses;
use crate::session::calls::threads::Threads;
use crate::session::device;
use crate::session::measure::Session;
use crate::session::recording::{self, Destination, Keeper, Kept, Recording};
use crate::session::report;
use crate::session::ring;
use crate::session::ring::{Piece, Taken, WaitArgs};
use crate::session::scope::Scope;
use crate::session::targets;
use crate::session::types::{self, Wanted};
use crate::show::output;

/// Arguments of `jifl trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER, or a function of the kernel: fn:NAME, fn:GLOB,
fn:NAME@MODULE, or mod:NAME for all functions of a module. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. Then the calls are written, in the
order of their ends. With CMD the exit status is CMD's. Functions that the compiler has inlined
are part of their callers. Code that runs natively is not seen (`jifl status`).

Examples:
  jifl trace sys:openat -- cat /etc/hostname
  jifl trace 'sys:*' -D 3 -n nginx --for 1s -o calls.txt
  jifl trace -A sys:lseek -- tail -n 1 /etc/passwd
  jifl trace -d sys:openat --threshold 10us -- ls
  jifl trace 'sys:*' --longer 10us -- ls
  jifl trace 'sys:*' -f folded -o stacks.txt -- ls
  jifl trace -A 'sys:*' -f perfetto -o ls.pftrace -- ls
  jifl trace -A -d 'sys:*' --record ls.jifl -o /dev/null -- ls")]
pub struct TraceArgs {
    #[arg(required = true, value_name = "TARGET", help = targets::HELP)]
    targets: Vec<String>,
    /// Show what functions get and return, by the kernel's BTF
    #[arg(short = 'A', long)]
    args: bool,
    /// Show how long functions take, too
    #[arg(short, long)]
    durations: bool,
    #[command(flatten)]
    choice: Choice,
    /// Keep this many records, 8 bytes each; later records are lost
    #[arg(long, value_name = "N", default_value_t = 1 << 24)]
    limit: usize,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also keep all of it in FILE, for `jifl report`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    scope: Scope,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &TraceArgs) -> Result<u8, Failure> {
    let table = Table::all();
    let targets = targets::select_here(&args.targets, &table, args.scope.yes)?;
    let mut session = Session::of(Kind::Trace, args.wait.flag(), targets);
    args.scope.check()?;
    let sink = args.format.sink(args.output.as_deref())?;
    let record = args.record.as_deref().map(Destination::open).transpose()?;
    let door = device::open()?;
    let prototypes = args.args.then(prototypes).flatten();
    types::set(&mut session, Wanted::AnyResult)?;
    if prototypes.is_some() {
        session.start.flags |= FLAG_VALUES;
    }
    if args.timed() {
        session.start.flags |= FLAG_CLOCK;
    }
    let (taken, outcome) = ring::observe(&args.scope, &door, session, &table, args.limit)?;
    let moment = Moment::now();
    let symbols = Symbols::of_kernel();
    if symbols.is_empty() {
        output::note(
            "jifl: /proc/kallsyms shows no addresses here, so functions have no names: be root, \
             and see kernel.kptr_restrict",
        );
    }
    let (pieces, stray) = taken.pieces();
    let losses = Losses::of(&taken, stray, &outcome);
    let table = taken.table(&table);
    let view = View {
        table: &table,
        names: Names::new(&symbols, prototypes.as_ref()),
        timed: args.timed(),
    };
    let form = args.format.form(view.timed, moment, Threads::default());
    let shown = Out::open(form, sink).and_then(|mut out| {
        calls::each(&taken, &pieces, |call| {
            args.choice
                .shown(call)
                .map_or(Ok(()), |shown| out.call(&shown, &view))
        })?;
        out.close(&view, &losses)
    });
    // The recording is kept even if the output failed.
    recording::keep_in(record, || {
        let (kept, functions) = keep(&taken, &pieces, &view, moment, &losses);
        Recording::of_trace(&outcome.report, &symbols, kept, &functions)
    })?;
    shown?;
    output::note(&losses.text());
    output::note_lines(&report::adopted(&outcome.report));
    Ok(outcome.exit_status())
}

/// The calls for a recording, and the addresses of functions, by their numbers there.
fn keep(
    taken: &Taken,
    pieces: &[Piece<crate::session::calls::events::Event>],
    view: &View<'_>,
    moment: Moment,
    losses: &Losses,
) -> (Kept, Vec<u64>) {
    let mut keeper = Keeper::default();
    let Ok(()) = calls::each(taken, pieces, |call| {
        keeper.add(call);
        Ok::<_, std::convert::Infallible>(())
    });
    let prototype = |address| Some((*view.names.prototype_at(address)?).clone());
    let prototype: Option<&dyn Fn(u64) -> _> = match view.names.have_values() {
        true => Some(&prototype),
        false => None,
    };
    keeper.keep(
        view.table.others().clone(),
        view.timed,
        prototype,
        moment,
        losses.clone(),
    )
}

/// The prototypes for --args. Tells the user if there are none.
fn prototypes() -> Option<Prototypes> {
    match Prototypes::of_kernel() {
        Ok(found) => Some(found),
        Err(error) => {
            output::note(&format!(
                "jifl: no arguments and results of functions: the kernel tells no types ({error}); \
                 it needs CONFIG_DEBUG_INFO_BTF"
            ));
            None
        }
    }
}

impl TraceArgs {
    /// True if times of functions are asked for.
    fn timed(&self) -> bool {
        self.durations || self.choice.needs_times() || self.format.needs_times()
    }
}

#[cfg(test)]
mod tests;
