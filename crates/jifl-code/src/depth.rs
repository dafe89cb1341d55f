// SPDX-License-Identifier: MIT OR Apache-2.0
//! How deep the stack is at every instruction: how many bytes lie between the stack pointer and
//! the return address. It follows rsp and rbp forwards from the function's entry.
//!
//! The ORC table says the same, from the compiler's and objtool's knowledge
//! ([`compare`]). Where ways come together with different depths, the depth is not known.

use std::collections::BTreeMap;

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};
use rayon::prelude::*;

use crate::flow;
use crate::graph::{Block, EdgeKind, Graph};
use crate::image::{Image, Orc, OrcBase};
use crate::program::{Function, Program};

/// Where rsp and rbp are, in bytes below the place of the return address; `None`: not known, or,
/// of rbp, the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// Of rsp: 0 at the entry.
    pub sp: Option<i64>,
    /// Of rbp, where it is a frame pointer.
    pub bp: Option<i64>,
}

impl Depth {
    /// At a function's entry.
    pub const ENTRY: Depth = Depth {
        sp: Some(0),
        bp: None,
    };
    /// Nothing is known.
    pub const UNKNOWN: Depth = Depth { sp: None, bp: None };

    /// What holds on both of two ways.
    fn meet(self, other: Depth) -> Depth {
        let same = |a: Option<i64>, b| if a == b { a } else { None };
        Depth {
            sp: same(self.sp, other.sp),
            bp: same(self.bp, other.bp),
        }
    }

    /// Behind an instruction. Calls give the stack back as it was.
    pub fn behind(self, instruction: &Instruction) -> Depth {
        let mut next = self;
        let op = |index: u32| (index < instruction.op_count()).then(|| instruction.op_kind(index));
        let is = |index: u32, register| {
            op(index) == Some(OpKind::Register) && instruction.op_register(index) == register
        };
        let number = || match op(1)? {
            OpKind::Immediate8to64 | OpKind::Immediate32to64 => {
                Some(instruction.immediate(1) as i64)
            }
            _ => None,
        };
        let address = |register| {
            let is_plain = instruction.memory_base() == register
                && instruction.memory_index() == Register::None;
            is_plain.then(|| instruction.memory_displacement64() as i64)
        };
        let minus = |place: Option<i64>, number: Option<i64>| place?.checked_sub(number?);
        match instruction.mnemonic() {
            Mnemonic::Call => {}
            Mnemonic::Leave => {
                next.sp = self.bp.and_then(|place| place.checked_sub(8));
                next.bp = None;
            }
            Mnemonic::Mov if is(0, Register::RBP) && is(1, Register::RSP) => next.bp = self.sp,
            Mnemonic::Mov if is(0, Register::RSP) => {
                next.sp = if is(1, Register::RBP) { self.bp } else { None };
            }
            Mnemonic::Sub if is(0, Register::RSP) => {
                next.sp = minus(self.sp, number().and_then(i64::checked_neg));
            }
            Mnemonic::Add if is(0, Register::RSP) => next.sp = minus(self.sp, number()),
            Mnemonic::Lea if is(0, Register::RSP) || is(0, Register::RBP) => {
                let from_sp = minus(self.sp, address(Register::RSP));
                let place = from_sp.or_else(|| minus(self.bp, address(Register::RBP)));
                let to = if is(0, Register::RSP) {
                    &mut next.sp
                } else {
                    &mut next.bp
                };
                *to = place;
            }
            Mnemonic::Pop if is(0, Register::RSP) => next.sp = None,
            Mnemonic::Cmp | Mnemonic::Test => {}
            Mnemonic::Push | Mnemonic::Pop | Mnemonic::Pushfq | Mnemonic::Popfq => {
                next.sp = minus(self.sp, Some(instruction.stack_pointer_increment().into()));
                if is(0, Register::RBP) && instruction.mnemonic() == Mnemonic::Pop {
                    next.bp = None;
                }
            }
            _ if is(0, Register::RSP) => next.sp = None,
            _ if is(0, Register::RBP) || is(0, Register::EBP) => next.bp = None,
            Mnemonic::Xchg if is(1, Register::RSP) => next.sp = None,
            _ if instruction.code() == Code::Enterq_imm16_imm8 => next = Depth::UNKNOWN,
            _ => {}
        }
        next
    }
}

/// The instructions of a block.
pub fn instructions<'a>(image: &'a Image, block: &Block) -> impl Iterator<Item = Instruction> + 'a {
    let bytes = image.bytes(block.start).unwrap_or_default();
    let bytes = &bytes[..bytes.len().min(block.length as usize)];
    flow::instructions(bytes, block.start)
}

/// The depth at the beginning of each block of a function.
pub fn of(image: &Image, graph: &Graph) -> Vec<Depth> {
    let mut at: Vec<Option<Depth>> = vec![None; graph.blocks.len()];
    let mut ways: Vec<usize> = Vec::new();
    for entry in graph.entries.iter().map(|entry| *entry as usize) {
        at[entry] = Some(Depth::ENTRY);
        ways.push(entry);
    }
    while let Some(index) = ways.pop() {
        let begin = at[index].unwrap_or(Depth::UNKNOWN);
        let (mut now, mut last) = (begin, begin);
        for instruction in instructions(image, &graph.blocks[index]) {
            last = now;
            now = now.behind(&instruction);
        }
        for edge in graph.successors(index) {
            let to = edge.to as usize;
            let arrives = if edge.kind == EdgeKind::Exception {
                last
            } else {
                now
            };
            let next = at[to].map_or(arrives, |other| other.meet(arrives));
            if at[to] != Some(next) {
                at[to] = Some(next);
                ways.push(to);
            }
        }
    }
    let known = at.into_iter();
    known.map(|depth| depth.unwrap_or(Depth::UNKNOWN)).collect()
}

/// Why depths were not compared, or differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// The same.
    Same,
    /// The table says something else.
    Differs,
    /// The analysis does not know.
    NotKnown,
    /// The table says nothing, or tells of an interrupted frame, or names another register.
    NotCovered,
    /// Another function jumps into the middle of this one: the depth there is the other's.
    EnteredInside,
}

/// Instructions by verdict, and where the first of each function differ: at, ours, the table's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// How many of each.
    pub counts: BTreeMap<Verdict, u64>,
    /// The first that differs of each function.
    pub differing: Vec<(u64, Option<i64>, i64)>,
}

/// Compares the depth at each instruction of each function with the ORC table.
pub fn compare(program: &Program) -> Comparison {
    let all = program.functions.par_iter();
    let all: Vec<_> = all.map(|function| compare_one(program, function)).collect();
    let mut sum = Comparison::default();
    for one in all {
        for (verdict, count) in one.counts {
            *sum.counts.entry(verdict).or_insert(0) += count;
        }
        sum.differing.extend(one.differing);
    }
    sum
}

fn compare_one(program: &Program, function: &Function) -> Comparison {
    let (image, graph) = (&program.image, &function.graph);
    let mut result = Comparison::default();
    let depths = of(image, graph);
    let is_entered_inside = graph.entries.len() > 1;
    for (block, begin) in graph.blocks.iter().zip(depths) {
        let mut now = begin;
        for instruction in instructions(image, block) {
            let row = image.orc(instruction.ip());
            let mut verdict = judge(now, row);
            if is_entered_inside && verdict == Verdict::Differs {
                verdict = Verdict::EnteredInside;
            }
            if verdict == Verdict::Differs && result.differing.is_empty() {
                let said = row.map_or(0, |row| row.offset);
                result.differing.push((instruction.ip(), now.sp, said));
            }
            *result.counts.entry(verdict).or_insert(0) += 1;
            now = now.behind(&instruction);
        }
    }
    result
}

/// An ordinary frame begins right above the return address.
fn judge(now: Depth, row: Option<&Orc>) -> Verdict {
    const RETURN_ADDRESS: i64 = 8;
    let Some(row) = row.filter(|row| row.is_call) else {
        return Verdict::NotCovered;
    };
    let own = match row.by {
        OrcBase::Sp => now.sp,
        OrcBase::Bp => now.bp,
        OrcBase::Undefined | OrcBase::Other => return Verdict::NotCovered,
    };
    match own.map(|depth| depth + RETURN_ADDRESS == row.offset) {
        Some(true) => Verdict::Same,
        Some(false) => Verdict::Differs,
        None => Verdict::NotKnown,
    }
}
