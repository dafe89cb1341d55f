// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where rows come from: a session of this machine's module, or one of a daemon elsewhere. What
//! shows rows, and the daemon itself, know no more than this.

use std::collections::HashMap;
use std::sync::Arc;

use jifl_sys::device::{Device, Door};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::by::Subject;
use super::sheet::{Counted, Row};
use super::{Known, Looked, below, both, counters, session};
use crate::base::exit::Failure;
use crate::cmd::probe::place::Manner;
use crate::kernel::beneath::{Beneath, Held, Over};
use crate::kernel::memory::{Kcore, Memory};
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::measure::{self, Session};
use crate::session::scope::Tasks;

/// What is to be looked at.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// `fn:NAME`, `fn:GLOB`, `fn:NAME@MODULE`.
    pub functions: Vec<String>,
    /// What is counted beside times: `tracepoint:...`, `var:...`.
    pub counters: Vec<String>,
    /// In which contexts; 0: in all.
    pub levels: u32,
    /// What calls are about: a list of expressions.
    pub by: Option<String>,
    /// The counter of the time of interrupts, if it is taken off.
    pub interrupts: Option<usize>,
    /// Whose calls.
    pub tasks: Tasks,
    /// It may be more than 1,000 places.
    pub confirmed: bool,
    /// What cannot be is left out, also if a word names it.
    pub lenient: bool,
    /// Refusals have no addresses: who reads them may not know any.
    pub by_name: bool,
}

/// For each row, by its target, the words for the functions that it calls directly.
pub type Below = HashMap<usize, Vec<String>>;

/// What opens sessions.
pub trait Source: Send + Sync {
    /// Finds the functions. Nothing is instrumented yet.
    ///
    /// # Errors
    /// One line: why that cannot be looked at.
    fn open(&self, plan: &Plan) -> Result<Box<dyn Opened>, Failure>;

    /// The same of one function, by what its calls are about.
    ///
    /// # Errors
    /// One line: why that cannot be looked at.
    fn about(
        &self,
        _known: Option<&Known>,
        row: &Row,
        _by: &str,
        _tasks: &Tasks,
    ) -> Result<Box<dyn Opened>, Failure> {
        Err(Failure::usage(format!(
            "{}: a daemon does not tell what calls are about; run `jifl top` on that machine",
            row.shown()
        )))
    }
}

/// What will be looked at.
pub trait Opened {
    /// The functions.
    fn rows(&self) -> &[Row];

    /// What of the words is left out; empty: nothing.
    fn left_out(&self) -> &str;

    /// The titles of what calls are about.
    fn labels(&self) -> &[String] {
        &[]
    }

    /// What [`Source::about`] needs; `None`: it is elsewhere.
    fn known(&self) -> Option<Known> {
        None
    }

    /// What the functions call. `by_name`: the words are names, and no addresses.
    ///
    /// # Errors
    /// It is not known.
    fn below(&self, by_name: bool) -> Result<Below, Failure>;

    /// Runs the session until `meanwhile` returns.
    ///
    /// # Errors
    /// The session is refused, or was lost.
    fn run(self: Box<Self>, meanwhile: &mut dyn FnMut(&dyn Running)) -> Result<Ended, Failure>;
}

/// A session that runs.
pub trait Running {
    /// Its number in the module.
    fn id(&self) -> u64;

    /// All that was counted until now.
    ///
    /// # Errors
    /// It cannot be read.
    fn counted(&self) -> Result<Counted, Failure>;

    /// The same, and what it is about, if that changes: new rows come.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self) -> Result<(Option<Vec<Row>>, Counted), Failure> {
        Ok((None, self.counted()?))
    }

    /// Has somebody else ended it?
    fn has_ended(&self) -> bool;
}

/// The end of a session.
#[derive(Debug, Clone, Default)]
pub struct Ended {
    /// All that was counted.
    pub counted: Counted,
    /// What that is about, if it is other than functions.
    pub rows: Option<Vec<Row>>,
    /// Nanoseconds that its start took.
    pub start_ns: u64,
    /// Nanoseconds that its end took.
    pub end_ns: u64,
    /// Somebody else ended it.
    pub cut_short: bool,
}

/// The module of this machine.
#[derive(Default, Clone)]
pub struct Kernel {
    /// What breakpoints of its sessions hide; without it their functions are not looked at again.
    beneath: Option<Arc<Beneath>>,
}

impl Kernel {
    /// One whose sessions may be about the same functions.
    pub fn of_many() -> Kernel {
        Kernel {
            beneath: Some(Arc::default()),
        }
    }
}

/// What will be looked at, in the module.
struct OfModule {
    looked: Looked,
    beneath: Option<(Arc<Beneath>, Held)>,
}

/// The kernel's memory, without breakpoints of these sessions.
fn memory(beneath: Option<&Arc<Beneath>>) -> Result<Box<dyn Memory>, Failure> {
    let memory = Kcore::open()?;
    Ok(match beneath {
        None => Box::new(memory),
        Some(beneath) => Box::new(Over {
            memory,
            beneath: Arc::clone(beneath),
        }),
    })
}

impl Source for Kernel {
    fn open(&self, plan: &Plan) -> Result<Box<dyn Opened>, Failure> {
        let manner = Manner {
            confirmed: plan.confirmed,
            programs: true,
            lenient: plan.lenient,
            by_name: plan.by_name,
        };
        let mut memory = memory(self.beneath.as_ref())?;
        let counters = counters::counters(&plan.counters, memory.as_mut())?;
        let words = both(&plan.functions)?;
        let (by, levels) = (plan.by.as_deref(), plan.levels);
        let mut looked = session(&words, by, counters, manner, levels, memory.as_mut())?;
        looked.subject.interrupts = plan.interrupts;
        plan.tasks.scope().apply(&mut looked.session)?;
        let beneath = self.beneath.as_ref().map(|beneath| {
            // A jump to a door stands at the beginning, or behind its endbr64.
            let begins = looked.subject.functions.iter().map(|row| row.address);
            let doors = begins.flat_map(|begin| [begin, begin + 4]);
            let places = looked.session.splices.iter().map(|one| one.address);
            let held = beneath.remember(places.chain(doors), memory.as_mut());
            (Arc::clone(beneath), held)
        });
        Ok(Box::new(OfModule { looked, beneath }))
    }

    fn about(
        &self,
        known: Option<&Known>,
        row: &Row,
        by: &str,
        tasks: &Tasks,
    ) -> Result<Box<dyn Opened>, Failure> {
        let known = known.ok_or_else(|| Failure::failed(format!("{}: not known", row.shown())))?;
        let mut looked = known.about(row, by)?;
        tasks.scope().apply(&mut looked.session)?;
        Ok(Box::new(OfModule {
            looked,
            beneath: None,
        }))
    }
}

impl Opened for OfModule {
    fn rows(&self) -> &[Row] {
        &self.looked.subject.functions
    }

    fn known(&self) -> Option<Known> {
        Some(self.looked.known.clone())
    }

    fn left_out(&self) -> &str {
        &self.looked.left_out
    }

    fn labels(&self) -> &[String] {
        self.looked.subject.labels()
    }

    fn below(&self, by_name: bool) -> Result<Below, Failure> {
        let beneath = self.beneath.as_ref().map(|(beneath, _)| beneath);
        let mut memory = memory(beneath)?;
        Ok(below::of(
            &self.looked.subject.functions,
            by_name,
            memory.as_mut(),
        ))
    }

    fn run(self: Box<Self>, meanwhile: &mut dyn FnMut(&dyn Running)) -> Result<Ended, Failure> {
        let OfModule { looked, beneath } = *self;
        let door = device::open()?;
        let ended = run(&door, &looked.subject, looked.session, meanwhile);
        // The breakpoints go with the session: before they are forgotten.
        drop(door);
        drop(beneath);
        ended
    }
}

/// Runs a session through a door.
fn run<D: Door>(
    door: &D,
    subject: &Subject,
    session: Session,
    meanwhile: &mut dyn FnMut(&dyn Running),
) -> Result<Ended, Failure> {
    let (report, ()) = measure::measure(door, session, &Table::all(), |id| {
        meanwhile(&OnDoor { door, subject, id });
    })?;
    let (rows, counted) = subject.read(door)?;
    Ok(Ended {
        counted,
        rows: subject.by.is_some().then_some(rows),
        start_ns: report.start_ns,
        end_ns: report.end_ns,
        cut_short: report.cut_short,
    })
}

/// A session of the module, on the file that it was started on.
struct OnDoor<'a, D> {
    door: &'a D,
    subject: &'a Subject,
    id: u64,
}

impl<D: Door> Running for OnDoor<'_, D> {
    fn id(&self) -> u64 {
        self.id
    }

    fn counted(&self) -> Result<Counted, Failure> {
        Ok(self.subject.read(self.door)?.1)
    }

    fn read(&self) -> Result<(Option<Vec<Row>>, Counted), Failure> {
        let (rows, counted) = self.subject.read(self.door)?;
        Ok((self.subject.by.is_some().then_some(rows), counted))
    }

    fn has_ended(&self) -> bool {
        let Some(fd) = self.door.poll_fd() else {
            return false;
        };
        let mut events = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let polled = rustix::event::poll(&mut events, Some(&at_once));
        polled.is_ok() && !events[0].revents().is_empty()
    }
}

/// Can the module be asked here? Its device is opened, and closed.
///
/// # Errors
/// One line: why not.
pub fn check() -> Result<(), Failure> {
    device::open().map(|_: Device| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;
    use crate::session::targets::Target;
    use jifl_sys::abi::{Kind, Time};

    #[test]
    fn a_session_is_read_while_it_runs_and_after() {
        let fake = Fake::default();
        let time = Time {
            calls: 3,
            ..Time::default()
        };
        fake.add_table(vec![time], [9, 0, 1]);
        let session = Session::new(Kind::Times, 0, vec![Target::Syscall(0)]);
        let mut seen = None;
        let subject = Subject {
            functions: Vec::new(),
            by: None,
            interrupts: None,
            distributes: false,
        };
        let ended = run(&fake, &subject, session, &mut |running| {
            seen = Some((running.id(), running.counted().unwrap().times[0].calls));
            assert!(fake.state().running && !running.has_ended());
        });
        let ended = ended.unwrap();
        assert_eq!(seen, Some((42, 3)));
        assert_eq!(ended.counted.rest, [9, 0, 1]);
        assert!(!ended.cut_short && !fake.state().running);
    }
}
