// SPDX-License-Identifier: MIT OR Apache-2.0
//! What sessions record: taken from the module while they run, put in order afterwards.

pub mod pieces;

use std::sync::Mutex;

use jifl_sys::abi::{RECORD_WORDS_MAX, Record, Records, Start};
use jifl_sys::device::{Door, Request};

pub use self::pieces::{Event, Piece, pieces};
use crate::device;
use crate::exit::Failure;
use crate::scope::{self, Outcome, Scope};
use crate::syscalls::Table;

/// Records that one request may take.
const ROOM: usize = 1 << 16;

/// What has been taken from the module.
#[derive(Default)]
pub struct Taken {
    cpus: Vec<Vec<Record>>,
    /// Of each CPU: overwritten before they could be taken.
    lost: Vec<u64>,
    /// There was no room for.
    pub refused: u64,
    /// Where they go first.
    room: Vec<Record>,
    error: Option<std::io::Error>,
}

/// Runs a session and takes what it records, `limit` records at most.
///
/// # Errors
/// The session is refused, the command cannot be run, or records cannot be taken.
pub fn observe(
    scope: &Scope,
    door: &(impl Door + Sync),
    start: Start,
    table: &Table,
    limit: usize,
) -> Result<(Taken, Outcome), Failure> {
    let taken = Mutex::new(Taken::new(device::info(door)?.cpus));
    let take = || {
        let mut taken = taken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        taken.take(door, limit);
    };
    let (outcome, ()) = scope::observe(scope, door, start, table, Some(&take), |_| ())?;
    let mut taken = taken
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    match taken.error.take() {
        Some(error) => Err(device::failed("taking the records", &error)),
        None => Ok((taken, outcome)),
    }
}

impl Taken {
    fn new(cpus: u32) -> Taken {
        Taken {
            cpus: vec![Vec::new(); cpus as usize],
            lost: vec![0; cpus as usize],
            room: vec![Record::default(); ROOM],
            ..Taken::default()
        }
    }

    /// Of each CPU.
    pub fn each(&self) -> impl Iterator<Item = &[Record]> {
        self.cpus.iter().map(Vec::as_slice)
    }

    /// Of one.
    pub fn of(&self, cpu: usize) -> &[Record] {
        &self.cpus[cpu]
    }

    /// Overwritten before they could be taken.
    pub fn lost(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Takes what there is.
    fn take(&mut self, door: &impl Door, limit: usize) {
        for cpu in 0..self.cpus.len() {
            while let Some(n) = self.take_some(door, cpu) {
                let kept: usize = self.cpus.iter().map(Vec::len).sum();
                let fits = n.min(limit.saturating_sub(kept));
                self.cpus[cpu].extend_from_slice(&self.room[..fits]);
                self.refused += (n - fits) as u64;
                // A record for whose words there is no room waits for the next time.
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
                self.lost[cpu] = records.lost;
                Some(records.n as usize)
            }
            Err(error) => {
                // A number that no CPU has.
                if error.kind() != std::io::ErrorKind::InvalidInput {
                    self.error = Some(error);
                }
                None
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::pieces::tests::enter;
    use super::*;
    use crate::fake::Fake;

    /// All that there is.
    pub fn taken(fake: &Fake, cpus: u32) -> Taken {
        let mut taken = Taken::new(cpus);
        taken.take(fake, usize::MAX);
        assert!(taken.error.is_none());
        taken
    }

    #[test]
    fn what_is_beyond_the_limit_is_counted() {
        let fake = Fake::default();
        fake.state().records = vec![vec![enter(0, 900); 100]];
        let mut taken = Taken::new(1);
        taken.take(&fake, 60);
        assert_eq!((taken.of(0).len(), taken.refused), (60, 40));
    }
}
