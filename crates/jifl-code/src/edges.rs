// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often edges were executed, from how often blocks were (dissertation, chapter 7).
//!
//! **The rule.** What comes into a block is as often as the block was entered, and what goes out
//! is as often as the block was left. Ways from and to other functions count as ways. The two
//! numbers of a block differ where calls in it do not come back.
//!
//! **What follows.** Each block is two nodes of a graph: one where ways go out, one where ways come
//! in. Each way connects an out node with an in node. One more node is the outside. It stands also
//! for each node whose number is not known.
//!
//! 1. A way follows if it is a *bridge*: without it the graph falls apart there. On the side that
//!    is not the outside each node has a known number, and each other way of the side goes from
//!    one of its nodes to another. So the numbers of its out nodes, less those of its in nodes, are
//!    the way's count, or the way's count negated.
//! 2. No other way follows from the equations. It lies on a cycle. Add one to the counts of the
//!    cycle's ways and subtract one, in turns: each node keeps its number. A cycle that does not
//!    meet the outside has an even length, since ways lead from out nodes to in nodes. Nothing is
//!    asked of the outside.
//! 3. Counts are not negative. Where the rest of a node's number is 0, all its ways that are left
//!    are 0. That may make bridges of others, so both are done until nothing changes.
//!
//! The dissertation's rule, that of all ways into or out of a block all but one are known, finds a
//! part of the bridges: those at the ends of trees.
//!
//! **What breaks the rule.** A thread is inside the function when counting begins or ends. A fault
//! leaves a block in its middle. Code runs natively, and is not counted. Then equations contradict
//! each other, mostly, and nothing is derived of the function ([`Contradiction`]). Blocks that may
//! run natively are given as not known ([`Visits`]).
//!
//! **Edges that nothing goes along.** Jump labels and alternatives stay as they stand: their edges
//! are 0. A fixup runs natively: what comes from its edge is not counted. So an edge of an
//! exception is 0 in the equations, and never said to follow.

mod counters;

use crate::graph::{EdgeKind, End, Graph};

pub use self::counters::{Counters, counters, executions};

/// How often a block was entered, and how often it was left; `None` where that is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Visits {
    /// Executions of its first instruction.
    pub entered: Option<u64>,
    /// Executions of its last instruction.
    pub left: Option<u64>,
}

impl Visits {
    /// Of a block that is left as often as it is entered.
    pub fn whole(executed: u64) -> Visits {
        Visits {
            entered: Some(executed),
            left: Some(executed),
        }
    }
}

/// The counts of blocks are not of executions that keep to the rule: a place in
/// [`Graph::blocks`] where that shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contradiction {
    /// The block.
    pub block: usize,
}

/// The count of each edge of a function, in the order of [`Graph::edges`]; `None` where it does
/// not follow. `blocks` are in the order of [`Graph::blocks`]. Nothing follows where the function
/// was not understood.
///
/// # Errors
/// The counts contradict each other.
pub fn derive(graph: &Graph, blocks: &[Visits]) -> Result<Vec<Option<u64>>, Contradiction> {
    if !graph.is_whole() || blocks.len() != graph.blocks.len() {
        return Ok(vec![None; graph.edges.len()]);
    }
    let mut equations = Equations::of(graph, blocks);
    while equations.zeros() | equations.bridges()? {}
    equations.check()?;
    Ok(equations.answer(graph))
}

/// Which edges follow whatever the counts are, in the order of [`Graph::edges`].
pub fn follow(graph: &Graph) -> Vec<bool> {
    if !graph.is_whole() {
        return vec![false; graph.edges.len()];
    }
    let blocks = vec![Visits::whole(0); graph.blocks.len()];
    let mut equations = Equations::of(graph, &blocks);
    // All numbers are 0, and do not contradict each other.
    let _ = equations.bridges();
    let answer = equations.answer(graph);
    answer.iter().map(Option::is_some).collect()
}

/// Does execution go along such edges, and is it counted where they lead?
fn is_counted(kind: EdgeKind) -> bool {
    !matches!(
        kind,
        EdgeKind::Key | EdgeKind::Alternative | EdgeKind::Exception
    )
}

/// Ways of execution from block to block; `None` is the outside. First the edges, then the others.
fn ways_of(graph: &Graph) -> impl Iterator<Item = (Option<usize>, Option<usize>)> {
    let edges = graph.edges.iter().filter(|edge| is_counted(edge.kind));
    let edges = edges.map(|edge| (Some(edge.from as usize), Some(edge.to as usize)));
    let entries = graph.entries.iter();
    let entries = entries.map(|entry| (None, Some(*entry as usize)));
    let leads_out = |end| !matches!(end, End::Fall | End::Branch | End::Jump);
    let blocks = graph.blocks.iter().enumerate();
    let exits = blocks.filter(move |(_, block)| leads_out(block.end));
    edges
        .chain(entries)
        .chain(exits.map(|(block, _)| (Some(block), None)))
}

/// A way: its out node and its in node, and its count once it is known.
struct Way {
    ends: [usize; 2],
    count: Option<u64>,
}

/// The equations: nodes `2 b` and `2 b + 1` are where ways go out of block `b`, and come in.
struct Equations {
    ways: Vec<Way>,
    /// Ways at each node. The last node is the outside.
    at: Vec<Vec<usize>>,
    /// Of each node: its number, less the counts of its ways that are known.
    rest: Vec<i128>,
}

impl Equations {
    fn of(graph: &Graph, blocks: &[Visits]) -> Equations {
        let outside = 2 * blocks.len();
        let numbers = blocks.iter().flat_map(|block| [block.left, block.entered]);
        let numbers: Vec<Option<u64>> = numbers.collect();
        let node = |block: Option<usize>, side: usize| {
            let node = block.map(|block| 2 * block + side);
            node.filter(|node| numbers[*node].is_some())
                .unwrap_or(outside)
        };
        let ways = ways_of(graph).map(|(from, to)| Way {
            ends: [node(from, 0), node(to, 1)],
            count: None,
        });
        let ways: Vec<Way> = ways.collect();
        let mut at = vec![Vec::new(); outside + 1];
        for (index, way) in ways.iter().enumerate() {
            at[way.ends[0]].push(index);
            if way.ends[1] != way.ends[0] {
                at[way.ends[1]].push(index);
            }
        }
        let known = numbers.iter().map(|number| number.unwrap_or(0).into());
        Equations {
            ways,
            at,
            rest: known.chain([0]).collect(),
        }
    }

    fn outside(&self) -> usize {
        self.at.len() - 1
    }

    fn open(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let all = self.at[node].iter().copied();
        all.filter(|way| self.ways[*way].count.is_none())
    }

    fn set(&mut self, way: usize, count: u64) {
        self.ways[way].count = Some(count);
        for end in self.ways[way].ends {
            self.rest[end] -= i128::from(count);
        }
    }

    /// Ways at a node of which nothing is left are 0. Was there any?
    fn zeros(&mut self) -> bool {
        let mut any = false;
        for node in 0..self.outside() {
            if self.rest[node] == 0 {
                let open: Vec<usize> = self.open(node).collect();
                any |= !open.is_empty();
                open.into_iter().for_each(|way| self.set(way, 0));
            }
        }
        any
    }

    /// Gives bridges their counts. Was there any? A search from the outside, and then from what it
    /// does not reach, finds them (Tarjan 1974).
    fn bridges(&mut self) -> Result<bool, Contradiction> {
        let mut found = Vec::new();
        let mut search = Search::new(self);
        for root in (0..self.at.len()).rev() {
            if search.number[root] == 0 {
                found.extend(search.from(root)?);
            }
        }
        for (way, count) in &found {
            let count = u64::try_from(*count);
            let count = count.map_err(|_| self.contradiction(self.ways[*way].ends))?;
            self.set(*way, count);
        }
        Ok(!found.is_empty())
    }

    /// At one of two nodes that is not the outside.
    fn contradiction(&self, nodes: [usize; 2]) -> Contradiction {
        Contradiction {
            block: nodes[0].min(nodes[1]) / 2,
        }
    }

    /// Does each node have its number, as far as its ways are known?
    fn check(&self) -> Result<(), Contradiction> {
        let is_wrong = |node: &usize| {
            let rest = self.rest[*node];
            rest < 0 || rest > 0 && self.open(*node).next().is_none()
        };
        match (0..self.outside()).find(is_wrong) {
            Some(node) => Err(self.contradiction([node, node])),
            None => Ok(()),
        }
    }

    fn answer(&self, graph: &Graph) -> Vec<Option<u64>> {
        let mut counts = self.ways.iter().map(|way| way.count);
        let answer = graph.edges.iter().map(|edge| match edge.kind {
            EdgeKind::Key | EdgeKind::Alternative => Some(0),
            EdgeKind::Exception => None,
            _ => counts.next().flatten(),
        });
        answer.collect()
    }
}

/// Searches for bridges, depth first.
struct Search<'a> {
    equations: &'a Equations,
    /// The order in which nodes are met, from 1 on.
    number: Vec<usize>,
    /// The least number that is met from a node, other than along the way to it.
    low: Vec<usize>,
    /// The way along which a node is met.
    by: Vec<Option<usize>>,
    /// Which of its ways is next.
    next: Vec<usize>,
    /// Numbers of out nodes less those of in nodes, from a node on.
    sum: Vec<i128>,
    met: usize,
}

impl<'a> Search<'a> {
    fn new(equations: &'a Equations) -> Search<'a> {
        let nodes = equations.at.len();
        let signed = equations.rest.iter().enumerate();
        let signed = signed.map(|(node, rest)| if node % 2 == 0 { *rest } else { -rest });
        Search {
            equations,
            number: vec![0; nodes],
            low: vec![0; nodes],
            by: vec![None; nodes],
            next: vec![0; nodes],
            sum: signed.collect(),
            met: 0,
        }
    }

    fn meet(&mut self, node: usize, by: Option<usize>) {
        self.met += 1;
        (self.number[node], self.low[node], self.by[node]) = (self.met, self.met, by);
    }

    /// The bridges that are reached from a node, with their counts.
    fn from(&mut self, root: usize) -> Result<Vec<(usize, i128)>, Contradiction> {
        let equations = self.equations;
        let mut found = Vec::new();
        let mut stack = vec![root];
        self.meet(root, None);
        while let Some(node) = stack.last().copied() {
            if let Some(way) = equations.at[node].get(self.next[node]).copied() {
                self.next[node] += 1;
                let own = &equations.ways[way];
                if own.count.is_some() || self.by[node] == Some(way) {
                    continue;
                }
                let other = own.ends[usize::from(own.ends[0] == node)];
                if self.number[other] == 0 {
                    self.meet(other, Some(way));
                    stack.push(other);
                }
                self.low[node] = self.low[node].min(self.number[other]);
                continue;
            }
            stack.pop();
            let Some(before) = stack.last().copied() else {
                break;
            };
            self.low[before] = self.low[before].min(self.low[node]);
            self.sum[before] += self.sum[node];
            if let Some(way) = self.by[node].filter(|_| self.low[node] > self.number[before]) {
                let goes_out = equations.ways[way].ends[0] == node;
                let sum = self.sum[node];
                found.push((way, if goes_out { sum } else { -sum }));
            }
        }
        if root != equations.outside() && self.sum[root] != 0 {
            return Err(Contradiction { block: root / 2 });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
