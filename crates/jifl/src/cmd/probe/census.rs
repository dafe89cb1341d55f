// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl probe --census`: how each instruction of a kernel can be probed, from its machine code.
//! The module is not asked, so functions that it refuses by name count as others do.

use std::ops::Range;

use iced_x86::{FlowControl, Instruction, Mnemonic};
use jifl_code::depth::instructions;
use jifl_code::flow::{self, Target};
use jifl_code::graph::{Call, CallKind, Edge, EdgeKind};
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
    /// The same; the function has no place for tracers, but room for a jump at its beginning.
    Jump,
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
    by_jump: u64,
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

/// Bytes of the jump.
const JUMP: u64 = 5;

/// Could the module put a jump over the function's first instructions (host/kernel/text/jump.c)?
/// As far as the file says: the kernel has not patched itself yet, and nobody has a probe there.
fn has_room(program: &Program, function: &Function) -> bool {
    let image = &program.image;
    let entry = function.unit.entry();
    let bytes = image.bytes(entry).unwrap_or_default();
    let begin = entry + flow::endbr64(bytes) as u64;
    let blocks = &function.graph.blocks;
    // The jump takes whole instructions, all of one block: no branch leads between them.
    let Some(block) = blocks
        .iter()
        .find(|block| (block.start..block.behind()).contains(&begin))
    else {
        return false;
    };
    let first = instructions(image, block).filter(|one| one.ip() >= begin);
    let mut end = begin;
    for one in first {
        if end >= begin + JUMP {
            break;
        }
        if one.ip() != end || !can_move(image, &one) {
            return false;
        }
        end = one.next_ip();
    }
    // Nobody knows where an indirect jump leads.
    let is_tabled = |edge: &Edge| edge.kind == EdgeKind::Table;
    let is_indirect =
        |call: &Call| call.kind == CallKind::Tail && !matches!(call.target, Target::Direct(_));
    let graph = &function.graph;
    end >= begin + JUMP
        && !graph.edges.iter().any(is_tabled)
        && !graph.calls.iter().any(is_indirect)
}

/// Can the instruction be executed elsewhere, and does only the instruction before lead to it?
fn can_move(image: &Image, one: &Instruction) -> bool {
    let at = one.ip();
    let tables = &image.tables;
    let is_patched = tables.keys.binary_search_by_key(&at, |(at, _)| *at).is_ok()
        || tables.static_calls.binary_search(&at).is_ok();
    one.flow_control() == FlowControl::Next
        && !one.has_lock_prefix()
        && !is_patched
        && image.fixup(at).is_none()
}

fn way(image: &Image, door: &Range<u64>, one: &Instruction, has_room: bool) -> Way {
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
        false if door.is_empty() && has_room => Way::Jump,
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
            Way::Jump => &mut self.by_jump,
            Way::Kernels => &mut self.kernels_own,
            Way::Breakpoint => &mut self.by_breakpoint,
            Way::Forbidden => &mut self.forbidden,
        } += 1;
    }

    fn add_function(&mut self, program: &Program, function: &Function) {
        let door = door(program, function);
        let has_room = door.is_empty() && has_room(program, function);
        self.functions += 1;
        for block in &function.graph.blocks {
            for one in instructions(&program.image, block) {
                self.add(way(&program.image, &door, &one, has_room));
            }
        }
    }

    /// In the order in which they are shown.
    fn figures(&self) -> [u64; 8] {
        [
            self.functions,
            self.instructions,
            self.by_door,
            self.by_counter,
            self.by_jump,
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
        self.by_jump += other.by_jump;
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
            "JUMP",
            "KERNEL'S",
            "BREAKPOINT",
            "FORBIDDEN",
            "CAN",
        ];
        let mut lines = vec![titles.map(str::to_owned).to_vec()];
        for row in &self.census {
            let can = row.by_door + row.by_counter + row.by_jump + row.by_breakpoint;
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
    use jifl_code::image::Fixup;

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
        assert_eq!(row.figures(), [3, 9, 2, 1, 0, 2, 2, 2]);
        // Where the endbr64 is not needed the kernel has put a nop.
        let sealed = vec![0x66, 0x0f, 0x1f, 0x00, 0x0f, 0x1f, 0x44, 0, 0, 0xc3];
        let program = Program::of(Image::of_text(0x1000, sealed, &[(0x1000, "f")]));
        let row = &census(&program, None).unwrap().census[0];
        assert_eq!((row.by_door, row.by_counter, row.by_breakpoint), (2, 1, 0));
        // Two instructions of five bytes, and a return; the same with a branch to the second.
        let straight = [0x31, 0xc0, 0x48, 0x01, 0xf8, 0xc3];
        let looped = [
            0x31, 0xc0, 0x48, 0x01, 0xf8, 0x48, 0xff, 0xcf, 0x75, 0xf8, 0xc3,
        ];
        let mut bytes = straight.to_vec();
        bytes.resize(0x10, 0xcc);
        bytes.extend(looped);
        let names = [(0x1000, "straight"), (0x1010, "looped")];
        let mut image = Image::of_text(0x1000, bytes, &names);
        let row = &census(&Program::of(image.clone()), None).unwrap().census[0];
        assert_eq!((row.by_jump, row.by_breakpoint), (3, 5));
        // The second instruction may fault, and goes on elsewhere.
        image.tables.fixups = vec![Fixup::new(0x1002, 0x1005)];
        let row = &census(&Program::of(image), None).unwrap().census[0];
        assert_eq!((row.by_jump, row.by_breakpoint), (0, 8));
        let none = Pattern::parse("fn:g").unwrap();
        assert!(census(&program, Some(&none)).is_err());
    }
}
