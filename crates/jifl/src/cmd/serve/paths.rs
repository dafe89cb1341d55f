// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call paths that a client asks for: the body of `POST /v1/paths`, and the session that counts them
//! as `jifl prof --paths` does.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use jifl_sys::abi::{CallPath, FLAG_CLOCK, Kind, PATH_REFUSED, PATH_STRAYS, PATH_UNTIMED};
use serde::{Deserialize, Serialize};

use super::order::{WORD_MAX, by_name, check_filters};
use super::works::Work;
use crate::base::exit::Failure;
use crate::cmd::prof::paths::entries;
use crate::cmd::prof::paths::folded::folded;
use crate::cmd::prof::paths::metric::Metric;
use crate::cmd::prof::paths::tree::Tree;
use crate::cmd::stat::FUNCTIONS_MAX;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::filters::Filters;
use crate::session::measure::{self, Session};
use crate::session::scope::{Tasks, has_ended};
use crate::session::targets::{self, Target};
use crate::session::{device, table};
use crate::show::text::grouped;

/// The longest time. All that runs under the targets is slower meanwhile.
const LONGEST_MS: u64 = 60_000;
/// Words of an order.
const WORDS_MAX: usize = 64;
/// Bytes of the names on all paths that have counts: each path is written as a whole.
const FOLDED_MAX: usize = 8 << 20;
/// How often it is looked whether the session is to end.
const LOOK: Duration = Duration::from_millis(20);

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// `sys:NAME`, `sys:GLOB`, and functions as of `jifl stat`: `fn:NAME`, `fn:GLOB`, `mod:NAME`.
    pub targets: Vec<String>,
    /// As of `jifl prof --paths`.
    #[serde(default = "insn")]
    pub metric: String,
    /// Milliseconds.
    #[serde(default = "usual")]
    pub for_ms: u64,
    /// Whose calls count.
    #[serde(default)]
    pub filters: Filters,
    /// It may be more than 1,000 functions.
    #[serde(default)]
    pub yes: bool,
}

fn insn() -> String {
    "insn".into()
}

fn usual() -> u64 {
    5000
}

/// What was counted: the data of the event `end`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Of what.
    pub metric: String,
    /// What one is.
    pub unit: String,
    /// Of all paths.
    pub total: u64,
    /// Lines of `OUTER;INNER NUMBER`, as `--folded` writes them.
    pub folded: String,
    /// Calls of the targets.
    pub calls: u64,
    /// Calls that were missed.
    pub missed: u64,
    /// Calls that found no path of their own.
    pub without_path: u64,
    /// Returns of no function on the path.
    pub stray_returns: u64,
    /// Calls without times.
    pub without_times: u64,
    /// Somebody has ended it before its time.
    pub cut_short: bool,
    /// Nanoseconds.
    pub elapsed_ns: u64,
}

impl Order {
    /// Reads the body of a request: any bytes. The metric that it names.
    ///
    /// # Errors
    /// It is no order, or it asks for too much.
    pub fn parse(body: &[u8]) -> Result<(Order, Metric), Failure> {
        let order: Order = serde_json::from_slice(body).map_err(|error| {
            Failure::usage(format!(
                "the body is no order: {error}; give JSON as {{\"targets\": [\"sys:*\"]}}"
            ))
        })?;
        let metric = order.understand()?;
        Ok((order, metric))
    }

    fn understand(&self) -> Result<Metric, Failure> {
        let words = &self.targets;
        if words.is_empty()
            || words.len() > WORDS_MAX
            || words.iter().any(|one| one.len() > WORD_MAX)
        {
            return Err(Failure::usage(format!(
                "targets: give 1 to {WORDS_MAX} words of at most {WORD_MAX} bytes: sys:*, fn:vfs_read"
            )));
        }
        if let Some(word) = words.iter().find(|word| word.contains(":0x")) {
            return Err(Failure::usage(format!(
                "{word}: functions are known by their names here: give fn:NAME"
            )));
        }
        self.words()?;
        check_filters(&self.filters)?;
        if !(1..=LONGEST_MS).contains(&self.for_ms) {
            return Err(Failure::usage(format!(
                "for_ms is {}: give 1 to {LONGEST_MS}",
                self.for_ms
            )));
        }
        Metric::from_str(&self.metric, false).map_err(|_| {
            let names = Metric::value_variants().iter().map(|one| one.name());
            let names: Vec<&str> = names.collect();
            Failure::usage(format!("{}: a metric is {}", self.metric, names.join(", ")))
        })
    }

    /// The targets, for the session. Source files, threads and work need what only root reads:
    /// debug information, or names of processes. So a target is a system call, or has a name.
    fn words(&self) -> Result<Vec<String>, Failure> {
        let word = |word: &String| match word.starts_with("sys:") {
            true => Ok(word.clone()),
            false => by_name(word).map_err(|failure| {
                Failure::usage(format!("{}, or a system call: sys:NAME", failure.message))
            }),
        };
        self.targets.iter().map(word).collect()
    }

    /// In one line, for people.
    pub fn shown(&self) -> String {
        let seconds = self.for_ms as f64 / 1000.0;
        let mut text = format!(
            "{} by call path of {} for {seconds} s",
            self.metric,
            self.targets.join(" ")
        );
        if self.filters != Filters::default() {
            let filters = serde_json::to_string(&self.filters).unwrap_or_default();
            text += &format!(" filters {filters}");
        }
        if self.yes {
            text += " yes";
        }
        text
    }
}

/// Counts on this machine until the time is up, or the work is to end.
///
/// # Errors
/// The session is refused, or cannot be read.
pub fn count(order: &Order, metric: Metric, work: &Arc<Work>) -> Result<Counted, Failure> {
    let calls = Table::all();
    let selected = targets::select_here(&order.words()?, &calls, order.yes)?;
    check_number(&selected.targets)?;
    let flags = if metric.is_time() { FLAG_CLOCK } else { 0 };
    let mut session = Session::of(Kind::Tree, flags, selected);
    Tasks::of(&order.filters)
        .whole_scope()
        .apply(&mut session)?;
    let door = device::open()?;
    let (report, elapsed) = measure::measure(&door, session, &calls, |_| {
        work.started();
        let began = Instant::now();
        let end = Duration::from_millis(order.for_ms);
        while work.over().is_none() && !has_ended(&door) && began.elapsed() < end {
            sleep(LOOK.min(end.saturating_sub(began.elapsed())));
        }
        began.elapsed()
    })?;
    let (paths, rest) = table::read::<CallPath>(&door, "reading the call paths")?;
    let mut tree = entries::tree(&paths, &Symbols::of_kernel());
    // Who asks may not know addresses.
    for node in tree
        .nodes
        .iter_mut()
        .filter(|node| node.function.starts_with("0x"))
    {
        node.function = "(unknown)".into();
    }
    Ok(Counted {
        metric: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        total: tree.total(metric),
        folded: bounded(&tree, metric)?,
        calls: report.rows.iter().map(|row| row.calls).sum(),
        missed: report.missed(),
        without_path: rest[PATH_REFUSED],
        stray_returns: rest[PATH_STRAYS],
        without_times: rest[PATH_UNTIMED],
        cut_short: report.cut_short || work.over().is_some(),
        elapsed_ns: elapsed.as_nanos() as u64,
    })
}

/// Refuses more functions than a session of `jifl stat` has.
fn check_number(targets: &[Target]) -> Result<(), Failure> {
    let is_function = |target: &&Target| matches!(target, Target::Function(_));
    let functions = targets.iter().filter(is_function).count();
    match functions > FUNCTIONS_MAX {
        true => Err(Failure::usage(format!(
            "these are {} functions, and a count of call paths has at most {}: give narrower \
             patterns, or a system call that calls them",
            grouped(functions as u64),
            grouped(FUNCTIONS_MAX as u64)
        ))),
        false => Ok(()),
    }
}

/// The tree as folded text. Paths without counts are left out before any path is written, and what
/// the others need is summed up first: a deep tree has far more bytes as paths than as nodes.
fn bounded(tree: &Tree, metric: Metric) -> Result<String, Failure> {
    let used = tree.used(metric);
    let mut lengths: Vec<usize> = Vec::with_capacity(used.nodes.len());
    let mut all = 0usize;
    for node in &used.nodes {
        let above = node.parent.map_or(0, |parent| lengths[parent]);
        let length = above + node.name().len() + 1;
        lengths.push(length);
        all = all.saturating_add(length);
    }
    if all > FOLDED_MAX {
        return Err(Failure::failed(format!(
            "the {} call paths have {} bytes of names, and an answer has at most {}: name fewer \
             targets, a process, or a shorter time",
            grouped(used.nodes.len() as u64),
            grouped(all as u64),
            grouped(FOLDED_MAX as u64)
        )));
    }
    Ok(folded(&used.folded(metric)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::exit::{FAILED, USAGE};
    use crate::cmd::prof::paths::tree::tests::sample;
    use crate::cmd::prof::paths::tree::{Node, Own};
    use crate::kernel::functions::Function;
    use crate::session::targets::FunctionTarget;

    #[test]
    fn an_order_is_bounded() {
        let (order, metric) = Order::parse(br#"{"targets": ["sys:*"]}"#).unwrap();
        assert_eq!((metric, order.for_ms), (Metric::Insn, 5000));
        let asked = br#"{"targets": ["fn:a", "sys:b"], "metric": "cpu", "filters": {"pid": 7}}"#;
        let (order, metric) = Order::parse(asked).unwrap();
        assert_eq!(metric, Metric::Cpu);
        assert_eq!(
            order.shown(),
            "cpu by call path of fn:a sys:b for 5 s filters {\"pid\":7}"
        );
        let many = br#"{"targets": ["sys:*", "mod:ext4"], "yes": true}"#;
        let (order, _) = Order::parse(many).unwrap();
        assert!(order.shown().ends_with(" for 5 s yes"));
        assert_eq!(order.words().unwrap(), ["sys:*", "fn:*@ext4"]);
        let long = format!(r#"{{"targets": ["fn:{}"]}}"#, "a".repeat(300));
        let name = "a".repeat(300);
        let named = format!(r#"{{"targets": ["sys:*"], "filters": {{"name": "{name}"}}}}"#);
        for body in [
            "",
            "{}",
            r#"{"targets": []}"#,
            r#"{"targets": ["fn:0xffffffff81000000"]}"#,
            r#"{"targets": ["file:fs/*.c"]}"#,
            r#"{"targets": ["sys:*", "line:fs/open.c:1390"]}"#,
            r#"{"targets": ["kthread:*"]}"#,
            r#"{"targets": ["irq:1"]}"#,
            r#"{"targets": ["work:wb_workfn"]}"#,
            r#"{"targets": ["timer:f"]}"#,
            r#"{"targets": ["read"]}"#,
            r#"{"targets": ["sys:*"], "for_ms": 0}"#,
            r#"{"targets": ["sys:*"], "for_ms": 60001}"#,
            r#"{"targets": ["sys:*"], "metric": "cycles"}"#,
            r#"{"targets": ["sys:*"], "command": "ls"}"#,
            &long,
            &named,
        ] {
            let refused = Order::parse(body.as_bytes()).expect_err(body);
            assert_eq!(refused.status, USAGE, "{body}");
            assert!(!refused.message.contains('\n'), "{}", refused.message);
        }
    }

    #[test]
    fn functions_are_bounded_and_system_calls_are_not() {
        let function = |nr: usize| {
            Target::Function(Arc::new(FunctionTarget {
                function: Function {
                    address: 0x1000 + nr as u64,
                    name: format!("f{nr}"),
                    module: None,
                },
                called: None,
                condition: None,
                may_be_left_out: true,
                value: 0,
                replacement: 0,
            }))
        };
        let mut targets = Target::all_syscalls();
        targets.extend((0..FUNCTIONS_MAX).map(function));
        check_number(&targets).unwrap();
        targets.push(function(FUNCTIONS_MAX));
        let refused = check_number(&targets).unwrap_err();
        assert_eq!(refused.status, USAGE);
        assert!(
            refused.message.contains("513 functions"),
            "{}",
            refused.message
        );
    }

    #[test]
    fn an_answer_is_bounded() {
        let tree = sample();
        let whole = folded(&tree.folded(Metric::Insn));
        assert_eq!(bounded(&tree, Metric::Insn).unwrap(), whole);
        // A function that calls itself: as paths this is the square of its bytes.
        let calls = |nr: usize, instructions| Node {
            parent: nr.checked_sub(1),
            function: "recursive".into(),
            module: None,
            address: 1,
            own: Own {
                instructions,
                ..Own::default()
            },
        };
        let deep = |value: fn(usize) -> u64| Tree {
            nodes: (0..2000).map(|nr| calls(nr, value(nr))).collect(),
        };
        let refused = bounded(&deep(|_| 1), Metric::Insn).unwrap_err();
        assert_eq!(refused.status, FAILED);
        assert!(
            refused.message.contains("2,000 call paths"),
            "{}",
            refused.message
        );
        let few = bounded(&deep(|nr| u64::from(nr < 2)), Metric::Insn).unwrap();
        assert_eq!(few, "recursive 1\nrecursive;recursive 1\n");
    }
}
