// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trail of each failing call: the blocks that it executed, in their order.

use std::collections::HashMap;

use crate::session::calls::events::Event;
use crate::session::ring::{self, Caller, Interrupt, Piece};

/// A mark of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mark {
    /// It executed the block at this address, with this low half of the stack pointer.
    Block(u64, u32),
    /// It had an exception at this address, and the kernel's fixup goes on natively.
    Fault(u64),
}

/// A call that failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Failed {
    /// The thread that made it, or the one that was interrupted.
    pub thread: u32,
    /// What made it; `None`: the thread.
    pub interrupt: Option<Interrupt>,
    /// Its number.
    pub nr: u32,
    /// Its result: an error; 0 for NULL.
    pub result: i64,
    /// When it began, in nanoseconds.
    pub began: u64,
    /// When it ended.
    pub ended: u64,
    /// All its marks.
    pub marks: Vec<Mark>,
}

/// The trails of a session.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Trails {
    /// Calls that failed as wanted, in the order of their ends.
    pub failed: Vec<Failed>,
    /// Number of calls that ended and are completely known, including those that did not fail.
    pub whole: u64,
}

/// A call that has not ended.
struct Open {
    call: Failed,
    result: Option<i64>,
    /// Number of pieces in which it has run.
    pieces: u32,
    lost: bool,
}

/// Puts failing calls together whose result is `wanted`. `gaps`: intervals in which records were
/// lost. A call that has moved between processors, or slept, is complete only if none were lost
/// meanwhile.
pub fn trails(
    pieces: &[Piece<Event>],
    gaps: &[(u64, u64)],
    wanted: impl Fn(i64) -> bool,
) -> Trails {
    let mut found = Trails::default();
    let mut open: HashMap<Caller, Open> = HashMap::new();
    for piece in pieces {
        if let Some(open) = open.get_mut(&piece.caller()) {
            open.pieces += 1;
        }
        for event in &piece.events {
            if let Event::Begin(nr) = *event {
                let call = Failed {
                    thread: piece.thread,
                    interrupt: piece.interrupt,
                    nr,
                    began: piece.time,
                    ..Failed::default()
                };
                open.insert(
                    piece.caller(),
                    Open {
                        call,
                        result: None,
                        pieces: 1,
                        lost: false,
                    },
                );
                continue;
            }
            let Some(now) = open.get_mut(&piece.caller()) else {
                continue;
            };
            match *event {
                Event::Enter(address, stack) => now.call.marks.push(Mark::Block(address, stack)),
                Event::Fault(address) => now.call.marks.push(Mark::Fault(address)),
                Event::Result(value) => now.result = Some(value),
                Event::Top(top) => {
                    now.result = now.result.map(|value| ring::pieces::with_top(value, top));
                }
                Event::Lost => now.lost = true,
                Event::End(time) => {
                    now.call.ended = time;
                    if let Some(ended) = open.remove(&piece.caller()) {
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
        if let Some(result) = ended.result.filter(|value| wanted(*value)) {
            call.result = result;
            self.failed.push(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::ring::pieces::tests::piece;

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
        assert_eq!(trails(&pieces, &[], |value| value < 0).failed.len(), 2);
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
