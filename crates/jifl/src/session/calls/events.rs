// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a thread in a session of functions, or of blocks.

use jifl_sys::abi::{
    RECORD_ARGUMENTS, RECORD_ENTERED, RECORD_FAULT, RECORD_FUNCTION, RECORD_JUMPED, RECORD_LEFT,
    RECORD_RETURN, RECORD_RETURNED, RECORD_TOP, Record,
};

use crate::session::ring;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Makes the call with this number (`Target::number`).
    Begin(u32),
    /// Comes to run in such a call, which had begun before the session.
    Adopted(u32),
    /// Enters the function, or executes the block, at this address, with this stack pointer's low
    /// half.
    Enter(u64, u32),
    /// Returns from the function entered with this stack pointer.
    Return(u32),
    /// Arguments of the function that was entered just before, with this stack pointer. They are in
    /// the words behind this index of the CPU's records.
    Arguments(u32, u32),
    /// The result of the function that was entered with this stack pointer, in the words behind
    /// this index.
    Returned(u32, u32),
    /// The time at which the function with this stack pointer was entered, in the word behind this
    /// index.
    Entered(u32, u32),
    /// The time at which that function returns, in the word behind this index.
    Left(u32, u32),
    /// The time at which that function jumps to another, which returns for it, in the word behind
    /// this index.
    Jumped(u32, u32),
    /// The kernel's fixup goes on natively in place of the instruction at this address.
    Fault(u64),
    /// Its system call has this result.
    Result(i64),
    /// The call's result, which was told just before, has these bits from bit 59 on.
    Top(u32),
    /// Its system call ends, at this time.
    End(u64),
    /// Records are lost from here on.
    Lost,
}

impl ring::Event for Event {
    fn begin(nr: u32) -> Event {
        Event::Begin(nr)
    }

    fn adopted(nr: u32) -> Event {
        Event::Adopted(nr)
    }

    fn end(time: u64) -> Event {
        Event::End(time)
    }

    fn inside(record: &Record, at: usize) -> Option<Event> {
        match record.what {
            RECORD_FUNCTION.. => Some(Event::Enter(address(record.what), record.value)),
            RECORD_RETURN => Some(Event::Return(record.value)),
            RECORD_ARGUMENTS => Some(Event::Arguments(record.value, at as u32)),
            RECORD_RETURNED => Some(Event::Returned(record.value, at as u32)),
            RECORD_ENTERED => Some(Event::Entered(record.value, at as u32)),
            RECORD_LEFT => Some(Event::Left(record.value, at as u32)),
            RECORD_JUMPED => Some(Event::Jumped(record.value, at as u32)),
            RECORD_TOP => Some(Event::Top(record.value)),
            RECORD_FAULT => Some(Event::Fault(address(record.value))),
            _ => ring::pieces::result(record).map(Event::Result),
        }
    }

    fn lost() -> Option<Event> {
        Some(Event::Lost)
    }
}

/// An address of the kernel, from its low half.
fn address(low: u32) -> u64 {
    u64::from(u32::MAX) << 32 | u64::from(low)
}
