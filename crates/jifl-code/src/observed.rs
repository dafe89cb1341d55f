// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was seen to execute, compared with the structure: all of it has to be in there.
//!
//! Facts come from sessions (`jifl prof`, `branch`, `cover`, `trace`, and records of blocks in
//! their order). What a session does not see is code that runs natively:
//!
//! - A call may be followed by what stands behind it.
//! - A jump to another function may be followed by what stands behind any call.
//! - From a switch to another stack on a function runs natively to its return.

use std::fmt;

use iced_x86::{Instruction, Mnemonic, Register};

use crate::depth::instructions;
use crate::flow::Target;
use crate::graph::{Block, Call, CallKind, Edge, EdgeKind, End, Graph};
use crate::program::Program;

/// A session's block has fewer instructions.
const MOST: usize = 1024;

/// Something that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fact {
    /// These bytes were executed from the first to the last.
    Block {
        /// The first.
        start: u64,
        /// How many.
        length: u64,
    },
    /// From the beginning of one block execution went to another. Nothing but the end of the
    /// first block decides that: it has no branch before its end.
    Way {
        /// Beginning of the first.
        from: u64,
        /// Beginning of the second.
        to: u64,
    },
    /// An instruction met an exception, and the kernel's fixup took over.
    Fault {
        /// The instruction.
        at: u64,
    },
    /// A function was entered.
    Entered {
        /// Where it begins.
        at: u64,
    },
}

impl Fact {
    /// An address in the function that it is of.
    pub fn at(&self) -> u64 {
        match self {
            Fact::Block { start, .. } => *start,
            Fact::Way { from, .. } => *from,
            Fact::Fault { at } | Fact::Entered { at } => *at,
        }
    }
}

/// Facts in words: `block 0x1000 5`, `way 0x1000 0x1005`, `fault 0x1000`, `entered 0x1000`.
///
/// # Errors
/// A line that is none of these.
pub fn parse(text: &str) -> Result<Vec<Fact>, String> {
    let number = |word: &str| match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    };
    let fact = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let numbers: Option<Vec<u64>> = words.iter().skip(1).map(|word| number(word)).collect();
        match (words.first().copied(), numbers.as_deref()) {
            (Some("block"), Some(&[start, length])) => Some(Fact::Block { start, length }),
            (Some("way"), Some(&[from, to])) => Some(Fact::Way { from, to }),
            (Some("fault"), Some(&[at])) => Some(Fact::Fault { at }),
            (Some("entered"), Some(&[at])) => Some(Fact::Entered { at }),
            _ => None,
        }
    };
    let lines = text.lines();
    let facts = lines.map(|line| fact(line).ok_or_else(|| format!("not a fact: {line}")));
    facts.collect()
}

/// How a fact is in the structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// In blocks.
    Block,
    /// Along an edge, or within a block.
    Edge(Option<EdgeKind>),
    /// A call, or a jump to another function, whose target is known.
    Direct(CallKind),
    /// The same, and the target is not known.
    Indirect(CallKind),
    /// Behind a call, whose function has returned.
    Back,
    /// Back from a function that was jumped to, or that returned.
    Return,
    /// A function begins there.
    Function,
}

/// Why a fact is not in the structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Missing {
    /// No function is there.
    Function,
    /// No block has this instruction.
    Block,
    /// There is the block, and not its end.
    Cut,
    /// The edge.
    Edge,
    /// Another function is called.
    Callee,
    /// No call that returns stands before.
    Call,
    /// No fixup takes its place.
    Fixup,
}

impl fmt::Display for Missing {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Missing::Function => "no function is there",
            Missing::Block => "no block has it",
            Missing::Cut => "the block ends before",
            Missing::Edge => "no edge leads there",
            Missing::Callee => "another function is called",
            Missing::Call => "no call that returns stands before",
            Missing::Fixup => "no fixup takes its place",
        })
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Block { start, length } => write!(to, "block {start:#x} {length}"),
            Fact::Way { from, to: other } => write!(to, "way {from:#x} {other:#x}"),
            Fact::Fault { at } => write!(to, "fault {at:#x}"),
            Fact::Entered { at } => write!(to, "entered {at:#x}"),
        }
    }
}

/// Where a fact is in the structure.
///
/// # Errors
/// It is not there.
pub fn find(program: &Program, fact: Fact) -> Result<Place, Missing> {
    match fact {
        Fact::Block { start, length } => covers(program, start, start.saturating_add(length)),
        Fact::Way { from, to } => way(program, from, program.behind_padding(to)),
        Fact::Fault { at } => fault(program, at),
        Fact::Entered { at } => {
            let at = program.behind_padding(at);
            program.entered(at).ok_or(Missing::Function)?;
            Ok(Place::Function)
        }
    }
}

fn graph(program: &Program, at: u64) -> Result<&Graph, Missing> {
    let index = program.at(at).ok_or(Missing::Function)?;
    Ok(&program.functions[index].graph)
}

/// The block in which an instruction begins at an address.
fn block_with(program: &Program, graph: &Graph, at: u64) -> Result<usize, Missing> {
    let behind = graph.blocks.partition_point(|block| block.start <= at);
    let around = graph.blocks[..behind].iter().enumerate().rev();
    // Blocks overlap where code jumps over a prefix of an instruction: there are few of them.
    let mut around = around.filter(|(_, block)| at < block.behind()).take(4);
    let has = |(_, block): &(usize, &Block)| {
        instructions(&program.image, block).any(|instruction| instruction.ip() == at)
    };
    around
        .find(has)
        .map(|(index, _)| index)
        .ok_or(Missing::Block)
}

/// Are all instructions from one address to another in blocks that run into each other?
fn covers(program: &Program, start: u64, end: u64) -> Result<Place, Missing> {
    if program.is_padding(start) {
        return Ok(Place::Block);
    }
    let graph = graph(program, start)?;
    let mut block = block_with(program, graph, start)?;
    for _ in 0..MOST {
        let behind = graph.blocks[block].behind();
        if behind >= end {
            return Ok(Place::Block);
        }
        block = falls(graph, block).ok_or(Missing::Cut)?;
    }
    Err(Missing::Cut)
}

/// The block that a block falls into.
fn falls(graph: &Graph, block: usize) -> Option<usize> {
    let mut edges = graph.successors(block).iter();
    let edge = edges.find(|edge| edge.kind == EdgeKind::Fall)?;
    Some(edge.to as usize)
}

fn way(program: &Program, from: u64, to: u64) -> Result<Place, Missing> {
    if program.is_padding(from) {
        return if program.behind_padding(from) == to {
            Ok(Place::Edge(None))
        } else {
            Err(Missing::Edge)
        };
    }
    let graph = graph(program, from)?;
    let mut block = block_with(program, graph, from)?;
    let mut at = from;
    for _ in 0..MOST {
        if let Some(answer) = within(program, graph, block, at, to) {
            return answer;
        }
        let leads = |edge: &&Edge| graph.blocks[edge.to as usize].start == to;
        if let Some(edge) = graph.successors(block).iter().find(leads) {
            return Ok(Place::Edge(Some(edge.kind)));
        }
        let own = &graph.blocks[block];
        match own.end {
            End::Return | End::Leaves => return back(program, to),
            End::Fall if !ends_in_call(program, graph, block) => {}
            End::Fall | End::NoReturn => return Err(Missing::Callee),
            _ => return Err(Missing::Edge),
        }
        block = falls(graph, block).ok_or(Missing::Edge)?;
        at = graph.blocks[block].start;
    }
    Err(Missing::Edge)
}

/// The answer if one of the instructions of a block gives it, from the one at `at` on.
fn within(
    program: &Program,
    graph: &Graph,
    block: usize,
    at: u64,
    to: u64,
) -> Option<Result<Place, Missing>> {
    let own = &graph.blocks[block];
    let all = instructions(&program.image, own);
    let mut is_native = false;
    for instruction in all.filter(|instruction| instruction.ip() >= at) {
        let calls = graph.calls_in(block).iter();
        let calls = calls.filter(|call| call.at == instruction.ip());
        let mut is_call = false;
        for call in calls {
            if let Some(place) = called(program, call, to) {
                return Some(Ok(place));
            }
            is_call = true;
        }
        is_native |= switches_stacks(&instruction);
        if is_native && is_call {
            return Some(back(program, to));
        }
        let behind = instruction.next_ip();
        if behind >= own.behind() {
            return None;
        }
        if behind == to {
            return Some(Ok(if is_call {
                Place::Back
            } else {
                Place::Edge(None)
            }));
        }
        if is_call {
            return Some(Err(Missing::Callee));
        }
    }
    None
}

fn switches_stacks(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_register() == Register::RSP
        && instruction.op1_register() != Register::RBP
}

fn ends_in_call(program: &Program, graph: &Graph, block: usize) -> bool {
    let last = instructions(&program.image, &graph.blocks[block]).last();
    let call = graph.calls_in(block).last();
    last.zip(call)
        .is_some_and(|(last, call)| last.ip() == call.at)
}

/// Does a call lead there?
fn called(program: &Program, call: &Call, to: u64) -> Option<Place> {
    match call.target {
        Target::Direct(callee) => (callee == to).then_some(Place::Direct(call.kind)),
        Target::Indirect(_) => program.entered(to).map(|_| Place::Indirect(call.kind)),
    }
}

/// Execution may come to there by a return: behind a call.
fn back(program: &Program, to: u64) -> Result<Place, Missing> {
    let graph = graph(program, to.wrapping_sub(1))?;
    let near = graph
        .calls
        .partition_point(|call| call.at < to.saturating_sub(15));
    let mut calls = graph.calls[near..].iter().take_while(|call| call.at < to);
    let is_before = |call: &Call| {
        let block = &graph.blocks[call.block as usize];
        let mut own = instructions(&program.image, block);
        call.kind == CallKind::Call
            && own.any(|instruction| instruction.ip() == call.at && instruction.next_ip() == to)
    };
    match calls.any(is_before) {
        true => Ok(Place::Return),
        false => Err(Missing::Call),
    }
}

fn fault(program: &Program, at: u64) -> Result<Place, Missing> {
    let graph = graph(program, at)?;
    let block = block_with(program, graph, at)?;
    let mut edges = graph.successors(block).iter();
    let is_first = graph.blocks[block].start == at;
    match edges.any(|edge| edge.kind == EdgeKind::Exception) && is_first {
        true => Ok(Place::Edge(Some(EdgeKind::Exception))),
        false => Err(Missing::Fixup),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Fixup, Image};

    /// f: tests, may jump over a nop, calls g, calls through rax, returns. g: a load with a fixup.
    fn program() -> Program {
        let mut bytes = vec![0xcc; 0x60];
        let mut put = |at: usize, code: &[u8]| bytes[at..at + code.len()].copy_from_slice(code);
        put(0, &[0x85, 0xc0, 0x74, 0x01, 0x90]);
        put(5, &[0xe8, 0x36, 0, 0, 0, 0xff, 0xd0, 0xc3]);
        put(0x40, &[0x8b, 0x07, 0xc3, 0x31, 0xc0, 0xc3]);
        let mut image = Image::of_text(0x1000, bytes, &[(0x1000, "f"), (0x1040, "g")]);
        image.tables.fixups = vec![Fixup::new(0x1040, 0x1043)];
        Program::of(image)
    }

    #[test]
    fn what_can_happen_is_found_and_nothing_else() {
        let program = program();
        let cases = [
            ("block 0x1000 4", Ok(Place::Block)),
            ("block 0x1000 13", Ok(Place::Block)),
            ("block 0x1001 3", Err(Missing::Block)),
            ("block 0x1000 14", Err(Missing::Cut)),
            ("block 0x1080 1", Err(Missing::Function)),
            ("way 0x1000 0x1004", Ok(Place::Edge(Some(EdgeKind::Fall)))),
            ("way 0x1000 0x1005", Ok(Place::Edge(Some(EdgeKind::Taken)))),
            ("way 0x1000 0x100a", Err(Missing::Edge)),
            ("way 0x1005 0x1040", Ok(Place::Direct(CallKind::Call))),
            ("way 0x1005 0x100a", Ok(Place::Back)),
            ("way 0x1005 0x1000", Err(Missing::Callee)),
            ("way 0x100a 0x1000", Ok(Place::Indirect(CallKind::Call))),
            ("way 0x100a 0x1004", Err(Missing::Callee)),
            ("way 0x1042 0x100a", Ok(Place::Return)),
            ("way 0x1042 0x1005", Err(Missing::Call)),
            ("fault 0x1040", Ok(Place::Edge(Some(EdgeKind::Exception)))),
            ("fault 0x1042", Err(Missing::Fixup)),
            ("entered 0x1040", Ok(Place::Function)),
            ("entered 0x1043", Err(Missing::Function)),
        ];
        for (text, expected) in cases {
            let facts = parse(text).unwrap();
            assert_eq!(
                facts[0].to_string().split(' ').next(),
                text.split(' ').next()
            );
            assert_eq!(find(&program, facts[0]), expected, "{text}");
        }
        assert!(parse("block 1").is_err() && parse("way x 1").is_err());
    }
}
