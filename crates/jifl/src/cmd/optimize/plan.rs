// SPDX-License-Identifier: MIT OR Apache-2.0
//! In which order blocks are to lie.
//!
//! 1. The hot blocks are the most executed ones that together make a given share of all executed
//!    instructions. They have tiers, by smaller shares, so that what is executed all the time does
//!    not share its lines with what is executed now and then.
//! 2. Blocks become chains, bottom up (Pettis and Hansen, "Profile Guided Code Positioning", PLDI
//!    1990, 4.2): of all pairs that control went over, the most frequent first, one block comes
//!    right behind the other, if neither has got another neighbour there. Both are of one tier.
//!    Pairs may be of two functions, by a jump.
//! 3. Chains of a tier become clusters in the same way (there, 3.2): by the calls, jumps and
//!    branches from one to the other, the most frequent first, up to the size of an instruction
//!    cache.
//! 4. The tiers come one behind the other, the clusters of a tier in the order of instructions
//!    executed for each byte.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::graph::{End, Graph};
use crate::session::blocks::instructions;

/// A cluster is not made larger by joining: bytes of an instruction cache.
const CLUSTER: u64 = 32 << 10;

/// Shares of the executed instructions that the tiers of hot blocks have, from the first on.
const TIERS: [f64; 2] = [0.9, 0.99];

/// An order of blocks.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Chains of indices of [`Graph::nodes`].
    pub chains: Vec<Vec<usize>>,
    /// So many of the chains are hot, from the first on.
    pub hot: usize,
}

impl Plan {
    /// The order for a graph. hot: a share of the executed instructions.
    pub fn of(graph: &Graph, hot: f64) -> Plan {
        let tier = tiers(graph, hot);
        let mut parts = vec![Vec::new(); TIERS.len() + 2];
        for chain in chains(graph, &tier) {
            parts[tier[chain[0]]].push(chain);
        }
        let mut plan = Plan::default();
        for (number, part) in parts.into_iter().enumerate() {
            plan.chains.extend(ordered(graph, part));
            if number <= TIERS.len() {
                plan.hot = plan.chains.len();
            }
        }
        plan
    }

    /// For each block the one that lies right behind it.
    pub fn next(&self, blocks: usize) -> Vec<Option<usize>> {
        let mut next = vec![None; blocks];
        for pair in self.chains.iter().flat_map(|chain| chain.windows(2)) {
            next[pair[0]] = Some(pair[1]);
        }
        next
    }
}

/// For each block its tier: 0 is the hottest; behind the last hot one is what is cold.
fn tiers(graph: &Graph, hot: f64) -> Vec<usize> {
    let all: u64 = (graph.nodes.iter())
        .map(|node| instructions(&node.block))
        .sum();
    let mut order: Vec<usize> = (0..graph.nodes.len()).collect();
    order.sort_by_key(|index| (Reverse(graph.nodes[*index].block.executed), *index));
    let ends = TIERS.map(|share| share.min(hot)).into_iter().chain([hot]);
    let ends: Vec<f64> = ends.map(|share| share * all as f64).collect();
    let (mut tier, mut sum) = (vec![0; graph.nodes.len()], 0);
    for index in order {
        tier[index] = ends.iter().take_while(|end| sum as f64 >= **end).count();
        sum += instructions(&graph.nodes[index].block);
    }
    tier
}

/// Joins what is at the ends of rows: blocks to chains, chains to clusters.
struct Rows {
    /// By the number of a row; an empty row has gone into another.
    rows: Vec<Vec<usize>>,
    /// In which row something is.
    of: Vec<usize>,
}

impl Rows {
    fn new(number: usize) -> Rows {
        Rows {
            rows: (0..number).map(|index| vec![index]).collect(),
            of: (0..number).collect(),
        }
    }

    fn join(&mut self, first: usize, second: usize) {
        let moved = std::mem::take(&mut self.rows[second]);
        for index in &moved {
            self.of[*index] = first;
        }
        self.rows[first].extend(moved);
    }

    fn into_rows(self) -> Vec<Vec<usize>> {
        self.rows
            .into_iter()
            .filter(|row| !row.is_empty())
            .collect()
    }
}

fn chains(graph: &Graph, tier: &[usize]) -> Vec<Vec<usize>> {
    let followers = |index| {
        graph
            .followers(index)
            .map(move |(to, count)| (count, index, to))
    };
    let mut pairs: Vec<_> = (0..graph.nodes.len()).flat_map(followers).collect();
    pairs.retain(|(count, from, to)| *count > 0 && tier[*from] == tier[*to]);
    // Of pairs that are as frequent, those that lie so already.
    let distance = |from: usize, to: usize| {
        let from = &graph.nodes[from].block;
        (from.orig + u64::from(from.src_len)).abs_diff(graph.nodes[to].block.orig)
    };
    pairs.sort_by_key(|(count, from, to)| (Reverse(*count), distance(*from, *to), *from));
    let mut rows = Rows::new(graph.nodes.len());
    for (_, from, to) in pairs {
        let (first, second) = (rows.of[from], rows.of[to]);
        let ends = rows.rows[first].last() == Some(&from);
        if first != second && ends && rows.rows[second].first() == Some(&to) {
            rows.join(first, second);
        }
    }
    rows.into_rows()
}

/// The same chains in an order of their own.
fn ordered(graph: &Graph, chains: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let mut of = vec![None; graph.nodes.len()];
    for (number, chain) in chains.iter().enumerate() {
        chain.iter().for_each(|index| of[*index] = Some(number));
    }
    let sum = |chain: &Vec<usize>, value: &dyn Fn(usize) -> u64| -> u64 {
        chain.iter().map(|index| value(*index)).sum()
    };
    let bytes = |index: usize| u64::from(graph.nodes[index].block.src_len);
    let executed = |index: usize| instructions(&graph.nodes[index].block);
    let mut size: Vec<u64> = chains.iter().map(|chain| sum(chain, &bytes)).collect();
    let mut weight: Vec<u64> = chains.iter().map(|chain| sum(chain, &executed)).collect();
    let mut rows = Rows::new(chains.len());
    for (_, from, to) in transfers(graph, &of) {
        let (first, second) = (rows.of[from], rows.of[to]);
        if first != second && size[first] + size[second] <= CLUSTER {
            size[first] += size[second];
            weight[first] += weight[second];
            rows.join(first, second);
        }
    }
    let mut clusters: Vec<usize> = (0..chains.len()).collect();
    clusters.retain(|cluster| !rows.rows[*cluster].is_empty());
    let density = |cluster: usize| weight[cluster] as f64 / size[cluster].max(1) as f64;
    clusters.sort_by(|a, b| density(*b).total_cmp(&density(*a)).then(a.cmp(b)));
    let mut chains: Vec<Option<Vec<usize>>> = chains.into_iter().map(Some).collect();
    let numbers = clusters.into_iter().flat_map(|cluster| &rows.rows[cluster]);
    numbers
        .filter_map(|number| chains[*number].take())
        .collect()
}

/// How often control went from one chain to another, the most frequent first.
fn transfers(graph: &Graph, of: &[Option<usize>]) -> Vec<(u64, usize, usize)> {
    let mut all: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let callee = match node.end {
            End::Call { callee, .. } => callee.map(|to| (to, node.block.executed)),
            _ => None,
        };
        for (to, count) in graph.followers(index).chain(callee) {
            if let (Some(from), Some(to)) = (of[index], of[to])
                && from != to
            {
                *all.entry((from, to)).or_default() += count;
            }
        }
    }
    let mut all: Vec<_> = all
        .into_iter()
        .map(|((from, to), count)| (count, from, to))
        .collect();
    all.sort_by_key(|(count, from, to)| (Reverse(*count), *from, *to));
    all
}

#[cfg(test)]
mod tests {
    use super::super::graph::tests::looping;
    use super::*;

    #[test]
    fn what_is_executed_most_comes_together() {
        let graph = looping();
        let plan = Plan::of(&graph, 1.0);
        // 39 of 40 instructions are of the loop, in the order in which it runs, and of what it
        // calls; the others are what it seldom does.
        assert_eq!(plan.chains, [vec![0, 3, 4], vec![5], vec![1, 2]]);
        assert_eq!(plan.hot, 3);
        let next = plan.next(graph.nodes.len());
        let follows = |from: usize, to: Option<usize>| to.is_some() && next[from] == to;
        assert_eq!(graph.taken(follows), 1 + 9 + 1);
    }

    #[test]
    fn what_is_cold_comes_last_and_is_never_between() {
        let graph = looping();
        let plan = Plan::of(&graph, 0.9);
        assert_eq!(plan.chains[..plan.hot].concat().len(), 4);
        assert_eq!(plan.chains[plan.hot..], [vec![1, 2]]);
    }

    #[test]
    fn each_block_is_in_the_plan_once() {
        for hot in [0.0, 0.5, 0.99, 1.0] {
            let graph = looping();
            let mut all = Plan::of(&graph, hot).chains.concat();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4, 5], "{hot}");
        }
    }
}
