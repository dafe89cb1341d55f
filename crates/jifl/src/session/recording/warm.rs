// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--warm FILE`: the blocks of a recording are translated before a session's calls come to them.
//!
//! A block is where its image is now, if that is of the same build. In the boot that it was
//! recorded in its bytes must be the same, too; in another one the kernel lies elsewhere and
//! code has other addresses in it, so its length and instructions are compared alone.

use std::path::Path;
use std::time::Instant;

use jifl_sys::abi::{Count, WARM_MAX, Warm as Request, WarmBlock};
use jifl_sys::device::{self, Door};
use rustix::io::Errno;

use super::header::Header;
use super::{At, Recording};
use crate::base::duration;
use crate::base::exit::Failure;
use crate::kernel::images::{Image, Images};
use crate::kernel::memory::{Kcore, Memory};
use crate::kernel::symbols::Symbols;
use crate::session::blocks::code::hash;
use crate::session::device as module;
use crate::show::output;
use crate::show::text::grouped;

/// Blocks to translate.
#[derive(Debug)]
pub struct Warm {
    /// The file's name.
    shown: String,
    /// Blocks, in the order of their places in their images.
    blocks: Vec<WarmBlock>,
    /// Number of blocks whose image is not here.
    elsewhere: u64,
    /// The kernel of the recording, if it is not this one.
    kernel: Option<String>,
}

/// Numbers of a translation.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Warmed {
    /// Blocks of the recording that are in the cache.
    present: u64,
    /// Blocks whose code differs here.
    other: u64,
    /// Blocks for which there was no room.
    left: u64,
    /// Blocks translated in all.
    pub blocks: u64,
    pub insns: u64,
    pub translate_ns: u64,
    /// Time of the whole request, in nanoseconds.
    ns: u64,
}

impl Warm {
    /// The executed blocks of a recording.
    ///
    /// # Errors
    /// The file is no recording, or it has no blocks; or addresses are hidden.
    pub fn of(path: &Path) -> Result<Warm, Failure> {
        let recording = Recording::read(path)?;
        let shown = path.display().to_string();
        if !recording.is_profile() {
            return Err(without_blocks(&shown, &recording));
        }
        let symbols = Symbols::of_kernel();
        if symbols.address("_text").is_none_or(|address| address == 0) {
            return Err(hidden());
        }
        let images = Images::of_kernel(&symbols);
        let kernel = images.kernel().map(|image| image.build_id.clone());
        let here = Header::here(kernel.unwrap_or_default());
        Ok(recording.warm(shown, &images, &here))
    }

    /// Translates the blocks for a door's session.
    ///
    /// # Errors
    /// The module refuses.
    pub fn carry_out(&self, door: &impl Door) -> Result<Warmed, Failure> {
        let began = Instant::now();
        let mut warmed = Warmed {
            other: self.elsewhere,
            ..Warmed::default()
        };
        for blocks in self.blocks.chunks(WARM_MAX) {
            let mut request = Request::default();
            match door.call(device::Request::Warm(&mut request, blocks)) {
                Ok(()) => warmed.add(&request),
                // `jifl detach` has ended the session. The user is told when the session's end is
                // handled.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => break,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::PERM) => {
                    return Err(hidden());
                }
                Err(error) => return Err(module::failed("translating the recording", &error)),
            }
        }
        warmed.ns = began.elapsed().as_nanos() as u64;
        Ok(warmed)
    }

    /// Tells the user what was translated.
    pub fn note(&self, warmed: &Warmed) {
        output::note(&self.line(warmed));
    }

    fn line(&self, warmed: &Warmed) -> String {
        let mut line = format!(
            "jifl: warmed {} blocks of {} in {}, {} skipped",
            grouped(warmed.present),
            self.shown,
            duration::show(warmed.ns),
            grouped(warmed.other)
        );
        match &self.kernel {
            Some(kernel) => line += &format!(" (it is of another kernel: {kernel})"),
            None if warmed.other > 0 => line += " (other code)",
            None => {}
        }
        if warmed.left > 0 {
            line += &format!(
                ", {} without room: load the module with a larger cache_kb and side_kb",
                grouped(warmed.left)
            );
        }
        line
    }
}

impl Warmed {
    fn add(&mut self, answer: &Request) {
        self.present += u64::from(answer.present);
        self.other += u64::from(answer.other);
        self.left += u64::from(answer.left);
        self.blocks += answer.blocks;
        self.insns += answer.insns;
        self.translate_ns += answer.translate_ns;
    }
}

fn without_blocks(shown: &str, recording: &Recording) -> Failure {
    Failure::failed(format!(
        "{shown}: of `{}`, without blocks: `jifl record` records them",
        recording.made_by()
    ))
}

fn hidden() -> Failure {
    Failure::cannot(
        "--warm and --load take addresses of the kernel, which are hidden here: set kernel.kptr_restrict=1, \
         and be root",
    )
}

impl Recording {
    /// Was all of it recorded in this boot? A merged recording knows the boot of its first recording
    /// only.
    fn is_of_boot(&self, here: &Header) -> bool {
        self.header.boot_id == here.boot_id && self.header.recordings == 1
    }

    /// For each image of the recording, where that is among these images.
    fn bases(&self, images: &Images) -> Vec<Option<u64>> {
        let bases = self.images.iter().map(|image| {
            let same = |known: &&Image| {
                !image.build_id.is_empty()
                    && (&known.name, &known.build_id) == (&image.name, &image.build_id)
            };
            Some(images.all().iter().find(same)?.base)
        });
        bases.collect()
    }

    /// The counts, at their addresses in this boot. Of another boot's blocks [`Count::hash`] is that
    /// of the bytes which stand there now. Blocks of images that are not here are left out.
    ///
    /// # Errors
    /// The recording has no blocks, or is of another build of the kernel; or addresses are hidden.
    pub fn here(&self, shown: &str) -> Result<Vec<Count>, Failure> {
        if !self.is_profile() {
            return Err(without_blocks(shown, self));
        }
        let symbols = Symbols::of_kernel();
        if symbols.address("_text").is_none_or(|address| address == 0) {
            return Err(hidden());
        }
        let images = Images::of_kernel(&symbols);
        let here = images.kernel().map(|image| image.build_id.clone());
        let here = Header::here(here.unwrap_or_default());
        if self.header.kernel.build_id != here.kernel.build_id {
            return Err(Failure::failed(format!(
                "{shown} is of another kernel, {}: measure on this one",
                self.header.kernel.shown()
            )));
        }
        let bases = self.bases(&images);
        let address = |at: At| Some(bases[at.image]?.wrapping_add(at.offset));
        let mut memory = Kcore::open()?;
        let counts = self.blocks.iter().filter_map(|block| {
            let mut count = Count {
                orig: address(block.at)?,
                ..self.count(block)
            };
            if let Some(branch) = &block.branch {
                count.target = address(branch.to)?;
            }
            if !self.is_of_boot(&here) {
                count.hash = hash(&memory.read(count.orig, count.src_len as usize)?);
            }
            Some(count)
        });
        let mut counts: Vec<Count> = counts.collect();
        counts.sort_by_key(|count| (count.orig, count.src_len));
        Ok(counts)
    }

    /// The recording's blocks, at their addresses in these images, in this boot.
    fn warm(&self, shown: String, images: &Images, here: &Header) -> Warm {
        let same_boot = self.is_of_boot(here);
        let bases = self.bases(images);
        let executed = self.blocks.iter().filter(|block| block.executed > 0);
        let (mut blocks, mut elsewhere) = (Vec::new(), 0);
        for block in executed {
            let Some(base) = bases[block.at.image] else {
                elsewhere += 1;
                continue;
            };
            blocks.push(WarmBlock {
                orig: base.wrapping_add(block.at.offset),
                src_len: block.bytes,
                insns: block.insns,
                hash: if same_boot { block.hash } else { 0 },
                flags: 0,
            });
        }
        let other = self.header.kernel.build_id != here.kernel.build_id;
        Warm {
            shown,
            blocks,
            elsewhere,
            kernel: other.then(|| self.header.kernel.shown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::recorded;
    use super::*;
    use crate::session::fake::Fake;

    /// The sample recording, with a build id in each image but the last, and its header.
    fn of_here() -> (Recording, Images, Header) {
        let mut recording = recorded();
        for image in &mut recording.images {
            image.build_id = format!("id of {}", image.name);
        }
        for (n, block) in recording.blocks.iter_mut().enumerate() {
            block.hash = 100 + n as u32;
        }
        let named = recording
            .images
            .iter()
            .filter(|image| !image.name.is_empty());
        let images = Images::from(named.cloned().collect());
        let header = recording.header.clone();
        (recording, images, header)
    }

    #[test]
    fn what_was_executed_is_translated_where_it_lies() {
        let (recording, images, here) = of_here();
        let warm = recording.warm("a.jifl".into(), &images, &here);
        let executed = recording.blocks.iter().filter(|block| block.executed > 0);
        assert_eq!(warm.blocks.len(), executed.count());
        assert_eq!(
            warm.blocks[0].orig,
            recording.address(recording.blocks[0].at)
        );
        assert_eq!(warm.blocks[0].hash, 100);
        let fake = Fake::default();
        let warmed = warm.carry_out(&fake).unwrap();
        assert_eq!(fake.state().warmed, warm.blocks);
        assert_eq!(warmed.present, warm.blocks.len() as u64);
        let line = warm.line(&Warmed {
            ns: 41_000_000,
            ..warmed
        });
        assert_eq!(line, "jifl: warmed 5 blocks of a.jifl in 41 ms, 0 skipped");
        let line = warm.line(&Warmed {
            ns: 41_000_000,
            other: 3,
            left: 1,
            ..warmed
        });
        assert!(
            line.contains("3 skipped (other code), 1 without room"),
            "{line}"
        );
    }

    #[test]
    fn another_boot_has_other_bytes_and_addresses() {
        let (recording, mut images, mut here) = of_here();
        here.boot_id = "another".into();
        let mut moved = images.all().to_vec();
        moved.iter_mut().for_each(|image| image.base += 0x10_0000);
        images = Images::from(moved);
        let warm = recording.warm("a.jifl".into(), &images, &here);
        assert!(warm.blocks.iter().all(|block| block.hash == 0));
        let was = recording.address(recording.blocks[0].at);
        assert_eq!(warm.blocks[0].orig, was + 0x10_0000);
    }

    #[test]
    fn blocks_of_other_images_are_skipped_and_the_kernel_is_named() {
        let (recording, images, mut here) = of_here();
        let mut others = images.all().to_vec();
        others[0].build_id = "beef".into();
        here.kernel.build_id = "beef".into();
        let warm = recording.warm("a.jifl".into(), &Images::from(others), &here);
        assert!(warm.elsewhere > 0 && warm.blocks.len() < 5);
        let warmed = warm.carry_out(&Fake::default()).unwrap();
        let line = warm.line(&warmed);
        assert!(
            line.contains("skipped (it is of another kernel: "),
            "{line}"
        );
        assert!(!line.contains('\n'), "{line}");
    }

    #[test]
    fn hidden_addresses_are_said() {
        let (recording, images, here) = of_here();
        let warm = recording.warm("a.jifl".into(), &images, &here);
        let fake = Fake::default();
        fake.state().hidden = Some(Errno::PERM);
        let failure = warm.carry_out(&fake).unwrap_err();
        assert!(
            failure.message.contains("kptr_restrict"),
            "{}",
            failure.message
        );
    }
}
