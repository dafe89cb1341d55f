// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call paths in Perfetto's own format. They are laid out on one track: a slice is as long as the
//! inclusive value of its path, and the slices in it are what it calls, the largest first.

use super::metric::Metric;
use super::tree::{Ranked, Tree};
use crate::cmd::trace::perfetto::interning::Interning;
use crate::cmd::trace::perfetto::messages::{
    CLEARED, DebugAnnotation, SLICE_BEGIN, SLICE_END, TracePacket, TrackDescriptor, TrackEvent,
};
use crate::cmd::trace::perfetto::{packet, put, put_event};

/// The number of the only track.
const TRACK: u64 = 1;

/// The trace.
pub fn perfetto(tree: &Tree, metric: Metric) -> Vec<u8> {
    let tree = tree.by_name();
    let mut out = Vec::new();
    put(
        &mut out,
        TracePacket {
            sequence_flags: Some(CLEARED),
            track_descriptor: Some(TrackDescriptor {
                uuid: Some(TRACK),
                name: Some(title(metric)),
                ..TrackDescriptor::default()
            }),
            ..packet()
        },
    );
    let ranked = tree.ranked(metric);
    let mut track = Track {
        tree: &tree,
        ranked: &ranked,
        metric,
        names: Interning::default(),
        out,
    };
    let mut time = 0;
    for root in &ranked.roots {
        track.add(*root, time);
        time += ranked.inclusive[*root];
    }
    track.out
}

/// The name of the track, which tells what a nanosecond is.
fn title(metric: Metric) -> String {
    let title = metric.title();
    match metric {
        Metric::Insn => format!("{title} (1 ns: 1 instruction)"),
        Metric::Calls => format!("{title} (1 ns: 1 call)"),
        _ => title.to_owned(),
    }
}

struct Track<'a> {
    tree: &'a Tree,
    ranked: &'a Ranked,
    metric: Metric,
    names: Interning,
    out: Vec<u8>,
}

impl Track<'_> {
    /// A slice and those in it.
    fn add(&mut self, index: usize, begin: u64) {
        let length = self.ranked.inclusive[index];
        if length == 0 {
            return;
        }
        let event = self.event(index);
        let interned = self.names.take();
        put_event(&mut self.out, begin, event, interned);
        let mut time = begin;
        for child in &self.ranked.children[index] {
            self.add(*child, time);
            time += self.ranked.inclusive[*child];
        }
        let event = TrackEvent {
            r#type: Some(SLICE_END),
            track_uuid: Some(TRACK),
            ..TrackEvent::default()
        };
        put_event(&mut self.out, begin + length, event, None);
    }

    fn event(&mut self, index: usize) -> TrackEvent {
        let node = &self.tree.nodes[index];
        let values = [
            ("own", self.metric.of(&node.own)),
            ("calls", node.own.calls),
        ];
        let annotations = values.map(|(name, value)| DebugAnnotation {
            name_iid: Some(self.names.annotations.number(name)),
            uint_value: Some(value),
            ..DebugAnnotation::default()
        });
        TrackEvent {
            r#type: Some(SLICE_BEGIN),
            track_uuid: Some(TRACK),
            name_iid: Some(self.names.events.number(&node.name())),
            category_iids: vec![self.names.categories.number("function")],
            debug_annotations: annotations.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::cmd::prof::paths::tree::tests::sample;
    use crate::cmd::trace::perfetto::messages::Trace;

    #[test]
    fn slices_are_as_long_as_their_values() {
        let trace = Trace::decode(&perfetto(&sample(), Metric::Insn)[..]).unwrap();
        let track = trace.packet[0].track_descriptor.as_ref().unwrap();
        assert_eq!(
            track.name.as_deref(),
            Some("Instructions (1 ns: 1 instruction)")
        );
        let (mut names, mut open, mut slices) = (Vec::new(), Vec::new(), Vec::new());
        for packet in &trace.packet[1..] {
            let new = packet.interned_data.iter().flat_map(|one| &one.event_names);
            names.extend(new.map(|one| one.name.clone().unwrap()));
            let (event, time) = (
                packet.track_event.as_ref().unwrap(),
                packet.timestamp.unwrap(),
            );
            match event.name_iid {
                Some(name) => open.push((names[name as usize - 1].clone(), time)),
                None => {
                    let (name, begin) = open.pop().unwrap();
                    slices.push((name, begin, time));
                }
            }
        }
        assert_eq!(open, []);
        let wanted = [
            ("vfs_read", 0, 300),
            ("sys:close", 0, 300),
            ("copy.isra.0", 300, 310),
            ("read_iter", 300, 380),
            ("read_iter [nfs]", 380, 400),
            ("vfs_read", 300, 500),
            ("sys:read", 300, 500),
        ];
        assert_eq!(
            slices,
            wanted.map(|(name, begin, end)| (name.to_owned(), begin, end))
        );
    }

    #[test]
    fn what_has_nothing_of_the_metric_has_no_slice() {
        let trace = Trace::decode(&perfetto(&sample(), Metric::Runnable)[..]).unwrap();
        assert_eq!(trace.packet.len(), 1);
    }
}
