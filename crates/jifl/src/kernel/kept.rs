// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an earlier command read of the running kernel's lists, in files below /run.
//!
//! The kernel writes its list of symbols and that of ftrace's sites anew for each reader, which is
//! most of the time that a short command takes. Both stay as they are until the machine boots or a
//! module comes or goes. So files have what was read, with all that it depends on. Code that the
//! kernel makes while it runs (`is_made`) comes and goes without that, and is in no file.
//!
//! The files are root's, as what they show is: one is used only if nobody else can have written it.
//! A file that is missing, old or damaged is the same as none.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// It is gone after a boot.
const FOLDER: &str = "/run/jifl";
/// Bytes of a page: the beginning of the kernel's list.
const PAGE: usize = 4096;

/// All that the lists depend on.
///
/// `None`: it cannot be read here.
fn key() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // The kernel may have begun to hide addresses.
    let mut first = vec![0; PAGE];
    let length = File::open("/proc/kallsyms").ok()?.read(&mut first).ok()?;
    let first = String::from_utf8_lossy(&first[..length]);
    let first = first.lines().next().unwrap_or_default();
    // Without modules the kernel may have no such file.
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    Some(format!("{}\n{first}\n{}", boot.trim(), loaded(&modules)))
}

/// Names, sizes, states and addresses of modules, of lines of /proc/modules. How often each is used
/// does not count.
fn loaded(modules: &str) -> String {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let words: Vec<&str> = [0, 1, 4, 5]
            .iter()
            .filter_map(|at| words.get(*at).copied())
            .collect();
        words.join(" ") + "\n"
    };
    modules.lines().map(line).collect()
}

/// Is it the label of code that the kernel makes while it runs, as /proc/kallsyms shows it?
pub fn is_made(module: &str) -> bool {
    module == "bpf" || module.starts_with("__builtin__")
}

/// A file of something that is kept.
pub struct KeptFile {
    /// Its name in the folder.
    pub name: &'static str,
    /// Its first line without the end; it changes with the format.
    pub magic: &'static str,
}

impl KeptFile {
    /// What the file has, and `true`; or what is read now, and `false`. That is kept, unless what
    /// it depends on changed meanwhile, as when a module came.
    pub fn get<T>(
        &self,
        parse: impl FnOnce(&[u8]) -> Option<T>,
        read: impl FnOnce() -> T,
        bytes: impl FnOnce(&T) -> Option<Vec<u8>>,
    ) -> (T, bool) {
        let key = key();
        let known = key.as_deref().and_then(|key| self.read(key));
        if let Some(known) = known.as_deref().and_then(parse) {
            return (known, true);
        }
        let new = read();
        if let Some(key) = key.filter(|before| self::key().is_some_and(|now| now == *before)) {
            if let Some(bytes) = bytes(&new) {
                self.write(&key, &bytes);
            }
        }
        (new, false)
    }

    /// What the file has for this key.
    fn read(&self, key: &str) -> Option<Vec<u8>> {
        let path = Path::new(FOLDER).join(self.name);
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let mut file = options.open(path).ok()?;
        let status = file.metadata().ok()?;
        if status.uid() != 0 || status.mode() & 0o022 != 0 {
            return None;
        }
        let mut all = Vec::with_capacity(usize::try_from(status.len()).ok()?);
        file.read_to_end(&mut all).ok()?;
        self.content(&mut all, key)?;
        Some(all)
    }

    /// Writes the file anew; readers see the old one or the new one. Where that fails, the next
    /// command reads what the kernel says.
    fn write(&self, key: &str, content: &[u8]) {
        let folder = Path::new(FOLDER);
        let _ = DirBuilder::new().mode(0o700).create(folder);
        let new = folder.join(format!("{}.{}", self.name, std::process::id()));
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let written = options.open(&new).and_then(|mut file| {
            file.write_all(self.head(key, content.len()).as_bytes())?;
            file.write_all(content)?;
            fs::rename(&new, folder.join(self.name))
        });
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
    }

    /// What stands before so many bytes. Of a file that was cut off, bytes are missing.
    fn head(&self, key: &str, length: usize) -> String {
        format!("{}\n{} {length}\n{key}", self.magic, key.len())
    }

    /// Leaves of a whole file what stands behind the head. `None`: it is another key's, or damaged.
    fn content(&self, all: &mut Vec<u8>, key: &str) -> Option<()> {
        let numbers = all
            .strip_prefix(self.magic.as_bytes())?
            .strip_prefix(b"\n")?;
        let end = numbers.iter().position(|byte| *byte == b'\n')?;
        let numbers = std::str::from_utf8(&numbers[..end]).ok()?;
        let length: usize = numbers.split_once(' ')?.1.parse().ok()?;
        let head = self.head(key, length);
        if !all.starts_with(head.as_bytes()) || all.len() - head.len() != length {
            return None;
        }
        all.drain(..head.len());
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULES: &str = "nfs 409600 2 nfsd,lockd, Live 0xffffffffc0a00000 (OE)\n\
        lockd 131072 1 nfs, Live 0xffffffffc0900000\n";
    const FILE: KeptFile = KeptFile {
        name: "list",
        magic: "jifl list 1",
    };

    fn content(file: &KeptFile, all: &[u8], key: &str) -> Option<Vec<u8>> {
        let mut all = all.to_vec();
        file.content(&mut all, key)?;
        Some(all)
    }

    #[test]
    fn uses_do_not_count_and_modules_do() {
        let used = MODULES.replace(" 2 nfsd,lockd,", " 3 nfsd,lockd,other,");
        assert_eq!(loaded(&used), loaded(MODULES));
        for (from, to) in [
            ("Live", "Unloading"),
            ("0a00000", "0b00000"),
            ("nfs 4", "nfs 5"),
        ] {
            assert_ne!(loaded(&MODULES.replacen(from, to, 1)), loaded(MODULES));
        }
    }

    #[test]
    fn what_is_old_or_damaged_is_nothing() {
        let key = loaded(MODULES);
        let good = [FILE.head(&key, 5).as_bytes(), b"bytes"].concat();
        assert_eq!(content(&FILE, &good, &key).unwrap(), b"bytes");
        assert!(content(&FILE, &good, "").is_none());
        // Another key of the same length.
        assert!(content(&FILE, &good, &key.replacen('c', "d", 1)).is_none());
        let newer = KeptFile {
            magic: "jifl list 2",
            ..FILE
        };
        assert!(content(&newer, &good, &key).is_none());
        for length in 0..good.len() {
            assert!(content(&FILE, &good[..length], &key).is_none(), "{length}");
        }
        assert!(content(&FILE, &[&good, &b"."[..]].concat(), &key).is_none());
    }

    #[test]
    fn made_code_is_known_by_its_label() {
        assert!(is_made("bpf") && is_made("__builtin__ftrace"));
        assert!(!is_made("bpfilter") && !is_made("nfs"));
    }
}
