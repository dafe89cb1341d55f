// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events without a duration in the formats of viewers, for commands that record moments and no
//! calls.

use serde_json::Value;

use super::chrome::Chrome;
use super::form::{Described, Form};
use super::perfetto::Perfetto;
use crate::base::clock::Moment;
use crate::session::calls::threads::{Thread, Threads};
use crate::session::ring::Interrupt;

/// The line on which an event is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Track<'a> {
    /// That of a thread.
    Thread {
        /// Its number.
        thread: u32,
        /// That of its process.
        process: u32,
        /// Its name at that time.
        name: &'a str,
    },
    /// That of a processor, for what belongs to no thread.
    Cpu(u32),
    /// That of a processor's softirqs, or of its hard interrupts.
    Interrupt(Interrupt),
}

impl Track<'_> {
    /// Its number among all tracks; that of a thread is the thread's.
    pub fn number(&self) -> u32 {
        match self {
            Track::Thread { thread, .. } => *thread,
            Track::Cpu(cpu) => u32::MAX - cpu,
            Track::Interrupt(interrupt) => interrupt.number(),
        }
    }

    /// What is known of the thread. A processor is shown as a thread of process 0.
    pub fn thread(&self) -> Thread {
        match self {
            Track::Thread {
                thread,
                process,
                name,
            } => Thread {
                process: *process,
                process_name: (thread == process).then(|| (*name).to_owned()),
                name: Some((*name).to_owned()),
            },
            Track::Cpu(cpu) => Thread {
                process: 0,
                process_name: Some("processors".into()),
                name: Some(format!("CPU {cpu}")),
            },
            Track::Interrupt(interrupt) => Thread {
                process: 0,
                process_name: Some("processors".into()),
                name: Some(interrupt.to_string()),
            },
        }
    }
}

/// An event without a duration.
pub struct Instant<'a> {
    /// Where it is shown.
    pub track: Track<'a>,
    /// When it was, in nanoseconds of CLOCK_MONOTONIC.
    pub time: u64,
    /// Its name and its values.
    pub described: Described<'a>,
}

/// A viewer's format.
pub enum Viewer {
    /// Chrome's trace events.
    Chrome(Chrome),
    /// Perfetto's own.
    Perfetto(Box<Perfetto>),
}

impl Viewer {
    /// Chrome's trace events.
    pub fn chrome() -> Viewer {
        Viewer::Chrome(Chrome::new(Threads::default()))
    }

    /// Perfetto's own format; `moment`: the clocks, at any time of the session.
    pub fn perfetto(moment: Moment) -> Viewer {
        Viewer::Perfetto(Box::new(Perfetto::new(moment, Threads::default())))
    }

    /// Writes what comes before all events.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        match self {
            Viewer::Chrome(chrome) => chrome.begin(out),
            Viewer::Perfetto(perfetto) => perfetto.begin(out),
        }
    }

    /// Writes an event.
    pub fn instant(&mut self, out: &mut Vec<u8>, instant: &Instant<'_>) {
        match self {
            Viewer::Chrome(chrome) => chrome.instant(out, instant),
            Viewer::Perfetto(perfetto) => perfetto.instant(out, instant),
        }
    }

    /// Writes an event that lasts so many nanoseconds.
    pub fn slice(&mut self, out: &mut Vec<u8>, begin: &Instant<'_>, duration: u64) {
        match self {
            Viewer::Chrome(chrome) => chrome.slice(out, begin, duration),
            Viewer::Perfetto(perfetto) => perfetto.slice(out, begin, duration),
        }
    }

    /// Writes what comes behind all events; `about`: what else there is to say, for which Perfetto's
    /// format has no place.
    pub fn end(&mut self, out: &mut Vec<u8>, about: &Value) {
        match self {
            Viewer::Chrome(_) => Chrome::close(out, about),
            Viewer::Perfetto(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::trace::perfetto::tests::shapes;
    use serde_json::json;

    /// Two events of a thread that has another name at the second one, and one of a processor.
    fn written(mut viewer: Viewer) -> Vec<u8> {
        let mut out = Vec::new();
        viewer.begin(&mut out);
        let thread = |name| Track::Thread {
            thread: 8,
            process: 8,
            name,
        };
        for (time, track) in [
            (1500, thread("sh")),
            (2000, thread("ls")),
            (2500, Track::Cpu(1)),
        ] {
            let Value::Object(details) = json!({"count": 7, "stack": ["a+0x1", "b+0x2"]}) else {
                unreachable!()
            };
            let described = Described {
                name: "fn:vfs_read".into(),
                category: "probe",
                details,
            };
            viewer.instant(
                &mut out,
                &Instant {
                    track,
                    time,
                    described,
                },
            );
        }
        viewer.end(&mut out, &json!({"missed": 0}));
        out
    }

    #[test]
    fn chrome_shows_instants_of_threads_and_processors() {
        let value: Value = serde_json::from_slice(&written(Viewer::chrome())).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        let args = json!({"count": 7, "stack": ["a+0x1", "b+0x2"]});
        let instant = |pid, tid, ts| {
            json!({"name": "fn:vfs_read", "cat": "probe", "pid": pid, "tid": tid, "ts": ts,
                   "ph": "i", "s": "t", "args": args})
        };
        let shown: Vec<&Value> = events.iter().filter(|event| event["ph"] == "i").collect();
        assert_eq!(
            shown,
            [
                &instant(8, 8, 1.5),
                &instant(8, 8, 2.0),
                &instant(0, 1, 2.5)
            ]
        );
        let named = |event: &&Value| event["name"] == "thread_name";
        let names: Vec<&Value> = events
            .iter()
            .filter(named)
            .map(|one| &one["args"])
            .collect();
        assert_eq!(
            names,
            [
                &json!({"name": "sh"}),
                &json!({"name": "ls"}),
                &json!({"name": "CPU 1"})
            ]
        );
        assert_eq!(value["otherData"], json!({"missed": 0}));
    }

    #[test]
    fn perfetto_shows_them_on_tracks() {
        let viewer = Viewer::perfetto(Moment::default());
        let (tracks, events) = shapes(&written(viewer));
        // The process of the thread has a track, too, each time that the name is told.
        assert_eq!(tracks.iter().filter(|name| *name == "CPU 1").count(), 1);
        assert!(tracks.contains(&"sh".to_owned()) && tracks.contains(&"ls".to_owned()));
        let times: Vec<u64> = events.iter().map(|(time, _)| *time).collect();
        assert_eq!(times, [1500, 2000, 2500]);
        assert!(
            events
                .iter()
                .all(|(_, values)| values == "count=7 stack=[a+0x1 b+0x2]")
        );
    }
}
