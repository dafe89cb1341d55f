// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the kernel has put the sections of a loaded module (/sys/module/NAME/sections, for root
//! only). The kernel does not tell how long the sections are. It also names the sections of the
//! module's initialization, when their memory has long been freed.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Addresses of sections, by name.
#[derive(Debug, Default)]
pub struct Sections(HashMap<String, u64>);

impl Sections {
    /// Sections of the module `name`, on the machine whose files are below `root`; none if it is
    /// not loaded or its addresses are hidden.
    pub fn of(root: &Path, name: &str) -> Sections {
        let directory = root.join("sys/module").join(name).join("sections");
        let files = fs::read_dir(directory).into_iter().flatten().flatten();
        let section = |file: fs::DirEntry| {
            let name = file.file_name().into_string().ok()?;
            let text = fs::read_to_string(file.path()).ok()?;
            let address = u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()?;
            // The kernel shows 0 for each hidden address.
            (address > 0).then_some((name, address))
        };
        Sections(files.filter_map(section).collect())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (u64, &str)> {
        let all = self.0.iter();
        all.map(|(name, address)| (*address, name.as_str()))
    }

    /// The beginning of a section.
    pub fn address(&self, section: &str) -> Option<u64> {
        self.0.get(section).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_unless_they_are_hidden() {
        let root = std::env::temp_dir().join(format!("jifl-sections-{}", std::process::id()));
        let directory = root.join("sys/module/mod/sections");
        fs::create_dir_all(&directory).unwrap();
        for (name, text) in [
            (".text", "0xffffffffc0001000\n"),
            ("__ex_table", "0xffffffffc0003010\n"),
            (".rodata", "0xffffffffc0003000\n"),
            (".data", "0xffffffffc0005000\n"),
            (".bss", "0x0000000000000000\n"),
            (".broken", "nothing\n"),
        ] {
            fs::write(directory.join(name), text).unwrap();
        }
        let sections = Sections::of(&root, "mod");
        let gone = Sections::of(&root, "gone");
        fs::remove_dir_all(root).unwrap();

        let table = sections.address("__ex_table").unwrap();
        assert_eq!(table, 0xffff_ffff_c000_3010);
        for name in [".bss", ".broken", ".none"] {
            assert_eq!(sections.address(name), None, "{name}");
        }
        assert_eq!((gone.address(".text"), gone.all().count()), (None, 0));
    }
}
