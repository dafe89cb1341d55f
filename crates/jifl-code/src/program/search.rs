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

use crate::explained;
use crate::explore::{Context, Space, explore};
use crate::flow::{Target, Thunks};
use crate::graph::{Call, CallKind, Graph};
use crate::image::Image;
use crate::layout::{Layout, Unit};
use crate::names;

/// Rounds of exploring again, in each step. Kernels need 5.
const ROUNDS: usize = 24;

/// The structures of units: of all of them one by one, or wherever they are kept.
pub(super) trait Graphs: Sync {
    /// That of a unit.
    fn of(&self, unit: usize) -> &Graph;
    /// A unit has another one now.
    fn set(&mut self, unit: usize, graph: Graph);
    /// Units have others now.
    fn set_all(&mut self, units: &[usize], graphs: Vec<Graph>) {
        for (unit, graph) in units.iter().zip(graphs) {
            self.set(*unit, graph);
        }
    }
}

impl Graphs for Vec<Graph> {
    fn of(&self, unit: usize) -> &Graph {
        &self[unit]
    }

    fn set(&mut self, unit: usize, graph: Graph) {
        self[unit] = graph;
    }

    fn set_all(&mut self, units: &[usize], graphs: Vec<Graph>) {
        // All of them are no copy.
        if self.is_empty() {
            *self = graphs;
            return;
        }
        for (unit, graph) in units.iter().zip(graphs) {
            self[*unit] = graph;
        }
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
    unsure: FxHashSet<usize>,
    /// Functions without names, and those of whose pieces they were cut: they were explored with
    /// other pieces than they have now.
    cut: FxHashSet<usize>,
    /// The rounds were too few.
    is_cut_short: bool,
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
        let mut graphs = Vec::new();
        let all = (0..layout.units.len()).collect();
        let mut run = |layout: &Layout, graphs: &mut Vec<Graph>, units| {
            let given = Given {
                image,
                layout,
                thunks,
            };
            let (explored, rounds) = self.enter(given, graphs, units);
            rounds + self.end(given, graphs, explored)
        };
        let mut rounds = run(layout, &mut graphs, all);
        let begins = nameless(image, layout, &graphs, tracer);
        if !begins.is_empty() {
            let parents = begins.iter().filter_map(|begin| layout.unit(*begin));
            let mut cut: FxHashSet<usize> = parents.collect();
            let nameless = layout.add(begins);
            cut.extend(&nameless);
            graphs.resize(layout.units.len(), Graph::default());
            rounds += run(layout, &mut graphs, nameless);
            self.cut = cut;
        }
        (graphs, rounds)
    }

    /// Explores units, and those into whose middle they lead: which are they all, in order, and how
    /// many rounds did it take?
    fn enter(
        &mut self,
        given: Given<'_>,
        graphs: &mut Vec<Graph>,
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
        self.is_cut_short = true;
        (explored, ROUNDS)
    }

    /// Finds functions that never return, behind the exploration of units with calls that come
    /// back. How many rounds did it take?
    fn end(
        &mut self,
        given: Given<'_>,
        graphs: &mut Vec<Graph>,
        mut explored: Vec<usize>,
    ) -> usize {
        let known = &self.endless;
        let mut again = explored.clone();
        again.retain(|unit| goes_on(graphs.of(*unit), known));
        for round in 1..=ROUNDS {
            self.explore(given, graphs, &again, &self.endless);
            explored.append(&mut again);
            let ends = self.ends(given.layout, graphs, &explored);
            if ends.is_empty() {
                return round;
            }
            explored.clear();
            let all = (0..given.layout.units.len()).into_par_iter();
            let all = all.filter(|unit| goes_on(graphs.of(*unit), &ends));
            again = all.collect();
            self.endless.extend(ends);
        }
        self.is_cut_short = true;
        ROUNDS
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
        graphs.set_all(units, made);
    }

    /// Entries of functions that turn out to have no way out, behind the exploration of some units.
    fn ends(&mut self, layout: &Layout, graphs: &Vec<Graph>, explored: &[usize]) -> FxHashSet<u64> {
        let entry = |unit: usize| layout.units[unit].pieces.first().map(|piece| piece.start);
        let endless = &self.endless;
        let is_unsure = |unit: &&usize| {
            let graph = graphs.of(**unit);
            !graph.blocks.is_empty()
                && !graph.returns()
                && entry(**unit).is_some_and(|entry| !endless.contains(&entry))
        };
        explored
            .iter()
            .for_each(|unit| _ = self.unsure.remove(unit));
        let fresh: Vec<usize> = explored.iter().filter(is_unsure).copied().collect();
        self.unsure.extend(&fresh);
        let mut ends = FxHashSet::default();
        let add = |unit: usize, ends: &mut FxHashSet<u64>| {
            let returns = |to: u64| !ends.contains(&to) && !endless.contains(&to);
            let own = entry(unit).filter(|entry| returns(*entry));
            if own.is_some() && !graphs.of(unit).has_exit(returns) {
                ends.extend(own);
            }
        };
        // Of functions that were not explored now the graph is what it was: the first ones are
        // among those that were.
        fresh.iter().for_each(|unit| add(*unit, &mut ends));
        // Jumps to such functions make more of them.
        let mut before = 0;
        while ends.len() > before {
            before = ends.len();
            self.unsure.iter().for_each(|unit| add(*unit, &mut ends));
        }
        ends
    }

    /// Explores units whose text has changed. `false` where more than their graphs may depend on
    /// the change, or they on more than their text.
    pub fn renew<G: Graphs>(&self, given: Given<'_>, graphs: &mut G, units: &[usize]) -> bool {
        let entry = |unit: usize| given.layout.units[unit].entry();
        let stands_alone = |unit: &usize| {
            !self.entries.contains_key(unit)
                && !self.cut.contains(unit)
                && !self.is_endless(entry(*unit))
        };
        if self.is_cut_short || !units.iter().all(stands_alone) {
            return false;
        }
        self.explore(given, graphs, units, &self.elsewhere);
        let mut now = leads(given.layout, graphs, units).into_iter().peekable();
        let is_led_as_before = |unit: &usize| {
            let now = now.next_if(|(of, _)| of == unit);
            now.as_ref().map(|(_, leads)| leads) == self.leads.get(unit)
        };
        if !units.iter().all(is_led_as_before) {
            return false;
        }
        let again = units.iter().copied();
        let again: Vec<usize> = again
            .filter(|unit| goes_on(graphs.of(*unit), &self.endless))
            .collect();
        self.explore(given, graphs, &again, &self.endless);
        let is_settled = |unit: &usize| {
            let graph = graphs.of(*unit);
            let is_nameless = |call: &Call| match call.target {
                Target::Direct(to) => {
                    let to = given.layout.unit(to);
                    to.is_some_and(|to| given.layout.units[to].symbol.is_none())
                }
                Target::Indirect(_) => false,
            };
            let returns = |to: u64| !self.endless.contains(&to);
            let may_end = !graph.blocks.is_empty() && !graph.has_exit(returns);
            !may_end && !graph.calls.iter().any(is_nameless)
        };
        units.iter().all(is_settled)
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

/// Where functions without a name begin in what was not reached.
fn nameless(image: &Image, layout: &Layout, graphs: &[Graph], tracer: Option<u64>) -> Vec<u64> {
    let units = layout.units.par_iter().zip(graphs);
    let begins = units.flat_map_iter(|(unit, graph)| beginnings(image, unit, graph, tracer));
    begins.collect()
}

/// Where functions without a name begin in what a unit does not reach. They stand behind all that
/// it reaches: what stands before some of it is a dead part of it.
pub(super) fn beginnings(
    image: &Image,
    unit: &Unit,
    graph: &Graph,
    tracer: Option<u64>,
) -> Vec<u64> {
    let mut begins = Vec::new();
    for piece in &unit.pieces {
        let Some(text) = image.text(piece.start) else {
            continue;
        };
        let account = explained::account_of(&image.texts[text], piece, graph);
        for hole in &account.holes {
            let blocks = &graph.blocks;
            let next = blocks.partition_point(|block| block.start < hole.range.end);
            if blocks
                .get(next)
                .is_none_or(|block| block.start >= piece.end)
            {
                begins.extend(explained::beginnings(image, hole, tracer));
            }
        }
    }
    begins
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
    let candidates = &context.layout.candidates;
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
    let reached: FxHashMap<usize, FxHashSet<usize>> =
        candidates.iter().copied().zip(reached).collect();
    let pair = |(part, owners): &(usize, Vec<usize>)| {
        let jumps = |owner: &&usize| reached.get(owner).is_some_and(|parts| parts.contains(part));
        owners.iter().find(jumps).map(|owner| (*part, *owner))
    };
    let pairs: Vec<(usize, usize)> = layout.disputed.iter().filter_map(pair).collect();
    layout.join(&pairs);
}
