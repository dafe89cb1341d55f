// SPDX-License-Identifier: MIT OR Apache-2.0
//! The protocol: what clients and the daemon say to each other, as JSON. docs/serve.md describes
//! it. Both ends of this program use these types.

use std::collections::BTreeMap;

use jifl_sys::abi::{TARGETS_MAX, TIMES_ELAPSED, TIMES_MISSED, TIMES_UNWATCHED, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::audit::told;
use crate::base::exit::Failure;
use crate::cmd::stat::distribution::{self, Distributions};
use crate::cmd::stat::metric::{Metric, wall};
use crate::cmd::stat::sheet::{Counted, Keys, Row};

/// It changes when a client of before would not understand the daemon.
pub const VERSION: u32 = 1;
/// A function of a session, without figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its number in the session; several functions may have one name.
    pub row: usize,
    /// Its name.
    pub function: String,
    /// Its module; none: the kernel.
    pub module: Option<String>,
    /// The functions that it calls directly, as words; where the order asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Vec<String>>,
}

/// The answer to an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// The session's number here.
    pub id: u64,
    /// Its number in the module, as `jifl status` shows it.
    pub session: u64,
    /// From one event to the next.
    pub interval_ms: u64,
    /// Its functions.
    pub functions: Vec<Named>,
    /// What was left out of the order; empty: nothing.
    pub left_out: String,
    /// What calls are about is called so, if the order says by what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

/// Of one function, all that was counted since the session began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Figures {
    pub row: usize,
    pub function: String,
    pub module: Option<String>,
    pub calls: u64,
    pub wall_ns: u64,
    pub cpu_ns: u64,
    pub blocked_ns: u64,
    pub runnable_ns: u64,
    pub inside: u64,
    pub adopted: u64,
    pub died: u64,
    pub jumped: u64,
    pub strays: u64,
    pub elapsed_ns: u64,
    /// Of each tracepoint and variable of the metrics, in their order.
    #[serde(default)]
    pub counted: Vec<u64>,
    /// Of those of them that are distributions: how many values, by their number of bits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub distributions: BTreeMap<usize, Vec<u64>>,
    /// What the calls are about, if the order says by what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Keys>,
    /// The metrics, of the interval that ended now.
    pub metrics: BTreeMap<String, Json>,
}

/// The data of the events `rows` and `end`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// Nanoseconds since the session began.
    pub elapsed_ns: u64,
    /// Times that a task found no room, and was not looked at.
    pub unwatched: u64,
    /// Beginnings and ends of calls that were not seen.
    pub missed: u64,
    /// Calls about what found no room.
    #[serde(default, skip_serializing_if = "is_none")]
    pub refused: u64,
    /// Functions in which somebody was; or what their calls were about.
    pub functions: Vec<Figures>,
    /// Of the event `end`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<EndOf>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_none(number: &u64) -> bool {
    *number == 0
}

/// How a session ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndOf {
    /// Why: `time`, `deleted`, `left`, `outside`, `daemon`.
    pub why: String,
    /// Nanoseconds that its start took.
    pub start_ns: u64,
    /// Nanoseconds that its end took.
    pub end_ns: u64,
    /// It ended from outside.
    pub cut_short: bool,
}

/// What a request was refused for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// One line: cause and way out.
    pub error: String,
    /// The exit status that the command has for it.
    pub exit: u8,
}

impl Refusal {
    /// For a failure.
    pub fn of(failure: &Failure) -> Refusal {
        Refusal {
            error: told(&failure.message),
            exit: failure.status,
        }
    }
}

/// The functions of a session, as the protocol has them.
pub fn named(rows: &[Row]) -> Vec<Named> {
    let one = |row: &Row| Named {
        row: row.target,
        function: row.function.clone(),
        module: row.module.clone(),
        below: None,
    };
    rows.iter().map(one).collect()
}

impl Rows {
    /// All that was counted until `now`; `before`: when the interval began.
    pub fn of(rows: &[Row], metrics: &[Metric], now: &Counted, before: &Counted) -> Rows {
        let since = now.since(before);
        let figures = |row: &Row| {
            let time = now.times.get(row.target).copied().unwrap_or_default();
            let interval = since.times.get(row.target).copied().unwrap_or_default();
            row.is_used(&time).then(|| {
                let mut one = Figures::of(row, &time, metrics, &interval);
                one.distribute(metrics, now, &since);
                one
            })
        };
        Rows {
            elapsed_ns: now.rest[TIMES_ELAPSED],
            unwatched: now.rest[TIMES_UNWATCHED],
            missed: now.rest[TIMES_MISSED],
            refused: now.refused,
            functions: rows.iter().filter_map(figures).collect(),
            end: None,
        }
    }

    /// Refuses what no session has: each number takes memory here.
    ///
    /// # Errors
    ///
    /// One line, if a row's number is too high.
    pub fn believed(self) -> Result<Rows, String> {
        match self.functions.iter().find(|one| one.row >= TARGETS_MAX) {
            Some(one) => Err(format!(
                "the daemon tells of a row {}, and a session has at most {TARGETS_MAX}; is it of \
                 another version?",
                one.row
            )),
            None => Ok(self),
        }
    }

    /// The same as the module tells it: by target. Functions that are not there have nothing.
    /// Of rows that are believed.
    pub fn counted(&self) -> Counted {
        let most = self.functions.iter().map(|one| one.row + 1).max();
        let mut times = vec![Time::default(); most.unwrap_or(0)];
        for one in &self.functions {
            if let Some(time) = times.get_mut(one.row) {
                *time = one.time();
            }
        }
        let mut distributions = Distributions::default();
        for one in &self.functions {
            for (counter, counts) in &one.distributions {
                let of = |at| counts.get(at).copied().unwrap_or(0);
                distributions.put(one.row, *counter, std::array::from_fn(of));
            }
        }
        let mut rest = [0; 3];
        rest[TIMES_ELAPSED] = self.elapsed_ns;
        rest[TIMES_UNWATCHED] = self.unwatched;
        rest[TIMES_MISSED] = self.missed;
        Counted {
            times,
            rest,
            refused: self.refused,
            distributions,
            ..Counted::default()
        }
    }

    /// What the figures are about, if that is other than functions.
    pub fn rows(&self) -> Option<Vec<Row>> {
        let each = self.functions.iter();
        let row = |one: &Figures| {
            Some(Row {
                function: one.function.clone(),
                module: one.module.clone(),
                target: one.row,
                keys: one.by.clone()?,
                ..Row::default()
            })
        };
        let rows: Vec<Row> = each.filter_map(row).collect();
        (!rows.is_empty()).then_some(rows)
    }
}

impl Figures {
    fn of(row: &Row, time: &Time, metrics: &[Metric], interval: &Time) -> Figures {
        let metrics = metrics.iter();
        Figures {
            row: row.target,
            function: row.function.clone(),
            module: row.module.clone(),
            calls: time.calls,
            wall_ns: wall(time),
            cpu_ns: time.cpu_ns,
            blocked_ns: time.blocked_ns,
            runnable_ns: time.runnable_ns,
            inside: time.inside,
            adopted: time.adopted,
            died: time.died,
            jumped: time.jumped,
            strays: time.strays,
            elapsed_ns: time.elapsed_ns,
            counted: time.counted.to_vec(),
            distributions: BTreeMap::new(),
            by: (!row.keys.shown.is_empty()).then(|| row.keys.clone()),
            metrics: metrics
                .map(|one| (one.name.clone(), one.of(interval).json()))
                .collect(),
        }
    }

    /// Its distributions: until now, and, among the metrics, of the interval.
    fn distribute(&mut self, metrics: &[Metric], now: &Counted, since: &Counted) {
        for (counter, buckets) in now.distributions.of_row(self.row) {
            let used = buckets.iter().rposition(|count| *count > 0);
            let used = buckets[..used.map_or(0, |at| at + 1)].to_vec();
            self.distributions.insert(counter, used);
        }
        for metric in metrics {
            if let Some(at) = metric.distribution() {
                let buckets = since.distributions.of(self.row, at);
                let value = distribution::json(&buckets);
                self.metrics.insert(metric.name.clone(), value);
            }
        }
    }

    fn time(&self) -> Time {
        Time {
            calls: self.calls,
            adopted: self.adopted,
            inside: self.inside,
            died: self.died,
            jumped: self.jumped,
            strays: self.strays,
            cpu_ns: self.cpu_ns,
            blocked_ns: self.blocked_ns,
            runnable_ns: self.runnable_ns,
            elapsed_ns: self.elapsed_ns,
            counted: std::array::from_fn(|at| self.counted.get(at).copied().unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_comes_over_whole() {
        let row = |function: &str, target| Row {
            function: function.into(),
            module: None,
            address: 0xffff_ffff_8100_0000,
            target,
            ..Row::default()
        };
        let time = |calls| Time {
            calls,
            cpu_ns: 10 * calls,
            blocked_ns: calls,
            elapsed_ns: 1000,
            counted: [1, 2, 3, 4],
            ..Time::default()
        };
        let now = Counted {
            times: vec![time(7), Time::default(), time(9)],
            rest: [1000, 2, 3],
            ..Counted::default()
        };
        let before = Counted {
            times: vec![time(3)],
            rest: [400, 0, 0],
            ..Counted::default()
        };
        let metrics = Metric::list("calls,wall/calls", &mut Vec::new()).unwrap();
        let rows = [row("f", 0), row("g", 1), row("h", 2)];
        let sent = Rows::of(&rows, &metrics, &now, &before);
        let text = serde_json::to_string(&sent).unwrap();
        assert!(!text.contains("ffffffff8"), "no address leaves: {text}");
        let got: Rows = serde_json::from_str(&text).unwrap();
        assert_eq!(got, sent);
        assert_eq!(got.functions.len(), 2);
        assert_eq!(got.functions[0].metrics["calls"], 4);
        assert_eq!(got.functions[0].calls, 7);
        assert_eq!(got.counted().times, now.times);
        assert_eq!(got.counted().rest, now.rest);
    }

    #[test]
    fn what_calls_are_about_comes_over_whole() {
        let keys = |shown: &str| Keys {
            shown: vec![shown.into()],
            values: vec![shown.into()],
        };
        let row = |shown: &str, target| Row {
            function: "f".into(),
            target,
            keys: keys(shown),
            ..Row::default()
        };
        let mut now = Counted {
            times: vec![
                Time {
                    calls: 3,
                    counted: [3, 0, 0, 0],
                    ..Time::default()
                };
                2
            ],
            refused: 7,
            ..Counted::default()
        };
        let mut buckets = [0; 66];
        buckets[5] = 3;
        now.distributions.put(1, 0, buckets);
        let metrics = Metric::list("hist:count,calls", &mut Vec::new()).unwrap();
        let rows = [row("zero", 0), row("passwd", 1)];
        let sent = Rows::of(&rows, &metrics, &now, &Counted::default());
        let text = serde_json::to_string(&sent).unwrap();
        let got: Rows = serde_json::from_str(&text).unwrap();
        assert_eq!(got, sent);
        assert_eq!(got.rows().unwrap(), rows);
        let counted = got.counted();
        assert_eq!(counted.distributions, now.distributions);
        assert_eq!((counted.refused, counted.times), (7, now.times));
        assert_eq!(got.functions[1].metrics["hist:count"]["values"], 3);
    }

    #[test]
    fn a_lying_daemon_takes_no_memory() {
        let with = |row| Rows {
            functions: vec![Figures {
                row,
                ..Figures::default()
            }],
            ..Rows::default()
        };
        let refusal = with(1 << 40).believed().unwrap_err();
        assert!(
            refusal.contains("1099511627776") && !refusal.contains('\n'),
            "{refusal}"
        );
        let most = with(TARGETS_MAX - 1).believed().unwrap();
        assert_eq!(most.counted().times.len(), TARGETS_MAX);
    }
}
