// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the files of a kernel are that does not have to run: image, configuration, headers.

use std::fs;
use std::path::{Path, PathBuf};

use jifl_vm::kernel;

use crate::base::exit::Failure;
use crate::base::nearest::nearest;

/// The image of what `--kernel` names: a file; a release that is installed below `top`; in a source
/// tree, what `jifl vm --kernel` takes.
///
/// # Errors
/// There is none.
pub fn image(word: &str, top: &Path, tree: Option<&Path>) -> Result<PathBuf, Failure> {
    let file = Path::new(word);
    if word.contains('/') || file.is_file() {
        return Ok(file.to_owned());
    }
    let places = [
        format!("boot/vmlinuz-{word}"),
        format!("usr/lib/modules/{word}/vmlinuz"),
        format!("lib/modules/{word}/vmlinuz"),
        format!("boot/vmlinux-{word}"),
        format!("usr/lib/debug/boot/vmlinux-{word}"),
    ];
    let mut installed = places.iter().map(|place| top.join(place));
    if let Some(image) = installed.find(|image| image.exists()) {
        return Ok(image);
    }
    if let Some(tree) = tree {
        if let Ok(found) = kernel::find(word, &tree.join("build/kernels")) {
            return Ok(found.image);
        }
    }
    Err(Failure::failed(format!(
        "no kernel {word}: there is no {}, nor in /lib/modules/{word}{}; or name the image's file",
        top.join(&places[0]).display(),
        hint(word, top, tree)
    )))
}

/// The releases that there are, the nearest of them.
fn hint(word: &str, top: &Path, tree: Option<&Path>) -> String {
    let kernels = tree.map(|tree| tree.join("build/kernels/lib/modules"));
    let folders = [Some(top.join("lib/modules")), kernels];
    let mut releases: Vec<String> = folders
        .iter()
        .flatten()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flat_map(|entries| entries.flatten())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    releases.sort();
    let near = nearest(word, releases.iter().map(String::as_str));
    match (near.as_slice(), releases.as_slice()) {
        (_, []) => String::new(),
        ([], all) => format!("; there are {}", all.join(", ")),
        (near, _) => format!("; the nearest are {}", near.join(", ")),
    }
}

/// The directories below which files of a kernel may be, if its image is there: the nearest first,
/// `top` last. A kernel that is unpacked somewhere has its boot/ and lib/ there.
pub fn tops(image: &Path, top: &Path) -> Vec<PathBuf> {
    let image = fs::canonicalize(image).unwrap_or_else(|_| image.to_owned());
    let mut tops: Vec<PathBuf> = image.ancestors().skip(1).map(Path::to_owned).collect();
    tops.retain(|own| own.starts_with(top) && own != top);
    tops.push(top.to_owned());
    tops
}

/// The configuration that stands beside an image, or where packages put it.
pub fn config(image: &Path, release: &str, tops: &[PathBuf]) -> Option<PathBuf> {
    let folder = image.parent().unwrap_or(Path::new(""));
    let name = image.file_name().and_then(|name| name.to_str());
    let of_name = name
        .and_then(|name| name.split_once('-'))
        .map(|(_, rest)| folder.join(format!("config-{rest}")));
    // In a directory where a kernel is built, of vmlinux and of arch/x86/boot/bzImage.
    let built = [folder.join(".config"), folder.join("../../../.config")];
    let beside = [
        Some(folder.join(format!("config-{release}"))),
        of_name,
        Some(folder.join("config")),
    ];
    let installed = tops.iter().flat_map(|top| {
        [
            format!("boot/config-{release}"),
            format!("usr/lib/modules/{release}/config"),
            format!("lib/modules/{release}/config"),
            format!("lib/modules/{release}/build/.config"),
            format!("usr/src/linux-headers-{release}/.config"),
        ]
        .map(|place| top.join(place))
    });
    let mut all = beside.into_iter().flatten().chain(built).chain(installed);
    all.find(|path| path.is_file())
}

/// The directory that modules for a kernel are built in.
pub fn headers(release: &str, tops: &[PathBuf]) -> Option<PathBuf> {
    let places = tops.iter().flat_map(|top| {
        [
            format!("lib/modules/{release}/build"),
            format!("usr/src/linux-headers-{release}"),
            format!("usr/src/kernels/{release}"),
        ]
        .map(|place| top.join(place))
    });
    let mut places = places;
    places.find(|place| place.join("Makefile").exists())
}

/// How a system gets them, by what distributions put into releases.
pub fn headers_remedy(release: &str) -> String {
    let command = if release.contains(".fc") || release.contains(".el") {
        format!("dnf install kernel-devel-{release}")
    } else if release.contains("-arch") {
        "pacman -S linux-headers".into()
    } else if release.ends_with("-default") {
        "zypper install kernel-default-devel".into()
    } else {
        format!("apt-get install linux-headers-{release}")
    };
    format!("{command}, to build the module for this kernel")
}
