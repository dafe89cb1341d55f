// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is counted of a call path.

use serde::Serialize;

/// Values of one call path, without those of what it calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Own {
    /// How often the path was entered.
    pub calls: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Time from entry to return.
    pub wall_ns: u64,
    /// Part of that time: waiting for something.
    pub blocked_ns: u64,
    /// Part of that time: ready to run, without a processor.
    pub runnable_ns: u64,
}

/// One of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Metric {
    /// Instructions executed
    Insn,
    /// Time from entry to return
    Wall,
    /// Time on a processor
    Cpu,
    /// Time waiting for something
    Blocked,
    /// Time ready to run, without a processor
    Runnable,
    /// Calls
    Calls,
}

impl Metric {
    /// The value of a path.
    pub fn of(self, own: &Own) -> u64 {
        let off = own.blocked_ns.saturating_add(own.runnable_ns);
        match self {
            Metric::Insn => own.instructions,
            Metric::Wall => own.wall_ns,
            Metric::Cpu => own.wall_ns.saturating_sub(off),
            Metric::Blocked => own.blocked_ns,
            Metric::Runnable => own.runnable_ns,
            Metric::Calls => own.calls,
        }
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Insn => "insn",
            Metric::Wall => "wall",
            Metric::Cpu => "cpu",
            Metric::Blocked => "blocked",
            Metric::Runnable => "runnable",
            Metric::Calls => "calls",
        }
    }

    /// The name in headings.
    pub fn title(self) -> &'static str {
        match self {
            Metric::Insn => "Instructions",
            Metric::Wall => "Wall time",
            Metric::Cpu => "Processor time",
            Metric::Blocked => "Blocked time",
            Metric::Runnable => "Runnable time",
            Metric::Calls => "Calls",
        }
    }

    /// The title of a column.
    pub fn column(self) -> &'static str {
        match self {
            Metric::Insn => "INSNS",
            Metric::Wall => "WALL NS",
            Metric::Cpu => "CPU NS",
            Metric::Blocked => "BLOCKED NS",
            Metric::Runnable => "RUNNABLE NS",
            Metric::Calls => "ALL CALLS",
        }
    }

    /// What one is.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::Insn => "instructions",
            Metric::Calls => "calls",
            Metric::Wall | Metric::Cpu | Metric::Blocked | Metric::Runnable => "nanoseconds",
        }
    }

    /// Is it a time?
    pub fn is_time(self) -> bool {
        self.unit() == "nanoseconds"
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn processor_time_is_what_is_left_of_wall_time() {
        let own = |wall_ns| Own {
            wall_ns,
            blocked_ns: 30,
            runnable_ns: 20,
            ..Own::default()
        };
        assert_eq!(Metric::Cpu.of(&own(60)), 10);
        assert_eq!(Metric::Cpu.of(&own(40)), 0, "clocks may differ a little");
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for metric in Metric::value_variants() {
            let value = metric.to_possible_value().unwrap();
            assert_eq!(value.get_name(), metric.name());
        }
    }
}
