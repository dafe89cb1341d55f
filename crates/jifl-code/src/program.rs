// SPDX-License-Identifier: MIT OR Apache-2.0
//! All functions of an image.
//!
//! How they depend on each other is in [`search`]. What is analysed again when text has changed is
//! in [`renew`].

mod renew;
mod search;

use std::borrow::Cow;

use rustc_hash::FxHashMap;

pub use self::renew::Renewed;
use self::search::Search;
use crate::explained::{self, Account};
use crate::flow::{self, Target, Thunks};
use crate::graph::Graph;
use crate::image::Image;
use crate::layout::{Layout, Unit};

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
    thunks: Thunks,
    search: Search,
}

impl Program {
    /// Analyses an image, with all processors of this machine.
    pub fn of(image: Image) -> Program {
        let thunks = Thunks::of(&image);
        let mut layout = Layout::of(&image);
        search::settle(&image, &mut layout, &thunks);
        let mut symbols = image.symbols.iter();
        let tracer = symbols.find(|symbol| symbol.name == "__fentry__");
        let tracer = tracer.map(|symbol| symbol.address);
        let mut search = Search::new(&image);
        let (mut graphs, rounds) = search.all(&image, &mut layout, &thunks, tracer);
        let entry = |unit: &usize| layout.units[*unit].pieces.first().map(|piece| piece.start);
        let mut order: Vec<usize> = (0..layout.units.len()).collect();
        order.retain(|unit| entry(unit).is_some());
        order.sort_by_key(entry);
        let mut owners = vec![None; layout.units.len()];
        for (place, unit) in order.iter().enumerate() {
            owners[*unit] = Some(place);
        }
        let function = |unit: &usize| {
            let own = &layout.units[*unit];
            Function {
                is_endless: search.is_endless(own.entry()),
                unit: own.clone(),
                graph: std::mem::take(&mut graphs[*unit]),
            }
        };
        let functions: Vec<Function> = order.iter().map(function).collect();
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
            thunks,
            search,
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
        let length = function.unit.pieces[0].end - entry;
        let bytes = &bytes[..bytes.len().min(length as usize)];
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
