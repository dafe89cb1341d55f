// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coverage by source file: functions, lines, branches.
//!
//! Without debug information there is one record for the kernel and one for each module, of
//! functions alone. With it there is one record for each source file. The count of a line is the
//! highest count among its instructions. The instructions are parts of the line, or copies that the
//! compiler has inlined elsewhere, and their sum is not known to be right either. The count of an
//! inlined function is made in the same way.

use std::collections::BTreeMap;

use jifl_sys::abi::Count;

use crate::kernel::images::KERNEL;
use crate::kernel::lines::Lines;
use crate::session::blocks::{self, Function, Piece, Profile};

/// Coverage of one source file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Functions by name: the line of the first instruction, and the number of calls.
    pub functions: BTreeMap<String, (u32, u64)>,
    /// How often each line was executed.
    pub lines: BTreeMap<u32, u64>,
    /// Branches by their lines: how often each was executed, and taken.
    pub branches: BTreeMap<u32, Vec<(u64, u64)>>,
}

/// By the file's name.
pub type Records = BTreeMap<String, Record>;

/// Coverage of all these functions. `edges`: with branches, which all recordings have.
pub fn records(
    profile: &Profile,
    functions: &[Function<'_>],
    lines: &Lines,
    edges: bool,
) -> Records {
    let mut records = Records::new();
    for function in functions {
        let module = profile.symbols.module(function.address);
        let begins = lines.of(module, function.address, function.address + 1);
        let (file, line) = match begins.into_iter().next() {
            Some(line) => (line.file, line.line),
            None => (whole(module), 0),
        };
        let name = function.name.split(' ').next().unwrap_or_default();
        let known = records
            .entry(file)
            .or_default()
            .functions
            .entry(name.into());
        // Several files may have a static function of this name; its line may be unknown.
        let known = known.or_insert((line, 0));
        known.1 += called(function);
    }
    // The loop above comes first, because inlined copies are compared with its sums.
    for function in functions {
        let module = profile.symbols.module(function.address);
        for piece in blocks::pieces(function.blocks) {
            add_lines(&mut records, lines, module, &piece);
        }
        let branches = function.blocks.iter().filter(|_| edges);
        for branch in blocks::branches(branches) {
            add_branch(&mut records, lines, module, &branch);
        }
    }
    records
}

/// Name that stands for the source file of functions without lines.
fn whole(module: Option<&str>) -> String {
    module.map_or_else(|| KERNEL.into(), |module| format!("{module}.ko"))
}

/// Calls of a function. One that is entered elsewhere than at its beginning, such as a cold part,
/// was called as often as its most executed block.
fn called(function: &Function<'_>) -> u64 {
    match function.calls() {
        0 => {
            let executed = function.blocks.iter().map(|block| block.executed);
            executed.max().unwrap_or(0)
        }
        calls => calls,
    }
}

fn add_lines(records: &mut Records, lines: &Lines, module: Option<&str>, piece: &Piece) {
    for line in lines.of(module, piece.from, piece.to) {
        let mut frames = lines.frames(module, line.from);
        // The last frame is the function itself.
        frames.pop();
        for frame in frames {
            let record = records.entry(frame.file).or_default();
            let known = record.functions.entry(frame.function);
            let (first, calls) = known.or_insert((frame.line, 0));
            // 0 means that the line is unknown.
            if frame.line > 0 && (*first == 0 || frame.line < *first) {
                *first = frame.line;
            }
            *calls = piece.executed.max(*calls);
        }
        let record = records.entry(line.file).or_default();
        let executed = record.lines.entry(line.line).or_default();
        *executed = piece.executed.max(*executed);
    }
}

fn add_branch(records: &mut Records, lines: &Lines, module: Option<&str>, branch: &Count) {
    let at = blocks::site(branch);
    for line in lines.of(module, at, at + 1) {
        let record = records.entry(line.file).or_default();
        let of_line = record.branches.entry(line.line).or_default();
        of_line.push((branch.executed, branch.taken));
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::kernel::lines::tests::{AT, Program};
    use crate::session::blocks::functions;
    use crate::session::blocks::tests::{block, sample};

    /// The function `later`, into which `inner` is inlined, ran seven times; `never` did not run.
    pub fn of_program(program: &Program) -> Profile {
        let (later, never) = (program.offset("later"), program.offset("never"));
        let mut profile = sample();
        let mut ran = block(0, (never - later) as u32, 3, 7);
        ran.orig = AT + later;
        let mut not = block(0, 1, 1, 0);
        not.orig = AT + never;
        profile.symbols = program.symbols().into();
        profile.blocks = vec![ran, not];
        profile
    }

    #[test]
    fn lines_are_those_of_the_debug_information() {
        let program = Program::kernel("source");
        let profile = of_program(&program);
        let found = functions(&profile.blocks, &profile.symbols);
        let records = records(&profile, &found, &program.lines(), true);
        let record = &records["program.c"];
        assert_eq!(records.len(), 1);
        assert_eq!(record.functions["later"].1, 7);
        assert_eq!(record.functions["inner"], (3, 7));
        assert_eq!(record.functions["never"].1, 0);
        assert_eq!((record.lines[&3], record.lines[&8]), (7, 7));
        assert_eq!(record.lines[&(record.functions["never"].0)], 0);
    }
}
