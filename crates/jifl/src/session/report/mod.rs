// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of a counting session, and their output: as a table for people, as one JSON object,
//! as CSV.

mod csv;
mod json;
mod kind;
mod text;

use jifl_sys::abi::{CAUSES, CAUSES_MAX, Kind, Status};
use serde::{Deserialize, Serialize};

use crate::session::recording::Warmed;

pub use text::cost;

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A table, and what it cost
    Text,
    /// One object on one line
    Json,
    /// One line for each target, a heading first
    Csv,
}

/// One system call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its number.
    pub nr: u32,
    /// Calls counted to their end.
    pub calls: u64,
    /// Instructions or blocks in all of them.
    pub sum: u64,
    /// Of one call.
    pub min: u64,
    /// Of one call.
    pub max: u64,
    /// Of one call; `None` when the session counts nothing inside calls.
    pub p50: Option<u64>,
    /// Of one call; `None` when the session counts nothing inside calls.
    pub p99: Option<u64>,
    /// Blocks translated for this call first.
    pub blocks: u64,
    /// Of these calls, those in which the task died.
    pub no_return: u64,
    /// Calls not counted.
    pub missed: u64,
    /// Buckets of the figures of calls, with their counts, without empty ones. Recordings of an
    /// earlier jifl have none.
    #[serde(default)]
    pub histogram: Vec<(usize, u64)>,
}

impl Row {
    /// A figure of one call.
    pub fn mean(&self) -> f64 {
        if self.calls == 0 {
            return 0.0;
        }
        self.sum as f64 / self.calls as f64
    }
}

/// What the session cost the module: differences of its totals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Time spent translating.
    pub translate_ns: u64,
    /// Blocks translated.
    pub blocks: u64,
    /// Instructions in these blocks.
    pub insns: u64,
    /// Causes that occurred and how often.
    pub native_exits: Vec<(String, u64)>,
    /// Other sessions ran meanwhile: the figures contain their cost, too.
    pub module_wide: bool,
}

impl Cost {
    /// What happened between two readings of the totals, the later one taken
    /// after the session ended.
    pub fn between(before: &Status, after: &Status) -> Cost {
        let since = |count: fn(&Status) -> u64| count(after).saturating_sub(count(before));
        let native_exits = (1..CAUSES_MAX)
            .map(|cause| {
                let count = after.native_exits[cause].saturating_sub(before.native_exits[cause]);
                (cause_name(cause), count)
            })
            .filter(|(_, count)| *count > 0)
            .collect();
        Cost {
            translate_ns: since(|status| status.translate_ns),
            blocks: since(|status| status.translated_blocks),
            insns: since(|status| status.translated_insns),
            native_exits,
            module_wide: before.sessions > 0 || after.sessions > 0,
        }
    }

    /// Subtracts what was translated before the session's calls, by `--warm`.
    pub fn leave_out(&mut self, warmed: &Warmed) {
        self.translate_ns = self.translate_ns.saturating_sub(warmed.translate_ns);
        self.blocks = self.blocks.saturating_sub(warmed.blocks);
        self.insns = self.insns.saturating_sub(warmed.insns);
    }

    /// Sum of all causes.
    pub fn exits(&self) -> u64 {
        self.native_exits.iter().map(|(_, count)| count).sum()
    }
}

/// The name of a cause; a number for one that a newer module added.
pub fn cause_name(cause: usize) -> String {
    CAUSES
        .get(cause)
        .map_or_else(|| format!("cause-{cause}"), |name| (*name).to_owned())
}

/// The whole report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The kind of the session.
    #[serde(with = "kind")]
    pub kind: Kind,
    /// Calls that were made or missed, the largest sum first.
    pub rows: Vec<Row>,
    /// Targets that this kernel does not have.
    pub absent: Vec<u32>,
    /// The session was ended from outside.
    pub cut_short: bool,
    /// The session's cost.
    pub cost: Cost,
    /// How long the session ran.
    pub duration_ns: u64,
    /// How long its end took.
    pub drain_ns: u64,
    /// Threads that were inside when it ended.
    pub draining: u32,
}

impl Report {
    /// Calls not counted.
    pub fn missed(&self) -> u64 {
        self.rows.iter().map(|row| row.missed).sum()
    }

    /// The text of the report, its last line ended, too. `width`: columns of the terminal, if
    /// it goes to one.
    pub fn render(&self, format: Format, width: Option<usize>) -> String {
        match format {
            Format::Text => text::render(self, width),
            Format::Json => json::render(self),
            Format::Csv => csv::render(self),
        }
    }

    /// Notes for standard error, for which the format has no place.
    pub fn notes(&self, format: Format) -> Option<String> {
        match format {
            Format::Csv => Some(text::cost(self)),
            Format::Text | Format::Json => None,
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A report of a short session without calls.
    pub fn empty(kind: Kind) -> Report {
        Report {
            kind,
            rows: Vec::new(),
            absent: Vec::new(),
            cut_short: false,
            cost: Cost::default(),
            duration_ns: 5,
            drain_ns: 0,
            draining: 0,
        }
    }

    /// A report with two calls.
    pub fn sample(kind: Kind) -> Report {
        let row = |name: &str, nr, calls, sum, p50, p99| Row {
            name: name.into(),
            nr,
            calls,
            sum,
            min: 100,
            max: 90_000,
            p50: Some(p50),
            p99: Some(p99),
            blocks: 2310,
            no_return: 1,
            missed: 0,
            histogram: Vec::new(),
        };
        Report {
            kind,
            rows: vec![
                row("clone", 56, 1204, 38_211_348, 30_912, 88_064),
                row("read", 0, 3, 2022, 674, 674),
            ],
            absent: Vec::new(),
            cut_short: false,
            cost: Cost {
                translate_ns: 41_000_000,
                blocks: 2400,
                insns: 13_000,
                native_exits: vec![("schedule".into(), 9), ("ud2".into(), 3)],
                module_wide: false,
            },
            duration_ns: 10_000_000_000,
            drain_ns: 1_200_000,
            draining: 2,
        }
    }

    #[test]
    fn cost_is_a_difference() {
        let mut before = Status {
            translate_ns: 5,
            translated_blocks: 100,
            ..Status::default()
        };
        let mut after = before;
        before.native_exits[1] = 1;
        after.native_exits[1] = 4;
        after.native_exits[20] = 2;
        after.translated_blocks = 150;
        let cost = Cost::between(&before, &after);
        assert_eq!((cost.blocks, cost.translate_ns), (50, 0));
        let expected = [("schedule".to_owned(), 3), ("cause-20".to_owned(), 2)];
        assert_eq!(cost.native_exits, expected);
        assert_eq!(cost.exits(), 5);
        assert!(!cost.module_wide);
    }
}
