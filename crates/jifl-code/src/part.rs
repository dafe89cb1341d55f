// SPDX-License-Identifier: MIT OR Apache-2.0
//! Some functions of an image, as an image of their own: what a recording keeps of the code that
//! was executed.
//!
//! A part has the functions' text, with that of their cold parts, and the kernel's tables about it.
//! It has the names of what they call or jump to, and of the kernel's beginning. So functions in it
//! have the structure that they have in the whole image, but for what only other functions tell:
//! that a function which is not in the part never returns, and that others jump into the middle of
//! one that is.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::flow::{direct, instructions};
use crate::image::{Image, Text};
use crate::layout::Layout;

/// The kernel's beginning, by which recordings and debug information find their addresses.
const BEGIN: &str = "_text";

/// The functions that addresses lie in.
pub fn part(image: &Image, addresses: impl Iterator<Item = u64>) -> Image {
    let layout = Layout::of(image);
    let mut units: BTreeSet<usize> = addresses.filter_map(|at| layout.unit(at)).collect();
    // Which of several functions owns a cold part is seen by who jumps there.
    for (cold, owners) in &layout.disputed {
        if owners.iter().any(|owner| units.contains(owner)) || units.contains(cold) {
            units.insert(*cold);
            units.extend(owners);
        }
    }
    let all = units.iter().map(|unit| &layout.units[*unit]);
    let mut part = Image {
        modules: image.modules.clone(),
        ..Image::default()
    };
    let mut named = BTreeSet::new();
    let mut pieces: Vec<Range<u64>> = Vec::new();
    for unit in all {
        for piece in &unit.pieces {
            let length = (piece.end - piece.start) as usize;
            let Some(bytes) = image.bytes(piece.start).and_then(|all| all.get(..length)) else {
                continue;
            };
            named.insert(piece.start);
            named.extend(instructions(bytes, piece.start).filter_map(|one| direct(&one)));
            pieces.push(piece.clone());
            part.texts.push(Text {
                address: piece.start,
                bytes: bytes.to_vec(),
                module: unit.module,
                is_aside: false,
            });
        }
    }
    pieces.sort_by_key(|piece| piece.start);
    let is_in = |at: u64| {
        let behind = pieces.partition_point(|piece| piece.start <= at);
        behind > 0 && at < pieces[behind - 1].end
    };
    let symbols = image.symbols.iter();
    let own = symbols.filter(|symbol| named.contains(&symbol.address) || symbol.name == BEGIN);
    part.symbols = own.cloned().collect();
    let (of, to) = (&image.tables, &mut part.tables);
    let warnings = of.warnings.iter().flatten().copied();
    to.warnings = of
        .warnings
        .as_ref()
        .map(|_| warnings.filter(|at| is_in(*at)).collect());
    let fixups = of.fixups.iter().copied();
    to.fixups = fixups.filter(|entry| is_in(entry.at)).collect();
    let keys = of.keys.iter().copied();
    to.keys = keys.filter(|entry| is_in(entry.0)).collect();
    let calls = of.static_calls.iter().copied();
    to.static_calls = calls.filter(|at| is_in(*at)).collect();
    to.untouchable.clone_from(&of.untouchable);
    part.put_in_order();
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Fixup;
    use crate::program::Program;

    /// f calls g, and jumps to its cold part; h calls f. There is a fixup in f and one in h.
    fn whole() -> Image {
        let mut bytes = vec![0xcc; 0x80];
        let mut put = |at: usize, code: &[u8]| bytes[at..at + code.len()].copy_from_slice(code);
        put(0x00, &[0xe8, 0x1b, 0, 0, 0, 0x74, 0x59, 0x8b, 0x07, 0xc3]);
        put(0x20, &[0xc3]);
        put(0x40, &[0xe8, 0xbb, 0xff, 0xff, 0xff, 0x8b, 0x07, 0xc3]);
        put(0x60, &[0x31, 0xc0, 0xc3]);
        let names = [
            (0x1000, "f"),
            (0x1020, "g"),
            (0x1040, "h"),
            (0x1060, "f.cold"),
        ];
        let mut image = Image::of_text(0x1000, bytes, &names);
        image.tables.fixups = vec![Fixup::new(0x1007, 0x1060), Fixup::new(0x1045, 0x1047)];
        image.tables.warnings = Some(vec![0x1020]);
        image
    }

    #[test]
    fn a_function_of_a_part_is_that_of_the_whole() {
        let image = whole();
        let part = part(&image, [0x1007, 0x1008, 0x9000].into_iter());
        let names: Vec<&str> = part.symbols.iter().map(|own| own.name.as_str()).collect();
        assert_eq!(names, ["f", "g", "f.cold"]);
        assert_eq!((part.texts.len(), part.tables.fixups.len()), (2, 1));
        assert_eq!(part.tables.warnings, Some(Vec::new()));
        let (whole, part) = (Program::of(image), Program::of(part));
        assert_eq!(part.functions.len(), 1);
        let [of_whole, of_part] = [&whole, &part].map(|own| &own.functions[0]);
        assert_eq!(of_part.graph, of_whole.graph);
        assert_eq!(part.name(of_part), "f");
        assert!(of_part.graph.edges.len() >= 3, "{:?}", of_part.graph);
    }

    #[test]
    fn what_is_no_function_makes_no_part() {
        let part = part(&whole(), [0, 0x2000].into_iter());
        assert!(part.texts.is_empty() && part.symbols.is_empty());
        assert!(Program::of(part).functions.is_empty());
    }
}
