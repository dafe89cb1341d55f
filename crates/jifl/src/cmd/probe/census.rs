// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl probe --census`: how each instruction of a kernel can be probed, from its machine code.
//! The module is not asked, so functions that it refuses by name count as others do.

use std::ops::Range;

use iced_x86::{Instruction, Mnemonic};
use jifl_code::depth::instructions;
use jifl_code::flow;
use jifl_code::image::Image;
use jifl_code::program::{Function, Program};
use serde::Serialize;

use crate::base::exit::Failure;
use crate::kernel::pattern::Pattern;
use crate::show::table::table;
use crate::show::text::{grouped, percent};

/// How an instruction can be probed, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The function's door skips it, and counts it.
    Door,
    /// A counter in copies, and a breakpoint in the text.
    Counter,
    /// The kernel changes the instruction itself, or it is a warning's.
    Kernels,
    /// A breakpoint in the text, which each call meets: the function has no door.
    Breakpoint,
    /// noinstr and entry text.
    Forbidden,
}

/// A module's instructions, or those of all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    module: String,
    functions: u64,
    instructions: u64,
    by_door: u64,
    by_counter: u64,
    kernels_own: u64,
    by_breakpoint: u64,
    forbidden: u64,
}

/// All that is shown.
#[derive(Debug, Serialize)]
pub struct Census {
    command: &'static str,
    census: Vec<Row>,
}

/// Bytes of the place for tracers.
const SITE: usize = 5;

/// What a door skips of a function; empty: the function has no door.
fn door(program: &Program, function: &Function) -> Range<u64> {
    let entry = function.unit.entry();
    let bytes = program.image.bytes(entry).unwrap_or_default();
    let length = match program.is_compiled(function) {
        true => flow::endbr64(bytes) + SITE,
        false => 0,
    };
    entry..entry + length as u64
}

fn way(image: &Image, door: &Range<u64>, one: &Instruction) -> Way {
    let at = one.ip();
    let tables = &image.tables;
    if image.is_untouchable(at) {
        return Way::Forbidden;
    }
    if door.contains(&at) {
        return Way::Door;
    }
    let is_key = tables.keys.binary_search_by_key(&at, |(at, _)| *at).is_ok();
    let is_call = tables.static_calls.binary_search(&at).is_ok();
    match is_key || is_call || one.mnemonic() == Mnemonic::Ud2 {
        true => Way::Kernels,
        false if door.is_empty() => Way::Breakpoint,
        false => Way::Counter,
    }
}

impl Row {
    fn add(&mut self, way: Way) {
        self.instructions += 1;
        *match way {
            Way::Door => &mut self.by_door,
            Way::Counter => &mut self.by_counter,
            Way::Kernels => &mut self.kernels_own,
            Way::Breakpoint => &mut self.by_breakpoint,
            Way::Forbidden => &mut self.forbidden,
        } += 1;
    }

    fn add_function(&mut self, program: &Program, function: &Function) {
        let door = door(program, function);
        self.functions += 1;
        for block in &function.graph.blocks {
            for one in instructions(&program.image, block) {
                self.add(way(&program.image, &door, &one));
            }
        }
    }

    /// In the order in which they are shown.
    fn figures(&self) -> [u64; 7] {
        [
            self.functions,
            self.instructions,
            self.by_door,
            self.by_counter,
            self.kernels_own,
            self.by_breakpoint,
            self.forbidden,
        ]
    }

    fn add_row(&mut self, other: &Row) {
        self.functions += other.functions;
        self.instructions += other.instructions;
        self.by_door += other.by_door;
        self.by_counter += other.by_counter;
        self.kernels_own += other.kernels_own;
        self.by_breakpoint += other.by_breakpoint;
        self.forbidden += other.forbidden;
    }
}

/// Counts the instructions of the functions that a pattern means, or of all: a row for each module,
/// and one of all where there are several.
///
/// # Errors
/// The pattern means no function.
pub fn census(program: &Program, pattern: Option<&Pattern>) -> Result<Census, Failure> {
    let modules = &program.image.modules;
    let mut rows: Vec<Row> = modules
        .iter()
        .map(|name| Row {
            module: name.clone(),
            ..Row::default()
        })
        .collect();
    for function in &program.functions {
        let module = function.unit.module;
        let is_meant =
            |pattern: &Pattern| pattern.matches(&program.name(function), &modules[module]);
        if pattern.is_none_or(is_meant) {
            rows[module].add_function(program, function);
        }
    }
    rows.retain(|row| row.functions > 0);
    if rows.is_empty() {
        let word = pattern.map_or("", Pattern::word);
        return Err(Failure::usage(format!(
            "{word}: no such function in that kernel"
        )));
    }
    if rows.len() > 1 {
        let mut total = Row {
            module: "total".into(),
            ..Row::default()
        };
        rows.iter().for_each(|row| total.add_row(row));
        rows.push(total);
    }
    Ok(Census {
        command: "probe",
        census: rows,
    })
}

impl Census {
    /// For people.
    pub fn text(&self) -> String {
        let titles = [
            "MODULE",
            "FUNCTIONS",
            "INSNS",
            "DOOR",
            "COUNTER",
            "KERNEL'S",
            "BREAKPOINT",
            "FORBIDDEN",
            "CAN",
        ];
        let mut lines = vec![titles.map(str::to_owned).to_vec()];
        for row in &self.census {
            let can = row.by_door + row.by_counter + row.by_breakpoint;
            let mut line = vec![row.module.clone()];
            line.extend(row.figures().map(grouped));
            line.push(percent(can, row.instructions));
            lines.push(line);
        }
        table(&lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_told_apart() {
        let mut bytes = vec![
            0xf3, 0x0f, 0x1e, 0xfa, // endbr64
            0x0f, 0x1f, 0x44, 0, 0, // the place for tracers
            0x66, 0x90, // a static key
            0x90, 0x0f, 0x0b, // nop, ud2
        ];
        bytes.resize(0x10, 0xcc);
        // Assembly, and text that is forbidden.
        bytes.extend([0x90, 0xc3, 0xcc, 0xcc, 0x90, 0xc3]);
        let names = [(0x1000, "f"), (0x1010, "bare"), (0x1014, "entry")];
        let mut image = Image::of_text(0x1000, bytes, &names);
        image.tables.keys = vec![(0x1009, 0x100b)];
        image.tables.warnings = Some(Vec::new());
        image.tables.untouchable.push(0x1014..0x1016);
        let program = Program::of(image);
        let row = &census(&program, None).unwrap().census[0];
        assert_eq!(row.figures(), [3, 9, 2, 1, 2, 2, 2]);
        // Where the endbr64 is not needed the kernel has put a nop.
        let sealed = vec![0x66, 0x0f, 0x1f, 0x00, 0x0f, 0x1f, 0x44, 0, 0, 0xc3];
        let program = Program::of(Image::of_text(0x1000, sealed, &[(0x1000, "f")]));
        let row = &census(&program, None).unwrap().census[0];
        assert_eq!((row.by_door, row.by_counter, row.by_breakpoint), (2, 1, 0));
        let none = Pattern::parse("fn:g").unwrap();
        assert!(census(&program, Some(&none)).is_err());
    }
}
