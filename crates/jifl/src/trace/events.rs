// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread does in a session of functions, or of blocks.

use jifl_sys::abi::{RECORD_FAULT, RECORD_FUNCTION, RECORD_RETURN, Record};

use crate::records;

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
    /// The kernel's fixup goes on natively in place of the instruction at this address.
    Fault(u64),
    /// Its system call returns this.
    Result(i64),
    /// Its system call comes to its end, at this time.
    End(u64),
    /// Records are lost from here on.
    Lost,
}

impl records::Event for Event {
    fn begin(nr: u32) -> Event {
        Event::Begin(nr)
    }

    fn end(time: u64) -> Event {
        Event::End(time)
    }

    fn inside(record: &Record, _at: usize) -> Option<Event> {
        match record.what {
            RECORD_FUNCTION.. => Some(Event::Enter(address(record.what), record.value)),
            RECORD_RETURN => Some(Event::Return(record.value)),
            RECORD_FAULT => Some(Event::Fault(address(record.value))),
            _ => records::pieces::result(record).map(Event::Result),
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
