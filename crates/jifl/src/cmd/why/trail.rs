// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trail of each failing call: the blocks that it executed, in their order.

use std::collections::HashMap;

use crate::kernel::errno;
use crate::session::calls::events::Event;
use crate::session::ring::Piece;

/// Something that a call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Executed the block at this address, with this stack pointer's low half.
    Block(u64, u32),
    /// An exception at this address: the kernel's fixup goes on natively in its place.
    Fault(u64),
}

/// A call that failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Failed {
    /// The thread that made it.
    pub thread: u32,
    /// Its number.
    pub nr: u32,
    /// What it returned, an error.
    pub result: i64,
    /// When it began, in nanoseconds.
    pub began: u64,
    /// When it ended.
    pub ended: u64,
    /// All that it did.
    pub marks: Vec<Mark>,
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Trails {
    /// Calls that failed as wanted, in the order of their ends.
    pub failed: Vec<Failed>,
    /// All that ended and of which all is known, those that did not fail, too.
    pub whole: u64,
}

/// A thread's call that has not ended.
struct Open {
    call: Failed,
    result: Option<i64>,
    /// How many pieces it has run in.
    pieces: u32,
    lost: bool,
}

/// Puts failing calls together; of those that return what is `wanted`. `gaps`: when records were
/// lost. A call that has moved between processors, or slept, is whole only if none were meanwhile.
pub fn trails(
    pieces: &[Piece<Event>],
    gaps: &[(u64, u64)],
    wanted: impl Fn(i64) -> bool,
) -> Trails {
    let mut found = Trails::default();
    let mut open: HashMap<u32, Open> = HashMap::new();
    for piece in pieces {
        if let Some(open) = open.get_mut(&piece.thread) {
            open.pieces += 1;
        }
        for event in &piece.events {
            if let Event::Begin(nr) = *event {
                let call = Failed {
                    thread: piece.thread,
                    nr,
                    began: piece.time,
                    ..Failed::default()
                };
                open.insert(
                    piece.thread,
                    Open {
                        call,
                        result: None,
                        pieces: 1,
                        lost: false,
                    },
                );
                continue;
            }
            let Some(now) = open.get_mut(&piece.thread) else {
                continue;
            };
            match *event {
                Event::Enter(address, stack) => now.call.marks.push(Mark::Block(address, stack)),
                Event::Fault(address) => now.call.marks.push(Mark::Fault(address)),
                Event::Result(value) => now.result = Some(value),
                Event::Lost => now.lost = true,
                Event::End(time) => {
                    now.call.ended = time;
                    if let Some(ended) = open.remove(&piece.thread) {
                        found.add(ended, gaps, &wanted);
                    }
                }
                _ => {}
            }
        }
    }
    found
}

impl Trails {
    fn add(&mut self, ended: Open, gaps: &[(u64, u64)], wanted: impl Fn(i64) -> bool) {
        let mut call = ended.call;
        let overlaps = |gap: &(u64, u64)| gap.0 <= call.ended && call.began <= gap.1;
        if ended.lost || (ended.pieces > 1 && gaps.iter().any(overlaps)) {
            return;
        }
        self.whole += 1;
        let is_wanted = |value: &i64| errno::is_error(*value) && wanted(*value);
        if let Some(result) = ended.result.filter(is_wanted) {
            call.result = result;
            self.failed.push(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(time: u64, thread: u32, events: &[Event]) -> Piece<Event> {
        Piece {
            time,
            thread,
            cpu: 0,
            events: events.to_vec(),
        }
    }

    #[test]
    fn calls_that_fail_are_put_together() {
        use Event::{Begin, End, Enter, Fault, Result};
        let pieces = [
            piece(1, 7, &[Begin(1), Enter(10, 1000)]),
            piece(2, 8, &[Begin(2), Enter(20, 1000), Result(5), End(3)]),
            piece(4, 7, &[Enter(11, 900), Fault(12), Result(-2), End(5)]),
            piece(6, 7, &[Begin(1), Enter(10, 1000), Result(-9), End(8)]),
        ];
        let found = trails(&pieces, &[], |value| value == -2);
        assert_eq!(found.whole, 3);
        assert_eq!(found.failed.len(), 1);
        let call = &found.failed[0];
        assert_eq!((call.thread, call.nr, call.result), (7, 1, -2));
        use Mark::{Block, Fault as Faulted};
        assert_eq!(call.marks, [Block(10, 1000), Block(11, 900), Faulted(12)]);
        assert_eq!(trails(&pieces, &[], |_| true).failed.len(), 2);
    }

    #[test]
    fn broken_ones_are_left_out() {
        use Event::{Begin, End, Enter, Lost, Result};
        let ended = [Result(-2), End(9)];
        let here = [&[Begin(1), Enter(10, 1000), Lost][..], &ended].concat();
        let all = |_| true;
        assert_eq!(trails(&[piece(1, 7, &here)], &[], all).whole, 0);
        // Another CPU lost records meanwhile. The thread may have been there, if it moved.
        let whole = [&[Begin(1), Enter(10, 1000)][..], &ended].concat();
        assert_eq!(trails(&[piece(1, 7, &whole)], &[(2, 5)], all).whole, 1);
        let moved = [piece(1, 7, &whole[..2]), piece(6, 7, &whole[2..])];
        assert_eq!(trails(&moved, &[(2, 5)], all).whole, 0);
        assert_eq!(trails(&moved, &[(10, 15)], all).whole, 1);
    }
}
