// SPDX-License-Identifier: MIT OR Apache-2.0
use prost::Message;

use super::messages::{
    CLEARED, INSTANT, MONOTONIC, NEEDED, SLICE_BEGIN, SLICE_END, Trace, TracePacket,
};
use super::*;
use crate::cmd::trace::tests::{GONE, written};

/// A packet's event, if it has one: when, type, name, and what it has besides.
fn event<'a>(
    packet: &'a TracePacket,
    names: &'a [String],
) -> Option<(u64, i32, &'a str, &'a TrackEvent)> {
    let event = packet.track_event.as_ref()?;
    let name = event.name_iid.map_or("", |iid| &names[iid as usize - 1]);
    Some((packet.timestamp?, event.r#type?, name, event))
}

fn interned(
    trace: &Trace,
    of: impl Fn(&messages::InternedData) -> &[messages::Interned],
) -> Vec<String> {
    let data = trace.packet.iter().filter_map(|p| p.interned_data.as_ref());
    let all: Vec<_> = data.flat_map(|data| of(data).to_vec()).collect();
    let numbers: Vec<u64> = all.iter().map(|one| one.iid.unwrap()).collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
    all.into_iter().map(|one| one.name.unwrap()).collect()
}

#[test]
fn slices_begin_and_end_on_their_threads_track() {
    let trace = Trace::decode(&written("-A sys:openat -f perfetto")[..]).unwrap();
    let packets = &trace.packet;
    let clocks = packets[0].clock_snapshot.as_ref().unwrap();
    assert_eq!(clocks.primary_trace_clock, Some(MONOTONIC));
    assert_eq!(packets[1].sequence_flags, Some(CLEARED));
    let defaults = packets[1].trace_packet_defaults.as_ref().unwrap();
    assert_eq!(defaults.timestamp_clock_id, Some(MONOTONIC));
    let track = packets[2].track_descriptor.as_ref().unwrap();
    let thread = track.thread.as_ref().unwrap();
    assert_eq!(
        (thread.pid, thread.tid),
        (Some(GONE as i32), Some(GONE.into()))
    );
    assert_eq!(thread.thread_name, None);

    let names = interned(&trace, |data| &data.event_names);
    let events: Vec<_> = packets[3..]
        .iter()
        .map(|p| event(p, &names).unwrap())
        .collect();
    let shapes: Vec<_> = events
        .iter()
        .map(|(time, kind, name, _)| (*time, *kind, *name))
        .collect();
    assert_eq!(
        shapes,
        [
            (1000, SLICE_BEGIN, "sys:openat"),
            (1100, SLICE_BEGIN, "outer"),
            (1500, INSTANT, "inner [nfs]"),
            (3100, SLICE_END, ""),
            (3500, SLICE_END, ""),
        ]
    );
    assert!(
        events
            .iter()
            .all(|(.., event)| event.track_uuid == track.uuid)
    );
    assert!(
        packets[3..]
            .iter()
            .all(|packet| packet.sequence_flags == Some(NEEDED))
    );
    assert!(
        packets
            .iter()
            .all(|packet| packet.trusted_packet_sequence_id == Some(SEQUENCE))
    );
    assert_eq!(
        interned(&trace, |data| &data.event_categories),
        ["syscall", "function"]
    );

    let names = interned(&trace, |data| &data.debug_annotation_names);
    let name = |of: &DebugAnnotation| names[of.name_iid.unwrap() as usize - 1].clone();
    let [arguments, result] = &events[1].3.debug_annotations[..] else {
        panic!("{events:?}");
    };
    assert_eq!(
        (name(result), result.int_value),
        ("result".into(), Some(-2))
    );
    assert_eq!(name(arguments), "arguments");
    let [x, y] = &arguments.dict_entries[..] else {
        panic!("{arguments:?}");
    };
    assert_eq!((name(x), x.int_value), ("x".into(), Some(7)));
    assert_eq!(
        (name(y), y.string_value.as_deref()),
        ("y".into(), Some("..."))
    );
}

#[test]
fn names_are_written_once() {
    let mut names = Interning::default();
    assert_eq!([names.events.number("a"), names.events.number("b")], [1, 2]);
    assert_eq!(names.take().unwrap().event_names.len(), 2);
    assert_eq!(names.events.number("a"), 1);
    assert_eq!(names.take(), None);
}

/// Times of the beginnings and ends of slices, each as it is written.
pub fn slices(bytes: &[u8]) -> Vec<(u64, bool)> {
    let trace = Trace::decode(bytes).unwrap();
    let slice = |one: &TracePacket| {
        let kind = one.track_event.as_ref()?.r#type?;
        (kind != INSTANT).then_some((one.timestamp?, kind == SLICE_BEGIN))
    };
    trace.packet.iter().filter_map(slice).collect()
}

/// The names of tracks, and the time and the values of each event.
pub fn shapes(bytes: &[u8]) -> (Vec<String>, Vec<(u64, String)>) {
    let trace = Trace::decode(bytes).unwrap();
    let tracks = trace.packet.iter().filter_map(|one| {
        let track = one.track_descriptor.as_ref()?;
        let thread = track
            .thread
            .as_ref()
            .and_then(|one| one.thread_name.clone());
        track.name.clone().or(thread)
    });
    let names = interned(&trace, |data| &data.debug_annotation_names);
    let text = |one: &DebugAnnotation| {
        one.string_value
            .clone()
            .unwrap_or_else(|| one.int_value.unwrap().to_string())
    };
    let shown = |one: &DebugAnnotation| {
        let name = &names[one.name_iid.unwrap() as usize - 1];
        match &one.array_values[..] {
            [] => format!("{name}={}", text(one)),
            all => {
                let all: Vec<String> = all.iter().map(text).collect();
                format!("{name}=[{}]", all.join(" "))
            }
        }
    };
    let events = trace.packet.iter().filter_map(|one| {
        let event = one.track_event.as_ref()?;
        assert_eq!(event.r#type, Some(INSTANT));
        let values: Vec<String> = event.debug_annotations.iter().map(shown).collect();
        Some((one.timestamp?, values.join(" ")))
    });
    (tracks.collect(), events.collect())
}
