// SPDX-License-Identifier: MIT OR Apache-2.0
//! All functions of an image.
//!
//! A call is taken to come back until its function turns out to have no way out. What calls such
//! a function is then explored again, and may turn out to have none either. Where functions jump
//! into the middle of others, these are explored from there, too. Both only ever grow, and the
//! number of rounds is bounded, so that names and bytes that make no sense come to an end.

use std::borrow::Cow;

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::explained::{self, Account, Hole};
use crate::explore::{Context, Space, explore};
use crate::flow::{self, Target, Thunks};
use crate::graph::{CallKind, Graph};
use crate::image::Image;
use crate::layout::{Layout, Unit};
use crate::names;

/// Rounds of exploring again. Kernels need 5.
const ROUNDS: usize = 24;

/// A function.
#[derive(Debug, Clone)]
pub struct Function {
    /// Its name, where its pieces stand, and whose it is.
    pub unit: Unit,
    /// Its structure.
    pub graph: Graph,
    /// It never returns.
    pub is_endless: bool,
}

/// All functions.
#[derive(Debug, Default)]
pub struct Program {
    /// What was analysed.
    pub image: Image,
    /// In the order of their entries.
    pub functions: Vec<Function>,
    /// Rounds that it took.
    pub rounds: usize,
    by_entry: FxHashMap<u64, usize>,
    layout: Layout,
    owners: Vec<Option<usize>>,
    /// The function that is called for tracers at the beginning of others.
    tracer: Option<u64>,
}

impl Program {
    /// Analyses an image, with all processors of this machine.
    pub fn of(image: Image) -> Program {
        let thunks = Thunks::of(&image);
        let mut layout = Layout::of(&image);
        settle(&image, &mut layout, &thunks);
        let mut search = Search {
            endless: elsewhere(&image),
            entries: FxHashMap::default(),
            graphs: Vec::new(),
            unsure: Vec::new(),
        };
        let all = (0..layout.units.len()).collect();
        let mut rounds = search.run(&image, &layout, &thunks, all);
        let mut symbols = image.symbols.iter();
        let tracer = symbols.find(|symbol| symbol.name == "__fentry__");
        let tracer = tracer.map(|symbol| symbol.address);
        let nameless = search.nameless(&image, &mut layout, tracer);
        if !nameless.is_empty() {
            rounds += search.run(&image, &layout, &thunks, nameless);
        }
        let mut owners = vec![None; layout.units.len()];
        let mut functions = Vec::new();
        for (index, (unit, graph)) in layout.units.iter().zip(search.graphs).enumerate() {
            if unit.pieces.is_empty() {
                continue;
            }
            owners[index] = Some(functions.len());
            functions.push(Function {
                is_endless: search.endless.contains(&unit.entry()),
                unit: unit.clone(),
                graph,
            });
        }
        owners_in_order(&mut functions, &mut owners);
        let by_entry = functions.iter().enumerate();
        let by_entry = by_entry.map(|(index, function)| (function.unit.entry(), index));
        Program {
            by_entry: by_entry.collect(),
            image,
            functions,
            rounds,
            layout,
            owners,
            tracer,
        }
    }

    /// The name of a function, without its module.
    pub fn name(&self, function: &Function) -> Cow<'_, str> {
        match function.unit.symbol {
            Some(symbol) => Cow::Borrowed(&self.image.symbols[symbol].name),
            None => Cow::Owned(format!("nameless_{:x}", function.unit.entry())),
        }
    }

    /// Is it compiled code? That begins with a call for tracers, which may be a nop
    /// (gcc -mfentry).
    pub fn is_compiled(&self, function: &Function) -> bool {
        let entry = function.unit.entry();
        let Some(bytes) = self.image.bytes(entry) else {
            return false;
        };
        let before = flow::endbr64(bytes);
        if bytes[before..].starts_with(&[0x0f, 0x1f, 0x44, 0, 0]) {
            return true;
        }
        let at = entry + before as u64;
        self.tracer.is_some()
            && function
                .graph
                .calls
                .first()
                .is_some_and(|call| call.at == at && self.is_tracer(call.target))
    }

    /// Is it the call for tracers, which the kernel makes a nop at boot?
    pub fn is_tracer(&self, target: Target) -> bool {
        matches!(target, Target::Direct(to) if Some(to) == self.tracer)
    }

    /// The functions that call each, or jump to it, directly.
    pub fn callers(&self) -> Vec<Vec<usize>> {
        let mut callers = vec![Vec::new(); self.functions.len()];
        for (index, function) in self.functions.iter().enumerate() {
            for call in &function.graph.calls {
                if let Some(callee) = self.callee(call.target) {
                    callers[callee].push(index);
                }
            }
        }
        for all in &mut callers {
            all.sort_unstable();
            all.dedup();
        }
        callers
    }

    /// The function that a call enters.
    pub fn callee(&self, target: Target) -> Option<usize> {
        match target {
            Target::Direct(to) => self.entered(to).or_else(|| self.at(to)),
            Target::Indirect(_) => None,
        }
    }

    /// All functions, callees before their callers, as far as calls have such an order.
    pub fn bottom_up(&self) -> Vec<usize> {
        let mut is_seen = vec![false; self.functions.len()];
        let mut order = Vec::with_capacity(is_seen.len());
        for first in 0..self.functions.len() {
            let mut way = vec![(first, 0)];
            if std::mem::replace(&mut is_seen[first], true) {
                continue;
            }
            while let Some((function, next)) = way.last_mut() {
                let Some(call) = self.functions[*function].graph.calls.get(*next) else {
                    order.push(*function);
                    way.pop();
                    continue;
                };
                *next += 1;
                if let Some(callee) = self.callee(call.target) {
                    if !std::mem::replace(&mut is_seen[callee], true) {
                        way.push((callee, 0));
                    }
                }
            }
        }
        order
    }

    /// Which bytes of each text are explained ([`explained::account`]).
    pub fn account(&self) -> Vec<Account> {
        let graphs = self.functions.iter().map(|function| &function.graph);
        explained::account(&self.image, graphs)
    }

    /// The function that begins at an address.
    pub fn entered(&self, address: u64) -> Option<usize> {
        self.by_entry.get(&address).copied()
    }

    /// The beginning of the function behind the padding that an address is in; else the address.
    pub fn behind_padding(&self, address: u64) -> u64 {
        let unit = self.layout.begins(address);
        unit.map_or(address, |unit| self.layout.units[unit].entry())
    }

    /// Is an address in the padding before a function?
    pub fn is_padding(&self, address: u64) -> bool {
        self.behind_padding(address) != address
    }

    /// The function that an address lies in.
    pub fn at(&self, address: u64) -> Option<usize> {
        self.owners[self.layout.unit(address)?]
    }
}

/// Addresses outside the text of functions that never return.
fn elsewhere(image: &Image) -> FxHashSet<u64> {
    let symbols = image.symbols.iter();
    let own = symbols.filter(|symbol| names::is_endless(&symbol.name));
    let addresses = own.map(|symbol| symbol.address);
    addresses
        .filter(|address| image.text(*address).is_none())
        .collect()
}

/// Brings functions into the order of their entries; `owners` are places among them.
fn owners_in_order(functions: &mut [Function], owners: &mut [Option<usize>]) {
    let mut order: Vec<usize> = (0..functions.len()).collect();
    order.sort_by_key(|index| functions[*index].unit.entry());
    let mut place = vec![0; order.len()];
    for (now, before) in order.iter().enumerate() {
        place[*before] = now;
    }
    for owner in owners.iter_mut().flatten() {
        *owner = place[*owner];
    }
    functions.sort_by_key(|function| function.unit.entry());
}

/// Gives cold parts that several functions may own to the one that jumps there.
fn settle(image: &Image, layout: &mut Layout, thunks: &Thunks) {
    let endless = FxHashSet::default();
    let context = Context {
        image,
        layout,
        thunks,
        endless: &endless,
    };
    let disputed = context.layout.disputed.iter();
    let mut candidates: Vec<usize> = disputed.flat_map(|(_, owners)| owners.clone()).collect();
    candidates.sort_unstable();
    candidates.dedup();
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

/// What is found round by round.
struct Search {
    endless: FxHashSet<u64>,
    entries: FxHashMap<usize, Vec<u64>>,
    graphs: Vec<Graph>,
    /// Functions in which nothing returns, and which may have no way out.
    unsure: Vec<usize>,
}

impl Search {
    /// Explores functions, and again what changes with them. How many rounds did it take?
    fn run(
        &mut self,
        image: &Image,
        layout: &Layout,
        thunks: &Thunks,
        mut again: Vec<usize>,
    ) -> usize {
        self.graphs.resize(layout.units.len(), Graph::default());
        for round in 1..=ROUNDS {
            let context = Context {
                image,
                layout,
                thunks,
                endless: &self.endless,
            };
            let entries = &self.entries;
            let work = |space: &mut Space, unit: &usize| {
                let entries = entries.get(unit).map_or(&[][..], Vec::as_slice);
                explore(context, &layout.units[*unit], entries, space)
            };
            let made = again.par_iter().map_init(Space::default, work);
            let made: Vec<Graph> = made.collect();
            for (unit, graph) in again.iter().zip(made) {
                self.graphs[*unit] = graph;
            }
            again = self.changes(layout, &again);
            if again.is_empty() {
                return round;
            }
        }
        ROUNDS
    }

    /// Finds functions without a name in what was not reached. They stand behind all that the
    /// function with a name reaches: what stands before some of it is a dead part of that function.
    fn nameless(&self, image: &Image, layout: &mut Layout, tracer: Option<u64>) -> Vec<usize> {
        let accounts = explained::account(image, self.graphs.iter());
        let holes = accounts.iter().flat_map(|account| &account.holes);
        let is_behind = |hole: &&Hole| {
            let Some(unit) = layout.unit(hole.range.start) else {
                return false;
            };
            let end = layout.units[unit].piece(hole.range.start);
            let end = end.map_or(0, |piece| piece.end);
            let blocks = &self.graphs[unit].blocks;
            let next = blocks.partition_point(|block| block.start < hole.range.end);
            blocks.get(next).is_none_or(|block| block.start >= end)
        };
        let holes: Vec<&Hole> = holes.filter(is_behind).collect();
        let begins = holes
            .into_iter()
            .flat_map(|hole| explained::beginnings(image, hole, tracer));
        let begins = begins.collect();
        layout.add(begins)
    }

    /// What has to be explored again after some were.
    fn changes(&mut self, layout: &Layout, explored: &[usize]) -> Vec<usize> {
        let graphs = &self.graphs;
        let into_middle = |unit: &usize| {
            let (unit, calls) = (*unit, graphs[*unit].calls.iter());
            calls.filter_map(move |call| {
                let Target::Direct(to) = call.target else {
                    return None;
                };
                let other = layout.unit(to).filter(|other| *other != unit)?;
                (layout.units[other].entry() != to).then_some((other, to))
            })
        };
        let entries: Vec<(usize, u64)> = explored.par_iter().flat_map_iter(into_middle).collect();
        let mut again = FxHashSet::default();
        for (other, to) in entries {
            let entries = self.entries.entry(other).or_default();
            if !entries.contains(&to) {
                entries.push(to);
                again.insert(other);
            }
        }
        let ends = self.ends(layout, explored);
        if !ends.is_empty() {
            let to_end = |target| matches!(target, Target::Direct(to) if ends.contains(&to));
            let goes_on = |unit: &usize| {
                let mut calls = self.graphs[*unit].calls.iter();
                calls.any(|call| call.kind == CallKind::Call && to_end(call.target))
            };
            let all = (0..self.graphs.len()).into_par_iter();
            again.extend(all.filter(goes_on).collect::<Vec<usize>>());
        }
        self.endless.extend(ends);
        let mut again: Vec<usize> = again.into_iter().collect();
        again.sort_unstable();
        again
    }

    /// Entries of functions that turn out to have no way out.
    fn ends(&mut self, layout: &Layout, explored: &[usize]) -> FxHashSet<u64> {
        let (graphs, endless) = (&self.graphs, &self.endless);
        let is_unsure = |unit: &usize| {
            let graph = &graphs[*unit];
            !graph.blocks.is_empty()
                && !graph.returns()
                && !endless.contains(&layout.units[*unit].entry())
        };
        // Of functions that were not explored now the graph is what it was.
        self.unsure.extend(explored);
        let all = std::mem::take(&mut self.unsure).into_par_iter();
        self.unsure = all.filter(is_unsure).collect();
        self.unsure.sort_unstable();
        self.unsure.dedup();
        let mut ends = FxHashSet::default();
        // Jumps to such functions make more of them.
        loop {
            let before = ends.len();
            for unit in &self.unsure {
                let returns = |to: u64| !ends.contains(&to) && !self.endless.contains(&to);
                let entry = layout.units[*unit].entry();
                if returns(entry) && !self.graphs[*unit].has_exit(returns) {
                    ends.insert(entry);
                }
            }
            if ends.len() == before {
                return ends;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(bytes: Vec<u8>) -> Vec<(u64, usize)> {
        let program = Program::of(Image::of_text(0x1000, bytes, &[(0x1000, "f")]));
        let functions = program.functions.iter();
        functions
            .map(|own| (own.unit.entry(), own.graph.blocks.len()))
            .collect()
    }

    #[test]
    fn functions_without_names_stand_behind_what_the_one_before_reaches() {
        let mut bytes = vec![0xcc; 0x40];
        // A return; then another function.
        bytes[0] = 0xc3;
        bytes[0x10..0x13].copy_from_slice(&[0x31, 0xc0, 0xc3]);
        assert_eq!(functions(bytes.clone()), [(0x1000, 1), (0x1010, 1)]);
        // A jump over the same, which is dead then.
        bytes[..2].copy_from_slice(&[0xeb, 0x1e]);
        bytes[0x20] = 0xc3;
        assert_eq!(functions(bytes), [(0x1000, 2)]);
    }

    #[test]
    fn compiled_code_has_a_place_for_tracers() {
        let is_compiled = |begin: &[u8], place: &[u8]| {
            let bytes = [begin, place, &[0xc3]].concat();
            let mut names = vec![(0x1000, "f")];
            // The call's target is behind it.
            let tracer = 0x1000 + bytes.len() as u64;
            names.push((tracer, "__fentry__"));
            let bytes = [bytes, vec![0xc3]].concat();
            let program = Program::of(Image::of_text(0x1000, bytes, &names));
            program.is_compiled(&program.functions[program.entered(0x1000).unwrap()])
        };
        let begins: [&[u8]; 4] = [
            &[],
            &[0xf3, 0x0f, 0x1e, 0xfa], // endbr64
            &[0x66, 0x0f, 0x1f, 0x00], // what the kernel puts there instead
            &[0x0f, 0x1f, 0x40, 0xd6],
        ];
        for begin in begins {
            for place in [&[0x0f, 0x1f, 0x44, 0, 0], &[0xe8, 1, 0, 0, 0]] {
                assert!(is_compiled(begin, place), "{begin:02x?} {place:02x?}");
            }
            assert!(!is_compiled(begin, &[0x90]), "{begin:02x?}");
        }
        assert!(!is_compiled(
            &[0x0f, 0x1f, 0x40, 0x00],
            &[0x0f, 0x1f, 0x44, 0, 0]
        ));
    }
}
