// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where inserted code comes from, as far as the code shows it.

use std::collections::HashMap;

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};
use jifl_sys::abi::{
    BLOCK_ENTRY, BLOCK_FALLS, BLOCK_NATIVE, Block, Kind, RoutineInfo, SEGMENT_INLINED,
    SEGMENT_INSERTED, SEGMENT_ONWARD, SEGMENT_ORIGINAL, Segment, SessionInfo, from_name,
};

use crate::kernel::disasm::{self, Disassembler};

/// Number of routines that the module tells apart (engine/ir/routine.h). If there are as many,
/// there may be others.
const ROUTINES_MAX: usize = 64;

/// A segment.
pub struct Part<'a> {
    /// Its block.
    pub block: &'a Block,
    /// All segments of the block.
    pub segments: &'a [Segment],
    /// Its index among them.
    pub index: usize,
    /// Its instructions.
    pub copy: &'a [Instruction],
}

/// Sessions and routines that may have inserted code.
pub struct Origins {
    sessions: HashMap<u64, SessionInfo>,
    /// The inlined routine, if there is only one.
    routine: Option<String>,
}

impl Origins {
    /// The origins in these sessions, and in all analysis routines.
    pub fn of(sessions: &[SessionInfo], routines: &[RoutineInfo]) -> Origins {
        let routines = if routines.len() < ROUTINES_MAX {
            routines
        } else {
            &[]
        };
        let mut inlined = routines.iter().filter(|routine| routine.copies > 0);
        let routine = match (inlined.next(), inlined.next()) {
            (Some(only), None) => Some(from_name(&only.name)),
            _ => None,
        };
        Origins {
            sessions: sessions
                .iter()
                .map(|session| (session.id, *session))
                .collect(),
            routine,
        }
    }

    /// The origin of a segment.
    pub fn by(&self, names: &Disassembler, part: &Part<'_>) -> Option<String> {
        let Part {
            block,
            segments,
            index,
            copy,
        } = *part;
        let segment = segments[index];
        let is_of = |kind: u8, index: Option<usize>| {
            let segment = index.and_then(|index| segments.get(index));
            segment.is_some_and(|segment| segment.kind == kind)
        };
        let is = |index| is_of(SEGMENT_INLINED, index);
        match segment.kind {
            SEGMENT_ORIGINAL => None,
            SEGMENT_ONWARD if leaves_where_taken(block, segments, index) => Some("is taken".into()),
            SEGMENT_ONWARD => Some("goes on".into()),
            _ if block.flags & BLOCK_ENTRY != 0 => Some("entry".into()),
            _ if block.flags & BLOCK_NATIVE != 0 => Some("counter of native exits".into()),
            SEGMENT_INLINED if self.has(block, Kind::Trace) && is_record(copy) => {
                Some("record of a trace".into())
            }
            SEGMENT_INLINED => Some(match &self.routine {
                Some(name) => format!("{name}, inlined"),
                None => "inlined routine".into(),
            }),
            _ => match (condition(copy), self.inserted(names, part)) {
                (Some(condition), Some(what)) => Some(format!("{what}, {condition}")),
                (None, Some(what)) => Some(what),
                // The condition of the inlined routine that follows.
                (Some(condition), None) => Some(condition),
                // `pushed` is 0 if all registers were saved in other registers.
                _ if is(index.checked_sub(1))
                    && (segment.pushed > 0 || is_of(SEGMENT_INSERTED, index.checked_sub(2))) =>
                {
                    Some("restores".into())
                }
                _ if is(Some(index + 1)) => Some("saves".into()),
                _ => None,
            },
        }
    }

    /// The origin of code that the engine itself has made as one piece.
    fn inserted(&self, names: &Disassembler, part: &Part<'_>) -> Option<String> {
        let copy = part.copy;
        if let Some(function) = copy.iter().find_map(out_of(copy)) {
            return Some(format!("call of {}", names.name(function)));
        }
        if copy.iter().any(disasm::is_bucket) {
            return Some("histogram".into());
        }
        if copy.iter().any(disasm::is_per_cpu) {
            return Some(self.counter(part.block));
        }
        let counts = self.has(part.block, Kind::Profile) && copy.iter().any(disasm::is_counter);
        counts.then(|| Self::cell(part.segments, part.index))
    }

    /// True if one of the block's sessions is of this kind.
    fn has(&self, block: &Block, kind: Kind) -> bool {
        let mut sessions = block.sessions.iter().filter_map(|id| self.sessions.get(id));
        sessions.any(|session| session.kind == kind as u32)
    }

    /// The meaning of a profile's cell: after the block's last instruction it counts a branch.
    fn cell(segments: &[Segment], index: usize) -> String {
        let behind = &segments[index + 1..];
        if behind
            .iter()
            .any(|segment| segment.kind == SEGMENT_ORIGINAL)
        {
            "counter of the block".into()
        } else {
            "counter of the branch, not taken".into()
        }
    }

    /// The meaning of a cell of the module's own.
    fn counter(&self, block: &Block) -> String {
        match [Kind::Insn, Kind::Block].map(|kind| self.has(block, kind)) {
            [true, false] => "counter of instructions".into(),
            [false, true] => "counter of blocks".into(),
            _ => "counter".into(),
        }
    }
}

/// True if this is the way on where the branch is taken: more code follows it, or the block runs
/// into another.
pub fn leaves_where_taken(block: &Block, segments: &[Segment], index: usize) -> bool {
    segments[index].kind == SEGMENT_ONWARD
        && (index + 1 < segments.len() || block.flags & BLOCK_FALLS != 0)
}

/// True if the code takes a place in a CPU's ring, as in engine/emit/record.c.
fn is_record(copy: &[Instruction]) -> bool {
    let start = copy.iter().take(3).map(Instruction::mnemonic);
    start.eq([Mnemonic::Mov, Mnemonic::Xadd, Mnemonic::Rol]) && disasm::is_per_cpu(&copy[1])
}

/// The condition of the code that follows, as written by engine/emit/when.c.
fn condition(copy: &[Instruction]) -> Option<String> {
    let asks = |pair: &&[Instruction]| {
        [pair[0].mnemonic(), pair[1].mnemonic()] == [Mnemonic::Cmp, Mnemonic::Jne]
    };
    let compare = &copy.windows(2).find(asks)?[0];
    let place = match compare.op0_kind() {
        OpKind::Register => register(compare.op0_register()),
        _ => format!(
            "{:#x}({})",
            compare.memory_displacement64(),
            register(compare.memory_base())
        ),
    };
    let constant = match compare.op1_kind() {
        OpKind::Register => register(compare.op1_register()),
        _ => format!("{:#x}", compare.immediate(1)),
    };
    Some(format!("if {place} is {constant}"))
}

fn register(register: Register) -> String {
    format!("%{register:?}").to_lowercase()
}

/// The target of an instruction that calls something outside of `code`.
fn out_of(code: &[Instruction]) -> impl Fn(&Instruction) -> Option<u64> {
    let (first, last) = (
        code.first().map(Instruction::ip),
        code.last().map(Instruction::next_ip),
    );
    move |instruction| {
        let target = disasm::direct_target(instruction)?;
        if instruction.code() != Code::Call_rel32_64 {
            return None;
        }
        (Some(target) < first || Some(target) > last).then_some(target)
    }
}
