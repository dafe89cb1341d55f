// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditional branches, and their two edges.

use jifl_sys::abi::{Count, NO_BRANCH};

/// Address of the branch at the end of a block.
pub fn site(block: &Count) -> u64 {
    block.orig + u64::from(block.branch)
}

/// How often the branch fell through.
pub fn not_taken(branch: &Count) -> u64 {
    branch.executed.saturating_sub(branch.taken)
}

/// One count for each branch of the blocks, in the order of addresses. Several blocks may end in
/// the same branch, because a jump into a block makes another block.
pub fn branches<'a>(blocks: impl Iterator<Item = &'a Count>) -> Vec<Count> {
    let mut blocks: Vec<Count> = blocks
        .filter(|block| block.branch != NO_BRANCH)
        .copied()
        .collect();
    blocks.sort_by_key(|block| (site(block), block.target));
    let mut branches: Vec<Count> = Vec::new();
    for block in blocks {
        match branches.last_mut() {
            Some(last) if (site(last), last.target) == (site(&block), block.target) => {
                last.executed += block.executed;
                last.taken += block.taken;
            }
            _ => branches.push(block),
        }
    }
    branches
}

/// Executed edges, and all known edges: each branch has two.
pub fn edges(blocks: &[Count]) -> (usize, usize) {
    let all = branches(blocks.iter());
    let gone = |branch: &Count| usize::from(branch.taken > 0) + usize::from(not_taken(branch) > 0);
    (all.iter().map(gone).sum(), 2 * all.len())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{block, branch};
    use super::*;

    #[test]
    fn blocks_that_end_in_the_same_branch_are_one() {
        let mut inside = branch(0x102, 0x120, 5, 1);
        inside.branch = 4;
        let blocks = [
            branch(0x100, 0x120, 40, 40),
            inside,
            block(0x108, 4, 1, 1),
            branch(0x10c, 0, 0, 0),
        ];
        let found = branches(blocks.iter());
        assert_eq!((found[0].executed, found[0].taken), (45, 41));
        assert_eq!(found.len(), 2);
        assert_eq!(edges(&blocks), (2, 4));
    }
}
