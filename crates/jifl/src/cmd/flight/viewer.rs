// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records for viewers (Perfetto, Chrome): what runs on a CPU is a slice on the CPU's line, from
//! one switch to the next; all other records are instants on the lines of their threads.

use std::collections::HashMap;

use serde_json::json;

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

/// What runs on a CPU since when.
struct Running {
    thread: u32,
    since: u64,
}

struct Shower<'a> {
    flight: &'a Flight,
    viewer: Viewer,
    names: HashMap<u32, String>,
    /// Of each CPU.
    running: Vec<Option<Running>>,
    /// The time of each CPU's newest record.
    latest: Vec<u64>,
}

/// Bytes that are written at once.
const PIECE: usize = 1 << 16;

/// Writes all records.
///
/// # Errors
/// `write` failed.
pub fn write(
    flight: &Flight,
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
    let cpus = raw.ncpus as usize;
    let mut shower = Shower {
        flight,
        viewer,
        names: HashMap::new(),
        running: (0..cpus).map(|_| None).collect(),
        latest: vec![0; cpus],
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
    for cpu in 0..cpus {
        let end = shower.latest[cpu];
        shower.stop(&mut out, cpu, end, None);
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
        if self.latest[cpu] == 0 {
            let since = time;
            self.running[cpu] = Some(Running { thread: tid, since });
        }
        self.latest[cpu] = self.latest[cpu].max(time);
        if let Some(switch) = switch(self.flight, entry, calls) {
            self.stop(out, cpu, time, switch.state);
            if let Some(name) = switch.name {
                self.names.insert(switch.next, name);
            }
            self.running[cpu] = Some(Running {
                thread: switch.next,
                since: time,
            });
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

    /// Ends what runs on a CPU. The idle task is no slice.
    fn stop(&mut self, out: &mut Vec<u8>, cpu: usize, time: u64, state: Option<String>) {
        let running = self.running[cpu].take();
        let Some(Running { thread, since }) = running.filter(|running| running.thread != 0) else {
            return;
        };
        let mut details = crate::cmd::trace::Details::new();
        details.insert("tid".into(), thread.into());
        if let Some(state) = state {
            details.insert("state".into(), state.into());
        }
        let begin = Instant {
            track: Track::Cpu(cpu as u32),
            time: since,
            described: Described {
                name: self.name(thread).into(),
                category: "sched",
                details,
            },
        };
        let duration = time.saturating_sub(since);
        self.viewer.slice(out, &begin, duration);
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

    fn written(chrome: bool) -> Vec<u8> {
        let flight = Flight::read(&mut Made::sample().region()).unwrap();
        let mut all = Vec::new();
        write(&flight, chrome, &Table::all(), |bytes| {
            all.extend_from_slice(bytes);
            Ok(())
        })
        .unwrap();
        all
    }

    #[test]
    fn switches_are_slices_and_others_are_instants() {
        let value: serde_json::Value = serde_json::from_slice(&written(true)).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        let of = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
        let slices: Vec<String> = of("X")
            .map(|one| {
                format!(
                    "{} {} {} {}",
                    one["tid"], one["name"], one["ts"], one["dur"]
                )
            })
            .collect();
        assert_eq!(
            slices,
            [
                "0 \"tar\" 500000001.0 6.0",
                "1 \"dd\" 500000002.5 5.5",
                "0 \"tar\" 500000009.0 0.5",
                "1 \"cc1\" 500000008.0 2.0"
            ]
        );
        assert_eq!(of("i").count(), 9);
        let ended = of("X").next().unwrap();
        assert_eq!(ended["args"], json!({"tid": 101, "state": "S"}));
        let call = of("i").next().unwrap();
        assert_eq!(
            (&call["name"], &call["args"]["call"]),
            (&json!("sys_enter"), &json!("openat"))
        );
    }

    #[test]
    fn perfetto_has_the_same_slices() {
        let slices = crate::cmd::trace::perfetto::tests::slices(&written(false));
        let since = |time| time + made::MONOTONIC;
        let expected = [(1000, 7000), (2500, 8000), (9000, 9500), (8000, 10_000)];
        let both = |(begin, end)| [(since(begin), true), (since(end), false)];
        assert_eq!(
            slices,
            expected.into_iter().flat_map(both).collect::<Vec<_>>()
        );
    }
}
