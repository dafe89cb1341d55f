// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machine code as text, in the syntax of the GNU tools, with names for addresses.

use std::cell::RefCell;
use std::rc::Rc;

use iced_x86::{
    Formatter, GasFormatter, Instruction, Mnemonic, OpKind, Register, SymbolResolver, SymbolResult,
};
pub use jifl_code::flow::direct as direct_target;

use crate::kernel::symbols::Symbols;

/// Names that the formatter asks for.
struct Names {
    symbols: Rc<Symbols>,
    /// The label of the branch that is being formatted.
    label: Rc<RefCell<Option<String>>>,
}

impl SymbolResolver for Names {
    fn symbol(
        &mut self,
        instruction: &Instruction,
        _operand: u32,
        operand: Option<u32>,
        address: u64,
        _size: u32,
    ) -> Option<SymbolResult<'_>> {
        let name = match instruction.op_kind(operand?) {
            OpKind::NearBranch64 => self.label.borrow().clone()?,
            OpKind::Memory if has_address(instruction) => self.symbols.variable(address)?.shown(),
            _ => return None,
        };
        Some(SymbolResult::with_string(address, name))
    }
}

/// The operand in memory has an address of its own.
fn has_address(instruction: &Instruction) -> bool {
    instruction.is_ip_rel_memory_operand()
        || instruction.memory_base() == Register::None
            && instruction.memory_index() == Register::None
}

/// The disassembler.
pub struct Disassembler {
    formatter: GasFormatter,
    symbols: Rc<Symbols>,
    label: Rc<RefCell<Option<String>>>,
}

impl Disassembler {
    /// A disassembler with these names.
    pub fn new(symbols: Rc<Symbols>) -> Disassembler {
        let label = Rc::new(RefCell::new(None));
        let names = Names {
            symbols: symbols.clone(),
            label: label.clone(),
        };
        let mut formatter = GasFormatter::with_options(Some(Box::new(names)), None);
        let options = formatter.options_mut();
        options.set_uppercase_hex(false);
        options.set_branch_leading_zeros(false);
        options.set_small_hex_numbers_in_decimal(false);
        options.set_space_after_operand_separator(false);
        Disassembler {
            formatter,
            symbols,
            label,
        }
    }

    /// The text of an instruction; `label` names the target if it branches to an address.
    pub fn text(&mut self, instruction: &Instruction, label: Option<String>) -> String {
        if instruction.is_invalid() {
            return "(bad)".into();
        }
        *self.label.borrow_mut() = label;
        let mut text = String::new();
        self.formatter.format(instruction, &mut text);
        text
    }

    /// The name of the function at an address, or the address.
    pub fn name(&self, address: u64) -> String {
        match self.symbols.function(address) {
            Some(place) => place.shown(),
            None => format!("{address:#x}"),
        }
    }
}

/// True if it accesses a CPU's own memory.
fn is_in_gs(instruction: &Instruction) -> bool {
    let memory = (0..instruction.op_count()).any(|op| instruction.op_kind(op) == OpKind::Memory);
    memory && instruction.segment_prefix() == Register::GS
}

/// True if it accesses a CPU's own cell, as counters do.
pub fn is_per_cpu(instruction: &Instruction) -> bool {
    is_in_gs(instruction) && has_address(instruction)
}

/// True if it accesses one of several cells, as histograms do.
pub fn is_bucket(instruction: &Instruction) -> bool {
    is_in_gs(instruction)
        && instruction.memory_base() == Register::None
        && instruction.memory_index() != Register::None
}

/// True if it adds a number to memory at a fixed address.
pub fn is_counter(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Add
        && instruction.op0_kind() == OpKind::Memory
        && has_address(instruction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_names(code: &[u8]) -> String {
        let symbols = Symbols::parse(
            "ffffffff81000000 T start\nffffffff81002000 T callee\n\
             ffffffff82000000 d count\t[icount]\n34020 d jifl_cpu\t[jifl]\n",
        );
        let mut disassembler = Disassembler::new(Rc::new(symbols));
        let all = jifl_code::flow::instructions(code, 0xffff_ffff_8100_0000);
        let instruction = all.into_iter().next().unwrap();
        let label = direct_target(&instruction).map(|target| disassembler.name(target));
        disassembler.text(&instruction, label)
    }

    #[test]
    fn the_syntax_is_that_of_objdump() {
        for (code, text) in [
            (&[0x55][..], "push %rbp"),
            (&[0x48, 0x89, 0xe5], "mov %rsp,%rbp"),
            (&[0x48, 0x83, 0xec, 0x18], "sub $0x18,%rsp"),
            (&[0xe8, 0xfb, 0x1f, 0, 0], "call callee"),
            (&[0xeb, 0x02], "jmp start+0x4"),
            (
                &[0x65, 0x48, 0x83, 0x04, 0x25, 0x20, 0x40, 0x03, 0x00, 0x06],
                "addq $0x6,%gs:jifl_cpu [jifl]",
            ),
            (
                &[0xf0, 0x48, 0x83, 0x04, 0x25, 0x00, 0x00, 0x00, 0x82, 0x05],
                "lock addq $0x5,count [icount]",
            ),
            (&[0x06], "(bad)"),
        ] {
            assert_eq!(with_names(code), text);
        }
    }
}
