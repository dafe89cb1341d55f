// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running kernel for `jifl-code`: its memory through /proc/kcore, its names from
//! /proc/kallsyms, its modules from /proc/modules, their sections from /sys/module.

use std::fs;
use std::path::Path;

use jifl_code::image::Image;
use jifl_code::running::{self, Memory, Module, Names};

use crate::base::exit::Failure;
use crate::kernel::images::{Images, KERNEL, NOTES};
use crate::kernel::memory::{self, KCORE, Kcore};
use crate::kernel::sections::Sections;
use crate::kernel::symbols::Symbols;

const KALLSYMS: &str = "proc/kallsyms";
const MODULES: &str = "proc/modules";

/// The code of the kernel and of its modules, as it stands now: of this machine, where `root` is
/// `/`, or of the machine whose files [`keep`] has copied below `root`.
///
/// # Errors
/// The kernel does not let its memory or its addresses be read.
pub fn image(root: &Path) -> Result<Image, Failure> {
    read(root, &mut Kcore::of(root)?)
}

fn read(root: &Path, memory: &mut dyn Memory) -> Result<Image, Failure> {
    let names = || Names::parse(&fs::read_to_string(root.join(KALLSYMS)).unwrap_or_default());
    let told = || which(&fs::read_to_string(root.join(MODULES)).unwrap_or_default());
    let mut before = told();
    for _ in 0..LOOKS {
        let (names, modules) = rayon::join(names, || modules(root));
        let behind = told();
        // A module that comes or goes meanwhile would have names without text, or some sections.
        if before == behind {
            return running::image(names, &modules, memory)
                .map_err(|error| Failure::cannot(error.to_string()));
        }
        before = behind;
    }
    Err(Failure::failed(
        "modules come and go all the time: try again".to_owned(),
    ))
}

/// So often are modules looked at until two looks say the same.
const LOOKS: usize = 50;

/// Of each line of /proc/modules the name, the state and the address. How often modules are used,
/// and by which others, changes all the time, and changes no text.
fn which(modules: &str) -> Vec<[String; 3]> {
    let of = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        [0, 4, 5].map(|word| words.get(word).copied().unwrap_or_default().to_owned())
    };
    modules.lines().map(of).collect()
}

/// Copies what [`image`] reads of this machine into a new directory.
///
/// # Errors
/// It cannot be read, or not written.
pub fn keep(directory: &Path) -> Result<(), Failure> {
    let root = Path::new("/");
    let mut memory = Kept {
        kcore: Kcore::of(root)?,
        parts: Vec::new(),
    };
    read(root, &mut memory)?;
    let write = |path: &str, bytes: &[u8]| {
        let path = directory.join(path);
        let parent = path.parent().unwrap_or(directory);
        let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, bytes));
        written.map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
    };
    fs::create_dir(directory)
        .map_err(|error| Failure::failed(format!("{}: {error}", directory.display())))?;
    write(KCORE, &memory::core(&memory.parts))?;
    for path in [KALLSYMS, MODULES, NOTES] {
        write(path, &fs::read(root.join(path)).unwrap_or_default())?;
    }
    for module in modules(root) {
        for (address, name) in &module.sections {
            let path = format!("sys/module/{}/sections/{name}", module.name);
            write(&path, format!("{address:#018x}\n").as_bytes())?;
        }
    }
    Ok(())
}

/// Memory of which everything that is read is kept.
struct Kept {
    kcore: Kcore,
    parts: Vec<(u64, Vec<u8>)>,
}

impl Kept {
    fn keep(&mut self, address: u64, bytes: Option<Vec<u8>>) -> Option<Vec<u8>> {
        self.parts.push((address, bytes.clone()?));
        bytes
    }
}

impl Memory for Kept {
    fn read(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let bytes = self.kcore.read(address, length);
        self.keep(address, bytes)
    }

    fn bulk(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let bytes = self.kcore.bulk(address, length);
        self.keep(address, bytes)
    }
}

/// The loaded modules of this machine.
pub fn modules_here() -> Vec<Module> {
    modules(Path::new("/"))
}

/// The loaded modules of the machine whose files are below `root`.
fn modules(root: &Path) -> Vec<Module> {
    let text = fs::read_to_string(root.join(MODULES)).unwrap_or_default();
    // Of the others, which come or go, /sys may have a part of the sections.
    let live = text
        .lines()
        .filter(|line| line.split(' ').nth(4) == Some("Live"));
    let live: Vec<&str> = live.collect();
    let images = Images::parse(&live.join("\n"), &Symbols::default());
    let modules = images.all().iter().filter(|image| image.name != KERNEL);
    let module = |image: &crate::kernel::images::Image| {
        let sections = Sections::of(root, &image.name);
        let sections = sections.all();
        Module {
            name: image.name.clone(),
            size: image.size,
            sections: sections
                .map(|(address, name)| (address, name.to_owned()))
                .collect(),
        }
    };
    modules.map(module).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_are_used_more_often_are_the_same() {
        let before = which("nfs 64 1 - Live 0xffffffffc0000100\next4 8 0 - Live 0x2000\n");
        let used = which("nfs 64 3 lockd, Live 0xffffffffc0000100\next4 8 1 - Live 0x2000\n");
        assert_eq!(before, used);
        for other in [
            "nfs 64 1 - Unloading 0xffffffffc0000100\next4 8 0 - Live 0x2000\n",
            "nfs 64 1 - Live 0xffffffffc0000100\n",
            "nfs 64 1 - Live 0xffffffffc0000200\next4 8 0 - Live 0x2000\n",
        ] {
            assert_ne!(before, which(other), "{other}");
        }
    }

    #[test]
    fn modules_are_those_with_their_sections() {
        let root = std::env::temp_dir().join(format!("jifl-running-{}", std::process::id()));
        let sections = root.join("sys/module/nfs/sections");
        fs::create_dir_all(&sections).unwrap();
        fs::create_dir_all(root.join("proc")).unwrap();
        fs::write(
            root.join(MODULES),
            "nfs 64 1 - Live 0xffffffffc0000100\next4 8192 0 - Live 0xffffffffc0004000\n",
        )
        .unwrap();
        fs::write(sections.join(".text"), "0xffffffffc0000100\n").unwrap();
        let found = modules(&root);
        let failure = image(&root).unwrap_err();
        fs::remove_dir_all(&root).unwrap();
        let text = vec![(0xffff_ffff_c000_0100, ".text".to_owned())];
        let own = found
            .iter()
            .map(|own| (own.name.as_str(), own.size, own.sections.clone()));
        assert_eq!(
            own.collect::<Vec<_>>(),
            [("nfs", 64, text), ("ext4", 8192, Vec::new())]
        );
        assert_eq!(failure.status, crate::base::exit::CANNOT);
        assert!(failure.message.contains("proc/kcore"), "{failure:?}");
    }
}
