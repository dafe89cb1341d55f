// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl optimize`: a better order of the kernel's hot code, for what runs now.

mod graph;
mod lay;
mod plan;
mod report;

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use jifl_sys::abi::{Count, FLAG_BRANCHES, Kind};
use jifl_sys::device::Device;

use self::graph::Graph;
use self::plan::Plan;
use self::report::{Layout, Why};
use crate::base::duration;
use crate::base::exit::Failure;
use crate::kernel::memory::Kcore;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::blocks::{self, Profile};
use crate::session::device;
use crate::session::measure::{Running, Session};
use crate::session::recording::{self, Destination, Recording};
use crate::session::scope::{self, Scope, Waited};
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
/// What was measured again counts if it has at least one of so many instructions of the time before.
const ENOUGH: u64 = 10;
/// So often it is asked whether the cache was emptied.
const LOOK: Duration = Duration::from_secs(1);

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
    let (ours, theirs) =
        UnixStream::pair().map_err(|error| Failure::failed(format!("a socket: {error}")))?;
    let work = Mutex::new(Work {
        args,
        table: &table,
        door: device::open()?,
        step: Step::Done,
        running: None,
        save,
        measured: None,
        layouts: Vec::new(),
        flushes: 0,
        looked: Instant::now(),
        over: Some(theirs),
        failed: None,
    });
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

/// What was counted, and for how long, in nanoseconds.
struct Measured {
    blocks: Vec<Count>,
    ns: u64,
}

impl Measured {
    fn instructions(&self) -> u64 {
        self.blocks.iter().map(blocks::instructions).sum()
    }
}

/// The counts of a file of this kernel.
fn loaded(path: &Path) -> Result<Measured, Failure> {
    let recording = Recording::read(path)?;
    Ok(Measured {
        blocks: recording.here(&path.display().to_string())?,
        ns: recording.report.duration_ns,
    })
}

/// Measures, lays, and looks whether it stays so.
///
/// The first time, the session that counts has ended before the one with the layout begins: a task
/// inside of a call can be taken over by one session. From then on both are there while it is
/// measured again.
struct Work<'a> {
    args: &'a OptimizeArgs,
    table: &'a Table,
    /// Of the session whose blocks are laid.
    door: Device,
    step: Step,
    running: Option<Box<Running>>,
    save: Option<Destination>,
    /// What the last layout is of.
    measured: Option<Measured>,
    layouts: Vec<Layout>,
    /// How often the cache had been emptied when blocks were laid, and when that was asked last.
    flushes: u64,
    looked: Instant,
    /// Closed, it ends the command.
    over: Option<UnixStream>,
    failed: Option<Failure>,
}

enum Step {
    /// A session with these filters counts blocks, through this door.
    Measuring(Session, Device, Box<Running>),
    /// Until then.
    Resting(Session, Instant),
    Done,
}

impl Work<'_> {
    fn begin(&mut self, session: &Session, loaded: Option<Measured>) -> Result<(), Failure> {
        self.step = match loaded {
            Some(measured) => {
                self.install(session)?;
                self.lay(measured, Why::First)?;
                self.rest(session.clone())
            }
            None => self.measure(session.clone())?,
        };
        Ok(())
    }

    fn rest(&self, session: Session) -> Step {
        let until = |time| Instant::now().checked_add(time);
        let until = self.args.watch.and_then(until);
        until.map_or(Step::Done, |until| Step::Resting(session, until))
    }

    /// Starts the session whose blocks are laid.
    fn install(&mut self, session: &Session) -> Result<(), Failure> {
        let running = Running::begin(&self.door, session.clone(), self.table)?;
        self.running = Some(Box::new(running));
        Ok(())
    }

    /// Starts a session that counts the blocks of the same calls.
    fn measure(&self, session: Session) -> Result<Step, Failure> {
        let mut counting = session.clone();
        counting.start.kind = Kind::Profile as u32;
        counting.start.flags |= FLAG_BRANCHES;
        let door = device::open()?;
        let running = Running::begin(&door, counting, self.table)?;
        Ok(Step::Measuring(session, door, Box::new(running)))
    }

    /// Called again and again. A failure before anything is laid ends the command. Later the layout
    /// stays, and the next measurement may succeed.
    fn go_on(&mut self) {
        if self.over.is_none() {
            return;
        }
        let Err(failure) = self.step().and_then(|()| self.look_after()) else {
            return;
        };
        if self.layouts.is_empty() {
            self.failed = Some(failure);
            self.over = None;
        } else {
            output::note(&format!("jifl: {}", failure.message));
        }
    }

    fn step(&mut self) -> Result<(), Failure> {
        match std::mem::replace(&mut self.step, Step::Done) {
            Step::Measuring(session, door, running) if running.elapsed() >= self.args.measure => {
                self.step = self.rest(session.clone());
                let measured = self.counted(&door, *running)?;
                let first = self.running.is_none();
                if first {
                    self.install(&session)?;
                }
                self.lay(measured, if first { Why::First } else { Why::Changed })?;
            }
            Step::Resting(session, until) if Instant::now() >= until => {
                self.step = self.rest(session.clone());
                self.step = self.measure(session)?;
            }
            step => self.step = step,
        }
        Ok(())
    }

    /// Lays blocks again if the cache has been emptied. Ends the command if somebody else has ended
    /// the session.
    fn look_after(&mut self) -> Result<(), Failure> {
        if self.looked.elapsed() < LOOK || self.running.is_none() {
            return Ok(());
        }
        self.looked = Instant::now();
        if scope::has_ended(&self.door) {
            self.over = None;
            return Ok(());
        }
        let status = device::status(&self.door)?;
        if status.flushes == self.flushes {
            return Ok(());
        }
        match self.measured.take() {
            Some(measured) => self.lay(measured, Why::Emptied),
            None => Ok(()),
        }
    }

    /// Lays what was measured, unless it lies so already.
    fn lay(&mut self, measured: Measured, why: Why) -> Result<(), Failure> {
        let Some(running) = &self.running else {
            return Ok(());
        };
        let id = running.session().start.session;
        let symbols = Symbols::of_kernel();
        let graph = Graph::of(&measured.blocks, &mut Kcore::open()?, &symbols.thunks());
        let plan = Plan::of(&graph, self.args.hot);
        if why == Why::Changed && !self.is_worth(&measured, &graph, &plan, id)? {
            return Ok(());
        }
        self.flushes = device::status(&self.door)?.flushes;
        let Some(laid) = lay::lay(&self.door, &graph, &plan)? else {
            self.over = None;
            return Ok(());
        };
        let found = lay::look(&self.door, id, &graph, &plan)?;
        let layout = Layout::of(&graph, &plan, laid, found, measured.ns, &symbols);
        output::note(&layout.note(why));
        self.layouts.push(layout);
        self.measured = Some(measured);
        Ok(())
    }

    /// Would a new order have clearly fewer taken branches than the copies as they lie?
    fn is_worth(
        &self,
        measured: &Measured,
        graph: &Graph,
        plan: &Plan,
        id: u64,
    ) -> Result<bool, Failure> {
        let before = self.measured.as_ref().map_or(0, Measured::instructions);
        if measured.instructions() < before / ENOUGH {
            output::note("jifl: too little ran to lay by it, nothing is laid");
            return Ok(false);
        }
        let next = plan.next(graph.nodes.len());
        let planned = graph.taken(|from, to| to.is_some() && next[from] == to);
        let now = lay::look(&self.door, id, graph, plan)?;
        let worth = now.taken as f64 > planned as f64 * WORTH;
        if !worth {
            output::note("jifl: what runs has not changed, nothing is laid");
        }
        Ok(worth)
    }

    /// Ends the session that counts, reads it, and keeps it in a file if that is wanted.
    fn counted(&mut self, door: &Device, running: Running) -> Result<Measured, Failure> {
        let report = running.end(door, self.table)?;
        let (ns, cut_short) = (report.duration_ns, report.cut_short);
        let profile = Profile::of(door, report, || Rc::new(Symbols::of_kernel()))?;
        recording::keep_in(self.save.take(), || Recording::of_profile(&profile))?;
        if cut_short {
            return Err(Failure::failed(
                "the session that counts was ended from outside, nothing is laid",
            ));
        }
        Ok(Measured {
            blocks: profile.blocks,
            ns,
        })
    }

    /// Ends what runs, and reports.
    fn end(mut self, waited: Waited) -> Result<u8, Failure> {
        let counting = match std::mem::replace(&mut self.step, Step::Done) {
            Step::Measuring(_, door, running) => Some(running.end(&door, self.table)?),
            _ => None,
        };
        let layout = self.running.take();
        let layout = layout
            .map(|running| running.end(&self.door, self.table))
            .transpose()?;
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        let Some(report) = layout.or(counting) else {
            return Err(Failure::failed("nothing was measured"));
        };
        let outcome = waited.outcome(report)?;
        if self.layouts.is_empty() {
            output::note("jifl: nothing was laid: it ended before --measure");
        }
        let missed = outcome.report.missed();
        output::print(&report::show(&self.layouts, missed, self.args.format))?;
        Ok(outcome.exit_status())
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
