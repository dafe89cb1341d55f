// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel does in place of an instruction that met an exception: its tables say where it
//! goes on. The fixup runs natively. So only straight code there is known, and branches on values
//! that the fixup itself has set: mostly the constant that it returns.

use iced_x86::{ConditionCode, Instruction};
use jifl_code::flow::{Flow, Target};
use jifl_code::image::Fixup;

use super::code::Code;
use super::effect::{self, Effect, Effects, Place, RAX};

/// Maximum of a fixup's instructions.
const LONGEST: usize = 64;

/// The place where a fixup sets the function's result, if the result is `wanted`.
pub fn returns(at: u64, wanted: i64, code: &Code<'_>) -> Option<u64> {
    let fixup = code.fixup(at)?;
    let mut effects = Effects::default();
    let mut place = Place::Register(RAX);
    for instruction in way(fixup, code, &mut effects)?.iter().rev() {
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

/// The instructions up to the function's return, without jumps; `None` if they are unknown.
fn way(fixup: Fixup, code: &Code<'_>, effects: &mut Effects) -> Option<Vec<Instruction>> {
    let mut instructions = Vec::new();
    let mut next = fixup.to;
    for _ in 0..LONGEST {
        let instruction = code.at(next)?;
        next = match code.flow(&instruction) {
            Flow::Next => {
                instructions.push(instruction);
                instruction.next_ip()
            }
            Flow::Jump(Target::Direct(target)) => target,
            Flow::Branch(Target::Direct(target)) => {
                match is_taken(&instruction, fixup, &instructions, effects)? {
                    true => target,
                    false => instruction.next_ip(),
                }
            }
            Flow::Return => return Some(instructions),
            _ => return None,
        };
    }
    None
}

/// Whether a branch after these instructions is taken, if it asks for the register that was set.
fn is_taken(
    branch: &Instruction,
    fixup: Fixup,
    before: &[Instruction],
    effects: &mut Effects,
) -> Option<bool> {
    let (register, value) = fixup.sets?;
    let compares = before.iter().rfind(|one| effect::writes_flags(one))?;
    let place = Place::Register(register);
    let mut keeps = |one: &Instruction| effects.of(one, None, place) == Effect::Keeps;
    if effect::compared(compares) != Some(register) || !before.iter().all(&mut keeps) {
        return None;
    }
    match branch.condition_code() {
        ConditionCode::e => Some(value == 0),
        ConditionCode::ne => Some(value != 0),
        ConditionCode::s => Some(value < 0),
        ConditionCode::ns => Some(value >= 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::symbols::Symbols;

    const AT: u64 = 0xffff_ffff_8100_0000;

    /// Where -14 is set after a fault at the first instruction. Its fixup is the next instruction,
    /// and has set %edx to -14. `branch`: its opcode; `first`: an instruction of 2 bytes.
    fn found(first: [u8; 2], branch: u8) -> Option<u64> {
        #[rustfmt::skip]
        let mut bytes = vec![
            0x8b, 0x07,                                // mov (%rdi),%eax
            first[0], first[1],
            0x85, 0xd2,                                // test %edx,%edx
            branch, 0x03,                              // to 0xb
            0x31, 0xc0, 0xc3,                          // xor %eax,%eax; ret
            0x48, 0xc7, 0xc0, 0xf2, 0xff, 0xff, 0xff,  // mov $-14,%rax
            0xc3, 0x90,                                // ret; nop
        ];
        // The entry of the first instruction: it leads to the next, and sets %edx.
        for word in [-20i32, -22, 17 | 2 << 8 | -14 << 16] {
            bytes.extend(word.to_le_bytes());
        }
        let symbols = Symbols::parse(
            "ffffffff81000000 T _stext\nffffffff81000000 T f\nffffffff81000014 T _etext\n\
             ffffffff81000014 R __start___ex_table\n\
             ffffffff81000020 R __stop___ex_table\n",
        );
        let mut memory = (AT, bytes);
        returns(AT, -14, &Code::new(&mut memory, &symbols, Vec::new))
    }

    #[test]
    fn a_branch_that_asks_for_what_was_set_is_followed() {
        const NOP: [u8; 2] = [0x66, 0x90];
        let (je, jne, js, jns, jo) = (0x74, 0x75, 0x78, 0x79, 0x70);
        assert_eq!(found(NOP, jne), Some(AT + 0xb));
        assert_eq!(found(NOP, js), Some(AT + 0xb));
        // On the other way the function returns another value.
        assert_eq!((found(NOP, je), found(NOP, jns)), (None, None));
        // Unknown in these cases: another condition, another value, a loop.
        assert_eq!(found(NOP, jo), None);
        assert_eq!(found([0x31, 0xd2], jne), None);
        assert_eq!(found([0xeb, 0xfe], jne), None);
    }
}
