// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often edges were executed, from how often blocks were (dissertation, chapter 7).
//!
//! What comes into a block is as much as the block's count, and so is what goes out. Where all but
//! one of the ways into or out of a block are known, the last is known, too. Ways from and to
//! other functions count as ways. Jump labels and alternatives stay as they stand: no execution
//! goes along their edges. A thread that is inside the function when counting begins or ends
//! breaks the rule, and so does an exception in the middle of a block.

use crate::graph::{EdgeKind, End, Graph};

/// A way into or out of blocks: an edge, or one to the outside.
struct Way {
    from: Option<usize>,
    to: Option<usize>,
    count: Option<u64>,
}

/// The count of each edge of a function, in the order of [`Graph::edges`]; `None` where it does
/// not follow. `blocks` are counts of the blocks, in the order of [`Graph::blocks`].
pub fn derive(graph: &Graph, blocks: &[u64]) -> Vec<Option<u64>> {
    let mut ways = ways(graph);
    let mut of = vec![(Vec::new(), Vec::new()); blocks.len()];
    for (index, way) in ways.iter().enumerate() {
        if let Some(block) = way.to.and_then(|block| of.get_mut(block)) {
            block.0.push(index);
        }
        if let Some(block) = way.from.and_then(|block| of.get_mut(block)) {
            block.1.push(index);
        }
    }
    let mut again: Vec<usize> = (0..blocks.len()).collect();
    while let Some(block) = again.pop() {
        for side in [&of[block].0, &of[block].1] {
            let mut unknown = side.iter().filter(|way| ways[**way].count.is_none());
            let (Some(last), None) = (unknown.next(), unknown.next()) else {
                continue;
            };
            let known = side.iter().filter_map(|way| ways[*way].count);
            let known = known.fold(0u64, u64::saturating_add);
            let way = &mut ways[*last];
            way.count = Some(blocks[block].saturating_sub(known));
            again.extend(way.from.into_iter().chain(way.to));
        }
    }
    ways.truncate(graph.edges.len());
    ways.into_iter().map(|way| way.count).collect()
}

/// The edges, and then the ways from and to the outside.
fn ways(graph: &Graph) -> Vec<Way> {
    let is_idle = |kind| matches!(kind, EdgeKind::Key | EdgeKind::Alternative);
    let edges = graph.edges.iter().map(|edge| Way {
        from: Some(edge.from as usize),
        to: Some(edge.to as usize),
        count: is_idle(edge.kind).then_some(0),
    });
    let entries = graph.entries.iter().map(|entry| Way {
        from: None,
        to: Some(*entry as usize),
        count: None,
    });
    let outside = |end| matches!(end, End::Return | End::Leaves | End::Unknown | End::Stop);
    let blocks = graph.blocks.iter().enumerate();
    let exits = blocks.filter(|(_, block)| outside(block.end) || block.end == End::NoReturn);
    let exits = exits.map(|(block, _)| Way {
        from: Some(block),
        to: None,
        count: None,
    });
    edges.chain(entries).chain(exits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Block, Edge};

    fn graph(ends: &[End], edges: &[(u32, u32)]) -> Graph {
        let block = |(index, end): (usize, &End)| Block {
            start: 0x1000 + 16 * index as u64,
            length: 16,
            instructions: 4,
            effects: 0,
            end: *end,
        };
        let edge = |(from, to): &(u32, u32)| Edge {
            from: *from,
            to: *to,
            kind: EdgeKind::Jump,
        };
        Graph {
            blocks: ends.iter().enumerate().map(block).collect(),
            edges: edges.iter().map(edge).collect(),
            entries: vec![0],
            ..Graph::default()
        }
    }

    /// The example of the dissertation's figure 7.2, which is Pettis and Hansen's.
    #[test]
    fn counts_of_edges_follow_from_counts_of_blocks() {
        let ends = [End::Branch, End::Jump, End::Branch, End::Return];
        // A to B and C, B to D, C to C and D.
        let edges = [(0, 1), (0, 2), (1, 3), (2, 2), (2, 3)];
        let counts = derive(&graph(&ends, &edges), &[1001, 1, 2001, 1001]);
        let expected = [1, 1000, 1, 1001, 1000].map(Some);
        assert_eq!(counts, expected);
    }

    #[test]
    fn what_does_not_follow_is_not_made_up() {
        // Two branches with the same two targets.
        let ends = [
            End::Branch,
            End::Branch,
            End::Branch,
            End::Return,
            End::Return,
        ];
        let edges = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4)];
        let counts = derive(&graph(&ends, &edges), &[10, 4, 6, 5, 5]);
        assert_eq!(counts, [Some(4), Some(6), None, None, None, None]);
    }
}
