// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a client asks for: the body of `POST /v1/stat`, from any bytes to what it means.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::works::LONGEST;
use crate::base::exit::Failure;
use crate::cmd::count::Context;
use crate::cmd::search::order as search;
use crate::cmd::stat::counters::{PERF, VARIABLE, expression};
use crate::cmd::stat::metric::{Metric, USUAL};
use crate::cmd::stat::source::Plan;
use crate::cmd::stat::{function, without_interrupts};
use crate::session::filters::Filters;
use crate::session::scope::Tasks;

/// Bytes of a request's body.
pub const BODY_MAX: usize = 64 << 10;
/// Words of each list of an order.
const WORDS_MAX: usize = 64;
/// Bytes of a word.
pub(super) const WORD_MAX: usize = 256;
/// Thresholds of a search, about one for each hypothesis, and bytes of each.
const THRESHOLDS_MAX: usize = 16;
const THRESHOLD_MAX: usize = 64;
/// The shortest and the longest interval, in milliseconds.
const INTERVALS: std::ops::RangeInclusive<u64> = 20..=3_600_000;

/// What a client asks for: the body of `POST /v1/stat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// `fn:NAME`, `fn:GLOB`, `fn:NAME@MODULE`, `mod:NAME`.
    pub resources: Vec<String>,
    /// As for `jifl stat`; none: the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// What calls are about, as for `jifl stat --by`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The time of interrupts is in none of the figures of tasks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_interrupts: bool,
    /// Milliseconds from one event to the next.
    #[serde(default = "second")]
    pub interval_ms: u64,
    /// The session ends after so many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// Whose calls count.
    #[serde(default)]
    pub filters: Filters,
    /// `task`, `softirq`, `irq`; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<String>,
    /// The session goes on when nobody of its owner reads it any more.
    #[serde(default)]
    pub keep: bool,
    /// It may be more than 1,000 places.
    #[serde(default)]
    pub yes: bool,
    /// Names that cannot be looked at are left out.
    #[serde(default)]
    pub lenient: bool,
    /// The answer names what the functions call.
    #[serde(default)]
    pub below: bool,
}

fn second() -> u64 {
    1000
}

/// An order that was read and found good.
#[derive(Debug)]
pub struct Understood {
    /// For the source of rows.
    pub plan: Plan,
    /// What is shown.
    pub metrics: Vec<Metric>,
    /// From one event to the next.
    pub interval: Duration,
}

impl Order {
    /// Reads the body of a request: any bytes.
    ///
    /// # Errors
    /// It is no order.
    pub fn parse(body: &[u8]) -> Result<Order, Failure> {
        serde_json::from_slice(body).map_err(|error| {
            Failure::usage(format!(
                "the body is no order: {error}; give JSON as {{\"resources\": [\"fn:vfs_read\"]}}"
            ))
        })
    }

    /// What it means.
    ///
    /// # Errors
    /// One of its words means nothing, or it is too much.
    pub fn understand(&self) -> Result<Understood, Failure> {
        self.check_sizes()?;
        let functions = self.resources.iter().map(|word| by_name(word));
        let functions: Vec<String> = functions.collect::<Result<_, _>>()?;
        if functions.is_empty() {
            return Err(Failure::usage(
                "resources is empty: name the functions: fn:NAME, fn:GLOB, mod:NAME",
            ));
        }
        let mut counters = Vec::new();
        let words = match self.metrics.is_empty() {
            true => USUAL.to_owned(),
            false => self.metrics.join(","),
        };
        let metrics = Metric::list(&words, &mut counters)?;
        let interrupts = match self.no_interrupts {
            true => Some(without_interrupts(&mut counters)?),
            false => None,
        };
        let mut levels = 0;
        for word in &self.contexts {
            let context = Context::from_str(word, false);
            levels |= context
                .map_err(|_| Failure::usage(format!("{word}: a context is task, softirq or irq")))?
                .bit();
        }
        Ok(Understood {
            plan: Plan {
                functions,
                counters,
                levels,
                by: self.by.clone(),
                interrupts,
                tasks: Tasks::of(&self.filters),
                confirmed: self.yes,
                lenient: self.lenient,
                by_name: true,
            },
            metrics,
            interval: Duration::from_millis(self.interval_ms),
        })
    }

    fn check_sizes(&self) -> Result<(), Failure> {
        for (name, words) in [
            ("resources", &self.resources),
            ("metrics", &self.metrics),
            ("contexts", &self.contexts),
        ] {
            if words.len() > WORDS_MAX {
                return Err(Failure::usage(format!(
                    "{name} has {} words, and {WORDS_MAX} are the most: give patterns",
                    words.len()
                )));
            }
            if words.iter().any(|word| word.len() > WORD_MAX) {
                return Err(Failure::usage(format!(
                    "{name}: a word has at most {WORD_MAX} bytes"
                )));
            }
        }
        check_filters(&self.filters)?;
        if self.by.as_ref().is_some_and(|by| by.len() > WORD_MAX) {
            return Err(Failure::usage(format!("by has at most {WORD_MAX} bytes")));
        }
        if !INTERVALS.contains(&self.interval_ms) {
            return Err(Failure::usage(format!(
                "interval_ms is {}: give {} to {}",
                self.interval_ms,
                INTERVALS.start(),
                INTERVALS.end()
            )));
        }
        if self.for_ms == Some(0) {
            return Err(Failure::usage(
                "for_ms is 0: give 1 or more, or leave it out",
            ));
        }
        Ok(())
    }

    /// Does it read the kernel's memory or arguments, or count what perf does? All tell of others.
    pub fn has_variables(&self) -> bool {
        let is = |one: &str| {
            let by_name = [VARIABLE, PERF].iter().any(|all| one.starts_with(all));
            by_name || expression(one).is_some()
        };
        let of = |words: &String| words.split([',', '/']).any(is);
        self.by.is_some() || self.metrics.iter().any(of)
    }

    /// In one line, for people: what, of whom.
    pub fn shown(&self) -> String {
        let mut text = self.resources.join(" ");
        for (name, words) in [("metrics", &self.metrics), ("contexts", &self.contexts)] {
            if !words.is_empty() {
                text += &format!(" {name} {}", words.join(","));
            }
        }
        if let Some(by) = &self.by {
            text += &format!(" by {by}");
        }
        if self.no_interrupts {
            text += " without interrupts";
        }
        if self.filters != Filters::default() {
            text += &format!(
                " filters {}",
                serde_json::to_string(&self.filters).unwrap_or_default()
            );
        }
        text
    }
}

/// Reads the body of `POST /v1/search`: any bytes.
///
/// # Errors
/// It is no order of a search, or it asks for too much.
pub fn search(body: &[u8]) -> Result<search::Order, Failure> {
    // A list would be taken for the fields in their order.
    let fields: Result<serde_json::Map<String, serde_json::Value>, _> =
        serde_json::from_slice(body);
    let order = fields.and_then(|fields| serde_json::from_value(fields.into()));
    let order: search::Order = order.map_err(|error| {
        Failure::usage(format!(
            "the body is no order: {error}; give JSON as {{\"for_ms\": 20000}}"
        ))
    })?;
    check_time(order.for_ms)?;
    let words = &order.thresholds;
    if words.len() > THRESHOLDS_MAX || words.iter().any(|word| word.len() > THRESHOLD_MAX) {
        return Err(Failure::usage(format!(
            "thresholds: give at most {THRESHOLDS_MAX} words NAME=NUMBER of at most \
             {THRESHOLD_MAX} bytes"
        )));
    }
    order.understand()?;
    Ok(order)
}

/// Refuses filters that are long: the journal has them.
pub(super) fn check_filters(filters: &Filters) -> Result<(), Failure> {
    let name = filters.name.as_ref().map_or(0, String::len);
    let cgroup = filters
        .cgroup
        .as_ref()
        .map_or(0, |path| path.as_os_str().len());
    match name.max(cgroup) > WORD_MAX {
        true => Err(Failure::usage(format!(
            "filters: name and cgroup have at most {WORD_MAX} bytes each"
        ))),
        false => Ok(()),
    }
}

/// Refuses times for which no work is done.
fn check_time(for_ms: u64) -> Result<(), Failure> {
    let longest = LONGEST.as_millis() as u64;
    match (1..=longest).contains(&for_ms) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "for_ms is {for_ms}: give 1 to {longest}"
        ))),
    }
}

/// The function or functions that a word means. Addresses are refused: who asks may not know them,
/// and whether one is taken would tell.
pub(super) fn by_name(word: &str) -> Result<String, Failure> {
    if word.starts_with("fn:0x") {
        return Err(Failure::usage(format!(
            "{word}: functions are known by their names here: give fn:NAME"
        )));
    }
    function(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::exit::USAGE;

    #[test]
    fn an_order_has_defaults() {
        let order = Order::parse(br#"{"resources": ["fn:vfs_*", "mod:ext4"]}"#).unwrap();
        let understood = order.understand().unwrap();
        assert_eq!(understood.plan.functions, ["fn:vfs_*", "fn:*@ext4"]);
        assert_eq!(understood.interval, Duration::from_secs(1));
        assert_eq!(understood.metrics.len(), 7);
        assert!(understood.plan.by_name, "clients may not know addresses");
        assert!(!order.keep && !order.has_variables());
        let text = serde_json::to_vec(&order).unwrap();
        assert_eq!(Order::parse(&text).unwrap(), order);
    }

    #[test]
    fn what_is_no_order_is_refused_in_one_line() {
        let many = format!(r#"{{"resources": [{}"fn:a"]}}"#, r#""fn:a","#.repeat(64));
        let long = format!(r#"{{"resources": ["fn:{}"]}}"#, "a".repeat(300));
        let filtered = |name: &str| {
            let value = "a".repeat(300);
            format!(r#"{{"resources": ["fn:a"], "filters": {{"{name}": "{value}"}}}}"#)
        };
        for body in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"resources": []}"#,
            r#"{"resources": ["sys:read"]}"#,
            r#"{"resources": ["fn:0xffffffff81000000"]}"#,
            r#"{"resources": ["fn:a"], "metrics": ["cycles"]}"#,
            r#"{"resources": ["fn:a"], "contexts": ["nmi"]}"#,
            r#"{"resources": ["fn:a"], "interval_ms": 1}"#,
            r#"{"resources": ["fn:a"], "interval_ms": -1}"#,
            r#"{"resources": ["fn:a"], "for_ms": 0}"#,
            r#"{"resources": ["fn:a"], "speed": 1}"#,
            r#"{"resources": ["fn:a"], "metrics": ["hist:wall"], "no_interrupts": true}"#,
            &many,
            &long,
            &filtered("name"),
            &filtered("cgroup"),
        ] {
            let refused = Order::parse(body.as_bytes()).and_then(|order| order.understand());
            let refused = refused.expect_err(body);
            assert_eq!(refused.status, USAGE, "{body}");
            assert!(!refused.message.contains('\n'), "{}", refused.message);
        }
    }

    #[test]
    fn a_search_is_bounded() {
        let order = super::search(b"{}").unwrap();
        assert_eq!((order.for_ms, order.budget), (30_000, 2.0));
        let asked = br#"{"pid": 7, "for_ms": 600000, "budget": 1, "thresholds": ["locks=1"]}"#;
        let shown = super::search(asked).unwrap().shown();
        assert_eq!(
            shown,
            "search for 600 s budget 1 % pid 7 thresholds locks=1"
        );
        let many = format!(r#"{{"thresholds": [{}"cpu=1"]}}"#, r#""cpu=1","#.repeat(16));
        let long = format!(r#"{{"thresholds": ["cpu=1{}"]}}"#, "0".repeat(64));
        for body in [
            &many,
            &long,
            "",
            "[]",
            r#"{"for_ms": 0}"#,
            r#"{"for_ms": 600001}"#,
            r#"{"budget": 0}"#,
            r#"{"budget": 101}"#,
            r#"{"thresholds": ["lock=1"]}"#,
            r#"{"command": "sh"}"#,
        ] {
            let refused = super::search(body.as_bytes()).expect_err(body);
            assert_eq!(refused.status, USAGE, "{body}");
            assert!(!refused.message.contains('\n'), "{}", refused.message);
        }
    }

    #[test]
    fn variables_are_seen_wherever_they_stand() {
        for (metrics, has) in [
            ("calls,var:jiffies_64", true),
            ("wall/var:jiffies_64", true),
            ("calls,wall/perf:cycles", true),
            ("sum:$ret", true),
            ("calls,hist:count", true),
            ("hist:wall,hist:blocked", false),
            ("tracepoint:sched:sched_switch", false),
            ("vmstat:pgfault,snmp:Tcp.InSegs", false),
        ] {
            let order = Order::parse(
                format!(r#"{{"resources": ["fn:a"], "metrics": ["{metrics}"]}}"#).as_bytes(),
            );
            assert_eq!(order.unwrap().has_variables(), has, "{metrics}");
        }
        let order = Order::parse(br#"{"resources": ["fn:a"], "by": "comm"}"#).unwrap();
        assert!(order.has_variables());
    }
}
