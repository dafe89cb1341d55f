// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the running kernel as an earlier command read them.
//!
//! The kernel writes its list of symbols and that of ftrace's sites anew for each reader, which is
//! most of the time that a command with functions as targets takes to begin. Both stay as they are
//! until the machine boots or a module comes or goes. So a file has them, with all that they depend
//! on. Code that the kernel makes while it runs is in neither (`super::function`).
//!
//! The file is root's, as what it shows is: it is used only if nobody else can have written it. A
//! file that is missing, old or damaged is the same as none.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::{Function, Functions, Sites};

/// Its folder is gone after a boot.
const FOLDER: &str = "/run/jifl";
const NAME: &str = "functions";
/// Changes with the format.
const MAGIC: &str = "jifl functions 2\n";
/// Bytes of a page: the beginning of the kernel's list.
const PAGE: usize = 4096;

/// All that the functions and their sites depend on.
///
/// `None`: it cannot be read here.
pub fn key() -> Option<String> {
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

/// What the file has for this key.
pub fn read(key: &str) -> Option<Functions> {
    let path = Path::new(FOLDER).join(NAME);
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let mut file = options.open(path).ok()?;
    let status = file.metadata().ok()?;
    if status.uid() != 0 || status.mode() & 0o022 != 0 {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    parsed(&text, key)
}

/// Writes the file anew; readers see the old one or the new one. Where that fails, the next command
/// reads what the kernel says.
pub fn write(key: &str, functions: &Functions) {
    let Some(text) = text(key, functions) else {
        return;
    };
    let folder = Path::new(FOLDER);
    let _ = DirBuilder::new().mode(0o700).create(folder);
    let new = folder.join(format!("{NAME}.{}", std::process::id()));
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let written = options.open(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        fs::rename(&new, folder.join(NAME))
    });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
}

/// `None`: not both lists are known.
fn text(key: &str, functions: &Functions) -> Option<String> {
    let Sites::Addresses(sites) = &functions.sites else {
        return None;
    };
    let mut text = format!("{MAGIC}{} ", key.len()) + key;
    for one in functions.all.iter().chain(&functions.parts) {
        let module = one.module.as_deref().unwrap_or_default();
        text += &format!("{:x} {} {module}\n", one.address, one.name);
    }
    text += "\n";
    for site in sites {
        text += &format!("{site:x}\n");
    }
    // Of a file that was cut off, this is missing.
    text += "end\n";
    Some(text)
}

fn parsed(text: &str, key: &str) -> Option<Functions> {
    let (length, rest) = text.strip_prefix(MAGIC)?.split_once(' ')?;
    if length != key.len().to_string() {
        return None;
    }
    let (functions, sites) = rest.strip_prefix(key)?.split_once("\n\n")?;
    let all: Option<Vec<Function>> = functions.lines().map(function).collect();
    let sites = sites.strip_suffix("end\n")?.lines();
    let sites: Result<Vec<u64>, _> = sites.map(|line| u64::from_str_radix(line, 16)).collect();
    Some(Functions::of(
        all?.into_iter(),
        Sites::Addresses(sites.ok()?),
    ))
}

fn function(line: &str) -> Option<Function> {
    let mut words = line.split(' ');
    Some(Function {
        address: u64::from_str_radix(words.next()?, 16).ok()?,
        name: words.next()?.to_owned(),
        module: words
            .next()
            .filter(|name| !name.is_empty())
            .map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    const MODULES: &str = "nfs 409600 2 nfsd,lockd, Live 0xffffffffc0a00000 (OE)\n\
        lockd 131072 1 nfs, Live 0xffffffffc0900000\n";

    #[test]
    fn the_same_comes_back() {
        let key = loaded(MODULES);
        let functions = sample();
        let back = parsed(&text(&key, &functions).unwrap(), &key).unwrap();
        assert_eq!(back.all, functions.all);
        assert_eq!(back.parts, functions.parts);
        assert!(!back.parts.is_empty());
        for one in &functions.all {
            assert_eq!(back.may_have_site(one), functions.may_have_site(one));
        }
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
        let good = text(&key, &sample()).unwrap();
        assert!(parsed(&good, &key).is_some());
        assert!(parsed(&good, &loaded("")).is_none());
        // Another key of the same length.
        assert!(parsed(&good, &key.replacen('c', "d", 1)).is_none());
        assert!(parsed(&good.replace("functions 2", "functions 1"), &key).is_none());
        for length in 0..good.len() {
            assert!(parsed(&good[..length], &key).is_none(), "{length}");
        }
    }

    #[test]
    fn without_sites_nothing_is_kept() {
        assert!(text("", &Functions::default()).is_none());
    }
}
