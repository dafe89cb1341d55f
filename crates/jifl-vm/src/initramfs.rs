// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's first file system: the init program, and the modules that it needs to reach the
//! host's file system. It is an uncompressed cpio archive in the `newc` format
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::fs;
use std::path::PathBuf;

/// Where init finds the modules, inserted in the order of their names.
pub(crate) const MODULES: &str = "/modules";

/// Builds the archive.
pub(crate) fn build(init: &[u8], modules: &[PathBuf]) -> Result<Vec<u8>, String> {
    let mut cpio = Cpio::default();
    for dir in ["dev", "proc", "sys", "modules", "newroot"] {
        cpio.add(dir, 0o040755, (0, 0), &[]);
    }
    // init's standard streams, before it has mounted anything
    cpio.add("dev/console", 0o020600, (5, 1), &[]);
    cpio.add("dev/null", 0o020666, (1, 3), &[]);
    cpio.add("init", 0o100755, (0, 0), init);
    for (index, path) in modules.iter().enumerate() {
        let body = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{}/{index:02}-{name}", &MODULES[1..]);
        cpio.add(&name, 0o100644, (0, 0), &body);
    }
    cpio.add("TRAILER!!!", 0, (0, 0), &[]);
    Ok(cpio.bytes)
}

#[derive(Default)]
struct Cpio {
    bytes: Vec<u8>,
    entries: usize,
}

impl Cpio {
    fn add(&mut self, name: &str, mode: u32, device: (u32, u32), body: &[u8]) {
        self.entries += 1;
        let fields = [
            self.entries as u32, // inode
            mode,
            0, // uid
            0, // gid
            1, // links
            0, // mtime
            body.len() as u32,
            0, // the archive's own device
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0, // checksum, unused
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(body);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_end_with_the_trailer() {
        let bytes = build(b"#!init", &[]).unwrap();
        assert_eq!(bytes.len() % 4, 0);
        assert!(bytes.starts_with(b"070701"));
        let at = bytes.windows(6).position(|w| w == b"#!init").unwrap();
        assert_eq!(at % 4, 0);
        // header 110 bytes, the name and its NUL, padded
        assert_eq!(&bytes[at - 6..at - 2], b"init");
        assert_eq!(&bytes[at - 116..at - 110], b"070701");
        assert!(bytes.windows(10).any(|w| w == b"TRAILER!!!"));
    }
}
