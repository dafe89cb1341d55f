// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are compressed, as distributions ship modules (CONFIG_MODULE_COMPRESS_XZ and _ZSTD):
//! Debian's modules are xz files from 6.12 on.
//!
//! What such a file says of itself is not believed: neither its contents nor the memory for
//! unpacking it become larger than a limit.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Read;

use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;

use crate::image::Error;

/// How the files begin (the xz file format, 2.1.1.1; RFC 8878, 3.1.1).
const XZ: &[u8] = b"\xfd7zXZ\0";
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The contents have so many bytes at most. The largest module of Debian's 6.12 has 10 MB.
const MOST: usize = 256 << 20;
/// The dictionary of an xz file takes so much memory at most, in KiB: `xz -9` needs 65 MiB. The
/// decoder of zstd has a limit of its own, 100 MiB.
const DICTIONARY: u32 = 128 << 10;

/// The contents of a file. A file that is not compressed is its own contents.
///
/// # Errors
/// The file is damaged or cut short, or its contents are too large.
pub fn unpack(file: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    limited(file, MOST)
}

fn limited(file: &[u8], most: usize) -> Result<Cow<'_, [u8]>, Error> {
    if file.starts_with(XZ) {
        xz(file, most).map(Cow::Owned)
    } else if file.starts_with(ZSTD) {
        zstd(file, most).map(Cow::Owned)
    } else {
        Ok(Cow::Borrowed(file))
    }
}

fn damaged(format: &str, why: impl Display) -> Error {
    Error(format!("the {format} file is damaged or cut short: {why}"))
}

/// Reads all. `most`: so many bytes at most.
fn all(reader: impl Read, most: usize, format: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut some = reader.take(most as u64 + 1);
    let read = some.read_to_end(&mut bytes);
    read.map_err(|error| damaged(format, error))?;
    if bytes.len() > most {
        let most = most >> 20;
        return Err(Error(format!(
            "the {format} file has more than {most} MiB in it: no module is so large"
        )));
    }
    Ok(bytes)
}

fn xz(file: &[u8], most: usize) -> Result<Vec<u8>, Error> {
    all(XzReader::new_mem_limit(file, true, DICTIONARY), most, "xz")
}

/// Of one frame, as `zstd` writes it. The decoder leaves it to its caller to compare the checksum.
fn zstd(file: &[u8], most: usize) -> Result<Vec<u8>, Error> {
    const NAME: &str = "zstd";
    let mut rest = file;
    let mut decoder =
        StreamingDecoder::new(&mut rest).map_err(|error| damaged(NAME, format!("{error}")))?;
    let bytes = all(&mut decoder, most, NAME)?;
    let said = decoder.decoder.get_checksum_from_data();
    let found = decoder.decoder.get_calculated_checksum();
    if said.is_some() && said != found {
        return Err(damaged(NAME, "the checksum is not that of the contents"));
    }
    if !rest.is_empty() {
        return Err(damaged(NAME, "something stands behind its end"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const XZ_FILE: [u8; 76] = [
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x01, 0x69, 0x22, 0xde, 0x36, 0x02, 0x00, 0x21,
        0x01, 0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0xe0, 0x00, 0x67, 0x00, 0x13, 0x5d,
        0x00, 0x36, 0x98, 0x48, 0x99, 0x8a, 0xf7, 0xaa, 0xb4, 0x37, 0xe9, 0x05, 0x20, 0x96, 0xfd,
        0xf3, 0x5c, 0xcb, 0x40, 0x00, 0x00, 0x00, 0x60, 0x37, 0x4e, 0x51, 0x00, 0x01, 0x2b, 0x68,
        0x28, 0xa1, 0x9f, 0x15, 0x90, 0x42, 0x99, 0x0d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x01, 0x59,
        0x5a,
    ];
    const ZSTD_FILE: [u8; 33] = [
        0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0xa5, 0x00, 0x00, 0x68, 0x6d, 0x61, 0x63, 0x68, 0x69,
        0x6e, 0x65, 0x20, 0x63, 0x6f, 0x64, 0x65, 0x20, 0x01, 0x00, 0x08, 0xd3, 0xfc, 0x02, 0x8c,
        0xb9, 0x99, 0xcf,
    ];
    const FILES: [&[u8]; 2] = [&XZ_FILE, &ZSTD_FILE];

    #[test]
    fn contents_are_what_was_compressed() {
        let contents = b"machine code ".repeat(8);
        for file in [FILES[0], FILES[1], &contents] {
            assert_eq!(unpack(file).unwrap(), contents);
        }
    }

    #[test]
    fn damage_is_one_clear_line() {
        for file in FILES {
            for length in 6..file.len() {
                let error = unpack(&file[..length]).unwrap_err().0;
                assert!(error.contains("damaged or cut short"), "{length}: {error}");
                assert!(!error.contains('\n'), "{length}: {error}");
            }
            let behind = [file, &[1]].concat();
            assert!(unpack(&behind).is_err());
            let whole = unpack(file).unwrap();
            // Without its beginning it is no compressed file at all.
            for (at, bit) in (6..file.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut damaged = file.to_vec();
                damaged[at] ^= 1 << bit;
                match unpack(&damaged) {
                    Ok(found) => assert_eq!(found, whole, "byte {at}, bit {bit}"),
                    Err(error) => assert!(!error.0.contains('\n'), "{error}"),
                }
            }
        }
    }

    #[test]
    fn what_is_too_large_is_refused() {
        for file in FILES {
            assert_eq!(limited(file, 104).unwrap().len(), 104);
            let error = limited(file, 103).unwrap_err().0;
            assert!(error.ends_with("more than 0 MiB in it: no module is so large"));
        }
        // A dictionary of 4 GiB less a byte, which the header of the block names, and its CRC32.
        let mut large = XZ_FILE.to_vec();
        large[16] = 40;
        large[20..24].copy_from_slice(&CRC_OF_LARGE);
        let error = unpack(&large).unwrap_err().0;
        assert!(error.contains("memory"), "{error}");
    }

    /// Of the header of the block with the byte 40 in place of 0x16.
    const CRC_OF_LARGE: [u8; 4] = [0xe6, 0xa0, 0x11, 0xb3];
}
