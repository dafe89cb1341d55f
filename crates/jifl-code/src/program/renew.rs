// SPDX-License-Identifier: MIT OR Apache-2.0
//! Analyses again what has changed since.
//!
//! A kernel's text changes in a few places at a time: a jump label, a static call, a live patch.
//! Then the functions with these places are explored again, and what depends on them. All other
//! functions stay as they are.
//!
//! The result is that of an analysis from the beginning:
//!
//! 1. A function's structure follows from its own text, the names, the kernel's tables, entries
//!    that others lead to, and which functions never return ([`crate::explore`]).
//! 2. Names, tables and where text stands are compared, and must be the same. The text of the
//!    functions that are not explored again is the same ([`Image::text_changes`]).
//! 3. Entries and functions that never return are again those of the whole search
//!    ([`super::search`]): it only adds to them, in any order. What it had found from the old text
//!    of a function holds on: the function was not one that never returns, and the places in the
//!    middle of others where it led are found again, from its own entry alone.
//! 4. A cold part's owner does not change: no function that may own it has changed.
//! 5. No function without a name comes or goes: what a function does not reach has the same
//!    beginnings of such functions as before, which is none.
//!
//! Where one of these does not hold all is analysed again. So it is when a module comes or goes.

use std::ops::Range;

use rustc_hash::FxHashSet;

use super::search::{Given, Graphs, is_last};
use super::{Function, Program};
use crate::explained;
use crate::graph::Graph;
use crate::image::Image;

/// What was analysed again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewed {
    /// Functions whose text or structure is new, places in [`Program::functions`], in order.
    pub functions: Vec<usize>,
    /// Names and modules of functions that are there no more.
    pub gone: Vec<(String, String)>,
    /// All was analysed again: places of functions may have changed.
    pub is_whole: bool,
}

/// Structures where a program has them.
struct Own<'a> {
    functions: &'a mut [Function],
    owners: &'a [Option<usize>],
    none: Graph,
    /// Places, and what was there.
    replaced: Vec<(usize, Graph)>,
}

impl Graphs for Own<'_> {
    fn of(&self, unit: usize) -> &Graph {
        self.owners[unit].map_or(&self.none, |own| &self.functions[own].graph)
    }

    fn set(&mut self, unit: usize, graph: Graph) {
        if let Some(own) = self.owners[unit] {
            let old = std::mem::replace(&mut self.functions[own].graph, graph);
            self.replaced.push((own, old));
        }
    }
}

impl Program {
    /// Makes this the program of a newer image.
    pub fn renew(&mut self, image: Image) -> Renewed {
        let Some(changes) = self.image.text_changes(&image) else {
            return self.again(image);
        };
        let Some(units) = self.changed_units(&changes) else {
            return self.again(image);
        };
        let old = std::mem::replace(&mut self.image, image);
        let given = Given {
            image: &self.image,
            layout: &self.layout,
            thunks: &self.thunks,
        };
        let mut graphs = Own {
            functions: &mut self.functions,
            owners: &self.owners,
            none: Graph::default(),
            replaced: Vec::new(),
        };
        let explored = self.search.renew(given, &mut graphs, units);
        let replaced = graphs.replaced;
        let Some(explored) = explored.filter(|all| all.iter().all(|unit| self.is_full(*unit)))
        else {
            for (place, graph) in replaced.into_iter().rev() {
                self.functions[place].graph = graph;
            }
            let image = std::mem::replace(&mut self.image, old);
            return self.again(image);
        };
        let places = explored.iter().filter_map(|unit| self.owners[*unit]);
        let mut functions: Vec<usize> = places.collect();
        functions.sort_unstable();
        for place in &functions {
            let function = &mut self.functions[*place];
            function.is_endless = self.search.is_endless(function.unit.entry());
        }
        Renewed {
            functions,
            ..Renewed::default()
        }
    }

    /// The units that ranges of text belong to; `None` where it may depend on these what belongs to
    /// whom.
    fn changed_units(&self, changes: &[Range<u64>]) -> Option<Vec<usize>> {
        let mut units = Vec::new();
        for range in changes {
            let text = &self.image.texts[self.image.text(range.start)?];
            if text.is_aside {
                return None;
            }
            units.extend(self.layout.units_in(range));
        }
        units.sort_unstable();
        units.dedup();
        let disputed = self.layout.candidates();
        let is_disputed = |unit: &usize| disputed.binary_search(unit).is_ok();
        (!units.iter().any(is_disputed)).then_some(units)
    }

    /// Does no function without a name begin in what a unit does not reach?
    fn is_full(&self, unit: usize) -> bool {
        let Some(own) = self.owners[unit].map(|own| &self.functions[own]) else {
            return true;
        };
        own.unit.pieces.iter().all(|piece| {
            let Some(text) = self.image.text(piece.start) else {
                return true;
            };
            let account = explained::account_of(&self.image.texts[text], piece, &own.graph);
            let mut holes = account.holes.iter();
            holes.all(|hole| {
                !is_last(hole, piece.end, &own.graph)
                    || explained::beginnings(&self.image, hole, self.tracer).is_empty()
            })
        })
    }

    /// Analyses all of an image, and compares.
    fn again(&mut self, image: Image) -> Renewed {
        let old = std::mem::replace(self, Program::of(image));
        let module = |program: &Program, function: &Function| {
            program.image.modules[function.unit.module].clone()
        };
        let is_new = |place: &usize| {
            let function = &self.functions[*place];
            let before = old.entered(function.unit.entry());
            before
                .map(|before| &old.functions[before])
                .is_none_or(|before| {
                    let mut pieces = function.unit.pieces.iter();
                    before.unit.pieces != function.unit.pieces
                        || before.graph != function.graph
                        || old.name(before) != self.name(function)
                        || module(&old, before) != module(self, function)
                        || pieces.any(|piece| text(&old.image, piece) != text(&self.image, piece))
                })
        };
        let functions = (0..self.functions.len()).filter(is_new).collect();
        let entries: FxHashSet<u64> = self.functions.iter().map(|own| own.unit.entry()).collect();
        let gone = old.functions.iter();
        let gone = gone.filter(|own| !entries.contains(&own.unit.entry()));
        let gone = gone.map(|own| (old.name(own).into_owned(), module(&old, own)));
        Renewed {
            functions,
            gone: gone.collect(),
            is_whole: true,
        }
    }
}

/// The bytes of a piece.
fn text<'a>(image: &'a Image, piece: &Range<u64>) -> &'a [u8] {
    let bytes = image.bytes(piece.start).unwrap_or_default();
    let length = (piece.end - piece.start) as usize;
    &bytes[..length.min(bytes.len())]
}
