// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel from its file. Debian's kernels have no symbol table: the names are then the
//! kernel's own ([`crate::kallsyms`]). Modules are linked first ([`crate::ko`]).

use std::borrow::Cow;
use std::collections::HashMap;

use object::elf::{EM_X86_64, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_NOBITS};
use object::read::elf::{ElfFile64, FileHeader};
use object::{
    Endianness, Object, ObjectKind, ObjectSection, ObjectSymbol, SectionFlags, SectionIndex,
    SectionKind,
};

use crate::image::{Error, Image, NAME, Symbol, Tables, Text};
use crate::kallsyms;
use crate::ko;
use crate::names;
use crate::packed;
use crate::tables::{self, Bytes};

/// A section that is in memory.
pub(crate) struct Section<'a> {
    pub name: String,
    pub address: u64,
    pub bytes: Cow<'a, [u8]>,
    pub is_code: bool,
}

/// Names, and where marks of tables stand.
#[derive(Default)]
pub(crate) struct Names {
    pub text: Vec<Symbol>,
    pub marks: HashMap<String, u64>,
}

/// Reads a vmlinux, as it stands before the kernel patches itself at boot, or a module. Either may
/// be compressed ([`crate::packed`]).
///
/// # Errors
/// The file is no ELF file of x86-64, is damaged or cut short, or has no names.
pub fn read(file: &[u8]) -> Result<Image, Error> {
    let file = &*packed::unpack(file)?;
    let elf: ElfFile64<'_, Endianness> =
        ElfFile64::parse(file).map_err(|error| Error(format!("not a kernel's file: {error}")))?;
    if elf.elf_header().e_machine(elf.endian()) != EM_X86_64 {
        return Err(Error("not for x86-64".into()));
    }
    if elf.kind() == ObjectKind::Relocatable {
        return ko::link(&elf);
    }
    let sections = sections(&elf, false)?;
    let sections: Vec<Section<'_>> = sections.into_iter().map(|(_, own)| own).collect();
    let names = names(&elf, &sections)?;
    image(&sections, names, NAME)
}

/// The image of sections that have addresses.
pub(crate) fn image(sections: &[Section<'_>], names: Names, module: &str) -> Result<Image, Error> {
    if !sections.iter().any(|section| section.is_code) {
        return Err(Error("no code in it".into()));
    }
    let texts = sections.iter().filter(|section| section.is_code);
    // Replacements are copied elsewhere before they run.
    let texts = texts.filter(|section| section.name != ".altinstr_replacement");
    let text = |section: &Section<'_>| Text {
        address: section.address,
        bytes: section.bytes.to_vec(),
        module: 0,
        is_aside: section.name == ".altinstr_aux",
    };
    let rodata = sections.iter().filter(|section| section.name == ".rodata");
    let mut image = Image {
        modules: vec![module.into()],
        texts: texts.map(text).collect(),
        symbols: names.text,
        data: rodata
            .map(|own| (own.address, own.bytes.to_vec()))
            .collect(),
        tables: Tables::default(),
    };
    image.put_in_order();
    image.tables = read_tables(sections, &names.marks, &image);
    image.put_in_order();
    Ok(image)
}

/// The sections of a file that are in memory; those of a module have no addresses yet.
pub(crate) fn sections<'a>(
    elf: &ElfFile64<'a, Endianness>,
    of_module: bool,
) -> Result<Vec<(SectionIndex, Section<'a>)>, Error> {
    let mut all = Vec::new();
    for section in elf.sections() {
        let SectionFlags::Elf { sh_flags } = section.flags() else {
            continue;
        };
        let is_in_memory = sh_flags & u64::from(SHF_ALLOC) != 0;
        let has_place = of_module || section.address() != 0;
        let is_empty = section.kind() == SectionKind::UninitializedData
            || section.elf_section_header().sh_type.get(elf.endian()) == SHT_NOBITS;
        if !is_in_memory || !has_place || is_empty {
            continue;
        }
        let name = section.name().unwrap_or_default().to_owned();
        let bytes = section
            .data()
            .map_err(|error| Error(format!("section {name}: {error}")))?;
        let own = Section {
            name,
            address: section.address(),
            bytes: Cow::Borrowed(bytes),
            // Variables of later kernels are in a section that is both.
            is_code: sh_flags & u64::from(SHF_EXECINSTR | SHF_WRITE) == u64::from(SHF_EXECINSTR),
        };
        all.push((section.index(), own));
    }
    Ok(all)
}

fn names(elf: &ElfFile64<'_, Endianness>, sections: &[Section<'_>]) -> Result<Names, Error> {
    let is_text = |address: u64| {
        let code = sections.iter().filter(|section| section.is_code);
        let mut own = code.filter(|section| section.address <= address);
        own.any(|section| address - section.address < section.bytes.len() as u64)
    };
    let mut names = Names {
        text: Vec::new(),
        marks: HashMap::new(),
    };
    let mut add = |symbol: Symbol, is_code: bool| {
        if names::is_bound(&symbol.name) {
            names.marks.insert(symbol.name.clone(), symbol.address);
        }
        if is_code && is_text(symbol.address) {
            names.text.push(symbol);
        }
    };
    let mut any = false;
    for symbol in elf.symbols().filter(|symbol| symbol.address() != 0) {
        let is_code = matches!(
            symbol.kind(),
            object::SymbolKind::Text | object::SymbolKind::Unknown
        );
        let name = symbol.name().unwrap_or_default().to_owned();
        let (address, is_global) = (symbol.address(), symbol.is_global());
        any |= is_code && !name.is_empty();
        if !name.is_empty() {
            add(
                Symbol {
                    address,
                    name,
                    is_global,
                },
                is_code,
            );
        }
    }
    if !any {
        let rodata = sections.iter().find(|section| section.name == ".rodata");
        let (data, address) = rodata.map_or((&[][..], 0), |own| (&own.bytes, own.address));
        for entry in kallsyms::read(data, address)? {
            add(entry.symbol, names::is_text(entry.kind));
        }
    }
    Ok(names)
}

fn read_tables(sections: &[Section<'_>], marks: &HashMap<String, u64>, image: &Image) -> Tables {
    let section = |name: &str| {
        let found = sections.iter().find(|section| section.name == name)?;
        Some(Bytes {
            address: found.address,
            bytes: &found.bytes,
        })
    };
    let between = |begin: &str, end: &str| {
        let (begin, end) = (*marks.get(begin)?, *marks.get(end)?);
        let holds = |section: &&Section<'_>| {
            begin >= section.address && end <= section.address + section.bytes.len() as u64
        };
        let section = sections.iter().find(holds)?;
        let offset = |address: u64| (address - section.address) as usize;
        let bytes = section.bytes.get(offset(begin)..offset(end))?;
        let address = begin;
        Some(Bytes { address, bytes })
    };
    let untouchable = [
        ("__noinstr_text_start", "__noinstr_text_end"),
        ("__entry_text_start", "__entry_text_end"),
    ];
    let range = |(begin, end): &(&str, &str)| Some(*marks.get(*begin)?..*marks.get(*end)?);
    let is_text = |address| image.text(address).is_some();
    let alternatives = section(".altinstructions");
    let orc = section(".orc_unwind_ip").zip(section(".orc_unwind"));
    // The header that says which rows these are came with the types of today.
    let type_is_call = if section(".orc_header").is_some() {
        2
    } else {
        0
    };
    Tables {
        fixups: section("__ex_table").map_or_else(Vec::new, tables::fixups),
        warnings: section("__bug_table").map(|table| tables::warnings(table, is_text)),
        keys: between("__start___jump_table", "__stop___jump_table")
            .or_else(|| section("__jump_table"))
            .map_or_else(Vec::new, tables::keys),
        static_calls: between("__start_static_call_sites", "__stop_static_call_sites")
            .or_else(|| section(".static_call_sites"))
            .map_or_else(Vec::new, tables::static_calls),
        alternatives: alternatives
            .map_or_else(Vec::new, |table| tables::alternatives(table, is_text)),
        orc: orc.map_or_else(Vec::new, |(at, rows)| {
            tables::orc(at, rows.bytes, type_is_call)
        }),
        replacements: section(".altinstr_replacement")
            .map_or_else(Default::default, |own| (own.address, own.bytes.to_vec())),
        untouchable: untouchable.iter().filter_map(range).collect(),
    }
}
