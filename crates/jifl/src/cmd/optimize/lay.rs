// SPDX-License-Identifier: MIT OR Apache-2.0
//! Brings a plan into the code cache, and looks at what is there.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use jifl_sys::abi::{
    BLOCK_DEAD, BLOCK_ENTRY, BLOCK_FALLS, BLOCK_NATIVE, Block, WARM_FOLLOWS, WARM_LAY, WARM_MAX,
    Warm as Request, WarmBlock,
};
use jifl_sys::device::{self, BlockParts, Door};
use rustix::io::Errno;
use serde::Serialize;

use super::graph::Graph;
use super::plan::Plan;
use crate::base::exit::Failure;
use crate::cmd::dump::cache;
use crate::session::device as module;

/// Bytes of a line of an instruction cache, and of a small page.
const LINE: u64 = 64;
const PAGE: u64 = 4096;

/// What the module made of a plan.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Laid {
    /// Blocks that lie where they have to.
    pub blocks: u64,
    /// Blocks whose code is another one now, or is never copied.
    pub other: u64,
    /// Blocks for which there was no room.
    pub left: u64,
    /// Time of all requests, in nanoseconds.
    pub ns: u64,
}

/// Lays the blocks of a plan for a door's session.
///
/// `None`: the session has been ended from outside.
///
/// # Errors
/// The module refuses.
pub fn lay(door: &impl Door, graph: &Graph, plan: &Plan) -> Result<Option<Laid>, Failure> {
    let began = Instant::now();
    let mut laid = Laid::default();
    for blocks in requested(graph, plan).chunks(WARM_MAX) {
        let mut request = Request::default();
        match door.call(device::Request::Warm(&mut request, blocks)) {
            Ok(()) => {
                laid.blocks += u64::from(request.present);
                laid.other += u64::from(request.other);
                laid.left += u64::from(request.left);
            }
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => return Ok(None),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::PERM) => return Err(hidden()),
            Err(error) => return Err(module::failed("laying the blocks", &error)),
        }
    }
    laid.ns = began.elapsed().as_nanos() as u64;
    Ok(Some(laid))
}

/// Addresses of the kernel are hidden from this user.
pub fn hidden() -> Failure {
    Failure::cannot(
        "a layout is made of addresses of the kernel, which are hidden here: set \
         kernel.kptr_restrict=1, and be root",
    )
}

/// A list for the module. A chain that two requests share is two chains.
fn requested(graph: &Graph, plan: &Plan) -> Vec<WarmBlock> {
    let of_chain = |chain: &Vec<usize>| {
        let of = |(at, index): (usize, &usize)| {
            let block = &graph.nodes[*index].block;
            WarmBlock {
                orig: block.orig,
                src_len: block.src_len,
                insns: block.insns,
                hash: block.hash,
                flags: WARM_LAY | if at > 0 { WARM_FOLLOWS } else { 0 },
            }
        };
        chain.iter().enumerate().map(of).collect::<Vec<_>>()
    };
    let mut all: Vec<WarmBlock> = plan.chains.iter().flat_map(of_chain).collect();
    for at in (WARM_MAX..all.len()).step_by(WARM_MAX) {
        all[at].flags &= !WARM_FOLLOWS;
    }
    all
}

/// Where blocks are: the lines and pages they take, and how much of it they fill.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Extent {
    pub bytes: u64,
    pub lines: u64,
    pub pages: u64,
}

impl Extent {
    /// Of pieces of memory: addresses and lengths.
    fn of(pieces: impl Iterator<Item = (u64, u64)>) -> Extent {
        let (mut lines, mut pages, mut bytes) = (BTreeSet::new(), BTreeSet::new(), 0);
        for (at, length) in pieces.filter(|(_, length)| *length > 0) {
            lines.extend(at / LINE..=(at + length - 1) / LINE);
            pages.extend(at / PAGE..=(at + length - 1) / PAGE);
            bytes += length;
        }
        Extent {
            bytes,
            lines: lines.len() as u64,
            pages: pages.len() as u64,
        }
    }
}

/// A layout as it is found in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Hot blocks in the kernel's own text.
    pub native: Extent,
    /// Their copies.
    pub copies: Extent,
    /// Copies of blocks of the plan that there are.
    pub blocks: u64,
    /// Taken branches at the ends of the plan's blocks, without calls and returns, as the counts
    /// give them for the kernel's own layout.
    pub taken_natively: u64,
    /// The same for the copies, as they lie.
    pub taken: u64,
}

/// Looks where the copies of a session lie.
///
/// # Errors
/// The module does not show them.
pub fn look(door: &impl Door, session: u64, graph: &Graph, plan: &Plan) -> Result<Found, Failure> {
    let all = cache::read(door, session)?;
    // Calls that other sessions look at, too, have copies of their own. Those sessions may stand at
    // any place of the list.
    let is_own = |block: &Block| {
        let is_alone = block.sessions.iter().all(|one| [0, session].contains(one));
        is_alone && block.flags & (BLOCK_DEAD | BLOCK_ENTRY | BLOCK_NATIVE) == 0
    };
    // In place of a block of the plan there may be one of other code.
    let lengths: HashMap<u64, u32> = (graph.nodes.iter())
        .map(|node| (node.block.orig, node.block.src_len))
        .collect();
    let is_meant = |block: &Block, parts: &BlockParts| {
        let length = lengths.get(&block.orig);
        length.is_some_and(|length| *length as usize == parts.src.len())
    };
    let own = (all.iter()).filter(|(block, parts)| is_own(block) && is_meant(block, parts));
    let copies: HashMap<u64, Copied> = own
        .map(|(block, parts)| {
            let copied = Copied {
                at: block.cache,
                length: parts.code.len() as u64,
                falls: block.flags & BLOCK_FALLS != 0,
            };
            (block.orig, copied)
        })
        .collect();
    Ok(found(&copies, graph, plan))
}

/// Where a copy lies, and whether it goes on in what lies behind it.
#[derive(Debug, Clone, Copy)]
struct Copied {
    at: u64,
    length: u64,
    falls: bool,
}

fn found(copies: &HashMap<u64, Copied>, graph: &Graph, plan: &Plan) -> Found {
    let hot = || plan.chains[..plan.hot].iter().flatten().copied();
    let copy = |index: usize| copies.get(&graph.nodes[index].block.orig).copied();
    let follows = |from: usize, to: Option<usize>| {
        let (Some(from), Some(to)) = (copy(from), to.and_then(copy)) else {
            return false;
        };
        from.falls && from.at + from.length == to.at
    };
    Found {
        native: Extent::of(hot().map(|index| {
            let block = &graph.nodes[index].block;
            (block.orig, u64::from(block.src_len))
        })),
        copies: Extent::of(hot().filter_map(copy).map(|copy| (copy.at, copy.length))),
        blocks: (0..graph.nodes.len()).filter_map(copy).count() as u64,
        taken_natively: graph.taken_natively(),
        taken: graph.taken(follows),
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::tests::looping;
    use super::*;
    use crate::session::blocks::tests::AT;
    use crate::session::fake::Fake;

    #[test]
    fn chains_are_told_by_what_follows() {
        let graph = looping();
        let plan = Plan::of(&graph, 1.0);
        let fake = Fake::default();
        let laid = lay(&fake, &graph, &plan).unwrap().unwrap();
        let state = fake.state();
        let asked: Vec<(u64, u32)> = (state.warmed.iter())
            .map(|block| (block.orig - AT, block.flags))
            .collect();
        let next = WARM_LAY | WARM_FOLLOWS;
        assert_eq!(
            asked,
            [
                (0x00, WARM_LAY),
                (0x10, next),
                (0x15, next),
                (0x20, WARM_LAY),
                (0x02, WARM_LAY),
                (0x07, next),
            ]
        );
        // The stand-in has other code where a length is odd.
        assert_eq!((laid.blocks, laid.other, laid.left), (3, 3, 0));
    }

    #[test]
    fn copies_of_others_and_ways_out_are_not_taken_for_the_layout() {
        let graph = looping();
        let plan = Plan::of(&graph, 1.0);
        let fake = Fake::default();
        // All have the lengths of the plan, but the one at 15.
        for (orig, sessions, flags, bytes) in [
            (0x00, [42, 0, 0, 0], 0, 2),
            (0x02, [42, 0, 7, 0], 0, 5),
            (0x07, [42, 7, 0, 0], 0, 2),
            (0x10, [42, 0, 0, 0], BLOCK_NATIVE, 5),
            (0x15, [42, 0, 0, 0], 0, 1),
            // It is no block of the plan.
            (0x30, [42, 0, 0, 0], 0, 2),
            (0x20, [0, 42, 0, 0], 0, 1),
        ] {
            let mut block = Block::from(0, 0);
            (block.orig, block.cache) = (AT + orig, 0xffff_ffff_c000_0000 + orig);
            (block.sessions, block.flags) = (sessions, flags);
            let parts = BlockParts {
                src: vec![0x90; bytes],
                code: vec![0x90; 3],
                segments: Vec::new(),
            };
            fake.state().blocks.push((block, parts));
        }
        let found = look(&fake, 42, &graph, &plan).unwrap();
        assert_eq!((found.blocks, found.copies.bytes), (2, 2 * 3));
    }

    #[test]
    fn what_is_found_is_counted_where_it_lies() {
        let graph = looping();
        let plan = Plan::of(&graph, 1.0);
        // The first chain, and the last with a gap in it; nothing of the one between.
        let at = 0xffff_ffff_c000_003c;
        let copies = [
            (0x00, 0, 6),
            (0x10, 6, 5),
            (0x15, 11, 6),
            (0x02, 17, 5),
            (0x07, 30, 5),
        ]
        .map(|(orig, offset, length)| {
            let copied = Copied {
                at: at + offset,
                length,
                // The last of a unit has a jump, and the next unit may lie right behind it.
                falls: orig != 0x15,
            };
            (AT + orig, copied)
        });
        let found = found(&copies.into_iter().collect(), &graph, &plan);
        assert_eq!((found.native.lines, found.native.bytes), (1, 17));
        assert_eq!((found.copies.lines, found.copies.bytes), (2, 27));
        assert_eq!((found.blocks, found.copies.pages), (5, 1));
        assert_eq!((found.taken_natively, found.taken), (19, 1 + 9 + 1 + 1));
    }
}
