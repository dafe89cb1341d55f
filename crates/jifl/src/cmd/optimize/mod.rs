// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl optimize`: a better order of the kernel's hot code, for what runs now.

mod graph;
mod lay;
mod plan;
mod report;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use jifl_sys::abi::{Count, FLAG_BRANCHES, Kind};
use jifl_sys::device::Device;

use self::graph::Graph;
use self::plan::Plan;
use self::report::Layout;
use crate::base::duration;
use crate::base::exit::Failure;
use crate::kernel::memory::Kcore;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::blocks::Profile;
use crate::session::device;
use crate::session::measure::{Running, Session};
use crate::session::recording::{self, Destination, Recording};
use crate::session::scope::{self, Scope};
use crate::session::targets;
use crate::show::output::{self, Format};

/// Arguments of `jifl optimize`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER, or a function of the kernel: fn:NAME, fn:GLOB,
fn:NAME@MODULE, mod:NAME, and interrupts and threads. Filters that are given must all match.

All that the targets execute is counted for --measure, block by block and branch by branch. Then
copies of the executed code are laid anew in the code cache: what runs often lies together, falls
through where it mostly goes, and what seldom runs lies behind. Calls of the targets run in these
copies until CMD ends, after --for, or until Ctrl-C or `jifl detach`. Then the kernel runs its own
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

/// Code is laid anew if the copies, as they lie, have so many more taken branches than a new order
/// would have.
const WORTH: f64 = 1.05;

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
    let session = Session::of(Kind::Layout, 0, selected);
    let save = args.save.as_deref().map(Destination::open).transpose()?;
    let loaded = args.load.as_deref().map(loaded).transpose()?;
    let door = device::open()?;
    let work = Work {
        args,
        door: &door,
        table: &table,
        state: Mutex::new(State {
            step: Step::Done,
            session: None,
            save,
            layouts: Vec::new(),
        }),
    };
    let outcome = scope::beside(
        &args.scope,
        &door,
        session,
        &table,
        |session| work.begin(session, loaded),
        || work.go_on(),
    )?;
    let state = work.state.into_inner().expect("nobody panicked with it");
    if state.layouts.is_empty() {
        output::note("jifl: nothing was laid: it ended before --measure");
    }
    let missed = outcome.report.missed();
    output::print(&report::show(&state.layouts, missed, args.format))?;
    Ok(outcome.exit_status())
}

/// What was counted, and for how long, in nanoseconds.
struct Measured {
    blocks: Vec<Count>,
    ns: u64,
}

/// The counts of a file of this kernel.
fn loaded(path: &Path) -> Result<Measured, Failure> {
    let recording = Recording::read(path)?;
    Ok(Measured {
        blocks: recording.here(&path.display().to_string())?,
        ns: recording.report.duration_ns,
    })
}

/// What is done beside the session.
struct Work<'a> {
    args: &'a OptimizeArgs,
    door: &'a Device,
    table: &'a Table,
    state: Mutex<State>,
}

struct State {
    step: Step,
    /// The session whose blocks are laid, as it was started.
    session: Option<Session>,
    save: Option<Destination>,
    layouts: Vec<Layout>,
}

enum Step {
    /// A session counts blocks, through this door.
    Measuring(Device, Box<Running>),
    /// Until then.
    Resting(Instant),
    Done,
}

impl Work<'_> {
    /// The session runs.
    fn begin(&self, session: &Session, loaded: Option<Measured>) -> Result<(), Failure> {
        let mut state = self.state.lock().expect("nobody panicked with it");
        state.session = Some(session.clone());
        state.step = match loaded {
            Some(measured) => {
                let layout = self.lay(session, &measured)?;
                state.layouts.extend(layout);
                self.rest()
            }
            None => self.measure(session)?,
        };
        Ok(())
    }

    fn rest(&self) -> Step {
        let until = |time| Instant::now().checked_add(time);
        self.args
            .watch
            .and_then(until)
            .map_or(Step::Done, Step::Resting)
    }

    /// Starts a session that counts the blocks of the same calls.
    fn measure(&self, session: &Session) -> Result<Step, Failure> {
        let mut counting = session.clone();
        counting.start.kind = Kind::Profile as u32;
        counting.start.flags |= FLAG_BRANCHES;
        let door = device::open()?;
        let running = Running::begin(&door, counting, self.table)?;
        Ok(Step::Measuring(door, Box::new(running)))
    }

    /// Called again and again while the session runs.
    fn go_on(&self) {
        let mut state = self.state.lock().expect("nobody panicked with it");
        if let Err(failure) = self.step(&mut state) {
            output::note(&format!("jifl: {}", failure.message));
            state.step = Step::Done;
        }
    }

    fn step(&self, state: &mut State) -> Result<(), Failure> {
        let Some(session) = state.session.clone() else {
            return Ok(());
        };
        state.step = match std::mem::replace(&mut state.step, Step::Done) {
            Step::Measuring(door, running) if running.elapsed() >= self.args.measure => {
                let measured = self.counted(&door, *running, state.save.take())?;
                state.layouts.extend(self.lay(&session, &measured)?);
                self.rest()
            }
            Step::Resting(until) if Instant::now() >= until => self.measure(&session)?,
            step => step,
        };
        Ok(())
    }

    /// Lays what was measured. `None`: it lies as well as it can already.
    fn lay(&self, session: &Session, measured: &Measured) -> Result<Option<Layout>, Failure> {
        let symbols = Symbols::of_kernel();
        let graph = Graph::of(&measured.blocks, &mut Kcore::open()?, &symbols.thunks());
        let plan = Plan::of(&graph, self.args.hot);
        let id = session.start.session;
        let now = lay::look(self.door, id, &graph, &plan)?;
        let next = plan.next(graph.nodes.len());
        let planned = graph.taken(|from, to| to.is_some() && next[from] == to);
        let first = self.args.watch.is_none() || now.blocks == 0;
        if !first && (now.taken as f64) < planned as f64 * WORTH {
            output::note("jifl: what runs has not changed, nothing is laid");
            return Ok(None);
        }
        let laid = lay::lay(self.door, &graph, &plan)?;
        let found = lay::look(self.door, id, &graph, &plan)?;
        let layout = Layout::of(&graph, &plan, laid, found, measured.ns, &symbols);
        output::note(&layout.note());
        Ok(Some(layout))
    }

    /// Ends the session that counts, reads it, and keeps it in a file if that is wanted.
    fn counted(
        &self,
        door: &Device,
        running: Running,
        save: Option<Destination>,
    ) -> Result<Measured, Failure> {
        let report = running.end(door, self.table)?;
        let ns = report.duration_ns;
        let profile = Profile::of(door, report, || Rc::new(Symbols::of_kernel()))?;
        recording::keep_in(save, || Recording::of_profile(&profile))?;
        Ok(Measured {
            blocks: profile.blocks,
            ns,
        })
    }
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
