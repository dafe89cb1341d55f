// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records for viewers (Perfetto, Chrome): what runs on a CPU is a slice on the CPU's line, from
//! one switch to the next; all other records are instants on the lines of their threads. Slices are
//! made of all switches, and those that are wanted are written.

use std::collections::HashMap;

use serde_json::json;

use super::choice::Choice;
use super::running::{Ran, Running};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::cmd::trace::{Described, Instant, Track, Viewer};
use crate::kernel::syscalls::Table;
use crate::session::flight::fields::{Field, Kind, Value};
use crate::session::flight::{Entry, Flight};
use crate::session::ring::Interrupt;

/// The event of a switch to another task.
pub const SWITCH: &str = "sched_switch";

/// What a switch says.
pub struct Switch {
    /// The task that runs from now on; 0: none.
    pub next: u32,
    /// Its name, if that was recorded.
    pub name: Option<String>,
    /// The state of the task that ran, as letters.
    pub state: Option<String>,
}

/// Reads a switch. `None`: it is another event, or has other arguments. The event that is recorded
/// may have more than one thread: the last one is the next.
pub fn switch(flight: &Flight, entry: &Entry, calls: &Table) -> Option<Switch> {
    let event = flight.event(entry).filter(|event| event.name == SWITCH)?;
    let is_thread = |field: &&Field| field.kind == Kind::Thread;
    let next = event.fields.iter().rfind(is_thread)?;
    let text = |is: fn(Kind) -> bool| {
        let field = event.fields.iter().rfind(|field| is(field.kind))?;
        match field.value(&entry.raw.arg, calls) {
            Value::Text(text) | Value::Name(text) => Some(text),
            _ => None,
        }
    };
    Some(Switch {
        next: entry.raw.arg[next.at] as u32,
        name: text(|kind| matches!(kind, Kind::Text(_))),
        state: text(|kind| kind == Kind::State),
    })
}

struct Shower<'a> {
    flight: &'a Flight,
    choice: &'a Choice,
    /// Are switches wanted?
    slices: bool,
    viewer: Viewer,
    names: HashMap<u32, String>,
    running: Running,
}

/// Bytes that are written at once.
const PIECE: usize = 1 << 16;

/// Writes the records that are wanted. The recording has all of them.
///
/// # Errors
/// `write` failed.
pub fn write(
    flight: &Flight,
    choice: &Choice,
    chrome: bool,
    calls: &Table,
    mut write: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let raw = flight.head.raw();
    let viewer = match chrome {
        true => Viewer::chrome(),
        // How long the machine had slept at that time is not known.
        false => Viewer::perfetto(Moment {
            monotonic: raw.monotonic_ns,
            boottime: raw.monotonic_ns,
            realtime: raw.realtime_ns,
        }),
    };
    let mut shower = Shower {
        flight,
        choice,
        slices: choice.has_event(flight, SWITCH),
        viewer,
        names: HashMap::new(),
        running: Running::new(raw.ncpus as usize),
    };
    let mut out = Vec::new();
    shower.viewer.begin(&mut out);
    for entry in &flight.entries {
        shower.show(&mut out, entry, calls);
        if out.len() >= PIECE {
            write(&out)?;
            out.clear();
        }
    }
    for ran in shower.running.end() {
        shower.slice(&mut out, &ran, None);
    }
    shower
        .viewer
        .end(&mut out, &json!({ "counts": flight.total() }));
    write(&out)
}

impl Shower<'_> {
    fn show(&mut self, out: &mut Vec<u8>, entry: &Entry, calls: &Table) {
        let (cpu, time) = (usize::from(entry.raw.cpu), self.flight.time(entry));
        let tid = entry.raw.tid;
        if let Some(ran) = self.running.record(entry, time) {
            self.slice(out, &ran, None);
        }
        if let Some(switch) = switch(self.flight, entry, calls) {
            if let Some(ran) = self.running.switch(entry, time, switch.next) {
                self.slice(out, &ran, switch.state);
            }
            if let Some(name) = switch.name {
                self.names.insert(switch.next, name);
            }
            return;
        }
        if !self.choice.has(entry) {
            return;
        }
        let values = self.flight.values(entry, calls);
        let details = values.into_iter().map(|(name, value)| (name, value.json()));
        let described = Described {
            name: self.flight.event_name(entry).into(),
            category: "flight",
            details: details.collect(),
        };
        let name = self.name(tid);
        let interrupt = Interrupt::of(u32::from(entry.raw.level()), cpu);
        let track = match (interrupt, tid) {
            (Some(interrupt), _) => Track::Interrupt(interrupt),
            (None, 0) => Track::Cpu(cpu as u32),
            (None, thread) => Track::Thread {
                thread,
                process: thread,
                name: &name,
            },
        };
        let instant = Instant {
            track,
            time,
            described,
        };
        self.viewer.instant(out, &instant);
    }

    /// Writes what ran, if it is wanted. The idle task is no slice.
    fn slice(&mut self, out: &mut Vec<u8>, ran: &Ran, state: Option<String>) {
        let of_thread = self.choice.tid.is_none_or(|tid| tid == ran.thread);
        if !self.slices || !of_thread || ran.thread == 0 {
            return;
        }
        let mut details = crate::cmd::trace::Details::new();
        details.insert("tid".into(), ran.thread.into());
        if let Some(state) = state {
            details.insert("state".into(), state.into());
        }
        let begin = Instant {
            track: Track::Cpu(ran.cpu as u32),
            time: ran.since,
            described: Described {
                name: self.name(ran.thread).into(),
                category: "sched",
                details,
            },
        };
        self.viewer.slice(out, &begin, ran.time());
    }

    fn name(&self, thread: u32) -> String {
        let known = self.names.get(&thread).cloned();
        known.unwrap_or_else(|| format!("thread {thread}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::flight::made::{self, Made};
    use serde_json::Value;

    fn written(made: &Made, choice: &Choice, chrome: bool) -> Vec<u8> {
        let flight = Flight::read(&mut made.region()).unwrap();
        let mut all = Vec::new();
        write(&flight, choice, chrome, &Table::all(), |bytes| {
            all.extend_from_slice(bytes);
            Ok(())
        })
        .unwrap();
        all
    }

    /// Chrome's events of a phase.
    fn of(phase: &str, made: &Made, choice: &Choice) -> Vec<Value> {
        let mut value: Value = serde_json::from_slice(&written(made, choice, true)).unwrap();
        let events = value["traceEvents"].as_array_mut().unwrap();
        events.retain(|event| event["ph"] == phase);
        std::mem::take(events)
    }

    fn slices(made: &Made, choice: &Choice) -> Vec<String> {
        let text = |one: &Value| {
            let [tid, name] = [&one["tid"], &one["name"]];
            format!("{tid} {name} {} {}", one["ts"], one["dur"])
        };
        of("X", made, choice).iter().map(text).collect()
    }

    fn chosen(events: &[&str], tid: Option<u32>) -> Choice {
        let flight = Flight::read(&mut Made::sample().region()).unwrap();
        let words: Vec<String> = events.iter().map(|word| (*word).to_owned()).collect();
        Choice::of(&words, tid, &flight).unwrap()
    }

    #[test]
    fn switches_are_slices_and_others_are_instants() {
        let (made, all) = (Made::sample(), Choice::default());
        assert_eq!(
            slices(&made, &all),
            [
                "0 \"tar\" 500000001.0 6.0",
                "1 \"dd\" 500000002.5 5.5",
                "0 \"tar\" 500000009.0 0.5",
                "1 \"cc1\" 500000008.0 2.0"
            ]
        );
        let instants = of("i", &made, &all);
        assert_eq!(instants.len(), 9);
        let ended = &of("X", &made, &all)[0];
        assert_eq!(ended["args"], json!({"tid": 101, "state": "S"}));
        assert_eq!(
            (&instants[0]["name"], &instants[0]["args"]["call"]),
            (&json!("sys_enter"), &json!("openat"))
        );
    }

    #[test]
    fn what_is_not_wanted_makes_no_slice_of_what_is() {
        let made = Made::sample();
        let of_calls = chosen(&["sys"], None);
        assert_eq!(slices(&made, &of_calls), Vec::<String>::new());
        assert_eq!(of("i", &made, &of_calls).len(), 4);
        // One thread, up to where it is switched away.
        let of_dd = chosen(&[], Some(102));
        assert_eq!(slices(&made, &of_dd), ["1 \"dd\" 500000002.5 5.5"]);
        assert_eq!(of("i", &made, &of_dd).len(), 2);
        let both = chosen(&["sched", "block"], Some(101));
        assert_eq!(slices(&made, &both).len(), 2);
        assert_eq!(of("i", &made, &both).len(), 0);
    }

    #[test]
    fn without_switches_there_are_no_slices() {
        let mut made = Made::new(1, 64);
        made.put(0, 1_000, made::SOFTIRQ, 101, &[1])
            .put(0, 9_000, made::SOFTIRQ, 102, &[1]);
        assert_eq!(slices(&made, &Choice::default()), Vec::<String>::new());
    }

    #[test]
    fn a_slice_ends_where_records_are_missing() {
        let mut made = Made::new(1, 64);
        made.put(0, 1_000, made::SWITCH, 0, &made::switch(0, 101, "tar"))
            .put(0, 2_000, made::SOFTIRQ, 101, &[1])
            .begin(0)
            .put(
                0,
                9_000,
                made::SWITCH,
                102,
                &made::switch(1, 0, "swapper/0"),
            );
        assert_eq!(
            slices(&made, &Choice::default()),
            ["0 \"tar\" 500000001.0 1.0"]
        );
    }

    #[test]
    fn perfetto_has_the_same_slices() {
        let bytes = written(&Made::sample(), &Choice::default(), false);
        let slices = crate::cmd::trace::perfetto::tests::slices(&bytes);
        let since = |time| time + made::MONOTONIC;
        let expected = [(1000, 7000), (2500, 8000), (9000, 9500), (8000, 10_000)];
        let both = |(begin, end)| [(since(begin), true), (since(end), false)];
        assert_eq!(
            slices,
            expected.into_iter().flat_map(both).collect::<Vec<_>>()
        );
    }
}
