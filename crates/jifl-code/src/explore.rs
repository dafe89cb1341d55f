// SPDX-License-Identifier: MIT OR Apache-2.0
//! One function's blocks, edges and calls.
//!
//! Execution is followed from the function's entries on all ways that it can take ([`walk`]).
//! Each address is decoded once, so that any bytes come to an end. Then the instructions are cut
//! into blocks ([`cut`]).

mod cut;
mod walk;

use rustc_hash::FxHashSet;

use crate::flow::Thunks;
use crate::graph::Graph;
use crate::image::Image;
use crate::layout::{Layout, Unit};

use walk::Walk;

/// What all functions are explored with.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The text.
    pub image: &'a Image,
    /// Whose it is.
    pub layout: &'a Layout,
    /// What branches to thunks are.
    pub thunks: &'a Thunks,
    /// The entries of functions that never return.
    pub endless: &'a FxHashSet<u64>,
}

/// The structure of one function.
///
/// `entries` are places in it that others jump to. `space` is used again for the next function.
pub fn explore(context: Context<'_>, unit: &Unit, entries: &[u64], space: &mut Space) -> Graph {
    if unit.pieces.is_empty() {
        return Graph::default();
    }
    let mut walk = Walk::new(context, unit, &mut space.walk);
    walk.from(unit.entry());
    for entry in entries.iter().filter(|entry| unit.holds(**entry)) {
        walk.from(*entry);
    }
    walk.run();
    let troubles = walk.troubles();
    let mut graph = cut::cut(context, &mut space.walk, &mut space.effects, &mut space.cut);
    graph.troubles = troubles;
    let entries = entries.iter().copied().chain([unit.entry()]);
    let entry = |at: u64| {
        let block = graph.blocks.binary_search_by_key(&at, |block| block.start);
        block.ok().and_then(|block| u32::try_from(block).ok())
    };
    let mut entries: Vec<u32> = entries.filter_map(entry).collect();
    entries.sort_unstable();
    entries.dedup();
    graph.entries = entries;
    graph
}

/// Memory that is used again from function to function.
#[derive(Default)]
pub struct Space {
    walk: walk::Space,
    cut: cut::Cut,
    effects: crate::effect::Effects,
}
