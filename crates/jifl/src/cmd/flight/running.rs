// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which thread runs on each CPU, from one switch to the next, and where records are missing.
//!
//! The records of a CPU have numbers. Where one is missing it is not known what ran: that ends what
//! ran there, and what runs from then on is known with the next switch. What runs at the first
//! record is known if the next switch is that of the same thread.

use crate::session::flight::{Entry, Flight};

/// A thread that ran on a CPU; 0: the CPU was idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    pub cpu: usize,
    pub thread: u32,
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub since: u64,
    /// Likewise, and later.
    pub until: u64,
}

impl Ran {
    fn of(cpu: usize, now: Now, until: u64) -> Option<Ran> {
        let (thread, since) = (now.thread, now.since);
        (since < until).then_some(Ran {
            cpu,
            thread,
            since,
            until,
        })
    }

    /// How long.
    pub fn time(&self) -> u64 {
        self.until - self.since
    }
}

/// What seems to run.
#[derive(Clone, Copy)]
struct Now {
    thread: u32,
    since: u64,
    /// A switch says so.
    is_sure: bool,
}

#[derive(Clone, Copy, Default)]
struct Cpu {
    now: Option<Now>,
    /// The number of the next record.
    next: u64,
    /// The time of the newest one.
    latest: u64,
}

impl Cpu {
    /// What ran up to the newest record.
    fn end(&mut self, cpu: usize) -> Option<Ran> {
        let now = self.now.take().filter(|now| now.is_sure)?;
        Ran::of(cpu, now, self.latest)
    }
}

/// All CPUs. It is given every record in the order of a recording.
pub struct Running(Vec<Cpu>);

impl Running {
    /// Before the first record.
    pub fn new(cpus: usize) -> Running {
        Running(vec![Cpu::default(); cpus])
    }

    /// Takes a record. The result is what ran up to records that are missing before it.
    pub fn record(&mut self, entry: &Entry, time: u64) -> Option<Ran> {
        let cpu = usize::from(entry.raw.cpu);
        let of = &mut self.0[cpu];
        let ended = match entry.number == of.next {
            true => None,
            false => of.end(cpu),
        };
        of.next = entry.number + 1;
        of.latest = of.latest.max(time);
        of.now.get_or_insert(Now {
            thread: entry.raw.tid,
            since: time,
            is_sure: false,
        });
        ended
    }

    /// The record that was just taken is a switch to `next`. The result is what ran up to it.
    pub fn switch(&mut self, entry: &Entry, time: u64, next: u32) -> Option<Ran> {
        let cpu = usize::from(entry.raw.cpu);
        let now = self.0[cpu].now.replace(Now {
            thread: next,
            since: time,
            is_sure: true,
        });
        // Switches were not recorded for a time if another thread runs than the last one says.
        let now = now.filter(|now| now.thread == entry.raw.tid)?;
        Ran::of(cpu, now, time)
    }

    /// What runs at the end of the recording.
    pub fn end(&mut self) -> Vec<Ran> {
        let cpus = self.0.iter_mut().enumerate();
        cpus.filter_map(|(cpu, of)| of.end(cpu)).collect()
    }
}

/// The times from which records of some CPU are missing. What goes over such a time is not known:
/// a thread can have been on that CPU.
pub struct Gaps(Vec<(u64, u64)>);

impl Gaps {
    /// Those of a recording. All that was before the oldest record of a CPU is one, and what comes
    /// behind its last one if its newest records cannot be read.
    pub fn of(flight: &Flight) -> Gaps {
        let mut cpus = vec![Cpu::default(); flight.begun.len()];
        let mut all: Vec<(u64, u64)> = Vec::new();
        for entry in &flight.entries {
            let of = &mut cpus[usize::from(entry.raw.cpu)];
            let time = flight.time(entry);
            if entry.number != of.next && time > of.latest {
                all.push((of.latest, time));
            }
            of.next = entry.number + 1;
            of.latest = of.latest.max(time);
        }
        for ((of, begun), counts) in cpus.iter().zip(&flight.begun).zip(&flight.counts) {
            if counts.unknown_cpus > 0 {
                all.push((0, u64::MAX));
            } else if of.next != *begun {
                all.push((of.latest, u64::MAX));
            }
        }
        all.sort_unstable();
        all.dedup_by(|next, gap| {
            let is_one = next.0 <= gap.1;
            if is_one {
                gap.1 = gap.1.max(next.1);
            }
            is_one
        });
        Gaps(all)
    }

    /// Are all records of this time there?
    pub fn has_none(&self, since: u64, until: u64) -> bool {
        let next = self.0.partition_point(|gap| gap.1 <= since);
        self.0.get(next).is_none_or(|gap| gap.0 >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::flight::made::{MONOTONIC, Made, SOFTIRQ, SWITCH, switch};

    /// What ran: CPU, thread, since when and until when after the head's moment.
    fn ran(made: &Made) -> Vec<(usize, u32, u64, u64)> {
        let flight = Flight::read(&mut made.region()).unwrap();
        let mut running = Running::new(flight.begun.len());
        let mut all = Vec::new();
        for entry in &flight.entries {
            let time = flight.time(entry);
            all.extend(running.record(entry, time));
            if entry.raw.event == SWITCH {
                all.extend(running.switch(entry, time, entry.raw.arg[1] as u32));
            }
        }
        all.extend(running.end());
        let short = |ran: &Ran| {
            let [since, until] = [ran.since, ran.until].map(|time| time - MONOTONIC);
            (ran.cpu, ran.thread, since, until)
        };
        all.iter().map(short).collect()
    }

    #[test]
    fn what_runs_first_is_known_with_its_switch() {
        let mut made = Made::new(2, 64);
        made.put(0, 10, SOFTIRQ, 101, &[1])
            .put(1, 10, SOFTIRQ, 102, &[1]);
        made.put(0, 20, SOFTIRQ, 101, &[1])
            .put(1, 20, SOFTIRQ, 103, &[1]);
        assert_eq!(ran(&made), []);
        made.put(0, 30, SWITCH, 101, &switch(1, 0, "swapper/0"));
        made.put(0, 50, SOFTIRQ, 0, &[1]);
        // Another one than at its first record.
        made.put(1, 60, SWITCH, 103, &switch(1, 104, "dd"));
        made.put(1, 70, SOFTIRQ, 104, &[1]);
        assert_eq!(
            ran(&made),
            [(0, 101, 10, 30), (0, 0, 30, 50), (1, 104, 60, 70)]
        );
    }

    #[test]
    fn nothing_runs_over_what_is_missing() {
        let mut made = Made::new(1, 64);
        made.put(0, 10, SWITCH, 0, &switch(0, 101, "tar"))
            .put(0, 20, SOFTIRQ, 101, &[1])
            .begin(0)
            .put(0, 90, SWITCH, 102, &switch(1, 103, "cc1"))
            .put(0, 95, SOFTIRQ, 103, &[1]);
        assert_eq!(ran(&made), [(0, 101, 10, 20), (0, 103, 90, 95)]);
        let gaps = Gaps::of(&Flight::read(&mut made.region()).unwrap());
        let has_none = |since, until| gaps.has_none(MONOTONIC + since, MONOTONIC + until);
        assert!(has_none(10, 20) && has_none(90, 95));
        assert!(!has_none(10, 21) && !has_none(20, 90) && !has_none(89, 95));
        assert!(!has_none(30, 40) && !has_none(5, 100));
    }

    #[test]
    fn what_was_overwritten_is_a_gap() {
        let mut made = Made::new(2, 64);
        for n in 0..70 {
            made.put(0, n, SOFTIRQ, 1, &[1]);
        }
        made.put(1, 1, SOFTIRQ, 2, &[1]);
        let gaps = Gaps::of(&Flight::read(&mut made.region()).unwrap());
        assert!(!gaps.has_none(MONOTONIC + 1, MONOTONIC + 10));
        assert!(gaps.has_none(MONOTONIC + 6, MONOTONIC + 69));
    }
}
