// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads what the flight recorder has left in memory (include/uapi/jifl_flight.h): from the running
//! module, from memory that outlived a restart, from a copy in a file, or from an image of the
//! whole machine's memory.
//!
//! Everything in that memory may be wrong, or change while it is read. What is not certainly a
//! record is counted, and left out.

#[cfg(test)]
mod damage;
mod decode;
pub mod door;
#[cfg(test)]
pub mod fake;
pub mod fields;
pub mod file;
mod head;
pub mod image;
mod images;
#[cfg(test)]
pub mod made;
#[cfg(test)]
mod tests;
pub mod time;

use std::io;

pub use self::decode::{Counts, Entry, Flight, counter, merge, ring};
pub use self::head::{Event, Head, NotRead};

/// The bytes of a recording, its head first.
pub trait Memory {
    /// Fills `room` with the bytes from `offset` on.
    ///
    /// # Errors
    /// They are not all there.
    fn read(&mut self, offset: u64, room: &mut [u8]) -> io::Result<()>;
}

impl Memory for Vec<u8> {
    fn read(&mut self, offset: u64, room: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok();
        let all = from.and_then(|from| self.get(from..from.checked_add(room.len())?));
        room.copy_from_slice(all.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}
