// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel from an image of its memory: an ELF core, as kdump's /proc/vmcore, QEMU's
//! `dump-guest-memory`, or /proc/kcore; or a compressed dump ([`kdump`]).
//!
//! The note VMCOREINFO, which the kernel has written, says where the kernel's text begins, and where
//! that lies in physical memory (kernel/vmcore_info.c, arch/x86/kernel/vmcore_info_64.c). The names
//! are the kernel's own ([`crate::kallsyms`]), from its memory. Its modules are found by its own
//! types ([`types`], [`modules`]), and their memory by its page tables ([`pages`]). Translated BPF
//! programs are not read.
//!
//! Everything in the file may be wrong. What lies in no part of it reads as nothing.

mod modules;
mod pages;
mod types;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::image::{Error, Image};
use crate::kallsyms;
use crate::kdump::{self, Kdump};
use crate::running::{self, Memory, Names};
use pages::Tables;
use types::Types;

/// The kernel's text is mapped from here on (`__START_KERNEL_map`), for so many bytes at the most;
/// the note says how many (`KERNEL_IMAGE_SIZE`). Modules follow.
const KERNEL_MAP: u64 = 0xffff_ffff_8000_0000;
const KERNEL_MAP_SIZE: u64 = 1 << 30;
/// Its text and read-only data are not larger.
const MOST_KERNEL: usize = 96 << 20;
/// Nor are its types.
const MOST_TYPES: usize = 32 << 20;
/// Neither is a note.
const MOST_NOTES: usize = 1 << 22;
/// There are no more parts. An image with virtual addresses has one for each range of pages that
/// lie behind each other in both.
const MOST_PARTS: usize = 1 << 20;
/// The number of parts if it stands elsewhere: in the field of the first section that otherwise
/// belongs to its kind (PN_XNUM, elf(5)).
const ELSEWHERE: u16 = 0xffff;
const NUMBER_ELSEWHERE: u64 = 44;
const PAGE: usize = 4096;
/// Of an ELF header, and of an entry of its table of parts.
const HEADER: usize = 64;
const ENTRY: usize = 56;
const ET_CORE: u16 = 4;
const EM_X86_64: u16 = 62;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;

/// A part of memory, and its place in the file. What has no virtual address has 0.
#[derive(Debug, Clone, Copy)]
struct Part {
    offset: u64,
    virt: u64,
    phys: u64,
    size: u64,
}

/// Where the bytes are.
#[derive(Debug)]
enum Bytes {
    /// In an ELF core, as its parts say.
    Elf(File),
    /// By physical addresses.
    Kdump(Box<Kdump>),
}

/// The open file.
#[derive(Debug)]
pub struct Core {
    bytes: Bytes,
    /// Parts that have a virtual address.
    mapped: Parts,
    /// All parts, by their physical addresses.
    physical: Parts,
    info: HashMap<String, String>,
    phys_base: i64,
    kernel_map_size: u64,
    /// The kernel's page tables, where the note says where they are.
    tables: Option<Tables>,
}

/// What an image is without, of the modules that the kernel had, and why.
pub type WithoutModules = Option<Error>;

/// Do these bytes begin an image of memory? The first 64 tell.
pub fn is_image(head: &[u8]) -> bool {
    is_core(head) || kdump::is_kdump(head)
}

fn is_core(head: &[u8]) -> bool {
    head.starts_with(b"\x7fELF\x02\x01")
        && u16_at(head, 16) == Some(ET_CORE)
        && u16_at(head, 18) == Some(EM_X86_64)
}

/// Reads as much of a range as there is.
fn read_some(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut done = 0;
    while done < length {
        match file.read_at(&mut bytes[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

impl Core {
    /// Reads the headers of a file that [`is_image`].
    ///
    /// # Errors
    /// It cannot be read, or has no VMCOREINFO.
    pub fn open(file: File) -> Result<Core, Error> {
        let failed = |error: io::Error| Error(error.to_string());
        let head = read_some(&file, 0, HEADER).map_err(failed)?;
        let mut core = match kdump::is_kdump(&head) {
            true => Core::compressed(Kdump::open(file)?),
            false => Core::elf(file, &head)?,
        };
        if core.info.is_empty() {
            return Err(Error(
                "no note VMCOREINFO is in it, which says where the kernel is: QEMU writes it for a \
                 machine that has `-device vmcoreinfo`"
                    .into(),
            ));
        }
        let base = core.info.get("NUMBER(phys_base)");
        let base = base.and_then(|text| text.parse().ok());
        core.phys_base = base.unwrap_or(core.phys_base);
        let size = core.info.get("NUMBER(KERNEL_IMAGE_SIZE)");
        let size = size.and_then(|text| text.parse().ok());
        core.kernel_map_size = size.map_or(KERNEL_MAP_SIZE, |size: u64| size.min(KERNEL_MAP_SIZE));
        core.tables = core.page_tables();
        Ok(core)
    }

    fn of(bytes: Bytes, phys_base: i64) -> Core {
        Core {
            bytes,
            mapped: Parts::default(),
            physical: Parts::default(),
            info: HashMap::new(),
            phys_base,
            kernel_map_size: KERNEL_MAP_SIZE,
            tables: None,
        }
    }

    fn compressed(dump: Kdump) -> Core {
        let (info, phys_base) = (pairs(dump.info()), dump.phys_base());
        let mut core = Core::of(Bytes::Kdump(Box::new(dump)), phys_base);
        core.info = info;
        core
    }

    fn elf(file: File, head: &[u8]) -> Result<Core, Error> {
        let failed = |error: io::Error| Error(error.to_string());
        if !is_core(head) {
            return Err(Error("not an image of memory (ELF core) of x86-64".into()));
        }
        let (Some(at), Some(number)) = (u64_at(head, 32), number_of_parts(&file, head)) else {
            return Err(Error("cut short".into()));
        };
        let table = read_some(&file, at, MOST_PARTS.min(number) * ENTRY).map_err(failed)?;
        let mut notes = HashMap::new();
        let mut physical = Vec::new();
        for entry in table.chunks_exact(ENTRY) {
            match part(entry) {
                (Some(PT_LOAD), part) => physical.push(part),
                (Some(PT_NOTE), part) => {
                    let length = usize::try_from(part.size).unwrap_or(MOST_NOTES);
                    let bytes = read_some(&file, part.offset, MOST_NOTES.min(length));
                    let text = info(&bytes.unwrap_or_default());
                    notes.extend(text.map(|text| pairs(&text)).unwrap_or_default());
                }
                _ => {}
            }
        }
        let mut core = Core::of(Bytes::Elf(file), 0);
        core.info = notes;
        let mut mapped = physical.clone();
        mapped.retain(|part| part.virt != 0);
        core.mapped = Parts::of(mapped, |part| part.virt);
        core.physical = Parts::of(physical, |part| part.phys);
        Ok(core)
    }

    /// The kernel's build id, in hexadecimal; empty where the file does not say it.
    pub fn build_id(&self) -> String {
        self.info.get("BUILD-ID").cloned().unwrap_or_default()
    }

    /// What the note says of the page tables (arch/x86/kernel/vmcore_info_64.c).
    fn page_tables(&self) -> Option<Tables> {
        let number = |name: &str| self.info.get(&format!("NUMBER({name})"));
        let is_five = number("pgtable_l5_enabled").is_some_and(|text| text == "1");
        let mask = number("sme_mask").and_then(|text| text.parse().ok());
        Some(Tables {
            top: self.phys(self.symbol("init_top_pgt")?, PAGE as u64)?,
            levels: if is_five { 5 } else { 4 },
            mask: mask.unwrap_or(0),
        })
    }

    /// The address of one of the few symbols that the note has.
    fn symbol(&self, name: &str) -> Option<u64> {
        let text = self.info.get(&format!("SYMBOL({name})"))?;
        u64::from_str_radix(text, 16).ok()
    }

    /// The physical address of bytes of the kernel's own text and data.
    fn phys(&self, address: u64, length: u64) -> Option<u64> {
        let offset = address.checked_sub(KERNEL_MAP)?;
        let is_kernel = offset.checked_add(length)? <= self.kernel_map_size;
        let phys = offset.checked_add_signed(self.phys_base)?;
        is_kernel.then_some(phys)
    }

    /// Fills bytes, if all of them are there.
    fn fill(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.fill_mapped(address, bytes)
            || match self.phys(address, bytes.len() as u64) {
                Some(phys) => self.fill_physical(phys, bytes),
                None => self.fill_pages(address, bytes),
            }
    }

    /// From a part with virtual addresses that holds all of them.
    fn fill_mapped(&self, address: u64, bytes: &mut [u8]) -> bool {
        let place = self.mapped.place(address, bytes.len() as u64);
        match (&self.bytes, place) {
            (Bytes::Elf(file), Some(place)) => file.read_exact_at(bytes, place).is_ok(),
            _ => false,
        }
    }

    /// From a part of physical memory that holds all of them.
    fn fill_physical(&self, phys: u64, bytes: &mut [u8]) -> bool {
        match &self.bytes {
            Bytes::Elf(file) => {
                let place = self.physical.place(phys, bytes.len() as u64);
                place.is_some_and(|place| file.read_exact_at(bytes, place).is_ok())
            }
            Bytes::Kdump(dump) => dump.read(phys, bytes).is_ok(),
        }
    }

    /// Page by page, as the page tables say.
    fn fill_pages(&self, address: u64, bytes: &mut [u8]) -> bool {
        let Some(tables) = self.tables else {
            return false;
        };
        let entry = |at: u64| {
            let mut entry = [0; 8];
            let is_read = self.fill_physical(at, &mut entry);
            is_read.then(|| u64::from_le_bytes(entry))
        };
        let length = bytes.len();
        let mut done = 0;
        for (at, part) in pages::parts(address, length) {
            let Some(phys) = tables.physical(at, entry) else {
                return false;
            };
            done = part.end;
            if !self.fill_physical(phys, &mut bytes[part]) {
                return false;
            }
        }
        done == length
    }

    /// The image of its kernel with its modules, and what it is without.
    ///
    /// # Errors
    /// The note does not say where the kernel is, or its text or names are not in the file.
    pub fn image(&mut self) -> Result<(Image, WithoutModules), Error> {
        let begin = self.symbol("_stext");
        let Some(begin) = begin.filter(|begin| *begin >= KERNEL_MAP) else {
            return Err(Error(
                "VMCOREINFO does not say where the kernel's text is".into(),
            ));
        };
        let begin = begin & !(PAGE as u64 - 1);
        let most = usize::try_from(u64::MAX - begin).unwrap_or(0);
        let data = self.bulk(begin, MOST_KERNEL.min(most));
        let Some(data) = data else {
            return Err(Error("the kernel's text is not in it".into()));
        };
        let all = kallsyms::read(&data, begin)?;
        drop(data);
        let address = |name: &str| {
            let found = all.iter().find(|entry| entry.symbol.name == name);
            found.map(|entry| entry.symbol.address)
        };
        let places = [
            address("modules"),
            address("__start_BTF"),
            address("__stop_BTF"),
        ];
        let mut names = Names::of(all);
        let (modules, without) = match self.modules(places, &mut names) {
            Ok(found) => (found.modules, found.without),
            Err(error) => (Vec::new(), Some(error)),
        };
        Ok((running::image(names, &modules, self)?, without))
    }

    /// Its modules, by where the list of them is, and where the kernel's types begin and end.
    fn modules(
        &mut self,
        [list, begin, end]: [Option<u64>; 3],
        names: &mut Names,
    ) -> Result<modules::Found, Error> {
        let (Some(list), Some(begin), Some(end)) = (list, begin, end) else {
            return Err(Error(
                "without modules: the kernel has no list of them, or no BTF".into(),
            ));
        };
        let length = usize::try_from(end.wrapping_sub(begin)).unwrap_or(usize::MAX);
        let bytes = self.bulk(begin, length.min(MOST_TYPES));
        let types = bytes.and_then(|bytes| Types::read(&bytes));
        let none = || Error("without modules: the kernel's types (BTF) make no sense".into());
        let types = types.ok_or_else(none)?;
        modules::read(&types, list, self, names)
    }
}

impl Memory for Core {
    fn read(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.fill(address, &mut bytes).then_some(bytes)
    }

    fn bulk(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        if self.fill_mapped(address, &mut bytes) {
            return Some(bytes);
        }
        let mut is_any = false;
        for (at, part) in pages::parts(address, length) {
            let page = &mut bytes[part];
            match self.fill(at, page) {
                true => is_any = true,
                false => page.fill(0),
            }
        }
        is_any.then_some(bytes)
    }
}

/// An entry of the table of parts: its kind, and what it says.
fn part(entry: &[u8]) -> (Option<u32>, Part) {
    let field = |at| u64_at(entry, at).unwrap_or(0);
    let part = Part {
        offset: field(8),
        virt: field(16),
        phys: field(24),
        size: field(32),
    };
    (u32_at(entry, 0), part)
}

/// The lines of VMCOREINFO.
fn pairs(text: &str) -> HashMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let lines = lines.map(|(name, value)| (name.to_owned(), value.to_owned()));
    lines.collect()
}

/// How many parts a file has.
fn number_of_parts(file: &File, head: &[u8]) -> Option<usize> {
    let number = u16_at(head, 56)?;
    if number != ELSEWHERE {
        return Some(number.into());
    }
    let section = u64_at(head, 40)?.checked_add(NUMBER_ELSEWHERE)?;
    let bytes = read_some(file, section, 4).ok()?;
    Some(u32_at(&bytes, 0)? as usize)
}

/// Parts by the addresses at which they begin.
#[derive(Debug, Default)]
struct Parts {
    /// In the order of beginnings: where one begins, where it is in the file, its size.
    all: Vec<(u64, u64, u64)>,
    /// Of each, which of those up to it reaches farthest. Parts may overlap: the same memory may be
    /// mapped twice.
    farthest: Vec<usize>,
}

impl Parts {
    fn of(mut parts: Vec<Part>, begin: fn(&Part) -> u64) -> Parts {
        parts.sort_by_key(begin);
        let all = parts
            .iter()
            .map(|part| (begin(part), part.offset, part.size));
        let all: Vec<(u64, u64, u64)> = all.collect();
        let end = |index: usize| all[index].0.saturating_add(all[index].2);
        let mut last = 0;
        let farthest = (0..all.len()).map(|index| {
            if end(index) >= end(last) {
                last = index;
            }
            last
        });
        let farthest = farthest.collect();
        Parts { all, farthest }
    }

    /// Where bytes are in the file, if one part holds all of them.
    fn place(&self, address: u64, length: u64) -> Option<u64> {
        let behind = self.all.partition_point(|part| part.0 <= address);
        let (begin, offset, size) = self.all[self.farthest[behind.checked_sub(1)?]];
        let inside = address - begin;
        let is_inside = inside.checked_add(length)? <= size;
        offset.checked_add(inside).filter(|_| is_inside)
    }
}

/// The text of VMCOREINFO among notes.
fn info(notes: &[u8]) -> Option<String> {
    let mut at = 0_usize;
    loop {
        let name_size = u32_at(notes, at)? as usize;
        let size = u32_at(notes, at.checked_add(4)?)? as usize;
        let name_at = at.checked_add(12)?;
        let data_at = name_at.checked_add(name_size.checked_next_multiple_of(4)?)?;
        let name = notes.get(name_at..name_at.checked_add(name_size)?)?;
        if name.starts_with(b"VMCOREINFO") {
            let end = data_at.checked_add(size)?.min(notes.len());
            return Some(String::from_utf8_lossy(notes.get(data_at..end)?).into_owned());
        }
        at = data_at.checked_add(size.checked_next_multiple_of(4)?)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: u64 = 0xffff_ffff_8120_0000;
    const PHYS_BASE: u64 = 0x10_0000;

    /// A file of these parts, virtual and physical address and bytes, and a note.
    fn file(parts: &[(u64, u64, &[u8])], note: &str) -> Vec<u8> {
        let name = b"VMCOREINFO\0\0";
        let mut notes = Vec::new();
        // Another note stands before it.
        notes.extend([5_u32, 3, 1].map(u32::to_le_bytes).concat());
        notes.extend(b"CORE\0\0\0\0abc\0");
        notes.extend([11, note.len() as u32, 0].map(u32::to_le_bytes).concat());
        notes.extend(name);
        notes.extend(note.as_bytes());
        let mut head = vec![0; HEADER];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[16..18].copy_from_slice(&ET_CORE.to_le_bytes());
        head[18..20].copy_from_slice(&EM_X86_64.to_le_bytes());
        head[32..40].copy_from_slice(&(HEADER as u64).to_le_bytes());
        let number = parts.len() + 1;
        let mut data: Vec<u8> = Vec::new();
        let begin = HEADER + number * ENTRY;
        match u16::try_from(number)
            .ok()
            .filter(|number| *number < ELSEWHERE)
        {
            Some(number) => head[56..58].copy_from_slice(&number.to_le_bytes()),
            None => {
                head[40..48].copy_from_slice(&(begin as u64).to_le_bytes());
                head[56..58].copy_from_slice(&ELSEWHERE.to_le_bytes());
                data.resize(64, 0);
                data[44..48].copy_from_slice(&(number as u32).to_le_bytes());
            }
        }
        let all = [(PT_NOTE, 0, 0, notes.as_slice())];
        let loads = parts
            .iter()
            .map(|(virt, phys, bytes)| (PT_LOAD, *virt, *phys, *bytes));
        for (kind, virt, phys, bytes) in all.into_iter().chain(loads) {
            let mut entry = kind.to_le_bytes().to_vec();
            entry.extend([0; 4]);
            let offset = (begin + data.len()) as u64;
            let size = bytes.len() as u64;
            entry.extend(
                [offset, virt, phys, size, size, 0]
                    .map(u64::to_le_bytes)
                    .concat(),
            );
            head.extend(entry);
            data.extend(bytes);
        }
        head.extend(data);
        head
    }

    fn open(bytes: &[u8]) -> Result<Core, Error> {
        let name = format!("jifl-vmcore-{}-{:p}", std::process::id(), bytes);
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        let core = Core::open(File::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        core
    }

    fn note() -> String {
        format!(
            "OSRELEASE=6.1\nBUILD-ID=abcd\nSYMBOL(_stext)={TEXT:x}\nNUMBER(phys_base)={PHYS_BASE}\n"
        )
    }

    #[test]
    fn memory_is_found_by_virtual_and_by_physical_addresses() {
        let phys = TEXT - KERNEL_MAP + PHYS_BASE;
        for (virt, phys) in [(TEXT, 0), (0, phys)] {
            let mut core = open(&file(&[(virt, phys, &[1, 2, 3, 4])], &note())).unwrap();
            assert_eq!(core.build_id(), "abcd");
            assert_eq!(core.read(TEXT + 1, 3), Some(vec![2, 3, 4]));
            assert_eq!(core.read(TEXT + 1, 4), None);
            assert_eq!(core.read(u64::MAX, 4), None);
            assert_eq!(core.bulk(TEXT - PAGE as u64, 2 * PAGE), None);
        }
        let bytes = [7; PAGE];
        let mut core = open(&file(&[(TEXT, 0, &bytes)], &note())).unwrap();
        let found = core.bulk(TEXT - PAGE as u64, 2 * PAGE).unwrap();
        assert_eq!((found[0], found[PAGE]), (0, 7));
        assert!(core.image().unwrap_err().0.contains("no symbols"));
    }

    #[test]
    fn compressed_dumps_are_read_by_physical_addresses() {
        let phys = TEXT - KERNEL_MAP + PHYS_BASE;
        let page = |number, byte| (number, [byte; PAGE]);
        let first = phys / PAGE as u64;
        let dump = kdump::tests::dump(&[page(first, 7), page(first + 1, 8)], &note());
        assert!(is_image(&dump[..64]));
        let mut core = Core::open(kdump::tests::opened(&dump)).unwrap();
        assert_eq!(core.build_id(), "abcd");
        assert_eq!(core.read(TEXT + PAGE as u64 - 1, 2), Some(vec![7, 8]));
        assert_eq!(core.read(TEXT - 1, 2), None);
        let found = core.bulk(TEXT - PAGE as u64, 2 * PAGE).unwrap();
        assert_eq!((found[0], found[PAGE]), (0, 7));
        assert!(core.image().is_err());
        let without = kdump::tests::dump(&[page(first, 7)], "");
        let error = Core::open(kdump::tests::opened(&without)).unwrap_err();
        assert!(error.0.contains("VMCOREINFO"), "{error}");
    }

    #[test]
    fn parts_are_found_among_many() {
        // Each page is a part, as where the kernel's pages do not lie behind each other.
        let pages: Vec<[u8; 4]> = (0..70_000).map(|page: u32| [page as u8; 4]).collect();
        let part = |(page, bytes): (usize, &'_ [u8; 4])| (TEXT + 4 * page as u64, 0, *bytes);
        let pages: Vec<(u64, u64, [u8; 4])> = pages.iter().enumerate().rev().map(part).collect();
        let parts = pages
            .iter()
            .map(|(virt, phys, bytes)| (*virt, *phys, &bytes[..]));
        let parts: Vec<(u64, u64, &[u8])> = parts.collect();
        let core = |bytes: &[u8]| open(bytes).unwrap();
        let mut few = core(&file(&parts[..60_000], &note()));
        assert_eq!(few.read(TEXT + 4 * 60_001 + 1, 3), Some(vec![97; 3]));
        assert_eq!(few.read(TEXT + 4 * 60_001 + 1, 4), None);
        assert_eq!(few.read(TEXT, 4), None);
        let mut many = core(&file(&parts, &note()));
        assert_eq!(many.read(TEXT, 4), Some(vec![0; 4]));
        assert_eq!(many.bulk(TEXT + 4, 4), Some(vec![1; 4]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let whole = file(&[(TEXT, 0, &[1; 64])], &note());
        assert!(is_core(&whole) && !is_core(&whole[..10]));
        for length in 0..whole.len() {
            if let Ok(mut core) = open(&whole[..length]) {
                assert!(core.image().is_err(), "{length}");
            }
        }
        let without = open(&file(&[(TEXT, 0, &[1; 64])], "")).unwrap_err();
        assert!(without.0.contains("VMCOREINFO"), "{without}");
        for text in [
            "SYMBOL(_stext)=x\n",
            "SYMBOL(_stext)=10\n",
            "SYMBOL(_stext)=ffffffffffffffff\nNUMBER(phys_base)=-9223372036854775808\n",
        ] {
            let mut core = open(&file(&[(TEXT, 0, &[1; 64])], text)).unwrap();
            assert!(core.image().is_err(), "{text}");
        }
        // Random bytes in the headers.
        let mut state = 1_u64;
        for _ in 0..300 {
            let mut spoilt = whole.clone();
            for _ in 0..4 {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let end = spoilt.len() - 64;
                spoilt[20 + (state >> 33) as usize % (end - 20)] = (state >> 20) as u8;
            }
            if let Ok(mut core) = open(&spoilt) {
                _ = core.image();
            }
        }
    }
}
