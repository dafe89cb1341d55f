// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel does in place of an instruction that met an exception: its tables say where it
//! goes on. That runs natively, so only what is straight there is known: the constant that it
//! returns, mostly.

use super::code::{Code, Flow};
use super::effect::{Effect, Effects, Place, RAX};

/// No fixup is longer.
const LONGEST: usize = 64;

/// Where a fixup sets what the function returns, if that is `wanted`.
pub fn returns(at: u64, wanted: i64, code: &Code<'_>) -> Option<u64> {
    let fixup = code.tables.fixup(at, code)?;
    let mut instructions = Vec::new();
    let mut next = fixup.to;
    for _ in 0..LONGEST {
        let instruction = code.at(next)?;
        match code.flow(&instruction) {
            Flow::On => {
                instructions.push(instruction);
                next = instruction.next_ip();
            }
            Flow::Jump(target) => next = target,
            Flow::Return => break,
            _ => return None,
        }
    }
    let (mut place, mut effects) = (Place::Register(RAX), Effects::default());
    for instruction in instructions.iter().rev() {
        match effects.of(instruction, None, place) {
            Effect::Keeps => {}
            Effect::Copies(from) => place = from,
            Effect::Sets(value) => {
                return (value as i32 == wanted as i32).then(|| instruction.ip());
            }
            _ => return None,
        }
    }
    let (register, value) = fixup.sets?;
    (place == Place::Register(register) && value == wanted).then_some(fixup.to)
}
