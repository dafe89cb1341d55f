// SPDX-License-Identifier: MIT OR Apache-2.0
//! Edges of graphs by hand, and of random ones that are executed.

use super::*;
use crate::graph::{Block, Edge};

pub fn graph(ends: &[End], edges: &[(u32, u32)]) -> Graph {
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

fn whole(counts: &[u64]) -> Vec<Visits> {
    counts.iter().map(|count| Visits::whole(*count)).collect()
}

/// The example of the dissertation's figure 7.2, which is Pettis and Hansen's.
#[test]
fn counts_of_edges_follow_from_counts_of_blocks() {
    let ends = [End::Branch, End::Jump, End::Branch, End::Return];
    // A to B and C, B to D, C to C and D.
    let edges = [(0, 1), (0, 2), (1, 3), (2, 2), (2, 3)];
    let graph = graph(&ends, &edges);
    let counts = derive(&graph, &whole(&[1001, 1, 2001, 1001]));
    assert_eq!(counts.unwrap(), [1, 1000, 1, 1001, 1000].map(Some));
    assert_eq!(follow(&graph), [true; 5]);
    // Four blocks, two branches; seven ways, less five nodes, and one. All that begins in B, C and D
    // has ended in A, B or C: two flows, and the outside's is one of them.
    let expected = Counters {
        blocks: 4,
        fewest_blocks: 3,
        ways: 6,
        fewest_ways: 3,
    };
    assert_eq!(counters(&graph), expected);
}

/// Two branches with the same two targets.
fn crossed() -> Graph {
    let ends = [
        End::Branch,
        End::Branch,
        End::Branch,
        End::Return,
        End::Return,
    ];
    graph(&ends, &[(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4)])
}

#[test]
fn what_does_not_follow_is_not_made_up() {
    let counts = derive(&crossed(), &whole(&[10, 4, 6, 5, 5])).unwrap();
    assert_eq!(counts, [Some(4), Some(6), None, None, None, None]);
    assert_eq!(follow(&crossed()), [true, true, false, false, false, false]);
}

#[test]
fn blocks_that_never_ran_make_others_follow() {
    let counts = derive(&crossed(), &whole(&[10, 4, 6, 10, 0])).unwrap();
    assert_eq!(counts, [4, 6, 4, 0, 6, 0].map(Some));
}

/// What the dissertation's rule does not find: the only way between two cycles.
#[test]
fn a_bridge_between_cycles_follows() {
    let one = End::Branch;
    let ends = [one, one, one, one, one, one, End::Return, End::Return];
    // Crossed branches 0, 1 to 2, 3, with an entry at both; 2 may go on to 4; 4, 5 crossed to 6, 7.
    let edges = [
        (0, 2),
        (0, 3),
        (1, 2),
        (1, 3),
        (2, 4),
        (2, 5),
        (3, 5),
        (4, 6),
        (4, 7),
        (5, 6),
        (5, 7),
    ];
    let mut graph = graph(&ends, &edges);
    graph.blocks[3].end = End::Jump;
    graph.entries = vec![0, 1];
    let follows = follow(&graph);
    assert_eq!(
        follows,
        [
            false, false, false, false, true, true, true, false, false, false, false
        ]
    );
}

#[test]
fn counts_that_break_the_rule_are_told() {
    let graph = graph(
        &[End::Branch, End::Jump, End::Return],
        &[(0, 1), (0, 2), (1, 2)],
    );
    assert_eq!(
        derive(&graph, &whole(&[5, 2, 5])).unwrap(),
        [2, 3, 2].map(Some)
    );
    // More come out than went in; less than nothing is left.
    assert!(derive(&graph, &whole(&[5, 2, 6])).is_err());
    assert!(derive(&graph, &whole(&[5, 6, 5])).is_err());
    // The middle block may run natively: then what comes back from it is not counted.
    let mut visits = whole(&[5, 0, 3]);
    visits[1] = Visits {
        entered: None,
        left: Some(0),
    };
    assert_eq!(derive(&graph, &visits).unwrap(), [2, 3, 0].map(Some));
}

#[test]
fn nothing_is_said_of_faults_and_little_of_keys() {
    let mut graph = graph(&[End::Fall, End::Return, End::Return], &[(0, 1), (0, 2)]);
    graph.edges[1].kind = EdgeKind::Exception;
    assert_eq!(derive(&graph, &whole(&[5, 5, 0])).unwrap(), [Some(5), None]);
    graph.edges[1].kind = EdgeKind::Key;
    assert_eq!(
        derive(&graph, &whole(&[5, 5, 0])).unwrap(),
        [Some(5), Some(0)]
    );
    graph.troubles = vec![(0x1000, crate::graph::Trouble::UnknownJump)];
    assert_eq!(derive(&graph, &whole(&[5, 5, 0])).unwrap(), [None, None]);
    assert_eq!(follow(&graph), [false, false]);
}

/// xorshift (Marsaglia 2003).
pub struct Random(u64);

impl Random {
    /// Seeds that follow each other begin alike: the first draws are left out.
    pub fn of(seed: u64) -> Random {
        let mut random = Random(seed);
        (0..8).for_each(|_| _ = random.below(2));
        random
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

pub fn random_graph(random: &mut Random) -> Graph {
    let blocks = 1 + random.below(12);
    let mut ends = Vec::new();
    let mut edges = Vec::new();
    for block in 0..blocks {
        let kind = random.below(8);
        let ways = match kind {
            0 => 0,
            1..3 => 1,
            3..7 => 2,
            _ => 3,
        };
        ends.push([End::Return, End::Jump, End::Branch, End::Jump][ways]);
        for _ in 0..ways {
            edges.push((block as u32, random.below(blocks) as u32));
        }
    }
    edges.sort_unstable();
    let mut graph = graph(&ends, &edges);
    if random.below(4) == 0 {
        graph.entries.push(random.below(blocks) as u32);
        graph.entries.sort_unstable();
        graph.entries.dedup();
    }
    graph
}

/// Executes a graph: counts of its blocks and of its edges. Blocks of `native` are not counted, nor
/// is what comes behind them. A call in the middle of a block may not come back.
fn execute(graph: &Graph, native: &[bool], random: &mut Random) -> (Vec<Visits>, Vec<u64>) {
    let mut visits: Vec<Visits> = native
        .iter()
        .map(|native| Visits {
            entered: (!native).then_some(0),
            left: Some(0),
        })
        .collect();
    let mut edges = vec![0; graph.edges.len()];
    for _ in 0..random.below(20) {
        let mut block = graph.entries[random.below(graph.entries.len())] as usize;
        // A walk that does not end is cut where calls do not come back.
        for step in 0.. {
            if native[block] {
                break;
            }
            *visits[block].entered.as_mut().unwrap() += 1;
            if step > 200 || random.below(50) == 0 {
                break;
            }
            *visits[block].left.as_mut().unwrap() += 1;
            let begin = graph
                .edges
                .partition_point(|edge| (edge.from as usize) < block);
            let ways = graph.successors(block).len();
            if ways == 0 {
                break;
            }
            let way = begin + random.below(ways);
            edges[way] += 1;
            block = graph.edges[way].to as usize;
        }
    }
    (visits, edges)
}

/// Derived counts are those that were counted, in 20,000 graphs; and most are derived.
#[test]
fn what_follows_is_never_wrong() {
    let (mut derived, mut all) = (0, 0);
    for seed in 1..=20_000 {
        let mut random = Random::of(seed);
        let graph = random_graph(&mut random);
        let native: Vec<bool> = graph.blocks.iter().map(|_| random.below(20) == 0).collect();
        let (visits, counted) = execute(&graph, &native, &mut random);
        let found = derive(&graph, &visits);
        let found = found.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong:?}"));
        for (index, (found, counted)) in found.iter().zip(&counted).enumerate() {
            all += 1;
            derived += u64::from(found.is_some());
            let right = found.is_none_or(|found| found == *counted);
            assert!(right, "seed {seed}, edge {index}: {found:?}, not {counted}");
        }
    }
    println!("{derived} of {all} edges derived");
    assert!(derived * 2 > all, "{derived} of {all}");
}

/// Eliminates unknowns from equations, modulo a prime that no sum of these few equations reaches.
/// How many equations say something that the others do not?
fn eliminate(rows: &mut [Vec<i64>]) -> usize {
    const PRIME: i64 = 1_000_003;
    let mut done = 0;
    for column in 0..rows.first().map_or(0, Vec::len) {
        let Some(pivot) = (done..rows.len()).find(|row| rows[*row][column] != 0) else {
            continue;
        };
        rows.swap(done, pivot);
        // Fermat: the power of two less than the prime is the inverse.
        let (mut by, mut power, mut base) = (1, PRIME - 2, rows[done][column]);
        while power > 0 {
            by = if power & 1 == 1 {
                by * base % PRIME
            } else {
                by
            };
            (base, power) = (base * base % PRIME, power >> 1);
        }
        rows[done]
            .iter_mut()
            .for_each(|cell| *cell = *cell * by % PRIME);
        let own = rows[done].clone();
        for (index, row) in rows.iter_mut().enumerate() {
            let by = row[column];
            if index != done && by != 0 {
                for (cell, own) in row.iter_mut().zip(&own) {
                    *cell = (*cell - by * own % PRIME + PRIME) % PRIME;
                }
            }
        }
        done += 1;
    }
    done
}

/// The rank of equations.
pub fn rank(mut rows: Vec<Vec<i64>>) -> usize {
    eliminate(&mut rows)
}

/// Does an edge follow from the equations?
fn by_elimination(graph: &Graph) -> Vec<bool> {
    let ways: Vec<_> = ways_of(graph).collect();
    let nodes = 2 * graph.blocks.len();
    let row = |node: usize| -> Vec<i64> {
        let side = |way: &(Option<usize>, Option<usize>)| [way.0, way.1][node % 2];
        let own = |way| i64::from(side(way) == Some(node / 2));
        ways.iter().map(own).collect()
    };
    let mut rows: Vec<Vec<i64>> = (0..nodes).map(row).collect();
    eliminate(&mut rows);
    // It follows if a row is about it alone.
    let alone = |way: usize| {
        rows.iter().any(|row| {
            let filled = row.iter().filter(|cell| **cell != 0).count();
            filled == 1 && row[way] != 0
        })
    };
    (0..graph.edges.len()).map(alone).collect()
}

#[test]
fn all_that_follows_from_the_equations_is_found() {
    for seed in 1..=2_000 {
        let mut random = Random::of(seed);
        let graph = random_graph(&mut random);
        assert_eq!(follow(&graph), by_elimination(&graph), "seed {seed}");
    }
}
