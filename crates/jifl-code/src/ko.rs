// SPDX-License-Identifier: MIT OR Apache-2.0
//! A module from its file, which has to be linked first: its sections get addresses, as the kernel
//! gives them, and relocations are applied. What the module calls in the kernel gets an address
//! for each name, outside of all text.

use std::collections::HashMap;

use object::elf::{
    R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_PC32, R_X86_64_PC64, R_X86_64_PLT32,
};
use object::read::elf::ElfFile64;
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget,
    SectionIndex, SymbolIndex,
};

use crate::image::{Error, Image, Symbol};
use crate::vmlinux::{self, Names, Section};

/// Where the kernel's modules begin (Documentation/arch/x86/x86_64/mm.rst).
const MODULES: u64 = 0xffff_ffff_c000_0000;
const PAGE: u64 = 4096;
/// Bytes between the addresses of what is elsewhere.
const APART: u64 = 16;

type Elf<'a> = ElfFile64<'a, Endianness>;

/// Where everything is put.
#[derive(Default)]
struct Places {
    sections: HashMap<SectionIndex, u64>,
    /// What is not in the file.
    elsewhere: HashMap<SymbolIndex, u64>,
}

/// Links a module's file.
pub(crate) fn link(elf: &Elf<'_>) -> Result<Image, Error> {
    let mut sections = vmlinux::sections(elf, true)?;
    let places = places(elf, &mut sections);
    for (index, section) in &mut sections {
        let from = elf
            .section_by_index(*index)
            .map_err(|error| Error(error.to_string()))?;
        relocate(elf, &from, &places, section);
    }
    let mut sections: Vec<Section<'_>> = sections.into_iter().map(|(_, own)| own).collect();
    sections.sort_by_key(|section| section.address);
    let names = names(elf, &places);
    if names.text.is_empty() {
        return Err(Error(
            "no symbols: a stripped module cannot be linked".into(),
        ));
    }
    vmlinux::image(&sections, names, &name(elf))
}

/// What the module is called.
fn name(elf: &Elf<'_>) -> String {
    let own = elf.section_by_name(".modinfo");
    let text = own.and_then(|section| section.data().ok());
    let mut words = text.unwrap_or_default().split(|byte| *byte == 0);
    let name = words.find_map(|word| word.strip_prefix(b"name="));
    String::from_utf8_lossy(name.unwrap_or(b"module")).into_owned()
}

/// Code first, then all else. A section begins on a page of its own, so that no text follows
/// another's end at once.
fn places(elf: &Elf<'_>, sections: &mut [(SectionIndex, Section<'_>)]) -> Places {
    let mut places = Places::default();
    let mut next = MODULES;
    for is_code in [true, false] {
        let own = sections.iter_mut();
        for (index, section) in own.filter(|(_, section)| section.is_code == is_code) {
            section.address = next;
            places.sections.insert(*index, next);
            next += (section.bytes.len() as u64).next_multiple_of(PAGE) + PAGE;
        }
    }
    // What has no bytes in the file, .bss, is data elsewhere, too. Sections of a damaged file may
    // be larger than the addresses that are left.
    for section in elf.sections() {
        places.sections.entry(section.index()).or_insert_with(|| {
            let at = next;
            next = next.saturating_add(section.size().min(1 << 30).next_multiple_of(PAGE) + PAGE);
            at
        });
    }
    for symbol in elf.symbols().filter(object::ObjectSymbol::is_undefined) {
        places.elsewhere.insert(symbol.index(), next);
        next = next.saturating_add(APART);
    }
    places
}

fn address(elf: &Elf<'_>, places: &Places, index: SymbolIndex) -> Option<u64> {
    if let Some(known) = places.elsewhere.get(&index) {
        return Some(*known);
    }
    let symbol = elf.symbol_by_index(index).ok()?;
    let section = places.sections.get(&symbol.section_index()?)?;
    Some(section.wrapping_add(symbol.address()))
}

/// Writes addresses into a section (System V ABI, x86-64 supplement, 4.4.1).
fn relocate<'a>(
    elf: &Elf<'a>,
    from: &impl ObjectSection<'a>,
    places: &Places,
    section: &mut Section<'_>,
) {
    let at = section.address;
    for (offset, relocation) in from.relocations() {
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            continue;
        };
        let RelocationFlags::Elf { r_type } = relocation.flags() else {
            continue;
        };
        let Some(to) = address(elf, places, symbol) else {
            continue;
        };
        let to = to.wrapping_add_signed(relocation.addend());
        let away = to.wrapping_sub(at.wrapping_add(offset));
        let (value, size) = match r_type {
            R_X86_64_64 => (to, 8),
            R_X86_64_32 | R_X86_64_32S => (to, 4),
            R_X86_64_PC32 | R_X86_64_PLT32 => (away, 4),
            R_X86_64_PC64 => (away, 8),
            _ => continue,
        };
        let Ok(offset) = usize::try_from(offset) else {
            continue;
        };
        let end = offset.saturating_add(size);
        if let Some(place) = section.bytes.to_mut().get_mut(offset..end) {
            place.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
}

fn names(elf: &Elf<'_>, places: &Places) -> Names {
    let mut names = Names::default();
    for symbol in elf.symbols() {
        let name = symbol.name().unwrap_or_default();
        let is_code = matches!(
            symbol.kind(),
            object::SymbolKind::Text | object::SymbolKind::Unknown
        );
        if name.is_empty() || name.starts_with(".L") || !is_code {
            continue;
        }
        let Some(address) = address(elf, places, symbol.index()) else {
            continue;
        };
        names.text.push(Symbol {
            address,
            name: name.to_owned(),
            is_global: symbol.is_global(),
        });
    }
    names
}
