// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which registers hold addresses of the stack at each step of a walk through code: the stack
//! pointer, and the registers that are computed from it. They tell which word an operand is.

use std::collections::HashMap;

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use jifl_code::flow::number;

use super::effect::{self, CALLER_SAVED, Effect, Effects, Math, Place, RSP};

/// Contents of registers, if known.
pub type Registers = [Option<i64>; 16];

/// Known addresses of the stack at a place in the code. They are relative to the first one.
#[derive(Debug, Clone, Default)]
pub struct Stack {
    registers: Registers,
    /// Addresses of the stack that are on it.
    saved: HashMap<i64, i64>,
}

impl Stack {
    /// Sets the stack pointer. Nothing else changes.
    pub fn at(&mut self, pointer: i64) {
        self.registers[RSP as usize] = Some(pointer);
    }

    /// The stack pointer, if it is known.
    pub fn pointer(&self) -> Option<i64> {
        self.registers[RSP as usize]
    }

    /// The word on the stack that an instruction reads or writes; for `push` and `pop` the word
    /// that they push or pop.
    pub fn operand(&self, instruction: &Instruction) -> Option<i64> {
        match instruction.mnemonic() {
            Mnemonic::Push => return Some(self.pointer()? - 8),
            Mnemonic::Pop => return self.pointer(),
            _ => {}
        }
        let in_memory =
            (0..instruction.op_count()).any(|op| instruction.op_kind(op) == OpKind::Memory);
        let plain = instruction.memory_index() == Register::None
            && !matches!(instruction.segment_prefix(), Register::GS | Register::FS);
        if !in_memory || !plain {
            return None;
        }
        let base = number(instruction.memory_base())?;
        let at = self.registers[base as usize]?;
        Some(at.wrapping_add(instruction.memory_displacement64() as i64))
    }

    fn value(&self, place: Place) -> Option<i64> {
        match place {
            Place::Register(register) => self.registers[register as usize],
            Place::Slot(slot) => self.saved.get(&slot).copied(),
        }
    }

    fn set(&mut self, place: Place, value: Option<i64>) {
        match (place, value) {
            (Place::Register(register), _) => self.registers[register as usize] = value,
            (Place::Slot(slot), Some(value)) => {
                self.saved.insert(slot, value);
            }
            (Place::Slot(slot), None) => {
                self.saved.remove(&slot);
            }
        }
    }

    /// Applies an instruction that goes on with the next one.
    pub fn step(&mut self, instruction: &Instruction, effects: &mut Effects) {
        let slot = self.operand(instruction);
        let pointer = self.pointer();
        let to = effect::destination(instruction, slot);
        let value = to.and_then(|to| match effects.of(instruction, slot, to) {
            Effect::Keeps => self.value(to),
            Effect::Copies(from) => self.value(from),
            Effect::Computes(math @ (Math::Add(_) | Math::And(_)), from) => {
                math.of(self.value(from)?)
            }
            _ => None,
        });
        self.forget(effects.written(instruction));
        if let Some(to) = to {
            self.set(to, value);
        }
        match instruction.mnemonic() {
            Mnemonic::Push | Mnemonic::Pushfq => {
                self.registers[RSP as usize] = pointer.map(|at| at - 8)
            }
            Mnemonic::Pop | Mnemonic::Popfq if to != Some(Place::Register(RSP)) => {
                self.registers[RSP as usize] = pointer.map(|at| at + 8);
            }
            _ => {}
        }
    }

    fn forget(&mut self, registers: u32) {
        for register in 0..16 {
            if registers >> register & 1 == 1 {
                self.registers[register] = None;
            }
        }
    }

    /// Applies a call that has returned: the stack pointer is the same as before.
    pub fn called(&mut self) {
        self.forget(CALLER_SAVED);
    }

    /// The contents of registers now.
    pub fn registers(&self) -> Registers {
        self.registers
    }

    /// A function returns that was called with these contents.
    pub fn returned(&mut self, to: Registers) {
        self.registers = to;
        self.called();
    }

    /// Forgets all, after code that was not seen.
    pub fn lose(&mut self) {
        self.forget(!0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jifl_code::flow::instructions;

    #[test]
    fn words_on_the_stack_are_known() {
        // push %rbx; sub $0x10,%rsp; lea 4(%rsp),%rdi; mov %rdi,%rbx; mov %eax,(%rbx);
        // add $0x10,%rsp; pop %rbx; mov %eax,(%rbx)
        let code = [
            0x53, 0x48, 0x83, 0xec, 0x10, 0x48, 0x8d, 0x7c, 0x24, 0x04, 0x48, 0x89, 0xfb, 0x89,
            0x03, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0x89, 0x03,
        ];
        let mut stack = Stack::default();
        let mut effects = Effects::default();
        stack.at(1000);
        let operands: Vec<Option<i64>> = instructions(&code, 0x1000)
            .map(|instruction| {
                let slot = stack.operand(&instruction);
                stack.step(&instruction, &mut effects);
                slot
            })
            .collect();
        // lea has an operand, too, which it does not touch.
        let known = [
            Some(992),
            None,
            Some(980),
            None,
            Some(980),
            None,
            Some(992),
            None,
        ];
        assert_eq!(operands, known);
        assert_eq!(stack.pointer(), Some(1000));
    }
}
