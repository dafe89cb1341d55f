// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fewest counters from which the counts of all blocks, or of all ways, of a function follow.
//!
//! **Ways** (Knuth, The Art of Computer Programming, 2.3.4.1). What comes into a block is as often
//! as what goes out of it. The same holds for the outside. The ways of a spanning tree of blocks
//! and the outside need no counter: a leaf of the tree has one way without a counter, whose count
//! is what the others there leave.
//!
//! **Blocks** (Knuth and Stevenson 1973). Where blocks end and where they begin are nodes. Ways
//! connect them, and the nodes that are connected are one flow: what ends there is as often as what
//! begins there. A block leads from the flow that it begins in to the flow that it ends in. The
//! blocks of a spanning tree of flows need no counter.
//!
//! Both hold only while each call comes back, and nothing else breaks the rule. And nothing is left
//! over that would show it: all equations are used up. Where each block is counted, the counts of a
//! function that was left in its middle contradict each other, mostly. Of the fewest counters there
//! is a number for each block in any case, and it is wrong.
//!
//! Of a function that was not understood wholly nothing follows: all counters stay.

use super::{Visits, is_counted, ways_of};
use crate::graph::{EdgeKind, End, Graph};

/// Numbers of counters for a function, or of their executions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// One for each block.
    pub blocks: u64,
    /// Of these the fewest from which all others follow.
    pub fewest_blocks: u64,
    /// One for each block, and one for each conditional branch, where it falls through.
    pub ways: u64,
    /// The fewest on ways from which the counts of all ways and blocks follow.
    pub fewest_ways: u64,
}

/// How many counters a function needs.
pub fn counters(graph: &Graph) -> Counters {
    let branches = (0..graph.blocks.len()).filter(|block| is_conditional(graph, *block));
    let blocks = graph.blocks.len() as u64;
    let ways = blocks + branches.count() as u64;
    if !graph.is_whole() {
        return Counters {
            blocks,
            fewest_blocks: blocks,
            ways,
            fewest_ways: ways,
        };
    }
    let number = |lines: &Lines| lines.without_tree(|_| 0).len() as u64;
    Counters {
        blocks,
        fewest_blocks: number(&Lines::of_blocks(graph)),
        ways,
        fewest_ways: number(&Lines::of_ways(graph)),
    }
}

/// How often the counters of a function were executed, or the fewest would have been: those are
/// placed where least is executed. `blocks` are in the order of [`Graph::blocks`], `edges` in that
/// of [`Graph::edges`].
///
/// `None` where the fewest would not have told the truth, or where that is not known: the function
/// was not understood, a block was not left as often as it was entered, or the counts of its ways
/// are others, or one of them is not known.
pub fn executions(graph: &Graph, blocks: &[Visits], edges: &[Option<u64>]) -> Option<Counters> {
    if !graph.is_whole() {
        return None;
    }
    let mut into = vec![0_u64; graph.blocks.len()];
    let mut out = into.clone();
    let mut weights = Vec::new();
    let all = graph.edges.iter().zip(edges);
    for (edge, count) in all.filter(|(edge, _)| is_counted(edge.kind)) {
        let count = (*count)?;
        into[edge.to as usize] += count;
        out[edge.from as usize] += count;
        weights.push(count);
    }
    let mut entered = Vec::new();
    for (block, visits) in blocks.iter().enumerate() {
        // Nothing was executed of a block that nothing leads to, also if it would run natively.
        let times = visits.entered.unwrap_or(into[block]);
        if visits.left != Some(times) {
            return None;
        }
        entered.push(times);
    }
    // What is left of a block's executions came from the outside, or went there.
    for (from, to) in ways_of(graph).skip(weights.len()) {
        weights.push(match (from, to) {
            (None, Some(to)) => {
                entered[to].checked_sub(std::mem::replace(&mut into[to], entered[to]))?
            }
            (Some(from), _) => {
                entered[from].checked_sub(std::mem::replace(&mut out[from], entered[from]))?
            }
            (None, None) => 0,
        });
    }
    if into != entered || out != entered {
        return None;
    }
    let fallen = |block| falls(graph, block).and_then(|edge| edges[edge]);
    let not_taken: u64 = (0..blocks.len()).filter_map(fallen).sum();
    let least = |lines: &Lines, weights: &[u64]| {
        let counted = lines.without_tree(|line| weights[line]);
        counted.into_iter().map(|line| weights[line]).sum()
    };
    let executed = entered.iter().sum::<u64>();
    Some(Counters {
        blocks: executed,
        fewest_blocks: least(&Lines::of_blocks(graph), &entered),
        ways: executed + not_taken,
        fewest_ways: least(&Lines::of_ways(graph), &weights),
    })
}

/// Does a block end in a conditional branch?
fn is_conditional(graph: &Graph, block: usize) -> bool {
    match graph.blocks[block].end {
        End::Branch => true,
        End::Return | End::Leaves => !graph.successors(block).is_empty(),
        _ => false,
    }
}

/// The edge along which a block's conditional branch falls through, if it ends in one.
fn falls(graph: &Graph, block: usize) -> Option<usize> {
    let edges = graph.edges.iter();
    let begin = graph
        .edges
        .partition_point(|edge| (edge.from as usize) < block);
    let own = edges.skip(begin).take(graph.successors(block).len());
    let mut own = own.enumerate().filter(|_| is_conditional(graph, block));
    let found = own.find(|(_, edge)| edge.kind == EdgeKind::Fall);
    found.map(|(place, _)| begin + place)
}

/// What is counted, as lines between nodes: as much comes into a node as goes out of it.
struct Lines {
    nodes: usize,
    all: Vec<(usize, usize)>,
}

impl Lines {
    /// Ways between blocks and the outside.
    fn of_ways(graph: &Graph) -> Lines {
        let outside = graph.blocks.len();
        let line = |(from, to): (Option<usize>, Option<usize>)| {
            (from.unwrap_or(outside), to.unwrap_or(outside))
        };
        Lines {
            nodes: outside + 1,
            all: ways_of(graph).map(line).collect(),
        }
    }

    /// Blocks between flows: nodes `2 b` and `2 b + 1` are the end and the beginning of block `b`.
    fn of_blocks(graph: &Graph) -> Lines {
        let outside = 2 * graph.blocks.len();
        let mut flows = Parts::of(outside + 1);
        for (from, to) in ways_of(graph) {
            let end = from.map_or(outside, |block| 2 * block);
            let begin = to.map_or(outside, |block| 2 * block + 1);
            flows.join(end, begin);
        }
        let line = |block| (flows.root(2 * block + 1), flows.root(2 * block));
        Lines {
            nodes: outside + 1,
            all: (0..graph.blocks.len()).map(line).collect(),
        }
    }

    /// The lines that are not in the spanning tree with the greatest weights (Kruskal 1956).
    fn without_tree(&self, weight: impl Fn(usize) -> u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|line| std::cmp::Reverse(weight(*line)));
        let mut parts = Parts::of(self.nodes);
        order.retain(|line| !parts.join(self.all[*line].0, self.all[*line].1));
        order
    }
}

/// Nodes that are connected have the same root.
struct Parts(Vec<usize>);

impl Parts {
    fn of(nodes: usize) -> Parts {
        Parts((0..nodes).collect())
    }

    fn root(&mut self, mut node: usize) -> usize {
        while self.0[node] != node {
            self.0[node] = self.0[self.0[node]];
            node = self.0[node];
        }
        node
    }

    /// Connects two nodes. Were they not connected yet?
    fn join(&mut self, one: usize, other: usize) -> bool {
        let (one, other) = (self.root(one), self.root(other));
        self.0[one] = other;
        one != other
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Random, graph, random_graph, rank};
    use super::*;

    /// Executions of a graph, of which all came to an end: of its blocks, and of its edges.
    fn execute(graph: &Graph, random: &mut Random) -> (Vec<Visits>, Vec<Option<u64>>) {
        let mut blocks = vec![0; graph.blocks.len()];
        let mut edges = vec![0; graph.edges.len()];
        for _ in 0..10 + random.below(20) {
            let (mut met, mut gone) = (Vec::new(), Vec::new());
            let mut block = graph.entries[random.below(graph.entries.len())] as usize;
            while met.len() < 300 {
                met.push(block);
                let ways = graph.successors(block).len();
                let way = random.below(ways + usize::from(graph.blocks[block].end == End::Return));
                if way == ways {
                    break;
                }
                let begin = graph
                    .edges
                    .partition_point(|edge| (edge.from as usize) < block);
                gone.push(begin + way);
                block = graph.edges[begin + way].to as usize;
            }
            if met.len() < 300 {
                met.into_iter().for_each(|block| blocks[block] += 1);
                gone.into_iter().for_each(|edge| edges[edge] += 1);
            }
        }
        let visits = blocks.into_iter().map(Visits::whole).collect();
        (visits, edges.into_iter().map(Some).collect())
    }

    /// All counts, from those of the lines that have counters.
    fn follow(lines: &Lines, counted: &[usize], weights: &[u64]) -> Vec<u64> {
        let mut known: Vec<Option<u64>> = vec![None; lines.all.len()];
        counted
            .iter()
            .for_each(|line| known[*line] = Some(weights[*line]));
        loop {
            let open = |node: usize| {
                let at = lines.all.iter().enumerate();
                let at = at.filter(move |(_, (from, to))| (*from == node) != (*to == node));
                at.map(|(line, _)| line).collect::<Vec<_>>()
            };
            let mut any = false;
            for node in 0..lines.nodes {
                let at = open(node);
                let mut unknown = at.iter().filter(|line| known[**line].is_none());
                let (Some(only), None) = (unknown.next(), unknown.next()) else {
                    continue;
                };
                let signed = |line: &usize| {
                    let count = i128::from(known[*line].unwrap_or(0));
                    if lines.all[*line].0 == node {
                        -count
                    } else {
                        count
                    }
                };
                let sum: i128 = at.iter().map(signed).sum();
                known[*only] = Some(sum.unsigned_abs() as u64);
                any = true;
            }
            if !any {
                return known.into_iter().map(Option::unwrap).collect();
            }
        }
    }

    /// What the fewest counters say is what all of them say, in graphs that are executed.
    #[test]
    fn all_counts_follow_from_the_fewest_counters() {
        let (mut sums, mut executed) = (Counters::default(), 0);
        for seed in 1..=3_000 {
            let mut random = Random::of(seed);
            let graph = random_graph(&mut random);
            let (visits, edges) = execute(&graph, &mut random);
            let found = executions(&graph, &visits, &edges);
            let found = found.unwrap_or_else(|| panic!("seed {seed}"));
            let blocks: Vec<u64> = visits.iter().map(|visits| visits.left.unwrap()).collect();
            executed += u64::from(found.blocks > 0);
            for (lines, fewest, weights) in [
                (Lines::of_blocks(&graph), found.fewest_blocks, blocks),
                (
                    Lines::of_ways(&graph),
                    found.fewest_ways,
                    of_ways(&graph, &visits, &edges),
                ),
            ] {
                let counted = lines.without_tree(|line| weights[line]);
                assert_eq!(follow(&lines, &counted, &weights), weights, "seed {seed}");
                let least: u64 = counted.iter().map(|line| weights[*line]).sum();
                assert_eq!(least, fewest, "seed {seed}");
            }
            sums.blocks += found.blocks;
            sums.fewest_blocks += found.fewest_blocks;
        }
        assert!(
            executed > 1_000 && sums.fewest_blocks < sums.blocks,
            "{executed} {sums:?}"
        );
    }

    /// Counts of ways, by what is left of each block's executions. Two entries of one block, or two
    /// exits, do not exist.
    fn of_ways(graph: &Graph, visits: &[Visits], edges: &[Option<u64>]) -> Vec<u64> {
        let at = |block: usize, to: bool| {
            let own = graph.edges.iter().zip(edges);
            let own =
                own.filter(|(edge, _)| block == if to { edge.to } else { edge.from } as usize);
            let sum: u64 = own.map(|(_, count)| count.unwrap()).sum();
            visits[block].left.unwrap() - sum
        };
        let others = ways_of(graph).skip(graph.edges.len());
        let others = others
            .map(|(from, to)| from.map_or_else(|| at(to.unwrap(), true), |from| at(from, false)));
        edges
            .iter()
            .map(|count| count.unwrap())
            .chain(others)
            .collect()
    }

    /// No fewer would do: as many are needed as the counts have degrees of freedom.
    #[test]
    fn fewer_counters_would_not_do() {
        for seed in 1..=1_000 {
            let graph = random_graph(&mut Random::of(seed));
            let ways: Vec<_> = ways_of(&graph).collect();
            let blocks = graph.blocks.len();
            let row = |node: usize, with_blocks: bool| -> Vec<i64> {
                let side = |way: &(Option<usize>, Option<usize>)| [way.0, way.1][node % 2];
                let own = |way| i64::from(side(way) == Some(node / 2));
                let number = |block| -i64::from(block == node / 2);
                let numbers = (0..blocks).filter(|_| with_blocks).map(number);
                ways.iter().map(own).chain(numbers).collect()
            };
            let of =
                |with_blocks| rank((0..2 * blocks).map(|node| row(node, with_blocks)).collect());
            let found = counters(&graph);
            // Counts of ways and blocks that agree, and those of them without any block.
            let all = blocks + ways.len() - of(true);
            assert_eq!(found.fewest_ways, all as u64, "seed {seed}");
            let of_ways_alone = ways.len() - of(false);
            assert_eq!(
                found.fewest_blocks,
                (all - of_ways_alone) as u64,
                "seed {seed}"
            );
        }
    }

    #[test]
    fn what_breaks_the_rule_has_no_fewest_counters() {
        let ends = [End::Branch, End::Jump, End::Return];
        let mut graph = graph(&ends, &[(0, 1), (0, 2), (1, 2)]);
        graph.edges[0].kind = EdgeKind::Fall;
        let visits = [5, 2, 5].map(Visits::whole);
        let edges = [2, 3, 2].map(Some);
        let found = executions(&graph, &visits, &edges).unwrap();
        let expected = Counters {
            blocks: 12,
            fewest_blocks: 7,
            ways: 14,
            fewest_ways: 5,
        };
        assert_eq!(found, expected);
        let numbers = Counters {
            blocks: 3,
            fewest_blocks: 2,
            ways: 4,
            fewest_ways: 2,
        };
        assert_eq!(counters(&graph), numbers);
        // A block that may run natively, and was not met.
        let mut unmet = [5, 0, 5].map(Visits::whole);
        unmet[1].entered = None;
        let found = executions(&graph, &unmet, &[0, 5, 0].map(Some)).unwrap();
        assert_eq!((found.blocks, found.ways), (10, 10));
        // It did; a call did not come back; edges say something else, or nothing.
        let mut native = visits;
        native[1] = Visits {
            entered: None,
            left: Some(0),
        };
        assert_eq!(executions(&graph, &native, &edges), None);
        let mut inside = visits;
        inside[1].left = Some(1);
        assert_eq!(executions(&graph, &inside, &edges), None);
        assert_eq!(executions(&graph, &visits, &[1, 4, 1].map(Some)), None);
        assert_eq!(executions(&graph, &visits, &[Some(2), None, Some(2)]), None);
        graph.troubles = vec![(0x1000, crate::graph::Trouble::UnknownJump)];
        assert_eq!(executions(&graph, &visits, &edges), None);
        let found = counters(&graph);
        assert_eq!(
            (found.fewest_blocks, found.fewest_ways),
            (found.blocks, found.ways)
        );
    }
}
