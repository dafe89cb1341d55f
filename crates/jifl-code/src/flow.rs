// SPDX-License-Identifier: MIT OR Apache-2.0
//! How execution goes on behind an instruction. The kernel's thunks are what they stand for.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use rustc_hash::FxHashMap;

use crate::image::Image;

/// Names of the general registers, by their numbers.
pub const REGISTERS: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

/// No instruction is longer, in bytes.
pub const LONGEST: usize = 15;

/// The instruction that bytes begin with, which stand at an address; `None` if they begin with
/// none.
pub fn decode(bytes: &[u8], at: u64) -> Option<Instruction> {
    instructions(bytes, at)
        .next()
        .filter(|found| !found.is_invalid())
}

/// All instructions in bytes, which stand at an address. What is no instruction is one that is not
/// valid.
pub fn instructions(bytes: &[u8], at: u64) -> impl Iterator<Item = Instruction> + '_ {
    Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).into_iter()
}

/// Forms of an endbr64: the instruction, and what the kernel puts in its place where nothing calls
/// the function indirectly, up to Linux 6.14 and later (`gen_endbr_poison` in
/// arch/x86/include/asm/ibt.h).
const ENDBR64: [[u8; 4]; 3] = [
    [0xf3, 0x0f, 0x1e, 0xfa],
    [0x66, 0x0f, 0x1f, 0x00],
    [0x0f, 0x1f, 0x40, 0xd6],
];

/// The bytes of the endbr64 that a function begins with, in whatever form: 4, or 0 if it has none.
pub fn endbr64(bytes: &[u8]) -> usize {
    let form = ENDBR64.iter().find(|form| bytes.starts_with(*form));
    form.map_or(0, |form| form.len())
}

/// What an indirect branch goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Through {
    /// A register: its number, 0 is rax, 15 is r15.
    Register(u8),
    /// Memory at an address of its own, such as the slot of a paravirt operation.
    Slot(u64),
    /// Memory at registers.
    Memory,
    /// A far return: to what was pushed, which is firmware's, or code of 32 bits.
    Far,
}

/// Where a call, or a jump out of the function, goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// This address.
    Direct(u64),
    /// Not known.
    Indirect(Through),
}

/// Is it the ud1 of __WARN_trap, which is 6.19's and later? It has an address of 32 bits and a
/// register of 64. The kernel warns, and goes on behind it (decode_bug in arch/x86/kernel/traps.c).
fn is_warning(trap: &Instruction) -> bool {
    trap.code() == Code::Ud1_r64_rm64
        && trap.memory_base().is_gpr32()
        && trap.memory_displ_size() == 0
}

/// How execution goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// With the next instruction.
    Next,
    /// On a condition, here.
    Branch(Target),
    /// Here.
    Jump(Target),
    /// Calls, and goes on with the next instruction.
    Call(Target),
    /// Returns.
    Return,
    /// Returns on a condition.
    BranchReturn,
    /// ud2: the kernel's bug table says whether it goes on.
    Trap,
    /// Does not go on: iret, sysret, int3, or what is no instruction.
    Stop,
}

/// What a branch to a thunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thunk {
    Return,
    Indirect(u8),
}

/// The kernel's thunks, by their addresses.
#[derive(Debug, Default)]
pub struct Thunks(FxHashMap<u64, Thunk>);

impl Thunks {
    /// Those of an image.
    pub fn of(image: &Image) -> Thunks {
        let all = image.symbols.iter();
        Thunks::named(all.map(|symbol| (symbol.address, symbol.name.as_str())))
    }

    /// Those among functions with these names: `__x86_indirect_thunk_rax`, `__x86_return_thunk`,
    /// `srso_return_thunk` (arch/x86/lib/retpoline.S).
    pub fn named<'a>(all: impl Iterator<Item = (u64, &'a str)>) -> Thunks {
        let thunk = |name: &str| {
            if let Some(rest) = name.strip_prefix("__x86_indirect_") {
                return register(rest.rsplit('_').next()?).map(Thunk::Indirect);
            }
            (name.ends_with("return_thunk") || name == "__ret").then_some(Thunk::Return)
        };
        let thunks = all.filter_map(|(address, name)| Some((address, thunk(name)?)));
        Thunks(thunks.collect())
    }

    /// How execution goes on behind an instruction.
    pub fn flow(&self, instruction: &Instruction) -> Flow {
        let target = || self.target(instruction);
        match instruction.flow_control() {
            FlowControl::Next => Flow::Next,
            FlowControl::ConditionalBranch => match target() {
                Some(Folded::Return) => Flow::BranchReturn,
                Some(Folded::To(to)) => Flow::Branch(to),
                None => Flow::Stop,
            },
            FlowControl::UnconditionalBranch => match target() {
                Some(Folded::Return) => Flow::Return,
                Some(Folded::To(to)) => Flow::Jump(to),
                None => Flow::Stop,
            },
            FlowControl::IndirectBranch => indirect(instruction).map_or(Flow::Stop, Flow::Jump),
            FlowControl::Call => match target() {
                // A call of what returns at once.
                Some(Folded::Return) => Flow::Next,
                Some(Folded::To(to)) => Flow::Call(to),
                // vmcall and others of its kind.
                None => Flow::Next,
            },
            FlowControl::IndirectCall => indirect(instruction).map_or(Flow::Stop, Flow::Call),
            FlowControl::Return => match instruction.mnemonic() {
                Mnemonic::Ret => Flow::Return,
                Mnemonic::Retf => Flow::Jump(Target::Indirect(Through::Far)),
                _ => Flow::Stop,
            },
            FlowControl::Exception if instruction.code() == Code::Ud2 => Flow::Trap,
            FlowControl::Exception if is_warning(instruction) => Flow::Next,
            // int3, int, ud1, what is not valid.
            FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int => Flow::Next,
            FlowControl::XbeginXabortXend => Flow::Next,
            FlowControl::Interrupt | FlowControl::Exception => Flow::Stop,
        }
    }

    /// Does the instruction at an address branch to an address that it names: to a thunk, where
    /// the branch is indirect?
    pub fn is_direct(&self, image: &Image, at: u64) -> bool {
        let instruction = decode(image.bytes(at).unwrap_or_default(), at);
        let to = instruction.and_then(|instruction| direct(&instruction));
        to.is_some_and(|to| self.0.contains_key(&to))
    }

    fn target(&self, instruction: &Instruction) -> Option<Folded> {
        let to = direct(instruction)?;
        Some(match self.0.get(&to) {
            Some(Thunk::Return) => Folded::Return,
            Some(Thunk::Indirect(register)) => {
                Folded::To(Target::Indirect(Through::Register(*register)))
            }
            None => Folded::To(Target::Direct(to)),
        })
    }
}

enum Folded {
    To(Target),
    Return,
}

/// The address that an instruction branches to.
pub fn direct(instruction: &Instruction) -> Option<u64> {
    let is_near = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64;
    is_near.then(|| instruction.near_branch_target())
}

fn indirect(instruction: &Instruction) -> Option<Target> {
    let through = match instruction.op0_kind() {
        OpKind::Register => Through::Register(number(instruction.op0_register())?),
        OpKind::Memory if instruction.is_ip_rel_memory_operand() => {
            Through::Slot(instruction.ip_rel_memory_address())
        }
        OpKind::Memory
            if instruction.memory_base() == Register::None
                && instruction.memory_index() == Register::None =>
        {
            Through::Slot(instruction.memory_displacement64())
        }
        OpKind::Memory => Through::Memory,
        _ => return None,
    };
    Some(Target::Indirect(through))
}

/// 0 of rax and its parts, 15 of r15; `None` of other registers.
pub fn number(register: Register) -> Option<u8> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number() as u8)
}

/// Its number by its name.
fn register(name: &str) -> Option<u8> {
    let place = REGISTERS.iter().position(|known| *known == name)?;
    u8::try_from(place).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Symbol;

    #[test]
    fn thunks_are_what_they_stand_for() {
        let symbol = |address, name: &str| Symbol {
            address,
            name: name.into(),
            is_global: true,
        };
        let image = Image {
            symbols: vec![
                symbol(0x2000, "__x86_indirect_thunk_r10"),
                symbol(0x3000, "__x86_return_thunk"),
            ],
            ..Image::default()
        };
        let thunks = Thunks::of(&image);
        let flow = |bytes: &[u8]| {
            let instruction = instructions(bytes, 0x1000).next().unwrap();
            thunks.flow(&instruction)
        };
        let through = Target::Indirect(Through::Register(10));
        for (bytes, expected) in [
            (&[0xe8, 0xfb, 0x0f, 0, 0][..], Flow::Call(through)),
            (&[0xe9, 0xfb, 0x0f, 0, 0], Flow::Jump(through)),
            (&[0x0f, 0x84, 0xfa, 0x0f, 0, 0], Flow::Branch(through)),
            (&[0xe9, 0xfb, 0x1f, 0, 0], Flow::Return),
            (&[0x0f, 0x85, 0xfa, 0x1f, 0, 0], Flow::BranchReturn),
            (&[0xc3], Flow::Return),
            (&[0x0f, 0x0b], Flow::Trap),
            // ud1 (%edx), %rdi; without the second prefix; a ud1 that fills up.
            (&[0x67, 0x48, 0x0f, 0xb9, 0x3a], Flow::Next),
            (&[0x67, 0x0f, 0xb9, 0x3a], Flow::Stop),
            (&[0x0f, 0xb9, 0xcc], Flow::Stop),
            (&[0xcc], Flow::Stop),
            (&[0x48, 0xcf], Flow::Stop),
            (&[0x06], Flow::Stop),
            (&[0x74, 0x02], Flow::Branch(Target::Direct(0x1004))),
            (
                &[0xff, 0x15, 0x0a, 0, 0, 0],
                Flow::Call(Target::Indirect(Through::Slot(0x1010))),
            ),
            (&[0xff, 0x20], Flow::Jump(Target::Indirect(Through::Memory))),
        ] {
            assert_eq!(flow(bytes), expected, "{bytes:02x?}");
        }
    }

    #[test]
    fn what_is_no_instruction_is_told() {
        let bytes = [0x90, 0x06];
        let all = instructions(&bytes, 0x1000);
        let valid: Vec<bool> = all.map(|one| !one.is_invalid()).collect();
        assert_eq!(valid, [true, false]);
        assert!(decode(&bytes[1..], 0x1001).is_none());
        // Cut short, and nothing at all.
        assert!(decode(&[0xe8], 0x1002).is_none() && decode(&[], 0x1003).is_none());
        assert_eq!(decode(&bytes, 0x1000).unwrap().next_ip(), 0x1001);
    }
}
