// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the code of source lines begins: the line tables themselves, because the instructions that
//! a debugger may stop at (is_stmt) are marked there alone. A line can begin at the instruction of
//! another: of a call that is inlined at once, the line has no instruction before it.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::Path;
use std::rc::Rc;

use gimli::{
    AttributeValue, DebugLine, DebugLineOffset, DebugLineStr, DebugStr, EndianRcSlice,
    IncompleteLineProgram, LineProgramHeader, Reader, RunTimeEndian, Section, SectionId,
};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ReadCache};

type Data = EndianRcSlice<RunTimeEndian>;
type Header = LineProgramHeader<Data>;

/// A range of code that belongs to one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    /// The file as the table has it.
    pub file: Rc<str>,
    /// The line's number.
    pub line: u32,
    /// Its first instruction, among those that were asked for.
    pub at: u64,
}

/// At which instructions a range of a line may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// At those at which a debugger may stop. What has none is no range.
    Stop,
    /// At any.
    Any,
}

/// Sections with line tables.
pub struct Tables {
    line: DebugLine<Data>,
    line_strings: DebugLineStr<Data>,
    strings: DebugStr<Data>,
}

impl Tables {
    /// Those of a linked file.
    pub fn open(path: &Path) -> Option<Tables> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let elf: ElfFile64<'_, object::Endianness, _> = ElfFile64::parse(&cache).ok()?;
        Some(Tables::of(|name| {
            let data = elf.section_by_name(name)?.uncompressed_data().ok()?;
            Some(Cow::into_owned(data))
        }))
    }

    /// Those in these sections.
    pub fn of(load: impl Fn(&str) -> Option<Vec<u8>>) -> Tables {
        let data = |id: SectionId| {
            let bytes = load(id.name()).unwrap_or_default();
            EndianRcSlice::new(Rc::from(bytes), RunTimeEndian::Little)
        };
        Tables {
            line: data(SectionId::DebugLine).into(),
            line_strings: data(SectionId::DebugLineStr).into(),
            strings: data(SectionId::DebugStr).into(),
        }
    }

    /// The tables, one for each unit. One that cannot be read ends them.
    fn programs(&self) -> impl Iterator<Item = IncompleteLineProgram<Data>> {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let is_there = offset < self.line.reader().len();
            let offset_of = DebugLineOffset(offset);
            let program = is_there.then(|| self.line.program(offset_of, 8, None, None).ok());
            let program = program.flatten()?;
            let header = program.header();
            let length = header.encoding().format.initial_length_size();
            offset += usize::from(length) + header.unit_length();
            Some(program)
        })
    }

    /// All files of the tables, with their numbers.
    fn paths(&self, header: &Header) -> impl Iterator<Item = (u64, String)> {
        let indices = 0..=header.file_names().len() as u64;
        indices.filter_map(|index| Some((index, self.path(header, index)?)))
    }

    /// The paths of all files, those too of which there is no code.
    pub fn files(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for program in self.programs() {
            found.extend(self.paths(program.header()).map(|(_, path)| path));
        }
        found
    }

    /// The ranges of lines of the files that are wanted.
    pub fn beginnings(&self, wanted: impl Fn(&str) -> bool, first: First) -> Vec<Beginning> {
        let mut found = Vec::new();
        for program in self.programs() {
            let files = self
                .paths(program.header())
                .filter(|(_, path)| wanted(path));
            let files: HashMap<u64, Rc<str>> =
                files.map(|(index, path)| (index, path.into())).collect();
            if files.is_empty() {
                continue;
            }
            let mut rows = program.rows();
            let mut sequence = Sequence::default();
            while let Ok(Some((_, row))) = rows.next_row() {
                let line = row.line().map_or(0, |line| line.get() as u32);
                let file = files.get(&row.file_index()).filter(|_| line > 0);
                let place = file.map(|file| (file.clone(), line));
                let may_begin = row.is_stmt() || first == First::Any;
                sequence.add(row.address(), place, may_begin, &mut found);
                if row.end_sequence() {
                    sequence = Sequence::default();
                }
            }
        }
        found
    }

    fn text(&self, value: AttributeValue<Data>) -> Option<String> {
        let text = match value {
            AttributeValue::String(text) => text,
            AttributeValue::DebugStrRef(offset) => self.strings.get_str(offset).ok()?,
            AttributeValue::DebugLineStrRef(offset) => self.line_strings.get_str(offset).ok()?,
            _ => return None,
        };
        text.to_string_lossy().ok().map(Cow::into_owned)
    }

    /// The path of a file, as addr2line has it.
    fn path(&self, header: &Header, index: u64) -> Option<String> {
        let file = header.file(index)?;
        let mut path = self.text(file.path_name())?;
        let mut directories = vec![file.directory_index()];
        // Since version 5 other directories are in the first one.
        directories.extend((header.version() >= 5 && file.directory_index() != 0).then_some(0));
        for directory in directories {
            let directory = header.directory(directory).and_then(|one| self.text(one));
            if let Some(directory) = directory.filter(|_| !path.starts_with('/')) {
                path = format!("{directory}/{path}");
            }
        }
        Some(path)
    }
}

type Place = Option<(Rc<str>, u32)>;

/// Rows of code that lies together.
#[derive(Default)]
struct Sequence {
    /// The line of the last row, and whether its beginning has been found.
    last: Option<(Place, bool)>,
}

impl Sequence {
    fn add(&mut self, at: u64, place: Place, may_begin: bool, found: &mut Vec<Beginning>) {
        let is_found = match self.last.take() {
            Some((last, is_found)) if last == place => is_found,
            _ => false,
        };
        if let (Some((file, line)), true, false) = (&place, may_begin, is_found) {
            let (file, line) = (file.clone(), *line);
            found.push(Beginning { file, line, at });
        }
        self.last = Some((place, is_found || may_begin));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_begins_once_where_a_debugger_may_stop() {
        let file: Rc<str> = "f.c".into();
        let mut sequence = Sequence::default();
        let mut found = Vec::new();
        for (at, line, is_stmt) in [
            (0x10, 1, true),
            (0x10, 2, true),
            (0x14, 2, true),
            (0x18, 3, false),
            (0x1c, 3, true),
            (0x20, 2, false),
            (0x24, 4, true),
            (0x28, 0, true),
            (0x2c, 4, true),
        ] {
            let place = Some((file.clone(), line)).filter(|_| line > 0);
            sequence.add(at, place, is_stmt, &mut found);
        }
        let found: Vec<(u64, u32)> = found.iter().map(|one| (one.at, one.line)).collect();
        assert_eq!(
            found,
            [(0x10, 1), (0x10, 2), (0x1c, 3), (0x24, 4), (0x2c, 4)]
        );
    }
}
