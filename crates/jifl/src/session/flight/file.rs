// SPDX-License-Identifier: MIT OR Apache-2.0
//! A copy of a recording in a file: the region byte for byte, as `jifl flight dump` writes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use jifl_sys::abi::FLIGHT_MAGIC;

use super::{Head, Memory, NotRead};
use crate::base::exit::Failure;

/// Bytes that are copied at once.
const PIECE: u64 = 1 << 20;

impl Memory for File {
    fn read(&mut self, offset: u64, room: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(room, offset)
    }
}

/// Does a file begin as a recording does?
pub fn is_copy(file: &File) -> bool {
    let mut begin = [0; FLIGHT_MAGIC.len()];
    file.read_exact_at(&mut begin, 0).is_ok() && begin == *FLIGHT_MAGIC
}

/// Copies a whole region: `put` is given its bytes, in their order. What is not there is zeroes, so
/// that no record is made of it; the result is how many bytes that are.
///
/// # Errors
/// There is no recording, or `put` failed.
pub fn copy(
    memory: &mut impl Memory,
    mut put: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let page = jifl_sys::abi::FLIGHT_PAGE as u64;
    let mut bytes = vec![0; page as usize];
    memory.read(0, &mut bytes).map_err(|error| {
        Failure::failed(format!("the recording's head cannot be read: {error}"))
    })?;
    let end = Head::of(&bytes).map_err(NotRead::failure)?.bytes();
    let (mut at, mut missing) = (0, 0);
    while at < end {
        let length = PIECE.min(end - at);
        bytes.resize(length as usize, 0);
        if memory.read(at, &mut bytes).is_err() {
            for (index, room) in bytes.chunks_mut(page as usize).enumerate() {
                if memory.read(at + index as u64 * page, room).is_err() {
                    room.fill(0);
                    missing += room.len() as u64;
                }
            }
        }
        put(&bytes)?;
        at += length;
    }
    Ok(missing)
}
