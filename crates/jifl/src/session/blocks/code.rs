// SPDX-License-Identifier: MIT OR Apache-2.0
//! The instructions of a counted block.

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, OpKind};
use jifl_code::flow;
use jifl_sys::abi::Count;

use crate::kernel::memory::Memory;

/// The instructions of a block.
pub struct Code {
    /// Instructions in the block itself.
    pub instructions: Vec<Instruction>,
    /// Number of further instructions, in a thunk to which its branch leads.
    pub in_thunk: u64,
}

/// Decodes a block; `None` if its bytes cannot be had any more: they have changed, or are gone with
/// their module.
pub fn decode(block: &Count, memory: &mut impl Memory) -> Option<Code> {
    let bytes = memory.read(block.orig, block.src_len as usize)?;
    if hash(&bytes) != block.hash {
        return None;
    }
    let instructions: Vec<_> = flow::instructions(&bytes, block.orig).collect();
    let all = u64::from(block.insns);
    Some(Code {
        in_thunk: all.checked_sub(instructions.len() as u64)?,
        instructions: Some(instructions).filter(|all| !all.iter().any(Instruction::is_invalid))?,
    })
}

/// FNV-1a, as in the module.
pub fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// `lock cmpxchg`, `rep movsq`, `mov`.
pub fn mnemonic(instruction: &Instruction) -> String {
    let prefix = if instruction.has_lock_prefix() {
        "lock "
    } else if !instruction.is_string_instruction() {
        ""
    } else if instruction.has_repne_prefix() {
        "repne "
    } else if instruction.has_rep_prefix() {
        "rep "
    } else {
        ""
    };
    let name = format!("{:?}", instruction.mnemonic());
    format!("{prefix}{}", name.to_lowercase())
}

/// The memory operands that an instruction reads, and those that it writes, without implicit
/// accesses of the stack.
pub fn accesses(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> (u64, u64) {
    let info = factory.info(instruction);
    let in_memory = |operand: &u32| is_memory(instruction.op_kind(*operand));
    let operands = (0..instruction.op_count()).filter(in_memory);
    operands.fold((0, 0), |(reads, writes), operand| {
        let (read, written) = directions(info.op_access(operand));
        (reads + u64::from(read), writes + u64::from(written))
    })
}

fn is_memory(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Memory
            | OpKind::MemorySegSI
            | OpKind::MemorySegESI
            | OpKind::MemorySegRSI
            | OpKind::MemorySegDI
            | OpKind::MemorySegEDI
            | OpKind::MemorySegRDI
            | OpKind::MemoryESDI
            | OpKind::MemoryESEDI
            | OpKind::MemoryESRDI
    )
}

/// Whether it reads, whether it writes. A conditional access (of a rep prefix, for example) counts.
fn directions(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        _ => (false, false),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{AT, block};
    use super::*;

    fn counted(bytes: &[u8], insns: u32) -> Count {
        Count {
            hash: hash(bytes),
            ..block(0, bytes.len() as u32, insns, 1)
        }
    }

    /// Mnemonic, reads, writes of one instruction.
    fn of(bytes: &[u8]) -> (String, u64, u64) {
        let code = decode(&counted(bytes, 1), &mut (AT, bytes.to_vec())).unwrap();
        assert_eq!((code.instructions.len(), code.in_thunk), (1, 0));
        let mut factory = InstructionInfoFactory::new();
        let (reads, writes) = accesses(&code.instructions[0], &mut factory);
        (mnemonic(&code.instructions[0]), reads, writes)
    }

    #[test]
    fn operands_in_memory_are_counted() {
        let cases: [(&[u8], &str, u64, u64); 14] = [
            (&[0x48, 0x8b, 0x07], "mov", 1, 0),
            (&[0x48, 0x89, 0x07], "mov", 0, 1),
            (&[0x48, 0x01, 0x07], "add", 1, 1),
            (&[0x48, 0x39, 0x07], "cmp", 1, 0),
            (&[0x48, 0x8d, 0x07], "lea", 0, 0),
            (&[0x0f, 0x1f, 0x00], "nop", 0, 0),
            (&[0x53], "push", 0, 0),
            (&[0xff, 0x37], "push", 1, 0),
            (&[0xc3], "ret", 0, 0),
            (&[0xff, 0x17], "call", 1, 0),
            (&[0xf0, 0x48, 0x0f, 0xb1, 0x0f], "lock cmpxchg", 1, 1),
            (&[0xf3, 0x48, 0xa5], "rep movsq", 1, 1),
            (&[0xf3, 0xaa], "rep stosb", 0, 1),
            (&[0xa6], "cmpsb", 2, 0),
        ];
        for (bytes, name, reads, writes) in cases {
            assert_eq!(of(bytes), (name.to_owned(), reads, writes));
        }
    }

    #[test]
    fn thunks_are_what_a_block_has_more() {
        let bytes = vec![0x90, 0xe8, 0, 0, 0, 0];
        let code = decode(&counted(&bytes, 5), &mut (AT, bytes)).unwrap();
        assert_eq!((code.instructions.len(), code.in_thunk), (2, 3));
    }

    #[test]
    fn other_bytes_are_not_taken_for_it() {
        let block = counted(&[0x90, 0xc3], 2);
        assert!(decode(&block, &mut (AT, vec![0x90, 0xcc])).is_none());
        assert!(decode(&block, &mut (AT + 1, vec![0x90, 0xc3])).is_none());
        assert!(decode(&block, &mut (AT, vec![0x90, 0xc3])).is_some());
        let longer = counted(&[0x90, 0xc3], 1);
        assert!(decode(&longer, &mut (AT, vec![0x90, 0xc3])).is_none());
        let invalid = counted(&[0x06], 1);
        assert!(decode(&invalid, &mut (AT, vec![0x06])).is_none());
    }

    #[test]
    fn the_hash_is_fnv() {
        assert_eq!(hash(b""), 0x811c_9dc5);
        assert_eq!(hash(b"foobar"), 0xbf9c_f968);
    }
}
