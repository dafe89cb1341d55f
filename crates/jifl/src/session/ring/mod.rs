// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of sessions: taken from the module while the sessions run, sorted afterwards.

mod interrupt;
pub mod pieces;
mod waits;

use std::sync::Mutex;

use jifl_sys::abi::{
    RECORD_BEGIN, RECORD_CUT, RECORD_END, RECORD_TIME, RECORD_TYPE, RECORD_WORDS_MAX, Record,
    Records, record_words,
};
use jifl_sys::device::{Door, Request};

pub use self::interrupt::Interrupt;
pub use self::pieces::{Caller, Event, Piece};
use self::pieces::{GAP, level_of};
pub use self::waits::{WaitArgs, Waits};
use crate::base::exit::Failure;
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::measure::Session;
use crate::session::scope::{self, Outcome, Scope};
use crate::session::targets::{self, Target};

/// Maximum of records of one request.
const ROOM: usize = 1 << 16;

/// Tells whether a call with this result is kept.
pub type Wanted = fn(i64) -> bool;

/// Records that have been taken from the module.
#[derive(Default)]
pub struct Taken {
    /// The session's list: marks contain indices into it.
    targets: Vec<Target>,
    /// Records of each CPU, with [`GAP`] where some were lost.
    cpus: Vec<Vec<Record>>,
    /// Of each CPU, how many there were behind its last [`GAP`]. A word may look like one.
    behind_gap: Vec<usize>,
    /// Records of each CPU that were overwritten before they could be taken.
    lost: Vec<u64>,
    /// Records for which there was no room.
    pub refused: u64,
    /// Waits of threads until records had been taken.
    pub waits: Waits,
    /// Calls that were dropped.
    pub unwanted: u64,
    /// Buffer of requests.
    room: Vec<Record>,
    error: Option<std::io::Error>,
    /// Unwanted calls are dropped as soon as they end, if they have run on one CPU. For records
    /// without words only.
    wanted: Option<Wanted>,
    /// The running calls of each CPU: that of its thread, and above it those that interrupt what is
    /// below them.
    open: Vec<Vec<Open>>,
}

/// A call that has run on one CPU since it began.
#[derive(Default, Clone, Copy)]
struct Open {
    /// Index of its first record.
    from: Option<usize>,
    result: Option<i64>,
}

/// Runs a session and takes what it records, `limit` records at most.
///
/// # Errors
/// The session is refused, the command cannot be run, or records cannot be taken.
pub fn observe(
    scope: &Scope,
    door: &(impl Door + Sync),
    session: Session,
    table: &Table,
    limit: usize,
) -> Result<(Taken, Outcome), Failure> {
    observe_wanted(scope, door, session, table, limit, None)
}

/// [`observe`], keeping only calls whose result is `wanted`.
///
/// # Errors
/// As for [`observe`].
pub fn observe_wanted(
    scope: &Scope,
    door: &(impl Door + Sync),
    session: Session,
    table: &Table,
    limit: usize,
    wanted: Option<Wanted>,
) -> Result<(Taken, Outcome), Failure> {
    let mut taken = Taken::new(device::info(door)?.cpus, wanted);
    taken.targets.clone_from(&session.targets);
    let taken = Mutex::new(taken);
    let take = || {
        let mut taken = taken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        taken.take(door, limit);
    };
    let (outcome, ()) = scope::observe(scope, door, session, table, Some(&take), |_| ())?;
    let mut taken = taken
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    match taken.error.take() {
        Some(error) => Err(device::failed("taking the records", &error)),
        None => Ok((taken, outcome)),
    }
}

impl Taken {
    fn new(cpus: u32, wanted: Option<Wanted>) -> Taken {
        Taken {
            wanted,
            open: vec![Vec::new(); cpus as usize],
            cpus: vec![Vec::new(); cpus as usize],
            behind_gap: vec![0; cpus as usize],
            lost: vec![0; cpus as usize],
            room: vec![Record::default(); ROOM],
            ..Taken::default()
        }
    }

    /// The events of threads, in the order of time, and the number of records of no known thread.
    pub fn pieces<E: Event>(&self) -> (Vec<Piece<E>>, u64) {
        pieces::pieces(self.each(), &self.targets)
    }

    /// `table` with the session's functions, by their numbers.
    pub fn table(&self, table: &Table) -> Table {
        table.with(targets::functions(&self.targets, table))
    }

    /// Records of each CPU.
    pub fn each(&self) -> impl Iterator<Item = &[Record]> {
        self.cpus.iter().map(Vec::as_slice)
    }

    /// Records of one CPU.
    pub fn of(&self, cpu: usize) -> &[Record] {
        &self.cpus[cpu]
    }

    /// The words behind a CPU's record, if there are that many.
    pub fn words<const N: usize>(&self, cpu: usize, at: u32) -> Option<[u64; N]> {
        let records = self.of(cpu).get(at as usize..)?;
        if record_words(records.first()?.what) != N {
            return None;
        }
        let words = records.get(1..=N)?;
        Some(std::array::from_fn(|i| words[i].word()))
    }

    /// Records that were overwritten before they could be taken.
    pub fn lost(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Takes the records of all CPUs.
    fn take(&mut self, door: &impl Door, limit: usize) {
        for cpu in 0..self.cpus.len() {
            while let Some(n) = self.take_some(door, cpu) {
                let kept: usize = self.cpus.iter().map(Vec::len).sum();
                let fits = self.whole(n, limit.saturating_sub(kept));
                self.keep(cpu, fits);
                if fits < n {
                    self.refused += (n - fits) as u64;
                    self.keep_gap(cpu);
                }
                // A record that does not fit into the room is read the next time.
                if n + RECORD_WORDS_MAX < self.room.len() {
                    break;
                }
            }
        }
    }

    fn take_some(&mut self, door: &impl Door, cpu: usize) -> Option<usize> {
        let mut records = Records::of(cpu as u32);
        match door.call(Request::Records(&mut records, &mut self.room)) {
            Ok(()) => {
                // The lost records come before those that were just read.
                if records.lost > self.lost[cpu] {
                    self.keep_gap(cpu);
                }
                self.lost[cpu] = records.lost;
                self.waits = Waits::of(&records);
                Some(records.n as usize)
            }
            Err(error) => {
                // EINVAL: no CPU has this number.
                if error.kind() != std::io::ErrorKind::InvalidInput {
                    self.error = Some(error);
                }
                None
            }
        }
    }

    /// How many of the first `n` words of the buffer are whole records within `limit`.
    fn whole(&self, n: usize, limit: usize) -> usize {
        if n <= limit {
            return n;
        }
        let mut fits = 0;
        while let Some(record) = self.room[..n].get(fits) {
            let next = fits + 1 + record_words(record.what);
            if next > limit {
                break;
            }
            fits = next;
        }
        fits
    }

    fn keep_gap(&mut self, cpu: usize) {
        self.open[cpu].clear();
        if self.behind_gap[cpu] == 0 || self.behind_gap[cpu] != self.cpus[cpu].len() {
            self.cpus[cpu].push(GAP);
            self.behind_gap[cpu] = self.cpus[cpu].len();
        }
    }

    /// Keeps the first `n` words of the buffer.
    fn keep(&mut self, cpu: usize, n: usize) {
        match self.wanted {
            None => self.cpus[cpu].extend_from_slice(&self.room[..n]),
            Some(wanted) => (0..n).for_each(|index| self.keep_one(cpu, self.room[index], wanted)),
        }
    }

    fn keep_one(&mut self, cpu: usize, record: Record, wanted: Wanted) {
        let (records, open) = (&mut self.cpus[cpu], &mut self.open[cpu]);
        records.push(record);
        match record.what {
            // This is the second time of a pair.
            what if what & RECORD_TYPE == RECORD_TIME => {
                let first = records.len().saturating_sub(2);
                let mark = records[first];
                match mark.what & RECORD_TYPE {
                    RECORD_BEGIN => {
                        if level_of(&mark) == 0 {
                            open.clear();
                        }
                        open.push(Open {
                            from: Some(first),
                            result: None,
                        });
                    }
                    RECORD_END => {
                        let Some(ended) = open.pop() else {
                            return;
                        };
                        let kept = ended.result.is_some_and(wanted);
                        if kept {
                            // The calls that it interrupted cannot be dropped: it is among them.
                            open.iter_mut().for_each(|below| below.from = None);
                        } else if let Some(from) = ended.from {
                            records.truncate(from);
                            self.unwanted += 1;
                        }
                    }
                    _ => open.clear(),
                }
            }
            RECORD_CUT => {
                open.pop();
                open.iter_mut().for_each(|below| below.from = None);
            }
            _ => {
                if let Some(open) = open.last_mut() {
                    open.result = pieces::result(&record).or(open.result);
                }
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::pieces::tests::{enter, mark, result};
    use super::*;
    use crate::session::fake::Fake;
    use jifl_sys::abi::{RECORD_LEVEL_SHIFT, RECORD_RESUME};

    /// Takes all records.
    pub fn taken(fake: &Fake, cpus: u32) -> Taken {
        let mut taken = Taken::new(cpus, None);
        taken.targets = Target::all_syscalls();
        taken.take(fake, usize::MAX);
        assert!(taken.error.is_none());
        taken
    }

    #[test]
    fn what_is_beyond_the_limit_is_counted() {
        let fake = Fake::default();
        fake.state().records = vec![vec![enter(0, 900); 100]];
        let mut taken = Taken::new(1, None);
        taken.take(&fake, 60);
        assert_eq!((taken.of(0).len(), taken.refused), (61, 40));
        assert_eq!(taken.of(0)[60], GAP);
    }

    #[test]
    fn a_word_that_looks_like_a_gap_is_none() {
        let word = Record::default();
        let mut taken = Taken::new(1, None);
        taken.cpus[0] = vec![enter(0, 900), word];
        taken.keep_gap(0);
        taken.keep_gap(0);
        assert_eq!(taken.of(0), [enter(0, 900), word, GAP]);
    }

    #[test]
    fn calls_that_are_not_wanted_are_let_go() {
        let call = |thread, value| {
            [
                &mark(RECORD_BEGIN, 1, thread, 1)[..],
                &[enter(0, 900), result(value)],
                &mark(RECORD_END, 1, thread, 2),
            ]
            .concat()
        };
        let moved = [
            &mark(RECORD_RESUME, 0, 9, 3)[..],
            &[result(5)],
            &mark(RECORD_END, 1, 9, 4),
        ]
        .concat();
        let fake = Fake::default();
        let failed = call(7, -2);
        fake.state().records =
            vec![[call(7, 5), failed.clone(), moved.clone(), call(8, 0)].concat()];
        let mut taken = Taken::new(1, Some(|value| value < 0));
        taken.take(&fake, usize::MAX);
        assert_eq!(taken.of(0), [failed, moved].concat());
        assert_eq!(taken.unwanted, 2);
    }

    #[test]
    fn calls_that_interrupt_others_are_kept_or_let_go_by_themselves() {
        const IRQ: u32 = 2 << RECORD_LEVEL_SHIFT;
        let call = |number, value, inside: &[Record]| {
            [
                &mark(RECORD_BEGIN, number, 7, 1)[..],
                &[enter(0, 900)],
                inside,
                &[result(value)],
                &mark(RECORD_END, number, 7, 2),
            ]
            .concat()
        };
        let (good, bad) = (call(2 | IRQ, 0, &[]), call(2 | IRQ, -2, &[]));
        let fake = Fake::default();
        fake.state().records = vec![
            [
                call(1, -3, &good),
                call(1, 0, &good),
                call(1, 0, &bad),
                call(1, -4, &bad),
            ]
            .concat(),
        ];
        let mut taken = Taken::new(1, Some(|value| value < 0));
        taken.take(&fake, usize::MAX);
        let kept = [call(1, -3, &[]), call(1, 0, &bad), call(1, -4, &bad)];
        assert_eq!(taken.of(0), kept.concat());
        assert_eq!(taken.unwanted, 3);
    }
}
