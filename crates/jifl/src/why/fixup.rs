// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel does in place of an instruction that met an exception: its table says where it
//! goes on (arch/x86/include/asm/extable_fixup_types.h). That runs natively, so only what is
//! straight there is known: the constant that it returns, mostly.

use super::code::{Code, Flow};
use super::effect::{Effect, Effects, Place, RAX};

/// An entry has three offsets of 4 bytes, the first two from themselves.
const ENTRY: u64 = 12;
/// In the third: what to do, with which register, and, from here on, a number.
const TYPE: i32 = 0xff;
const SETS_REGISTER: i32 = 17;
const REGISTER_SHIFT: u32 = 8;
const NUMBER_SHIFT: u32 = 16;
/// No fixup is longer.
const LONGEST: usize = 64;

/// How it goes on.
struct Fixup {
    to: u64,
    /// A register that is set before.
    sets: Option<(u8, i64)>,
}

/// Where a fixup sets what the function returns, if that is `wanted`.
pub fn returns(at: u64, wanted: i64, code: &Code<'_>) -> Option<u64> {
    let fixup = find(at, code)?;
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

/// Only the kernel's own table is where its names say.
fn find(at: u64, code: &Code<'_>) -> Option<Fixup> {
    let from = code.symbols.address("__start___ex_table")?;
    let to = code.symbols.address("__stop___ex_table")?;
    let table = code.read(from, to.checked_sub(from)? as usize)?;
    let entries = table
        .chunks_exact(ENTRY as usize)
        .zip((from..).step_by(ENTRY as usize));
    for (entry, place) in entries {
        let word = |index: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&entry[4 * index..4 * index + 4]);
            i32::from_le_bytes(bytes)
        };
        if place.wrapping_add_signed(word(0).into()) != at {
            continue;
        }
        let data = word(2);
        let register = (data >> REGISTER_SHIFT & 0xf) as u8;
        return Some(Fixup {
            to: (place + 4).wrapping_add_signed(word(1).into()),
            sets: (data & TYPE == SETS_REGISTER)
                .then_some((register, i64::from(data >> NUMBER_SHIFT))),
        });
    }
    None
}
