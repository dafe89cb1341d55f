// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the processors' time stamp counters to the time.

use jifl_sys::abi::{RECORD_CLOCK, Record, record_words};

use crate::session::ring::{Taken, pieces::time_of};

/// A CPU's time stamp counter at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The CPU's index among those given.
    pub cpu: usize,
    /// The counter.
    pub tsc: u64,
}

/// Values of each CPU's counter at known times.
pub struct Clocks {
    /// Counter and nanoseconds, both ascending.
    known: Vec<Vec<(u64, u64)>>,
    /// Nanoseconds of a tick. One for all CPUs, as in the kernel (`tsc_khz`).
    tick: Option<f64>,
}

impl Clocks {
    /// Finds clocks from the records of times that have a counter behind them.
    pub fn of(taken: &Taken) -> Clocks {
        Clocks::new(taken.each().map(known).collect())
    }

    /// A virtual processor may rest after it has read the time and before it reads the counter.
    /// Then this pair is wrong by the length of the rest. So the median of many pairs, far apart,
    /// is taken.
    fn new(known: Vec<Vec<(u64, u64)>>) -> Clocks {
        let mut ticks: Vec<f64> = known
            .iter()
            .flat_map(|one| one.iter().zip(&one[one.len().div_ceil(2)..]))
            .map(|((tsc0, time0), (tsc1, time1))| (time1 - time0) as f64 / (tsc1 - tsc0) as f64)
            .collect();
        ticks.sort_by(f64::total_cmp);
        let tick = ticks.get(ticks.len() / 2).copied();
        Clocks { known, tick }
    }

    /// The time of a stamp, in nanoseconds; `None` before the first known time of its CPU.
    pub fn time(&self, stamp: Stamp) -> Option<u64> {
        let known = self.known.get(stamp.cpu)?;
        let behind = known.partition_point(|(tsc, _)| *tsc <= stamp.tsc);
        let (tsc, time) = known[behind.checked_sub(1)?];
        Some(time + self.length(stamp.tsc - tsc)?)
    }

    /// The time between two stamps, in nanoseconds.
    pub fn between(&self, from: Stamp, to: Stamp) -> Option<u64> {
        if from.cpu == to.cpu {
            return self.length(to.tsc.checked_sub(from.tsc)?);
        }
        Some(self.time(to)?.saturating_sub(self.time(from)?))
    }

    fn length(&self, ticks: u64) -> Option<u64> {
        Some((ticks as f64 * self.tick?) as u64)
    }
}

/// The times of one CPU.
fn known(records: &[Record]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    let mut time = None;
    let mut at = 0;
    while let Some(record) = records.get(at) {
        if record.what == RECORD_CLOCK
            && let (Some(time), Some(word)) = (time, records.get(at + 1))
        {
            let tsc = word.word();
            if all.last().is_none_or(|last| last.0 < tsc && last.1 <= time) {
                all.push((tsc, time));
            }
        }
        time = time_of(record);
        at += 1 + record_words(record.what);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_times() {
        let clocks = Clocks::new(vec![
            // The third sample is late.
            vec![
                (1000, 50),
                (3000, 1050),
                (9000, 2050),
                (9500, 4300),
                (11000, 5050),
            ],
            vec![(5, 5)],
            Vec::new(),
        ]);
        let stamp = |cpu, tsc| Stamp { cpu, tsc };
        let times = [(0, 1000), (0, 2000), (0, 999), (1, 7), (2, 7), (3, 7)];
        assert_eq!(
            times.map(|(cpu, tsc)| clocks.time(stamp(cpu, tsc))),
            [Some(50), Some(550), None, Some(6), None, None]
        );
        assert_eq!(clocks.between(stamp(0, 2000), stamp(0, 10000)), Some(4000));
        assert_eq!(clocks.between(stamp(1, 15), stamp(0, 2000)), Some(540));
    }
}
