// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory dumps in the compressed form of kdump: what makedumpfile writes unless it is told `-E`,
//! and, flattened, `makedumpfile -F` and QEMU's `dump-guest-memory` with a kdump format.
//!
//! The form is makedumpfile's (diskdump_mod.h, its IMPLEMENTATION file). Blocks of a page each:
//!
//! 1. The header: how large everything is.
//! 2. The header of kdump: the kernel's physical base, and where the note VMCOREINFO is.
//! 3. Two bitmaps with a bit for each page. The first says which pages the machine had, the second
//!    which are here. If pages of zeros were left out, a page of which only the first knows is taken
//!    for one of these, as crash does.
//! 4. A descriptor for each of these: where its bytes are, how many, and how they are compressed.
//!
//! A flattened file has the same as records, each with the place where it belongs.
//!
//! Everything in the file may be wrong. A page whose bytes make no sense is not there.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use flate2::{Decompress, FlushDecompress, Status};

use crate::bytes;
use crate::image::Error;

const MAGIC: &[u8] = b"KDUMP   ";
const FLATTENED: &[u8] = b"makedumpfile\0";
/// The header of a flattened file is so long, and records are behind it.
const FLATTENED_HEADER: u64 = 4096;
/// A flattened file has no more records.
const MOST_RECORDS: usize = 1 << 24;
/// Pages of x86-64.
const PAGE: u64 = 4096;
/// Where the header names the kind of machine, as uname(2) does. QEMU says that it does not know.
const MACHINE: usize = 12 + 4 * 65;
const MACHINES: [&[u8]; 2] = [b"x86_64\0", b"Unknown\0"];
/// A page's descriptor.
const DESCRIPTOR: u64 = 24;
/// VMCOREINFO is a page or two.
const MOST_INFO: u64 = 1 << 20;
/// There is no more memory than what 52 bits of address tell.
const MOST_PAGES: u64 = 1 << 40;

/// In the dump's level (makedumpfile -d).
const WITHOUT_ZEROS: u32 = 1;

const ZLIB: u32 = 1;
const LZO: u32 = 2;
const SNAPPY: u32 = 4;
const ZSTD: u32 = 0x20;

/// A record of a flattened file: where its bytes belong, where they are, how many.
#[derive(Debug, Clone, Copy)]
struct Record {
    offset: u64,
    place: u64,
    size: u64,
}

/// The file as if it were not flattened.
#[derive(Debug)]
struct Whole {
    file: File,
    /// By where they belong; `None`: it is not flattened.
    records: Option<Vec<Record>>,
}

impl Whole {
    fn open(file: File) -> io::Result<Whole> {
        let mut head = [0; 16];
        let is_flattened = file.read_exact_at(&mut head, 0).is_ok() && head.starts_with(FLATTENED);
        let records = is_flattened.then(|| records(&file)).transpose()?;
        Ok(Whole { file, records })
    }

    fn read(&self, mut offset: u64, mut room: &mut [u8]) -> io::Result<()> {
        let Some(records) = &self.records else {
            return self.file.read_exact_at(room, offset);
        };
        while !room.is_empty() {
            let behind = records.partition_point(|record| record.offset <= offset);
            let record = behind.checked_sub(1).map(|index| records[index]);
            let record = record.filter(|record| offset - record.offset < record.size);
            let record = record.ok_or(io::ErrorKind::UnexpectedEof)?;
            let into = offset - record.offset;
            let length = (room.len() as u64).min(record.size - into) as usize;
            let (now, rest) = room.split_at_mut(length);
            self.file.read_exact_at(now, record.place + into)?;
            room = rest;
            offset += length as u64;
        }
        Ok(())
    }

    fn bytes(&self, offset: u64, length: u64, most: u64) -> Option<Vec<u8>> {
        // No more than there can be is made room for.
        let all = self::length(&self.file).unwrap_or(0);
        if length > most.min(all) {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.read(offset, &mut bytes).is_ok().then_some(bytes)
    }
}

/// The records of a flattened file, up to its end or to where it is cut. A later one that belongs
/// where an earlier one does, takes its place: makedumpfile writes the headers again at its end.
fn records(file: &File) -> io::Result<Vec<Record>> {
    let length = length(file)?;
    let mut all: Vec<Record> = Vec::new();
    let mut at = FLATTENED_HEADER;
    let mut head = [0; 16];
    while all.len() < MOST_RECORDS && file.read_exact_at(&mut head, at).is_ok() {
        let [offset, size] = [0, 8].map(|from| {
            let bytes = head[from..from + 8].try_into().unwrap_or_default();
            u64::try_from(i64::from_be_bytes(bytes)).ok()
        });
        let (Some(offset), Some(size)) = (offset, size) else {
            break;
        };
        let place = at + head.len() as u64;
        let record = Record {
            offset,
            place,
            size: size.min(length.saturating_sub(place)),
        };
        let is_sane = offset.checked_add(size).is_some() && record.size > 0;
        all.extend(is_sane.then_some(record));
        let Some(next) = place.checked_add(size) else {
            break;
        };
        at = next;
    }
    Ok(apart(all))
}

/// Records that do not overlap: of those that do, the parts of the earlier ones that are left.
fn apart(all: Vec<Record>) -> Vec<Record> {
    let mut found: std::collections::BTreeMap<u64, Record> = std::collections::BTreeMap::new();
    for new in all {
        let end = new.offset + new.size;
        // The one before may reach into it, and beyond.
        if let Some(before) = found.range(..new.offset).next_back().map(|(_, one)| *one) {
            let before_end = before.offset + before.size;
            if before_end > new.offset {
                let size = new.offset - before.offset;
                found.insert(before.offset, Record { size, ..before });
            }
            if before_end > end {
                found.insert(end, behind(before, end));
            }
        }
        while let Some(over) = found.range(new.offset..end).next().map(|(_, one)| *one) {
            found.remove(&over.offset);
            if over.offset + over.size > end {
                found.insert(end, behind(over, end));
            }
        }
        found.insert(new.offset, new);
    }
    found.into_values().collect()
}

/// What a record has from a place on.
fn behind(record: Record, from: u64) -> Record {
    let cut = from - record.offset;
    Record {
        offset: from,
        place: record.place + cut,
        size: record.size - cut,
    }
}

/// An open dump.
#[derive(Debug)]
pub struct Kdump {
    whole: Whole,
    /// A bit for each page that is here.
    bitmap: Vec<u64>,
    /// A bit for each page of which something is known: those, and those of zeros.
    memory: Vec<u64>,
    /// How many pages are before those of each word.
    before: Vec<u64>,
    /// Where the descriptors are.
    descriptors: u64,
    info: String,
    phys_base: i64,
    /// The last page that was read: reads are small, and follow each other.
    last: Mutex<Option<(u64, Vec<u8>)>>,
}

/// Bytes of a file, or of a device: that has no length, but an end.
///
/// # Errors
/// Nothing says how many there are.
pub fn length(mut file: &File) -> io::Result<u64> {
    match file.metadata()?.len() {
        0 => file.seek(SeekFrom::End(0)),
        length => Ok(length),
    }
}

/// Do these bytes begin such a dump? The first 16 tell.
pub fn is_kdump(head: &[u8]) -> bool {
    head.starts_with(MAGIC) || head.starts_with(FLATTENED)
}

/// A field that is not there is 0.
fn u32_at(fields: &[u8], at: usize) -> u32 {
    bytes::u32_at(fields, at).unwrap_or(0)
}

fn u64_at(fields: &[u8], at: usize) -> u64 {
    bytes::u64_at(fields, at).unwrap_or(0)
}

impl Kdump {
    /// Reads the headers of a file that [`is_kdump`].
    ///
    /// # Errors
    /// It is cut short, damaged, a part of a dump, or not of x86-64.
    pub fn open(file: File) -> Result<Kdump, Error> {
        let said = |why: &str| Error(why.into());
        let damaged = || said("a compressed dump that is damaged or cut short");
        let whole = Whole::open(file).map_err(|error| Error(error.to_string()))?;
        let header = whole.bytes(0, 464, PAGE).ok_or_else(damaged)?;
        if !header.starts_with(MAGIC) {
            return Err(said("a flattened file, but not of a dump of kdump"));
        }
        let machine = header.get(MACHINE..).unwrap_or_default();
        if !MACHINES.iter().any(|name| machine.starts_with(name)) {
            return Err(said("a dump of another kind of machine than x86-64"));
        }
        let version = u32_at(&header, 8);
        let [block, sub_blocks, bitmap_blocks, most] =
            [428, 432, 436, 440].map(|at| u64::from(u32_at(&header, at)));
        let sub = whole.bytes(PAGE, 104, PAGE).ok_or_else(damaged)?;
        if block != PAGE || version < 3 {
            return Err(said(
                "a compressed dump of a form that is not read: `makedumpfile -E -d 0 FILE NEW` \
                 makes an ELF file of it",
            ));
        }
        if u32_at(&sub, 12) != 0 {
            return Err(said(
                "one part of a dump that is split: `makedumpfile --reassemble PART... NEW` joins \
                 them",
            ));
        }
        let most = if version < 6 { most } else { u64_at(&sub, 96) };
        let bitmap_at = PAGE * (1 + sub_blocks);
        let half = bitmap_blocks * PAGE / 2;
        if most > MOST_PAGES || most.div_ceil(8) > half {
            return Err(damaged());
        }
        let length = most.div_ceil(64) * 8;
        let words = |at: u64| {
            let mut bytes = whole.bytes(at, length.min(half), u64::MAX)?;
            bytes.resize(length as usize, 0);
            let words = bytes.chunks_exact(8).map(|word| u64_at(word, 0));
            let mut words: Vec<u64> = words.collect();
            // Bits of pages that there cannot be.
            if let Some(last) = words.last_mut().filter(|_| most % 64 != 0) {
                *last &= !(u64::MAX << (most % 64));
            }
            Some(words)
        };
        let bitmap = words(bitmap_at + half).ok_or_else(damaged)?;
        let mut memory = bitmap.clone();
        if u32_at(&sub, 8) & WITHOUT_ZEROS != 0 {
            let first = words(bitmap_at).ok_or_else(damaged)?;
            memory
                .iter_mut()
                .zip(first)
                .for_each(|(word, more)| *word |= more);
        }
        let mut sum = 0;
        let count = |word: &u64| {
            let before = sum;
            sum += u64::from(word.count_ones());
            before
        };
        let before = bitmap.iter().map(count).collect();
        let [info_at, info_size] = [32, 40].map(|at| u64_at(&sub, at));
        let info = whole.bytes(info_at, info_size, MOST_INFO);
        let info = String::from_utf8_lossy(&info.unwrap_or_default()).into_owned();
        Ok(Kdump {
            whole,
            bitmap,
            memory,
            before,
            descriptors: bitmap_at + 2 * half,
            info,
            phys_base: u64_at(&sub, 0) as i64,
            last: Mutex::default(),
        })
    }

    /// The text of VMCOREINFO; empty if it is not here.
    pub fn info(&self) -> &str {
        &self.info
    }

    /// Where the kernel's map begins in physical memory.
    pub fn phys_base(&self) -> i64 {
        self.phys_base
    }

    /// The ranges of physical addresses that are here.
    pub fn ranges(&self) -> Vec<std::ops::Range<u64>> {
        let mut all: Vec<std::ops::Range<u64>> = Vec::new();
        for (index, word) in self.memory.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let first = rest.trailing_zeros();
                let number = (rest >> first).trailing_ones();
                rest &= !(u64::MAX >> (64 - number) << first);
                let begin = (index as u64 * 64 + u64::from(first)) * PAGE;
                let end = begin + u64::from(number) * PAGE;
                match all.last_mut() {
                    Some(last) if last.end == begin => last.end = end,
                    _ => all.push(begin..end),
                }
            }
        }
        all
    }

    /// Fills bytes from a physical address on.
    ///
    /// # Errors
    /// A page of them is not here, or its bytes make no sense.
    pub fn read(&self, mut address: u64, mut room: &mut [u8]) -> io::Result<()> {
        while !room.is_empty() {
            let (number, into) = (address / PAGE, (address % PAGE) as usize);
            let length = room.len().min(PAGE as usize - into);
            let (now, rest) = room.split_at_mut(length);
            let mut last = self.last.lock().map_err(|_| io::ErrorKind::Other)?;
            let page = match last.take() {
                Some((own, page)) if own == number => page,
                _ => self.page(number)?,
            };
            now.copy_from_slice(&page[into..into + length]);
            *last = Some((number, page));
            room = rest;
            address = address
                .checked_add(length as u64)
                .ok_or(io::ErrorKind::UnexpectedEof)?;
        }
        Ok(())
    }

    fn page(&self, number: u64) -> io::Result<Vec<u8>> {
        let lacks = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
        let (word, bit) = ((number / 64) as usize, number % 64);
        let own = *self.bitmap.get(word).ok_or_else(lacks)?;
        if own >> bit & 1 == 0 {
            let is_of_zeros = self.memory[word] >> bit & 1 != 0;
            return is_of_zeros
                .then(|| vec![0; PAGE as usize])
                .ok_or_else(lacks);
        }
        let before = u64::from((own & !(u64::MAX << bit)).count_ones());
        let rank = self.before[word] + before;
        let at = self.descriptors + DESCRIPTOR * rank;
        let descriptor = self.whole.bytes(at, DESCRIPTOR, PAGE).ok_or_else(lacks)?;
        let (offset, size) = (u64_at(&descriptor, 0), u32_at(&descriptor, 8));
        let bytes = self.whole.bytes(offset, size.into(), PAGE);
        let bytes = bytes.ok_or_else(lacks)?;
        let mut page = vec![0; PAGE as usize];
        let is_whole = match u32_at(&descriptor, 12) {
            0 if bytes.len() == page.len() => {
                page = bytes;
                true
            }
            0 => false,
            ZLIB => {
                let done =
                    Decompress::new(true).decompress(&bytes, &mut page, FlushDecompress::Finish);
                done.is_ok_and(|status| status == Status::StreamEnd)
            }
            SNAPPY => {
                let done = snap::raw::Decoder::new().decompress(&bytes, &mut page);
                done.is_ok_and(|length| length == page.len())
            }
            ZSTD => ruzstd::decoding::StreamingDecoder::new(bytes.as_slice())
                .is_ok_and(|mut stream| stream.read_exact(&mut page).is_ok()),
            LZO => {
                return Err(wrong(
                    "its pages are compressed by lzo, which is not read: `makedumpfile -c -d 0 FILE \
                     NEW` compresses them by zlib",
                ));
            }
            _ => return Err(wrong("a page is compressed in an unknown way")),
        };
        is_whole
            .then_some(page)
            .ok_or_else(|| wrong("a page makes no sense: the dump is damaged"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    /// A dump of these pages, by their numbers, in order.
    pub fn dump(pages: &[(u64, [u8; PAGE as usize])], info: &str) -> Vec<u8> {
        let most = pages.last().map_or(0, |(number, _)| number + 1);
        let mut file = vec![0; 2 * PAGE as usize];
        file[..8].copy_from_slice(MAGIC);
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(8, &6_u32.to_le_bytes());
        put(MACHINE, b"x86_64");
        for (at, value) in [(428, 4096_u32), (432, 1), (436, 2), (440, most as u32)] {
            put(at, &value.to_le_bytes());
        }
        let sub = PAGE as usize;
        put(sub, &0x20_0000_u64.to_le_bytes());
        put(sub + 32, &(PAGE + 200).to_le_bytes());
        put(sub + 40, &(info.len() as u64).to_le_bytes());
        put(sub + 96, &most.to_le_bytes());
        put(sub + 200, info.as_bytes());
        let mut bitmap = vec![0; PAGE as usize];
        for (number, _) in pages {
            bitmap[(number / 8) as usize] |= 1 << (number % 8);
        }
        // The first bitmap says which memory there is.
        file.extend(vec![0xff; PAGE as usize]);
        file.extend(bitmap);
        let mut data: Vec<u8> = Vec::new();
        let begin = file.len() + pages.len() * DESCRIPTOR as usize;
        for (index, (_, page)) in pages.iter().enumerate() {
            let (kind, bytes) = match index % 3 {
                0 => (0, page.to_vec()),
                1 => {
                    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                    encoder.write_all(page).unwrap();
                    (ZLIB, encoder.finish().unwrap())
                }
                _ => (
                    SNAPPY,
                    snap::raw::Encoder::new().compress_vec(page).unwrap(),
                ),
            };
            file.extend(((begin + data.len()) as u64).to_le_bytes());
            file.extend((bytes.len() as u32).to_le_bytes());
            file.extend(kind.to_le_bytes());
            file.extend([0; 8]);
            data.extend(bytes);
        }
        file.extend(data);
        file
    }

    /// The same as records, the headers last.
    fn flattened(dump: &[u8]) -> Vec<u8> {
        let mut file = FLATTENED.to_vec();
        file.resize(FLATTENED_HEADER as usize, 0);
        let mut record = |offset: usize, bytes: &[u8]| {
            file.extend((offset as i64).to_be_bytes());
            file.extend((bytes.len() as i64).to_be_bytes());
            file.extend(bytes);
        };
        record(0, &[0; 3 * PAGE as usize]);
        for (index, piece) in dump.chunks(1000).enumerate().skip(8) {
            record(index * 1000, piece);
        }
        record(0, &dump[..8500]);
        record(usize::MAX, &[]);
        file
    }

    pub fn opened(bytes: &[u8]) -> File {
        let name = format!("jifl-kdump-{}-{:p}", std::process::id(), bytes);
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file
    }

    fn pages() -> Vec<(u64, [u8; PAGE as usize])> {
        let page = |number: u64| {
            let mut page = [number as u8; PAGE as usize];
            page[7] = 0xee;
            (number, page)
        };
        [1, 2, 3, 62, 63, 64, 65, 200].map(page).into()
    }

    #[test]
    fn pages_are_those_that_were_dumped() {
        let plain = dump(&pages(), "OSRELEASE=6.1\n");
        for bytes in [plain.clone(), flattened(&plain)] {
            assert!(is_kdump(&bytes));
            let dump = Kdump::open(opened(&bytes)).unwrap();
            assert_eq!(
                (dump.info(), dump.phys_base()),
                ("OSRELEASE=6.1\n", 0x20_0000)
            );
            let ranges = [1..4, 62..66, 200..201].map(|of| of.start * PAGE..of.end * PAGE);
            assert_eq!(dump.ranges(), ranges);
            let mut room = [0; 3 * PAGE as usize];
            dump.read(PAGE, &mut room).unwrap();
            for (index, page) in pages()[..3].iter().enumerate() {
                assert_eq!(room[index * 4096..][..4096], page.1);
            }
            let mut few = [0; 4];
            dump.read(65 * PAGE - 2, &mut few).unwrap();
            assert_eq!(few, [64, 64, 65, 65]);
            for address in [0, 4 * PAGE - 2, 61 * PAGE, 201 * PAGE, u64::MAX - 1] {
                assert!(dump.read(address, &mut few).is_err(), "{address:#x}");
            }
        }
    }

    #[test]
    fn pages_of_zeros_may_be_left_out() {
        let mut bytes = dump(&pages(), "");
        bytes[PAGE as usize + 8] = 31;
        // There was no page 100.
        bytes[2 * PAGE as usize + 100 / 8] &= !(1 << (100 % 8));
        let dump = Kdump::open(opened(&bytes)).unwrap();
        let ranges = [0..100, 101..201].map(|of| of.start * PAGE..of.end * PAGE);
        assert_eq!(dump.ranges(), ranges);
        let mut few = [1; 2];
        dump.read(4 * PAGE - 1, &mut few).unwrap();
        assert_eq!(few, [3, 0]);
        assert!(dump.read(100 * PAGE, &mut few).is_err());
    }

    #[test]
    fn what_is_damaged_is_refused_or_lacks_pages() {
        let plain = dump(&pages(), "A=1\n");
        let mut room = vec![0; 4096];
        for bytes in [plain.clone(), flattened(&plain)] {
            for length in (0..bytes.len()).step_by(37) {
                if let Ok(dump) = Kdump::open(opened(&bytes[..length])) {
                    _ = dump.ranges();
                    _ = dump.read(200 * PAGE, &mut room);
                }
            }
            let mut state = 1_u64;
            for _ in 0..400 {
                let mut spoilt = bytes.clone();
                for _ in 0..6 {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    let place = (state >> 33) as usize % spoilt.len();
                    spoilt[place] = (state >> 20) as u8;
                    spoilt[400 + place % 64] = (state >> 12) as u8;
                }
                if let Ok(dump) = Kdump::open(opened(&spoilt)) {
                    for range in dump.ranges().into_iter().take(1000) {
                        _ = dump.read(range.start, &mut room);
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_read_is_said() {
        let why = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = dump(&pages(), "");
            change(&mut bytes);
            Kdump::open(opened(&bytes))
                .map(|dump| dump.read(PAGE, &mut [0]).unwrap_err().to_string())
        };
        let refused = |change: &dyn Fn(&mut Vec<u8>)| why(change).unwrap_err().0;
        assert!(refused(&|bytes| bytes[PAGE as usize + 12] = 1).contains("--reassemble"));
        assert!(refused(&|bytes| bytes[8] = 2).contains("makedumpfile -E"));
        assert!(refused(&|bytes| bytes[MACHINE] = b'a').contains("x86-64"));
        assert!(refused(&|bytes| bytes.truncate(9000)).contains("cut short"));
        let lzo = why(&|bytes| bytes[4 * PAGE as usize + 12] = LZO as u8).unwrap();
        assert!(
            lzo.contains("lzo") && lzo.contains("makedumpfile -c"),
            "{lzo}"
        );
    }
}
