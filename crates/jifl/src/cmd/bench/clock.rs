// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clocks: instructions, on machines whose time stamp counter counts them, and time. Both are
//! read from the processor's time stamp counter. The third clock is the front end's model
//! (front_end.rs).

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
    /// Mispredicted returns, misses and taken branches, as a model counts them
    FrontEnd,
}

impl Clock {
    /// Its name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Instructions => "instructions",
            Clock::Time => "time",
            Clock::FrontEnd => "front-end",
        }
    }

    /// Unit of single costs.
    pub fn unit(self) -> &'static str {
        match self {
            Clock::Instructions => "instructions",
            Clock::Time => "ns",
            Clock::FrontEnd => "events",
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
    /// A stopwatch for this clock. For time, it measures the counter's frequency, which takes a
    /// moment.
    pub fn new(clock: Clock) -> Stopwatch {
        let scale = match clock {
            Clock::Instructions | Clock::FrontEnd => 1.0,
            Clock::Time => nanoseconds_per_tick(),
        };
        Stopwatch { scale }
    }

    /// The cost of `work`.
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

/// The clock that can be used here, and a line if another was asked for.
///
/// `wanted` is `None`: the clock that this machine has. `counts`: this machine's clock counts
/// instructions.
pub fn usable(wanted: &[Clock], counts: bool) -> (Clock, Option<String>) {
    if counts {
        let why = "time: this machine's clock counts instructions, which are measured instead";
        let line = wanted.contains(&Clock::Time).then(|| why.to_owned());
        return (Clock::Instructions, line);
    }
    let why = "instructions: this machine's clock does not count them (that of `jifl vm --icount` \
               does); time is measured";
    let line = wanted
        .contains(&Clock::Instructions)
        .then(|| why.to_owned());
    (Clock::Time, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_said_in_one_line_and_the_rest_runs() {
        use Clock::{Instructions, Time};
        for (wanted, counts, clock, line) in [
            (&[][..], true, Instructions, false),
            (&[], false, Time, false),
            (&[Instructions], true, Instructions, false),
            (&[Instructions], false, Time, true),
            (&[Instructions, Time], false, Time, true),
            (&[Time], true, Instructions, true),
            (&[Time], false, Time, false),
        ] {
            let (usable, said) = usable(wanted, counts);
            assert_eq!(usable, clock, "{wanted:?} {counts}");
            assert_eq!(said.is_some(), line, "{wanted:?} {counts}");
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
