// SPDX-License-Identifier: MIT OR Apache-2.0
//! The meaning of records: the accesses of each block, as the module has laid them out.

use jifl_sys::abi::{Access, Accesses};
use jifl_sys::device::{Door, Request};

use crate::base::exit::Failure;
use crate::session::device;

/// Accesses that one request may take.
const ROOM: usize = 1 << 13;

/// The accesses of all blocks.
pub struct Layout {
    accesses: Vec<Access>,
    /// Of each block: the number of its first record, and where its accesses begin.
    blocks: Vec<(u32, usize)>,
    /// Of each CPU, where its own data are.
    percpu: Vec<u64>,
    /// Copies of blocks that were not recorded, for want of room.
    pub refused: u64,
}

/// A block, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block(usize);

impl Layout {
    /// Takes it from the module.
    ///
    /// # Errors
    /// It cannot be had.
    pub fn of(door: &impl Door, cpus: usize) -> Result<Layout, Failure> {
        let mut layout = Layout {
            accesses: Vec::new(),
            blocks: Vec::new(),
            percpu: Vec::new(),
            refused: 0,
        };
        layout
            .take(door, cpus)
            .map_err(|error| device::failed("taking what was accessed", &error))?;
        layout.find_blocks();
        Ok(layout)
    }

    fn take(&mut self, door: &impl Door, cpus: usize) -> std::io::Result<()> {
        let mut room = vec![Access::default(); ROOM];
        loop {
            let from = self.accesses.len() as u32;
            let mut asked = Accesses::from(from, 0);
            door.call(Request::Accesses(&mut asked, &mut room))?;
            self.accesses.extend_from_slice(&room[..asked.n as usize]);
            self.refused = asked.refused;
            if (asked.n as usize) < room.len() {
                break;
            }
        }
        for cpu in 0..cpus {
            let mut asked = Accesses::from(u32::MAX, cpu as u32);
            // Not all numbers below the highest need be CPUs.
            let known = door.call(Request::Accesses(&mut asked, &mut room[..1]));
            self.percpu.push(known.map_or(0, |()| asked.percpu));
        }
        Ok(())
    }

    fn find_blocks(&mut self) {
        for (at, access) in self.accesses.iter().enumerate() {
            if self
                .blocks
                .last()
                .is_none_or(|(first, _)| *first != access.block)
            {
                self.blocks.push((access.block, at));
            }
        }
    }

    /// The block that a record is of.
    pub fn block(&self, record: u32) -> Option<Block> {
        let behind = self.blocks.partition_point(|(first, _)| *first <= record);
        behind.checked_sub(1).map(Block)
    }

    /// The number of its first record.
    pub fn first_record(&self, block: Block) -> u32 {
        self.blocks[block.0].0
    }

    /// In the order in which it makes them.
    pub fn accesses(&self, block: Block) -> &[Access] {
        let end = self.blocks.get(block.0 + 1).map(|(_, at)| *at);
        &self.accesses[self.blocks[block.0].1..end.unwrap_or(self.accesses.len())]
    }

    /// Where a CPU's own data are.
    pub fn percpu(&self, cpu: usize) -> u64 {
        self.percpu.get(cpu).copied().unwrap_or(0)
    }
}
