// SPDX-License-Identifier: MIT OR Apache-2.0
//! A source of rows: each reading of it has 10 calls more of each function.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use jifl_sys::abi::Time;
use serde_json::{Value as Json, json};

use crate::base::exit::Failure;
use crate::cmd::prof::paths::metric::Metric;
use crate::cmd::search::order::{Grown, Order};
use crate::cmd::serve::paths;
use crate::cmd::serve::works::Work;
use crate::cmd::stat::distribution::Distributions;
use crate::cmd::stat::sheet::{Counted, Row};
use crate::cmd::stat::source::{Below, Ended, Opened, Plan, Running, Source};

/// The source. Words of plans say what it does: `fn:failed`, `fn:cannot`, `fn:panics`, `fn:many`,
/// `fn:several`, `fn:slow`.
pub struct Fake {
    /// Sessions that run, or whose functions are being found (`fn:slow`).
    pub running: Arc<AtomicUsize>,
}

/// The process whose search fails.
pub const FAILS: i32 = 13;
/// The process whose search panics.
pub const PANICS: i32 = 14;
/// The process whose search takes a while to end.
pub const SLOW: i32 = 15;

/// A search that knows one more each time, and at least one. It ends when its time is up, or when
/// it is to end.
///
/// # Errors
/// It is about [`FAILS`].
pub fn search(order: &Order, work: &Arc<Work>) -> Result<Grown, Failure> {
    if order.pid == Some(FAILS) {
        return Err(Failure::cannot("the module is not loaded:\n`jifl load`"));
    }
    assert!(order.pid != Some(PANICS), "planted for the test");
    let grown = |known: u64, doing: Option<&str>, over: Option<&str>| Grown {
        report: json!({
            "known": known, "doing": doing, "cut_short": over,
            "sentence": "locks: tasks sleep", "elapsed_ns": known * 1_000_000,
            "cost": 0.01, "budget": 0.02, "processors": 2.0,
            "tests": [tested(known)],
        }),
        text: format!("known {known}\n"),
    };
    work.started();
    let mut known = 0;
    loop {
        known += 1;
        work.tell("tree", &grown(known, Some("one more"), None));
        sleep(Duration::from_millis(5));
        if work.over().is_some() || work.since.elapsed() >= Duration::from_millis(order.for_ms) {
            break;
        }
    }
    if order.pid == Some(SLOW) {
        sleep(Duration::from_millis(300));
    }
    Ok(grown(known, None, work.over()))
}

/// A hypothesis that is true from the third tree on, with a function below it.
fn tested(known: u64) -> Json {
    let test = |name: &str, tests: Json| {
        let is_known = known > 2;
        json!({
            "name": name, "about": "tasks sleep until others give locks", "unit": "tasks",
            "verdict": if is_known { "true" } else { "not tested" },
            "why": (!is_known).then_some("not yet"),
            "value": is_known.then_some(1.5), "threshold": 0.3,
            "share": is_known.then_some(0.75),
            "site": "take+0x11 [m]", "line": null, "objects": ["lock a"], "path": ["take+0x11 [m]"],
            "tests": tests,
        })
    };
    test("locks", json!([test("take [m]", json!([]))]))
}

/// Three paths, when the time is up or the work is to end.
///
/// # Errors
/// Its first target is `sys:nosuch`.
pub fn paths(
    order: &paths::Order,
    metric: Metric,
    work: &Arc<Work>,
) -> Result<paths::Counted, Failure> {
    if order.targets[0] == "sys:nosuch" {
        return Err(Failure::usage("sys:nosuch: no such system call"));
    }
    work.started();
    while work.over().is_none() && work.since.elapsed() < Duration::from_millis(order.for_ms) {
        sleep(Duration::from_millis(5));
    }
    Ok(paths::Counted {
        metric: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        total: 1000,
        folded: "sys:read;vfs_read 600\nsys:read;vfs_read;new_sync_read 300\nsys:close 100\n"
            .into(),
        calls: 7,
        cut_short: work.over().is_some(),
        elapsed_ns: work.since.elapsed().as_nanos() as u64,
        ..paths::Counted::default()
    })
}

struct Made {
    rows: Vec<Row>,
    /// How many distributions there are of each.
    distributions: usize,
    running: Arc<AtomicUsize>,
}

struct Runs<'a> {
    rows: &'a [Row],
    distributions: usize,
    readings: Cell<u64>,
}

impl Source for Fake {
    fn open(&self, plan: &Plan) -> Result<Box<dyn Opened>, Failure> {
        let mut rows = Vec::new();
        for word in &plan.functions {
            let name = word.trim_start_matches("fn:");
            match name {
                "failed" => return Err(Failure::failed("it is busy:\nwait for its end")),
                "several" => {
                    let addresses = "give one of fn:0xffffffff81000000, fn:0xffffffff81000010";
                    return Err(Failure::usage(addresses));
                }
                "slow" => {
                    self.running.fetch_add(1, Ordering::SeqCst);
                    sleep(Duration::from_secs(1));
                    self.running.fetch_sub(1, Ordering::SeqCst);
                }
                "cannot" => return Err(Failure::cannot("the module is not loaded: `jifl load`")),
                "panics" => panic!("planted for the test"),
                _ => {}
            }
            let number = if name == "many" { 400 } else { 1 };
            for _ in 0..number {
                let target = rows.len();
                rows.push(Row {
                    function: match number {
                        1 => name.to_owned(),
                        _ => format!("{name}_{target}"),
                    },
                    module: None,
                    address: 0xffff_ffff_8100_0000,
                    target,
                    ..Row::default()
                });
            }
        }
        let running = Arc::clone(&self.running);
        let are = plan.counters.iter().filter(|one| one.starts_with("hist:"));
        Ok(Box::new(Made {
            rows,
            distributions: are.count(),
            running,
        }))
    }
}

impl Opened for Made {
    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn left_out(&self) -> &str {
        "1 function is left out"
    }

    fn below(&self, _by_name: bool) -> Result<Below, Failure> {
        let one = |row: &Row| (row.target, vec![format!("fn:below_{}", row.function)]);
        Ok(self.rows.iter().map(one).collect())
    }

    fn run(self: Box<Self>, meanwhile: &mut dyn FnMut(&dyn Running)) -> Result<Ended, Failure> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let runs = Runs {
            rows: &self.rows,
            distributions: self.distributions,
            readings: Cell::new(0),
        };
        meanwhile(&runs);
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(Ended {
            counted: runs.counted()?,
            start_ns: 5,
            end_ns: 6,
            ..Ended::default()
        })
    }
}

impl Running for Runs<'_> {
    fn id(&self) -> u64 {
        77
    }

    fn counted(&self) -> Result<Counted, Failure> {
        self.readings.set(self.readings.get() + 1);
        let readings = self.readings.get();
        let time = Time {
            calls: 10 * readings,
            cpu_ns: 300 * readings,
            blocked_ns: 700 * readings,
            elapsed_ns: 1_000_000 * readings,
            ..Time::default()
        };
        let mut distributions = Distributions::default();
        for (row, counter) in (0..self.rows.len()).flat_map(|row| {
            let counters = 0..self.distributions;
            counters.map(move |counter| (row, counter))
        }) {
            let of = |bits| {
                if bits == 10 + counter {
                    10 * readings
                } else {
                    0
                }
            };
            distributions.put(row, counter, std::array::from_fn(of));
        }
        Ok(Counted {
            times: vec![time; self.rows.len()],
            rest: [1_000_000 * readings, 0, 1],
            distributions,
            ..Counted::default()
        })
    }

    fn has_ended(&self) -> bool {
        false
    }
}
