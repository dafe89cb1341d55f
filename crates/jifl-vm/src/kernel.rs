// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel images and the modules that belong to them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// An image, its release and where its modules are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The bzImage, or an uncompressed ELF image.
    pub image: PathBuf,
    /// The same kernel as an ELF image, where setup has unpacked one: boots in
    /// half the time, at the addresses it was linked for (no KASLR).
    pub unpacked: Option<PathBuf>,
    /// What `uname -r` says under it.
    pub release: String,
    /// `.../lib/modules/<release>`, where there is one.
    pub modules: Option<PathBuf>,
}

/// Finds the kernel that `--kernel` names: a file, or a series such as `6.1`
/// among the kernels in `kernels` (`build/kernels`).
///
/// The error is one line that names the way out.
pub fn find(wanted: &str, kernels: &Path) -> Result<Kernel, String> {
    if wanted.contains('/') {
        return open(Path::new(wanted));
    }
    let boot = kernels.join("boot");
    let mut images: Vec<PathBuf> = fs::read_dir(&boot)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    images.retain(|image| {
        image
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_prefix("vmlinuz-"))
            .is_some_and(|release| is_of_series(release, wanted))
    });
    images.sort();
    match images.last() {
        Some(image) => open(image),
        None => Err(format!(
            "no kernel {wanted} in {}: run `make setup` (6.1, 6.12) or `scripts/fetch-newest` \
             (Debian's newest), or name an image with --kernel PATH",
            boot.display()
        )),
    }
}

/// `6.1.0-56-amd64` is of series `6.1`, and of no series `6`, `6.10`.
fn is_of_series(release: &str, series: &str) -> bool {
    release == series
        || release
            .strip_prefix(series)
            .is_some_and(|rest| rest.starts_with(['.', '-']))
            && series.contains('.')
}

fn open(image: &Path) -> Result<Kernel, String> {
    let image = fs::canonicalize(image)
        .map_err(|error| format!("kernel image {}: {error}", image.display()))?;
    let release = release_of(&image)?;
    let beside = image
        .parent()
        .and_then(Path::parent)
        .map(|top| top.join("lib/modules").join(&release));
    let installed = Path::new("/lib/modules").join(&release);
    let modules = beside
        .into_iter()
        .chain([installed])
        .find(|dir| dir.join("modules.dep").exists());
    let unpacked = image.with_file_name(format!("vmlinux-{release}"));
    Ok(Kernel {
        unpacked: (unpacked.exists() && unpacked != image).then_some(unpacked),
        image,
        release,
        modules,
    })
}

/// Reads the release out of a bzImage (Documentation/arch/x86/boot.rst), or out
/// of the banner in an ELF image.
fn release_of(image: &Path) -> Result<String, String> {
    let read = || -> std::io::Result<Option<String>> {
        let mut file = fs::File::open(image)?;
        let mut head = [0; 0x210];
        if file.read_exact(&mut head).is_err() {
            return Ok(None);
        }
        if head.starts_with(b"\x7fELF") {
            return Ok(release_in_banner(&fs::read(image)?));
        }
        if &head[0x202..0x206] != b"HdrS" {
            return Ok(None);
        }
        let at = u16::from_le_bytes([head[0x20e], head[0x20f]]);
        let mut text = [0; 256];
        file.seek(SeekFrom::Start(u64::from(at) + 0x200))?;
        let length = file.read(&mut text)?;
        let text = String::from_utf8_lossy(&text[..length]);
        Ok(text.split([' ', '\0']).next().map(str::to_owned))
    };
    match read() {
        Ok(Some(release)) if !release.is_empty() => Ok(release),
        Ok(_) => Err(format!(
            "{} is no Linux kernel image for x86",
            image.display()
        )),
        Err(error) => Err(format!("{}: {error}", image.display())),
    }
}

fn release_in_banner(image: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"Linux version ";
    let at = image
        .windows(BANNER.len())
        .position(|part| part == BANNER)?;
    let rest = &image[at + BANNER.len()..];
    let end = rest.iter().position(|byte| *byte == b' ')?;
    String::from_utf8(rest[..end].to_vec()).ok()
}

/// The files to insert, in order, to have the modules called `names`. Names that
/// are not there are built in, or not to be had, and skipped.
pub fn resolve(modules: &Path, names: &[&str]) -> Result<Vec<PathBuf>, String> {
    let path = modules.join("modules.dep");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(resolve_in(&text, names)
        .into_iter()
        .map(|file| modules.join(file))
        .collect())
}

/// Each line of modules.dep lists a module's needs, direct and indirect, such
/// that inserting them from the last to the first works.
fn resolve_in(dep: &str, names: &[&str]) -> Vec<String> {
    let lines: BTreeMap<String, (&str, &str)> = dep
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(file, needs)| (name_of(file), (file, needs)))
        .collect();
    let mut order: Vec<String> = Vec::new();
    for name in names {
        let Some((file, needs)) = lines.get(*name) else {
            continue;
        };
        for file in needs.split_whitespace().rev().chain([*file]) {
            if !order.iter().any(|known| known == file) {
                order.push(file.to_owned());
            }
        }
    }
    order
}

fn name_of(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().unwrap_or(name).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_a_prefix_of_whole_numbers() {
        assert!(is_of_series("6.1.0-56-amd64", "6.1"));
        assert!(is_of_series("6.12.117+deb12-amd64", "6.12"));
        assert!(is_of_series("6.1.0-56-amd64", "6.1.0-56-amd64"));
        assert!(!is_of_series("6.12.117+deb12-amd64", "6.1"));
        assert!(!is_of_series("6.1.0-56-amd64", "6"));
    }

    #[test]
    fn needs_are_inserted_first_and_once() {
        let dep = "kernel/net/9p/9pnet.ko.xz: kernel/fs/netfs/netfs.ko.xz\n\
                   kernel/fs/netfs/netfs.ko.xz:\n\
                   kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\n\
                   kernel/drivers/virtio/virtio-pci.ko.xz:\n";
        assert_eq!(
            resolve_in(dep, &["virtio_pci", "no_such", "9p", "9pnet"]),
            [
                "kernel/drivers/virtio/virtio-pci.ko.xz",
                "kernel/fs/netfs/netfs.ko.xz",
                "kernel/net/9p/9pnet.ko.xz",
                "kernel/fs/9p/9p.ko.xz"
            ]
        );
    }

    #[test]
    fn an_elf_image_tells_its_release() {
        let image = b"\x7fELF....Linux version 6.1.0-9-amd64 (someone) ...";
        assert_eq!(release_in_banner(image).unwrap(), "6.1.0-9-amd64");
        assert_eq!(release_in_banner(b"\x7fELF"), None);
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        let error = find("/proc/self/status", Path::new("/nowhere")).unwrap_err();
        assert!(error.contains("no Linux kernel"), "{error}");
        let error = find("9.9", Path::new("/nowhere")).unwrap_err();
        assert!(error.contains("make setup"), "{error}");
    }
}
