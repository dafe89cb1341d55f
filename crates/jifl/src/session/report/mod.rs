// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of a counting session, and their output: as a table for people, as one JSON object,
//! as CSV.

mod csv;
mod json;
mod kind;
mod text;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jifl_sys::abi::{CAUSES, CAUSES_MAX, Kind, Status};
use serde::{Deserialize, Serialize};

use crate::session::recording::Warmed;
use crate::show::output;

pub use text::{adopted, cost};

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

/// One target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name. Of a function that users call by another name that one, with its kind.
    pub name: String,
    /// The number of a system call; `None`: it is a function.
    pub nr: Option<u32>,
    /// The module of a function; `None` for the kernel itself.
    #[serde(default)]
    pub module: Option<String>,
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
    /// Of these, how many for each cause that occurred. Recordings of an earlier jifl have none.
    #[serde(default)]
    pub missed_by: Vec<(String, u64)>,
    /// Calls that had begun before the session, and are not in `calls`.
    #[serde(default)]
    pub adopted: u64,
    /// Instructions or blocks in those of them that have ended.
    #[serde(default)]
    pub adopted_sum: u64,
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

    /// The order of reports: the largest sum first, then the most calls.
    pub fn order(&self, other: &Row) -> Ordering {
        let largest = (other.sum, other.calls).cmp(&(self.sum, self.calls));
        let name = || (self.nr, &self.name, &self.module);
        largest.then_with(|| name().cmp(&(other.nr, &other.name, &other.module)))
    }

    /// Is it about the same target?
    pub fn is_of_same(&self, other: &Row) -> bool {
        self.nr == other.nr
            && (self.nr.is_some() || (&self.name, &self.module) == (&other.name, &other.module))
    }

    /// Its name, with the module of a function.
    pub fn shown(&self) -> String {
        match &self.module {
            Some(module) => format!("{} [{module}]", self.name),
            None => self.name.clone(),
        }
    }

    /// In the notation of targets.
    pub fn target(&self) -> String {
        match (self.nr, &self.module) {
            (Some(_), _) => format!("sys:{}", self.name),
            // A function that users call by another name has its kind in it: softirq:NET_RX.
            (None, None) if self.name.contains(':') => self.name.clone(),
            (None, Some(module)) => format!("fn:{}@{module}", self.name),
            (None, None) => format!("fn:{}", self.name),
        }
    }
}

/// The functions among the targets of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Functions {
    /// How many were entered.
    pub entered: u64,
    /// How many were left out, for each reason.
    pub left_out: Vec<(String, u64)>,
}

/// The tasks that were inside a function when the session started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// How many went on in the cache.
    pub tasks: u64,
    /// How many went on natively, for each reason.
    pub left: Vec<(String, u64)>,
}

/// What the targets of a session are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Species {
    /// System calls alone.
    Syscalls,
    /// Functions alone.
    Functions,
    /// Both.
    Both,
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
    /// System calls that this kernel does not have.
    pub absent: Vec<u32>,
    /// The functions among the targets; `None` if all targets are system calls.
    #[serde(default)]
    pub functions: Option<Functions>,
    /// Of the tasks that were inside a function; `None`: they were not asked for.
    #[serde(default)]
    pub adoption: Option<Adoption>,
    /// The session was ended from outside.
    pub cut_short: bool,
    /// The session's cost.
    pub cost: Cost,
    /// How long the session ran.
    pub duration_ns: u64,
    /// How long its start took. Recordings of an earlier jifl do not say it.
    #[serde(default)]
    pub start_ns: u64,
    /// How long its end took, with all that was taken away. Recordings of an earlier jifl do not
    /// say it.
    #[serde(default)]
    pub end_ns: u64,
    /// How long its threads took to leave.
    pub drain_ns: u64,
    /// Threads that were inside when it ended.
    pub draining: u32,
}

impl Report {
    /// Says what is to be known beside the data: that others have ended the session.
    pub fn note_cut(&self) {
        if self.cut_short {
            output::note(
                "jifl: the session was ended from outside (`jifl detach`); this is what it had \
                 counted",
            );
        }
    }

    /// The same, and that nobody has called a target.
    pub fn note(&self) {
        self.note_cut();
        if self.rows.is_empty() {
            output::note("jifl: no task that the filters select called any of the targets");
        }
    }

    /// Calls not counted.
    pub fn missed(&self) -> u64 {
        self.rows.iter().map(|row| row.missed).sum()
    }

    /// Calls not counted, by the causes that occurred, the most frequent first.
    pub fn missed_by(&self) -> Vec<(String, u64)> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (cause, count) in self.rows.iter().flat_map(|row| &row.missed_by) {
            let sum = sums.entry(cause).or_default();
            *sum = sum.saturating_add(*count);
        }
        let mut all: Vec<(String, u64)> = sums
            .into_iter()
            .map(|(cause, count)| (cause.to_owned(), count))
            .collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }

    /// What its targets are.
    pub fn species(&self) -> Species {
        let has_syscalls = self.rows.iter().any(|row| row.nr.is_some()) || !self.absent.is_empty();
        match (&self.functions, has_syscalls) {
            (None, _) => Species::Syscalls,
            (Some(_), false) => Species::Functions,
            (Some(_), true) => Species::Both,
        }
    }

    /// The text of the report, its last line ended, too. `lines`: how many rows a table has that is
    /// about functions. `width`: columns of the terminal, if it goes to one.
    pub fn render(&self, format: Format, lines: usize, width: Option<usize>) -> String {
        match format {
            Format::Text => text::render(self, lines, width),
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
            functions: None,
            adoption: None,
            cut_short: false,
            cost: Cost::default(),
            duration_ns: 5,
            start_ns: 0,
            end_ns: 0,
            drain_ns: 0,
            draining: 0,
        }
    }

    /// A report with two calls.
    pub fn sample(kind: Kind) -> Report {
        let row = |name: &str, nr, calls, sum, p50, p99| Row {
            name: name.into(),
            nr: Some(nr),
            module: None,
            calls,
            sum,
            min: 100,
            max: 90_000,
            p50: Some(p50),
            p99: Some(p99),
            blocks: 2310,
            no_return: 1,
            missed: 0,
            missed_by: Vec::new(),
            adopted: 0,
            adopted_sum: 0,
            histogram: Vec::new(),
        };
        Report {
            kind,
            rows: vec![
                row("clone", 56, 1204, 38_211_348, 30_912, 88_064),
                row("read", 0, 3, 2022, 674, 674),
            ],
            absent: Vec::new(),
            functions: None,
            adoption: None,
            cut_short: false,
            cost: Cost {
                translate_ns: 41_000_000,
                blocks: 2400,
                insns: 13_000,
                native_exits: vec![("schedule".into(), 9), ("ud2".into(), 3)],
                module_wide: false,
            },
            duration_ns: 10_000_000_000,
            start_ns: 3_000_000,
            end_ns: 2_000_000,
            drain_ns: 1_200_000,
            draining: 2,
        }
    }

    /// A report with two functions, one of which is a module's.
    pub fn of_functions(kind: Kind) -> Report {
        let mut report = sample(kind);
        for (row, (name, module)) in report
            .rows
            .iter_mut()
            .zip([("vfs_read", None), ("ext4_sync_file", Some("ext4"))])
        {
            row.name = name.into();
            row.nr = None;
            row.module = module.map(str::to_owned);
        }
        report.functions = Some(Functions {
            entered: 12,
            left_out: vec![("JIFL itself needs it".into(), 3)],
        });
        report
    }

    #[test]
    fn what_targets_are_is_known_without_calls() {
        let mut report = of_functions(Kind::Call);
        assert_eq!(report.species(), Species::Functions);
        report.rows.clear();
        assert_eq!(report.species(), Species::Functions);
        report.absent.push(462);
        assert_eq!(report.species(), Species::Both);
        assert_eq!(empty(Kind::Call).species(), Species::Syscalls);
    }

    #[test]
    fn functions_are_the_same_by_name_and_module() {
        let [a, b] = of_functions(Kind::Call).rows.try_into().unwrap();
        let mut other = b.clone();
        assert!(b.is_of_same(&other) && !a.is_of_same(&b));
        assert_eq!(a.target(), "fn:vfs_read");
        assert_eq!(b.target(), "fn:ext4_sync_file@ext4");
        other.module = None;
        assert!(!b.is_of_same(&other));
        assert_eq!(a.order(&b), Ordering::Less);
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
