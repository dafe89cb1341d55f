// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's instructions, each decoded once, and how they branch.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use iced_x86::Instruction;
use jifl_code::flow::{self, Flow, LONGEST, Thunks};
use jifl_code::image::Fixup;
use jifl_code::names;
use jifl_code::running::{self, Module};

use crate::kernel::memory::Memory;
use crate::kernel::symbols::Symbols;

/// The code, and the names in it.
pub struct Code<'a> {
    memory: RefCell<&'a mut dyn Memory>,
    /// Names of functions.
    pub symbols: &'a Symbols,
    modules: fn() -> Vec<Module>,
    thunks: Thunks,
    /// Read when they are first asked for.
    fixups: OnceCell<HashMap<u64, Fixup>>,
    decoded: RefCell<HashMap<u64, Option<Instruction>>>,
}

impl<'a> Code<'a> {
    /// The code in this memory. `modules`: those that are loaded.
    pub fn new(
        memory: &'a mut dyn Memory,
        symbols: &'a Symbols,
        modules: fn() -> Vec<Module>,
    ) -> Code<'a> {
        Code {
            memory: RefCell::new(memory),
            symbols,
            modules,
            thunks: symbols.thunks(),
            fixups: OnceCell::new(),
            decoded: RefCell::default(),
        }
    }

    /// The instruction at an address, if there is one.
    pub fn at(&self, address: u64) -> Option<Instruction> {
        if let Some(known) = self.decoded.borrow().get(&address) {
            return *known;
        }
        // Near the end of a mapping fewer bytes than the longest instruction may be readable.
        let mut memory = self.memory.borrow_mut();
        let bytes = (1..=LONGEST)
            .rev()
            .find_map(|length| memory.read(address, length));
        let found = bytes.and_then(|bytes| flow::decode(&bytes, address));
        self.decoded.borrow_mut().insert(address, found);
        found
    }

    /// The way on after an instruction. A thunk counts as what it does.
    pub fn flow(&self, instruction: &Instruction) -> Flow {
        self.thunks.flow(instruction)
    }

    /// The fixup in place of the instruction at an address. `None`: unknown, because the
    /// instruction has no entry, its module is gone, or the address of the module's table may not
    /// be read.
    pub fn fixup(&self, at: u64) -> Option<Fixup> {
        let all = self.fixups.get_or_init(|| {
            let mark = |name: &str| self.symbols.address(name);
            let mut memory = self.memory.borrow_mut();
            let all = running::fixups(&mark, &(self.modules)(), &mut **memory);
            // The first entry of an instruction counts.
            all.into_iter().rev().map(|one| (one.at, one)).collect()
        });
        all.get(&at).copied()
    }

    /// The beginning of the function that contains an address. Some calls lead to the padding
    /// before the function, where the kernel has put code (call depth tracking).
    pub fn function(&self, address: u64) -> u64 {
        let Some(place) = self.symbols.function(address) else {
            return address;
        };
        let behind = if names::is_padding(place.name()) {
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
        place.start() == function
            || place.module() == whole.module() && names::whole(place.name()) == Some(whole.name())
    }

    /// Whether the function that contains an address never returns.
    pub fn is_endless(&self, address: u64) -> bool {
        let place = self.symbols.function(self.function(address));
        place.is_some_and(|place| place.module().is_none() && names::is_endless(place.name()))
    }
}
