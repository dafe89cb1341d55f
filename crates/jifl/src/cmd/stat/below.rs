// SPDX-License-Identifier: MIT OR Apache-2.0
//! What functions call directly.

use std::collections::HashMap;

use super::sheet::Row;
use super::source::Below;
use crate::cmd::probe::code::{Code, Parts};
use crate::kernel::functions::{Function, Functions};
use crate::kernel::memory::Memory;
use crate::kernel::symbols::Symbols;

/// For each row the functions that it calls directly, as words. It is looked up before a session
/// begins: breakpoints hide instructions then. `by_name`: the words are names, which may mean
/// several functions. Otherwise they are addresses. `memory`: the kernel's.
pub fn of(rows: &[Row], by_name: bool, memory: &mut dyn Memory) -> Below {
    let symbols = Symbols::of_kernel();
    let functions = Functions::of_kernel();
    let parts = Parts::of(&symbols);
    let mut all = HashMap::new();
    for row in rows {
        let function = functions.at(row.address);
        let code = function.and_then(|function| Code::of(function, &parts, &symbols, memory));
        let callees = code.map_or_else(Vec::new, |code| code.callees());
        let known = callees.into_iter().filter_map(|to| functions.at(to));
        let word = |one: &Function| match by_name {
            true => one.target(),
            false => format!("fn:{:#x}", one.address),
        };
        all.insert(row.target, known.map(word).collect());
    }
    all
}
