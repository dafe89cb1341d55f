// SPDX-License-Identifier: MIT OR Apache-2.0
//! The meaning of records: the accesses of each block, as the module has laid them out.

use jifl_sys::abi::{ACCESS_PERCPU_BASE, ACCESS_REFUSED, Access};
use jifl_sys::device::Door;

use crate::base::exit::Failure;
use crate::session::table;

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
        let (accesses, rest) = table::read(door, "taking what was accessed")?;
        // Not all numbers below the highest need be CPUs.
        let percpu = |cpu| {
            table::rest_of_cpu::<Access>(door, cpu).map_or(0, |rest| rest[ACCESS_PERCPU_BASE])
        };
        let mut layout = Layout {
            accesses,
            blocks: Vec::new(),
            percpu: (0..cpus as u32).map(percpu).collect(),
            refused: rest[ACCESS_REFUSED],
        };
        layout.find_blocks();
        Ok(layout)
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
