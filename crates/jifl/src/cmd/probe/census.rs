// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl probe --census`: how each instruction of a kernel can be probed, from its machine code
//! and the names of its functions. The module is not asked.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

use iced_x86::{FlowControl, Instruction};
use jifl_code::depth::instructions;
use jifl_code::flow::{self, Target};
use jifl_code::graph::{Call, CallKind, Edge, EdgeKind, Graph};
use jifl_code::image::{Image, NAME};
use jifl_code::program::{Function, Program};
use jifl_sys::abi::{REFUSALS, REFUSED_OWN};
use serde::Serialize;

use super::leads::{is_kernels, leads};
use super::optprobe::Optprobes;
use super::refused;
use crate::base::exit::Failure;
use crate::kernel::functions::OWN;
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
    /// The same; the function has no place for tracers, but room for a jump at its beginning.
    Jump,
    /// The kernel changes the instruction itself, or it is a warning's. What leads there is counted.
    Leads,
    /// The kernel's, too, and not all that leads there can be counted.
    Kernels,
    /// A breakpoint in the text, which each call meets: the function has no door.
    Breakpoint,
    /// noinstr and entry text, and the kernel's list of functions that have no kprobes.
    Forbidden,
    /// The module refuses the function by its name: why.
    Refused(&'static str),
}

/// A module's instructions, a function's, or those of all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    module: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    functions: u64,
    instructions: u64,
    by_door: u64,
    by_counter: u64,
    by_jump: u64,
    by_leads: u64,
    kernels_own: u64,
    by_breakpoint: u64,
    forbidden: u64,
    refused: u64,
    /// `refused`, by the reason.
    refused_by: BTreeMap<&'static str, u64>,
    /// An optimised kprobe could stand there.
    optprobe: u64,
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

/// What the ways of a function's instructions depend on.
struct Ways<'a> {
    image: &'a Image,
    graph: &'a Graph,
    door: Range<u64>,
    /// Without a door: a jump fits over the first instructions.
    has_room: bool,
    /// The kernel has the function on its list of those without kprobes.
    is_listed: bool,
    /// Why the function is refused.
    refused: Option<&'static str>,
    /// The same but for its entry.
    inside: Option<&'static str>,
}

impl Ways<'_> {
    fn of<'a>(program: &'a Program, function: &'a Function, listed: &[Range<u64>]) -> Ways<'a> {
        let door = door(program, function);
        let name = program.name(function);
        let entry = function.unit.entry();
        Ways {
            image: &program.image,
            graph: &function.graph,
            has_room: door.is_empty() && has_room(program, function),
            door,
            is_listed: listed.iter().any(|range| range.contains(&entry)),
            refused: match program.image.modules[function.unit.module].as_str() {
                OWN => Some(REFUSALS[REFUSED_OWN as usize]),
                _ => refused::function(&name),
            },
            inside: refused::places(&name),
        }
    }

    /// May a kprobe stand there, and not at the call of the tracer?
    fn takes_kprobes(&self, one: &Instruction) -> bool {
        let is_forbidden = self.is_listed || self.image.is_untouchable(one.ip());
        !is_forbidden && !self.door.contains(&one.ip()) && !is_kernels(self.image, one)
    }

    fn way(&self, one: &Instruction) -> Way {
        if self.is_listed || self.image.is_untouchable(one.ip()) {
            return Way::Forbidden;
        }
        if let Some(why) = self.refused {
            return Way::Refused(why);
        }
        if self.door.contains(&one.ip()) {
            return Way::Door;
        }
        if let Some(why) = self.inside {
            return Way::Refused(why);
        }
        let is_kernels = is_kernels(self.image, one);
        if is_kernels && leads(self.image, self.graph, one.ip()).is_none() {
            return Way::Kernels;
        }
        match (self.door.is_empty(), self.has_room) {
            (true, false) => Way::Breakpoint,
            _ if is_kernels => Way::Leads,
            (true, true) => Way::Jump,
            (false, _) => Way::Counter,
        }
    }
}

/// Functions that have no kprobes, as the running kernel lists them (`0x1000-0x1010 name`). Empty
/// where it does not.
pub fn listed() -> Vec<Range<u64>> {
    let list = fs::read_to_string("/sys/kernel/debug/kprobes/blacklist");
    ranges(&list.unwrap_or_default())
}

fn ranges(list: &str) -> Vec<Range<u64>> {
    let address = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let range = |line: &str| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        Some(address(start)?..address(end)?)
    };
    list.lines().filter_map(range).collect()
}

impl Row {
    fn add(&mut self, way: Way) {
        self.instructions += 1;
        *match way {
            Way::Door => &mut self.by_door,
            Way::Counter => &mut self.by_counter,
            Way::Jump => &mut self.by_jump,
            Way::Leads => &mut self.by_leads,
            Way::Kernels => &mut self.kernels_own,
            Way::Breakpoint => &mut self.by_breakpoint,
            Way::Forbidden => &mut self.forbidden,
            Way::Refused(why) => {
                *self.refused_by.entry(why).or_default() += 1;
                &mut self.refused
            }
        } += 1;
    }

    fn add_function(&mut self, ways: &Ways<'_>, function: &Function, others: &mut Optprobes<'_>) {
        self.functions += 1;
        for block in &function.graph.blocks {
            for one in instructions(ways.image, block) {
                self.add(ways.way(&one));
                let can = ways.takes_kprobes(&one) && others.can(one.ip());
                self.optprobe += u64::from(can);
            }
        }
    }

    /// In the order in which they are shown.
    fn figures(&self) -> [u64; 10] {
        [
            self.functions,
            self.instructions,
            self.by_door,
            self.by_counter,
            self.by_jump,
            self.by_leads,
            self.kernels_own,
            self.by_breakpoint,
            self.forbidden,
            self.refused,
        ]
    }

    fn add_row(&mut self, other: &Row) {
        self.functions += other.functions;
        self.instructions += other.instructions;
        self.by_door += other.by_door;
        self.by_counter += other.by_counter;
        self.by_jump += other.by_jump;
        self.by_leads += other.by_leads;
        self.kernels_own += other.kernels_own;
        self.by_breakpoint += other.by_breakpoint;
        self.forbidden += other.forbidden;
        self.refused += other.refused;
        for (why, number) in &other.refused_by {
            *self.refused_by.entry(why).or_default() += number;
        }
        self.optprobe += other.optprobe;
    }
}

/// Counts the instructions of the functions that patterns mean, or of all: a row for each module,
/// or with `each` for each function, and one of all where there are several. `listed`: functions
/// that have no kprobes; `None`: it is a file that no kernel has patched.
///
/// # Errors
/// A pattern means no function.
pub fn census(
    program: &Program,
    patterns: &[Pattern],
    each: bool,
    listed: Option<&[Range<u64>]>,
) -> Result<Census, Failure> {
    let mut others = Optprobes::of(&program.image, listed.is_some());
    let listed = listed.unwrap_or_default();
    let modules = &program.image.modules;
    let row = |module: &String| Row {
        module: module.clone(),
        ..Row::default()
    };
    let mut rows: Vec<Row> = Vec::new();
    if !each {
        rows.extend(modules.iter().map(row));
    }
    let mut is_used = vec![false; patterns.len()];
    for function in &program.functions {
        let module = function.unit.module;
        let name = program.name(function);
        let mut is_meant = patterns.is_empty();
        for (pattern, is_used) in patterns.iter().zip(&mut is_used) {
            let matches = pattern.matches(&name, &modules[module]);
            is_meant |= matches;
            *is_used |= matches;
        }
        if !is_meant {
            continue;
        }
        let ways = Ways::of(program, function, listed);
        let at = match each {
            true => {
                rows.push(row(&modules[module]));
                rows.len() - 1
            }
            false => module,
        };
        rows[at].function = each.then(|| name.into_owned());
        rows[at].add_function(&ways, function, &mut others);
    }
    rows.retain(|row| row.functions > 0);
    let unused = patterns
        .iter()
        .zip(&is_used)
        .find(|(_, is_used)| !**is_used);
    if unused.is_some() || rows.is_empty() {
        let word = unused.map_or("fn:*", |(pattern, _)| pattern.word());
        return Err(Failure::usage(format!(
            "{word}: no such function in that kernel"
        )));
    }
    if rows.len() > 1 {
        let mut total = row(&"total".into());
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
        let each = self.census.iter().any(|row| row.function.is_some());
        let titles = [
            if each { "FUNCTION" } else { "MODULE" },
            "FUNCTIONS",
            "INSNS",
            "DOOR",
            "COUNTER",
            "JUMP",
            "LEADS",
            "KERNEL'S",
            "BREAKPOINT",
            "FORBIDDEN",
            "REFUSED",
            "CAN",
            "OPTPROBE",
        ];
        let mut lines = vec![titles.map(str::to_owned).to_vec()];
        for row in &self.census {
            let can = row.by_door + row.by_counter + row.by_jump + row.by_leads + row.by_breakpoint;
            let name = match (&row.function, row.module.as_str()) {
                (None, module) => module.to_owned(),
                (Some(function), NAME) => function.clone(),
                (Some(function), module) => format!("{function}@{module}"),
            };
            let mut line = vec![name];
            line.extend(row.figures().map(grouped));
            line.push(percent(can, row.instructions));
            line.push(percent(row.optprobe, row.instructions));
            lines.push(line);
        }
        let mut text = table(&lines);
        // The last row has all.
        let reasons = self.census.last().map(|row| &row.refused_by);
        for (why, number) in reasons.into_iter().flatten() {
            text += &format!("# refused: {why} ({})\n", grouped(*number));
        }
        text
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
        let row = &census(&program, &[], false, None).unwrap().census[0];
        assert_eq!(row.figures(), [3, 9, 2, 1, 0, 2, 0, 2, 2, 0]);
        // Where the endbr64 is not needed the kernel has put a nop.
        let sealed = vec![0x66, 0x0f, 0x1f, 0x00, 0x0f, 0x1f, 0x44, 0, 0, 0xc3];
        let program = Program::of(Image::of_text(0x1000, sealed, &[(0x1000, "f")]));
        let row = &census(&program, &[], false, None).unwrap().census[0];
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
        let row = &census(&Program::of(image.clone()), &[], false, None)
            .unwrap()
            .census[0];
        assert_eq!((row.by_jump, row.by_breakpoint), (3, 5));
        // The second instruction may fault, and goes on elsewhere.
        image.tables.fixups = vec![Fixup::new(0x1002, 0x1005)];
        let row = &census(&Program::of(image), &[], false, None)
            .unwrap()
            .census[0];
        assert_eq!((row.by_jump, row.by_breakpoint), (0, 8));
        let none = Pattern::parse("fn:g").unwrap();
        assert!(census(&program, &[none], false, None).is_err());
    }
    #[test]
    fn what_is_refused_has_its_reason() {
        // Of each function a place for tracers, two instructions of five bytes, a return, int3s.
        let mut bytes = Vec::new();
        let names = ["__schedule", "kallsyms_lookup", "listed", "f"];
        for _ in names {
            bytes.extend([0x0f, 0x1f, 0x44, 0, 0, 0x31, 0xc0, 0x48, 0x01, 0xf8, 0xc3]);
            bytes.resize(bytes.len().next_multiple_of(16), 0xcc);
        }
        let names: Vec<(u64, &str)> = (0x1000..).step_by(16).zip(names).collect();
        let program = Program::of(Image::of_text(0x1000, bytes, &names));
        let listed = ranges("0x0000000000001020-0x000000000000102b\tlisted\nx-y\tz\n\n");
        let census = census(&program, &[], false, Some(&listed)).unwrap();
        let row = &census.census[0];
        // Of the second the door counts, and the other three are refused.
        assert_eq!(row.figures(), [4, 16, 2, 3, 0, 0, 0, 0, 4, 7]);
        let reasons: Vec<u64> = row.refused_by.values().copied().collect();
        assert_eq!(reasons, [3, 4]);
        // The kernel has a jump at the first of the two, but not in the function that it lists.
        assert_eq!(row.optprobe, 3);
        let text = census.text();
        let note = "# refused: it switches tasks or stacks (4)\n";
        assert!(text.ends_with(note), "{text}");
        let words = ["fn:f", "fn:kallsyms_*"];
        let patterns: Vec<Pattern> = words
            .iter()
            .filter_map(|word| Pattern::parse(word))
            .collect();
        let census = super::census(&program, &patterns, true, None).unwrap();
        let rows = census.census.iter();
        let rows: Vec<_> = rows
            .map(|row| (row.function.as_deref(), row.by_counter))
            .collect();
        assert_eq!(
            rows,
            [(Some("kallsyms_lookup"), 0), (Some("f"), 3), (None, 3)]
        );
        let text = census.text();
        let begins: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(begins, ["FUNCTION", "kallsyms_lookup", "f", "total", "#"]);
    }
}
