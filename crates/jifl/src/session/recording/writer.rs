// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a recording of what a session on this machine has counted.

use jifl_code::names::Line;
use jifl_sys::abi::{Count, NO_BRANCH};

use super::header::Header;
use super::{At, Block, Branch, Image, Kept, Recording, Symbol, Trace};
use crate::kernel::images::{Images, KERNEL};
use crate::kernel::symbols::Symbols;
use crate::session::blocks::Profile;
use crate::session::report::Report;

/// The recording of a profile, with the symbols that its addresses need.
pub fn of_profile(profile: &Profile) -> Recording {
    let kernel = profile.images.kernel();
    let header = Header::here(kernel.map_or_else(String::new, |image| image.build_id.clone()));
    let addresses = profile.blocks.iter().flat_map(addresses);
    let symbols = profile.symbols.around(addresses.clone());
    let code = addresses.map(|address| (address, profile.symbols.module(address)));
    let symbols_at = symbols.iter().map(|entry| (entry.address, entry.module));
    let places = Places::of(&profile.images, &header.boot_id, code.chain(symbols_at));
    let at = |address| places.at(address, profile.symbols.module(address));
    let block = |block: &Count| Block {
        at: at(block.orig),
        bytes: block.src_len,
        insns: block.insns,
        executed: block.executed,
        hash: block.hash,
        branch: (block.branch != NO_BRANCH).then(|| Branch {
            offset: block.branch,
            to: at(block.target),
            taken: block.taken,
        }),
    };
    Recording {
        symbols: places.symbols(&symbols),
        trace: None,
        code: None,
        blocks: profile.blocks.iter().map(block).collect(),
        report: profile.report.clone(),
        without_counter: profile.refused,
        header,
        images: places.images,
    }
}

/// The recording of a trace, with the symbols of the functions at these addresses.
pub fn of_trace(report: &Report, symbols: &Symbols, kept: Kept, functions: &[u64]) -> Recording {
    let images = Images::of_kernel(symbols);
    let kernel = images.kernel();
    let header = Header::here(kernel.map_or_else(String::new, |image| image.build_id.clone()));
    let around = symbols.around(functions.iter().copied());
    let code = functions
        .iter()
        .map(|address| (*address, symbols.module(*address)));
    let symbols_at = around.iter().map(|entry| (entry.address, entry.module));
    let places = Places::of(&images, &header.boot_id, code.chain(symbols_at));
    let at = |address: &u64| places.at(*address, symbols.module(*address));
    Recording {
        symbols: places.symbols(&around),
        trace: Some(Trace {
            kept,
            functions: functions.iter().map(at).collect(),
        }),
        code: None,
        blocks: Vec::new(),
        report: report.clone(),
        without_counter: 0,
        header,
        images: places.images,
    }
}

/// The addresses of a block whose names may be asked for.
fn addresses(block: &Count) -> impl Iterator<Item = u64> + Clone {
    let branch = (block.branch != NO_BRANCH)
        .then(|| [block.orig.wrapping_add(block.branch.into()), block.target]);
    std::iter::once(block.orig).chain(branch.into_iter().flatten())
}

/// The images of a recording: those that contain some of the code.
struct Places {
    images: Vec<Image>,
    /// Index of the image for code that belongs to no other: the last.
    other: usize,
}

impl Places {
    /// `code`: addresses, each with the module of its symbol.
    fn of<'a>(
        images: &Images,
        boot_id: &str,
        code: impl Iterator<Item = (u64, Option<&'a str>)>,
    ) -> Places {
        let all = images.all();
        let mut places = Places {
            images: all.to_vec(),
            other: all.len(),
        };
        let mut used = vec![false; all.len()];
        let (mut from, mut to) = (u64::MAX, 0);
        for (address, module) in code {
            match places.find(address, module) {
                Some(index) => used[index] = true,
                None => (from, to) = (from.min(address), to.max(address)),
            }
        }
        let mut used = used.into_iter();
        places.images.retain(|_| used.next() == Some(true));
        places.other = places.images.len();
        if from <= to {
            places.images.push(Image {
                name: String::new(),
                build_id: boot_id.to_owned(),
                base: from,
                size: (to - from).saturating_add(1),
            });
        }
        places
    }

    fn symbols(&self, entries: &[Line<'_>]) -> Vec<Symbol> {
        let symbol = |entry: &Line<'_>| Symbol {
            at: self.at(entry.address, entry.module),
            kind: entry.kind,
            name: entry.name.to_owned(),
            module: entry
                .module
                .map_or_else(String::new, |name| format!("[{name}]")),
        };
        entries.iter().map(symbol).collect()
    }

    fn at(&self, address: u64, module: Option<&str>) -> At {
        let image = self.find(address, module).unwrap_or(self.other);
        let base = self.images.get(image).map_or(0, |image| image.base);
        At {
            image,
            offset: address.wrapping_sub(base),
        }
    }

    /// A module's memory is not in one piece, and code of others may be within its size. So a
    /// symbol tells the module better than the address does.
    fn find(&self, address: u64, module: Option<&str>) -> Option<usize> {
        let name = module.unwrap_or(KERNEL);
        let has = |image: &Image| {
            image.name == name
                && address
                    .checked_sub(image.base)
                    .is_some_and(|o| o < image.size)
        };
        self.images.iter().position(has)
    }
}
