// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often each basic block was executed: what `cover`, `prof`, `branch`, `record` and `report`
//! share.

mod branches;
pub mod code;
mod functions;
mod pieces;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use jifl_sys::abi::{Count, Counts, FLAG_BRANCHES, Kind, Start};
use jifl_sys::device::{Door, Request};
use serde::Serialize;

pub use self::branches::{branches, edges, not_taken, site};
pub use self::functions::{Function, functions};
pub use self::pieces::{Piece, executed_at, pieces};
use crate::exit::{DONE, Failure, LIMIT};
use crate::images::Images;
use crate::output::{self, Extent, Format};
use crate::recording::{self, Destination, Recording};
use crate::report::{self, Report};
use crate::scope::{self, Scope};
use crate::symbols::Symbols;
use crate::syscalls::Table;
use crate::{device, session, target};

/// Counts that one request may take.
const ROOM: usize = 1 << 14;

/// How a profile is shown.
#[derive(Debug, Args)]
pub struct Show {
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub format: Format,
    #[command(flatten)]
    pub extent: Extent,
}

/// Arguments that the three have in common.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// System calls: sys:openat, sys:*at, sys:*
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    #[command(flatten)]
    pub show: Show,
    /// Also keep all that was counted in FILE, for `jifl report`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    scope: Scope,
}

/// Makes the text of a profile, and writes what files were wanted beside it.
pub type View<'a> = Box<dyn FnOnce(&Profile, &Show) -> Result<String, Failure> + 'a>;

impl Show {
    /// Of `all` lines, as many as are wanted.
    pub fn limited<'a, T>(&self, all: &'a [T]) -> &'a [T] {
        let lines = self.extent.lines(self.format == Format::Text);
        &all[..lines.min(all.len())]
    }

    /// Columns that there are for a line, where it goes to a terminal.
    pub fn width(&self) -> Option<usize> {
        self.extent.width()
    }
}

impl ProfileArgs {
    fn can_be_compared(&self) -> Result<(), Failure> {
        if self.targets.len() < 2 {
            return Err(Failure::usage(
                "2 targets at least are needed, to be compared",
            ));
        }
        if self.record.is_some() {
            return Err(Failure::usage(
                "--record does not go with --per-call: a recording is of one session, which `jifl record` makes",
            ));
        }
        Ok(())
    }
}

/// What a session has counted.
pub struct Profile {
    /// In the order of their addresses; those that never ran, too.
    pub blocks: Vec<Count>,
    /// Copies of blocks made without a counter.
    pub refused: u64,
    /// How the session went.
    pub report: Report,
    /// Names of addresses.
    pub symbols: Rc<Symbols>,
    /// What code they are of.
    pub images: Images,
}

/// What every JSON object of the three ends with.
#[derive(Serialize)]
pub struct Summary {
    calls: u64,
    missed: u64,
    without_counter: u64,
    cut_short: bool,
    duration_ns: u64,
}

/// Runs a session, and hands what it has counted to `view`, whose text is written; the
/// result is the exit status.
///
/// # Errors
/// The session is refused, the command cannot be run, or nothing can be written.
pub fn run(args: &ProfileArgs, flags: u32, view: View<'_>) -> Result<u8, Failure> {
    let table = Table::all();
    let flags = flags
        | if args.record.is_some() {
            FLAG_BRANCHES
        } else {
            0
        };
    let start = start(&args.targets, flags, &table)?;
    args.scope.check()?;
    // Before anything is started: a report nobody can read is none.
    let mut sink = args.show.extent.sink()?;
    let record = args.record.as_deref().map(Destination::open).transpose()?;
    let (profile, status) = observe(&args.scope, start, &table, Symbols::of_kernel)?;
    let kept = recording::keep_in(record, || Recording::of_profile(&profile));
    sink.write(&view(&profile, &args.show)?)?;
    kept?;
    Ok(status)
}

/// Runs a session for each of the targets, all at the same time, and hands what each has counted
/// to `view`, with the target; otherwise as `run`.
///
/// # Errors
/// As of `run`; there is one target only, or a recording is wanted, which is of one session.
pub fn run_each(
    args: &ProfileArgs,
    flags: u32,
    view: impl FnOnce(&[(&str, Profile)], &Show) -> Result<String, Failure>,
) -> Result<u8, Failure> {
    args.can_be_compared()?;
    let table = Table::all();
    let starts = args
        .targets
        .iter()
        .map(|target| start(std::slice::from_ref(target), flags, &table));
    let starts = starts.collect::<Result<Vec<Start>, Failure>>()?;
    args.scope.check()?;
    let mut sink = args.show.extent.sink()?;
    let doors = starts.iter().map(|_| device::open());
    let doors = doors.collect::<Result<Vec<_>, Failure>>()?;
    let (reports, status) = scope::observe_each(&args.scope, &doors, starts, &table)?;
    let cut_short = reports.iter().any(|report| report.cut_short);
    let symbols = Rc::new(Symbols::of_kernel());
    let mut profiles = Vec::new();
    for ((target, door), report) in args.targets.iter().zip(&doors).zip(reports) {
        profiles.push((
            target.as_str(),
            Profile::of(door, report, || symbols.clone())?,
        ));
    }
    sink.write(&view(&profiles, &args.show)?)?;
    Ok(status.unwrap_or(if cut_short { LIMIT } else { DONE }))
}

/// Runs a session for its recording alone.
///
/// # Errors
/// Likewise.
pub fn record(targets: &[String], scope: &Scope, path: &Path) -> Result<u8, Failure> {
    let table = Table::all();
    let start = start(targets, FLAG_BRANCHES, &table)?;
    scope.check()?;
    let destination = Destination::open(path)?;
    let (profile, status) = observe(scope, start, &table, Symbols::of_kernel)?;
    recording::keep(destination, &Recording::of_profile(&profile))?;
    Ok(status)
}

/// What a session is started with.
///
/// # Errors
/// There is no such target.
pub fn start(targets: &[String], flags: u32, table: &Table) -> Result<Start, Failure> {
    Ok(Start {
        kind: Kind::Profile as u32,
        flags,
        nrs: session::bits(&target::select(targets, table)?),
        ..Start::default()
    })
}

/// Runs a session, and says what is to be known beside what it has counted; the other result is
/// the exit status. Names are read when it is over: modules may have come.
///
/// # Errors
/// The session is refused, or the command cannot be run.
pub fn observe(
    scope: &Scope,
    start: Start,
    table: &Table,
    symbols: impl FnOnce() -> Symbols,
) -> Result<(Profile, u8), Failure> {
    let door = device::open()?;
    let (outcome, ()) = scope::observe(scope, &door, start, table, None, |_| ())?;
    let status = outcome.exit_status();
    let profile = Profile::of(&door, outcome.report, || Rc::new(symbols()))?;
    Ok((profile, status))
}

/// All counts of a door's session, in the order of their addresses, and how many blocks
/// have none.
///
/// # Errors
/// The module does not give them.
fn read(door: &impl Door) -> Result<(Vec<Count>, u64), Failure> {
    let mut blocks: Vec<Count> = Vec::new();
    let mut room = vec![Count::default(); ROOM];
    loop {
        let mut counts = Counts::from(blocks.len() as u32);
        door.call(Request::Counts(&mut counts, &mut room))
            .map_err(|error| device::failed("reading the counts", &error))?;
        blocks.extend_from_slice(&room[..counts.n as usize]);
        if (counts.n as usize) < room.len() {
            blocks.sort_by_key(|block| (block.orig, block.src_len));
            return Ok((blocks, counts.refused));
        }
    }
}

impl Profile {
    /// What a door's session has counted.
    fn of(
        door: &impl Door,
        report: Report,
        symbols: impl FnOnce() -> Rc<Symbols>,
    ) -> Result<Profile, Failure> {
        let (blocks, refused) = read(door)?;
        let symbols = symbols();
        let profile = Profile {
            blocks,
            refused,
            report,
            images: Images::of_kernel(&symbols),
            symbols,
        };
        profile.note();
        Ok(profile)
    }

    /// What is to be known beside the data.
    pub fn note(&self) {
        if self.report.cut_short {
            output::note(
                "jifl: the session was ended from outside (`jifl detach`); this is what it had counted",
            );
        }
        if self.report.rows.is_empty() {
            output::note("jifl: none of the targets was called by what the filters select");
        }
        if self.refused > 0 {
            output::note(&format!(
                "jifl: {} blocks found no counter and are not in this: load the module with \
                 a larger profile_blocks",
                self.refused
            ));
        }
    }

    /// Those that ran.
    pub fn executed(&self) -> impl Iterator<Item = &Count> {
        self.blocks.iter().filter(|block| block.executed > 0)
    }

    /// Instructions executed in all of them.
    pub fn instructions(&self) -> u64 {
        self.blocks.iter().map(instructions).sum()
    }

    /// `name+0x12`, or the address.
    pub fn name(&self, address: u64) -> String {
        match self.symbols.function(address) {
            Some(place) => place.shown(),
            None => format!("{address:#x}"),
        }
    }

    /// The modules that blocks are of, `None` standing for the kernel, each once.
    pub fn modules<'a>(
        &self,
        blocks: impl IntoIterator<Item = &'a Count>,
    ) -> BTreeSet<Option<&str>> {
        let modules = blocks
            .into_iter()
            .map(|block| self.symbols.module(block.orig));
        modules.collect()
    }

    /// For JSON.
    pub fn summary(&self) -> Summary {
        Summary {
            calls: self.report.rows.iter().map(|row| row.calls).sum(),
            missed: self.report.missed(),
            without_counter: self.refused,
            cut_short: self.report.cut_short,
            duration_ns: self.report.duration_ns,
        }
    }

    /// The lines that a text ends with: what it cost and what it missed.
    pub fn cost(&self) -> String {
        let mut text = report::cost(&self.report);
        let _ = writeln!(
            text,
            "# blocks without a counter {}",
            report::grouped(self.refused)
        );
        text
    }
}

/// Executed in a block.
pub fn instructions(block: &Count) -> u64 {
    block.executed * u64::from(block.insns)
}

/// `12.3%`; nothing of nothing is none.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.1}%", part as f64 / whole as f64 * 100.0)
}

/// Any object as one line.
pub fn json(object: &impl Serialize) -> String {
    serde_json::to_string(object).expect("plain structures always serialize") + "\n"
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::fake::Fake;
    use jifl_sys::abi::NO_BRANCH;

    /// Where the functions of `sample` begin.
    pub const AT: u64 = 0xffff_ffff_8100_0000;

    /// A block without a branch.
    pub fn block(offset: u64, src_len: u32, insns: u32, executed: u64) -> Count {
        Count {
            orig: AT + offset,
            executed,
            src_len,
            insns,
            branch: NO_BRANCH,
            ..Count::default()
        }
    }

    /// With one at its end.
    pub fn branch(offset: u64, to: u64, executed: u64, taken: u64) -> Count {
        Count {
            taken,
            target: AT + to,
            branch: 6,
            ..block(offset, 8, 3, executed)
        }
    }

    /// Two functions and a cold part, called ten times.
    pub fn sample() -> Profile {
        let fake = Fake::default();
        fake.state().counts = (
            vec![
                branch(0x100, 0x120, 40, 39),
                block(0x108, 4, 1, 1),
                branch(0x00, 0x40, 10, 10),
                block(0x08, 16, 4, 0),
                block(0x40, 8, 2, 10),
                // A jump into the one before.
                block(0x44, 4, 1, 5),
            ],
            2,
        );
        let (blocks, refused) = read(&fake).unwrap();
        Profile {
            blocks,
            refused,
            report: Report {
                kind: Kind::Profile,
                rows: Vec::new(),
                absent: Vec::new(),
                cut_short: false,
                cost: report::Cost::default(),
                duration_ns: 5,
                drain_ns: 0,
                draining: 0,
            },
            symbols: Rc::new(Symbols::parse(
                "ffffffff81000000 T outer\nffffffff81000050 t between\nffffffff81000100 t inner\t[nfs]\n\
                 ffffffff81000120 t outer.cold\n",
            )),
            images: Images::default(),
        }
    }

    #[test]
    fn counts_are_read_to_the_last_in_order_of_addresses() {
        let fake = Fake::default();
        let n = 2 * ROOM + 1;
        fake.state().counts = (
            (0..n as u64).rev().map(|at| block(at, 1, 1, at)).collect(),
            0,
        );
        let (blocks, _) = read(&fake).unwrap();
        assert_eq!(blocks.len(), n);
        assert!(blocks.is_sorted_by_key(|block| block.orig));
    }

    #[test]
    fn instructions_are_those_of_blocks_as_often_as_they_ran() {
        assert_eq!(sample().instructions(), 120 + 1 + 30 + 20 + 5);
        assert_eq!(sample().executed().count(), 5);
        assert!(sample().cost().ends_with("# blocks without a counter 2\n"));
    }

    #[test]
    fn shares_are_rounded() {
        assert_eq!(percent(1, 3), "33.3%");
        assert_eq!(percent(0, 0), "-");
    }
}
