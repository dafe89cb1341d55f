// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions in which instructions were executed, as stacks: the module, the function and,
//! where debug information tells them, the functions that are inlined there. Counts of blocks do
//! not tell which function calls which.

use std::collections::BTreeMap;

use jifl_code::flow;
use jifl_sys::abi::Count;

use crate::kernel::lines::Lines;
use crate::kernel::memory::Memory;
use crate::session::blocks::{Function, Profile, instructions};

/// Instructions by stack, outermost first.
pub type Stacks = BTreeMap<Vec<String>, u64>;

/// Sources for finding inlined functions.
pub struct Inlined {
    /// The code, which tells where instructions begin.
    pub code: Box<dyn Memory>,
    /// The lines, which tell the inlined functions.
    pub lines: Lines,
}

/// The stacks of all functions; with inlined functions if `inlined` is given.
pub fn stacks(
    profile: &Profile,
    functions: &[Function<'_>],
    mut inlined: Option<&mut Inlined>,
) -> Stacks {
    let mut stacks = Stacks::new();
    for function in functions {
        let module = profile.symbols.module(function.address);
        let name = function.name.split(" [").next().unwrap_or_default();
        let outer = vec![module.unwrap_or("kernel").to_owned(), name.to_owned()];
        for block in function.blocks.iter().filter(|block| block.executed > 0) {
            match &mut inlined {
                Some(inlined) => add_block(&mut stacks, &outer, inlined, module, block),
                None => add(&mut stacks, outer.clone(), instructions(block)),
            }
        }
    }
    stacks
}

fn add(stacks: &mut Stacks, stack: Vec<String>, instructions: u64) {
    if instructions > 0 {
        *stacks.entry(stack).or_default() += instructions;
    }
}

/// Adds each instruction to its stack. A block also counts the instructions of a thunk that its
/// branch goes through: they belong to the branch.
fn add_block(
    stacks: &mut Stacks,
    outer: &[String],
    inlined: &mut Inlined,
    module: Option<&str>,
    block: &Count,
) {
    let bytes = inlined.code.read(block.orig, block.src_len as usize);
    let mut left = u64::from(block.insns);
    let mut stack = outer.to_vec();
    for instruction in flow::instructions(&bytes.unwrap_or_default(), block.orig) {
        stack = outer.to_vec();
        let frames = inlined.lines.frames(module, instruction.ip());
        // The last frame is the function itself.
        let inner = frames.iter().rev().skip(1);
        stack.extend(inner.map(|frame| frame.function.clone()));
        let one = left.min(1);
        left -= one;
        add(stacks, stack.clone(), block.executed * one);
    }
    add(stacks, stack, block.executed * left);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::prof::paths::folded::folded;
    use crate::kernel::lines::tests::{AT, Program};
    use crate::session::blocks::functions;
    use crate::session::blocks::tests::{block, sample};

    #[test]
    fn functions_alone_where_nothing_is_known_of_inlined_ones() {
        let profile = sample();
        let found = functions(&profile.blocks, &profile.symbols);
        let text = folded(&stacks(&profile, &found, None));
        assert_eq!(text, "nfs;inner 121\nkernel;outer 55\n");
    }

    #[test]
    fn each_instruction_is_of_what_it_was_inlined_from() {
        let program = Program::kernel("frames");
        let (later, never) = (program.offset("later"), program.offset("never"));
        let mut profile = sample();
        profile.symbols = program.symbols().into();
        let mut ran = block(0, (never - later) as u32, 9, 10);
        ran.orig = AT + later;
        profile.blocks = vec![ran];
        // Found in the same way as the lines of a recording.
        let mut inlined = Inlined {
            code: Box::new(program.opened().text(&profile.symbols)),
            lines: program.lines(),
        };
        let found = functions(&profile.blocks, &profile.symbols);
        let stacks = stacks(&profile, &found, Some(&mut inlined));
        assert_eq!(stacks.values().sum::<u64>(), 90, "all are somewhere");
        let inner = ["kernel", "later", "inner"].map(str::to_owned).to_vec();
        assert!(
            stacks.contains_key(&inner) && stacks.len() == 2,
            "{stacks:?}"
        );
    }
}
