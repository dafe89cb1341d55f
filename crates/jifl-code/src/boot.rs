// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel as boot loaders take it: a bzImage. Behind code that starts the machine it has the
//! kernel's ELF file, compressed (Documentation/arch/x86/boot.rst, the real-mode kernel header).
//!
//! What the file says of itself is not believed: no more is unpacked than it says, and no more than
//! a limit.

use std::io::Read;

use flate2::read::GzDecoder;
use lzma_rust2::{LzmaReader, XzReader};
use ruzstd::decoding::StreamingDecoder;

use crate::image::Error;

/// Places in the header, by their names in boot.rst.
const SETUP_SECTS: usize = 0x1f1;
const SYSSIZE: usize = 0x1f4;
const BOOT_FLAG: usize = 0x1fe;
const HEADER: usize = 0x202;
const VERSION: usize = 0x206;
const KERNEL_VERSION: usize = 0x20e;
const XLOADFLAGS: usize = 0x236;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
/// Where the last of these ends.
const HEADER_END: usize = 0x250;

/// The first protocol that says where the payload is, and the first that has `xloadflags`.
const WITH_PAYLOAD: u16 = 0x208;
const WITH_FLAGS: u16 = 0x20c;
/// XLF_KERNEL_64 of `xloadflags`.
const FOR_64_BITS: u16 = 1;

/// A kernel's ELF file has so many bytes at most. Debian's have 66 MB, without debug information.
const MOST: usize = 512 << 20;
/// Memory for the dictionary of xz and lzma, in KiB. scripts/xz_wrap.sh takes 128 MiB.
const DICTIONARY: u32 = 256 << 10;

/// A bzImage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot<'a> {
    /// What it says of its version: release, builder, number of the build. Empty: nothing.
    pub version: String,
    payload: &'a [u8],
}

/// Does a file begin as a bzImage does?
pub fn is_boot_image(file: &[u8]) -> bool {
    let has = |at: usize, bytes: &[u8]| file.get(at..at + bytes.len()) == Some(bytes);
    has(BOOT_FLAG, &[0x55, 0xaa]) && has(HEADER, b"HdrS")
}

/// Reads the header of a bzImage.
///
/// # Errors
/// The file is none, is cut short, is older than Linux 2.6.24 or for 32-bit processors.
pub fn parse(file: &[u8]) -> Result<Boot<'_>, Error> {
    if !is_boot_image(file) {
        return Err(Error("no bzImage".into()));
    }
    if file.len() < HEADER_END {
        return Err(cut_short(file.len(), HEADER_END));
    }
    let half = |at: usize| u16::from_le_bytes([file[at], file[at + 1]]);
    let word = |at: usize| usize::from(half(at)) | usize::from(half(at + 2)) << 16;
    let protocol = half(VERSION);
    if protocol < WITH_PAYLOAD {
        let (major, minor) = (protocol >> 8, protocol & 0xff);
        return Err(Error(format!(
            "boot protocol {major}.{minor:02} does not tell where the kernel is in the file"
        )));
    }
    if protocol >= WITH_FLAGS && half(XLOADFLAGS) & FOR_64_BITS == 0 {
        return Err(Error("a kernel for 32-bit x86".into()));
    }
    // 0 stands for 4.
    let sectors = match file[SETUP_SECTS] {
        0 => 4,
        number => usize::from(number),
    };
    let loaded = (sectors + 1) * 512;
    let begin = loaded + word(PAYLOAD_OFFSET);
    let end = begin + word(PAYLOAD_LENGTH);
    // The size is in units of 16 bytes, the last of which need not be full.
    let whole = (loaded + word(SYSSIZE) * 16).saturating_sub(15);
    if file.len() < end.max(whole) {
        return Err(cut_short(file.len(), end.max(whole)));
    }
    let version = match half(KERNEL_VERSION) {
        0 => String::new(),
        at => text(file, usize::from(at) + 512),
    };
    Ok(Boot {
        version,
        payload: &file[begin..end],
    })
}

fn cut_short(has: usize, needs: usize) -> Error {
    Error(format!(
        "the image is cut short: {has} bytes of at least {needs}"
    ))
}

/// The text at a place, up to a 0.
fn text(file: &[u8], at: usize) -> String {
    let bytes = file.get(at..).unwrap_or_default();
    let end = bytes.iter().take(256).position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(0)]).into_owned()
}

impl Boot<'_> {
    /// The kernel's ELF file. Behind its end may be the table of places that address space
    /// randomization changes.
    ///
    /// # Errors
    /// The kernel is compressed by something that is not known here, or damaged.
    pub fn unpack(&self) -> Result<Vec<u8>, Error> {
        let packed = self.payload;
        if packed.starts_with(b"\x7fELF") {
            return Ok(packed.to_vec());
        }
        let Some(name) = compression(packed) else {
            return Err(Error(
                "the kernel in it is compressed in a way that jifl does not know".into(),
            ));
        };
        // Each ends with the size of its contents: gzip by itself, the others by what the kernel's
        // build puts behind them (scripts/Makefile.lib, size_append).
        let (rest, size) = packed
            .split_last_chunk::<4>()
            .ok_or_else(|| damaged(name, "no size stands at its end"))?;
        let size = u32::from_le_bytes(*size) as usize;
        if size > MOST {
            return Err(damaged(name, "no kernel is as large as it says"));
        }
        match name {
            "gzip" => contents(GzDecoder::new(packed), size, name),
            "xz" => contents(XzReader::new_mem_limit(rest, false, DICTIONARY), size, name),
            "lzma" => {
                let reader = LzmaReader::new_mem_limit(rest, DICTIONARY, None);
                let reader = reader.map_err(|error| damaged(name, error))?;
                contents(reader, size, name)
            }
            "zstd" => zstd(rest, size),
            "lz4" => lz4(rest, size),
            other => Err(Error(format!(
                "the kernel in it is compressed by {other}, which jifl does not read: unpack it \
                 (scripts/extract-vmlinux of the kernel's source does), and name that file"
            ))),
        }
    }
}

/// What a payload is compressed by, from its first bytes (lib/decompress.c).
fn compression(packed: &[u8]) -> Option<&'static str> {
    const BEGINNINGS: [(&[u8], &str); 8] = [
        (&[0x1f, 0x8b], "gzip"),
        (&[0x1f, 0x9e], "gzip"),
        (b"\xfd7zXZ\0", "xz"),
        (&[0x5d, 0, 0], "lzma"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
        (&[0x02, 0x21, 0x4c, 0x18], "lz4"),
        (b"BZh", "bzip2"),
        (&[0x89, b'L', b'Z', b'O'], "lzo"),
    ];
    let own = BEGINNINGS
        .iter()
        .find(|(begin, _)| packed.starts_with(begin));
    own.map(|(_, name)| *name)
}

fn damaged(name: &str, why: impl std::fmt::Display) -> Error {
    Error(format!(
        "the kernel in it, compressed by {name}, is damaged: {why}"
    ))
}

/// Reads all, which has to be so many bytes.
fn contents(reader: impl Read, size: usize, name: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = reader.take(size as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| damaged(name, error))?;
    if bytes.len() != size {
        return Err(damaged(name, "its size is not what it says"));
    }
    Ok(bytes)
}

/// The decoder leaves it to its caller to compare the checksum.
fn zstd(packed: &[u8], size: usize) -> Result<Vec<u8>, Error> {
    const NAME: &str = "zstd";
    let mut narrow = packed.to_vec();
    narrow_window(&mut narrow, size)?;
    let reader = StreamingDecoder::new(narrow.as_slice());
    let mut reader = reader.map_err(|error| damaged(NAME, format!("{error}")))?;
    let bytes = contents(&mut reader, size, NAME)?;
    let said = reader.decoder.get_checksum_from_data();
    if said.is_some() && said != reader.decoder.get_calculated_checksum() {
        return Err(damaged(NAME, "its checksum is not that of the contents"));
    }
    Ok(bytes)
}

/// The kernel's build lets zstd look back 128 MiB, for which the decoder refuses to keep memory.
/// Contents that are smaller than a window are decoded alike with any window that they fit into, so
/// such a frame gets one of 96 MiB (RFC 8878, 3.1.1.1.2).
fn narrow_window(frame: &mut [u8], size: usize) -> Result<(), Error> {
    const SINGLE_SEGMENT: u8 = 1 << 5;
    /// 2^(10 + 16) bytes, and 4 eighths of it.
    const NARROW: u8 = 16 << 3 | 4;
    const FITS: usize = 96 << 20;
    let Some([descriptor, window]) = frame.get_mut(4..6) else {
        return Err(damaged("zstd", "it ends in its header"));
    };
    if *descriptor & SINGLE_SEGMENT != 0 || *window <= NARROW {
        return Ok(());
    }
    if size > FITS {
        return Err(Error(format!(
            "the kernel in it has {} MiB, and jifl unpacks at most {} of zstd: unpack it \
             (scripts/extract-vmlinux of the kernel's source does), and name that file",
            size >> 20,
            FITS >> 20
        )));
    }
    *window = NARROW;
    Ok(())
}

/// The old format of lz4, which the kernel takes: blocks of 8 MiB, each behind its packed size
/// (doc/lz4_Frame_format.md of lz4, legacy frame).
fn lz4(packed: &[u8], size: usize) -> Result<Vec<u8>, Error> {
    const NAME: &str = "lz4";
    const BLOCK: usize = 8 << 20;
    let mut bytes = Vec::new();
    let mut rest = &packed[4..];
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let block = behind.get(..length);
        let block = block.ok_or_else(|| damaged(NAME, "a block is cut short"))?;
        let begin = bytes.len();
        let room = BLOCK.min(size - begin);
        bytes.resize(begin + room, 0);
        let found = lz4_flex::block::decompress_into(block, &mut bytes[begin..]);
        let found = found.map_err(|error| damaged(NAME, error))?;
        bytes.truncate(begin + found);
        rest = &behind[length..];
    }
    contents(bytes.as_slice(), size, NAME)
}

#[cfg(test)]
mod tests;
