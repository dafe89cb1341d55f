// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is analysed: text, names, and the kernel's own tables about its text.
//!
//! Everything in an image may be wrong: a name may stand anywhere, a table may lead anywhere. The
//! analysis believes the bytes of the text, and treats the rest as hints.

use std::fmt;
use std::ops::Range;

/// Text is compared by so many bytes at once.
const CHUNK: usize = 4096;

/// What the kernel itself is called among modules.
pub const NAME: &str = "vmlinux";

/// Why an image cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// A range of memory that holds code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Where it begins.
    pub address: u64,
    /// All of it.
    pub bytes: Vec<u8>,
    /// Whose it is: a place in [`Image::modules`].
    pub module: usize,
    /// No function begins here, and functions elsewhere have parts of themselves here
    /// (`.altinstr_aux`, arch/x86/include/asm/cpufeature.h).
    pub is_aside: bool,
}

impl Text {
    /// The address behind its last byte.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes.len() as u64)
    }
}

/// The name of a place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Where it stands.
    pub address: u64,
    /// Its name alone, without a module.
    pub name: String,
    /// Known outside its file.
    pub is_global: bool,
}

/// An entry of the exception table: where and how the kernel goes on in place of an instruction
/// that met an exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixup {
    /// The instruction.
    pub at: u64,
    /// Where it goes on.
    pub to: u64,
    /// A register that is set before, by its number, and its value.
    pub sets: Option<(u8, i64)>,
}

impl Fixup {
    /// One that sets no register.
    pub fn new(at: u64, to: u64) -> Fixup {
        let sets = None;
        Fixup { at, to, sets }
    }
}

/// An alternative (arch/x86/include/asm/alternative.h): what the kernel may put at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alternative {
    /// Where it goes.
    pub at: u64,
    /// Where it stands until then, and how long it is, in bytes.
    pub replacement: u64,
    /// In bytes.
    pub length: u8,
}

/// A row of the ORC table (arch/x86/include/asm/orc_types.h): where the caller's frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orc {
    /// It holds from here to the next row.
    pub at: u64,
    /// What the frame is found by.
    pub by: OrcBase,
    /// The frame's address less that of `by`, in bytes.
    pub offset: i64,
    /// An ordinary frame: a return address lies right below [`Orc::offset`].
    pub is_call: bool,
}

/// Registers that an ORC row names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrcBase {
    /// Nothing is said.
    Undefined,
    /// rsp.
    Sp,
    /// rbp.
    Bp,
    /// Another register, or memory.
    Other,
}

/// Adds the ranges in which bytes at an address differ, in order.
pub fn differences(address: u64, (old, new): (&[u8], &[u8]), changes: &mut Vec<Range<u64>>) {
    let first = changes.len();
    let chunks = old.chunks(CHUNK).zip(new.chunks(CHUNK));
    let unequal = chunks.enumerate().filter(|(_, (old, new))| old != new);
    for (index, (old, new)) in unequal {
        let begin = address + (index * CHUNK) as u64;
        let bytes = (begin..).zip(old.iter().zip(new));
        for (at, _) in bytes.filter(|(_, (old, new))| old != new) {
            match changes[first..].last_mut() {
                Some(Range { end, .. }) if *end == at => *end = at + 1,
                _ => changes.push(at..at + 1),
            }
        }
    }
}

/// The kernel's tables about its text, each in the order of addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tables {
    /// The exception table; an instruction has one entry.
    pub fixups: Vec<Fixup>,
    /// The ud2 of warnings, which go on behind it; `None` where the table cannot be read.
    pub warnings: Option<Vec<u64>>,
    /// Jump labels: places, and where each jumps to when its key is the other way.
    pub keys: Vec<(u64, u64)>,
    /// Sites of static calls, which the kernel leads elsewhere.
    pub static_calls: Vec<u64>,
    /// Alternatives that were, or may be, put in place.
    pub alternatives: Vec<Alternative>,
    /// The ORC table.
    pub orc: Vec<Orc>,
    /// The text of alternatives that are not in place: where it stands, and its bytes.
    pub replacements: (u64, Vec<u8>),
    /// Text that nothing may instrument: noinstr and entry text.
    pub untouchable: Vec<Range<u64>>,
}

/// A kernel or a part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// `vmlinux` and names of modules.
    pub modules: Vec<String>,
    /// Text in the order of addresses; ranges do not overlap.
    pub texts: Vec<Text>,
    /// Names in the order of addresses.
    pub symbols: Vec<Symbol>,
    /// Read-only data: addresses and bytes. Jump tables are there.
    pub data: Vec<(u64, Vec<u8>)>,
    /// What the kernel says about the text.
    pub tables: Tables,
}

impl Image {
    /// A kernel of one range of text, with global names, in order.
    pub fn of_text(address: u64, bytes: Vec<u8>, names: &[(u64, &str)]) -> Image {
        let symbol = |(address, name): &(u64, &str)| Symbol {
            address: *address,
            name: (*name).to_owned(),
            is_global: true,
        };
        let mut image = Image {
            modules: vec![NAME.into()],
            texts: vec![Text {
                address,
                bytes,
                module: 0,
                is_aside: false,
            }],
            symbols: names.iter().map(symbol).collect(),
            ..Image::default()
        };
        image.put_in_order();
        image
    }

    /// Brings all into the order that the analysis relies on. Text that overlaps text before it
    /// is dropped, since one byte cannot have two owners; symbols outside the text are kept, as
    /// names of what is called.
    pub fn put_in_order(&mut self) {
        self.texts.sort_by_key(|text| text.address);
        let mut end = 0;
        self.texts.retain(|text| {
            let fits = text.address >= end && !text.bytes.is_empty();
            end = if fits { text.end() } else { end };
            fits
        });
        self.symbols
            .sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        let tables = &mut self.tables;
        tables.fixups.sort_by_key(|entry| entry.at);
        tables.fixups.dedup_by_key(|entry| entry.at);
        tables.keys.sort_unstable();
        tables.keys.dedup();
        tables.static_calls.sort_unstable();
        tables.alternatives.sort_by_key(|entry| entry.at);
        tables.orc.sort_by_key(|row| row.at);
        tables.untouchable.sort_by_key(|range| range.start);
        if let Some(warnings) = &mut tables.warnings {
            warnings.sort_unstable();
        }
    }

    /// Where the text of a newer image differs: ranges of addresses, in order. `None` where more
    /// than bytes of text differs: names, tables, data, or where text stands.
    pub fn text_changes(&self, newer: &Image) -> Option<Vec<Range<u64>>> {
        let pairs = || self.texts.iter().zip(&newer.texts);
        let same = |(old, new): (&Text, &Text)| {
            let of = |text: &Text| (text.address, text.bytes.len(), text.module, text.is_aside);
            of(old) == of(new)
        };
        let is_same = self.texts.len() == newer.texts.len()
            && pairs().all(same)
            && self.modules == newer.modules
            && self.symbols == newer.symbols
            && self.tables == newer.tables
            && self.data == newer.data;
        if !is_same {
            return None;
        }
        let mut changes = Vec::new();
        for (old, new) in pairs() {
            differences(old.address, (&old.bytes, &new.bytes), &mut changes);
        }
        Some(changes)
    }

    /// The text that an address lies in: a place in [`Image::texts`].
    pub fn text(&self, address: u64) -> Option<usize> {
        let behind = self.texts.partition_point(|text| text.address <= address);
        let index = behind.checked_sub(1)?;
        (address < self.texts[index].end()).then_some(index)
    }

    /// The bytes from an address on to the end of its text.
    pub fn bytes(&self, address: u64) -> Option<&[u8]> {
        let text = &self.texts[self.text(address)?];
        text.bytes.get((address - text.address) as usize..)
    }

    /// Writes over text, where all of it is of one text.
    pub fn patch(&mut self, at: u64, new: &[u8]) {
        let Some(text) = self.text(at) else {
            return;
        };
        let text = &mut self.texts[text];
        let offset = (at - text.address) as usize;
        if let Some(bytes) = text.bytes.get_mut(offset..offset + new.len()) {
            bytes.copy_from_slice(new);
        }
    }

    /// The 8 bytes at an address of read-only data.
    pub fn pointer(&self, address: u64) -> Option<u64> {
        self.data.iter().find_map(|(begin, bytes)| {
            let from = usize::try_from(address.checked_sub(*begin)?).ok()?;
            let bytes = bytes.get(from..from.checked_add(8)?)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        })
    }

    /// The bytes of an alternative.
    pub fn replacement(&self, alternative: Alternative) -> Option<&[u8]> {
        let (begin, bytes) = &self.tables.replacements;
        let from = usize::try_from(alternative.replacement.checked_sub(*begin)?).ok()?;
        bytes.get(from..from.checked_add(alternative.length.into())?)
    }

    /// Is it in text that nothing may instrument?
    pub fn is_untouchable(&self, address: u64) -> bool {
        let ranges = &self.tables.untouchable;
        ranges.iter().any(|range| range.contains(&address))
    }

    /// The fixup of the instruction at an address.
    pub fn fixup(&self, at: u64) -> Option<&Fixup> {
        let all = &self.tables.fixups;
        let place = all.binary_search_by_key(&at, |entry| entry.at).ok()?;
        Some(&all[place])
    }

    /// The ORC row that an address is under.
    pub fn orc(&self, address: u64) -> Option<&Orc> {
        let rows = &self.tables.orc;
        rows[..rows.partition_point(|row| row.at <= address)].last()
    }
}
