// SPDX-License-Identifier: MIT OR Apache-2.0
//! What records say in sum: how often events came, how long tasks ran and waited, how busy CPUs
//! were, and how long system calls took.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::running::{Gaps, Ran, Running};
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
    /// Of these, those of which it is known what ran.
    pub known_ns: u64,
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

/// The sums, as they grow.
struct Sums<'a> {
    flight: &'a Flight,
    table: Table,
    stats: Stats,
    running: Running,
    gaps: Gaps,
    /// Of each CPU, the time of its first record, and of its newest one.
    span: Vec<Option<(u64, u64)>>,
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
            running: Running::new(cpus),
            gaps: Gaps::of(flight),
            span: vec![None; cpus],
            waiting: HashMap::new(),
            inside: HashMap::new(),
        };
        sums.stats.cpus.resize_with(cpus, Cpu::default);
        for entry in &flight.entries {
            sums.add(entry);
        }
        sums.end();
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
        let span = self.span[cpu].get_or_insert((time, time));
        span.1 = span.1.max(time);
        let ran = self.running.record(entry, time);
        self.ran(ran);
        let Some(event) = self.flight.event(entry) else {
            return;
        };
        if let Some(switch) = viewer::switch(self.flight, entry, &self.table) {
            self.switch(entry, time, switch);
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

    /// A task is in a state no longer. If records are missing it is not known how long it was.
    fn waited(&mut self, tid: u32, time: u64) -> bool {
        let Some((state, since)) = self.waiting.remove(&tid) else {
            return false;
        };
        if self.gaps.has_none(since, time) {
            self.spend(tid, &state, time.saturating_sub(since));
        }
        true
    }

    fn switch(&mut self, entry: &Entry, time: u64, switch: Switch) {
        self.stats.cpus[usize::from(entry.raw.cpu)].switches += 1;
        let ran = self.running.switch(entry, time, switch.next);
        self.ran(ran);
        let state = match switch.state.as_deref() {
            None => "waiting",
            Some(state) if state.starts_with('R') => RUNNABLE,
            Some(state) => state,
        };
        self.waiting.insert(entry.raw.tid, (state.to_owned(), time));
        self.waited(switch.next, time);
        if switch.next != 0 {
            let task = self.stats.tasks.entry(switch.next).or_default();
            task.switches += 1;
            task.name = switch.name.or(task.name.take());
        }
    }

    fn ran(&mut self, ran: Option<Ran>) {
        let Some(ran) = ran else { return };
        self.spend(ran.thread, RUNNING, ran.time());
        let cpu = &mut self.stats.cpus[ran.cpu];
        cpu.known_ns += ran.time();
        if ran.thread != 0 {
            cpu.busy_ns += ran.time();
        }
    }

    fn wake(&mut self, tid: u32, time: u64) {
        if self.waited(tid, time) {
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
        // Its end may be missing, and the beginning of another one.
        let begun = begun.filter(|(_, since)| self.gaps.has_none(*since, time));
        if let Some((_, since)) = begun {
            sums.timed += 1;
            sums.total_ns += time.saturating_sub(since);
        }
    }

    /// Counts what goes on at the end of the recording.
    fn end(&mut self) {
        let spans = self.span.iter().flatten();
        let newest = spans.clone().map(|span| span.1).max().unwrap_or(0);
        let oldest = spans.map(|span| span.0).min().unwrap_or(newest);
        self.stats.span_ns = newest.saturating_sub(oldest);
        for (cpu, span) in self.stats.cpus.iter_mut().zip(&self.span) {
            cpu.span_ns = span.map_or(0, |(first, last)| last.saturating_sub(first));
        }
        for ran in self.running.end() {
            self.ran(Some(ran));
        }
        let waiting: Vec<u32> = self.waiting.keys().copied().collect();
        for tid in waiting {
            self.waited(tid, newest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::flight::made::{Made, SOFTIRQ, SWITCH, SYS_ENTER, SYS_EXIT, switch};

    fn stats(made: &Made) -> Stats {
        Stats::of(&Flight::read(&mut made.region()).unwrap())
    }

    #[test]
    fn without_switches_no_task_ran() {
        let mut made = Made::new(2, 64);
        made.put(0, 1_000, SYS_ENTER, 101, &[0, 3])
            .put(0, 5_000, SYS_EXIT, 101, &[0, 512])
            .put(1, 9_000, SOFTIRQ, 102, &[3]);
        let stats = stats(&made);
        assert!(stats.tasks.is_empty());
        assert_eq!((stats.cpus[0].span_ns, stats.cpus[0].known_ns), (4_000, 0));
        assert_eq!(stats.calls["read"].total_ns, 4_000);
    }

    #[test]
    fn what_is_missing_is_nobodys_time() {
        let mut made = Made::new(2, 64);
        made.put(0, 1_000, SWITCH, 0, &switch(0, 101, "tar"))
            .put(0, 2_000, SYS_ENTER, 101, &[0, 3])
            .put(1, 2_500, SWITCH, 103, &switch(1, 0, "swapper/1"))
            .begin(0)
            .put(0, 8_000, SYS_EXIT, 101, &[0, 512])
            .put(0, 9_000, SWITCH, 102, &switch(1, 103, "cc1"))
            .put(0, 9_500, SOFTIRQ, 103, &[3]);
        let stats = stats(&made);
        let states = |tid: u32| stats.tasks.get(&tid).map(|task| &task.states);
        let running = |tid| states(tid).and_then(|states| states.get(RUNNING)).copied();
        assert_eq!(running(101), Some(1_000));
        // Another thread was seen before the switch: how long 102 ran is not known.
        assert_eq!(running(102), None);
        assert_eq!(running(103), Some(500));
        // It may have run on CPU 0 meanwhile.
        assert!(!states(103).unwrap().contains_key("S"));
        assert_eq!(
            (stats.cpus[0].known_ns, stats.cpus[0].span_ns),
            (1_500, 8_500)
        );
        let read = &stats.calls["read"];
        assert_eq!((read.entered, read.returned, read.timed), (1, 1, 0));
    }

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
