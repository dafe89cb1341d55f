// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of an instruction on the place of a value: a register, or a word on the stack.

use std::collections::BTreeSet;

use iced_x86::{Code, ConditionCode, FlowControl, Instruction, Mnemonic, OpKind, Register};
pub use jifl_code::effect::CALLER_SAVED;
use jifl_code::effect::{self, REGISTERS};
use jifl_code::flow::number;

/// Hardware numbers of registers.
pub const RAX: u8 = 0;
/// Hardware number of the stack pointer.
pub const RSP: u8 = 4;
/// The place of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The register with this hardware number.
    Register(u8),
    /// The word on the stack at this address. The caller chooses the address from which it counts.
    Slot(i64),
}

/// Arithmetic with a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Math {
    /// `and`
    And(i64),
    /// `or`
    Or(i64),
    /// `xor`, `not`
    Xor(i64),
    /// `add`, `sub`, `lea`
    Add(i64),
    /// `neg`
    Negate,
    /// Extends 32 bits, with their sign or with zeros.
    Shift,
}

impl Math {
    /// The result for a value; `None` for arithmetic that is not examined.
    pub fn of(self, value: i64) -> Option<i64> {
        Some(match self {
            Math::And(with) => value & with,
            Math::Or(with) => value | with,
            Math::Xor(with) => value ^ with,
            Math::Add(with) => value.wrapping_add(with),
            Math::Negate => value.wrapping_neg(),
            Math::Shift => return None,
        })
    }
}

/// The effect of an instruction on the value in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The value stays.
    Keeps,
    /// The value of another place comes there.
    Copies(Place),
    /// A constant comes there.
    Sets(i64),
    /// A value from memory comes there; nothing more is known of it.
    Loads,
    /// The value of a place comes there, after arithmetic.
    Computes(Math, Place),
    /// By the flags, the value of another place comes there, or the old one stays.
    Selects(Place),
    /// By the flags, 0 or 1 comes there, or 0 or -1.
    Flags,
    /// Another value comes there.
    Changes,
}

/// Finds effects.
#[derive(Default)]
pub struct Effects(effect::Effects);

fn operand_register(instruction: &Instruction, operand: u32) -> Option<u8> {
    (instruction.op_kind(operand) == OpKind::Register)
        .then(|| number(instruction.op_register(operand)))
        .flatten()
}

fn is_memory(instruction: &Instruction, operand: u32) -> bool {
    operand < instruction.op_count() && instruction.op_kind(operand) == OpKind::Memory
}

fn is_immediate(instruction: &Instruction, operand: u32) -> bool {
    operand < instruction.op_count()
        && matches!(
            instruction.op_kind(operand),
            OpKind::Immediate8
                | OpKind::Immediate16
                | OpKind::Immediate32
                | OpKind::Immediate64
                | OpKind::Immediate8to16
                | OpKind::Immediate8to32
                | OpKind::Immediate8to64
                | OpKind::Immediate32to64
        )
}

/// A constant operand: errors are 32 bits wide often.
fn immediate(instruction: &Instruction, operand: u32) -> i64 {
    match instruction.op_kind(operand) {
        OpKind::Immediate32 => i64::from(instruction.immediate32() as i32),
        _ => instruction.immediate(operand) as i64,
    }
}

/// True if the instruction sets flags.
pub fn writes_flags(instruction: &Instruction) -> bool {
    instruction.rflags_modified() != 0
}

/// The register that the instruction compares with 0, in at least 32 bits.
pub fn compared(instruction: &Instruction) -> Option<u8> {
    let is_whole = || instruction.op0_register().size() >= 4;
    (instruction.mnemonic() == Mnemonic::Test && is_same(instruction) && is_whole())
        .then(|| operand_register(instruction, 0))
        .flatten()
}

/// True if the instruction depends on flags, by a condition.
pub fn is_conditional(instruction: &Instruction) -> bool {
    instruction.condition_code() != ConditionCode::None
}

/// The place that the instruction writes: its first operand, or the word that it pushes. `slot` is
/// its operand in memory, if that is on the stack; for `push` and `pop` the word that they push or
/// pop.
pub fn destination(instruction: &Instruction, slot: Option<i64>) -> Option<Place> {
    if instruction.mnemonic() == Mnemonic::Push {
        return slot.map(Place::Slot);
    }
    if matches!(instruction.mnemonic(), Mnemonic::Cdqe | Mnemonic::Cwde) {
        return Some(Place::Register(RAX));
    }
    if instruction.op_count() == 0 || instruction.flow_control() != FlowControl::Next {
        return None;
    }
    if is_memory(instruction, 0) {
        return slot.map(Place::Slot);
    }
    operand_register(instruction, 0).map(Place::Register)
}

impl Effects {
    /// The effect on a place. For calls and native code the caller knows it.
    pub fn of(&mut self, instruction: &Instruction, slot: Option<i64>, place: Place) -> Effect {
        if !self.writes(instruction, slot, place) {
            return Effect::Keeps;
        }
        if destination(instruction, slot) != Some(place) {
            return Effect::Changes;
        }
        match instruction.mnemonic() {
            Mnemonic::Mov
            | Mnemonic::Movsx
            | Mnemonic::Movsxd
            | Mnemonic::Movzx
            | Mnemonic::Movnti => source(instruction, 1, slot),
            Mnemonic::Cdqe | Mnemonic::Cwde => Effect::Copies(Place::Register(RAX)),
            Mnemonic::Push => source(instruction, 0, None),
            Mnemonic::Pop => slot.map_or(Effect::Loads, |slot| Effect::Copies(Place::Slot(slot))),
            Mnemonic::Sbb | Mnemonic::Sub | Mnemonic::Xor if is_same(instruction) => {
                if instruction.mnemonic() == Mnemonic::Sbb {
                    Effect::Flags
                } else {
                    Effect::Sets(0)
                }
            }
            Mnemonic::Lea => lea(instruction),
            _ if is_select(instruction) => match source(instruction, 1, slot) {
                Effect::Copies(from) => Effect::Selects(from),
                _ => Effect::Changes,
            },
            _ if is_conditional(instruction) => Effect::Flags,
            _ => math(instruction, place),
        }
    }

    fn writes(&mut self, instruction: &Instruction, slot: Option<i64>, place: Place) -> bool {
        match place {
            Place::Slot(wanted) => {
                slot == Some(wanted)
                    && match instruction.mnemonic() {
                        Mnemonic::Push => true,
                        Mnemonic::Pop => false,
                        _ => is_memory(instruction, 0) && self.0.writes_first(instruction),
                    }
            }
            Place::Register(wanted) => self.written(instruction) >> wanted & 1 == 1,
        }
    }

    /// The registers that the instruction writes, as a mask.
    pub fn written(&mut self, instruction: &Instruction) -> u32 {
        self.0.changes(instruction) & REGISTERS
    }

    /// Whether the instruction reads one of these places. `slot` as for [`destination`].
    pub fn reads(
        &mut self,
        instruction: &Instruction,
        slot: Option<i64>,
        places: &BTreeSet<Place>,
    ) -> bool {
        let uses = self.0.of(instruction).uses;
        let is_read = |place: &Place| match place {
            Place::Register(register) => uses >> register & 1 == 1,
            Place::Slot(at) => slot == Some(*at),
        };
        places.iter().any(is_read)
    }
}

fn is_select(instruction: &Instruction) -> bool {
    is_conditional(instruction)
        && instruction.op_count() == 2
        && instruction.flow_control() == FlowControl::Next
}

fn is_same(instruction: &Instruction) -> bool {
    let first = operand_register(instruction, 0);
    instruction.op_count() == 2 && first.is_some() && first == operand_register(instruction, 1)
}

/// What is moved.
fn source(instruction: &Instruction, operand: u32, slot: Option<i64>) -> Effect {
    if is_immediate(instruction, operand) {
        return Effect::Sets(immediate(instruction, operand));
    }
    if is_memory(instruction, operand) {
        return slot.map_or(Effect::Loads, |slot| Effect::Copies(Place::Slot(slot)));
    }
    let register = operand_register(instruction, operand);
    register.map_or(Effect::Changes, |from| {
        Effect::Copies(Place::Register(from))
    })
}

fn lea(instruction: &Instruction) -> Effect {
    let displacement = instruction.memory_displacement64() as i64;
    match number(instruction.memory_base()) {
        Some(base) if instruction.memory_index() == Register::None => {
            Effect::Computes(Math::Add(displacement), Place::Register(base))
        }
        _ => Effect::Changes,
    }
}

fn math(instruction: &Instruction, place: Place) -> Effect {
    let one = instruction.op_count() == 1;
    let op = match instruction.mnemonic() {
        Mnemonic::Neg => Math::Negate,
        Mnemonic::Not => Math::Xor(-1),
        Mnemonic::Dec => Math::Add(-1),
        Mnemonic::Inc => Math::Add(1),
        _ if one || !is_immediate(instruction, 1) => return Effect::Changes,
        Mnemonic::And => Math::And(immediate(instruction, 1)),
        Mnemonic::Or => Math::Or(immediate(instruction, 1)),
        Mnemonic::Xor => Math::Xor(immediate(instruction, 1)),
        Mnemonic::Add => Math::Add(immediate(instruction, 1)),
        Mnemonic::Sub => Math::Add(immediate(instruction, 1).wrapping_neg()),
        Mnemonic::Sar | Mnemonic::Shr | Mnemonic::Shl if instruction.code() != Code::INVALID => {
            Math::Shift
        }
        _ => return Effect::Changes,
    };
    Effect::Computes(op, place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jifl_code::flow::decode;

    #[test]
    fn values_are_followed() {
        use Effect::*;
        use Place::{Register, Slot};
        let (rax, rbx) = (Register(0), Register(3));
        let cases: [(&[u8], Option<i64>, Place, Effect); 20] = [
            (&[0xb8, 0xfe, 0xff, 0xff, 0xff], None, rax, Sets(-2)), // mov $-2,%eax
            (
                &[0x48, 0xc7, 0xc0, 0xfe, 0xff, 0xff, 0xff],
                None,
                rax,
                Sets(-2),
            ),
            (&[0x89, 0xd8], None, rax, Copies(rbx)), // mov %ebx,%eax
            (&[0x89, 0xd8], None, rbx, Keeps),
            (&[0x48, 0x63, 0xc3], None, rax, Copies(rbx)), // movslq %ebx,%rax
            (&[0x48, 0x98], None, rax, Copies(rax)),       // cltq
            (&[0x8b, 0x44, 0x24, 0x08], Some(8), rax, Copies(Slot(8))), // mov 8(%rsp),%eax
            (&[0x8b, 0x07], None, rax, Loads),             // mov (%rdi),%eax
            (&[0x89, 0x44, 0x24, 0x08], Some(8), Slot(8), Copies(rax)),
            (&[0x89, 0x44, 0x24, 0x08], Some(8), Slot(16), Keeps),
            (&[0x53], Some(-8), Slot(-8), Copies(rbx)), // push %rbx
            (&[0x5b], Some(-8), rbx, Copies(Slot(-8))), // pop %rbx
            (&[0x31, 0xc0], None, rax, Sets(0)),        // xor %eax,%eax
            (&[0x19, 0xc0], None, rax, Flags),          // sbb %eax,%eax
            (
                &[0x83, 0xe0, 0xea],
                None,
                rax,
                Computes(Math::And(-22), rax),
            ),
            (&[0x0f, 0x44, 0xc3], None, rax, Selects(rbx)), // cmove %ebx,%eax
            (&[0x0f, 0x94, 0xc0], None, rax, Flags),        // sete %al
            (
                &[0x8d, 0x43, 0xf0],
                None,
                rax,
                Computes(Math::Add(-16), rbx),
            ), // lea -16(%rbx),%eax
            (&[0xf7, 0xd8], None, rax, Computes(Math::Negate, rax)),
            (&[0x85, 0xc0], None, rax, Keeps), // test %eax,%eax
        ];
        let mut effects = Effects::default();
        for (bytes, slot, place, effect) in cases {
            let instruction = decode(bytes, 0x1000).unwrap();
            assert_eq!(
                effects.of(&instruction, slot, place),
                effect,
                "{bytes:02x?}"
            );
        }
    }
}
