// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's memory as it is now, through /proc/kcore.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::base::exit::Failure;

const PATH: &str = "/proc/kcore";
/// Size of the pieces in which it is read, each once.
const PIECE: u64 = 4096;

/// A source of code.
pub trait Memory {
    /// `length` bytes from an address on; `None` if they cannot be read.
    fn read(&mut self, address: u64, length: usize) -> Option<Vec<u8>>;
}

/// Bytes in this process, from an address on.
impl Memory for (u64, Vec<u8>) {
    fn read(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let from = usize::try_from(address.checked_sub(self.0)?).ok()?;
        let to = from.checked_add(length)?;
        self.1.get(from..to).map(<[u8]>::to_vec)
    }
}

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
        let cannot = |why: String| {
            Failure::cannot(format!(
                "{PATH}: {why}: the kernel's code is decoded from there: be root (CAP_SYS_RAWIO), \
                 with /proc mounted and without lockdown"
            ))
        };
        let file = File::open(PATH).map_err(|error| cannot(error.to_string()))?;
        let mut head = vec![0; PIECE as usize];
        let length = file
            .read_at(&mut head, 0)
            .map_err(|error| cannot(error.to_string()))?;
        let segments = segments(&head[..length]);
        if segments.is_empty() {
            return Err(cannot("no memory is in it".into()));
        }
        Ok(Kcore {
            file,
            segments,
            pieces: HashMap::new(),
        })
    }

    /// A large range at once, which is not kept. What cannot be read in it is zeros; `None` if
    /// none of it can be read.
    pub fn bulk(&self, address: u64, length: usize) -> Option<Vec<u8>> {
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
        let (file, segments) = (&self.file, &self.segments);
        let piece = self
            .pieces
            .entry(address)
            .or_insert_with(|| read_piece(file, segments, address));
        piece.as_deref()
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
}

fn read_piece(file: &File, segments: &[Segment], address: u64) -> Option<Vec<u8>> {
    let end = address.checked_add(PIECE)?;
    let holds = |segment: &&Segment| {
        let behind = segment.address.saturating_add(segment.size);
        segment.address <= address && end <= behind
    };
    let segment = segments.iter().find(holds)?;
    let mut bytes = vec![0; PIECE as usize];
    file.read_exact_at(&mut bytes, segment.offset + (address - segment.address))
        .ok()?;
    Some(bytes)
}

/// The loadable parts, from the beginning of an ELF file.
fn segments(head: &[u8]) -> Vec<Segment> {
    const LOAD: u64 = 1;
    let number = |at: usize, size: usize| {
        let bytes = head.get(at..at + size)?;
        let mut all = [0; 8];
        all[..size].copy_from_slice(bytes);
        Some(u64::from_le_bytes(all))
    };
    let table = || {
        Some((
            number(32, 8)? as usize,
            number(54, 2)? as usize,
            number(56, 2)?,
        ))
    };
    let Some((table, entry, entries)) = table().filter(|_| head.starts_with(b"\x7fELF\x02\x01"))
    else {
        return Vec::new();
    };
    let segment = |index| {
        let at = table + index as usize * entry;
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
        let bulk = |address, length| kcore.bulk(address, length);
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
