// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a thread in a session of functions, or of blocks.

use jifl_sys::abi::{
    RECORD_ARGUMENTS, RECORD_ENTERED, RECORD_FAULT, RECORD_FUNCTION, RECORD_JUMPED, RECORD_LEFT,
    RECORD_RETURN, RECORD_RETURNED, Record,
};

use crate::session::ring;
use crate::session::targets::Target;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Makes this system call.
    Begin(u32),
    /// Enters the function, or executes the block, at this address, with this stack pointer's low
    /// half.
    Enter(u64, u32),
    /// Returns from the function entered with this stack pointer.
    Return(u32),
    /// What the function gets that was entered just before: with this stack pointer, in the words
    /// behind this place among the CPU's records.
    Arguments(u32, u32),
    /// What the function returns that was entered with this stack pointer: in the words behind this
    /// place.
    Returned(u32, u32),
    /// When the function was entered that has this stack pointer: in the word behind this place.
    Entered(u32, u32),
    /// When that function returns: in the word behind this place.
    Left(u32, u32),
    /// When that function jumps to another, which returns for it: in the word behind this place.
    Jumped(u32, u32),
    /// The kernel's fixup goes on natively in place of the instruction at this address.
    Fault(u64),
    /// Its system call returns this.
    Result(i64),
    /// Its system call comes to its end, at this time.
    End(u64),
    /// Records are lost from here on.
    Lost,
}

impl ring::Event for Event {
    fn begin(target: Target) -> Event {
        Event::Begin(target.nr())
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
            RECORD_FAULT => Some(Event::Fault(address(record.value))),
            _ => ring::pieces::result(record).map(Event::Result),
        }
    }

    fn lost() -> Option<Event> {
        Some(Event::Lost)
    }
}

/// From its low half.
fn address(low: u32) -> u64 {
    u64::from(u32::MAX) << 32 | u64::from(low)
}
