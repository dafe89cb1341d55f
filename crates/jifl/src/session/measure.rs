// SPDX-License-Identifier: MIT OR Apache-2.0
//! One counting session from its start to the report, through any [`Door`].

use std::io;
use std::time::Instant;

use jifl_sys::abi::{FLAGS_VALUE, HIST_BUCKETS, Kind, Start, Stat, Stop};
use jifl_sys::device::{Door, Request};
use rustix::io::Errno;

use crate::base::exit::Failure;
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::histogram;
use crate::session::report::{Cost, Report, Row};
use crate::session::targets::Target;

/// Arguments of a session.
#[derive(Debug, Clone)]
pub struct Session {
    /// Its kind, flags and filters.
    pub start: Start,
    /// Its list of targets. Everywhere else a target is its index in this list.
    pub targets: Vec<Target>,
}

impl Session {
    /// A session of this kind, about all tasks.
    pub fn new(kind: Kind, flags: u32, targets: Vec<Target>) -> Session {
        let mut start = Start::default();
        start.kind = kind as u32;
        start.flags = flags;
        Session { start, targets }
    }

    /// Starts the session on this file.
    ///
    /// # Errors
    /// The session is refused.
    pub fn begin(&mut self, door: &impl Door, table: &Table) -> Result<(), Failure> {
        let specs: Vec<_> = self.targets.iter().map(|target| target.spec()).collect();
        door.call(Request::Start(&mut self.start, &specs))
            .map_err(|error| refused(door, self, table, &error))
    }
}

/// Starts a session, calls `meanwhile` with its number, ends the session and reads its counts. The
/// session also ends, and is read, when `meanwhile` fails.
pub fn measure<T>(
    door: &impl Door,
    mut session: Session,
    table: &Table,
    meanwhile: impl FnOnce(u64) -> T,
) -> Result<(Report, T), Failure> {
    let before = device::status(door)?;
    session.begin(door, table)?;
    let start = &session.start;
    let began = Instant::now();
    let value = meanwhile(start.session);
    let duration = began.elapsed();
    let mut stop = Stop::default();
    let mut cut_short = false;
    if let Err(error) = door.call(Request::Stop(&mut stop)) {
        // `jifl detach` has ended the session. Its counts until then can still be read.
        cut_short = Errno::from_io_error(&error) == Some(Errno::NOENT);
        if !cut_short {
            return Err(device::failed("ending the session", &error));
        }
    }
    let after = device::status(door)?;

    let kind = Kind::from_number(start.kind).unwrap_or(Kind::None);
    let (mut rows, mut absent) = (Vec::new(), Vec::new());
    for (index, target) in session.targets.iter().enumerate() {
        let question = Stat::of(index as u32);
        match read_row(door, start, question, target.nr(), table)? {
            Some(row) if row.calls > 0 || row.missed > 0 => rows.push(row),
            Some(_) => {}
            None => absent.push(target.nr()),
        }
    }
    rows.sort_by(|a, b| (b.sum, b.calls, a.nr).cmp(&(a.sum, a.calls, b.nr)));
    let report = Report {
        kind,
        rows,
        absent,
        cut_short,
        cost: Cost::between(&before, &after),
        duration_ns: duration.as_nanos() as u64,
        drain_ns: stop.drain_ns,
        draining: stop.draining,
    };
    Ok((report, value))
}

/// The row of a call; `None` if this kernel does not have the call.
fn read_row(
    door: &impl Door,
    start: &Start,
    mut stat: Stat,
    nr: u32,
    table: &Table,
) -> Result<Option<Row>, Failure> {
    let mut counts = Box::new([0; HIST_BUCKETS]);
    match door.call(Request::Stat(&mut stat, Some(&mut counts))) {
        Ok(()) => {}
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(device::failed("reading the statistics", &error)),
    }
    let kinds = [Kind::Insn, Kind::Block, Kind::Trace].map(|kind| kind as u32);
    let inside = kinds.contains(&start.kind) || start.flags & FLAGS_VALUE != 0;
    let percentile = |percent| {
        let value = histogram::percentile(&*counts, percent, stat.min, stat.max);
        value.filter(|_| inside)
    };
    Ok(Some(Row {
        name: table.name(nr),
        nr,
        calls: stat.calls,
        sum: if inside { stat.sum } else { 0 },
        min: stat.min,
        max: stat.max,
        p50: percentile(50),
        p99: percentile(99),
        blocks: stat.blocks,
        no_return: stat.no_return,
        missed: stat.missed,
        histogram: filled(&*counts),
    }))
}

/// Buckets that are not empty.
fn filled(counts: &[u64]) -> Vec<(usize, u64)> {
    let all = counts.iter().copied().enumerate();
    all.filter(|(_, count)| *count > 0).collect()
}

/// Why a session was refused.
fn refused(door: &impl Door, session: &Session, table: &Table, error: &io::Error) -> Failure {
    let start = &session.start;
    let busy = session.targets.get(start.busy_target as usize);
    match Errno::from_io_error(error) {
        Some(Errno::BUSY) if start.busy_session != 0 => Failure::failed(format!(
            "{} is being instrumented by as many sessions as can be, one of them {}: wait for its end, \
             or `jifl detach {}`",
            busy.map_or_else(|| "a target".into(), |target| target.shown(table)),
            holder(door, start.busy_session),
            start.busy_session
        )),
        // This file is new, so it has no session of its own.
        Some(Errno::BUSY) => Failure::failed(
            "starting the session: somebody else has redirected the kernel's call of \
             x64_sys_call: remove that first; the kernel's log (dmesg) names it",
        ),
        Some(Errno::PERM) if Kind::from_number(start.kind).is_some_and(Kind::shows_addresses) => {
            Failure::cannot(
                "functions are shown only to users who may see kernel addresses: set \
                 kernel.kptr_restrict=1, and be root",
            )
        }
        Some(Errno::ALREADY) => Failure::failed(format!(
            "{} records already, and one session at a time can: wait for its end, or `jifl detach {}`",
            holder(door, start.busy_session),
            start.busy_session
        )),
        Some(Errno::ACCESS) => {
            Failure::cannot(format!("starting the session: {}", device::LOCKED_DOWN))
        }
        // The command builds only valid kinds, sizes and filters, so other causes are left.
        Some(Errno::INVAL) => Failure::failed(
            "starting the session: this kernel has none of these system calls, or the loaded \
             module is not of this command's tree",
        ),
        Some(Errno::NOMEM) => {
            Failure::failed("starting the session: the module got no memory for it")
        }
        Some(Errno::SRCH) => Failure::failed("starting the session: no such process"),
        _ => device::failed("starting the session", error),
    }
}

fn holder(door: &impl Door, id: u64) -> String {
    let sessions = device::sessions(door).unwrap_or_default();
    match sessions.iter().find(|session| session.id == id) {
        Some(session) => {
            let name = jifl_sys::abi::from_name(&session.name);
            if session.owner == 0 {
                format!("plugin {name} (session {id})")
            } else {
                format!("session {id} ({name}, process {})", session.owner)
            }
        }
        None => format!("session {id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;

    fn session_of(numbers: &[u32]) -> Session {
        let targets = numbers.iter().copied().map(Target::Syscall);
        Session::new(Kind::Insn, 0, targets.collect())
    }

    #[test]
    fn calls_that_were_made_are_reported_largest_first() {
        let fake = Fake::default();
        fake.add_stat(0, 10, 5, 5);
        fake.add_stat(257, 2, 100, 90);
        fake.state().after.translated_blocks = 20;
        fake.state().drain_ns = 77;
        let session = session_of(&[0, 1, 257]);
        let inside = std::cell::Cell::new(false);
        let (report, value) = measure(&fake, session, &Table::all(), |_| {
            inside.set(fake.state().running);
            "value"
        })
        .unwrap();
        assert!(inside.get() && !fake.state().running);
        assert_eq!(value, "value");
        let names: Vec<&str> = report.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["openat", "read"]);
        assert_eq!(report.rows[1].p99, Some(5));
        assert_eq!((report.cost.blocks, report.drain_ns), (20, 77));
    }

    #[test]
    fn a_busy_call_names_its_holder() {
        let fake = Fake::default();
        fake.add_session(7, "bash");
        fake.state().busy = Some((0, 7));
        let failure = measure(&fake, session_of(&[0]), &Table::all(), |_| ()).unwrap_err();
        assert_eq!(failure.status, crate::base::exit::FAILED);
        for part in ["sys:read", "session 7", "bash", "107", "jifl detach 7"] {
            assert!(failure.message.contains(part), "{}", failure.message);
        }
    }

    #[test]
    fn a_session_ended_from_outside_is_reported_as_cut_short() {
        let fake = Fake::default();
        fake.add_stat(0, 3, 5, 5);
        let (report, ()) = measure(&fake, session_of(&[0]), &Table::all(), |_| {
            fake.state().running = false;
        })
        .unwrap();
        assert!(report.cut_short);
        assert_eq!(report.rows[0].calls, 3);
    }

    #[test]
    fn calls_that_the_kernel_lacks_are_named_not_reported() {
        let fake = Fake::default();
        fake.add_stat(0, 1, 5, 5);
        fake.state().lacking.push(462);
        let (report, ()) = measure(&fake, session_of(&[0, 462]), &Table::all(), |_| ()).unwrap();
        assert_eq!(report.rows.len(), 1);
        assert_eq!(report.absent, [462]);
    }

    #[test]
    fn a_missed_call_is_listed_although_none_was_counted() {
        let fake = Fake::default();
        fake.add_stat(0, 0, 0, 0);
        fake.state().stats.get_mut(&0).unwrap().0.missed = 1;
        let (report, ()) = measure(&fake, session_of(&[0]), &Table::all(), |_| ()).unwrap();
        assert_eq!(report.missed(), 1);
    }
}
