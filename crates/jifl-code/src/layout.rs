// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which part of the text belongs to which function, by the names in it.
//!
//! A function begins at each name and ends at the next. Its cold part (`NAME.cold`) stands
//! elsewhere and belongs to it. Where several functions have one name, the one that jumps to the
//! cold part owns it ([`Layout::join`]). The padding before a function has a name of its own from
//! 6.2 on (`__pfx_NAME`, scripts/link-vmlinux.sh) and belongs to no function.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::image::Image;
use crate::names::{is_mark, is_padding, whole};

/// A function before it is explored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its name: a place in [`Image::symbols`]; `None` where it has none.
    pub symbol: Option<usize>,
    /// Whose it is: a place in [`Image::modules`].
    pub module: usize,
    /// Where its code stands; it begins where the first piece does.
    pub pieces: Vec<Range<u64>>,
}

impl Unit {
    /// Is an address in it?
    pub fn holds(&self, address: u64) -> bool {
        self.pieces.iter().any(|piece| piece.contains(&address))
    }

    /// The piece that an address is in.
    pub fn piece(&self, address: u64) -> Option<&Range<u64>> {
        self.pieces.iter().find(|piece| piece.contains(&address))
    }

    /// Where it begins.
    pub fn entry(&self) -> u64 {
        self.pieces[0].start
    }
}

/// All functions, and the pieces in the order of addresses.
#[derive(Debug, Default)]
pub struct Layout {
    /// The functions.
    pub units: Vec<Unit>,
    /// Pieces: where they begin and end, and whose they are. Padding with a name has no owner.
    pieces: Vec<(Range<u64>, Option<usize>)>,
    /// Cold parts that more than one function may own: the unit of the part, and of those.
    pub disputed: Vec<(usize, Vec<usize>)>,
    /// The functions that may own one of these, in order.
    pub candidates: Vec<usize>,
}

impl Layout {
    /// By the names of an image.
    pub fn of(image: &Image) -> Layout {
        let mut layout = Layout::default();
        for (index, text) in image.texts.iter().enumerate() {
            if !text.is_aside {
                layout.divide(image, index);
            }
        }
        layout.gather(image);
        layout
    }

    /// Cuts one range of text at the names in it.
    fn divide(&mut self, image: &Image, text: usize) {
        let text = &image.texts[text];
        let symbols = &image.symbols;
        let mut at = symbols.partition_point(|symbol| symbol.address < text.address);
        while let Some(first) = symbols.get(at).filter(|symbol| symbol.address < text.end()) {
            let same = symbols[at..]
                .iter()
                .take_while(|other| other.address == first.address);
            let number = same.count();
            let best = (at..at + number).max_by_key(|index| {
                let symbol = &symbols[*index];
                (
                    !is_mark(&symbol.name),
                    symbol.is_global,
                    std::cmp::Reverse(*index),
                )
            });
            let symbol = best.unwrap_or(at);
            at += number;
            let next = symbols.get(at).map_or(u64::MAX, |next| next.address);
            let piece = first.address..next.min(text.end());
            let is_before = is_padding(&symbols[symbol].name);
            let owner = (!is_before).then_some(self.units.len());
            if !is_before {
                self.units.push(Unit {
                    symbol: Some(symbol),
                    module: text.module,
                    pieces: vec![piece.clone()],
                });
            }
            self.pieces.push((piece, owner));
        }
    }

    /// Gives cold parts to their functions.
    fn gather(&mut self, image: &Image) {
        let name = |unit: &Unit| {
            let symbol = unit.symbol.and_then(|symbol| image.symbols.get(symbol));
            symbol.map_or("", |symbol| symbol.name.as_str())
        };
        let key = |unit: &Unit| Some((unit.module, whole(name(unit))?));
        let keys = self.units.iter().filter_map(key);
        let mut owners: FxHashMap<(usize, &str), Vec<usize>> =
            keys.map(|key| (key, Vec::new())).collect();
        for (index, unit) in self.units.iter().enumerate() {
            if let Some(owners) = owners.get_mut(&(unit.module, name(unit))) {
                owners.push(index);
            }
        }
        let mut sure = Vec::new();
        for (index, unit) in self.units.iter().enumerate() {
            let Some(base) = whole(name(unit)) else {
                continue;
            };
            match owners
                .get(&(unit.module, base))
                .map_or(&[][..], Vec::as_slice)
            {
                [] => {}
                [owner] => sure.push((index, *owner)),
                several => self.disputed.push((index, several.to_vec())),
            }
        }
        let candidates = self.disputed.iter();
        self.candidates = candidates.flat_map(|(_, owners)| owners.clone()).collect();
        self.candidates.sort_unstable();
        self.candidates.dedup();
        self.join(&sure);
    }

    /// Makes parts pieces of functions: pairs of the part's unit and the function's. The part's
    /// unit is left without pieces.
    pub fn join(&mut self, pairs: &[(usize, usize)]) {
        let mut owner: FxHashMap<usize, usize> = FxHashMap::default();
        for (part, function) in pairs {
            if part == function || self.units[*part].pieces.is_empty() {
                continue;
            }
            // The function may be a part of another: f.cold.cold of f.cold of f.
            let function = last(&owner, *function);
            if function == *part {
                continue;
            }
            let pieces = std::mem::take(&mut self.units[*part].pieces);
            self.units[function].pieces.extend(pieces);
            owner.insert(*part, function);
        }
        for (_, unit) in &mut self.pieces {
            *unit = unit.map(|unit| last(&owner, unit));
        }
    }

    /// Cuts pieces in two: at these addresses functions without names begin. The new functions.
    pub fn add(&mut self, mut addresses: Vec<u64>) -> Vec<usize> {
        addresses.sort_unstable();
        addresses.dedup();
        let mut cut: Vec<usize> = Vec::new();
        let mut made = Vec::new();
        // From the last on: those before stay where they are.
        for address in addresses.into_iter().rev() {
            cut.extend(self.cut(address, &mut made));
        }
        self.pieces.extend(made);
        self.pieces.sort_by_key(|(piece, _)| piece.start);
        cut.reverse();
        cut
    }

    /// Cuts one piece; the new one is not yet among the others.
    fn cut(&mut self, address: u64, made: &mut Vec<(Range<u64>, Option<usize>)>) -> Option<usize> {
        let place = self.place(address)?;
        let (piece, owner) = self.pieces[place].clone();
        if piece.start == address {
            return None;
        }
        let own = &mut self.units[owner?];
        let module = own.module;
        let cut = own.pieces.iter_mut().find(|own| **own == piece)?;
        cut.end = address;
        let unit = self.units.len();
        self.units.push(Unit {
            symbol: None,
            module,
            pieces: std::iter::once(address..piece.end).collect(),
        });
        self.pieces[place].0.end = address;
        made.push((address..piece.end, Some(unit)));
        Some(unit)
    }

    /// The function that an address lies in.
    pub fn unit(&self, address: u64) -> Option<usize> {
        self.pieces[self.place(address)?].1
    }

    /// The functions that a range of addresses has parts of.
    pub fn units_in(&self, range: &Range<u64>) -> impl Iterator<Item = usize> + use<'_> {
        let first = self
            .pieces
            .partition_point(|(piece, _)| piece.end <= range.start);
        let end = range.end;
        let pieces = self.pieces[first..].iter();
        let pieces = pieces.take_while(move |(piece, _)| piece.start < end);
        pieces.filter_map(|(_, owner)| *owner)
    }

    /// The function that begins at an address, or behind the padding at it. Some calls go to the
    /// padding, where the kernel has put something to do first (arch/x86/kernel/callthunks.c).
    pub fn begins(&self, address: u64) -> Option<usize> {
        let place = self.place(address)?;
        let (piece, owner) = &self.pieces[place];
        match owner {
            Some(unit) => {
                let is_entry = self.units[*unit].pieces.first()?.start == address;
                is_entry.then_some(*unit)
            }
            None => {
                let (next, owner) = self.pieces.get(place + 1)?;
                owner.filter(|_| next.start == piece.end)
            }
        }
    }

    fn place(&self, address: u64) -> Option<usize> {
        let behind = self
            .pieces
            .partition_point(|(piece, _)| piece.start <= address);
        let place = behind.checked_sub(1)?;
        self.pieces[place].0.contains(&address).then_some(place)
    }
}

/// The owner of what owns a unit, and so on; nothing owns itself.
fn last(owner: &FxHashMap<usize, usize>, mut unit: usize) -> usize {
    while let Some(next) = owner.get(&unit) {
        unit = *next;
    }
    unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cold_parts_belong_to_their_functions_and_padding_to_none() {
        let names = [
            (0x1000, "f"),
            (0x1100, "__pfx_g"),
            (0x1110, "g"),
            (0x1110, "__g_start"),
            (0x1200, "f.cold"),
            (0x1300, "h"),
            (0x1400, "h"),
            (0x1500, "h.cold.3"),
            (0x9000, "far"),
        ];
        let layout = Layout::of(&Image::of_text(0x1000, vec![0x90; 0x1000], &names));
        let f = layout.unit(0x1000).unwrap();
        assert_eq!(layout.units[f].pieces, [0x1000..0x1100, 0x1200..0x1300]);
        assert_eq!(layout.unit(0x1250), Some(f));
        assert_eq!(layout.begins(0x1000), Some(f));
        assert_eq!(layout.begins(0x1200), None);
        let g = layout.unit(0x1110).unwrap();
        assert_eq!(layout.begins(0x1105), Some(g));
        assert_eq!(layout.unit(0x1105), None);
        assert_eq!(layout.unit(0x9000), None);
        let h = [0x1300, 0x1400].map(|at| layout.unit(at).unwrap());
        let part = layout.unit(0x1500).unwrap();
        assert_eq!(layout.disputed, [(part, h.to_vec())]);
    }
}
