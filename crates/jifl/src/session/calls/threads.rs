// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes and names of threads, for threads that still exist when the session is over.
//! Records have only the threads' numbers.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use rustix::time::ClockId;
use serde::{Deserialize, Serialize};

use crate::base::clock::now;

/// Threads that have been asked for.
#[derive(Default)]
pub struct Threads {
    known: BTreeMap<u32, Thread>,
    told: HashSet<u32>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its process; its own number if that is unknown.
    pub process: u32,
    /// The process' name, where it is known.
    pub process_name: Option<String>,
    /// The thread's own name, where it is known.
    pub name: Option<String>,
}

impl Threads {
    /// The threads of a recording.
    pub fn recorded(known: BTreeMap<u32, Thread>) -> Threads {
        Threads {
            known,
            told: HashSet::new(),
        }
    }

    /// A thread that made a call at this time (CLOCK_MONOTONIC, in nanoseconds), and whether it is
    /// asked for the first time.
    pub fn find(&mut self, thread: u32, began: u64) -> (&Thread, bool) {
        let new = self.told.insert(thread);
        let known = self.known.entry(thread);
        (known.or_insert_with(|| Thread::of(thread, began)), new)
    }

    /// A thread of which all is known; whether that is new, or has changed.
    pub fn meet(&mut self, thread: u32, as_it_is: &Thread) -> bool {
        let new = self.known.get(&thread) != Some(as_it_is);
        if new {
            self.known.insert(thread, as_it_is.clone());
        }
        new
    }

    /// All.
    pub fn into_known(self) -> BTreeMap<u32, Thread> {
        self.known
    }
}

impl Thread {
    fn of(thread: u32, began: u64) -> Thread {
        Thread::living(thread, began).unwrap_or(Thread {
            process: thread,
            process_name: None,
            name: None,
        })
    }

    /// `None` if the thread has gone, even if another thread has its number now.
    fn living(thread: u32, began: u64) -> Option<Thread> {
        let read = |id: u32, file: &str| fs::read_to_string(format!("/proc/{id}/{file}")).ok();
        let started = started(&read(thread, "stat")?)?;
        if started > began + ahead() {
            return None;
        }
        let status = read(thread, "status")?;
        let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
        let process = process.trim().parse().ok()?;
        let name = |id| Some(read(id, "comm")?.trim_end_matches('\n').to_owned());
        Some(Thread {
            process,
            process_name: name(process),
            name: name(thread),
        })
    }
}

/// Start of a thread, in nanoseconds since the machine was started, from its stat: the 20th word
/// after the name, in hundredths of a second.
fn started(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let hundredths: u64 = rest.split_whitespace().nth(19)?.parse().ok()?;
    hundredths.checked_mul(10_000_000)
}

/// Difference of the time since the machine was started and CLOCK_MONOTONIC, which stands still
/// while the machine sleeps.
fn ahead() -> u64 {
    now(ClockId::Boottime).saturating_sub(now(ClockId::Monotonic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lives_has_a_name_and_who_came_later_is_another() {
        let here = std::process::id();
        let mut threads = Threads::default();
        let (found, new) = threads.find(here, now(ClockId::Monotonic));
        assert!(new && found.name.is_some());
        assert_eq!((found.process, &found.process_name), (here, &found.name));
        assert!(!threads.find(here, 0).1);
        let before = Thread::of(here, 0);
        assert_eq!((before.process, before.name), (here, None));
    }

    #[test]
    fn names_may_have_blanks_and_brackets() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 152 1 2";
        assert_eq!(started(stat), Some(1_520_000_000));
        assert_eq!(started("7 (a"), None);
    }
}
