// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread does in a session of functions.

use jifl_sys::abi::{RECORD_FUNCTION, RECORD_RETURN, Record};

use crate::records;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Makes this system call.
    Begin(u32),
    /// Enters the function at this address, with this stack pointer's low half.
    Enter(u64, u32),
    /// Returns from the function entered with this stack pointer.
    Return(u32),
    /// Its system call comes to its end, at this time.
    End(u64),
}

impl records::Event for Event {
    fn begin(nr: u32) -> Event {
        Event::Begin(nr)
    }

    fn end(time: u64) -> Event {
        Event::End(time)
    }

    fn inside(record: &Record, _at: usize) -> Option<Event> {
        let address = u64::from(u32::MAX) << 32 | u64::from(record.what);
        match record.what {
            RECORD_FUNCTION.. => Some(Event::Enter(address, record.value)),
            RECORD_RETURN => Some(Event::Return(record.value)),
            _ => None,
        }
    }
}
