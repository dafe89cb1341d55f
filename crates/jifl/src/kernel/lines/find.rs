// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the debug information of a kernel and its modules. Build ids are in hexadecimal, empty
//! where they are not known.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ReadCache};

use super::Build;
use crate::kernel::images::{hex, module_build_id};

/// Directory in which debug packages put their files.
const DEBUG: &str = "/usr/lib/debug";

/// Checks that a file has debug information, of the wanted build. The error is the reason.
pub fn check(path: &Path, wanted: &str) -> Result<(), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let cache = ReadCache::new(file);
    let elf: ElfFile64<'_, object::Endianness, _> =
        ElfFile64::parse(&cache).map_err(|error| error.to_string())?;
    if elf.section_by_name(".debug_line").is_none() {
        return Err("no debug information in it".into());
    }
    let own = elf.build_id().map_err(|error| error.to_string())?.map(hex);
    match own {
        Some(own) if !wanted.is_empty() && own != wanted => Err(format!(
            "of another kernel: its build id is {own}, that of what was counted {wanted}"
        )),
        None if !wanted.is_empty() => {
            Err("no build id in it, so it may be of another kernel".into())
        }
        _ => Ok(()),
    }
}

/// The code in the file of a vmlinux.
pub fn text(path: &Path) -> Option<Vec<u8>> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let elf: ElfFile64<'_, object::Endianness, _> = ElfFile64::parse(&cache).ok()?;
    let text = elf.section_by_name(".text")?.data().ok()?;
    Some(text.to_owned())
}

/// Directories like /usr/lib/debug, and the directory of the named vmlinux.
pub fn roots(vmlinux: Option<&Path>) -> Vec<PathBuf> {
    let beside = vmlinux
        .and_then(Path::parent)
        .filter(|dir| dir.ends_with("boot"))
        .and_then(Path::parent);
    let all = beside.into_iter().map(Path::to_owned);
    all.chain([DEBUG.into()]).collect()
}

/// A kernel's vmlinux, with debug information.
pub fn vmlinux(build: &Build) -> Option<PathBuf> {
    let (release, wanted) = (&build.release, build.build_id.as_str());
    let mut places: Vec<PathBuf> = vec![
        format!("{DEBUG}/boot/vmlinux-{release}").into(),
        format!("{DEBUG}/lib/modules/{release}/vmlinux").into(),
        format!("/lib/modules/{release}/build/vmlinux").into(),
        format!("/boot/vmlinux-{release}").into(),
    ];
    places.push(by_build_id(Path::new(DEBUG), wanted));
    let here = places.into_iter().find(|path| check(path, wanted).is_ok());
    here.or_else(|| ask_debuginfod(wanted))
}

/// The debug file of a module that is loaded here.
pub fn module(name: &str, release: &str, roots: &[PathBuf]) -> Option<PathBuf> {
    let wanted = Some(module_build_id(name)).filter(|id| !id.is_empty())?;
    let list = fs::read_to_string(format!("/lib/modules/{release}/modules.dep"));
    let place = place_of(name, &list.unwrap_or_default());
    let here = roots.iter().find_map(|root| {
        // Debian's files of debug information have the name of the module's file.
        let installed = place.iter().flat_map(|place| {
            let path = root.join(format!("lib/modules/{release}/{place}"));
            [path.with_extension("ko.debug"), path]
        });
        let mut all = installed.chain([by_build_id(root, &wanted)]);
        all.find(|path| check(path, &wanted).is_ok())
    });
    here.or_else(|| ask_debuginfod(&wanted))
}

/// `kernel/fs/9p/9p.ko` of a module, from lines like `kernel/fs/9p/9p.ko.xz: ...`, in whose
/// names `-` may stand for `_`.
fn place_of(name: &str, list: &str) -> Option<String> {
    list.lines().find_map(|line| {
        let path = line.split(':').next()?;
        let (stem, _) = path.rsplit_once(".ko")?;
        let file = stem.rsplit('/').next()?;
        (file.replace('-', "_") == name).then(|| format!("{stem}.ko"))
    })
}

/// `ROOT/.build-id/ab/cdef.debug`
fn by_build_id(root: &Path, id: &str) -> PathBuf {
    let (first, rest) = id.split_at(2.min(id.len()));
    root.join(format!(".build-id/{first}/{rest}.debug"))
}

/// Has elfutils' program ask the servers of $DEBUGINFOD_URLS. It keeps what they send.
fn ask_debuginfod(id: &str) -> Option<PathBuf> {
    let id = Some(id).filter(|id| !id.is_empty())?;
    std::env::var_os("DEBUGINFOD_URLS").filter(|urls| !urls.is_empty())?;
    let found = Command::new("debuginfod-find")
        .args(["debuginfo", id])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(found.stdout).ok()?.trim());
    (found.status.success() && check(&path, id).is_ok()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_name_files() {
        let path = by_build_id(Path::new("/d"), "abcdef");
        assert_eq!(path, Path::new("/d/.build-id/ab/cdef.debug"));
    }

    #[test]
    fn modules_are_found_by_their_name() {
        let list = "kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko\nkernel/a/snd-pcm.ko.xz:\n";
        assert_eq!(place_of("9p", list).unwrap(), "kernel/fs/9p/9p.ko");
        assert_eq!(place_of("snd_pcm", list).unwrap(), "kernel/a/snd-pcm.ko");
        assert_eq!(place_of("9pnet", list), None);
    }

    #[test]
    fn modules_are_looked_for_beside_a_vmlinux_too() {
        let named = roots(Some(Path::new("/x/boot/vmlinux-6")));
        assert_eq!(named, [Path::new("/x"), Path::new(DEBUG)]);
        assert_eq!(roots(Some(Path::new("/x/vmlinux"))), [Path::new(DEBUG)]);
    }
}
