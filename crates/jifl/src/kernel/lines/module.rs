// SPDX-License-Identifier: MIT OR Apache-2.0
//! The debug information of a loaded module. Its file is relocatable: each address in it has to be
//! computed from the place where the kernel has put the section (/sys/module/NAME/sections).

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use addr2line::Context;
use gimli::{EndianRcSlice, RunTimeEndian};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex};

use super::rows::Tables;
use super::{Frame, Line, frames_of, line};
use crate::kernel::sections::Sections;

/// Sections of debug information.
pub type Data = EndianRcSlice<RunTimeEndian>;
type Elf<'a> = ElfFile64<'a, object::Endianness>;

/// Lines of one module, by the addresses that it has.
pub struct Module(Context<Data>);

impl Module {
    /// Reads its debug information.
    pub fn open(name: &str, path: &Path) -> Option<Module> {
        let bytes = fs::read(path).ok()?;
        let sections = Sections::of(Path::new("/"), name);
        Module::read(&bytes, |section| sections.address(section))
    }

    /// `place`: address of a section.
    pub fn read(bytes: &[u8], place: impl Fn(&str) -> Option<u64>) -> Option<Module> {
        let elf: Elf<'_> = ElfFile64::parse(bytes).ok()?;
        let load = |id: gimli::SectionId| {
            let data = relocated(&elf, id.name(), &place).unwrap_or_default();
            Ok::<_, gimli::Error>(EndianRcSlice::new(Rc::from(data), RunTimeEndian::Little))
        };
        let dwarf = gimli::Dwarf::load(load).ok()?;
        Context::from_dwarf(dwarf).ok().map(Module)
    }

    pub(super) fn lines(&self, from: u64, to: u64) -> Vec<Line> {
        let rows = self.0.find_location_range(from, to).into_iter().flatten();
        rows.filter_map(|row| line(row, 0)).collect()
    }

    pub(super) fn frames(&self, at: u64) -> Vec<Frame> {
        let frames = self.0.find_frames(at).skip_all_loads();
        frames.map_or_else(|_| Vec::new(), frames_of)
    }
}

/// The debug information of a module's file, without addresses; `None`: it cannot be read.
pub fn debug_of(bytes: &[u8]) -> Option<gimli::Dwarf<Data>> {
    let elf: Elf<'_> = ElfFile64::parse(bytes).ok()?;
    let load = |id: gimli::SectionId| {
        let data = relocated(&elf, id.name(), &|_: &str| Some(0)).unwrap_or_default();
        Ok::<_, gimli::Error>(EndianRcSlice::new(Rc::from(data), RunTimeEndian::Little))
    };
    gimli::Dwarf::load(load).ok()
}

/// The line tables of a loaded module, by the addresses that it has.
pub fn tables(name: &str, path: &Path) -> Option<Tables> {
    let bytes = fs::read(path).ok()?;
    let elf: Elf<'_> = ElfFile64::parse(bytes.as_slice()).ok()?;
    let sections = Sections::of(Path::new("/"), name);
    let place = |section: &str| sections.address(section);
    Some(Tables::of(|section| relocated(&elf, section, &place)))
}

/// A section, with the addresses that it refers to filled in.
fn relocated(elf: &Elf<'_>, name: &str, place: &impl Fn(&str) -> Option<u64>) -> Option<Vec<u8>> {
    let section = elf.section_by_name(name)?;
    let mut data = section.uncompressed_data().map(Cow::into_owned).ok()?;
    for (offset, relocation) in section.relocations() {
        let Some(value) = value_of(elf, relocation.target(), place) else {
            continue;
        };
        let value = value.wrapping_add_signed(relocation.addend()).to_le_bytes();
        let bytes = usize::from(relocation.size()) / 8;
        let from = offset as usize;
        // Data has only relocations of 4 and 8 bytes.
        if let (4 | 8, Some(field)) = (bytes, data.get_mut(from..from + bytes)) {
            field.copy_from_slice(&value[..bytes]);
        }
    }
    Some(data)
}

/// The address of a section: 0 for debug information; none if the section has not been loaded.
fn value_of(
    elf: &Elf<'_>,
    target: RelocationTarget,
    place: &impl Fn(&str) -> Option<u64>,
) -> Option<u64> {
    let of_section = |index: SectionIndex| {
        let name = elf.section_by_index(index).ok()?.name().ok()?.to_owned();
        if name.starts_with(".debug") {
            return Some(0);
        }
        place(&name)
    };
    match target {
        RelocationTarget::Section(index) => of_section(index),
        RelocationTarget::Symbol(index) => {
            let symbol = elf.symbol_by_index(index).ok()?;
            let base = symbol.section_index().and_then(of_section)?;
            Some(base.wrapping_add(symbol.address()))
        }
        _ => None,
    }
}
