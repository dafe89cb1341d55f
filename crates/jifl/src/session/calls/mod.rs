// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of targets with the functions they entered, nested.

pub mod clocks;
pub mod events;
pub mod losses;
pub mod threads;

use std::cell::OnceCell;
use std::collections::HashMap;

use self::clocks::{Clocks, Stamp};
use self::events::Event;
use crate::session::ring::pieces::{Gaps, gaps};
use crate::session::ring::{self, Caller, Interrupt, Piece, Taken};

/// A function that was entered.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Entered {
    /// Its address.
    pub address: u64,
    /// Number of functions entered before it that have not returned.
    pub depth: u32,
    /// The registers of its arguments, if arguments were asked for.
    pub arguments: Option<[u64; 6]>,
    /// Its result, if results were asked for. `None` if it jumped to another function, or did not
    /// return.
    pub result: Option<u64>,
    /// Time of its entry, in nanoseconds, if times were asked for.
    pub began: Option<u64>,
    /// Time from its entry to its return, or to its jump to another function. `None` if it returned
    /// natively.
    pub duration: Option<u64>,
}

/// One call of a target.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The thread that made it, or the one that was interrupted.
    pub thread: u32,
    /// What made it; `None`: the thread.
    pub interrupt: Option<Interrupt>,
    /// Its target's number (`Target::number`).
    pub nr: u32,
    /// Whether it had begun before the session, which has then taken it over.
    pub adopted: bool,
    /// When it began, or came to run for the first time since it was taken over, in nanoseconds.
    pub began: u64,
    /// When it ended, if it did.
    pub ended: Option<u64>,
    /// Its result, if it returned.
    pub result: Option<i64>,
    /// Functions, in the order of their entries.
    pub functions: Vec<Entered>,
}

impl Call {
    /// Its duration in nanoseconds.
    pub fn duration(&self) -> Option<u64> {
        Some(self.ended?.saturating_sub(self.began))
    }
}

/// A function that has not returned.
#[derive(Clone, Copy)]
struct Frame {
    /// The low half of its stack pointer.
    stack: u32,
    /// Its index among the call's functions.
    index: usize,
    /// Time of its entry, if times were asked for.
    entered: Option<Stamp>,
}

/// A call that has not ended.
#[derive(Default)]
struct Open {
    call: Call,
    frames: Vec<Frame>,
    /// When it was seen last: the beginning of a piece.
    seen: u64,
}

/// The records that calls are made of.
struct Source<'a> {
    taken: &'a Taken,
    clocks: OnceCell<Clocks>,
}

impl Source<'_> {
    /// Finding the clocks reads all records, so it is done only if times were asked for.
    fn clocks(&self) -> &Clocks {
        self.clocks.get_or_init(|| Clocks::of(self.taken))
    }

    /// The counter in the record at `at` of a CPU.
    fn stamp(&self, cpu: usize, at: u32) -> Option<Stamp> {
        let [tsc] = self.taken.words(cpu, at)?;
        Some(Stamp { cpu, tsc })
    }
}

impl Open {
    /// Frames whose stack pointer is not higher have been left, even without a return: a function
    /// has jumped to another (a tail call), or its return ran natively.
    fn leave(&mut self, stack: u32) {
        while self.frames.last().is_some_and(|frame| frame.stack <= stack) {
            self.frames.pop();
        }
    }

    fn enter(&mut self, address: u64, stack: u32) {
        self.leave(stack);
        self.call.functions.push(Entered {
            address,
            depth: self.frames.len() as u32,
            ..Entered::default()
        });
        self.frames.push(Frame {
            stack,
            index: self.call.functions.len() - 1,
            entered: None,
        });
    }

    /// The innermost function, if it was entered with this stack pointer.
    fn inside(&mut self, stack: u32) -> Option<&mut Frame> {
        self.frames.last_mut().filter(|frame| frame.stack == stack)
    }

    /// The function entered just before, if it was entered with this stack pointer.
    fn newest(&mut self, stack: u32) -> Option<&mut Frame> {
        let functions = self.call.functions.len();
        self.inside(stack)
            .filter(|frame| frame.index + 1 == functions)
    }

    /// The function that is about to be left. Functions inside it have been left without a record.
    fn leaving(&mut self, stack: u32) -> Option<&mut Frame> {
        while self.frames.last().is_some_and(|frame| frame.stack < stack) {
            self.frames.pop();
        }
        self.inside(stack)
    }

    /// Sets the duration of the function that is about to be left at this time.
    fn lasted(&mut self, stack: u32, to: Option<Stamp>, source: &Source<'_>) {
        if let Some(Frame { index, entered, .. }) = self.leaving(stack).copied()
            && let (Some(from), Some(to)) = (entered, to)
        {
            self.call.functions[index].duration = source.clocks().between(from, to);
        }
    }

    /// Takes an event inside the call, on this CPU.
    fn add(&mut self, event: Event, source: &Source<'_>, cpu: usize) {
        let taken = source.taken;
        match event {
            Event::Enter(address, stack) => self.enter(address, stack),
            Event::Return(stack) => self.leave(stack),
            Event::Arguments(stack, at) => {
                if let Some(&mut Frame { index, .. }) = self.newest(stack) {
                    self.call.functions[index].arguments = taken.words(cpu, at);
                }
            }
            Event::Returned(stack, at) => {
                if let Some(&mut Frame { index, .. }) = self.leaving(stack) {
                    self.call.functions[index].result = taken.words(cpu, at).map(|[value]| value);
                }
            }
            Event::Entered(stack, at) => {
                let stamp = source.stamp(cpu, at);
                if let Some(frame) = self.newest(stack) {
                    frame.entered = stamp;
                    let index = frame.index;
                    self.call.functions[index].began =
                        stamp.and_then(|stamp| source.clocks().time(stamp));
                }
            }
            Event::Jumped(stack, at) => self.lasted(stack, source.stamp(cpu, at), source),
            Event::Left(stack, at) => {
                self.lasted(stack, source.stamp(cpu, at), source);
                self.leave(stack);
            }
            Event::Result(value) => self.call.result = Some(value),
            Event::Top(top) => {
                let result = self.call.result;
                self.call.result = result.map(|value| ring::pieces::with_top(value, top));
            }
            Event::Begin(_) | Event::Adopted(_) | Event::Fault(_) | Event::Lost | Event::End(_) => {
            }
        }
    }
}

/// Gives `show` each call when it ends, then the calls that have not ended.
///
/// Where records were lost a call is not seen to end: the thread may have ended it there, and begun
/// another. What comes behind belongs to no call, up to the next beginning.
pub fn each<E>(
    taken: &Taken,
    pieces: &[Piece<Event>],
    mut show: impl FnMut(&Call) -> Result<(), E>,
) -> Result<(), E> {
    let source = Source {
        taken,
        clocks: OnceCell::new(),
    };
    let gaps = Gaps::of(gaps(taken.each()));
    let mut open: HashMap<Caller, Open> = HashMap::new();
    for piece in pieces {
        if let Some(found) = open.get_mut(&piece.caller()) {
            let lost = gaps.touch(found.seen, piece.time);
            found.seen = piece.time;
            if lost && let Some(unended) = open.remove(&piece.caller()) {
                show(&unended.call)?;
            }
        }
        for event in &piece.events {
            match *event {
                Event::Adopted(_) if is_adopted(&open, piece) => {}
                Event::Begin(nr) | Event::Adopted(nr) => {
                    let call = Call {
                        thread: piece.thread,
                        interrupt: piece.interrupt,
                        nr,
                        adopted: matches!(event, Event::Adopted(_)),
                        began: piece.time,
                        ..Call::default()
                    };
                    let new = Open {
                        call,
                        seen: piece.time,
                        ..Open::default()
                    };
                    if let Some(unended) = open.insert(piece.caller(), new) {
                        show(&unended.call)?;
                    }
                }
                Event::Lost => {
                    if let Some(unended) = open.remove(&piece.caller()) {
                        show(&unended.call)?;
                    }
                }
                Event::End(time) => {
                    if let Some(mut open) = open.remove(&piece.caller()) {
                        open.call.ended = Some(time);
                        show(&open.call)?;
                    }
                }
                _ => {
                    if let Some(open) = open.get_mut(&piece.caller()) {
                        open.add(*event, &source, piece.cpu);
                    }
                }
            }
        }
    }
    let mut rest: Vec<Call> = open.into_values().map(|open| open.call).collect();
    rest.sort_by_key(|call| call.began);
    rest.iter().try_for_each(show)
}

/// Whether the piece's thread is in a call that was taken over.
fn is_adopted(open: &HashMap<Caller, Open>, piece: &Piece<Event>) -> bool {
    open.get(&piece.caller())
        .is_some_and(|open| open.call.adopted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::ring::pieces::tests::piece;
    use std::convert::Infallible;

    fn shape(pieces: &[Piece<Event>]) -> Vec<String> {
        let mut all = Vec::new();
        let done: Result<(), Infallible> = each(&Taken::default(), pieces, |call| {
            let functions = call.functions.iter();
            let shape: Vec<String> = functions
                .map(|entered| format!("{}{}", "-".repeat(entered.depth as usize), entered.address))
                .collect();
            all.push(format!(
                "{} {} {:?} {}",
                call.thread,
                call.nr,
                call.ended,
                shape.join(" ")
            ));
            Ok(())
        });
        done.unwrap();
        all
    }

    #[test]
    fn returns_and_tail_calls_tell_who_is_inside_whom() {
        use Event::{Begin, End, Enter, Return};
        let events = [
            Begin(1),
            Enter(10, 1000),
            Enter(11, 900),
            Enter(12, 800),
            // 12 jumps to 13, which returns for both.
            Enter(13, 800),
            Return(800),
            Return(900),
            // The first function has pushed something before it calls the next.
            Enter(14, 850),
            End(50),
        ];
        assert_eq!(
            shape(&[piece(1, 7, &events)]),
            ["7 1 Some(50) 10 -11 --12 --13 -14"]
        );
    }

    #[test]
    fn a_call_is_not_put_together_over_lost_records() {
        use Event::{Begin, End, Enter, Lost};
        let pieces = [
            piece(1, 7, &[Begin(1), Enter(10, 1000), Lost]),
            piece(4, 7, &[Enter(20, 1000), End(9), Begin(3), End(10)]),
        ];
        assert_eq!(shape(&pieces), ["7 1 None 10", "7 3 Some(10) "]);
    }

    #[test]
    fn a_thread_may_have_been_where_records_were_lost() {
        use jifl_sys::abi::RECORD_RESUME;
        use ring::pieces::{GAP, tests::mark};
        let resume = |time| mark(RECORD_RESUME, 0, 7, time);
        let lost = [&resume(3)[..], &[GAP, GAP], &resume(5)].concat();
        let gaps = Gaps::of(gaps([&lost[..]]));
        assert!(gaps.touch(1, 3) && gaps.touch(4, 4) && gaps.touch(5, 9));
        assert!(!gaps.touch(1, 2) && !gaps.touch(6, 9));
    }

    #[test]
    fn a_call_that_was_taken_over_goes_on_whenever_its_thread_runs() {
        use Event::{Adopted, Begin, End, Enter};
        let pieces = [
            piece(1, 7, &[Adopted(1), Enter(10, 1000)]),
            piece(2, 8, &[Begin(2), End(3)]),
            piece(4, 7, &[Adopted(1), Enter(11, 900), End(5), Begin(3)]),
        ];
        assert_eq!(
            shape(&pieces),
            ["8 2 Some(3) ", "7 1 Some(5) 10 -11", "7 3 None "]
        );
    }

    #[test]
    fn calls_go_on_where_their_thread_does_and_come_in_the_order_of_their_ends() {
        use Event::{Begin, End, Enter};
        let pieces = [
            piece(1, 7, &[Begin(1), Enter(10, 1000)]),
            piece(2, 8, &[Begin(2), Enter(20, 1000), End(3)]),
            piece(4, 7, &[Enter(11, 900), End(5), Begin(3)]),
        ];
        assert_eq!(
            shape(&pieces),
            ["8 2 Some(3) 20", "7 1 Some(5) 10 -11", "7 3 None "]
        );
    }
}
