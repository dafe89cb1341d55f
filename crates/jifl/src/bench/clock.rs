// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two clocks: instructions, where the machine's counts them, and time.
//! Both are the processor's time stamp counter.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use jifl_sys::cpu;

/// What costs are measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Clock {
    /// Exact and repeatable, in a machine whose clock counts them
    Instructions,
    /// Whatever the machine's clock shows
    Time,
}

impl Clock {
    /// Its name, in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Instructions => "instructions",
            Clock::Time => "time",
        }
    }

    /// Of single costs.
    pub fn unit(self) -> &'static str {
        match self {
            Clock::Instructions => "instructions",
            Clock::Time => "ns",
        }
    }
}

/// Reads the clock.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    /// Units for each tick of the counter.
    scale: f64,
}

impl Stopwatch {
    /// For this clock. Takes a moment: for time, the counter's frequency is measured.
    pub fn new(clock: Clock) -> Stopwatch {
        let scale = match clock {
            Clock::Instructions => 1.0,
            Clock::Time => nanoseconds_per_tick(),
        };
        Stopwatch { scale }
    }

    /// What `work` costs.
    pub fn of<T>(&self, work: impl FnOnce() -> T) -> (f64, T) {
        let start = cpu::ticks();
        let result = work();
        let ticks = cpu::ticks().wrapping_sub(start);
        (ticks as f64 * self.scale, result)
    }
}

fn nanoseconds_per_tick() -> f64 {
    let (began, start) = (Instant::now(), cpu::ticks());
    while began.elapsed() < Duration::from_millis(50) {}
    let ticks = cpu::ticks().wrapping_sub(start).max(1);
    began.elapsed().as_nanos() as f64 / ticks as f64
}

/// The clocks that can be used here, and one line for each that was asked for
/// and cannot. Time is always there, but tells nothing where it is instructions:
/// it is left out there unless it alone was asked for.
///
/// `wanted` none: all.
pub fn usable(wanted: &[Clock], counts: bool) -> (Vec<Clock>, Vec<String>) {
    let asked = |clock| wanted.contains(&clock);
    if counts {
        if wanted == [Clock::Time] {
            let why = "time: this machine's clock counts instructions, which are measured instead";
            return (vec![Clock::Instructions], vec![why.into()]);
        }
        return (vec![Clock::Instructions], Vec::new());
    }
    let why = "instructions: this machine's clock does not count them (`jifl bench` without \
               --here, or `jifl vm --icount`, has one that does); time is measured";
    let lines = if asked(Clock::Instructions) {
        vec![why.into()]
    } else {
        Vec::new()
    };
    (vec![Clock::Time], lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_said_in_one_line_and_the_rest_runs() {
        use Clock::{Instructions, Time};
        for (wanted, counts, clocks, lines) in [
            (&[][..], true, [Instructions], 0),
            (&[], false, [Time], 0),
            (&[Instructions], true, [Instructions], 0),
            (&[Instructions], false, [Time], 1),
            (&[Instructions, Time], false, [Time], 1),
            (&[Time], true, [Instructions], 1),
            (&[Time], false, [Time], 0),
        ] {
            let (usable, said) = usable(wanted, counts);
            assert_eq!(usable, clocks, "{wanted:?} {counts}");
            assert_eq!(said.len(), lines, "{wanted:?} {counts}");
            assert!(said.iter().all(|line| !line.contains('\n')));
        }
    }

    #[test]
    fn time_passes() {
        let (cost, ()) = Stopwatch::new(Clock::Time).of(|| {
            std::thread::sleep(Duration::from_millis(5));
        });
        assert!(cost > 1e6, "{cost}");
    }
}
