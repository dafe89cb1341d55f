// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perfetto's own format, for ui.perfetto.dev and its trace_processor: a track for each thread, on
//! which slices begin and end.

pub(in crate::cmd) mod interning;
pub(in crate::cmd) mod messages;

use prost::Message;
use serde_json::Value;

use self::interning::Interning;
use self::messages::{
    BOOTTIME, CLEARED, Clock, ClockSnapshot, DebugAnnotation, INSTANT, MONOTONIC, NEEDED,
    ProcessDescriptor, REALTIME, SLICE_BEGIN, SLICE_END, ThreadDescriptor, Trace, TracePacket,
    TracePacketDefaults, TrackDescriptor, TrackEvent,
};
use super::form::{Described, Details, Form, Shown, View};
use super::instant::{Instant, Track};
use super::spans::{Span, spans};
use crate::base::clock::Moment;
use crate::session::calls::Call;
use crate::session::calls::threads::{Thread, Threads};

/// The number of the only sequence of packets.
const SEQUENCE: u32 = 1;

/// Numbers of tracks: the kind in the upper bits, the thread's or process' number in the lower.
const THREAD: u64 = 1 << 32;
const PROCESS: u64 = 2 << 32;
const CPU: u64 = 3 << 32;
const INTERRUPT: u64 = 4 << 32;

/// Packets.
pub struct Perfetto {
    moment: Moment,
    threads: Threads,
    names: Interning,
}

impl Perfetto {
    /// A trace of a session, with the clocks at its end, and the names of threads.
    pub fn new(moment: Moment, threads: Threads) -> Perfetto {
        Perfetto {
            moment,
            threads,
            names: Interning::default(),
        }
    }
}

impl Form for Perfetto {
    /// Times are of CLOCK_MONOTONIC. The values of the other clocks at one moment let viewers show
    /// the date.
    fn begin(&mut self, out: &mut Vec<u8>) {
        let clock = |number, time| Clock {
            clock_id: Some(number),
            timestamp: Some(time),
        };
        let clocks = [
            clock(MONOTONIC, self.moment.monotonic),
            clock(BOOTTIME, self.moment.boottime),
            clock(REALTIME, self.moment.realtime),
        ];
        put(
            out,
            TracePacket {
                clock_snapshot: Some(ClockSnapshot {
                    clocks: clocks.into(),
                    primary_trace_clock: Some(MONOTONIC),
                }),
                ..packet()
            },
        );
        put(
            out,
            TracePacket {
                sequence_flags: Some(CLEARED),
                trace_packet_defaults: Some(TracePacketDefaults {
                    timestamp_clock_id: Some(MONOTONIC),
                }),
                ..packet()
            },
        );
    }

    fn call(&mut self, out: &mut Vec<u8>, shown: &Shown, view: &View) {
        let call = shown.call;
        let track = Some(match call.interrupt {
            Some(interrupt) => self.meet(out, &Track::Interrupt(interrupt)),
            None => self.find(out, call),
        });
        // Level and end of each open span, the innermost last.
        let mut open: Vec<(usize, u64)> = Vec::new();
        for span in spans(shown) {
            end(out, track, &mut open, span.level);
            let event = TrackEvent {
                track_uuid: track,
                ..self.event(&span, shown, view)
            };
            let interned = self.names.take();
            put_event(out, span.from, event, interned);
            open.extend(span.end().map(|end| (span.level, end)));
        }
        end(out, track, &mut open, 0);
    }

    /// Length of the output up to the last call whose slices all end.
    fn whole(&self, last: &[u8], _part: &[u8]) -> Option<(usize, &'static [u8])> {
        Some((last.len(), b""))
    }
}

impl Perfetto {
    fn event(&mut self, span: &Span, shown: &Shown, view: &View) -> TrackEvent {
        let kind = span.duration.map_or(INSTANT, |_| SLICE_BEGIN);
        self.described(&view.describe(shown, span.function), kind)
    }

    /// The number of a track, which is described if it is new.
    fn meet(&mut self, out: &mut Vec<u8>, track: &Track<'_>) -> u64 {
        let thread = track.thread();
        let uuid = match *track {
            Track::Thread { thread, .. } => THREAD | u64::from(thread),
            Track::Cpu(cpu) => CPU | u64::from(cpu),
            Track::Interrupt(interrupt) => INTERRUPT | u64::from(interrupt.number()),
        };
        if self.threads.meet(track.number(), &thread) {
            let all = match track {
                Track::Thread { thread: number, .. } => tracks(&thread, *number),
                Track::Cpu(_) | Track::Interrupt(_) => vec![TrackDescriptor {
                    uuid: Some(uuid),
                    name: thread.name,
                    ..TrackDescriptor::default()
                }],
            };
            put_tracks(out, all);
        }
        uuid
    }

    /// The same of the thread that made a call.
    fn find(&mut self, out: &mut Vec<u8>, call: &Call) -> u64 {
        let (thread, new) = self.threads.find(call.thread, call.began);
        if new {
            put_tracks(out, tracks(thread, call.thread));
        }
        THREAD | u64::from(call.thread)
    }

    /// Writes an event without a duration.
    pub fn instant(&mut self, out: &mut Vec<u8>, instant: &Instant<'_>) {
        let track = self.meet(out, &instant.track);
        let event = TrackEvent {
            track_uuid: Some(track),
            ..self.described(&instant.described, INSTANT)
        };
        let interned = self.names.take();
        put_event(out, instant.time, event, interned);
    }

    /// Writes an event that lasts so many nanoseconds.
    pub fn slice(&mut self, out: &mut Vec<u8>, begin: &Instant<'_>, duration: u64) {
        let track = self.meet(out, &begin.track);
        let event = TrackEvent {
            track_uuid: Some(track),
            ..self.described(&begin.described, SLICE_BEGIN)
        };
        let interned = self.names.take();
        put_event(out, begin.time, event, interned);
        let event = TrackEvent {
            r#type: Some(SLICE_END),
            track_uuid: Some(track),
            ..TrackEvent::default()
        };
        put_event(out, begin.time.saturating_add(duration), event, None);
    }

    fn described(&mut self, described: &Described<'_>, kind: i32) -> TrackEvent {
        TrackEvent {
            r#type: Some(kind),
            name_iid: Some(self.names.events.number(&described.name)),
            category_iids: vec![self.names.categories.number(described.category)],
            debug_annotations: self.annotations(&described.details),
            ..TrackEvent::default()
        }
    }

    fn annotations(&mut self, details: &Details) -> Vec<DebugAnnotation> {
        let each = details.iter();
        each.map(|(name, value)| self.annotation(name, value))
            .collect()
    }

    fn annotation(&mut self, name: &str, value: &Value) -> DebugAnnotation {
        DebugAnnotation {
            name_iid: Some(self.names.annotations.number(name)),
            ..self.value(value)
        }
    }

    fn value(&mut self, value: &Value) -> DebugAnnotation {
        let mut annotation = DebugAnnotation::default();
        match value {
            Value::Bool(value) => annotation.bool_value = Some(*value),
            Value::Number(value) => {
                annotation.int_value = value.as_i64();
                if annotation.int_value.is_none() {
                    annotation.uint_value = value.as_u64();
                }
            }
            Value::Object(entries) => annotation.dict_entries = self.annotations(entries),
            Value::String(text) => annotation.string_value = Some(text.clone()),
            Value::Array(all) => {
                annotation.array_values = all.iter().map(|one| self.value(one)).collect();
            }
            // Details contain no null.
            Value::Null => {}
        }
        annotation
    }
}

/// Ends slices that are over before a slice of this level begins.
fn end(out: &mut Vec<u8>, track: Option<u64>, open: &mut Vec<(usize, u64)>, level: usize) {
    while let Some((_, time)) = open.last().filter(|open| open.0 >= level).copied() {
        open.pop();
        let event = TrackEvent {
            r#type: Some(SLICE_END),
            track_uuid: track,
            ..TrackEvent::default()
        };
        put_event(out, time, event, None);
    }
}

/// A track for a thread, and one for its process if that has a name.
fn tracks(thread: &Thread, number: u32) -> Vec<TrackDescriptor> {
    let process = thread.process_name.clone().map(|name| TrackDescriptor {
        uuid: Some(PROCESS | u64::from(thread.process)),
        process: Some(ProcessDescriptor {
            pid: Some(thread.process as i32),
            process_name: Some(name),
        }),
        ..TrackDescriptor::default()
    });
    let own = TrackDescriptor {
        uuid: Some(THREAD | u64::from(number)),
        thread: Some(ThreadDescriptor {
            pid: Some(thread.process as i32),
            tid: Some(number.into()),
            thread_name: thread.name.clone(),
        }),
        ..TrackDescriptor::default()
    };
    process.into_iter().chain([own]).collect()
}

fn put_tracks(out: &mut Vec<u8>, tracks: Vec<TrackDescriptor>) {
    for track in tracks {
        put(
            out,
            TracePacket {
                track_descriptor: Some(track),
                ..packet()
            },
        );
    }
}

/// A packet without content.
pub(in crate::cmd) fn packet() -> TracePacket {
    TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE),
        ..TracePacket::default()
    }
}

pub(in crate::cmd) fn put_event(
    out: &mut Vec<u8>,
    time: u64,
    event: TrackEvent,
    interned: Option<messages::InternedData>,
) {
    put(
        out,
        TracePacket {
            timestamp: Some(time),
            sequence_flags: Some(NEEDED),
            interned_data: interned,
            track_event: Some(event),
            ..packet()
        },
    );
}

/// A trace of one packet: a sequence of such traces is one trace.
pub(in crate::cmd) fn put(out: &mut Vec<u8>, packet: TracePacket) {
    let packet = vec![packet];
    out.extend(Trace { packet }.encode_to_vec());
}

#[cfg(test)]
pub mod tests;
