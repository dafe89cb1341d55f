// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks by their functions.

use jifl_sys::abi::Count;

use super::instructions;
use crate::kernel::symbols::Symbols;

/// A function with translated blocks.
#[derive(Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Its name, with the module; its address if it has no name.
    pub name: String,
    /// Address of its beginning.
    pub address: u64,
    /// Bytes to the next function, or to the end of the last known block.
    pub size: u64,
    /// Its blocks, in the order of their addresses.
    pub blocks: &'a [Count],
}

impl Function<'_> {
    /// How often its beginning was executed.
    pub fn calls(&self) -> u64 {
        let first = self
            .blocks
            .iter()
            .filter(|block| block.orig == self.address);
        first.map(|block| block.executed).sum()
    }

    /// Instructions executed in it.
    pub fn instructions(&self) -> u64 {
        self.blocks.iter().map(instructions).sum()
    }

    /// Executions of its blocks.
    pub fn executed(&self) -> usize {
        let ran = self.blocks.iter().filter(|block| block.executed > 0);
        ran.count()
    }

    /// Executed edges of its branches, and all known edges.
    pub fn edges(&self) -> (usize, usize) {
        super::edges(self.blocks)
    }

    /// Bytes executed, each counted once.
    pub fn bytes(&self) -> u64 {
        let ran = self.blocks.iter().filter(|block| block.executed > 0);
        union(ran.map(|block| (block.orig, u64::from(block.src_len))))
    }
}

/// Number of bytes in pieces, given as address and length in the order of their addresses. Pieces
/// may overlap, because a jump into a block makes another block.
fn union(pieces: impl Iterator<Item = (u64, u64)>) -> u64 {
    let (mut bytes, mut end) = (0, 0);
    for (from, length) in pieces {
        let to = from + length;
        bytes += to.saturating_sub(from.max(end));
        end = end.max(to);
    }
    bytes
}

/// The functions of blocks, in the order of their addresses; the blocks are in this order.
pub fn functions<'a>(blocks: &'a [Count], symbols: &Symbols) -> Vec<Function<'a>> {
    let start = |block: &Count| {
        let place = symbols.function(block.orig);
        place.map_or(block.orig, |place| place.start())
    };
    let same = |a: &Count, b: &Count| start(a) == start(b);
    let function = |blocks: &'a [Count]| {
        let address = start(&blocks[0]);
        let end = blocks
            .iter()
            .map(|block| block.orig + u64::from(block.src_len));
        let known = end.max().unwrap_or(address);
        Function {
            name: symbols.name(address).into_owned(),
            address,
            size: symbols.end(address).unwrap_or(known).max(known) - address,
            blocks,
        }
    };
    blocks.chunk_by(same).map(function).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{AT, sample};
    use super::*;

    #[test]
    fn blocks_are_grouped_and_overlaps_count_once() {
        let profile = sample();
        let found = functions(&profile.blocks, &profile.symbols);
        let names: Vec<&str> = found
            .iter()
            .map(|function| function.name.as_str())
            .collect();
        assert_eq!(names, ["outer", "inner [nfs]"]);
        let outer = &found[0];
        assert_eq!((outer.address, outer.size), (AT, 0x50));
        assert_eq!((outer.calls(), outer.executed()), (10, 3));
        assert_eq!((outer.bytes(), outer.instructions()), (16, 55));
        // The next symbol belongs to another module.
        assert_eq!(found[1].size, 0xc);
    }

    #[test]
    fn what_has_no_name_stands_for_itself() {
        let profile = sample();
        let found = functions(&profile.blocks[..1], &Symbols::default());
        assert_eq!(found[0].name, format!("{AT:#x}"));
        assert_eq!(found[0].size, 8);
    }

    #[test]
    fn unions() {
        assert_eq!(union([(0, 4), (2, 1), (3, 4), (10, 2)].into_iter()), 9);
    }
}
