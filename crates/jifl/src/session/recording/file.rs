// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file: marks by which a reader recognizes a whole recording, around compressed JSON.
//!
//! | bytes | |
//! |---|---|
//! | 8 | `\x89JIFLREC` |
//! | 4 | version, little endian as all numbers; a reader refuses newer ones |
//! | 8 | bytes of the body |
//! | ... | the body: one JSON object, in zlib's format |
//! | 4 | CRC-32 of all before it |
//! | 8 | `JIFLEND\n` |
//!
//! A version stands for the meaning of the content. Readers skip members of objects that they do
//! not know, so that new members need no new version.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::Recording;

const MAGIC: &[u8; 8] = b"\x89JIFLREC";
const END: &[u8; 8] = b"JIFLEND\n";
const VERSION: u32 = 1;
/// Magic, version, length.
const HEAD: usize = 20;
/// Checksum, end.
const TAIL: usize = 12;
/// No session's recording is that long. A file that claims to be would fill the memory.
const LONGEST: u64 = 1 << 30;

/// The whole file.
pub fn encode(recording: &Recording) -> Vec<u8> {
    let json = serde_json::to_vec(recording).expect("plain structures always serialize");
    frame(VERSION, &compress(&json))
}

fn compress(json: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(json).and_then(|()| encoder.finish());
    written.expect("memory takes all")
}

fn frame(version: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes.extend_from_slice(END);
    bytes
}

/// Does a file begin as one?
pub fn is_recording(path: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *MAGIC
}

/// Reads one; the error is one line without the file's name.
pub fn read(path: &Path) -> Result<Recording, String> {
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    decode(&mut file)
}

fn decode(file: &mut impl Read) -> Result<Recording, String> {
    let body = unframe(file)?;
    let mut json = Vec::new();
    ZlibDecoder::new(body.as_slice())
        .take(LONGEST)
        .read_to_end(&mut json)
        .map_err(|error| format!("corrupt: {error}"))?;
    serde_json::from_slice(&json).map_err(|error| format!("corrupt: {error}"))
}

/// The body. Only its checksum has been checked.
fn unframe(file: &mut impl Read) -> Result<Vec<u8>, String> {
    let head = at_most(file, HEAD as u64)?;
    if head.is_empty() {
        return Err("empty: no recording of jifl".into());
    }
    if !MAGIC.starts_with(&head[..head.len().min(MAGIC.len())]) {
        return Err("no recording of jifl (`jifl record` makes one)".into());
    }
    let truncated = |bytes: usize, of: u64| {
        format!("truncated: {bytes} bytes of {of}; copy it again, or record again")
    };
    if head.len() < HEAD {
        return Err(truncated(head.len(), (HEAD + TAIL) as u64));
    }
    let version = u32::from_le_bytes(head[8..12].try_into().expect("four bytes"));
    if version > VERSION {
        return Err(format!(
            "of format {version}; this command ({}) knows formats up to {VERSION}: read it with a \
             newer jifl",
            env!("CARGO_PKG_VERSION")
        ));
    }
    let length = u64::from_le_bytes(head[12..].try_into().expect("eight bytes"));
    if length > LONGEST {
        return Err(format!("corrupt: it claims to have {length} bytes"));
    }
    let rest = at_most(file, length + TAIL as u64 + 1)?;
    let whole = length as usize + TAIL;
    if rest.len() < whole {
        return Err(truncated(HEAD + rest.len(), (HEAD + whole) as u64));
    }
    if rest.len() > whole {
        return Err("corrupt: something stands behind its end".into());
    }
    let (body, tail) = rest.split_at(length as usize);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head);
    crc.update(body);
    if tail[..4] != crc.finalize().to_le_bytes() || tail[4..] != *END {
        return Err("corrupt: its checksum is wrong; copy it again, or record again".into());
    }
    Ok(body.to_vec())
}

fn at_most(file: &mut impl Read, bytes: u64) -> Result<Vec<u8>, String> {
    let mut read = Vec::new();
    let done = file.take(bytes).read_to_end(&mut read);
    done.map(|_| read).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::tests::recorded;
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let recording = recorded();
        let bytes = encode(&recording);
        assert_eq!(decode(&mut bytes.as_slice()).unwrap(), recording);
    }

    #[test]
    fn any_end_before_the_last_byte_is_noticed() {
        let bytes = encode(&recorded());
        for n in 0..bytes.len() {
            let error = decode(&mut &bytes[..n]).unwrap_err();
            let word = if n == 0 { "empty" } else { "truncated" };
            assert!(error.starts_with(word), "{n}: {error}");
        }
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let bytes = encode(&recorded());
        for n in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[n] ^= 0x10;
            let error = decode(&mut bytes.as_slice()).unwrap_err();
            assert!(!error.contains('\n'), "{n}: {error}");
        }
    }

    #[test]
    fn what_is_no_recording_is_told_from_one_that_is_newer() {
        let json = br#"{"jifl":"0.1.0","surprise":1}"#;
        let body = compress(json);
        for (bytes, word) in [
            (b"\x7fELF and so on".to_vec(), "no recording"),
            (frame(VERSION + 1, &body), "read it with a newer jifl"),
            (frame(VERSION, &body), "corrupt: missing field"),
            (frame(VERSION, b"no zlib"), "corrupt: "),
            (
                [frame(VERSION, &body), b"x".to_vec()].concat(),
                "behind its end",
            ),
        ] {
            let error = decode(&mut bytes.as_slice()).unwrap_err();
            assert!(error.contains(word), "{word}: {error}");
            assert!(!error.contains('\n'));
        }
    }

    /// Members that a newer command of the same version may add.
    #[test]
    fn members_that_are_not_known_are_skipped() {
        let mut value = serde_json::to_value(recorded()).unwrap();
        value["surprise"] = 1.into();
        value["blocks"][0]["surprise"] = "x".into();
        let json = serde_json::to_vec(&value).unwrap();
        let bytes = frame(VERSION, &compress(&json));
        assert_eq!(decode(&mut bytes.as_slice()).unwrap(), recorded_as(&value));
    }

    fn recorded_as(value: &serde_json::Value) -> Recording {
        serde_json::from_value(value.clone()).unwrap()
    }
}
