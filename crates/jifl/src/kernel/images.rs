// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where code lies: the kernel and its modules, with the build ids that identify them.

use std::fs;
use std::path::Path;

use object::Object;
use serde::{Deserialize, Serialize};

use crate::kernel::symbols::Symbols;

/// The name for the kernel itself.
pub use jifl_code::image::NAME as KERNEL;

/// The lowest address at which the kernel's text can begin.
const LOWEST: u64 = 0xffff_ffff_8000_0000;

/// Type of the ELF note that has the build id. Notes have words of 4 bytes; their names and
/// contents are padded to words.
const BUILD_ID: u32 = 3;

/// The kernel, or a module; in a recording also an image of code that belongs to neither.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// `vmlinux`, or the module's name; empty for code that belongs to neither.
    pub name: String,
    /// In hexadecimal; empty where it is not known.
    pub build_id: String,
    /// The kernel's `_text`, or the beginning of the module's code.
    pub base: u64,
    /// The kernel: up to `_end`. A module: size of all its memory, wherever that is.
    pub size: u64,
}

/// All images, in the order of their addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Images(Vec<Image>);

impl Images {
    /// The images of the running kernel.
    pub fn of_kernel(symbols: &Symbols) -> Images {
        let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
        let mut images = Images::parse(&modules, symbols);
        for image in &mut images.0 {
            image.build_id = match image.name.as_str() {
                KERNEL => kernel_build_id(),
                name => module_build_id(name),
            };
        }
        images
    }

    /// From the text of /proc/modules, without build ids.
    pub fn parse(modules: &str, symbols: &Symbols) -> Images {
        let base = symbols.address("_text").unwrap_or(LOWEST);
        let end = symbols.address("_end").unwrap_or(u64::MAX);
        let kernel = Image {
            name: KERNEL.into(),
            build_id: String::new(),
            base,
            size: end.saturating_sub(base),
        };
        let modules = modules.lines().filter_map(parse);
        Images::from(std::iter::once(kernel).chain(modules).collect())
    }

    /// Sorts the images.
    pub fn from(mut all: Vec<Image>) -> Images {
        all.sort_by_key(|image| image.base);
        Images(all)
    }

    /// Index of the image that contains an address.
    pub fn index(&self, address: u64) -> Option<usize> {
        let behind = self.0.partition_point(|image| image.base <= address);
        let index = behind.checked_sub(1)?;
        (address - self.0[index].base < self.0[index].size).then_some(index)
    }

    /// All images.
    pub fn all(&self) -> &[Image] {
        &self.0
    }

    /// The kernel itself.
    pub fn kernel(&self) -> Option<&Image> {
        self.0.iter().find(|image| image.name == KERNEL)
    }
}

/// Build id of the running kernel.
pub fn kernel_build_id() -> String {
    build_id_of_machine(Path::new("/"))
}

/// The file below the root directory that has the running kernel's build id.
pub const NOTES: &str = "sys/kernel/notes";

/// Build id of the kernel that runs on the machine whose files are below `root`.
pub fn build_id_of_machine(root: &Path) -> String {
    let notes = fs::read(root.join(NOTES)).unwrap_or_default();
    build_id(&notes).map(hex).unwrap_or_default()
}

/// Build id of a file of a kernel or module.
pub fn build_id_of_file(path: &Path) -> String {
    build_id_of_elf(&fs::read(path).unwrap_or_default())
}

/// Build id in what such a file contains.
pub fn build_id_of_elf(file: &[u8]) -> String {
    let elf = object::File::parse(file).ok();
    let id = elf.as_ref().and_then(|elf| elf.build_id().ok().flatten());
    id.map(hex).unwrap_or_default()
}

/// Build id of a loaded module.
pub fn module_build_id(name: &str) -> String {
    build_id_of_loaded(&Path::new("/sys/module").join(name))
}

/// The same, by the module's folder in /sys/module.
pub fn build_id_of_loaded(place: &Path) -> String {
    let notes = fs::read(place.join("notes/.note.gnu.build-id")).unwrap_or_default();
    build_id(&notes).map(hex).unwrap_or_default()
}

/// `ext4 1048576 1 - Live 0xffffffffc0400000`
fn parse(line: &str) -> Option<Image> {
    let words: Vec<&str> = line.split(' ').collect();
    let (name, size, base) = (words.first()?, words.get(1)?, words.get(5)?);
    Some(Image {
        name: (*name).to_owned(),
        build_id: String::new(),
        base: u64::from_str_radix(base.strip_prefix("0x")?, 16).ok()?,
        size: size.parse().ok()?,
    })
}

/// The build id in a sequence of notes.
fn build_id(notes: &[u8]) -> Option<&[u8]> {
    let mut rest = notes;
    loop {
        let word = |at: usize| {
            let bytes = rest.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let (name, text, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let text_at = 12 + name.next_multiple_of(4);
        let (is_gnu, said) = (rest.get(12..12 + name)? == b"GNU\0", rest.get(text_at..)?);
        if kind == BUILD_ID && is_gnu {
            return said.get(..text);
        }
        rest = said.get(text.next_multiple_of(4)..)?;
    }
}

/// Two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, said: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [name.len() as u32, said.len() as u32, kind] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for part in [name, said] {
            bytes.extend_from_slice(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn the_build_id_is_found_among_notes() {
        let mut notes = note(b"Xen\0", 3, b"x");
        notes.extend(note(b"GNU\0", 1, b"abcde"));
        notes.extend(note(b"GNU\0", 3, &[0xab, 0x01]));
        assert_eq!(build_id(&notes).map(hex).as_deref(), Some("ab01"));
        // The padding of the last note is not needed.
        for n in 0..notes.len() - 2 {
            assert_eq!(build_id(&notes[..n]), None, "{n} bytes");
        }
    }

    #[test]
    fn addresses_lie_in_the_kernel_a_module_or_nowhere() {
        let symbols = Symbols::parse("ffffffff81000000 T _text\nffffffff81002000 B _end\n");
        let images = Images::parse(
            "nfs 64 1 - Live 0xffffffffc0000100\nbroken\nhidden 64 0 - Live 0xzz\n",
            &symbols,
        );
        let name = |address| {
            let index = images.index(address)?;
            Some(images.all()[index].name.as_str())
        };
        assert_eq!(name(0xffff_ffff_8100_0000), Some("vmlinux"));
        assert_eq!(name(0xffff_ffff_8100_2000), None);
        assert_eq!(name(0xffff_ffff_c000_013f), Some("nfs"));
        assert_eq!(name(0xffff_ffff_c000_0140), None);
        assert_eq!(name(1), None);
    }
}
