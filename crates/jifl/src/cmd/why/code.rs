// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's instructions, each decoded once, and how they branch.

use std::cell::RefCell;
use std::collections::HashMap;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use super::extable::Tables;
use crate::kernel::memory::Memory;
use crate::kernel::symbols::Symbols;

/// Length of the longest instruction.
const LONGEST: usize = 15;

/// The way on after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The next instruction.
    On,
    /// This address, on a condition.
    Branch(u64),
    /// This address.
    Jump(u64),
    /// An unknown address.
    JumpAnywhere,
    /// It calls this function, or an unknown one, and goes on with the next instruction.
    Call(Option<u64>),
    /// It returns.
    Return,
    /// None, or an exception.
    Stop,
}

/// The code, and the names in it.
pub struct Code<'a> {
    memory: RefCell<&'a mut dyn Memory>,
    /// Names of functions.
    pub symbols: &'a Symbols,
    /// Fixups of exceptions.
    pub tables: Tables,
    decoded: RefCell<HashMap<u64, Option<Instruction>>>,
}

impl<'a> Code<'a> {
    /// The code in this memory.
    pub fn new(memory: &'a mut dyn Memory, symbols: &'a Symbols) -> Code<'a> {
        Code {
            memory: RefCell::new(memory),
            symbols,
            tables: Tables::of("/"),
            decoded: RefCell::default(),
        }
    }

    /// Bytes of the code.
    pub fn read(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        self.memory.borrow_mut().read(address, length)
    }

    /// The instruction at an address, if there is one.
    pub fn at(&self, address: u64) -> Option<Instruction> {
        if let Some(known) = self.decoded.borrow().get(&address) {
            return *known;
        }
        // Near the end of a mapping fewer bytes than the longest instruction may be readable.
        let bytes = (1..=LONGEST)
            .rev()
            .find_map(|length| self.read(address, length));
        let decode = |bytes: Vec<u8>| {
            let mut decoder = Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE);
            Some(decoder.decode()).filter(|found| !found.is_invalid())
        };
        let found = bytes.and_then(decode);
        self.decoded.borrow_mut().insert(address, found);
        found
    }

    /// The way on after an instruction. A thunk counts as what it does.
    pub fn flow(&self, instruction: &Instruction) -> Flow {
        let direct = (instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64)
            .then(|| instruction.near_branch_target());
        match instruction.flow_control() {
            FlowControl::Next => Flow::On,
            FlowControl::ConditionalBranch => direct.map_or(Flow::Stop, Flow::Branch),
            FlowControl::UnconditionalBranch => match direct {
                Some(to) if self.is_return_thunk(to) => Flow::Return,
                Some(to) if self.is_indirect_thunk(to) => Flow::JumpAnywhere,
                Some(to) => Flow::Jump(to),
                None => Flow::JumpAnywhere,
            },
            FlowControl::IndirectBranch => Flow::JumpAnywhere,
            FlowControl::Call => Flow::Call(direct.filter(|to| !self.is_indirect_thunk(*to))),
            FlowControl::IndirectCall => Flow::Call(None),
            FlowControl::Return => Flow::Return,
            _ => Flow::Stop,
        }
    }

    fn has_name(&self, address: u64, is: impl Fn(&str) -> bool) -> bool {
        let place = self.symbols.function(self.function(address));
        place.is_some_and(|place| is(place.function()))
    }

    /// `__x86_return_thunk`, `srso_return_thunk`, `retbleed_return_thunk`, `zen_untrain_ret`, and others.
    fn is_return_thunk(&self, address: u64) -> bool {
        self.has_name(address, |name| {
            name.ends_with("return_thunk") || name.ends_with("_untrain_ret") || name == "__ret"
        })
    }

    fn is_indirect_thunk(&self, address: u64) -> bool {
        self.has_name(address, |name| name.starts_with("__x86_indirect"))
    }

    /// The beginning of the function that contains an address. Some calls lead to the padding
    /// before the function, where the kernel has put code (call depth tracking).
    pub fn function(&self, address: u64) -> u64 {
        let Some(place) = self.symbols.function(address) else {
            return address;
        };
        let behind = if place.function().starts_with("__pfx_") {
            self.symbols.end(address)
        } else {
            None
        };
        behind.unwrap_or(place.start())
    }

    /// True if an address belongs to the function that begins at another, or to its cold part.
    pub fn is_of(&self, function: u64, address: u64) -> bool {
        let place = self.symbols.function(self.function(address));
        let whole = self.symbols.function(function);
        let (Some(place), Some(whole)) = (place, whole) else {
            return false;
        };
        let (name, label) = split(place.function());
        let (whole_name, whole_label) = split(whole.function());
        place.start() == function
            || label == whole_label
                && name
                    .strip_prefix(whole_name)
                    .is_some_and(|rest| rest == ".cold" || rest.starts_with(".cold."))
    }
}

/// The name, and `[module]` or nothing.
fn split(function: &str) -> (&str, &str) {
    function.split_once(' ').unwrap_or((function, ""))
}
