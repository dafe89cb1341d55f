// SPDX-License-Identifier: MIT OR Apache-2.0
//! From each CPU's records to the events of all threads, in the order of time.

use jifl_sys::abi::{
    RECORD_ADOPTED, RECORD_BEGIN, RECORD_CLOCK, RECORD_CUT, RECORD_END, RECORD_HIGH,
    RECORD_LEVEL_SHIFT, RECORD_RESULT, RECORD_RESUME, RECORD_TIME, RECORD_TYPE, Record,
    record_words,
};

use super::interrupt::Interrupt;
use crate::session::targets::Target;

/// Marks the place of lost records. The first word of no other record is 0.
pub const GAP: Record = Record { what: 0, value: 0 };

/// Bits of the time in a record's first word.
const TIME_BITS: u32 = 28;

/// An event of a thread, in a kind of session.
pub trait Event: Sized {
    /// The thread makes the call with this number (`Target::number`).
    fn begin(nr: u32) -> Self;

    /// The thread comes to run in such a call, which had begun before the session.
    fn adopted(nr: u32) -> Self;

    /// Its call ends, at this time.
    fn end(time: u64) -> Self;

    /// An event inside a call, without a time. It is in the first of these records, whose index
    /// among the CPU's records is `at`.
    fn inside(record: &Record, at: usize) -> Option<Self>;

    /// Records are lost from here on.
    fn lost() -> Option<Self> {
        None
    }
}

/// The events of a thread while it ran on one CPU, or of one call that interrupted a thread.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<E> {
    /// Time at which that began, in nanoseconds.
    pub time: u64,
    /// The thread, or the one that was interrupted.
    pub thread: u32,
    /// What made the call; `None`: the thread.
    pub interrupt: Option<Interrupt>,
    /// The CPU's index among those given.
    pub cpu: usize,
    /// Events, in their order.
    pub events: Vec<E>,
}

/// Who makes calls, one after the other.
pub type Caller = (Option<Interrupt>, u32);

impl<E> Piece<E> {
    /// Who makes its calls.
    pub fn caller(&self) -> Caller {
        (self.interrupt, self.thread)
    }
}

/// All pieces, and the number of records of no known thread, which remain where others were lost.
/// `targets` is the list of the session that has recorded them.
pub fn pieces<'a, E: Event>(
    cpus: impl IntoIterator<Item = &'a [Record]>,
    targets: &[Target],
) -> (Vec<Piece<E>>, u64) {
    let mut all = Vec::new();
    let mut stray = 0;
    for (cpu, records) in cpus.into_iter().enumerate() {
        stray += cut(cpu, records, targets, &mut all);
    }
    all.sort_by_key(|piece: &Piece<E>| piece.time);
    (all, stray)
}

/// The pieces of one CPU that have begun and have not ended: that of its thread, and above it those
/// of calls that interrupt what is below them.
struct Open<'a, E> {
    stack: Vec<Piece<E>>,
    all: &'a mut Vec<Piece<E>>,
}

impl<E: Event> Open<'_, E> {
    fn top(&mut self) -> Option<&mut Piece<E>> {
        self.stack.last_mut()
    }

    /// The top is complete.
    fn pop(&mut self) {
        self.all.extend(self.stack.pop());
    }

    /// All are complete.
    fn clear(&mut self) {
        self.all.append(&mut self.stack);
    }

    /// Records are lost.
    fn lose(&mut self) {
        for piece in &mut self.stack {
            piece.events.extend(E::lost());
        }
        self.clear();
    }

    /// A call ends. False: it is not known.
    fn end(&mut self, interrupt: Option<Interrupt>, thread: u32, time: u64) -> bool {
        // A thread may get another number while it is interrupted, by an execve.
        let ends = |piece: &Piece<E>| {
            piece.interrupt == interrupt && (interrupt.is_some() || piece.thread == thread)
        };
        let Some(at) = self.stack.iter().rposition(ends) else {
            return false;
        };
        self.all.extend(self.stack.drain(at + 1..));
        if let Some(piece) = self.top() {
            piece.events.push(E::end(time));
        }
        if interrupt.is_some() {
            self.pop();
        }
        true
    }

    /// A mark of a call, or of a thread; `begins`: with the call's beginning. Returns false if it
    /// is the end of no known call.
    fn mark(&mut self, kind: u32, mark: &Record, place: (u64, usize), begins: Option<E>) -> bool {
        let (time, cpu) = place;
        let interrupt = match kind {
            RECORD_RESUME => None,
            _ => Interrupt::of(level_of(mark), cpu),
        };
        if kind == RECORD_END {
            return self.end(interrupt, mark.value, time);
        }
        if interrupt.is_none() {
            self.clear();
        }
        self.stack.push(Piece {
            time,
            thread: mark.value,
            interrupt,
            cpu,
            events: begins.into_iter().collect(),
        });
        true
    }
}

/// The pieces of one CPU.
fn cut<E: Event>(
    cpu: usize,
    records: &[Record],
    targets: &[Target],
    all: &mut Vec<Piece<E>>,
) -> u64 {
    let stack = Vec::new();
    let mut open = Open { stack, all };
    let mut stray = 0;
    let mut at = 0;
    while let Some(record) = records.get(at) {
        let here = at;
        at += 1 + record_words(record.what);
        if *record == GAP {
            open.lose();
            continue;
        }
        if record.what == RECORD_CUT {
            match open.top().is_some_and(|piece| piece.interrupt.is_some()) {
                true => open.pop(),
                false => stray += 1,
            }
            continue;
        }
        if let Some(event) = E::inside(record, here) {
            match open.top() {
                Some(piece) => piece.events.push(event),
                None => stray += 1,
            }
            continue;
        }
        let Some(time) = records.get(at).and_then(time_of) else {
            stray += 1;
            continue;
        };
        at += 1;
        // Skips the clock's value that follows the time.
        if let Some(clock) = records.get(at).filter(|record| record.what == RECORD_CLOCK) {
            at += 1 + record_words(clock.what);
        }
        let kind = record.what & RECORD_TYPE;
        let begins = (kind == RECORD_BEGIN)
            .then(|| index_of(record))
            .and_then(|index| Some(targets.get(index as usize)?.number(index)))
            .map(match record.what & RECORD_ADOPTED {
                0 => E::begin,
                _ => E::adopted,
            });
        let known = matches!(kind, RECORD_BEGIN | RECORD_RESUME | RECORD_END);
        if !known || !open.mark(kind, record, (time, cpu), begins) {
            stray += 2;
        }
    }
    open.clear();
    stray
}

/// The index of a mark's target.
fn index_of(mark: &Record) -> u32 {
    mark.what & (RECORD_ADOPTED - 1)
}

/// The level of a mark: more than 0 where a thread is interrupted.
pub fn level_of(mark: &Record) -> u32 {
    (mark.what & !RECORD_TYPE) >> RECORD_LEVEL_SHIFT
}

/// Intervals in which records were lost, each between two times. The second is the maximum if no
/// time follows.
pub fn gaps<'a>(cpus: impl IntoIterator<Item = &'a [Record]>) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for records in cpus {
        let (mut last, mut from) = (0, None);
        let mut at = 0;
        while let Some(record) = records.get(at) {
            at += 1 + record_words(record.what);
            if *record == GAP {
                from = from.or(Some(last));
            } else if let Some(time) = time_of(record) {
                all.extend(from.take().map(|from| (from, time)));
                last = time;
            }
        }
        all.extend(from.map(|from| (from, u64::MAX)));
    }
    all
}

/// Times at which records were lost on some CPU, to be asked often.
pub struct Gaps(Vec<(u64, u64)>);

impl Gaps {
    /// From what [`gaps`] gives.
    pub fn of(mut all: Vec<(u64, u64)>) -> Gaps {
        all.sort_unstable();
        let mut apart: Vec<(u64, u64)> = Vec::new();
        for (from, to) in all {
            match apart.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => apart.push((from, to)),
            }
        }
        Gaps(apart)
    }

    /// Were some lost between these times?
    pub fn touch(&self, from: u64, to: u64) -> bool {
        let at = self.0.partition_point(|gap| gap.1 < from);
        self.0.get(at).is_some_and(|gap| gap.0 <= to)
    }
}

/// Bits of a result in its record.
const RESULT_BITS: u32 = 59;

/// The call's result, if the record has one: 59 bits of it, extended.
pub fn result(record: &Record) -> Option<i64> {
    let high = i64::from(record.what & RECORD_HIGH) << 37 >> 5;
    (record.what & !RECORD_HIGH == RECORD_RESULT).then_some(high | i64::from(record.value))
}

/// A result with bits 59 to 63 as a [`RECORD_TOP`] has them.
pub fn with_top(result: i64, top: u32) -> i64 {
    let kept = result as u64 & ((1 << RESULT_BITS) - 1);
    (kept | u64::from(top) << RESULT_BITS) as i64
}

/// The time of a record, if it has one, in nanoseconds.
pub fn time_of(record: &Record) -> Option<u64> {
    (record.what & RECORD_TYPE == RECORD_TIME)
        .then(|| u64::from(record.value) << TIME_BITS | u64::from(record.what & !RECORD_TYPE))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::session::calls::events::Event as Traced;

    /// A thread's piece on CPU 0.
    pub fn piece<E: Clone>(time: u64, thread: u32, events: &[E]) -> Piece<E> {
        Piece {
            time,
            thread,
            interrupt: None,
            cpu: 0,
            events: events.to_vec(),
        }
    }

    pub fn mark(kind: u32, number: u32, value: u32, time: u64) -> [Record; 2] {
        let mask = (1 << TIME_BITS) - 1;
        [
            Record {
                what: kind | number,
                value,
            },
            Record {
                what: RECORD_TIME | (time & mask) as u32,
                value: (time >> TIME_BITS) as u32,
            },
        ]
    }

    pub fn enter(low: u32, stack: u32) -> Record {
        Record {
            what: 0x8100_0000 + low,
            value: stack,
        }
    }

    pub fn result(value: i64) -> Record {
        Record {
            what: RECORD_RESULT | ((value >> 32) as u32 & RECORD_HIGH),
            value: value as u32,
        }
    }

    const LATE: u64 = 5 << TIME_BITS;

    #[test]
    fn a_thread_that_moves_is_put_together_in_the_order_of_time() {
        let first = [
            &mark(RECORD_BEGIN, 3, 70, LATE + 1)[..],
            &[enter(1, 90)],
            &mark(RECORD_RESUME, 0, 71, LATE + 9),
        ]
        .concat();
        let second = [
            &mark(RECORD_RESUME, 0, 70, LATE + 5)[..],
            &[enter(2, 80)],
            &mark(RECORD_END, 3, 70, LATE + 6),
        ]
        .concat();
        let (found, stray) = pieces::<Traced>([&second[..], &first[..]], &Target::all_syscalls());
        assert_eq!(stray, 0);
        let threads: Vec<_> = found
            .iter()
            .map(|piece| (piece.time - LATE, piece.thread))
            .collect();
        assert_eq!(threads, [(1, 70), (5, 70), (9, 71)]);
        assert_eq!(
            found[0].events,
            [Traced::Begin(3), Traced::Enter(0xffff_ffff_8100_0001, 90)]
        );
        assert_eq!(found[1].events[1], Traced::End(LATE + 6));
    }

    /// Indices of targets at the levels above tasks.
    const SOFTIRQ: u32 = 1 << RECORD_LEVEL_SHIFT;
    const IRQ: u32 = 2 << RECORD_LEVEL_SHIFT;

    #[test]
    fn what_interrupts_has_pieces_of_its_own() {
        let records = [
            &mark(RECORD_BEGIN, 3, 70, 1)[..],
            &[enter(1, 90)],
            &mark(RECORD_BEGIN, 4 | SOFTIRQ, 70, 2),
            &[enter(2, 500)],
            &mark(RECORD_BEGIN, 5 | IRQ, 70, 3),
            &[enter(3, 700)],
            &mark(RECORD_END, 5 | IRQ, 70, 4),
            &[enter(4, 490)],
            &mark(RECORD_END, 4 | SOFTIRQ, 70, 5),
            &[enter(5, 80)],
            // This call is given up before it returns.
            &mark(RECORD_BEGIN, 5 | IRQ, 70, 6),
            &[
                enter(6, 700),
                Record {
                    what: RECORD_CUT,
                    value: 0,
                },
                enter(7, 70),
            ],
            &mark(RECORD_END, 3, 70, 8),
        ]
        .concat();
        let (found, stray) = pieces::<Traced>([&records[..]], &Target::all_syscalls());
        assert_eq!(stray, 0);
        let shown = found.iter().map(|piece| {
            let entered = piece.events.iter().filter_map(|event| match event {
                Traced::Enter(address, _) => Some(address & 7),
                _ => None,
            });
            let ends = piece.events.last() == Some(&Traced::End(piece.time + 1));
            (piece.interrupt, entered.collect::<Vec<_>>(), ends)
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                (None, vec![1, 5, 7], false),
                (Interrupt::of(1, 0), vec![2, 4], false),
                (Interrupt::of(2, 0), vec![3], true),
                (Interrupt::of(2, 0), vec![6], false),
            ]
        );
    }

    #[test]
    fn a_loss_in_an_interrupt_leaves_nothing_open() {
        let records = [
            &mark(RECORD_BEGIN, 3, 70, 1)[..],
            &mark(RECORD_BEGIN, 4 | IRQ, 70, 2),
            &[GAP, enter(1, 90)],
            &mark(RECORD_END, 4 | IRQ, 70, 3),
            &[enter(2, 90)],
            &mark(RECORD_END, 3, 70, 4),
        ]
        .concat();
        let (found, stray) = pieces::<Traced>([&records[..]], &Target::all_syscalls());
        assert_eq!(stray, 6);
        assert!(
            found
                .iter()
                .all(|piece| piece.events.last() == Some(&Traced::Lost))
        );
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn what_stands_behind_a_loss_is_nobodys_until_a_thread_is_named() {
        let records = [
            &[mark(RECORD_BEGIN, 3, 70, 1)[1]][..],
            &[enter(1, 90)],
            &mark(RECORD_END, 3, 70, 2),
            &mark(RECORD_BEGIN, 0, 71, 9),
            &[enter(2, 90)],
        ]
        .concat();
        let (found, stray) = pieces::<Traced>([&records[..]], &Target::all_syscalls());
        assert_eq!((found.len(), stray), (1, 4));
        assert_eq!(found[0].thread, 71);
    }

    #[test]
    fn results_have_64_bits() {
        for value in [0x1234_5678_1234_5678_u64, 1 << 58, 1 << 63, (1 << 59) - 1] {
            let low = super::result(&result(value as i64)).unwrap();
            assert_ne!(low as u64, value);
            assert_eq!(with_top(low, (value >> 59) as u32) as u64, value);
        }
    }

    #[test]
    fn results_and_faults_are_alone_and_losses_end_a_piece() {
        let fault = Record {
            what: jifl_sys::abi::RECORD_FAULT,
            value: 0x8100_0005,
        };
        let records = [
            &mark(RECORD_BEGIN, 3, 70, 5)[..],
            &[
                fault,
                result(-2),
                result(0x7fff_1234_5678),
                GAP,
                enter(1, 90),
            ],
            &mark(RECORD_RESUME, 0, 70, 9),
            &[GAP],
        ]
        .concat();
        let (found, stray) = pieces::<Traced>([&records[..]], &Target::all_syscalls());
        assert_eq!((found.len(), stray), (2, 1));
        assert_eq!(
            found[0].events[1..],
            [
                Traced::Fault(0xffff_ffff_8100_0005),
                Traced::Result(-2),
                Traced::Result(0x7fff_1234_5678),
                Traced::Lost
            ]
        );
        assert_eq!(gaps([&records[..]]), [(5, 9), (9, u64::MAX)]);
    }
}
