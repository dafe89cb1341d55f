// SPDX-License-Identifier: MIT OR Apache-2.0
//! Physical memory in a file: which addresses are in it, and where.
//!
//! A compressed dump has no places of addresses: its pages are read by the crate jifl-code.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use jifl_code::kdump::{self, Kdump};
use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};

use crate::base::exit::Failure;

/// What files begin with that have memory in another form, and what can be done about it.
const OTHERS: [(&[u8], &str); 2] = [
    (
        jifl_sys::abi::FLIGHT_MAGIC,
        "it is a copy of a recording already: `jifl flight show FILE` and `stats FILE` read it",
    ),
    (
        b"DISKDUMP",
        "it is a dump of diskdump, which is not read: read /proc/vmcore directly, in the kernel \
         that kdump starts",
    ),
];

/// A range of addresses that lie behind each other in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The first address.
    pub address: u64,
    /// Where it is in the file.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// Where the bytes are.
#[derive(Debug)]
enum Bytes {
    File(File),
    Kdump(Box<Kdump>),
}

/// The memory.
#[derive(Debug)]
pub struct Physical {
    bytes: Bytes,
    /// By address; none overlaps the one before it.
    parts: Vec<Part>,
    /// Addresses whose bytes are zeroes, unless a part has them; by address, and apart.
    zeroes: Vec<Range<u64>>,
}

/// A part of an ELF core, and the addresses behind it that it has without bytes.
type Load = (Part, Range<u64>);

impl Physical {
    /// Opens an image: an ELF core; `raw`: a flat file from address 0 on.
    ///
    /// # Errors
    /// It is none, or of a form that is not read.
    pub fn open(path: &Path, raw: bool) -> Result<Physical, Failure> {
        let failed =
            |why: &dyn std::fmt::Display| Failure::failed(format!("{}: {why}", path.display()));
        let file = File::open(path).map_err(|error| failed(&error))?;
        let mut begin = [0; 16];
        let length = read_some(&file, &mut begin).map_err(|error| failed(&error))?;
        let begin = &begin[..length];
        // A device says where its end is, and not how long it is.
        let size = kdump::length(&file).map_err(|error| failed(&error))?;
        let is_file = file.metadata().is_ok_and(|about| about.is_file());
        if size == 0 && !is_file {
            return Err(failed(&"its size is not known: copy it to a file"));
        }
        let other = OTHERS.iter().find(|(magic, _)| begin.starts_with(magic));
        if let Some((_, way_out)) = other.filter(|_| !raw) {
            return Err(failed(way_out));
        }
        if raw {
            let all = Part {
                address: 0,
                offset: 0,
                size,
            };
            return Ok(Physical::of(file, vec![all]));
        }
        if kdump::is_kdump(begin) {
            let dump = Kdump::open(file).map_err(|error| failed(&error))?;
            let part = |range: std::ops::Range<u64>| Part {
                address: range.start,
                offset: range.start,
                size: range.end - range.start,
            };
            return Ok(Physical {
                parts: dump.ranges().into_iter().map(part).collect(),
                zeroes: Vec::new(),
                bytes: Bytes::Kdump(Box::new(dump)),
            });
        }
        if !begin.starts_with(b"\x7fELF") {
            return Err(failed(
                &"it is no ELF core: if it is a flat copy of physical memory, give --raw; of other \
                  dumps make an ELF core (QEMU: `dump-guest-memory FILE`)",
            ));
        }
        let loads = loads(&file).map_err(|why| failed(&format!("a damaged ELF core: {why}")))?;
        let (parts, zeroes): (Vec<Part>, Vec<_>) = loads.into_iter().unzip();
        Ok(Physical {
            zeroes: joined(zeroes),
            ..Physical::of(file, parts)
        })
    }

    /// Memory of these parts. Of addresses that several have, the first one's are taken.
    /// Nothing is behind the file's end, whatever they say.
    pub fn of(file: File, mut parts: Vec<Part>) -> Physical {
        let length = kdump::length(&file).unwrap_or(0);
        for part in &mut parts {
            part.size = part.size.min(length.saturating_sub(part.offset));
        }
        parts.retain(|part| {
            let ends = [part.address, part.offset].map(|from| from.checked_add(part.size));
            part.size > 0 && ends.iter().all(Option::is_some)
        });
        parts.sort_by_key(|part| (part.address, part.offset));
        let mut apart: Vec<Part> = Vec::new();
        for mut part in parts {
            let end = apart.last().map_or(0, |last| last.address + last.size);
            let over = end.saturating_sub(part.address);
            if over >= part.size {
                continue;
            }
            part.address += over;
            part.offset += over;
            part.size -= over;
            apart.push(part);
        }
        Physical {
            bytes: Bytes::File(file),
            parts: apart,
            zeroes: Vec::new(),
        }
    }

    /// All parts, by address.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Reads bytes from an address on.
    ///
    /// # Errors
    /// The image does not have them all.
    pub fn read(&self, mut address: u64, mut room: &mut [u8]) -> io::Result<()> {
        while !room.is_empty() {
            let behind = self.parts.partition_point(|part| part.address <= address);
            let part = behind.checked_sub(1).map(|index| self.parts[index]);
            let part = part.filter(|part| address - part.address < part.size);
            let end = match part {
                Some(part) => part.address + part.size,
                None => self.zeroes_end(address, behind)?,
            };
            let length = (room.len() as u64).min(end - address) as usize;
            let (now, rest) = room.split_at_mut(length);
            match (part, &self.bytes) {
                (None, _) => now.fill(0),
                (Some(part), Bytes::File(file)) => {
                    file.read_exact_at(now, part.offset + (address - part.address))?;
                }
                (Some(_), Bytes::Kdump(dump)) => dump.read(address, now)?,
            }
            room = rest;
            address += length as u64;
        }
        Ok(())
    }
}

impl Physical {
    /// Up to where bytes are zeroes from an address on, which no part has; `next`: the index of the
    /// part behind it.
    fn zeroes_end(&self, address: u64, next: usize) -> io::Result<u64> {
        let behind = self.zeroes.partition_point(|range| range.start <= address);
        let range = behind.checked_sub(1).map(|index| &self.zeroes[index]);
        let range = range.filter(|range| address < range.end);
        let end = range.ok_or(io::ErrorKind::UnexpectedEof)?.end;
        let next = self.parts.get(next).map_or(u64::MAX, |part| part.address);
        Ok(end.min(next))
    }
}

/// Ranges that neither overlap nor touch, by address.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, range| {
        let is_one = next.start <= range.end;
        if is_one {
            range.end = range.end.max(next.end);
        }
        is_one
    });
    ranges
}

/// As much as there is.
fn read_some(file: &File, room: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < room.len() {
        match file.read_at(&mut room[done..], done as u64) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The loaded parts of an ELF core, by their physical addresses.
fn loads(file: &File) -> Result<Vec<Load>, String> {
    let wrong = |error: object::Error| error.to_string();
    let cache = ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(&cache).map_err(wrong)?;
    let endian = header.endian().map_err(wrong)?;
    if endian != Endianness::Little || header.e_machine(endian) != object::elf::EM_X86_64 {
        return Err("it is not of x86-64".into());
    }
    let headers = header.program_headers(endian, &cache).map_err(wrong)?;
    let loads = headers.iter().filter(|one| one.p_type(endian) == PT_LOAD);
    let parts: Vec<Load> = loads
        .map(|one| {
            let (address, size) = (one.p_paddr(endian), one.p_filesz(endian));
            let part = Part {
                address,
                offset: one.p_offset(endian),
                size,
            };
            let ends = [size, one.p_memsz(endian)].map(|size| address.saturating_add(size));
            (part, ends[0]..ends[1])
        })
        .collect();
    match parts.is_empty() {
        true => Err("it has no part of memory".into()),
        false => Ok(parts),
    }
}
