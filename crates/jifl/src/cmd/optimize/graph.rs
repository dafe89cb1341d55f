// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control flow that was counted: which block leads to which, how often.

use std::collections::HashMap;

use jifl_code::flow::{Flow, Target, Thunks};
use jifl_sys::abi::{Count, NO_BRANCH};

use crate::kernel::memory::Memory;
use crate::session::blocks::{code, not_taken};

/// A block that was executed.
#[derive(Debug, Clone)]
pub struct Node {
    pub block: Count,
    /// How control leaves the block.
    pub end: End,
}

/// How control leaves a block, and to which block, by its index. `None` stands for a block that was
/// not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A conditional branch: where it leads, and what stands behind it.
    Branch {
        target: Option<usize>,
        behind: Option<usize>,
    },
    /// A jump to a known address.
    Jump(Option<usize>),
    /// A call, of a known address or of another, that returns behind it.
    Call {
        callee: Option<usize>,
        behind: Option<usize>,
    },
    /// The next block stands behind it.
    Falls(Option<usize>),
    /// A return, or an indirect jump.
    Leaves,
}

/// All blocks that were executed.
#[derive(Debug, Default)]
pub struct Graph {
    /// In the order of their addresses.
    pub nodes: Vec<Node>,
}

impl Graph {
    /// The graph of counted blocks. A block whose code cannot be read any more is taken for one
    /// that leads nowhere, unless its branch was counted.
    pub fn of(blocks: &[Count], memory: &mut impl Memory, thunks: &Thunks) -> Graph {
        // Where code has changed, there are several blocks at an address.
        let mut executed: Vec<Count> = Vec::new();
        for block in blocks.iter().filter(|block| block.executed > 0) {
            match executed.last_mut() {
                Some(last) if last.orig == block.orig => {
                    if block.executed > last.executed {
                        *last = *block;
                    }
                }
                _ => executed.push(*block),
            }
        }
        let at: HashMap<u64, usize> = (executed.iter().enumerate())
            .map(|(index, block)| (block.orig, index))
            .collect();
        let node = |block: Count| Node {
            end: end(&block, &at, memory, thunks),
            block,
        };
        Graph {
            nodes: executed.into_iter().map(node).collect(),
        }
    }

    /// The blocks that can lie right behind this one, and how often control went there.
    pub fn followers(&self, index: usize) -> impl Iterator<Item = (usize, u64)> + use<> {
        let node = &self.nodes[index];
        let executed = node.block.executed;
        let pair = match node.end {
            End::Branch { target, behind } => [
                behind.map(|to| (to, not_taken(&node.block))),
                target.map(|to| (to, node.block.taken)),
            ],
            End::Jump(to) | End::Falls(to) => [to.map(|to| (to, executed)), None],
            End::Call { behind, .. } => [behind.map(|to| (to, executed)), None],
            End::Leaves => [None, None],
        };
        pair.into_iter().flatten()
    }

    /// Branches that are taken inside functions and between them, without calls and returns, where
    /// `follows` says whether a block lies right behind another.
    pub fn taken(&self, follows: impl Fn(usize, Option<usize>) -> bool) -> u64 {
        let of = |(index, node): (usize, &Node)| {
            let executed = node.block.executed;
            match node.end {
                End::Branch { target, behind } => {
                    if follows(index, behind) {
                        node.block.taken
                    } else if follows(index, target) {
                        not_taken(&node.block)
                    } else {
                        executed
                    }
                }
                // A call that never returned needs no way on.
                End::Leaves | End::Falls(None) | End::Call { behind: None, .. } => 0,
                End::Jump(to) | End::Falls(to) | End::Call { behind: to, .. } => {
                    if follows(index, to) { 0 } else { executed }
                }
            }
        };
        self.nodes.iter().enumerate().map(of).sum()
    }

    /// The same for the kernel's own layout: what stands behind a block follows it.
    pub fn taken_natively(&self) -> u64 {
        let of = |node: &Node| match node.end {
            End::Branch { .. } => node.block.taken,
            End::Jump(_) => node.block.executed,
            _ => 0,
        };
        self.nodes.iter().map(of).sum()
    }
}

fn end(block: &Count, at: &HashMap<u64, usize>, memory: &mut impl Memory, thunks: &Thunks) -> End {
    let find = |address: u64| at.get(&address).copied();
    let behind = find(block.orig + u64::from(block.src_len));
    if block.branch != NO_BRANCH {
        return End::Branch {
            target: find(block.target),
            behind,
        };
    }
    let code = code::decode(block, memory);
    let Some(last) = code.as_ref().and_then(|code| code.instructions.last()) else {
        return End::Leaves;
    };
    match thunks.flow(last) {
        Flow::Jump(Target::Direct(to)) => End::Jump(find(to)),
        Flow::Call(target) => End::Call {
            callee: match target {
                Target::Direct(to) => find(to),
                Target::Indirect(_) => None,
            },
            behind,
        },
        Flow::Next => End::Falls(behind),
        _ => End::Leaves,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::session::blocks::tests::{AT, block, branch};

    /// Code with its counts: a loop that is left in the middle, and calls a function.
    ///
    /// ```text
    /// 00: je 10       10 times, taken 9
    /// 02: call 20     1, behind it 07: jmp 00
    /// 10: call 20     9
    /// 15: jne 00      9, taken 9
    /// 20: ret         10
    /// ```
    pub fn looping() -> Graph {
        let mut bytes = vec![0xcc; 0x40];
        let mut put = |at: usize, code: &[u8]| bytes[at..at + code.len()].copy_from_slice(code);
        put(0x00, &[0x74, 0x0e]);
        put(0x02, &[0xe8, 0x19, 0, 0, 0]);
        put(0x07, &[0xeb, 0xf7]);
        put(0x10, &[0xe8, 0x0b, 0, 0, 0]);
        put(0x15, &[0x75, 0xe9]);
        put(0x20, &[0xc3]);
        let sized = |mut count: Count, length: u32| {
            count.src_len = length;
            let at = (count.orig - AT) as usize;
            count.hash = code::hash(&bytes[at..at + length as usize]);
            count.insns = 1;
            if count.branch != NO_BRANCH {
                count.branch = 0;
            }
            count
        };
        let blocks = [
            sized(branch(0x00, 0x10, 10, 9), 2),
            sized(block(0x02, 5, 1, 1), 5),
            sized(block(0x07, 2, 1, 1), 2),
            sized(block(0x10, 5, 1, 9), 5),
            sized(branch(0x15, 0x00, 9, 9), 2),
            sized(block(0x20, 1, 1, 10), 1),
        ];
        Graph::of(&blocks, &mut (AT, bytes), &Thunks::default())
    }

    #[test]
    fn ends_of_blocks_are_known_from_counts_and_code() {
        let graph = looping();
        let ends: Vec<End> = graph.nodes.iter().map(|node| node.end).collect();
        assert_eq!(
            ends,
            [
                End::Branch {
                    target: Some(3),
                    behind: Some(1)
                },
                End::Call {
                    callee: Some(5),
                    behind: Some(2)
                },
                End::Jump(Some(0)),
                End::Call {
                    callee: Some(5),
                    behind: Some(4)
                },
                End::Branch {
                    target: Some(0),
                    behind: None
                },
                End::Leaves,
            ]
        );
        assert_eq!(graph.followers(0).collect::<Vec<_>>(), [(1, 1), (3, 9)]);
    }

    #[test]
    fn taken_branches_follow_from_the_layout() {
        let graph = looping();
        assert_eq!(graph.taken_natively(), 9 + 1 + 9);
        // Nothing lies behind anything: each end but the return is a branch.
        assert_eq!(graph.taken(|_, _| false), 10 + 1 + 1 + 9 + 9);
        // 10, 15, 00, 02, 07
        let order = [3, 4, 0, 1, 2];
        let follows = |from: usize, to: Option<usize>| {
            order
                .windows(2)
                .any(|pair| (pair[0], Some(pair[1])) == (from, to))
        };
        assert_eq!(graph.taken(follows), 9 + 1);
    }

    #[test]
    fn a_block_whose_code_has_changed_leads_nowhere() {
        let mut count = block(0, 5, 1, 3);
        count.hash = 1;
        let graph = Graph::of(&[count], &mut (AT, vec![0x90; 5]), &Thunks::default());
        assert_eq!(graph.nodes[0].end, End::Leaves);
    }
}
