// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows execution through a function.

use std::ops::Range;

use iced_x86::{Instruction, Mnemonic, Register};
use rustc_hash::FxHashMap;

use super::Context;
use crate::flow::{self, Flow, Target, direct};
use crate::graph::{EdgeKind, Trouble};
use crate::image::Alternative;
use crate::layout::Unit;

/// A jump table has so many entries at most.
const TABLE: u64 = 1024;
/// Padding behind a call is looked at so far.
const PADDING: usize = 64;

/// An instruction begins here.
pub const BEGINS: u8 = 1;
/// It is inside an instruction.
pub const INSIDE: u8 = 2;
/// A block begins here.
pub const LEADS: u8 = 4;

/// How an instruction goes on in this function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// With the one behind it.
    On,
    /// A call that comes back.
    Call(Target),
    /// A call that does not.
    Ends(Target),
    /// With the one behind it, or here.
    Branch(u64),
    /// Here.
    Jump(u64),
    /// Leaves the function; `true`: only on a condition.
    Leaves(Target, bool),
    /// Runs on into another function.
    Into,
    /// Returns; `true`: only on a condition.
    Return(bool),
    /// Execution ends.
    Stop,
    /// It is not known how.
    Unknown,
}

impl Next {
    fn is_condition(self) -> bool {
        matches!(
            self,
            Next::Branch(_) | Next::Leaves(_, true) | Next::Return(true)
        )
    }
}

/// An instruction, and how it goes on.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub instruction: Instruction,
    pub next: Next,
}

impl Step {
    pub fn at(&self) -> u64 {
        self.instruction.ip()
    }
}

/// What is known of addresses: a byte for each byte of the pieces.
#[derive(Default)]
pub struct Marks {
    pieces: Vec<(u64, Vec<u8>)>,
    /// Of text aside, of which a function has little.
    aside: FxHashMap<u64, u8>,
}

impl Marks {
    pub fn get(&self, at: u64) -> u8 {
        let inside = self.pieces.iter().find_map(|(begin, marks)| {
            let offset = usize::try_from(at.checked_sub(*begin)?).ok()?;
            marks.get(offset).copied()
        });
        inside.or_else(|| self.aside.get(&at).copied()).unwrap_or(0)
    }

    pub fn add(&mut self, at: u64, mark: u8) {
        for (begin, marks) in &mut self.pieces {
            let offset = at.wrapping_sub(*begin);
            let byte = usize::try_from(offset)
                .ok()
                .and_then(|place| marks.get_mut(place));
            if let Some(byte) = byte {
                *byte |= mark;
                return;
            }
        }
        *self.aside.entry(at).or_insert(0) |= mark;
    }

    /// An instruction stands at `range`.
    fn cover(&mut self, range: Range<u64>) {
        let length = (range.end - range.start) as usize;
        for (begin, marks) in &mut self.pieces {
            let offset = usize::try_from(range.start.wrapping_sub(*begin));
            let bytes = offset
                .ok()
                .and_then(|place| marks.get_mut(place..place + length));
            if let Some([first, inside @ ..]) = bytes {
                *first |= BEGINS;
                inside.iter_mut().for_each(|byte| *byte |= INSIDE);
                return;
            }
        }
        self.add(range.start, BEGINS);
        (range.start + 1..range.end).for_each(|inside| self.add(inside, INSIDE));
    }

    fn reset(&mut self, unit: &Unit) {
        self.aside.clear();
        self.pieces.resize_with(unit.pieces.len(), Default::default);
        for ((begin, marks), piece) in self.pieces.iter_mut().zip(&unit.pieces) {
            *begin = piece.start;
            marks.clear();
            marks.resize((piece.end - piece.start) as usize, 0);
        }
    }
}

/// Results of a walk.
#[derive(Default)]
pub struct Space {
    pub steps: Vec<Step>,
    /// Steps that follow each other, and where the first of them is.
    runs: Vec<(u64, Range<usize>)>,
    /// Room for putting them in order.
    room: Vec<Step>,
    pub marks: Marks,
    /// Instructions behind which execution runs on into another function, and its entry.
    pub into: Vec<(u64, u64)>,
    /// Edges that no instruction shows: from, to, why.
    pub hidden: Vec<(u64, u64, EdgeKind)>,
    troubles: Vec<(u64, Trouble)>,
    ways: Vec<u64>,
}

impl Space {
    /// Brings the steps into the order of addresses, by runs. Those of runs lie between each other
    /// only where instructions overlap.
    fn put_in_order(&mut self) {
        self.runs.sort_unstable_by_key(|(at, _)| *at);
        self.room.clear();
        for (_, run) in &self.runs {
            self.room.extend_from_slice(&self.steps[run.clone()]);
        }
        std::mem::swap(&mut self.steps, &mut self.room);
        if !self.steps.is_sorted_by_key(Step::at) {
            self.steps.sort_by_key(Step::at);
        }
    }
}

pub struct Walk<'a> {
    context: Context<'a>,
    unit: &'a Unit,
    /// The kernel's tables have entries about its pieces.
    is_in_tables: bool,
    space: &'a mut Space,
}

impl<'a> Walk<'a> {
    pub fn new(context: Context<'a>, unit: &'a Unit, space: &'a mut Space) -> Walk<'a> {
        space.steps.clear();
        space.runs.clear();
        space.hidden.clear();
        space.into.clear();
        space.troubles.clear();
        space.ways.clear();
        space.marks.reset(unit);
        Walk {
            context,
            unit,
            is_in_tables: is_in_tables(context, unit),
            space,
        }
    }

    /// Execution may come to here.
    pub fn from(&mut self, at: u64) {
        self.space.marks.add(at, LEADS);
        self.space.ways.push(at);
    }

    /// Follows all ways.
    pub fn run(&mut self) {
        while let Some(at) = self.space.ways.pop() {
            let first = self.space.steps.len();
            self.follow(at);
            if self.space.steps.len() > first {
                self.space.runs.push((at, first..self.space.steps.len()));
            }
        }
        self.space.put_in_order();
    }

    /// What was not understood, in the order of addresses.
    pub fn troubles(&mut self) -> Vec<(u64, Trouble)> {
        self.space.troubles.sort_unstable();
        self.space.troubles.dedup();
        std::mem::take(&mut self.space.troubles)
    }

    fn trouble(&mut self, at: u64, trouble: Trouble) {
        self.space.troubles.push((at, trouble));
    }

    fn follow(&mut self, mut at: u64) {
        let Some(end) = self.end(at) else {
            return self.trouble(at, Trouble::RunsOff);
        };
        let mut code = self.code(at, end);
        let mut table = None;
        loop {
            let marks = self.space.marks.get(at);
            if marks & BEGINS != 0 {
                self.space.marks.add(at, LEADS);
                return;
            }
            if marks & INSIDE != 0 {
                self.trouble(at, Trouble::Overlaps);
            }
            let Some(instruction) = code.next().filter(|found| !found.is_invalid()) else {
                return self.trouble(at, Trouble::Invalid);
            };
            let behind = instruction.next_ip();
            self.space.marks.cover(at..behind);
            let next = self.next(&instruction, end);
            self.space.steps.push(Step { instruction, next });
            self.tables(&instruction);
            table = self.table(&instruction).or(table);
            if let (Next::Leaves(Target::Indirect(_), _), Some(table)) = (next, table) {
                self.jumps(at, table);
            }
            if let Next::Branch(to) | Next::Jump(to) = next {
                self.from(to);
            }
            if behind >= end {
                return;
            }
            if next.is_condition() {
                self.space.marks.add(behind, LEADS);
            }
            match next {
                Next::Branch(_) => {}
                Next::Jump(_) => return,
                Next::On | Next::Call(_) => {}
                Next::Leaves(_, true) | Next::Return(true) => {}
                Next::Leaves(..)
                | Next::Return(_)
                | Next::Ends(_)
                | Next::Into
                | Next::Stop
                | Next::Unknown => return,
            }
            at = behind;
        }
    }

    /// Where the piece ends that an address is in, or the text aside.
    fn end(&self, at: u64) -> Option<u64> {
        if let Some(piece) = self.unit.piece(at) {
            return Some(piece.end);
        }
        let text = &self.context.image.texts[self.context.image.text(at)?];
        text.is_aside.then(|| text.end())
    }

    fn is_own(&self, at: u64) -> bool {
        self.end(at).is_some()
    }

    /// The instructions from an address on to the end of its piece.
    fn code(&self, at: u64, end: u64) -> impl Iterator<Item = Instruction> + use<'a> {
        let bytes = self.context.image.bytes(at).unwrap_or_default();
        let most = (end - at).min(bytes.len() as u64) as usize;
        flow::instructions(&bytes[..most], at)
    }

    /// How an instruction goes on, with the piece that it is in ending at `end`.
    fn next(&mut self, instruction: &Instruction, end: u64) -> Next {
        let at = instruction.ip();
        let behind = instruction.next_ip();
        let next = match self.context.thunks.flow(instruction) {
            Flow::Next => Next::On,
            Flow::Branch(Target::Direct(to)) if self.is_own(to) => Next::Branch(to),
            Flow::Branch(target) => Next::Leaves(target, true),
            Flow::Jump(Target::Direct(to)) if self.is_own(to) => Next::Jump(to),
            Flow::Jump(target) => Next::Leaves(target, false),
            Flow::Call(target) => self.call(target, behind, end),
            Flow::Return => Next::Return(false),
            Flow::BranchReturn => Next::Return(true),
            Flow::Trap if self.is_warning(at) => Next::On,
            Flow::Trap | Flow::Stop => Next::Stop,
        };
        if let Next::Leaves(Target::Direct(to), _) = next {
            if self.context.image.text(to).is_none() && !self.is_named(to) {
                self.trouble(at, Trouble::LeadsNowhere);
            }
        }
        let goes_on = matches!(next, Next::On | Next::Call(_)) || next.is_condition();
        if goes_on && behind >= end {
            return self.run_off(at, behind, next);
        }
        next
    }

    fn call(&mut self, target: Target, behind: u64, end: u64) -> Next {
        if let Target::Direct(to) = target {
            if self.context.endless.contains(&to) {
                return Next::Ends(target);
            }
            if self.unit.holds(to) && to != self.unit.entry() && to != behind {
                self.from(to);
            }
        }
        // Compilers let nothing follow a call that never returns.
        if behind >= end || self.is_padding(behind, end) {
            return Next::Ends(target);
        }
        Next::Call(target)
    }

    /// The code behind the last instruction of a piece is another function's.
    fn run_off(&mut self, at: u64, behind: u64, next: Next) -> Next {
        if let Some(unit) = self.context.layout.begins(behind) {
            let entry = self.context.layout.units[unit].entry();
            self.space.into.push((at, entry));
            return if next == Next::On { Next::Into } else { next };
        }
        self.trouble(at, Trouble::RunsOff);
        if next.is_condition() {
            next
        } else {
            Next::Unknown
        }
    }

    /// Is there nothing but padding from here to the end of the piece, or for a while?
    fn is_padding(&self, at: u64, end: u64) -> bool {
        if !may_fill(self.context.image.bytes(at).unwrap_or_default()) {
            return false;
        }
        // An invalid instruction is no padding either.
        let mut code = self.code(at, end).take(PADDING);
        code.all(|one| matches!(one.mnemonic(), Mnemonic::Nop | Mnemonic::Int3))
    }

    fn is_warning(&self, at: u64) -> bool {
        let warnings = self.context.image.tables.warnings.as_ref();
        warnings.is_none_or(|all| all.binary_search(&at).is_ok())
    }

    fn is_named(&self, at: u64) -> bool {
        let symbols = &self.context.image.symbols;
        symbols
            .binary_search_by_key(&at, |symbol| symbol.address)
            .is_ok()
    }

    /// The table of addresses that an instruction loads one of, by its index.
    fn table(&self, instruction: &Instruction) -> Option<u64> {
        let is_indexed = instruction.mnemonic() == Mnemonic::Mov
            && instruction.memory_index_scale() == 8
            && instruction.memory_index() != Register::None
            && instruction.memory_base() == Register::None;
        is_indexed.then(|| instruction.memory_displacement64())
    }

    /// The jump leads where the entries of the table do, as far as they lead into the function.
    fn jumps(&mut self, at: u64, table: u64) {
        for place in 0..TABLE {
            let entry = self.context.image.pointer(table.wrapping_add(8 * place));
            match entry {
                Some(to) if self.unit.holds(to) => self.hide(at, to, EdgeKind::Table),
                _ => return,
            }
        }
    }

    /// Ways that the kernel's tables know, and the instruction does not show.
    fn tables(&mut self, instruction: &Instruction) {
        let at = instruction.ip();
        if !self.is_in_tables && self.unit.holds(at) {
            return;
        }
        let tables = &self.context.image.tables;
        if let Some(fixup) = self.context.image.fixup(at) {
            self.hide(at, fixup.to, EdgeKind::Exception);
        }
        let keys = &tables.keys;
        let first = keys.partition_point(|entry| entry.0 < at);
        for (_, to) in keys[first..].iter().take_while(|entry| entry.0 == at) {
            // A key that is on stands as the jump: the other way is the code behind it.
            let is_on = direct(instruction) == Some(*to);
            let other = if is_on { instruction.next_ip() } else { *to };
            self.hide(at, other, EdgeKind::Key);
        }
        let all = &tables.alternatives;
        let first = all.partition_point(|entry| entry.at < at);
        for entry in all[first..].iter().take_while(|entry| entry.at == at) {
            self.alternative(at, *entry);
        }
    }

    /// A replacement stands with displacements for the place where it stands.
    fn alternative(&mut self, at: u64, alternative: Alternative) {
        let Some(bytes) = self.context.image.replacement(alternative) else {
            return;
        };
        let last = alternative.replacement + bytes.len() as u64;
        for instruction in flow::instructions(bytes, alternative.replacement) {
            let inside = alternative.replacement..=last;
            let outward = direct(&instruction).filter(|to| !inside.contains(to));
            if let Some(to) = outward.filter(|_| !instruction.is_call_near()) {
                self.hide(at, to, EdgeKind::Alternative);
            }
        }
    }

    fn hide(&mut self, from: u64, to: u64, kind: EdgeKind) {
        if self.is_own(to) {
            self.space.hidden.push((from, to, kind));
            self.from(to);
        }
    }
}

/// Is there an entry about a function's pieces in the tables that are looked at for each
/// instruction? Most functions have none.
fn is_in_tables(context: Context<'_>, unit: &Unit) -> bool {
    let tables = &context.image.tables;
    unit.pieces.iter().any(|piece| {
        let fixup = tables
            .fixups
            .partition_point(|entry| entry.at < piece.start);
        let key = tables.keys.partition_point(|entry| entry.0 < piece.start);
        let all = &tables.alternatives;
        let alternative = all.partition_point(|entry| entry.at < piece.start);
        let next = [
            tables.fixups.get(fixup).map(|entry| entry.at),
            tables.keys.get(key).map(|entry| entry.0),
            all.get(alternative).map(|entry| entry.at),
        ];
        next.into_iter().flatten().any(|at| at < piece.end)
    })
}

/// May a nop or an int3 begin with these bytes? Their first ones exclude most instructions.
fn may_fill(bytes: &[u8]) -> bool {
    let is_rex = |byte: u8| byte & 0xf0 == 0x40;
    let may_begin = |byte: u8| {
        matches!(byte, 0x0f | 0x90 | 0xcc)
            || matches!(
                byte,
                0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3
            )
    };
    match bytes {
        [first, second, ..] if is_rex(*first) => is_rex(*second) || may_begin(*second),
        [first, ..] => is_rex(*first) || may_begin(*first),
        [] => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All nops and int3 of two bytes, and of three with each prefix, are let through.
    #[test]
    fn what_may_fill_is_not_excluded() {
        let mut number = 0;
        for word in 0..=u16::MAX {
            for behind in [0x90, 0xcc, 0x1f, 0x00, 0xc0] {
                let [first, second] = word.to_le_bytes();
                let bytes = [first, second, behind, 0, 0, 0, 0, 0, 0, 0];
                let Some(one) = flow::decode(&bytes, 0x1000) else {
                    continue;
                };
                if matches!(one.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
                    assert!(may_fill(&bytes), "{bytes:02x?}");
                    number += 1;
                }
            }
        }
        assert!(number > 100, "{number}");
    }
}
