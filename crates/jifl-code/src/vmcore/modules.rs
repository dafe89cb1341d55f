// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modules of a kernel whose memory is at hand: the list `modules` (kernel/module/main.c), and
//! of each module what the kernel tells in /sys/module/NAME/sections and /proc/kallsyms. Where the
//! members of its structures are is asked of its types ([`Types`]).
//!
//! Everything there may be wrong. So all that is read has a bound, also all together.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::types::Types;
use crate::bytes::{i32_at, u32_at, u64_at};
use crate::image::{Error, Symbol};
use crate::running::{Memory, Module, Names};

/// There are no more modules, of no module more sections.
const MOST_MODULES: usize = 1 << 12;
const MOST_SECTIONS: usize = 1 << 12;
/// All modules together have no more names.
const MOST_NAMES: usize = 1 << 22;
/// No name is longer (`KSYM_NAME_LEN`).
const MOST_LETTERS: usize = 512;
/// All names of a module have no more letters.
const MOST_TEXT: u64 = 1 << 26;
/// No module has more memory.
const MOST_MEMORY: u64 = 1 << 27;
/// An entry of an ELF file's table of symbols (elf(5)).
const SYMBOL: usize = 24;
/// An exported symbol, with offsets in place of addresses (include/linux/export.h).
const EXPORTED: usize = 12;
/// `MODULE_STATE_UNFORMED` (include/linux/module.h): nothing of it is valid yet.
const UNFORMED: u32 = 3;

/// Where the members of structures are, in bytes.
struct Offsets {
    list: u64,
    state: u64,
    name: u64,
    /// Pairs of memory that belongs to a module: address and size, of 8 and of 4 bytes.
    layouts: Vec<(u64, u64)>,
    sections: u64,
    /// Of the NULL-terminated list of attributes in what `sections` leads to.
    attributes: u64,
    attribute_name: u64,
    /// Of the section's address, from the attribute on.
    attribute_address: u64,
    kallsyms: u64,
    symbols: [u64; 4],
    /// Of exported symbols: the table and its length.
    exported: (u64, u64),
}

impl Offsets {
    fn of(types: &Types) -> Option<Offsets> {
        let own = |path: &str| types.offset("module", path);
        let pair = |names: &(&str, &str)| Some((own(names.0)?, own(names.1)?));
        let layouts = match pair(&("core_layout.base", "core_layout.size")) {
            Some(pair) => vec![pair],
            None => {
                let memory = |path| types.offset("module_memory", path);
                let (base, size) = (memory("base")?, memory("size")?);
                let (first, each) = (own("mem")?, types.size("module_memory")?);
                // Text, data, read-only data, and data that is read-only later.
                let all = (0..4).map(|kind| first + kind * each);
                all.map(|at| (at + base, at + size)).collect()
            }
        };
        let battr = types.offset("module_sect_attr", "battr");
        let attribute_address = match (battr, types.offset("module_sect_attr", "address")) {
            (Some(battr), Some(address)) => address.checked_sub(battr)?,
            _ => types.offset("bin_attribute", "private")?,
        };
        let table = |path| types.offset("mod_kallsyms", path);
        Some(Offsets {
            list: own("list")?,
            state: own("state")?,
            name: own("name")?,
            layouts,
            sections: own("sect_attrs")?,
            attributes: types.offset("module_sect_attrs", "grp.bin_attrs")?,
            attribute_name: types.offset("bin_attribute", "attr.name")?,
            attribute_address,
            kallsyms: own("kallsyms")?,
            symbols: [
                table("symtab")?,
                table("num_symtab")?,
                table("strtab")?,
                table("typetab")?,
            ],
            exported: pair(&("syms", "num_syms"))?,
        })
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// In the order of the list.
    pub modules: Vec<Module>,
    /// What could not be read, in words.
    pub without: Option<Error>,
}

/// The modules, and their names among the kernel's. `head`: where the list of them begins.
///
/// # Errors
/// The types do not say what a module is.
pub fn read(
    types: &Types,
    head: u64,
    memory: &mut dyn Memory,
    names: &mut Names,
) -> Result<Found, Error> {
    let offsets = Offsets::of(types).ok_or_else(|| {
        Error(
            "without modules: the kernel's types (BTF) do not say where a module's sections are"
                .into(),
        )
    })?;
    Ok(list(offsets, head, memory, names))
}

/// The modules of a list.
fn list(offsets: Offsets, head: u64, memory: &mut dyn Memory, names: &mut Names) -> Found {
    let mut reader = Reader {
        memory,
        offsets,
        names_left: MOST_NAMES,
    };
    let mut found = Found::default();
    let mut seen = FxHashSet::default();
    let (mut unread, mut at) = (0, head);
    let is_whole = loop {
        let Some(next) = reader.pointer(at) else {
            break false;
        };
        if next == head {
            break true;
        }
        if seen.len() == MOST_MODULES || !seen.insert(next) {
            break false;
        }
        at = next;
        let own = at.wrapping_sub(reader.offsets.list);
        match reader.state(own) {
            Some(UNFORMED) => continue,
            Some(_) => {}
            None => {
                unread += 1;
                continue;
            }
        }
        match reader.module(own) {
            Some(module) if reader.names(own, &module.name, names).is_some() => {
                found.modules.push(module);
            }
            _ => unread += 1,
        }
    };
    let mut words = Vec::new();
    if unread > 0 {
        words.push(format!("without {unread} modules that cannot be read"));
    }
    if !is_whole {
        let number = found.modules.len();
        words.push(format!(
            "the list of modules cannot be read behind the first {number}"
        ));
    }
    found.without = (!words.is_empty()).then(|| Error(words.join("; ")));
    found
}

struct Reader<'a> {
    memory: &'a mut dyn Memory,
    offsets: Offsets,
    /// So many more names are read.
    names_left: usize,
}

impl Reader<'_> {
    fn pointer(&mut self, at: u64) -> Option<u64> {
        u64_at(&self.memory.read(at, 8)?, 0)
    }

    fn number(&mut self, at: u64) -> Option<u32> {
        u32_at(&self.memory.read(at, 4)?, 0)
    }

    /// A string that ends with 0. It may stand at the end of what can be read.
    fn string(&mut self, at: u64) -> Option<String> {
        let mut all = Vec::new();
        while all.len() < MOST_LETTERS {
            let from = at.checked_add(all.len() as u64)?;
            // Within a page all can be read, or nothing.
            let length = 64 - (from % 64) as usize;
            let bytes = self.memory.read(from, length)?;
            let end = memchr::memchr(0, &bytes);
            all.extend(&bytes[..end.unwrap_or(length)]);
            if end.is_some() {
                return Some(String::from_utf8_lossy(&all).into_owned());
            }
        }
        None
    }

    fn state(&mut self, own: u64) -> Option<u32> {
        self.number(own.wrapping_add(self.offsets.state))
    }

    /// A module with its sections.
    fn module(&mut self, own: u64) -> Option<Module> {
        let name = self.string(own.wrapping_add(self.offsets.name))?;
        let mut size = 0_u64;
        let mut found = Vec::new();
        for (base, length) in self.offsets.layouts.clone() {
            let base = self.pointer(own.wrapping_add(base))?;
            let length = u64::from(self.number(own.wrapping_add(length))?);
            size += length;
            // Something else may follow at once.
            found.push((base.wrapping_add(length), String::new()));
        }
        if size > MOST_MEMORY {
            return None;
        }
        let sections = self.pointer(own.wrapping_add(self.offsets.sections))?;
        let attributes = self.pointer(sections.wrapping_add(self.offsets.attributes))?;
        for place in 0..MOST_SECTIONS as u64 {
            let attribute = self.pointer(attributes.wrapping_add(8 * place))?;
            if attribute == 0 {
                break;
            }
            let letters = self.pointer(attribute.wrapping_add(self.offsets.attribute_name))?;
            let section = self.string(letters)?;
            let address = self.offsets.attribute_address;
            found.push((self.pointer(attribute.wrapping_add(address))?, section));
        }
        Some(Module {
            name,
            size,
            sections: found,
        })
    }

    /// The names of a module, as /proc/kallsyms has them (module_get_kallsym,
    /// kernel/module/kallsyms.c; m_show, kernel/kallsyms.c).
    fn names(&mut self, own: u64, module: &str, names: &mut Names) -> Option<()> {
        let exported = self.exported(own);
        let kallsyms = self.pointer(own.wrapping_add(self.offsets.kallsyms))?;
        let [symtab, number, strtab, typetab] =
            self.offsets.symbols.map(|at| kallsyms.wrapping_add(at));
        let number = self.number(number)? as usize;
        self.names_left = self.names_left.checked_sub(number)?;
        let [symtab, strtab, typetab] = [
            self.pointer(symtab)?,
            self.pointer(strtab)?,
            self.pointer(typetab)?,
        ];
        let symbols = self.memory.read(symtab, number * SYMBOL)?;
        let kinds = self.memory.read(typetab, number)?;
        let field = |symbol: &[u8]| Some((u32_at(symbol, 0)?, u64_at(symbol, 8)?));
        let places: Vec<(u32, u64)> = symbols.chunks(SYMBOL).filter_map(field).collect();
        let last = places.iter().map(|(name, _)| u64::from(*name)).max()?;
        let length = (last + MOST_LETTERS as u64).min(MOST_TEXT) as usize;
        let text = self.memory.bulk(strtab, length)?;
        let module: Arc<str> = Arc::from(module);
        for ((name, address), kind) in places.into_iter().zip(kinds) {
            let letters = text.get(name as usize..).unwrap_or_default();
            let letters = &letters[..letters.len().min(MOST_LETTERS)];
            let end = memchr::memchr(0, letters).unwrap_or(0);
            let name = String::from_utf8_lossy(&letters[..end]).into_owned();
            if name.is_empty() || address == 0 {
                continue;
            }
            let kind = match exported
                .get(&address)
                .is_some_and(|own| own.contains(&name))
            {
                true => kind.to_ascii_uppercase(),
                false => kind.to_ascii_lowercase(),
            };
            let symbol = Symbol {
                address,
                name,
                is_global: kind.is_ascii_uppercase(),
            };
            names.add(char::from(kind), symbol, Some(module.clone()));
        }
        Some(())
    }

    /// What a module exports, without what only modules under the GPL may use: the names at each
    /// address (is_exported, kernel/module/kallsyms.c).
    fn exported(&mut self, own: u64) -> FxHashMap<u64, Vec<String>> {
        let mut all: FxHashMap<u64, Vec<String>> = FxHashMap::default();
        let (table, number) = self.offsets.exported;
        let table = self.pointer(own.wrapping_add(table));
        let number = self.number(own.wrapping_add(number));
        let (Some(table), Some(number)) = (table, number) else {
            return all;
        };
        let length = (number as usize).min(self.names_left) * EXPORTED;
        let bytes = self.memory.read(table, length).unwrap_or_default();
        for (at, entry) in (table..)
            .step_by(EXPORTED)
            .zip(bytes.chunks_exact(EXPORTED))
        {
            // An offset from the place where it stands.
            let to = |field: usize| {
                let offset = i32_at(entry, field)?;
                Some(
                    at.wrapping_add(field as u64)
                        .wrapping_add_signed(offset.into()),
                )
            };
            let (Some(address), Some(name)) = (to(0), to(4)) else {
                continue;
            };
            let name = self.string(name);
            all.entry(address).or_default().extend(name);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const OFFSETS: Offsets = Offsets {
        list: 8,
        state: 0,
        name: 24,
        layouts: Vec::new(),
        sections: 88,
        attributes: 16,
        attribute_name: 0,
        attribute_address: 40,
        kallsyms: 96,
        symbols: [0, 8, 16, 24],
        exported: (136, 144),
    };
    const HEAD: u64 = 0xffff_ffff_8200_0000;
    const OWN: u64 = 0xffff_ffff_c000_0000;

    /// Memory of bytes; what was not put is not there.
    #[derive(Default)]
    struct Bytes(HashMap<u64, u8>);

    impl Bytes {
        fn put(&mut self, at: u64, bytes: &[u8]) {
            self.0.extend((at..).zip(bytes.iter().copied()));
        }

        fn words(&mut self, at: u64, words: &[u64]) {
            self.put(
                at,
                &words
                    .iter()
                    .flat_map(|word| word.to_le_bytes())
                    .collect::<Vec<u8>>(),
            );
        }
    }

    impl Memory for Bytes {
        fn read(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
            let bytes = (0..length as u64).map(|at| self.0.get(&address.checked_add(at)?).copied());
            bytes.collect()
        }

        fn bulk(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
            let byte = |at: u64| self.0.get(&(address + at)).copied().unwrap_or(0);
            Some((0..length as u64).map(byte).collect())
        }
    }

    fn offsets() -> Offsets {
        Offsets {
            layouts: vec![(104, 112), (120, 128)],
            ..OFFSETS
        }
    }

    /// A list of one module, `theirs`, with two sections, two names, one of them exported.
    fn memory() -> Bytes {
        let mut memory = Bytes::default();
        memory.words(HEAD, &[OWN + 8, OWN + 8]);
        memory.put(OWN, &[0; 160]);
        memory.words(OWN + 8, &[HEAD, HEAD]);
        memory.put(OWN + 24, b"theirs\0");
        memory.words(
            OWN + 88,
            &[
                OWN + 0x1000,
                OWN + 0x2000,
                OWN + 0x8000,
                0x3000,
                OWN + 0xb000,
            ],
        );
        memory.words(OWN + 128, &[0x1000, OWN + 0x3000, 1]);
        memory.words(OWN + 0x1010, &[OWN + 0x1100]);
        memory.words(OWN + 0x1100, &[OWN + 0x1200, OWN + 0x1300, 0]);
        let sections = [(0x1200, 0x8000, ".text"), (0x1300, 0xb000, ".data")];
        for (at, address, name) in sections {
            memory.words(OWN + at, &[OWN + at + 64, 0, 0, 0, 0, OWN + address]);
            let letters = format!("{name}\0{}", " ".repeat(64));
            memory.put(OWN + at + 64, letters.as_bytes());
        }
        memory.words(OWN + 0x2000, &[OWN + 0x2100, 3, OWN + 0x2200, OWN + 0x2300]);
        for (index, (name, address)) in [(0, 0), (1, 0x8000), (3, 0x8010)].into_iter().enumerate() {
            let at = OWN + 0x2100 + 24 * index as u64;
            memory.words(at, &[name, if address > 0 { OWN + address } else { 0 }, 0]);
        }
        memory.put(OWN + 0x2200, b"\0f\0g\0");
        memory.put(OWN + 0x2300, b"\0tT");
        for (field, to) in [(0x3000, 0x8000_u32), (0x3004, 0x3100), (0x3008, 0x3008)] {
            memory.put(OWN + field, &(to - field as u32).to_le_bytes());
        }
        memory.put(OWN + 0x3100, &[&b"f\0"[..], &[0; 62]].concat());
        memory
    }

    fn modules(memory: &mut dyn Memory) -> (Vec<Module>, String, String) {
        let mut names = Names::default();
        let found = list(offsets(), HEAD, memory, &mut names);
        let without = found.without.map_or_else(String::new, |without| without.0);
        (found.modules, format!("{names:?}"), without)
    }

    #[test]
    fn modules_have_their_sections_and_names() {
        let (found, names, without) = modules(&mut memory());
        assert_eq!(without, "");
        let section = |at: u64, name: &str| (OWN + at, name.to_owned());
        let expected = Module {
            name: "theirs".into(),
            size: 0x4000,
            sections: vec![
                section(0xb000, ""),
                section(0xc000, ""),
                section(0x8000, ".text"),
                section(0xb000, ".data"),
            ],
        };
        assert_eq!(found, [expected]);
        let mut expected = Names::default();
        for (address, name, kind) in [(0x8000, "f", 'T'), (0x8010, "g", 't')] {
            let symbol = Symbol {
                address: OWN + address,
                name: name.into(),
                is_global: kind == 'T',
            };
            expected.add(kind, symbol, Some("theirs".into()));
        }
        assert_eq!(names, format!("{expected:?}"));
    }

    #[test]
    fn what_is_not_there_is_left_out_and_told() {
        let mut unformed = memory();
        unformed.put(OWN, &UNFORMED.to_le_bytes());
        let (found, _, without) = modules(&mut unformed);
        assert_eq!((found.len(), without.as_str()), (0, ""));
        let (_, _, without) = modules(&mut Bytes::default());
        assert!(without.contains("behind the first 0"), "{without}");
        // A list that never comes back to its head.
        let mut endless = memory();
        endless.words(OWN + 8, &[OWN + 8]);
        let (found, _, without) = modules(&mut endless);
        assert_eq!(found.len(), 1);
        assert!(without.contains("behind the first 1"), "{without}");
        let mut large = memory();
        large.words(OWN + 128, &[u64::MAX]);
        let (found, _, without) = modules(&mut large);
        assert_eq!(
            (found.len(), without.as_str()),
            (0, "without 1 modules that cannot be read")
        );
        for at in (0..0x3200).step_by(4) {
            let mut less = memory();
            less.0.remove(&(OWN + at));
            let (found, _, without) = modules(&mut less);
            assert!(found.len() == 1 || !without.is_empty(), "{at:x}");
            let mut wrong = memory();
            wrong.put(OWN + at, &[0xff; 3]);
            modules(&mut wrong);
        }
    }
}
