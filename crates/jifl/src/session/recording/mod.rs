// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts of a session in a file: `record` writes it, `report`, `diff` and `merge` read it, on
//! any machine, without privileges.
//!
//! Code is named by its image (the kernel, a module) and its offset there, because addresses differ
//! from boot to boot. Code of no image, such as BPF programs, is in an image of its own, whose
//! build id is the boot's id, so that it is never taken for code of another boot. The recording has
//! the symbols in which the code lies, and the symbols next to them, which say where these end:
//! names are the same as on the recorded machine.

pub mod checks;
mod code;
mod destination;
pub mod file;
pub mod header;
mod kept;
pub mod sum;
mod warm;
mod writer;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use code::Code;
pub use destination::Destination;
pub use kept::{Keeper, Kept};
pub use warm::{Warm, Warmed};

use self::header::Header;
use crate::base::exit::Failure;
pub use crate::kernel::images::Image;
use crate::kernel::images::{self, Images};
use crate::kernel::running;
use crate::kernel::symbols::Symbols;
use crate::session::blocks::Profile;
use crate::session::report::Report;
use crate::show::output;
use crate::show::text::grouped;
use jifl_code::part::part;
use jifl_sys::abi::{Count, Kind, NO_BRANCH};

/// Default path of a recording.
pub const FILE: &str = "recording.jifl";

/// The content of the file. A session of kind profile has blocks; other counts have only the rows
/// of their report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    #[serde(flatten)]
    pub header: Header,
    pub report: Report,
    /// Copies of blocks made without a counter.
    pub without_counter: u64,
    pub images: Vec<Image>,
    /// Blocks, in the order of their addresses.
    pub symbols: Vec<Symbol>,
    pub blocks: Vec<Block>,
    /// Calls of a session of kind trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Code of the functions that were executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
}

/// The calls that `jifl trace` has kept, and the places of the entered functions, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    pub kept: Kept,
    pub functions: Vec<At>,
}

/// A place in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct At {
    pub image: usize,
    pub offset: u64,
}

/// A symbol, as in /proc/kallsyms.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Symbol {
    pub at: At,
    /// `T`, `t`: code; `D`: data.
    pub kind: char,
    pub name: String,
    /// `[nfs]`, or nothing.
    pub module: String,
}

/// A block; see [`Count`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub at: At,
    pub bytes: u32,
    pub insns: u32,
    pub executed: u64,
    /// See [`Count::hash`]; of the boot that was recorded. 0: unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hash: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
}

fn is_zero(hash: &u32) -> bool {
    *hash == 0
}

/// The conditional branch at the end of a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Its offset in the block.
    pub offset: u32,
    pub to: At,
    pub taken: u64,
}

impl Recording {
    /// The recording of a session of kind profile.
    pub fn of_profile(profile: &Profile) -> Recording {
        writer::of_profile(profile)
    }

    /// The recording of a session of kind trace, with the addresses of functions by their numbers.
    pub fn of_trace(
        report: &Report,
        symbols: &Symbols,
        kept: Kept,
        functions: &[u64],
    ) -> Recording {
        writer::of_trace(report, symbols, kept, functions)
    }

    /// A recording that has only the rows of its report.
    pub fn of_report(report: &Report) -> Recording {
        Recording {
            header: Header::here(images::kernel_build_id()),
            report: report.clone(),
            without_counter: 0,
            images: Vec::new(),
            symbols: Vec::new(),
            blocks: Vec::new(),
            trace: None,
            code: None,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no complete recording that this command understands.
    pub fn read(path: &Path) -> Result<Recording, Failure> {
        let recording = file::read(path)
            .and_then(|recording| checks::check(&recording).map(|()| recording))
            .map_err(|what| Failure::failed(format!("{}: {what}", path.display())))?;
        Ok(recording)
    }

    /// Is a file one?
    pub fn is_file(path: &Path) -> bool {
        file::is_recording(path)
    }

    /// Keeps the code of the functions that were executed, as it stands now.
    ///
    /// # Errors
    /// The kernel does not let its memory or its addresses be read.
    pub fn keep_code(&mut self, profile: &Profile) -> Result<(), Failure> {
        let image = running::image(Path::new("/"))?;
        let addresses = profile.executed().map(|block| block.orig);
        self.code = Some(Code::of(&part(&image, addresses)));
        Ok(())
    }

    /// The blocks, as the session had them.
    pub fn profile(&self) -> Profile {
        let mut blocks: Vec<Count> = self.blocks.iter().map(|block| self.count(block)).collect();
        blocks.sort_by_key(|block| (block.orig, block.src_len));
        let images = self.images.iter().filter(|image| !image.name.is_empty());
        Profile {
            blocks,
            refused: self.without_counter,
            report: self.report.clone(),
            symbols: Symbols::parse(&self.kallsyms()).into(),
            images: Images::from(images.cloned().collect()),
        }
    }

    fn count(&self, block: &Block) -> Count {
        let branch = block.branch.as_ref();
        Count {
            orig: self.address(block.at),
            executed: block.executed,
            taken: branch.map_or(0, |branch| branch.taken),
            target: branch.map_or(0, |branch| self.address(branch.to)),
            src_len: block.bytes,
            insns: block.insns,
            branch: branch.map_or(NO_BRANCH, |branch| branch.offset),
            hash: block.hash,
        }
    }

    /// The address of a place; 0 if its image does not exist, which a checked recording excludes.
    pub fn address(&self, at: At) -> u64 {
        let image = self.images.get(at.image);
        image.map_or(0, |image| image.base.saturating_add(at.offset))
    }

    /// Symbols as text, from which names are read.
    pub fn kallsyms(&self) -> String {
        let line = |symbol: &Symbol| {
            let at = self.address(symbol.at);
            let (kind, name, module) = (symbol.kind, &symbol.name, &symbol.module);
            format!("{at:x} {kind} {name} {module}\n")
        };
        self.symbols.iter().map(line).collect()
    }

    pub fn is_profile(&self) -> bool {
        self.report.kind == Kind::Profile
    }

    /// The content of calls and its number: `12 blocks`; empty if only sums are known.
    pub fn inside(&self) -> Option<String> {
        if let Some(trace) = &self.trace {
            return Some(format!("{} functions", grouped(trace.kept.functions())));
        }
        self.is_profile()
            .then(|| format!("{} blocks", grouped(self.blocks.len() as u64)))
    }

    /// The command that has made the recording.
    pub fn made_by(&self) -> String {
        match &self.trace {
            Some(_) => "jifl trace".to_owned(),
            None => format!("jifl count {}", self.kind()),
        }
    }

    /// The kind of the recording: `profile`, `insn`, ...
    pub fn kind(&self) -> &'static str {
        self.report.kind.name()
    }

    pub fn calls(&self) -> u64 {
        self.report.rows.iter().map(|row| row.calls).sum()
    }
}

/// Keeps a recording if one is wanted.
///
/// # Errors
/// As for [`keep`].
pub fn keep_in(
    destination: Option<Destination>,
    recording: impl FnOnce() -> Recording,
) -> Result<(), Failure> {
    destination.map_or(Ok(()), |destination| keep(destination, &recording()))
}

/// Writes a recording, and tells the user.
///
/// # Errors
/// It cannot be written there; the message says where it is instead.
pub fn keep(destination: Destination, recording: &Recording) -> Result<(), Failure> {
    let bytes = file::encode(recording);
    let shown = destination.shown();
    destination.write(&bytes)?;
    let inside = recording
        .inside()
        .map_or_else(String::new, |inside| inside + ", ");
    output::note(&format!(
        "jifl: {shown}: {inside}{} calls, {} bytes; `jifl report {shown}` shows them",
        grouped(recording.calls()),
        grouped(bytes.len() as u64)
    ));
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::session::blocks::tests::sample;

    /// The blocks of `blocks::tests::sample`, as recorded.
    pub fn recorded() -> Recording {
        let mut profile = sample();
        profile.images = Images::parse(
            "nfs 32 1 - Live 0xffffffff81000100\n",
            &Symbols::parse("ffffffff80fff000 T _text\nffffffff81000100 B _end\n"),
        );
        Recording::of_profile(&profile)
    }

    #[test]
    fn a_recording_shows_what_the_session_showed() {
        let (was, is) = (sample(), recorded().profile());
        assert_eq!(is.blocks, was.blocks);
        assert_eq!((is.refused, &is.report), (was.refused, &was.report));
        for block in &was.blocks {
            for address in [block.orig, block.target, block.orig + 3] {
                assert_eq!(is.name(address), was.name(address));
                assert_eq!(is.symbols.end(address), was.symbols.end(address));
            }
        }
    }

    #[test]
    fn code_is_named_by_image_and_offset() {
        let recording = recorded();
        let names: Vec<&str> = recording.images.iter().map(|i| i.name.as_str()).collect();
        // An address after the module's end belongs to no image.
        assert_eq!(names, ["vmlinux", "nfs", ""]);
        assert_eq!(
            recording.blocks[0].at,
            At {
                image: 0,
                offset: 0x1000
            }
        );
        assert_eq!(
            recording.blocks[4].at,
            At {
                image: 1,
                offset: 0
            }
        );
        let target = recording.blocks[4].branch.as_ref().unwrap().to;
        assert_eq!(target.image, 2);
    }
}
