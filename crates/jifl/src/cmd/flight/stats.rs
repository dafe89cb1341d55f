// SPDX-License-Identifier: MIT OR Apache-2.0
//! What records say in sum: how often events came, how long tasks ran and waited, how busy CPUs
//! were, and how long system calls took.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::viewer::{self, Switch};
use crate::kernel::errno;
use crate::kernel::syscalls::Table;
use crate::session::flight::fields::Kind;
use crate::session::flight::{Entry, Flight};

/// A task.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Task {
    pub name: Option<String>,
    /// How often it began to run.
    pub switches: u64,
    /// Nanoseconds in each state: running, runnable, or as `sched_switch` has the state.
    pub states: BTreeMap<String, u64>,
}

/// A CPU.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// From its first record to its last one, in nanoseconds.
    pub span_ns: u64,
    /// Of these, those with a task.
    pub busy_ns: u64,
    /// Records of its switches.
    pub switches: u64,
}

/// A system call.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Call {
    /// How often it was entered.
    pub entered: u64,
    /// How often it returned.
    pub returned: u64,
    /// Of these, with an error.
    pub errors: u64,
    /// Of these, those whose entry is known, too.
    pub timed: u64,
    /// The time of these together, in nanoseconds.
    pub total_ns: u64,
}

/// All of it.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// From the first record to the last one, in nanoseconds.
    pub span_ns: u64,
    pub events: BTreeMap<String, u64>,
    pub tasks: BTreeMap<u32, Task>,
    pub cpus: Vec<Cpu>,
    pub calls: BTreeMap<String, Call>,
}

/// What runs on a CPU, and since when.
#[derive(Clone, Copy)]
struct Now {
    tid: u32,
    since: u64,
    first: u64,
}

/// The sums, as they grow.
struct Sums<'a> {
    flight: &'a Flight,
    table: Table,
    stats: Stats,
    now: Vec<Option<Now>>,
    /// Of tasks that do not run: their state, and since when.
    waiting: HashMap<u32, (String, u64)>,
    /// Of threads: the system call that they are in, and since when.
    inside: HashMap<u32, (String, u64)>,
}

const RUNNING: &str = "running";
const RUNNABLE: &str = "runnable";

impl Stats {
    /// The sums of all records.
    pub fn of(flight: &Flight) -> Stats {
        let cpus = flight.head.raw().ncpus as usize;
        let mut sums = Sums {
            flight,
            table: Table::all(),
            stats: Stats::default(),
            now: vec![None; cpus],
            waiting: HashMap::new(),
            inside: HashMap::new(),
        };
        sums.stats.cpus.resize_with(cpus, Cpu::default);
        let mut last = vec![0; cpus];
        for entry in &flight.entries {
            let latest = &mut last[usize::from(entry.raw.cpu)];
            *latest = (*latest).max(flight.time(entry));
            sums.add(entry);
        }
        sums.end(&last);
        sums.stats
    }

    /// Events in a second.
    pub fn rate(&self, events: u64) -> f64 {
        match self.span_ns {
            0 => 0.0,
            span => events as f64 * 1e9 / span as f64,
        }
    }
}

impl Sums<'_> {
    fn add(&mut self, entry: &Entry) {
        let (cpu, time) = (usize::from(entry.raw.cpu), self.flight.time(entry));
        *self
            .stats
            .events
            .entry(self.flight.event_name(entry))
            .or_default() += 1;
        let first = Now {
            tid: entry.raw.tid,
            since: time,
            first: time,
        };
        self.now[cpu].get_or_insert(first);
        let Some(event) = self.flight.event(entry) else {
            return;
        };
        if let Some(switch) = viewer::switch(self.flight, entry, &self.table) {
            self.switch(cpu, time, switch);
        } else if event.name.starts_with("sched_wak") {
            let of = event.fields.iter().find(|field| field.kind == Kind::Thread);
            if let Some(field) = of {
                self.wake(entry.raw.arg[field.at] as u32, time);
            }
        } else if event.group == "sys" {
            let find = |kind| event.fields.iter().find(|field| field.kind == kind);
            let call = find(Kind::Syscall).map(|field| field.value(&entry.raw.arg, &self.table));
            let call = call.map(|value| value.to_string());
            match (call, find(Kind::Result)) {
                (call, Some(result)) => {
                    let result = entry.raw.arg[result.at] as i64;
                    self.returned(entry.raw.tid, time, call, errno::is_error(result));
                }
                (Some(call), None) => {
                    self.stats.calls.entry(call.clone()).or_default().entered += 1;
                    self.inside.insert(entry.raw.tid, (call, time));
                }
                (None, None) => {}
            }
        }
    }

    /// A time of a task in a state. The idle task is none.
    fn spend(&mut self, tid: u32, state: &str, time: u64) {
        if tid != 0 {
            let states = &mut self.stats.tasks.entry(tid).or_default().states;
            *states.entry(state.to_owned()).or_default() += time;
        }
    }

    fn switch(&mut self, cpu: usize, time: u64, switch: Switch) {
        self.stats.cpus[cpu].switches += 1;
        if let Some(now) = self.now[cpu] {
            self.ran(cpu, now, time);
            let state = match switch.state.as_deref() {
                None => "waiting",
                Some(state) if state.starts_with('R') => RUNNABLE,
                Some(state) => state,
            };
            self.waiting.insert(now.tid, (state.to_owned(), time));
        }
        if let Some((state, since)) = self.waiting.remove(&switch.next) {
            self.spend(switch.next, &state, time.saturating_sub(since));
        }
        if switch.next != 0 {
            let task = self.stats.tasks.entry(switch.next).or_default();
            task.switches += 1;
            task.name = switch.name.or(task.name.take());
        }
        if let Some(now) = &mut self.now[cpu] {
            (now.tid, now.since) = (switch.next, time);
        }
    }

    /// What ran on a CPU until now.
    fn ran(&mut self, cpu: usize, now: Now, time: u64) {
        let ran = time.saturating_sub(now.since);
        self.spend(now.tid, RUNNING, ran);
        if now.tid != 0 {
            self.stats.cpus[cpu].busy_ns += ran;
        }
    }

    fn wake(&mut self, tid: u32, time: u64) {
        if let Some((state, since)) = self.waiting.remove(&tid) {
            self.spend(tid, &state, time.saturating_sub(since));
            self.waiting.insert(tid, (RUNNABLE.to_owned(), time));
        }
    }

    fn returned(&mut self, tid: u32, time: u64, call: Option<String>, error: bool) {
        let begun = self.inside.remove(&tid);
        let begun = begun.filter(|(name, _)| call.as_ref().is_none_or(|call| call == name));
        let Some(name) = call.or_else(|| Some(begun.as_ref()?.0.clone())) else {
            return;
        };
        let sums = self.stats.calls.entry(name).or_default();
        sums.returned += 1;
        sums.errors += u64::from(error);
        if let Some((_, since)) = begun {
            sums.timed += 1;
            sums.total_ns += time.saturating_sub(since);
        }
    }

    /// Counts what goes on at the end of the recording.
    fn end(&mut self, last: &[u64]) {
        let newest = last.iter().copied().max().unwrap_or(0);
        let oldest = self.now.iter().flatten().map(|now| now.first).min();
        self.stats.span_ns = newest.saturating_sub(oldest.unwrap_or(newest));
        for (cpu, now) in self.now.clone().into_iter().enumerate() {
            if let Some(now) = now {
                self.ran(cpu, now, last[cpu]);
                self.stats.cpus[cpu].span_ns = last[cpu].saturating_sub(now.first);
            }
        }
        for (tid, (state, since)) in std::mem::take(&mut self.waiting) {
            self.spend(tid, &state, newest.saturating_sub(since));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::flight::made::{Made, SWITCH, SYS_EXIT, switch};

    #[test]
    fn sums_are_those_of_the_records() {
        let mut made = Made::sample();
        // An exit whose entry is not there.
        made.put(0, 10_000, SYS_EXIT, 101, &[1, -11i64 as u64]).put(
            0,
            10_500,
            SWITCH,
            101,
            &switch(2, 102, "dd"),
        );
        let stats = Stats::of(&Flight::read(&mut made.region()).unwrap());
        assert_eq!((stats.span_ns, stats.events["sched_switch"]), (9_500, 6));
        let cpus: Vec<(u64, u64, u64)> = stats
            .cpus
            .iter()
            .map(|cpu| (cpu.span_ns, cpu.busy_ns, cpu.switches))
            .collect();
        // From 1 to 7 and from 9 to 10.5; from 2.5 to 10.
        assert_eq!(cpus, [(9_500, 7_500, 4), (7_500, 7_500, 2)]);
        let task = |tid| {
            let task: &Task = &stats.tasks[&tid];
            let states = task
                .states
                .iter()
                .map(|(state, time)| format!("{state} {time}"));
            (
                task.name.as_deref(),
                task.switches,
                states.collect::<Vec<_>>().join(", "),
            )
        };
        assert_eq!(
            task(101),
            (Some("tar"), 2, "D 0, S 2000, running 7500".into())
        );
        assert_eq!(
            task(102),
            (Some("dd"), 2, "runnable 2500, running 5500".into())
        );
        assert_eq!(task(103), (Some("cc1"), 1, "running 2000".into()));
        let call = |name: &str| {
            let call = &stats.calls[name];
            [
                call.entered,
                call.returned,
                call.errors,
                call.timed,
                call.total_ns,
            ]
        };
        assert_eq!(call("openat"), [1, 1, 1, 1, 2000]);
        assert_eq!(call("read"), [1, 1, 0, 1, 3500]);
        assert_eq!(call("write"), [0, 1, 1, 0, 0]);
        assert_eq!(stats.rate(19), 2e6);
    }
}
