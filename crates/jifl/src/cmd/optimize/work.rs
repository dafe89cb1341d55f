// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures, lays, and looks whether it stays so.

use std::collections::HashSet;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jifl_sys::abi::{Count, FLAG_BRANCHES, Kind};
use jifl_sys::device::{Device, Door};

use super::OptimizeArgs;
use super::graph::Graph;
use super::lay;
use super::plan::Plan;
use super::report::{self, Layout, Why};
use crate::base::exit::Failure;
use crate::kernel::memory::{Kcore, Memory};
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::blocks::{self, Profile};
use crate::session::device;
use crate::session::measure::{Running, Session};
use crate::session::recording::{self, Destination, Recording};
use crate::session::report::Report;
use crate::session::scope::{self, Waited};
use crate::show::output;

/// Code is laid anew if the copies, as they lie, have so many more taken branches than a new order
/// would have.
const WORTH: f64 = 1.05;
/// What was measured again counts if it has at least one of so many instructions of the time
/// before.
const ENOUGH: u64 = 10;
/// So often it is asked whether a session was ended from outside, and whether the cache was
/// emptied.
const LOOK: Duration = Duration::from_secs(1);
/// Where blocks cannot be laid again, the time to the next attempt doubles, up to this.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The machine whose code is laid.
pub trait Machine {
    type Door: Door;
    type Memory: Memory;

    /// A door of its own for a session.
    fn open(&self) -> Result<Self::Door, Failure>;

    /// The kernel's memory.
    fn memory(&self) -> Result<Self::Memory, Failure>;

    /// The kernel's names.
    fn symbols(&self) -> Symbols;
}

/// The machine that this runs on.
pub struct Here;

impl Machine for Here {
    type Door = Device;
    type Memory = Kcore;

    fn open(&self) -> Result<Device, Failure> {
        device::open()
    }

    fn memory(&self) -> Result<Kcore, Failure> {
        Kcore::open()
    }

    fn symbols(&self) -> Symbols {
        Symbols::of_kernel()
    }
}

/// What was counted, and for how long, in nanoseconds.
pub struct Measured {
    pub blocks: Vec<Count>,
    pub ns: u64,
}

impl Measured {
    fn instructions(&self) -> u64 {
        self.blocks.iter().map(blocks::instructions).sum()
    }

    /// Leaves the blocks of the functions, or parts of functions, that begin at these addresses.
    fn keep(&mut self, functions: &HashSet<u64>, symbols: &Symbols) {
        self.blocks.retain(|block| {
            let function = symbols.function(block.orig);
            function.is_some_and(|place| functions.contains(&place.start()))
        });
    }
}

/// The first time, the session that counts has ended before the one with the layout begins: a task
/// inside of a call can be taken over by one session. From then on both are there while it is
/// measured again.
pub struct Work<'a, M: Machine> {
    args: &'a OptimizeArgs,
    table: &'a Table,
    machine: &'a M,
    /// Where the targets' functions, and the cold parts of these, begin.
    functions: HashSet<u64>,
    /// Of the session whose blocks are laid.
    door: M::Door,
    step: Step<M::Door>,
    running: Option<Box<Running>>,
    save: Option<Destination>,
    /// What the last layout is of, also if it is not laid to its end.
    measured: Option<Arc<Measured>>,
    layouts: Vec<Layout>,
    /// How often the cache had been emptied when the last layout was laid. `None`: it is not laid
    /// to its end.
    flushes: Option<u64>,
    /// When it is looked again, and when blocks may be laid again then.
    look_at: Instant,
    lay_at: Instant,
    /// From the next attempt to the one after it.
    pause: Duration,
    /// Closed, it ends the command.
    over: Option<UnixStream>,
    failed: Option<Failure>,
}

enum Step<D> {
    /// A session with these filters counts blocks, through this door.
    Measuring(Session, D, Box<Running>),
    /// Until then.
    Resting(Session, Instant),
    Done,
}

impl<'a, M: Machine> Work<'a, M> {
    /// Nothing has begun. `over` is closed to end the command.
    ///
    /// # Errors
    /// There is no door.
    pub fn new(
        args: &'a OptimizeArgs,
        table: &'a Table,
        machine: &'a M,
        functions: HashSet<u64>,
        save: Option<Destination>,
        over: UnixStream,
    ) -> Result<Work<'a, M>, Failure> {
        Ok(Work {
            args,
            table,
            machine,
            functions,
            door: machine.open()?,
            step: Step::Done,
            running: None,
            save,
            measured: None,
            layouts: Vec::new(),
            flushes: None,
            look_at: Instant::now() + LOOK,
            lay_at: Instant::now(),
            pause: LOOK,
            over: Some(over),
            failed: None,
        })
    }

    /// Begins to measure, or lays what was loaded.
    ///
    /// # Errors
    /// A session is refused, or nothing can be laid.
    pub fn begin(&mut self, session: &Session, loaded: Option<Measured>) -> Result<(), Failure> {
        self.step = match loaded {
            Some(mut measured) => {
                // The file may have what the functions call, and that runs natively.
                if session.only {
                    measured.keep(&self.functions, &self.machine.symbols());
                }
                self.install(session)?;
                self.lay(&Arc::new(measured), Why::First)?;
                self.rest(session.clone())
            }
            None => self.measure(session.clone())?,
        };
        Ok(())
    }

    fn rest(&self, session: Session) -> Step<M::Door> {
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
    fn measure(&self, session: Session) -> Result<Step<M::Door>, Failure> {
        let mut counting = session.clone();
        counting.start.kind = Kind::Profile as u32;
        counting.start.flags |= FLAG_BRANCHES;
        let door = self.machine.open()?;
        let running = Running::begin(&door, counting, self.table)?;
        Ok(Step::Measuring(session, door, Box::new(running)))
    }

    /// Called again and again. A failure before anything is laid ends the command. Later the layout
    /// stays, and the next measurement may succeed.
    pub fn go_on(&mut self) {
        if self.over.is_none() {
            return;
        }
        let now = Instant::now();
        let looks = now >= self.look_at;
        if looks {
            self.look_at = now + LOOK;
        }
        let done = self.step(looks).and_then(|()| match looks {
            true => self.look_after(now),
            false => Ok(()),
        });
        let Err(failure) = done else {
            return;
        };
        if self.layouts.is_empty() {
            self.failed = Some(failure);
            self.over = None;
        } else {
            output::note(&format!("jifl: {}", failure.message));
        }
    }

    /// looks: it is asked, too, whether somebody else has ended the session that counts. This is
    /// not asked each time: the question is a system call, which the session may count.
    fn step(&mut self, looks: bool) -> Result<(), Failure> {
        match std::mem::replace(&mut self.step, Step::Done) {
            Step::Measuring(session, door, running)
                if running.elapsed() >= self.args.measure || looks && scope::has_ended(&door) =>
            {
                self.step = self.rest(session.clone());
                let measured = Arc::new(self.counted(&door, *running)?);
                let first = self.running.is_none();
                if first {
                    self.install(&session)?;
                }
                self.lay(&measured, if first { Why::First } else { Why::Changed })?;
            }
            Step::Resting(session, until) if Instant::now() >= until => {
                self.step = self.rest(session.clone());
                self.step = self.measure(session)?;
            }
            step => self.step = step,
        }
        Ok(())
    }

    /// Lays blocks again if the cache has been emptied, or if they were not laid to the end. Ends
    /// the command if somebody else has ended the session.
    fn look_after(&mut self, now: Instant) -> Result<(), Failure> {
        if self.running.is_none() {
            return Ok(());
        }
        if scope::has_ended(&self.door) {
            self.over = None;
            return Ok(());
        }
        let flushes = device::status(&self.door)?.flushes;
        if now < self.lay_at || self.flushes == Some(flushes) {
            return Ok(());
        }
        let Some(measured) = self.measured.clone() else {
            return Ok(());
        };
        self.lay_at = now + self.pause;
        self.pause = (2 * self.pause).min(PAUSE_MAX);
        let why = self.flushes.map_or(Why::Again, |_| Why::Emptied);
        self.lay(&measured, why)
    }

    /// Lays what was measured, unless it lies so already.
    fn lay(&mut self, measured: &Arc<Measured>, why: Why) -> Result<(), Failure> {
        let Some(running) = &self.running else {
            return Ok(());
        };
        let id = running.session().start.session;
        let symbols = self.machine.symbols();
        let mut memory = self.machine.memory()?;
        let graph = Graph::of(&measured.blocks, &mut memory, &symbols.thunks());
        let plan = Plan::of(&graph, self.args.hot);
        if why == Why::Changed && !self.is_worth(measured, &graph, &plan, id)? {
            return Ok(());
        }
        let flushes = device::status(&self.door)?.flushes;
        // A failure from here on leaves some of the blocks laid. They are laid again later.
        self.measured = Some(Arc::clone(measured));
        self.flushes = None;
        let Some(laid) = lay::lay(&self.door, &graph, &plan)? else {
            self.over = None;
            return Ok(());
        };
        self.flushes = Some(flushes);
        self.pause = LOOK;
        let found = lay::look(&self.door, id, &graph, &plan)?;
        let layout = Layout::of(&graph, &plan, laid, found, measured.ns, &symbols);
        output::note(&layout.note(why));
        self.layouts.push(layout);
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
        let before = self.measured.as_ref();
        let before = before.map_or(0, |before| before.instructions());
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
    fn counted(&mut self, door: &M::Door, running: Running) -> Result<Measured, Failure> {
        let report = running.end(door, self.table)?;
        let (ns, cut_short) = (report.duration_ns, report.cut_short);
        let profile = Profile::of(door, report, || Rc::new(self.machine.symbols()))?;
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
    ///
    /// # Errors
    /// Nothing was laid for a reason, or a session cannot be ended.
    pub fn end(self, waited: Waited) -> Result<u8, Failure> {
        let format = self.args.format;
        let (report, layouts) = match self.finished() {
            Ok(finished) => finished,
            Err(failure) => {
                waited.wait();
                return Err(failure);
            }
        };
        let outcome = waited.outcome(report)?;
        if layouts.is_empty() {
            output::note("jifl: nothing was laid: it ended before --measure");
        }
        let missed = outcome.report.missed();
        output::print(&report::show(&layouts, missed, format))?;
        Ok(outcome.exit_status())
    }

    /// Ends what runs: the report of the session with the layout, or of the one that counts where
    /// there is no other, and what was laid. No session is left, also after an error.
    fn finished(mut self) -> Result<(Report, Vec<Layout>), Failure> {
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
        let report = layout.or(counting);
        let report = report.ok_or_else(|| Failure::failed("nothing was measured"))?;
        Ok((report, self.layouts))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::process::Command;

    use jifl_sys::device::Request;
    use rustix::io::Errno;

    use super::super::graph::tests::looping;
    use super::*;
    use crate::base::parse::parse;
    use crate::session::blocks::tests::AT;
    use crate::session::fake::Fake;
    use crate::session::targets::Target;

    /// A machine whose doors are all one stand-in, and their sessions end when `end` is hung up.
    #[derive(Clone, Copy)]
    struct Made<'a> {
        fake: &'a Fake,
        end: Option<&'a UnixStream>,
    }

    impl Door for Made<'_> {
        fn call(&self, request: Request<'_>) -> std::io::Result<()> {
            self.fake.call(request)
        }

        fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
            self.end.map(UnixStream::as_fd)
        }
    }

    impl<'a> Machine for Made<'a> {
        type Door = Made<'a>;
        type Memory = (u64, Vec<u8>);

        fn open(&self) -> Result<Made<'a>, Failure> {
            Ok(*self)
        }

        fn memory(&self) -> Result<(u64, Vec<u8>), Failure> {
            Ok((AT, Vec::new()))
        }

        fn symbols(&self) -> Symbols {
            Symbols::parse(
                "ffffffff81000000 T outer\nffffffff81000010 t outer.cold\n\
                 ffffffff81000020 t inner\n",
            )
        }
    }

    fn args() -> OptimizeArgs {
        parse("sys:* --measure 1h").unwrap()
    }

    fn session() -> Session {
        Session::new(Kind::Layout, 0, vec![Target::Syscall(0)])
    }

    fn measured() -> Measured {
        let graph = looping();
        Measured {
            blocks: graph.nodes.iter().map(|node| node.block).collect(),
            ns: 1,
        }
    }

    /// Work on a machine, and the other end of what ends the command.
    fn work<'a>(
        args: &'a OptimizeArgs,
        table: &'a Table,
        machine: &'a Made<'a>,
    ) -> (Work<'a, Made<'a>>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let functions = [AT, AT + 0x10].into();
        let work = Work::new(args, table, machine, functions, None, theirs).unwrap();
        (work, ours)
    }

    /// The time has come to look.
    fn look(work: &mut Work<'_, Made<'_>>) {
        (work.look_at, work.lay_at) = (Instant::now(), Instant::now());
        work.go_on();
    }

    /// Where the blocks begin that the stand-in was to lay since the last question.
    fn asked(fake: &Fake) -> Vec<u64> {
        let warmed = std::mem::take(&mut fake.state().warmed);
        let mut asked: Vec<u64> = warmed.iter().map(|block| block.orig - AT).collect();
        asked.sort_unstable();
        asked
    }

    const ALL: [u64; 6] = [0x00, 0x02, 0x07, 0x10, 0x15, 0x20];

    #[test]
    fn a_layout_that_could_not_be_laid_again_is_laid_later() {
        let (args, table, fake) = (args(), Table::all(), Fake::default());
        let machine = Made {
            fake: &fake,
            end: None,
        };
        let (mut work, _over) = work(&args, &table, &machine);
        work.begin(&session(), Some(measured())).unwrap();
        assert_eq!((work.layouts.len(), asked(&fake)), (1, ALL.into()));
        look(&mut work);
        assert!(asked(&fake).is_empty(), "nothing was emptied");
        for flushes in 1..3 {
            let before = work.layouts.len();
            fake.state().after.flushes = flushes;
            fake.state().warm_fails = Some(Errno::NOMEM);
            look(&mut work);
            assert_eq!((work.layouts.len(), asked(&fake)), (before, vec![]));
            assert!(work.over.is_some() && work.failed.is_none());
            look(&mut work);
            assert_eq!((work.layouts.len(), asked(&fake)), (before + 1, ALL.into()));
            look(&mut work);
            assert_eq!((work.layouts.len(), asked(&fake)), (before + 1, vec![]));
        }
    }

    #[test]
    fn attempts_become_rare_where_they_fail() {
        let (args, table, fake) = (args(), Table::all(), Fake::default());
        let machine = Made {
            fake: &fake,
            end: None,
        };
        let (mut work, _over) = work(&args, &table, &machine);
        work.begin(&session(), Some(measured())).unwrap();
        fake.state().after.flushes = 1;
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            fake.state().warm_fails = Some(Errno::NOMEM);
            let before = Instant::now();
            look(&mut work);
            let wait = work.lay_at - before;
            assert_eq!(wait.as_secs(), seconds);
        }
        asked(&fake);
        work.look_at = Instant::now();
        work.go_on();
        assert!(asked(&fake).is_empty(), "it is not time yet");
        look(&mut work);
        assert_eq!((asked(&fake), work.pause), (ALL.into(), LOOK));
    }

    #[test]
    fn only_lays_the_functions_and_their_cold_parts() {
        for (only, expected) in [(false, &ALL[..]), (true, &ALL[..5])] {
            let (args, table, fake) = (args(), Table::all(), Fake::default());
            let machine = Made {
                fake: &fake,
                end: None,
            };
            let (mut work, _over) = work(&args, &table, &machine);
            let session = Session { only, ..session() };
            work.begin(&session, Some(measured())).unwrap();
            assert_eq!(asked(&fake), expected);
        }
    }

    #[test]
    fn a_measurement_that_was_ended_from_outside_ends_the_command_at_once() {
        let (args, table, fake) = (args(), Table::all(), Fake::default());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let machine = Made {
            fake: &fake,
            end: Some(&ours),
        };
        let (mut work, _over) = work(&args, &table, &machine);
        work.begin(&session(), None).unwrap();
        look(&mut work);
        assert!(work.over.is_some(), "it measures");
        fake.state().running = false;
        drop(theirs);
        look(&mut work);
        assert!(work.over.is_none());
        let said = work.failed.unwrap().message;
        assert!(said.contains("ended from outside"), "{said}");
    }

    #[test]
    fn the_command_runs_to_its_own_end_also_after_a_failure() {
        let name = format!("jifl-optimize-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let (args, table, fake) = (args(), Table::all(), Fake::default());
        let machine = Made {
            fake: &fake,
            end: None,
        };
        let (mut work, _over) = work(&args, &table, &machine);
        work.failed = Some(Failure::failed("it does not work"));
        let mut command = Command::new("sh");
        command
            .args(["-c", "sleep 0.2; echo done > \"$0\""])
            .arg(&path);
        let waited = Waited::detached(command.spawn().unwrap());
        let failure = work.end(waited).unwrap_err();
        assert_eq!(failure.message, "it does not work");
        assert_eq!(fs::read_to_string(&path).unwrap(), "done\n");
        fs::remove_file(path).unwrap();
    }
}
