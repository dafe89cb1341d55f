// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's memory as it is now, through /proc/kcore.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub use jifl_code::running::Memory;

use crate::base::exit::Failure;

/// Its path below the root.
pub const KCORE: &str = "proc/kcore";
/// Size of the pieces in which it is read, each once.
const PIECE: u64 = 4096;
/// Its headers are not larger. The kernel's own have a page or two.
const MOST: usize = 1 << 16;

/// A part of memory, and its place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    address: u64,
    size: u64,
    offset: u64,
}

/// The open file.
pub struct Kcore {
    file: File,
    segments: Vec<Segment>,
    pieces: HashMap<u64, Option<Vec<u8>>>,
}

impl Kcore {
    /// Opens it.
    ///
    /// # Errors
    /// The kernel does not let its memory be read.
    pub fn open() -> Result<Kcore, Failure> {
        Kcore::of(Path::new("/"))
    }

    /// Opens that of the machine whose files are below `root`.
    ///
    /// # Errors
    /// The kernel does not let its memory be read.
    pub fn of(root: &Path) -> Result<Kcore, Failure> {
        let path = root.join(KCORE);
        let cannot = |why: String| {
            Failure::cannot(format!(
                "{}: {why}: the kernel's code is decoded from there: be root (CAP_SYS_RAWIO), \
                 with /proc mounted and without lockdown",
                path.display()
            ))
        };
        let file = File::open(&path).map_err(|error| cannot(error.to_string()))?;
        let read = |length: usize| {
            let mut head = vec![0; length];
            let length = file.read_at(&mut head, 0);
            head.truncate(length.map_err(|error| cannot(error.to_string()))?);
            Ok(head)
        };
        let mut head = read(PIECE as usize)?;
        let end = table(&head).map_or(0, |(at, size, number)| at + size * number);
        if end > head.len() {
            head = read(end.min(MOST))?;
        }
        let segments = segments(&head);
        if segments.is_empty() {
            return Err(cannot("no memory is in it".into()));
        }
        Ok(Kcore {
            file,
            segments,
            pieces: HashMap::new(),
        })
    }

    fn fill(&self, address: u64, bytes: &mut [u8]) -> bool {
        let Some(end) = address.checked_add(bytes.len() as u64) else {
            return false;
        };
        let holds = |segment: &&Segment| {
            segment.address <= address && end <= segment.address.saturating_add(segment.size)
        };
        self.segments.iter().find(holds).is_some_and(|segment| {
            let offset = segment.offset + (address - segment.address);
            self.file.read_exact_at(bytes, offset).is_ok()
        })
    }

    fn piece(&mut self, address: u64) -> Option<&[u8]> {
        if !self.pieces.contains_key(&address) {
            let mut bytes = vec![0; PIECE as usize];
            let piece = self.fill(address, &mut bytes).then_some(bytes);
            self.pieces.insert(address, piece);
        }
        self.pieces.get(&address)?.as_deref()
    }
}

impl Memory for Kcore {
    fn read(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let at = address.checked_add(bytes.len() as u64)?;
            let skip = (at % PIECE) as usize;
            let piece = self.piece(at - skip as u64)?;
            let end = piece.len().min(skip + length - bytes.len());
            bytes.extend_from_slice(&piece[skip..end]);
        }
        Some(bytes)
    }

    /// What is read is not kept.
    fn bulk(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        if self.fill(address, &mut bytes) {
            return Some(bytes);
        }
        let mut is_any = false;
        for (index, piece) in bytes.chunks_mut(PIECE as usize).enumerate() {
            let is_read = self.fill(address.checked_add(index as u64 * PIECE)?, piece);
            if !is_read {
                piece.fill(0);
            }
            is_any |= is_read;
        }
        is_any.then_some(bytes)
    }
}

fn number(head: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = head.get(at..at + size)?;
    let mut all = [0; 8];
    all[..size].copy_from_slice(bytes);
    Some(u64::from_le_bytes(all))
}

/// The table of its parts: where it is, size of an entry, and how many there are.
fn table(head: &[u8]) -> Option<(usize, usize, usize)> {
    let number = |at, size| Some(number(head, at, size)? as usize);
    head.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let at = number(32, 8)?.min(MOST);
    Some((at, number(54, 2)?, number(56, 2)?))
}

/// The loadable parts, from the beginning of an ELF file.
fn segments(head: &[u8]) -> Vec<Segment> {
    const LOAD: u64 = 1;
    let Some((table, entry, entries)) = table(head) else {
        return Vec::new();
    };
    let number = |at, size| number(head, at, size);
    let segment = |index| {
        let at = table + index * entry;
        Some((
            number(at, 4)?,
            Segment {
                offset: number(at + 8, 8)?,
                address: number(at + 16, 8)?,
                size: number(at + 32, 8)?,
            },
        ))
    };
    let all = (0..entries).map_while(segment);
    all.filter(|(kind, _)| *kind == LOAD)
        .map(|(_, segment)| segment)
        .collect()
}

/// A file in the format of /proc/kcore that has these parts of memory: addresses and bytes.
pub fn core(parts: &[(u64, Vec<u8>)]) -> Vec<u8> {
    const HEADER: usize = 64;
    const ENTRY: usize = 56;
    let mut head = vec![0; HEADER + parts.len() * ENTRY];
    let mut put = |at: usize, number: u64, size: usize| {
        head[at..at + size].copy_from_slice(&number.to_le_bytes()[..size]);
    };
    // e_ident, e_type (core), e_machine (x86-64), e_version, e_phoff, e_ehsize, e_phentsize,
    // e_phnum
    put(0, 0x0001_0102_464c_457f, 8);
    put(16, 4, 2);
    put(18, 62, 2);
    put(20, 1, 4);
    put(32, HEADER as u64, 8);
    put(52, HEADER as u64, 2);
    put(54, ENTRY as u64, 2);
    put(56, parts.len() as u64, 2);
    let mut offset = (HEADER + parts.len() * ENTRY) as u64;
    for (index, (address, bytes)) in parts.iter().enumerate() {
        let (at, length) = (HEADER + index * ENTRY, bytes.len() as u64);
        // p_type (load), p_offset, p_vaddr, p_filesz, p_memsz
        put(at, 1, 4);
        put(at + 8, offset, 8);
        put(at + 16, *address, 8);
        put(at + 32, length, 8);
        put(at + 40, length, 8);
        offset += length;
    }
    let contents = parts.iter().map(|(_, bytes)| bytes.as_slice());
    head.extend(contents.flatten());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loadable_parts_are_found() {
        let mut head = vec![0; 64 + 2 * 56];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[32] = 64;
        head[54] = 56;
        head[56] = 2;
        head[64] = 4; // a note
        head[120] = 1;
        head[128..136].copy_from_slice(&0x3000u64.to_le_bytes());
        head[136..144].copy_from_slice(&0xffff_ffff_8100_0000u64.to_le_bytes());
        head[152..160].copy_from_slice(&0x2000u64.to_le_bytes());
        let segment = Segment {
            address: 0xffff_ffff_8100_0000,
            size: 0x2000,
            offset: 0x3000,
        };
        assert_eq!(segments(&head), [segment]);
        let parts = [(0x1000, vec![1; 3]), (0x5000, vec![2; 4])];
        let file = core(&parts);
        let found = segments(&file);
        for ((address, bytes), segment) in parts.iter().zip(&found) {
            let from = segment.offset as usize;
            assert_eq!(
                (segment.address, &file[from..from + bytes.len()]),
                (*address, &bytes[..])
            );
        }
        assert_eq!(found.len(), 2);
        assert!(segments(&head[..100]).is_empty());
        assert!(segments(b"no ELF").is_empty());
    }

    #[test]
    fn pieces_are_joined_and_what_is_missing_is_none() {
        let path = std::env::temp_dir().join(format!("jifl-kcore-{}", std::process::id()));
        let content: Vec<u8> = (0..2 * PIECE).map(|at| (at / 32) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let mut kcore = Kcore {
            file: File::open(&path).unwrap(),
            segments: vec![Segment {
                address: 0x10000,
                size: 2 * PIECE,
                offset: 0,
            }],
            pieces: HashMap::new(),
        };
        std::fs::remove_file(path).unwrap();
        let mut bulk = |address, length| kcore.bulk(address, length);
        assert_eq!(bulk(0x10003, 20).unwrap(), content[3..23]);
        let mut half = content[PIECE as usize..].to_vec();
        half.resize(2 * PIECE as usize, 0);
        assert_eq!(bulk(0x10000 + PIECE, half.len()).unwrap(), half);
        assert_eq!(bulk(0x9000, 8), None);
        let read = kcore.read(0x10000 + PIECE - 3, 8).unwrap();
        assert_eq!(read, content[PIECE as usize - 3..][..8]);
        assert_eq!(kcore.read(0x10000 + 2 * PIECE - 3, 8), None);
        assert_eq!(kcore.read(0x9000, 8), None);
    }
}
