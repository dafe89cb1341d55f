// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one instruction reads and writes, of the general registers and the flags.

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess,
    OpKind, Register, RflagsBits,
};

use crate::flow::{self, number};
use crate::graph::Effect;

/// Registers in the mask of an [`Effect`].
pub const REGISTERS: u32 = 0xffff;
/// The bit of rsp.
pub const RSP: u32 = 1 << 4;
/// What a called function may overwrite (System V ABI, 3.2.1): rax, rcx, rdx, rsi, rdi, r8 to r11.
pub const CALLER_SAVED: u32 = 0b0000_1111_1100_0111;
/// The six flags that arithmetic sets, in the mask.
pub const FLAGS: u32 = 0x3f << 16;
/// All of the mask.
pub const ALL: u32 = REGISTERS | FLAGS;

const FLAG_BITS: [(u32, &str); 6] = [
    (RflagsBits::CF, "cf"),
    (RflagsBits::PF, "pf"),
    (RflagsBits::AF, "af"),
    (RflagsBits::ZF, "zf"),
    (RflagsBits::SF, "sf"),
    (RflagsBits::OF, "of"),
];

/// The names of the registers and flags of a mask.
pub fn names(mask: u32) -> Vec<&'static str> {
    let flags = FLAG_BITS.iter().map(|(_, name)| *name);
    let all = flow::REGISTERS.into_iter().chain(flags).enumerate();
    all.filter(|(bit, _)| mask & 1 << bit != 0)
        .map(|(_, name)| name)
        .collect()
}

/// Tells effects. It keeps memory for the next answer, and answers on registers that it has given.
pub struct Effects {
    factory: InstructionInfoFactory,
    /// By [`place`]: a [`name`], and what instructions of that name do to registers.
    known: Vec<(u64, Effect)>,
}

/// So many answers are kept; a power of two.
const KNOWN: usize = 2048;
/// No instruction has this name.
const NOBODY: u64 = u64::MAX;

impl Default for Effects {
    fn default() -> Effects {
        Effects {
            factory: InstructionInfoFactory::new(),
            known: vec![(NOBODY, Effect::default()); KNOWN],
        }
    }
}

/// What an instruction does to registers depends on this alone: its form and the registers that it
/// names. `None` where it may depend on more: on an immediate, a repetition, or registers that are
/// not named.
fn name(instruction: &Instruction) -> Option<u64> {
    let operands = instruction.op_count();
    let is_implied = |operand| {
        let kind = instruction.op_kind(operand);
        (OpKind::MemorySegSI..=OpKind::MemoryESRDI).contains(&kind)
    };
    let is_counted = is_shift(instruction) && instruction.op_kind(operands - 1) != OpKind::Register;
    if operands > 3
        || instruction.has_rep_prefix()
        || instruction.has_repne_prefix()
        || instruction.mnemonic() == Mnemonic::Enter
        || is_counted
        || (0..operands).any(is_implied)
    {
        return None;
    }
    let registers = [
        instruction.op0_register(),
        instruction.op1_register(),
        instruction.op2_register(),
        instruction.memory_base(),
        instruction.memory_index(),
    ];
    let code = instruction.code() as u64;
    let names = registers.into_iter();
    Some(names.fold(code, |name, register| name << 8 | register as u64))
}

/// What an instruction does to registers.
fn of_registers(factory: &mut InstructionInfoFactory, instruction: &Instruction) -> Effect {
    let info = factory.info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
    let mut effect = Effect::default();
    for used in info.used_registers() {
        let register = used.register();
        let Some(bit) = number(register).map(|number| 1 << number) else {
            continue;
        };
        let (reads, writes) = access(used.access());
        effect.uses |= if reads { bit } else { 0 };
        // A write of 8 or 16 bits keeps the rest.
        let is_whole = register.is_gpr64() || register.is_gpr32();
        effect.defines |= if writes && is_whole { bit } else { 0 };
    }
    effect
}

/// Where an answer is kept.
fn place(name: u64) -> usize {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 divided by the golden ratio
    (name.wrapping_mul(SPREAD) >> (u64::BITS - KNOWN.trailing_zeros())) as usize
}

impl Effects {
    /// The effect of one instruction. That of a call is of the instruction alone.
    pub fn of(&mut self, instruction: &Instruction) -> Effect {
        if asks_another(instruction) {
            return Effect {
                uses: ALL,
                defines: 0,
            };
        }
        let mut effect = self.of_registers(instruction);
        effect.uses |= flags(instruction.rflags_read());
        if !may_keep_flags(instruction) {
            effect.defines |= flags(instruction.rflags_modified());
        }
        effect
    }

    /// The part of an effect that is on registers.
    fn of_registers(&mut self, instruction: &Instruction) -> Effect {
        let name = name(instruction);
        if let Some(name) = name {
            let (kept, effect) = self.known[place(name)];
            if kept == name {
                return effect;
            }
        }
        let effect = of_registers(&mut self.factory, instruction);
        if let Some(name) = name {
            self.known[place(name)] = (name, effect);
        }
        effect
    }
}

impl Effects {
    /// The registers that an instruction may change, or change in part, and the flags.
    pub fn changes(&mut self, instruction: &Instruction) -> u32 {
        if asks_another(instruction) {
            return ALL & !RSP;
        }
        let used = self
            .factory
            .info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE)
            .used_registers();
        let changed = used.iter().filter(|used| may_write(used.access()));
        let registers = changed.filter_map(|used| number(used.register()));
        registers.fold(flags(instruction.rflags_modified()), |mask, register| {
            mask | 1 << register
        })
    }

    /// Whether an instruction may write its first operand.
    pub fn writes_first(&mut self, instruction: &Instruction) -> bool {
        let info = self
            .factory
            .info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
        may_write(info.op0_access())
    }
}

/// vmcall, vmmcall, vmrun, tdcall, int and others of their kind: the hypervisor, or the handler of
/// the interrupt, may use all registers and flags, and overwrite any. The decoder names none.
fn asks_another(instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::Call => !instruction.is_call_near() && !instruction.is_call_far(),
        FlowControl::Interrupt => true,
        _ => false,
    }
}

fn may_write(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// Whether it reads, and whether it surely writes.
fn access(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadCondWrite => (true, false),
        OpAccess::Write => (false, true),
        OpAccess::ReadWrite => (true, true),
        OpAccess::CondWrite | OpAccess::None | OpAccess::NoMemAccess => (false, false),
    }
}

/// The mask of a set of the decoder's bits.
const fn flags_of(bits: u32) -> u32 {
    let (mut mask, mut place) = (0, 0);
    while place < FLAG_BITS.len() {
        if bits & FLAG_BITS[place].0 != 0 {
            mask |= 1 << (16 + place);
        }
        place += 1;
    }
    mask
}

/// Of all sets of the six flags, which are the decoder's lowest bits. It is asked twice for each
/// instruction of a kernel.
const FLAG_SETS: [u32; 64] = {
    let (mut sets, mut bits) = ([0; 64], 0);
    while bits < sets.len() {
        sets[bits] = flags_of(bits as u32);
        bits += 1;
    }
    sets
};

fn flags(bits: u32) -> u32 {
    FLAG_SETS[(bits & 0x3f) as usize]
}

fn is_shift(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Shl
            | Mnemonic::Sal
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Rcl
            | Mnemonic::Rcr
            | Mnemonic::Shld
            | Mnemonic::Shrd
    )
}

/// A shift by 0 keeps the flags, and so does a repeated comparison of nothing (Intel SDM 2).
fn may_keep_flags(instruction: &Instruction) -> bool {
    let by = instruction.op_count().saturating_sub(1);
    let may_be_0 = || match instruction.op_kind(by) {
        OpKind::Register => instruction.op_register(by) == Register::CL,
        _ => instruction.immediate8() & 0x1f == 0,
    };
    is_shift(instruction) && may_be_0()
        || instruction.has_rep_prefix()
        || instruction.has_repne_prefix()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::decode;

    /// What was kept is what would be said anew: of random bytes, in which forms and registers come
    /// again with other immediates and displacements.
    #[test]
    fn answers_that_are_kept_are_right() {
        let (mut state, mut named) = (1_u64, 0);
        let (mut effects, mut factory) = (Effects::default(), InstructionInfoFactory::new());
        for _ in 0..200_000 {
            let mut bytes = [0; 15];
            for byte in &mut bytes {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *byte = (state >> 24) as u8;
            }
            // Few opcodes, few prefixes, few operands: most come again.
            let common = [
                0x89, 0x8b, 0xc1, 0xd3, 0x0f, 0xf3, 0x67, 0x01, 0x31, 0xa4, 0xc8, 0x6b,
            ];
            bytes[0] = if bytes[0] & 1 == 0 { 0x48 } else { bytes[0] };
            bytes[1] = common[usize::from(bytes[1]) % common.len()];
            bytes[2] &= 0xdb;
            let Some(instruction) = decode(&bytes, 0x1000) else {
                continue;
            };
            named += u32::from(name(&instruction).is_some());
            let anew = of_registers(&mut factory, &instruction);
            assert_eq!(effects.of_registers(&instruction), anew, "{bytes:02x?}");
        }
        assert!(named > 50_000, "{named}");
    }

    #[test]
    fn what_is_read_and_written() {
        let cases: [(&[u8], &[&str], &[&str]); 12] = [
            // mov %eax,%ecx
            (&[0x89, 0xc1], &["rax"], &["rcx"]),
            // mov %al,%cl: keeps the rest of rcx
            (&[0x88, 0xc1], &["rax"], &[]),
            // xor %eax,%eax reads nothing
            (
                &[0x31, 0xc0],
                &[],
                &["rax", "cf", "pf", "af", "zf", "sf", "of"],
            ),
            // cmove %rax,%rbx may keep all of rbx
            (&[0x48, 0x0f, 0x44, 0xd8], &["rax", "zf"], &[]),
            // inc %eax keeps CF
            (
                &[0xff, 0xc0],
                &["rax"],
                &["rax", "pf", "af", "zf", "sf", "of"],
            ),
            // shl %cl,%eax may keep the flags
            (&[0xd3, 0xe0], &["rax", "rcx"], &["rax"]),
            // shl $3,%eax
            (
                &[0xc1, 0xe0, 3],
                &["rax"],
                &["rax", "cf", "pf", "af", "zf", "sf", "of"],
            ),
            // rep movsb
            (&[0xf3, 0xa4], &["rcx", "rsi", "rdi"], &[]),
            // push %rbx
            (&[0x53], &["rbx", "rsp"], &["rsp"]),
            // mov 0x8(%rdi,%rsi),%rdx
            (&[0x48, 0x8b, 0x54, 0x37, 8], &["rsi", "rdi"], &["rdx"]),
            // adc $0,%rax
            (
                &[0x48, 0x83, 0xd0, 0],
                &["rax", "cf"],
                &["rax", "cf", "pf", "af", "zf", "sf", "of"],
            ),
            // cpuid
            (
                &[0x0f, 0xa2],
                &["rax", "rcx"],
                &["rax", "rcx", "rdx", "rbx"],
            ),
        ];
        let mut effects = Effects::default();
        for (bytes, uses, defines) in cases {
            let instruction = decode(bytes, 0x1000).unwrap();
            let effect = effects.of(&instruction);
            // What it surely overwrites it may change; more of it where it may keep a part.
            assert_eq!(effect.defines & !effects.changes(&instruction), 0);
            assert_eq!(names(effect.uses), uses, "{bytes:02x?}");
            if bytes != [0xf3, 0xa4] {
                assert_eq!(names(effect.defines), defines, "{bytes:02x?}");
            }
        }
    }

    #[test]
    fn what_may_change_is_more_than_what_is_overwritten() {
        let mut effects = Effects::default();
        let mut changes = |bytes: &[u8]| {
            let instruction = decode(bytes, 0x1000).unwrap();
            let mask = effects.changes(&instruction) & REGISTERS;
            (names(mask), effects.writes_first(&instruction))
        };
        // mov %al,%cl; cmove %rax,%rbx; rep movsb; mov %eax,(%rdi); cmp %eax,(%rdi); push %rbx
        assert_eq!(changes(&[0x88, 0xc1]), (vec!["rcx"], true));
        assert_eq!(changes(&[0x48, 0x0f, 0x44, 0xd8]), (vec!["rbx"], true));
        assert_eq!(changes(&[0xf3, 0xa4]).0, ["rcx", "rsi", "rdi"]);
        assert_eq!(changes(&[0x89, 0x07]), (vec![], true));
        assert_eq!(changes(&[0x39, 0x07]), (vec![], false));
        assert_eq!(changes(&[0x53]).0, ["rsp"]);
    }

    #[test]
    fn what_asks_another_uses_all_and_keeps_none() {
        let mut effects = Effects::default();
        // vmcall; vmmcall; tdcall; int $0x80
        for bytes in [
            &[0x0f, 0x01, 0xc1][..],
            &[0x0f, 0x01, 0xd9],
            &[0x66, 0x0f, 0x01, 0xcc],
            &[0xcd, 0x80],
        ] {
            let instruction = decode(bytes, 0x1000).unwrap();
            let effect = effects.of(&instruction);
            assert_eq!((effect.uses, effect.defines), (ALL, 0), "{bytes:02x?}");
            assert_eq!(effects.changes(&instruction), ALL & !RSP, "{bytes:02x?}");
        }
        let call = decode(&[0xe8, 0, 0, 0, 0], 0x1000).unwrap();
        assert_eq!(names(effects.of(&call).uses), ["rsp"]);
    }
}
