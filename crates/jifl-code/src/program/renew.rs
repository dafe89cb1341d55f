// SPDX-License-Identifier: MIT OR Apache-2.0
//! Analyses again what has changed since.
//!
//! A kernel's text changes in a few places at a time: a jump label, a static call, a live patch.
//! Then the functions with these places are explored again, and what depends on them. All other
//! functions stay as they are.
//!
//! The result is that of an analysis from the beginning ([`super::search`]). Let F be a function
//! whose text has changed, and let these hold:
//!
//! 1. Names, tables, data and where text stands are the same ([`Image::text_changes`]), and F owns
//!    no cold part that another function may own, so that all pieces are whose they were.
//! 2. No other function leads into the middle of F, and F leads into the middle of others where it
//!    led before. So all entries are what they were: F has no part in its own.
//! 3. F was none of the functions that never return, and is none now. So these are the same: what
//!    shows that one of them has no way out is not F's text.
//! 4. F is no function without a name, and none was cut off it. It calls none, and jumps to none.
//!    None begins in what it does not reach. So these are the same, too, and F was explored with
//!    the pieces that it has now.
//!
//! Then the structures of all other functions follow from what they followed from before: their
//! text, their entries, and which functions never return. F's structure follows from the same.
//!
//! Where one of these does not hold all is analysed again. So it is when a module comes or goes.

use std::ops::Range;

use super::search::{self, Given, Graphs};
use super::{Function, Program};
use crate::graph::Graph;
use crate::image::{self, Image, Text};

/// What was analysed again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewed {
    /// Functions that changed: places in [`Program::functions`], in order. Each has text that
    /// changed, or another structure because others changed.
    pub functions: Vec<usize>,
    /// Where text changed that was there before: ranges of addresses, in order.
    pub places: Vec<Range<u64>>,
    /// Functions that were not there before, in order.
    pub come: Vec<usize>,
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
        let new = |range: &Range<u64>| (range.start, text(&image, range).to_vec());
        let patches: Vec<(u64, Vec<u8>)> = changes.iter().map(new).collect();
        self.patch(&patches)
    }

    /// Makes this the program of its image with other bytes of text: addresses and bytes, in the
    /// order of addresses.
    pub fn patch(&mut self, patches: &[(u64, Vec<u8>)]) -> Renewed {
        let range = |(at, bytes): &(u64, Vec<u8>)| *at..at + bytes.len() as u64;
        let changes: Vec<Range<u64>> = patches.iter().map(range).collect();
        let units = self.changed_units(&changes);
        let old = changes
            .iter()
            .map(|range| text(&self.image, range).to_vec());
        let old: Vec<Vec<u8>> = old.collect();
        for (at, bytes) in patches {
            self.image.patch(*at, bytes);
        }
        let restore = |program: &mut Program| {
            let image = program.image.clone();
            for (range, bytes) in changes.iter().zip(&old) {
                program.image.patch(range.start, bytes);
            }
            program.again(image)
        };
        let Some(units) = units else {
            return restore(self);
        };
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
        let is_renewed = self.search.renew(given, &mut graphs, &units);
        let replaced = graphs.replaced;
        if !is_renewed || !units.iter().all(|unit| self.is_full(*unit)) {
            for (place, graph) in replaced.into_iter().rev() {
                self.functions[place].graph = graph;
            }
            return restore(self);
        }
        let functions = units.iter().filter_map(|unit| self.owners[*unit]);
        let mut functions: Vec<usize> = functions.collect();
        functions.sort_unstable();
        Renewed {
            functions,
            places: changes,
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
        let disputed = &self.layout.candidates;
        let is_disputed = |unit: &usize| disputed.binary_search(unit).is_ok();
        (!units.iter().any(is_disputed)).then_some(units)
    }

    /// Does no function without a name begin in what a unit does not reach?
    fn is_full(&self, unit: usize) -> bool {
        let Some(own) = self.owners[unit].map(|own| &self.functions[own]) else {
            return true;
        };
        search::beginnings(&self.image, &own.unit, &own.graph, self.tracer).is_empty()
    }

    /// Analyses all of an image, and compares.
    fn again(&mut self, image: Image) -> Renewed {
        let old = std::mem::replace(self, Program::of(image));
        let mut renewed = Renewed {
            is_whole: true,
            ..Renewed::default()
        };
        for (place, function) in self.functions.iter().enumerate() {
            let before = old.entered(function.unit.entry());
            let before = before.map(|before| &old.functions[before]);
            let Some(before) = before.filter(|before| old.is_called(before, self, function)) else {
                renewed.come.push(place);
                continue;
            };
            let mut pieces = function.unit.pieces.iter();
            let is_same = before.unit.pieces == function.unit.pieces
                && before.graph == function.graph
                && pieces.all(|piece| text(&old.image, piece) == text(&self.image, piece));
            renewed.functions.extend((!is_same).then_some(place));
        }
        for new in &self.image.texts {
            let before = old
                .image
                .text(new.address)
                .map(|text| &old.image.texts[text]);
            let is_same = |before: &&Text| before.address == new.address;
            if let Some(before) = before.filter(is_same) {
                let pair = (&before.bytes[..], &new.bytes[..]);
                image::differences(new.address, pair, &mut renewed.places);
            }
        }
        for function in &old.functions {
            let now = self.entered(function.unit.entry());
            let now = now.map(|now| &self.functions[now]);
            if now.is_none_or(|now| !self.is_called(now, &old, function)) {
                let module = &old.image.modules[function.unit.module];
                let name = old.name(function).into_owned();
                renewed.gone.push((name, module.clone()));
            }
        }
        renewed
    }

    /// Has a function the name and the module of another program's?
    fn is_called(&self, function: &Function, other: &Program, of_other: &Function) -> bool {
        let module =
            |program: &Program, own: &Function| program.image.modules.get(own.unit.module).cloned();
        self.name(function) == other.name(of_other)
            && module(self, function) == module(other, of_other)
    }
}

/// The bytes of a range.
fn text<'a>(image: &'a Image, piece: &Range<u64>) -> &'a [u8] {
    let bytes = image.bytes(piece.start).unwrap_or_default();
    let length = (piece.end - piece.start) as usize;
    &bytes[..length.min(bytes.len())]
}
