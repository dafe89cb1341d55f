// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls and functions on a time line, where everything inside a span is within the span's time.
//!
//! The order in which functions were entered and left is known for certain. Their times are those
//! of their CPU's counter, and a virtual processor may rest while a time is taken. So times may
//! contradict the order, by as long as that rest. Then the order is right: a span that would begin
//! before the span before it, or end behind the span that contains it, is moved. A span is
//! shortened only where it would not fit.

use super::form::Shown;
use crate::session::calls::Call;

/// A call, or a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its index among the shown functions; `None`: the call itself.
    pub function: Option<usize>,
    /// Its beginning, in nanoseconds.
    pub from: u64,
    /// Its duration; `None`: unknown, so the span has a beginning only.
    pub duration: Option<u64>,
    /// The number of spans around it whose end is known.
    pub level: usize,
}

impl Span {
    /// The end of a span that has one.
    pub fn end(&self) -> Option<u64> {
        Some(self.from + self.duration?)
    }
}

/// All spans of a call, in the order of their beginnings: the call comes first.
pub fn spans(shown: &Shown) -> Vec<Span> {
    let mut line = Line::of(shown.call);
    for (index, entered) in shown.functions.iter().enumerate() {
        line.leave(entered.depth);
        line.enter(index, entered.depth, entered.began, entered.duration);
    }
    line.all
}

/// The time line up to now.
struct Line {
    all: Vec<Span>,
    /// Depths and ends of open functions.
    open: Vec<(u32, u64)>,
    /// The call's end, which bounds all functions, if it is known.
    ended: Option<u64>,
    now: u64,
}

impl Line {
    fn of(call: &Call) -> Line {
        let span = Span {
            function: None,
            from: call.began,
            duration: call.duration(),
            level: 0,
        };
        Line {
            all: vec![span],
            open: Vec::new(),
            ended: span.end(),
            now: call.began,
        }
    }

    /// Closes all open functions that are at least as deep.
    fn leave(&mut self, depth: u32) {
        while let Some((_, end)) = self.open.last().filter(|open| open.0 >= depth) {
            self.now = self.now.max(*end);
            self.open.pop();
        }
    }

    fn enter(&mut self, index: usize, depth: u32, began: Option<u64>, duration: Option<u64>) {
        let around = self.open.last().map(|(_, end)| *end).or(self.ended);
        let latest = around.map_or(u64::MAX, |end| end.saturating_sub(duration.unwrap_or(0)));
        let from = began.unwrap_or(self.now).min(latest).max(self.now);
        let room = around.map_or(u64::MAX, |end| end - from);
        let span = Span {
            function: Some(index),
            from,
            duration: duration.map(|duration| duration.min(room)),
            level: self.open.len() + usize::from(self.ended.is_some()),
        };
        self.now = from;
        self.open.extend(span.end().map(|end| (depth, end)));
        self.all.push(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::calls::Entered;

    /// Level, beginning and duration of each span.
    fn laid(
        ended: Option<u64>,
        functions: &[(u32, Option<u64>, Option<u64>)],
    ) -> Vec<(usize, u64, Option<u64>)> {
        let call = Call {
            began: 100,
            ended,
            ..Call::default()
        };
        let functions: Vec<Entered> = functions
            .iter()
            .map(|(depth, began, duration)| Entered {
                depth: *depth,
                began: *began,
                duration: *duration,
                ..Entered::default()
            })
            .collect();
        let shown = Shown {
            call: &call,
            functions: functions.iter().collect(),
        };
        let all = spans(&shown);
        all.iter()
            .map(|span| (span.level, span.from, span.duration))
            .collect()
    }

    #[test]
    fn what_fits_stays_as_it_was_measured() {
        let functions = [
            (0, Some(110), Some(80)),
            (1, Some(120), Some(10)),
            (1, Some(130), Some(0)),
            (2, Some(130), Some(0)),
            (0, Some(190), Some(10)),
        ];
        assert_eq!(
            laid(Some(200), &functions),
            [
                (0, 100, Some(100)),
                (1, 110, Some(80)),
                (2, 120, Some(10)),
                (2, 130, Some(0)),
                (3, 130, Some(0)),
                (1, 190, Some(10)),
            ]
        );
    }

    #[test]
    fn what_contradicts_the_order_is_moved_then_shortened() {
        let functions = [
            // The first function begins before the call does, the last ends after the call.
            (0, Some(90), Some(60)),
            (1, Some(130), Some(40)),
            (1, Some(155), Some(20)),
            (0, Some(250), Some(10)),
        ];
        assert_eq!(
            laid(Some(200), &functions),
            [
                (0, 100, Some(100)),
                (1, 100, Some(60)),
                (2, 120, Some(40)),
                (2, 160, Some(0)),
                (1, 190, Some(10)),
            ]
        );
    }

    #[test]
    fn what_has_no_known_end_is_around_nothing() {
        let functions = [
            (0, Some(110), None),
            (1, Some(120), Some(10)),
            (2, None, None),
            (0, Some(140), None),
        ];
        let inside = [
            (1, 110, None),
            (1, 120, Some(10)),
            (2, 120, None),
            (1, 140, None),
        ];
        assert_eq!(laid(Some(200), &functions)[1..], inside);
        let outside = inside.map(|(level, from, duration)| (level - 1, from, duration));
        assert_eq!(laid(None, &functions)[0], (0, 100, None));
        assert_eq!(laid(None, &functions)[1..], outside);
    }
}
