// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of the cache that is shown, and its JSON: each block's pieces beside their source, with
//! what is known about the origin of inserted pieces.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use iced_x86::Instruction;
use jifl_code::flow::{Flow, REGISTERS, Target, Through, Thunks, instructions};
use jifl_sys::abi::{
    BLOCK_DEAD, BLOCK_ENTRY, BLOCK_FALLS, BLOCK_LIVENESS, BLOCK_NATIVE, Block, LIVE_FLAGS,
    RoutineInfo, SEGMENT_INLINED, SEGMENT_INSERTED, SEGMENT_ONWARD, SEGMENT_ORIGINAL, Segment,
    SessionInfo,
};
use jifl_sys::device::BlockParts;
use serde::Serialize;

use super::origin::{self, Origins, Part};
use crate::kernel::disasm::{self, Disassembler};
use crate::kernel::images::hex;
use crate::kernel::symbols::Symbols;

/// A block.
#[derive(Debug, Serialize)]
pub struct View {
    /// Its function.
    pub function: String,
    /// Its function, with the offset.
    pub name: String,
    /// Address of the original.
    pub orig: String,
    /// Address of the copy.
    pub cache: String,
    /// Number of original instructions, if known.
    pub insns: Option<u32>,
    /// Its properties.
    pub flags: Vec<&'static str>,
    /// The sessions whose inserts it has.
    pub sessions: Vec<u64>,
    /// Bytes of the original as it is now.
    pub src: String,
    /// Bytes of the copy.
    pub code: String,
    /// Pieces, in order.
    pub segments: Vec<Piece>,
}

/// A piece of a block.
#[derive(Debug, Serialize)]
pub struct Piece {
    /// Its kind.
    pub kind: &'static str,
    /// Bytes of the original.
    pub src_len: u8,
    /// Bytes of the copy.
    pub code_len: u16,
    /// Bytes that inserted code has on the stack at its beginning.
    pub pushed: u32,
    /// Flags live before it, if known: `C-Z---`.
    pub live_flags: Option<String>,
    /// Registers live before it, if known.
    pub live_regs: Option<Vec<&'static str>>,
    /// The original instruction.
    pub original: Option<String>,
    /// The copy of this instruction, or the inserted code.
    pub copy: Vec<String>,
    /// Origin of inserted code, if known.
    pub by: Option<String>,
    /// Registers that are dead before it, for the text.
    #[serde(skip)]
    pub dead: Vec<&'static str>,
}

/// Names and origins with which blocks are shown.
pub struct Viewer {
    disassembler: Disassembler,
    thunks: Thunks,
    symbols: Rc<Symbols>,
    /// Original addresses of blocks, by the addresses of their copies. Several blocks have the same
    /// address if they consist of nops and so have no code.
    starts: HashMap<u64, Vec<u64>>,
    origins: Origins,
}

impl Viewer {
    /// A viewer for these blocks.
    pub fn new(
        symbols: Symbols,
        blocks: &[(Block, BlockParts)],
        sessions: &[SessionInfo],
        routines: &[RoutineInfo],
    ) -> Viewer {
        let symbols = Rc::new(symbols);
        let mut starts: HashMap<u64, Vec<u64>> = HashMap::new();
        for (block, _) in blocks {
            if block.flags & BLOCK_ENTRY == 0 {
                starts.entry(block.cache).or_default().push(block.orig);
            }
        }
        Viewer {
            disassembler: Disassembler::new(symbols.clone()),
            thunks: symbols.thunks(),
            symbols,
            starts,
            origins: Origins::of(sessions, routines),
        }
    }

    /// The view of one block.
    pub fn view(&mut self, block: &Block, parts: &BlockParts) -> View {
        let place = self.symbols.function(block.orig);
        let sessions: Vec<u64> = block.sessions.into_iter().filter(|id| *id != 0).collect();
        View {
            function: place.map_or("?", |place| place.function()).to_owned(),
            name: self.disassembler.name(block.orig),
            orig: format!("{:#x}", block.orig),
            cache: format!("{:#x}", block.cache),
            insns: (block.flags & BLOCK_LIVENESS != 0).then_some(block.insns),
            flags: flags(block.flags),
            sessions,
            src: hex(&parts.src),
            code: hex(&parts.code),
            segments: self.pieces(block, parts),
        }
    }

    fn pieces(&mut self, block: &Block, parts: &BlockParts) -> Vec<Piece> {
        let (mut src_at, mut code_at) = (0, 0);
        let mut taken = None;
        let inside = block.cache + 1..block.cache + parts.code.len() as u64;
        let mut pieces = Vec::new();
        for index in 0..parts.segments.len() {
            let segment = parts.segments[index];
            let src = part(&parts.src, src_at, segment.src_len.into());
            let code = part(&parts.code, code_at, segment.code_len.into());
            let source: Vec<_> = instructions(src, block.orig + src_at as u64).collect();
            let copy: Vec<_> = instructions(code, block.cache + code_at as u64).collect();
            src_at += src.len();
            code_at += code.len();
            taken = source.first().and_then(disasm::direct_target).or(taken);
            let onward = match taken {
                Some(target) if origin::leaves_where_taken(block, &parts.segments, index) => target,
                _ => block.orig + src_at as u64,
            };
            let part = Part {
                block,
                segments: &parts.segments,
                index,
                copy: &copy,
            };
            pieces.push(Piece {
                kind: kind(segment.kind),
                src_len: segment.src_len,
                code_len: segment.code_len,
                pushed: u32::from(segment.pushed) * 8,
                original: source.first().map(|insn| self.original(insn)),
                by: self.origins.by(&self.disassembler, &part),

                copy: self.copy(source.first(), &copy, onward, segment.kind, &inside),
                live_flags: None,
                live_regs: None,
                dead: Vec::new(),
            });
            if block.flags & BLOCK_LIVENESS != 0 {
                set_liveness(pieces.last_mut().expect("just pushed"), &segment);
            }
        }
        pieces
    }

    fn original(&mut self, instruction: &Instruction) -> String {
        let label = disasm::direct_target(instruction).map(|at| self.disassembler.name(at));
        self.disassembler.text(instruction, label)
    }

    /// `onward`: address at which the original goes on; `inside`: addresses of the block's code.
    fn copy(
        &mut self,
        source: Option<&Instruction>,
        copy: &[Instruction],
        onward: u64,
        kind: u8,
        inside: &Range<u64>,
    ) -> Vec<String> {
        let meant = match kind {
            SEGMENT_ORIGINAL => source.and_then(|insn| self.branch(insn)),
            SEGMENT_ONWARD => Some(Target::Direct(onward)),
            _ => None,
        };
        let last = (copy.len() > 1).then(|| copy[copy.len() - 1].next_ip());
        let mut lines = Vec::new();
        for instruction in copy {
            let label = disasm::direct_target(instruction).map(|target| {
                // A jump within the copy: around another jump, which jrcxz needs, or around code
                // that is inserted where a branch is taken.
                if inside.contains(&target) || last == Some(target) {
                    format!(".+{:#x}", target - instruction.ip())
                } else {
                    self.label(target, meant)
                }
            });
            lines.push(self.disassembler.text(instruction, label));
        }
        lines
    }

    /// The target of an original instruction, if it branches. Thunks that the kernel makes while it
    /// runs have no name.
    fn branch(&self, instruction: &Instruction) -> Option<Target> {
        let direct = disasm::direct_target(instruction);
        if direct.is_some_and(|target| self.symbols.function(target).is_none()) {
            return Some(Target::Indirect(Through::Register(0)));
        }
        match self.thunks.flow(instruction) {
            Flow::Branch(target) | Flow::Jump(target) | Flow::Call(target) => Some(target),
            _ => direct.map(Target::Direct),
        }
    }

    /// The target of a branch of the copy, in terms of the original.
    fn label(&self, target: u64, meant: Option<Target>) -> String {
        let there = self.starts.get(&target).map_or(&[][..], Vec::as_slice);
        match (meant, there) {
            (Some(Target::Direct(orig)), there) if there.contains(&orig) => {
                self.disassembler.name(orig)
            }
            (_, [.., orig]) => self.disassembler.name(*orig),
            (Some(Target::Direct(orig)), []) if orig != target => {
                format!("{} (not linked)", self.disassembler.name(orig))
            }
            (Some(Target::Indirect(Through::Register(_))), []) => "<inline cache>".into(),
            (Some(Target::Indirect(_)), []) => "<lookup>".into(),
            _ => self.disassembler.name(target),
        }
    }
}

fn part(bytes: &[u8], at: usize, len: usize) -> &[u8] {
    let end = bytes.len().min(at + len);
    &bytes[at.min(end)..end]
}

fn set_liveness(piece: &mut Piece, segment: &Segment) {
    let is_live = |register: usize| segment.live_regs >> register & 1 == 1;
    let (live, dead) = (0..REGISTERS.len()).partition::<Vec<_>, _>(|register| is_live(*register));
    let names = |numbers: Vec<usize>| numbers.into_iter().map(|n| REGISTERS[n]).collect();
    piece.live_flags = Some(live_flags(segment.live_flags));
    piece.live_regs = Some(names(live));
    piece.dead = names(dead);
}

/// Flags in their common order; D is shown only if it may be set.
fn live_flags(live: u8) -> String {
    let bit = |name: char| LIVE_FLAGS.iter().position(|flag| *flag == name);
    let is_live = |name: char| bit(name).is_some_and(|bit| live >> bit & 1 == 1);
    let mut text: String = "CZSOPA"
        .chars()
        .map(|name| if is_live(name) { name } else { '-' })
        .collect();
    if is_live('D') {
        text.push('D');
    }
    text
}

fn kind(kind: u8) -> &'static str {
    match kind {
        SEGMENT_ORIGINAL => "original",
        SEGMENT_INSERTED => "inserted",
        SEGMENT_INLINED => "inlined",
        SEGMENT_ONWARD => "onward",
        _ => "unknown",
    }
}

fn flags(flags: u32) -> Vec<&'static str> {
    let names = [
        (BLOCK_DEAD, "dead"),
        (BLOCK_NATIVE, "native"),
        (BLOCK_ENTRY, "entry"),
        (BLOCK_FALLS, "falls"),
    ];
    names
        .iter()
        .filter(|(flag, _)| flags & flag != 0)
        .map(|(_, name)| *name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_told_apart() {
        use Target::{Direct, Indirect};
        let symbols = Symbols::parse("1000 t f\n2000 t __x86_indirect_thunk_rcx\n");
        let viewer = Viewer::new(symbols, &[], &[], &[]);
        let branch = |code: &[u8]| viewer.branch(&instructions(code, 0x1000).next().unwrap());
        assert_eq!(branch(&[0x74, 0x06]), Some(Direct(0x1008)));
        let through = |number| Some(Indirect(Through::Register(number)));
        assert_eq!(branch(&[0xe8, 0xfb, 0x0f, 0, 0]), through(1));
        assert_eq!(branch(&[0xff, 0xd0]), through(0));
        // A thunk without a name, at an address below all names.
        assert!(matches!(
            branch(&[0xeb, 0x80]),
            Some(Indirect(Through::Register(_)))
        ));
        assert_eq!(branch(&[0xff, 0x20]), Some(Indirect(Through::Memory)));
        assert_eq!(branch(&[0xc3]), None);
    }
}
