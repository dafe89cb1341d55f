// SPDX-License-Identifier: MIT OR Apache-2.0
//! Searches on a machine that is made up: all that it does is a list of stacks, and time passes only
//! when somebody waits.

mod verdicts;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jifl_sys::abi::Time;

use super::hypotheses::{Id, Thresholds};
use super::ledger::Ledger;
use super::stacks::{Frame, frames};
use super::tree::{Node, Verdict};
use super::vitals::{Task, Vitals};
use super::walk::{Found, Walk};
use super::world::{Counts, Sleeper, World};
use super::*;
use crate::base::parse::check;
use crate::cmd::stat::Known;
use crate::cmd::stat::sheet::{Counted, Keys, Row};
use crate::cmd::stat::source::{Below, Ended, Opened, Plan, Running, Source};
use crate::session::scope::Tasks;

const SECOND: u64 = 1_000_000_000;
const CLOCK: &str = "tick_sched_timer+0x1;asm_sysvec_apic_timer_interrupt+0x16;";

/// What the machine does all the time.
#[derive(Debug, Clone, Copy, Default)]
struct Does {
    /// The innermost place first.
    stack: &'static str,
    processors: f64,
    asleep: f64,
    /// Calls by the second, of each function on the stack.
    rate: f64,
}

#[derive(Default)]
struct State {
    does: Vec<Does>,
    kthread: f64,
    syscalls: u64,
    failing: f64,
    /// Where tasks sleep all the time, and after how long each sleep ends and the next begins.
    long_sleeps: Vec<(&'static str, u64)>,
    now: AtomicU64,
    end: Option<u64>,
    /// What a call of a function that is looked at takes.
    call_ns: u64,
    is_watched: AtomicBool,
    /// What was told while it ran.
    said: Mutex<Vec<serde_json::Value>>,
    sessions: AtomicU64,
    /// Functions that cannot be looked at.
    refused: Vec<&'static str>,
    /// Functions of which the compiler has made `NAME.isra.0`.
    is_other: Vec<&'static str>,
    /// Errors of system calls cannot be counted.
    is_blind: bool,
}

#[derive(Clone, Default)]
struct Made(Arc<State>);

/// What is looked at.
struct Looked {
    made: Made,
    rows: Vec<Row>,
    by: Option<String>,
}

struct Runs<'a> {
    looked: &'a Looked,
    began: u64,
}

fn row(function: &str, module: Option<&str>, target: usize, shown: &[&str]) -> Row {
    let value = |text: &&str| {
        text.parse::<u64>()
            .map_or_else(|_| (*text).into(), Into::into)
    };
    Row {
        function: function.to_owned(),
        module: module.map(str::to_owned),
        address: 0,
        target,
        keys: Keys {
            shown: shown.iter().map(|text| (*text).to_owned()).collect(),
            values: shown.iter().map(value).collect(),
        },
    }
}

impl Source for Made {
    fn open(&self, plan: &Plan) -> Result<Box<dyn Opened>, Failure> {
        assert!(plan.by_name, "a report has no addresses");
        let is_refused = |word: &&String| self.0.refused.contains(&&word["fn:".len()..]);
        if let (false, Some(word)) = (plan.lenient, plan.functions.iter().find(is_refused)) {
            return Err(Failure::failed(format!("{word} is taken")));
        }
        let words = plan.functions.iter().filter(|word| !is_refused(word));
        let rows = words.enumerate().map(|(target, word)| {
            let name = &word["fn:".len()..];
            if self.0.is_other.contains(&name) {
                return row(&format!("{name}.isra.0"), None, target, &[]);
            }
            match name.split_once('@') {
                Some((function, module)) => row(function, Some(module), target, &[]),
                None => row(name, None, target, &[]),
            }
        });
        Ok(Box::new(Looked {
            made: self.clone(),
            rows: rows.collect(),
            by: None,
        }))
    }

    fn about(
        &self,
        _: Option<&Known>,
        row: &Row,
        by: &str,
        _: &Tasks,
    ) -> Result<Box<dyn Opened>, Failure> {
        Ok(Box::new(Looked {
            made: self.clone(),
            rows: vec![row.clone()],
            by: Some(by.to_owned()),
        }))
    }
}

impl Opened for Looked {
    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn left_out(&self) -> &str {
        ""
    }

    fn below(&self, _: bool) -> Result<Below, Failure> {
        Ok(Below::new())
    }

    fn run(self: Box<Self>, meanwhile: &mut dyn FnMut(&dyn Running)) -> Result<Ended, Failure> {
        let state = &self.made.0;
        let began = state.now.load(Ordering::Relaxed);
        state.is_watched.store(true, Ordering::Relaxed);
        state.sessions.fetch_add(1, Ordering::Relaxed);
        let runs = Runs {
            looked: &self,
            began,
        };
        meanwhile(&runs);
        state.is_watched.store(false, Ordering::Relaxed);
        Ok(Ended {
            counted: runs.counted()?,
            ..Ended::default()
        })
    }
}

impl Running for Runs<'_> {
    fn id(&self) -> u64 {
        1
    }

    fn counted(&self) -> Result<Counted, Failure> {
        Ok(self.read()?.1)
    }

    fn read(&self) -> Result<(Option<Vec<Row>>, Counted), Failure> {
        let state = &self.looked.made.0;
        let elapsed = state.now.load(Ordering::Relaxed) - self.began;
        let time = |does: &[&Does]| {
            let sum = |value: fn(&Does) -> f64| does.iter().map(|one| value(one)).sum::<f64>();
            Time {
                calls: (sum(|one| one.rate) * elapsed as f64 / SECOND as f64) as u64,
                cpu_ns: (sum(|one| one.processors) * elapsed as f64) as u64,
                blocked_ns: (sum(|one| one.asleep) * elapsed as f64) as u64,
                elapsed_ns: elapsed,
                ..Time::default()
            }
        };
        let inside = |row: &Row| -> Vec<&Does> {
            let is_on =
                |frame: &Frame| frame.function == row.function && frame.module == row.module;
            let all = state.does.iter();
            all.filter(|does| frames(does.stack).iter().any(is_on))
                .collect()
        };
        let (mut rows, mut times) = (Vec::new(), Vec::new());
        for of in &self.looked.rows {
            let Some(by) = self.looked.by.as_deref() else {
                times.push(time(&inside(of)));
                continue;
            };
            for does in &state.does {
                let frames = frames(does.stack);
                let place = frames
                    .iter()
                    .position(|frame| frame.function == of.function);
                let caller = place.and_then(|at| frames.get(at + 1)).map(Frame::site);
                let clock = format!("{CLOCK}{}", does.stack);
                let keys = match (of.function.as_str(), by) {
                    ("schedule", _) if does.asleep > 0.0 => vec![does.stack, "\"dd\""],
                    ("update_process_times", _) if does.processors > 0.0 => vec![&clock, "\"dd\""],
                    (_, "caller") if place.is_some() => vec![caller.as_deref().unwrap_or("?")],
                    (_, "$arg0") if place.is_some() => vec!["4096"],
                    (_, "file->f_path") if place.is_some() => vec!["\"zero\""],
                    (_, "count,caller,file->f_path") if place.is_some() => {
                        vec!["1", caller.as_deref().unwrap_or("?"), "\"zero\""]
                    }
                    _ => continue,
                };
                rows.push(row(&of.function, of.module.as_deref(), times.len(), &keys));
                let mut own = time(&[does]);
                if of.function == "update_process_times" {
                    own.calls = (does.processors * 250.0 * elapsed as f64 / SECOND as f64) as u64;
                }
                times.push(own);
            }
        }
        let counted = Counted {
            times,
            rest: [elapsed, 0, 0],
            ..Counted::default()
        };
        Ok((self.looked.by.is_some().then_some(rows), counted))
    }

    fn has_ended(&self) -> bool {
        false
    }
}

impl World for Made {
    fn source(&self) -> &dyn Source {
        self
    }

    fn tasks(&self) -> Tasks {
        Tasks::default()
    }

    fn process(&self) -> Option<i32> {
        None
    }

    fn vitals(&self) -> Vitals {
        let now = self.now_ns() as f64;
        let processors: f64 = self.0.does.iter().map(|does| does.processors).sum();
        let thread = Task {
            comm: "dd".into(),
            is_kthread: true,
            system_ns: (self.0.kthread * now) as u64,
            ..Task::default()
        };
        Vitals {
            system_ns: (processors * now) as u64,
            tasks: BTreeMap::from([(7, thread)]),
            ..Vitals::default()
        }
    }

    fn sleepers(&self) -> BTreeMap<i32, Sleeper> {
        let one = |at| self.sleeper(at).map(|one| (at, one));
        (1..=self.0.long_sleeps.len() as i32)
            .filter_map(one)
            .collect()
    }

    fn sleeper(&self, tid: i32) -> Option<Sleeper> {
        let (stack, each) = self.0.long_sleeps[tid as usize - 1];
        Some(Sleeper {
            switches: self.now_ns() / each,
            who: "cat".into(),
            frames: frames(stack),
        })
    }

    fn calls(&self, window: Duration) -> Result<Counts, Failure> {
        self.pause(window);
        Ok(Counts {
            elapsed_ns: window.as_nanos() as u64,
            calls: vec![(
                "read".into(),
                self.0.syscalls * window.as_millis() as u64 / 1000,
            )],
            ..Counts::default()
        })
    }

    fn failures(&self, function: &str, window: Duration) -> Result<Vec<(i64, f64)>, Failure> {
        if self.0.is_blind {
            return Err(Failure::failed(format!("{function} is taken")));
        }
        self.pause(window);
        Ok(vec![(-11, self.0.failing)])
    }

    fn paths(&self, _: &[String], window: Duration) -> Result<Counts, Failure> {
        self.pause(window);
        Ok(Counts::default())
    }

    fn now_ns(&self) -> u64 {
        self.0.now.load(Ordering::Relaxed)
    }

    fn pause(&self, time: Duration) {
        self.0
            .now
            .fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    fn exercise(&self, calls: u32) -> u64 {
        let each = match self.0.is_watched.load(Ordering::Relaxed) {
            true => 500 + self.0.call_ns,
            false => 500,
        };
        self.pause(Duration::from_nanos(each * u64::from(calls)));
        each * u64::from(calls)
    }

    fn over(&self) -> Option<&'static str> {
        let end = self.0.end.filter(|end| self.now_ns() >= *end);
        end.map(|_| "the time was up")
    }

    fn line(&self, _: &Frame) -> Option<String> {
        None
    }

    fn variable(&self, address: u64) -> Option<String> {
        (address == 4096).then(|| "slow_mutex [m]".into())
    }

    fn say(&self, found: &Found) {
        self.0.said.lock().unwrap().push(found.json());
    }
}

fn search(state: State) -> Found {
    search_of(&Made(Arc::new(state)))
}

fn search_of(made: &Made) -> Found {
    let walk = Walk::new(made, &Thresholds::default(), Ledger::new(0.02, 2.0));
    walk.search().unwrap()
}

fn of(found: &Found, id: Id) -> &Node {
    &found.tests.iter().find(|(one, _)| *one == id).unwrap().1
}

const LOCK: Does = Does {
    stack: "schedule_preempt_disabled+0x1;__mutex_lock.constprop.0+0x39d;take+0x11 [m];\
            work+0xa [m];vfs_read+0xa5;do_syscall_64+0x5d",
    processors: 0.0,
    asleep: 2.9,
    rate: 900.0,
};

const WALK: Does = Does {
    stack: "find+0x3 [m];walk+0x20 [m];vfs_read+0x9;do_syscall_64+0x5",
    processors: 0.9,
    asleep: 0.0,
    rate: 200_000.0,
};

#[test]
fn a_lock_is_found_with_who_takes_it() {
    let found = search(State {
        does: vec![LOCK],
        ..State::default()
    });
    let node = found.finding().unwrap();
    assert_eq!(node.name, "locks");
    let way = node.way();
    let last = way.last().unwrap();
    assert_eq!(last.name, "take [m]");
    assert_eq!(last.site.as_deref(), Some("take+0x11 [m]"));
    assert_eq!(last.path[1], "work+0xa [m]");
    assert!(
        last.objects.contains(&"lock slow_mutex [m]".to_owned()),
        "{:?}",
        last.objects
    );
    let sentence = found.sentence();
    assert!(
        sentence.starts_with("locks: tasks sleep until others give locks, most in take [m], at ")
    );
    assert!(
        sentence.contains("2.90 tasks, 100 % of all time"),
        "{sentence}"
    );
    assert!(sentence.contains("ruled out: cpu, kthread"), "{sentence}");
    assert_eq!(of(&found, Id::Disk).verdict, Verdict::False);
    assert_eq!(found.json()["finding"]["site"], "take+0x11 [m]");
    assert!(
        found.text().contains("| from take+0x11 [m] < work+0xa [m]"),
        "{}",
        found.text()
    );
}

/// What is known is told while the search goes on; what is decided stays decided.
#[test]
fn the_tree_grows() {
    let made = Made(Arc::new(State {
        does: vec![LOCK],
        ..State::default()
    }));
    let found = search_of(&made);
    let said = made.0.said.lock().unwrap();
    let decided = |tree: &serde_json::Value| {
        let tests = tree["tests"].as_array().unwrap().iter();
        let is_one = |one: &&serde_json::Value| one["verdict"] != "not tested";
        tests.filter(is_one).count()
    };
    let grown: Vec<usize> = said.iter().map(decided).collect();
    assert!(grown.is_sorted() && grown[0] == 0, "{grown:?}");
    let last = said.last().unwrap();
    assert_eq!(last["finding"], found.json()["finding"]);
    assert!(last["doing"].is_string() && found.json()["doing"].is_null());
    assert!(said.iter().all(|one| one["cut_short"].is_null()));
}

/// Sleep that began before the session has no stack there.
#[test]
fn who_slept_before_is_found_too() {
    let stack = "schedule+0x1;sock_alloc_send_pskb+0x2;unix_stream_sendmsg+0x3;sock_sendmsg+0x4";
    let found = search(State {
        long_sleeps: vec![
            (stack, u64::MAX),
            ("schedule+0x1;do_nanosleep+0x1", u64::MAX),
        ],
        ..State::default()
    });
    let node = found.finding().unwrap();
    assert_eq!((node.name.as_str(), node.value), ("network", 1.0));
    let site = node.way()[1].site.as_deref();
    assert_eq!(site, Some("unix_stream_sendmsg+0x3"));
    // One that ends in the measurement is not lost, and neither is the next.
    for each in [600, 700, 800, 900] {
        let woken = search(State {
            long_sleeps: vec![(stack, each * 1_000_000)],
            ..State::default()
        });
        let value = of(&woken, Id::Network).value;
        assert!((0.79..=1.0).contains(&value), "{each}: {value}");
    }
}

#[test]
fn what_computes_is_found_down_the_call_graph() {
    let found = search(State {
        does: vec![WALK],
        call_ns: 40,
        ..State::default()
    });
    let node = found.finding().unwrap();
    assert_eq!(node.name, "cpu");
    let names: Vec<&str> = node.way().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["cpu", "vfs_read", "walk [m]", "find [m]"]);
    assert_eq!(node.way()[3].site.as_deref(), Some("walk+0x20 [m]"));
    assert_eq!(node.way()[3].objects, ["vfs_read of \"zero\""]);
    assert_eq!(found.call_ns, 62, "not less than by the instructions");
}

#[test]
fn many_small_calls_are_more_than_time_in_the_kernel() {
    let found = search(State {
        does: vec![WALK],
        syscalls: 150_000,
        ..State::default()
    });
    let node = found.finding().unwrap();
    assert_eq!(node.name, "calls");
    let last = *node.way().last().unwrap();
    assert_eq!(
        (last.name.as_str(), last.site.as_deref()),
        ("vfs_read", Some("do_syscall_64+0x5"))
    );
    assert_eq!(last.objects[0], "1 bytes a call");
}

#[test]
fn calls_that_fail_are_more_than_many_calls() {
    let found = search(State {
        does: vec![WALK],
        syscalls: 50_000,
        failing: 40_000.0,
        ..State::default()
    });
    let node = found.finding().unwrap();
    let last = *node.way().last().unwrap();
    assert_eq!(
        (node.name.as_str(), last.name.as_str()),
        ("retries", "vfs_read")
    );
    assert_eq!(last.objects, ["by the second 40000 EAGAIN"]);
}

#[test]
fn a_thread_of_the_kernel_is_named() {
    let found = search(State {
        does: vec![Does {
            stack: "scan+0x3 [m];scan_all+0x20 [m];kthread+0x9;ret_from_fork+0x5",
            ..WALK
        }],
        kthread: 0.9,
        ..State::default()
    });
    let node = found.finding().unwrap();
    assert_eq!(
        (node.name.as_str(), node.objects[0].as_str()),
        ("kthread", "dd (7)")
    );
    assert_eq!(node.way().last().unwrap().name, "scan [m]");
}

#[test]
fn a_healthy_machine_is_called_healthy() {
    let found = search(State {
        does: vec![
            Does {
                processors: 0.05,
                ..WALK
            },
            Does {
                asleep: 0.02,
                ..LOCK
            },
            Does {
                stack: "do_nanosleep+0x1;do_syscall_64+0x2",
                asleep: 9.0,
                ..Does::default()
            },
        ],
        ..State::default()
    });
    assert!(found.finding().is_none());
    let sentence = found.sentence();
    assert!(
        sentence.starts_with("no bottleneck: nothing tested"),
        "{sentence}"
    );
    assert_eq!(
        of(&found, Id::Calls).verdict,
        Verdict::NotTested("the kernel does not compute much".into())
    );
}

/// Calls are so many that each measurement has to be short, and the next one has to wait.
#[test]
fn the_budget_holds_whatever_is_called() {
    for call_ns in [70, 400, 5_000] {
        let found = search(State {
            does: vec![Does { rate: 2e6, ..WALK }, Does { rate: 1e5, ..LOCK }],
            call_ns,
            ..State::default()
        });
        let share = found.ledger.share(found.elapsed_ns);
        assert!(share <= 0.02, "{call_ns}: {share}");
        assert!(found.ledger.shortened > 0 || call_ns == 70, "{call_ns}");
        assert_eq!(
            of(&found, Id::Locks).way().last().unwrap().name,
            "take [m]",
            "{call_ns}"
        );
    }
}

#[test]
fn what_there_was_no_time_for_is_said_to_be_not_tested() {
    let found = search(State {
        does: vec![LOCK],
        end: Some(SECOND / 5),
        ..State::default()
    });
    let node = of(&found, Id::Locks);
    assert_eq!(node.verdict, Verdict::NotTested("the time was up".into()));
    assert_eq!(found.cut_short, Some("the time was up"));
    assert!(
        found
            .text()
            .contains("# the search ended early: the time was up")
    );
}

/// A rate of a window that ended early says nothing.
#[test]
fn calls_are_not_judged_by_a_window_without_end() {
    let state = |end| State {
        does: vec![WALK],
        syscalls: 100_000,
        end,
        ..State::default()
    };
    let whole = Made(Arc::new(state(None)));
    assert!(of(&search_of(&whole), Id::Calls).holds());
    let said = whole.0.said.lock().unwrap();
    let counted = said
        .iter()
        .find(|one| one["doing"] == "how many system calls");
    let began = counted.unwrap()["elapsed_ns"].as_u64().unwrap();
    let found = search(state(Some(began + SECOND / 100)));
    for id in [Id::Calls, Id::Retries] {
        let verdict = &of(&found, id).verdict;
        assert_eq!(*verdict, Verdict::NotTested("the time was up".into()));
    }
}

/// Near the threshold each measurement is made three times, elsewhere once.
#[test]
fn near_the_threshold_it_is_measured_again() {
    let sessions = |asleep| {
        let made = Made(Arc::new(State {
            does: vec![Does { asleep, ..LOCK }],
            ..State::default()
        }));
        let walk = Walk::new(&made, &Thresholds::default(), Ledger::new(0.02, 2.0));
        let found = walk.search().unwrap();
        (
            made.0.sessions.load(Ordering::Relaxed),
            of(&found, Id::Locks).verdict.clone(),
        )
    };
    let (usual, verdict) = sessions(0.1);
    assert_eq!(verdict, Verdict::False);
    assert_eq!(sessions(0.29), (usual + 2, Verdict::False));
}

#[test]
fn the_documented_lines_parse() {
    check::<SearchArgs>(
        &[
            "",
            "-- tar -cf /dev/null /usr/share",
            "-p 1234 --for 10s",
            "--budget 1 --threshold disk=1 -f json",
        ],
        &["--for 0", "-f csv", "-p 1 -- ls", "--budget x"],
    );
}
