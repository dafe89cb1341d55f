// SPDX-License-Identifier: MIT OR Apache-2.0
//! From records to accesses: what each execution of a block loads and stores.

use std::collections::HashMap;

use jifl_sys::abi::{
    ACCESS_BACKWARDS, ACCESS_BITS, ACCESS_LOAD, ACCESS_NO_WORD, ACCESS_PERCPU, ACCESS_STACK,
    ACCESS_STORE, Access, RECORD_ACCESS, RECORD_NUMBER, RECORD_STACK, RECORD_TYPE, Record,
    record_words,
};

use super::layout::{Block, Layout};
use crate::session::ring::{self, Caller, Piece, Taken};

/// Bytes: no instruction of the kernel accesses more. Records that are taken to say so are wrong.
const MOST: u64 = 1 << 30;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Makes this call.
    Begin(u32),
    /// Comes to run in a call that had begun before the session.
    Adopted,
    /// The high half of its stack pointer.
    Stack(u32),
    /// Executes a block: the record at this place tells of it.
    Access(u32),
    /// Its call comes to its end, at this time.
    End(u64),
}

impl ring::Event for Event {
    fn begin(nr: u32) -> Event {
        Event::Begin(nr)
    }

    fn adopted(_nr: u32) -> Event {
        Event::Adopted
    }

    fn end(time: u64) -> Event {
        Event::End(time)
    }

    fn inside(record: &Record, at: usize) -> Option<Event> {
        match record.what & RECORD_TYPE {
            RECORD_STACK => Some(Event::Stack(record.value)),
            RECORD_ACCESS => Some(Event::Access(at as u32)),
            _ => None,
        }
    }
}

/// An operand in memory that an instruction has accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accessed {
    /// The instruction's address.
    pub insn: u64,
    /// Its bytes.
    pub insn_len: u16,
    /// The lowest address.
    pub address: u64,
    /// Bytes of one repetition; 0: not known.
    pub size: u16,
    /// How many there were, one after the other.
    pub times: u64,
    /// It is read.
    pub loads: bool,
    /// It is written.
    pub stores: bool,
    /// Relative to the stack pointer.
    pub stack: bool,
    /// Where it is among the data that each CPU has of its own.
    pub percpu: Option<u64>,
}

impl Accessed {
    /// All of them.
    pub fn bytes(&self) -> u64 {
        u64::from(self.size).saturating_mul(self.times)
    }
}

/// What is told of a piece.
pub trait Sink {
    /// Its accesses come next.
    fn piece(&mut self, piece: &Piece<Event>);

    /// What one instruction accesses; at least one operand.
    fn instruction(&mut self, operands: &[Accessed]);

    /// There was a system call, and this is its end.
    fn end(&mut self, _time: u64) {}
}

/// What is left untold.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Untold {
    /// Records that nothing is known of.
    pub records: u64,
    /// Executions of blocks whose thread's stack is not known: its call's beginning was lost.
    pub blocks: u64,
}

/// What is known of a record that came.
#[derive(Debug, Clone, Copy)]
struct Came {
    cpu: usize,
    at: u32,
}

/// A block that is executed.
struct Executing {
    block: Block,
    /// Which of its records came, by their numbers less the first.
    came: Vec<(u32, Came)>,
}

/// A thread in a call.
#[derive(Default)]
struct Thread {
    stack: Option<u32>,
    executing: Option<Executing>,
}

/// Tells all accesses, in the order of time in each thread.
pub fn tell(
    taken: &Taken,
    layout: &Layout,
    pieces: &[Piece<Event>],
    sinks: &mut [&mut dyn Sink],
) -> Untold {
    let mut telling = Telling {
        taken,
        layout,
        sinks,
        operands: Vec::new(),
        untold: Untold::default(),
    };
    let mut threads: HashMap<Caller, Thread> = HashMap::new();
    for piece in pieces {
        let thread = threads.entry(piece.caller()).or_default();
        for sink in &mut *telling.sinks {
            sink.piece(piece);
        }
        for event in &piece.events {
            telling.event(thread, piece.cpu, *event);
        }
        // The next piece may be of another thread. A block that is not finished goes on in a later
        // piece.
        telling.finish_if_whole(thread);
    }
    for mut thread in threads.into_values() {
        telling.finish(&mut thread);
    }
    telling.untold
}

struct Telling<'a, 'b> {
    taken: &'a Taken,
    layout: &'a Layout,
    sinks: &'a mut [&'b mut dyn Sink],
    /// Of the instruction that is told.
    operands: Vec<Accessed>,
    untold: Untold,
}

impl Telling<'_, '_> {
    fn event(&mut self, thread: &mut Thread, cpu: usize, event: Event) {
        match event {
            Event::Begin(_) => {
                self.finish(thread);
                thread.stack = None;
            }
            // A block that it was in goes on, as behind a RECORD_RESUME.
            Event::Adopted => {}
            Event::Stack(high) => thread.stack = Some(high),
            Event::Access(at) => self.access(thread, Came { cpu, at }),
            Event::End(time) => {
                self.finish(thread);
                thread.stack = None;
                for sink in &mut *self.sinks {
                    sink.end(time);
                }
            }
        }
    }

    fn record(&self, came: Came) -> &Record {
        &self.taken.of(came.cpu)[came.at as usize]
    }

    fn access(&mut self, thread: &mut Thread, came: Came) {
        let number = self.record(came).what & RECORD_NUMBER;
        let Some(block) = self.layout.block(number) else {
            self.untold.records += 1;
            return;
        };
        let number = number - self.layout.first_record(block);
        let goes_on = thread.executing.as_ref().is_some_and(|executing| {
            executing.block == block && executing.came.iter().all(|(known, _)| *known != number)
        });
        if !goes_on {
            self.finish(thread);
            thread.executing = Some(Executing {
                block,
                came: Vec::new(),
            });
        }
        if let Some(executing) = &mut thread.executing {
            executing.came.push((number, came));
        }
    }

    fn finish_if_whole(&mut self, thread: &mut Thread) {
        let whole = thread.executing.as_ref().is_some_and(|executing| {
            let first = self.layout.first_record(executing.block);
            let accesses = self.layout.accesses(executing.block).iter();
            accesses.flat_map(records_of).all(|record| {
                executing
                    .came
                    .iter()
                    .any(|(known, _)| *known == record - first)
            })
        });
        if whole {
            self.finish(thread);
        }
    }

    /// Tells what the block has accessed, as far as its records came.
    fn finish(&mut self, thread: &mut Thread) {
        let Some(executing) = thread.executing.take() else {
            return;
        };
        let Some(stack) = thread.stack else {
            self.untold.blocks += 1;
            return;
        };
        let layout = self.layout;
        let accesses = layout.accesses(executing.block);
        for of_one in accesses.chunk_by(|a, b| a.insn == b.insn) {
            self.operands.clear();
            for access in of_one {
                let resolved = self.resolve(&executing, access, stack);
                if resolved.is_some_and(|accessed| accessed.bytes() > MOST) {
                    self.untold.records += 1;
                    continue;
                }
                self.operands.extend(resolved);
            }
            if self.operands.is_empty() {
                continue;
            }
            for sink in &mut *self.sinks {
                sink.instruction(&self.operands);
            }
        }
    }

    /// `None`: it was not come to, or nothing was left to do.
    fn resolve(&self, executing: &Executing, access: &Access, stack: u32) -> Option<Accessed> {
        let came = self.came(executing, access.record)?;
        let bits = access.flags & ACCESS_BITS != 0;
        let times = match access.repeats {
            ACCESS_NO_WORD => 1,
            _ if bits => 1,
            word => {
                let repeats = self.word(self.came(executing, access.repeats_record)?, word)?;
                let left = match access.left {
                    ACCESS_NO_WORD => 0,
                    word => self.word(self.came(executing, access.left_record)?, word)?,
                };
                repeats.checked_sub(left).filter(|times| *times > 0)?
            }
        };
        let base = match access.base {
            ACCESS_NO_WORD => 0,
            ACCESS_STACK => u64::from(stack) << 32 | u64::from(self.record(came).value),
            word => self.word(came, word)?,
        };
        let percpu = access.flags & ACCESS_PERCPU != 0;
        let mut offset = base.wrapping_add_signed(access.disp);
        if bits {
            let number = self.word(self.came(executing, access.repeats_record)?, access.repeats)?;
            offset = offset.wrapping_add_signed(word_of_bit(number, access.size));
        }
        let mut address = offset;
        if percpu {
            address = address.wrapping_add(self.layout.percpu(came.cpu));
        }
        if access.flags & ACCESS_BACKWARDS != 0 {
            address = address.wrapping_sub((times - 1).wrapping_mul(access.size.into()));
        }
        Some(Accessed {
            insn: access.insn,
            insn_len: access.insn_len,
            address,
            size: access.size,
            times,
            loads: access.flags & ACCESS_LOAD != 0,
            stores: access.flags & ACCESS_STORE != 0,
            stack: access.base == ACCESS_STACK,
            percpu: percpu.then_some(offset),
        })
    }

    fn came(&self, executing: &Executing, record: u32) -> Option<Came> {
        let number = record - self.layout.first_record(executing.block);
        let found = executing.came.iter().find(|(known, _)| *known == number);
        found.map(|(_, came)| *came)
    }

    /// One of those behind a record.
    fn word(&self, came: Came, word: u8) -> Option<u64> {
        if usize::from(word) >= record_words(self.record(came).what) {
            return None;
        }
        let at = came.at as usize + 1 + usize::from(word);
        Some(self.taken.of(came.cpu).get(at)?.word())
    }
}

/// How far behind the first word of `size` bytes of a string of bits the word with a bit lies.
/// The bit's number has as many bytes (SDM vol. 2, BT).
fn word_of_bit(number: u64, size: u16) -> i64 {
    let number = match size {
        2 => i64::from(number as i16),
        4 => i64::from(number as i32),
        _ => number as i64,
    };
    let size = i64::from(size.max(1));
    number.div_euclid(8 * size) * size
}

/// The numbers of those that tell of an access.
fn records_of(access: &Access) -> impl Iterator<Item = u32> {
    let of = |word: u8, record: u32| (word != ACCESS_NO_WORD).then_some(record);
    [
        Some(access.record),
        of(access.repeats, access.repeats_record),
        of(access.left, access.left_record),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;
    use crate::session::ring::pieces::tests::mark;
    use crate::session::ring::tests::taken;
    use jifl_sys::abi::{RECORD_BEGIN, RECORD_END, RECORD_RESUME};

    /// A record of number `n`, with words.
    fn record(n: u32, stack: u32, words: &[u64]) -> Vec<Record> {
        let head = Record {
            what: RECORD_ACCESS | (words.len() as u32) << 25 | n,
            value: stack,
        };
        let words = words.iter().map(|word| Record {
            what: *word as u32,
            value: (word >> 32) as u32,
        });
        std::iter::once(head).chain(words).collect()
    }

    fn stack(high: u32) -> Record {
        Record {
            what: RECORD_STACK,
            value: high,
        }
    }

    /// Block 0 of one record: a push, a load at word 0 + 8, a per-CPU variable. Block 1 of the
    /// records 1 and 2: a string store and, of the second one, a fixed address.
    fn layout() -> Vec<Access> {
        let access = |insn, block, base, flags| Access {
            insn,
            block,
            record: block,
            base,
            flags,
            size: 8,
            insn_len: 3,
            repeats: ACCESS_NO_WORD,
            left: ACCESS_NO_WORD,
            ..Access::default()
        };
        let mut all = [
            access(0x10, 0, ACCESS_STACK, ACCESS_STORE),
            access(0x11, 0, 0, ACCESS_LOAD),
            access(
                0x12,
                0,
                ACCESS_NO_WORD,
                ACCESS_LOAD | ACCESS_STORE | ACCESS_PERCPU,
            ),
            access(0x20, 1, 0, ACCESS_STORE | ACCESS_BACKWARDS),
            access(0x23, 1, ACCESS_NO_WORD, ACCESS_LOAD),
        ];
        (all[0].disp, all[1].disp, all[2].disp) = (-8, 8, 0x40);
        (all[3].repeats, all[3].repeats_record) = (1, 1);
        (all[3].left, all[3].left_record) = (0, 2);
        (all[4].disp, all[4].record) = (-0x7000_0000, 2);
        all.to_vec()
    }

    #[derive(Default)]
    struct Told(Vec<String>);

    impl Sink for Told {
        fn piece(&mut self, piece: &Piece<Event>) {
            self.0.push(format!("[{}]", piece.thread));
        }

        fn instruction(&mut self, operands: &[Accessed]) {
            for one in operands {
                let way = match (one.loads, one.stores) {
                    (true, true) => "rw",
                    (true, false) => "r",
                    _ => "w",
                };
                self.0.push(format!(
                    "{:x} {way} {:x} {}",
                    one.insn, one.address, one.times
                ));
            }
        }

        fn end(&mut self, _time: u64) {
            self.0.push("end".into());
        }
    }

    fn told(cpus: Vec<Vec<Record>>) -> (Vec<String>, Untold) {
        let fake = Fake::default();
        let n = cpus.len();
        fake.state().records = cpus;
        fake.add_table(layout(), [0xffff_8880_0000_0000, 0, 0]);
        let taken = taken(&fake, n as u32);
        let layout = Layout::of(&fake, n).unwrap();
        let (pieces, _) = taken.pieces();
        let mut told = Told::default();
        let untold = tell(&taken, &layout, &pieces, &mut [&mut told]);
        (told.0, untold)
    }

    #[test]
    fn addresses_are_put_together() {
        let (told, untold) = told(vec![
            [
                &mark(RECORD_BEGIN, 3, 70, 1)[..],
                &[stack(0xffff_c900)],
                &record(0, 0x1000, &[0xffff_8881_0000_0000]),
                &record(1, 0x1000, &[0x5000, 10]),
                &record(2, 0x1000, &[4]),
                &mark(RECORD_END, 3, 70, 2),
            ]
            .concat(),
        ]);
        assert_eq!(untold, Untold::default());
        assert_eq!(
            told,
            [
                "[70]",
                "10 w ffffc90000000ff8 1",
                "11 r ffff888100000008 1",
                "12 rw ffff888000000040 1",
                // Six stores, from 0x5000 downwards.
                "20 w 4fd8 6",
                "23 r ffffffff90000000 1",
                "end",
            ]
        );
    }

    #[test]
    fn the_word_with_a_bit_is_told() {
        assert_eq!(word_of_bit(63, 8), 0);
        assert_eq!(word_of_bit(200, 8), 24);
        assert_eq!(word_of_bit(u64::MAX, 8), -8);
        assert_eq!(word_of_bit(0xffff_ffff_0000_0021, 4), 4);
        assert_eq!(word_of_bit(0xffff_ffff, 4), -4);
        assert_eq!(word_of_bit(0x1_ffef, 2), -4);
    }

    #[test]
    fn what_cannot_be_is_not_told() {
        let (told, untold) = told(vec![
            [
                &mark(RECORD_BEGIN, 3, 70, 1)[..],
                &[stack(0xffff_c900)],
                &record(1, 0x1000, &[0x5000, 1 << 40]),
                &record(2, 0x1000, &[0]),
                &mark(RECORD_END, 3, 70, 2),
            ]
            .concat(),
        ]);
        assert_eq!((untold.records, untold.blocks), (1, 0));
        assert_eq!(told, ["[70]", "23 r ffffffff90000000 1", "end"]);
    }

    #[test]
    fn a_block_goes_on_where_its_thread_does_and_is_cut_by_the_next() {
        let (told, untold) = told(vec![
            [
                &mark(RECORD_BEGIN, 3, 70, 1)[..],
                &[stack(0xffff_c900)],
                &record(1, 0x1000, &[0x5000, 1]),
                &mark(RECORD_RESUME, 0, 71, 5),
                &record(0, 0x2000, &[1]),
            ]
            .concat(),
            [
                &mark(RECORD_RESUME, 0, 70, 8)[..],
                &record(2, 0x1000, &[0]),
                &record(1, 0x1000, &[0x6000, 1]),
                &record(0, 0x1000, &[0x7000]),
                &mark(RECORD_END, 3, 70, 9),
            ]
            .concat(),
        ]);
        // The stack's address is unknown for thread 71.
        assert_eq!((untold.blocks, untold.records), (1, 0));
        assert_eq!(
            told,
            [
                "[70]",
                "[71]",
                "[70]",
                "20 w 5000 1",
                "23 r ffffffff90000000 1",
                // The second execution was cut short. Its remaining accesses are unknown.
                "10 w ffffc90000000ff8 1",
                "11 r 7008 1",
                "12 rw ffff888000000040 1",
                "end",
            ]
        );
    }
}
