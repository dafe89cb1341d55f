// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running kernel for `jifl-code`: its memory through /proc/kcore, its names from
//! /proc/kallsyms, its modules from /proc/modules, their sections from /sys/module.

use std::fs;
use std::path::Path;

use jifl_code::image::Image;
use jifl_code::running::{self, Module, Names};

use crate::base::exit::Failure;
use crate::kernel::images::{Images, KERNEL};
use crate::kernel::memory::Kcore;
use crate::kernel::sections::Sections;
use crate::kernel::symbols::Symbols;

impl running::Memory for Kcore {
    fn read(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        self.bulk(address, length)
    }
}

/// The code of the kernel and of its modules, as it stands now.
///
/// # Errors
/// The kernel does not let its memory or its addresses be read.
pub fn image() -> Result<Image, Failure> {
    let mut kcore = Kcore::open()?;
    let kallsyms = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let names = Names::parse(&kallsyms);
    running::image(&names, &modules(Path::new("/")), &mut kcore)
        .map_err(|error| Failure::cannot(error.to_string()))
}

/// The loaded modules of the machine whose files are below `root`.
fn modules(root: &Path) -> Vec<Module> {
    let text = fs::read_to_string(root.join("proc/modules")).unwrap_or_default();
    let images = Images::parse(&text, &Symbols::default());
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
