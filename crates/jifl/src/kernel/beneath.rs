// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's text beneath breakpoints of this process's own sessions.
//!
//! A breakpoint, or the jump that may stand in its place or at a function's door, hides the
//! instruction that it replaces. The module knows the instruction, and lets any number of sessions
//! have the place. This process has read the text before its session began. So it can look at the
//! function again while the session runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::memory::Memory;

/// Bytes of a place that are remembered: the longest instruction, and one.
pub const PIECE: usize = 16;
/// The first byte of a breakpoint, and of a jump with a displacement of 32 bits.
const INT3: u8 = 0xcc;
const JUMP: u8 = 0xe9;

/// What is remembered, by who holds it.
#[derive(Debug, Default)]
pub struct Beneath(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: u64,
    pieces: Vec<(u64, u64, Vec<u8>)>,
}

/// It is remembered as long as this lives.
#[derive(Debug)]
pub struct Held {
    of: Arc<Beneath>,
    number: u64,
}

impl Beneath {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what stands at these places now, as `memory` has it.
    pub fn remember(
        self: &Arc<Beneath>,
        places: impl Iterator<Item = u64>,
        memory: &mut dyn Memory,
    ) -> Held {
        let read = |at: u64| Some((at, memory.read(at, PIECE)?));
        let pieces: Vec<(u64, Vec<u8>)> = places.filter_map(read).collect();
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        let pieces = pieces.into_iter();
        state
            .pieces
            .extend(pieces.map(|(at, bytes)| (number, at, bytes)));
        Held {
            of: Arc::clone(self),
            number,
        }
    }

    /// Puts into `bytes`, from an address on, what breakpoints and jumps hide. Other bytes are as
    /// they stand now: the kernel may have changed them meanwhile.
    fn lift(&self, address: u64, bytes: &mut [u8]) {
        for (_, at, piece) in &self.state().pieces {
            let place = at.checked_sub(address).map(|place| place as usize);
            let Some(place) = place.filter(|place| *place < bytes.len()) else {
                continue;
            };
            let length = match bytes[place] {
                now if now == piece[0] => continue,
                INT3 => 1,
                JUMP => PIECE,
                _ => continue,
            };
            let length = length.min(bytes.len() - place);
            bytes[place..place + length].copy_from_slice(&piece[..length]);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let number = self.number;
        self.of.state().pieces.retain(|(own, ..)| *own != number);
    }
}

/// Memory, with what is beneath.
pub struct Over<M> {
    /// As it is.
    pub memory: M,
    /// What is remembered.
    pub beneath: Arc<Beneath>,
}

impl<M: Memory> Memory for Over<M> {
    fn read(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = self.memory.read(address, length)?;
        self.beneath.lift(address, &mut bytes);
        Some(bytes)
    }

    fn bulk(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = self.memory.bulk(address, length)?;
        self.beneath.lift(address, &mut bytes);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakpoints_and_jumps_are_lifted_and_changes_are_not() {
        let beneath = Arc::new(Beneath::default());
        let original: Vec<u8> = (0x40..0x80).collect();
        let over = |bytes: Vec<u8>| Over {
            memory: (0x1000, bytes),
            beneath: Arc::clone(&beneath),
        };
        let places = [0x1008, 0x1010, 0x1030, 0x1070];
        let held = beneath.remember(places.into_iter(), &mut over(original.clone()));
        let mut now = original.clone();
        now[8] = INT3;
        now[9] = 0x90;
        now[0x10..0x15].copy_from_slice(&[JUMP, 1, 2, 3, 4]);
        now[0x30] = 0x90;
        let mut expected = original.clone();
        (expected[9], expected[0x30]) = (0x90, 0x90);
        assert_eq!(over(now.clone()).bulk(0x1000, 64).unwrap(), expected);
        assert_eq!(over(now.clone()).read(0x1008, 2).unwrap(), [0x48, 0x90]);
        // A second session at the place sees the same, and outlives the first.
        let second = beneath.remember([0x1008].into_iter(), &mut over(now.clone()));
        drop(held);
        assert_eq!(over(now.clone()).read(0x1008, 1).unwrap(), [0x48]);
        assert_eq!(over(now.clone()).read(0x1010, 1).unwrap(), [JUMP]);
        drop(second);
        assert_eq!(over(now).read(0x1008, 1).unwrap(), [INT3]);
    }
}
