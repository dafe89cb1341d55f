// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the structures of functions depend on each other.
//!
//! 1. A cold part that several functions may own belongs to the one that jumps there ([`settle`]).
//! 2. Where functions lead into the middle of others, these are explored from there, too. All calls
//!    are taken to come back here, but for those of functions outside the text. So these entries
//!    are found from the most code that there can be, and no later step finds more.
//! 3. A call comes back until its function turns out to have no way out. What calls such a function
//!    is explored again, and may turn out to have none either. The more functions have none, the
//!    less code is reached, and the more have none: that has one least solution, in whatever order
//!    it is found.
//! 4. In what was not reached, functions without names are found, and explored.
//!
//! So the result follows from the image alone, and not from the way to it: that is what
//! [`super::renew`] relies on. The number of rounds is bounded, for names and bytes that make no
//! sense.

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::explained::{self, Hole};
use crate::explore::{Context, Space, explore};
use crate::flow::{Target, Thunks};
use crate::graph::{Call, CallKind, Graph};
use crate::image::Image;
use crate::layout::Layout;
use crate::names;

/// Rounds of exploring again, in each step. Kernels need 5.
const ROUNDS: usize = 24;

/// The structures of units: of all of them one by one, or wherever they are kept.
pub(super) trait Graphs: Sync {
    /// That of a unit.
    fn of(&self, unit: usize) -> &Graph;
    /// A unit has another one now.
    fn set(&mut self, unit: usize, graph: Graph);
}

impl Graphs for Vec<Graph> {
    fn of(&self, unit: usize) -> &Graph {
        &self[unit]
    }

    fn set(&mut self, unit: usize, graph: Graph) {
        self[unit] = graph;
    }
}

/// What functions are explored with, but for which calls come back.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub image: &'a Image,
    pub layout: &'a Layout,
    pub thunks: &'a Thunks,
}

/// What is found.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Functions outside the text that never return.
    elsewhere: FxHashSet<u64>,
    /// All functions that never return, by their entries.
    endless: FxHashSet<u64>,
    /// Of units: where in the middle of others they lead, in order.
    leads: FxHashMap<usize, Vec<(usize, u64)>>,
    /// Of units: where others lead to in their middle, in order.
    entries: FxHashMap<usize, Vec<u64>>,
    /// Functions in which nothing returns, and which may have no way out.
    unsure: Vec<usize>,
}

impl Search {
    pub fn new(image: &Image) -> Search {
        let symbols = image.symbols.iter();
        let own = symbols.filter(|symbol| names::is_endless(&symbol.name));
        let addresses = own.map(|symbol| symbol.address);
        let elsewhere: FxHashSet<u64> = addresses
            .filter(|address| image.text(*address).is_none())
            .collect();
        Search {
            endless: elsewhere.clone(),
            elsewhere,
            ..Search::default()
        }
    }

    /// Does the function never return that begins here?
    pub fn is_endless(&self, entry: u64) -> bool {
        self.endless.contains(&entry)
    }

    /// Explores all units. Adds those of functions without names to the layout. How many rounds did
    /// it take?
    pub fn all(
        &mut self,
        image: &Image,
        layout: &mut Layout,
        thunks: &Thunks,
        tracer: Option<u64>,
    ) -> (Vec<Graph>, usize) {
        let mut graphs = vec![Graph::default(); layout.units.len()];
        let all = (0..layout.units.len()).collect();
        let mut run = |layout: &Layout, graphs: &mut Vec<Graph>, units| {
            let given = Given {
                image,
                layout,
                thunks,
            };
            let (explored, rounds) = self.enter(given, graphs, units);
            rounds + self.end(given, graphs, explored).1
        };
        let mut rounds = run(layout, &mut graphs, all);
        let nameless = nameless(image, layout, &graphs, tracer);
        if !nameless.is_empty() {
            graphs.resize(layout.units.len(), Graph::default());
            rounds += run(layout, &mut graphs, nameless);
        }
        (graphs, rounds)
    }

    /// Explores units, and those into whose middle they lead: which are they all, in order, and how
    /// many rounds did it take?
    fn enter<G: Graphs>(
        &mut self,
        given: Given<'_>,
        graphs: &mut G,
        units: Vec<usize>,
    ) -> (Vec<usize>, usize) {
        let (mut explored, mut again) = (units.clone(), units);
        for round in 1..=ROUNDS {
            self.explore(given, graphs, &again, &self.elsewhere);
            let leads = leads(given.layout, graphs, &again);
            again.iter().for_each(|unit| _ = self.leads.remove(unit));
            again.clear();
            for (unit, all) in leads {
                for (other, to) in &all {
                    let entries = self.entries.entry(*other).or_default();
                    if let Err(place) = entries.binary_search(to) {
                        entries.insert(place, *to);
                        again.push(*other);
                    }
                }
                self.leads.insert(unit, all);
            }
            if again.is_empty() {
                return (explored, round);
            }
            in_order(&mut again);
            explored.extend(&again);
            in_order(&mut explored);
        }
        (explored, ROUNDS)
    }

    /// Finds functions that never return, behind the exploration of some units with calls that come
    /// back. Which functions are new among them, by their entries, and how many rounds did it take?
    fn end<G: Graphs>(
        &mut self,
        given: Given<'_>,
        graphs: &mut G,
        mut explored: Vec<usize>,
    ) -> (FxHashSet<u64>, usize) {
        let known = &self.endless;
        let mut again = explored.clone();
        again.retain(|unit| goes_on(graphs.of(*unit), known));
        let mut found = FxHashSet::default();
        for round in 1..=ROUNDS {
            self.explore(given, graphs, &again, &self.endless);
            explored.append(&mut again);
            let ends = self.ends(given.layout, graphs, &explored);
            if ends.is_empty() {
                return (found, round);
            }
            explored.clear();
            let all = (0..given.layout.units.len()).into_par_iter();
            let all = all.filter(|unit| goes_on(graphs.of(*unit), &ends));
            again = all.collect();
            self.endless.extend(&ends);
            found.extend(ends);
        }
        (found, ROUNDS)
    }

    fn explore<G: Graphs>(
        &self,
        given: Given<'_>,
        graphs: &mut G,
        units: &[usize],
        endless: &FxHashSet<u64>,
    ) {
        let context = Context {
            image: given.image,
            layout: given.layout,
            thunks: given.thunks,
            endless,
        };
        let work = |space: &mut Space, unit: &usize| {
            let entries = self.entries.get(unit).map_or(&[][..], Vec::as_slice);
            explore(context, &given.layout.units[*unit], entries, space)
        };
        // A few are not worth waking other processors.
        let made: Vec<Graph> = match units.len() {
            0..FEW => {
                let mut space = Space::default();
                units.iter().map(|unit| work(&mut space, unit)).collect()
            }
            _ => {
                let made = units.par_iter().map_init(Space::default, work);
                made.collect()
            }
        };
        for (unit, graph) in units.iter().zip(made) {
            graphs.set(*unit, graph);
        }
    }

    /// Entries of functions that turn out to have no way out.
    fn ends<G: Graphs>(
        &mut self,
        layout: &Layout,
        graphs: &G,
        explored: &[usize],
    ) -> FxHashSet<u64> {
        let entry = |unit: usize| layout.units[unit].pieces.first().map(|piece| piece.start);
        // Of functions that were not explored now the graph is what it was.
        self.unsure.extend(explored);
        let endless = &self.endless;
        self.unsure.retain(|unit| {
            let graph = graphs.of(*unit);
            !graph.blocks.is_empty()
                && !graph.returns()
                && entry(*unit).is_some_and(|entry| !endless.contains(&entry))
        });
        in_order(&mut self.unsure);
        let mut ends = FxHashSet::default();
        // Jumps to such functions make more of them.
        loop {
            let before = ends.len();
            for unit in &self.unsure {
                let returns = |to: u64| !ends.contains(&to) && !endless.contains(&to);
                let Some(entry) = entry(*unit).filter(|entry| returns(*entry)) else {
                    continue;
                };
                if !graphs.of(*unit).has_exit(returns) {
                    ends.insert(entry);
                }
            }
            if ends.len() == before {
                return ends;
            }
        }
    }

    /// Explores units whose text has changed, as if all were explored. Which ones were explored, in
    /// order? `None` where more depends on what has changed than is known here.
    ///
    /// Entries and functions without a way out are those that the whole search would find: of the
    /// units none was without a way out, and each leads wherever it led before.
    pub fn renew<G: Graphs>(
        &mut self,
        given: Given<'_>,
        graphs: &mut G,
        units: Vec<usize>,
    ) -> Option<Vec<usize>> {
        let led = units
            .iter()
            .filter_map(|unit| self.leads.get_key_value(unit));
        let led: Vec<(usize, Vec<(usize, u64)>)> =
            led.map(|(unit, leads)| (*unit, leads.clone())).collect();
        let (mut explored, _) = self.enter(given, graphs, units);
        let is_endless = |unit: &usize| self.is_endless(given.layout.units[*unit].entry());
        if explored.iter().any(is_endless) {
            return None;
        }
        // From its own entry alone: what leads to another of its entries may follow from this lead.
        let still = |(unit, before): &(usize, Vec<(usize, u64)>)| {
            let now = self.leads.get(unit).map_or(&[][..], Vec::as_slice);
            !self.entries.contains_key(unit)
                && before.iter().all(|lead| now.binary_search(lead).is_ok())
        };
        if !led.iter().all(still) {
            return None;
        }
        let (ends, _) = self.end(given, graphs, explored.clone());
        if !ends.is_empty() {
            let all = (0..given.layout.units.len()).into_par_iter();
            let to_end =
                |call: &Call| matches!(call.target, Target::Direct(to) if ends.contains(&to));
            let all = all.filter(|unit| graphs.of(*unit).calls.iter().any(to_end));
            explored.extend(all.collect::<Vec<usize>>());
            in_order(&mut explored);
        }
        Some(explored)
    }
}

/// So many units are explored by one processor.
const FEW: usize = 16;

fn in_order(units: &mut Vec<usize>) {
    units.sort_unstable();
    units.dedup();
}

/// Is there a call, taken to come back, of one of these functions?
fn goes_on(graph: &Graph, ends: &FxHashSet<u64>) -> bool {
    let to_end = |target| matches!(target, Target::Direct(to) if ends.contains(&to));
    let mut calls = graph.calls.iter();
    calls.any(|call| call.kind == CallKind::Call && to_end(call.target))
}

/// Where units lead in the middle of others, of those that do.
fn leads<G: Graphs>(
    layout: &Layout,
    graphs: &G,
    units: &[usize],
) -> Vec<(usize, Vec<(usize, u64)>)> {
    let of = |unit: &usize| {
        let lead = |call: &Call| {
            let Target::Direct(to) = call.target else {
                return None;
            };
            let other = layout.unit(to).filter(|other| other != unit)?;
            (layout.units[other].entry() != to).then_some((other, to))
        };
        let calls = graphs.of(*unit).calls.iter();
        let mut all: Vec<(usize, u64)> = calls.filter_map(lead).collect();
        all.sort_unstable();
        all.dedup();
        (!all.is_empty()).then_some((*unit, all))
    };
    match units.len() {
        0..FEW => units.iter().filter_map(of).collect(),
        _ => units.par_iter().filter_map(of).collect(),
    }
}

/// Finds functions without a name in what was not reached. They stand behind all that the function
/// with a name reaches: what stands before some of it is a dead part of that function.
fn nameless(
    image: &Image,
    layout: &mut Layout,
    graphs: &[Graph],
    tracer: Option<u64>,
) -> Vec<usize> {
    let accounts = explained::account(image, graphs.iter());
    let holes = accounts.iter().flat_map(|account| &account.holes);
    let is_behind = |hole: &&Hole| {
        layout.unit(hole.range.start).is_some_and(|unit| {
            let piece = layout.units[unit].piece(hole.range.start);
            let end = piece.map_or(0, |piece| piece.end);
            is_last(hole, end, &graphs[unit])
        })
    };
    let holes: Vec<&Hole> = holes.filter(is_behind).collect();
    let begins = holes
        .into_iter()
        .flat_map(|hole| explained::beginnings(image, hole, tracer));
    let begins = begins.collect();
    layout.add(begins)
}

/// Does a hole stand behind all that is reached in a piece with this end?
pub(super) fn is_last(hole: &Hole, end: u64, graph: &Graph) -> bool {
    let blocks = &graph.blocks;
    let next = blocks.partition_point(|block| block.start < hole.range.end);
    blocks.get(next).is_none_or(|block| block.start >= end)
}

/// Gives cold parts that several functions may own to the one that jumps there.
pub(super) fn settle(image: &Image, layout: &mut Layout, thunks: &Thunks) {
    let endless = FxHashSet::default();
    let context = Context {
        image,
        layout,
        thunks,
        endless: &endless,
    };
    let candidates = context.layout.candidates();
    let reach = |space: &mut Space, unit: &usize| {
        let graph = explore(context, &context.layout.units[*unit], &[], space);
        let tails = graph
            .calls
            .iter()
            .filter(|call| call.kind == CallKind::Tail);
        let target = |target| match target {
            Target::Direct(to) => context.layout.unit(to),
            Target::Indirect(_) => None,
        };
        let parts = tails.filter_map(|call| target(call.target));
        parts.collect::<FxHashSet<usize>>()
    };
    let reached = candidates.par_iter().map_init(Space::default, reach);
    let reached: Vec<_> = reached.collect();
    let reached: FxHashMap<usize, FxHashSet<usize>> = candidates.into_iter().zip(reached).collect();
    let pair = |(part, owners): &(usize, Vec<usize>)| {
        let jumps = |owner: &&usize| reached.get(owner).is_some_and(|parts| parts.contains(part));
        owners.iter().find(jumps).map(|owner| (*part, *owner))
    };
    let pairs: Vec<(usize, usize)> = layout.disputed.iter().filter_map(pair).collect();
    layout.join(&pairs);
}
