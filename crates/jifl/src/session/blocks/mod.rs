// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often each basic block was executed: the common part of `cover`, `prof`, `branch`, `record`
//! and `report`.

mod branches;
pub mod code;
mod functions;
mod pieces;
mod run;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::rc::Rc;

use jifl_sys::abi::{COUNT_REFUSED, Count};
use jifl_sys::device::Door;
use serde::Serialize;

pub use self::branches::{branches, edges, not_taken, site};
pub use self::functions::{Function, functions};
pub use self::pieces::{Piece, executed_at, pieces};
pub use self::run::{ProfileArgs, Show, Shown, View, observe, record, run, run_each, start};
use crate::base::exit::Failure;
use crate::kernel::images::Images;
use crate::kernel::symbols::Symbols;
use crate::session::report::{self, Report};
use crate::session::table;
use crate::show::output;
use crate::show::text::grouped;

/// What a session has counted.
pub struct Profile {
    /// In the order of their addresses; those that never ran, too.
    pub blocks: Vec<Count>,
    /// Copies of blocks made without a counter.
    pub refused: u64,
    /// How the session went.
    pub report: Report,
    /// Names of addresses.
    pub symbols: Rc<Symbols>,
    /// What code they are of.
    pub images: Images,
}

/// What every JSON object of the three ends with.
#[derive(Serialize)]
pub struct Summary {
    calls: u64,
    missed: u64,
    without_counter: u64,
    cut_short: bool,
    duration_ns: u64,
}

/// All counts of a door's session, in the order of their addresses, and how many blocks
/// have none.
///
/// # Errors
/// The module does not give them.
fn read(door: &impl Door) -> Result<(Vec<Count>, u64), Failure> {
    let (mut blocks, rest) = table::read::<Count>(door, "reading the counts")?;
    blocks.sort_by_key(|block| (block.orig, block.src_len));
    Ok((blocks, rest[COUNT_REFUSED]))
}

impl Profile {
    /// What a door's session has counted.
    ///
    /// # Errors
    /// The module does not tell.
    pub fn of(
        door: &impl Door,
        report: Report,
        symbols: impl FnOnce() -> Rc<Symbols>,
    ) -> Result<Profile, Failure> {
        let (blocks, refused) = read(door)?;
        let symbols = symbols();
        let profile = Profile {
            blocks,
            refused,
            report,
            images: Images::of_kernel(&symbols),
            symbols,
        };
        profile.note();
        Ok(profile)
    }

    /// What is to be known beside the data.
    pub fn note(&self) {
        self.report.note();
        if self.refused > 0 {
            output::note(&format!(
                "jifl: {} blocks found no counter and are not in this: load the module with \
                 a larger profile_blocks",
                self.refused
            ));
        }
    }

    /// Those that ran.
    pub fn executed(&self) -> impl Iterator<Item = &Count> {
        self.blocks.iter().filter(|block| block.executed > 0)
    }

    /// Instructions executed in all of them.
    pub fn instructions(&self) -> u64 {
        self.blocks.iter().map(instructions).sum()
    }

    /// `name+0x12`, or the address.
    pub fn name(&self, address: u64) -> String {
        match self.symbols.function(address) {
            Some(place) => place.shown(),
            None => format!("{address:#x}"),
        }
    }

    /// The modules that blocks are of, `None` standing for the kernel, each once.
    pub fn modules<'a>(
        &self,
        blocks: impl IntoIterator<Item = &'a Count>,
    ) -> BTreeSet<Option<&str>> {
        let modules = blocks
            .into_iter()
            .map(|block| self.symbols.module(block.orig));
        modules.collect()
    }

    /// For JSON.
    pub fn summary(&self) -> Summary {
        Summary {
            calls: self.report.rows.iter().map(|row| row.calls).sum(),
            missed: self.report.missed(),
            without_counter: self.refused,
            cut_short: self.report.cut_short,
            duration_ns: self.report.duration_ns,
        }
    }

    /// The lines that a text ends with: what it cost and what it missed.
    pub fn cost(&self) -> String {
        let mut text = report::cost(&self.report);
        let _ = writeln!(text, "# blocks without a counter {}", grouped(self.refused));
        text
    }
}

/// Executed in a block.
pub fn instructions(block: &Count) -> u64 {
    block.executed * u64::from(block.insns)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::session::fake::Fake;
    use jifl_sys::abi::{Kind, NO_BRANCH};

    /// Where the functions of `sample` begin.
    pub const AT: u64 = 0xffff_ffff_8100_0000;

    /// A block without a branch.
    pub fn block(offset: u64, src_len: u32, insns: u32, executed: u64) -> Count {
        Count {
            orig: AT + offset,
            executed,
            src_len,
            insns,
            branch: NO_BRANCH,
            ..Count::default()
        }
    }

    /// With one at its end.
    pub fn branch(offset: u64, to: u64, executed: u64, taken: u64) -> Count {
        Count {
            taken,
            target: AT + to,
            branch: 6,
            ..block(offset, 8, 3, executed)
        }
    }

    /// Two functions and a cold part, called ten times.
    pub fn sample() -> Profile {
        let fake = Fake::default();
        fake.add_table(
            vec![
                branch(0x100, 0x120, 40, 39),
                block(0x108, 4, 1, 1),
                branch(0x00, 0x40, 10, 10),
                block(0x08, 16, 4, 0),
                block(0x40, 8, 2, 10),
                // The target of a jump into the block before.
                block(0x44, 4, 1, 5),
            ],
            [2, 0, 0],
        );
        let (blocks, refused) = read(&fake).unwrap();
        Profile {
            blocks,
            refused,
            report: report::tests::empty(Kind::Profile),
            symbols: Rc::new(Symbols::parse(
                "ffffffff81000000 T outer\nffffffff81000050 t between\nffffffff81000100 t inner\t[nfs]\n\
                 ffffffff81000120 t outer.cold\n",
            )),
            images: Images::default(),
        }
    }

    #[test]
    fn counts_are_read_to_the_last_in_order_of_addresses() {
        let fake = Fake::default();
        let n = 2 * table::ROOM + 1;
        let blocks = (0..n as u64).rev().map(|at| block(at, 1, 1, at));
        fake.add_table(blocks.collect(), [0; 3]);
        let (blocks, _) = read(&fake).unwrap();
        assert_eq!(blocks.len(), n);
        assert!(blocks.is_sorted_by_key(|block| block.orig));
    }

    #[test]
    fn instructions_are_those_of_blocks_as_often_as_they_ran() {
        assert_eq!(sample().instructions(), 120 + 1 + 30 + 20 + 5);
        assert_eq!(sample().executed().count(), 5);
        assert!(sample().cost().ends_with("# blocks without a counter 2\n"));
    }
}
