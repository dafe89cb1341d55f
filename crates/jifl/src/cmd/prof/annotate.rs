// SPDX-License-Identifier: MIT OR Apache-2.0
//! A function's instructions as they are now, below their source lines. Each instruction has the
//! number of its executions, and each branch the number of times that it was taken.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use iced_x86::{Instruction, Mnemonic};
use jifl_code::flow;
use serde::Serialize;

use crate::base::exit::Failure;
use crate::kernel::disasm::{self, Disassembler};
use crate::kernel::lines::Lines;
use crate::kernel::lines::sources::Sources;
use crate::kernel::memory::Memory;
use crate::session::blocks::{self, Function, Profile, executed_at};
use crate::show::output;
use crate::show::table::table;
use crate::show::text::grouped;
use crate::show::text::percent;

/// Shares from which on an instruction is shown as hot, and as warm, as in perf.
const HOT: f64 = 0.05;
const WARM: f64 = 0.005;
/// Number of parts that are named as the hottest.
const HOTTEST: usize = 3;

/// A function.
#[derive(Debug, Serialize)]
pub struct Annotated {
    function: String,
    address: String,
    calls: u64,
    instructions: u64,
    /// Its executed parts, the most instructions first: from, to, executed.
    #[serde(skip)]
    hottest: Vec<(u64, u64, f64)>,
    lines: Vec<Row>,
}

/// An instruction.
#[derive(Debug, Serialize)]
struct Row {
    address: String,
    offset: u64,
    /// Null if it was not translated.
    executed: Option<u64>,
    /// Share of all instructions executed in the function.
    share: f64,
    text: String,
    /// For a conditional branch: how often it was taken.
    taken: Option<u64>,
    file: Option<String>,
    line: Option<u32>,
    /// Inlined functions that it belongs to, the innermost first.
    inlined: Vec<String>,
}

/// Sources of an annotation.
pub struct Annotator<'a> {
    /// The counts.
    pub profile: &'a Profile,
    /// The code.
    pub code: &'a mut dyn Memory,
    /// The source lines.
    pub lines: &'a Lines,
}

/// The functions with this name, with or without the module; several static functions may have it.
pub fn named<'a, 'b>(
    functions: &'a [Function<'b>],
    name: &str,
) -> Result<Vec<&'a Function<'b>>, Failure> {
    let is_named = |function: &&Function<'_>| {
        function.name == name || function.name.split(" [").next() == Some(name)
    };
    let found: Vec<&Function<'_>> = functions.iter().filter(is_named).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let similar = functions
        .iter()
        .max_by(|a, b| {
            let near = |function: &Function<'_>| strsim::jaro_winkler(&function.name, name);
            near(a).total_cmp(&near(b))
        })
        .map(|function| format!("; the nearest name is {}", function.name));
    Err(Failure::failed(format!(
        "--annotate {name}: nothing of a function of this name was executed{}",
        similar.unwrap_or_default()
    )))
}

impl Annotator<'_> {
    /// The annotation of a function.
    ///
    /// # Errors
    /// Its code does not exist any more.
    pub fn annotate(
        &mut self,
        names: &mut Disassembler,
        function: &Function<'_>,
    ) -> Result<Annotated, Failure> {
        let bytes = self.code.read(function.address, function.size as usize);
        let bytes = bytes.ok_or_else(|| {
            Failure::failed(format!(
                "--annotate {}: /proc/kcore does not have its code: has its module gone?",
                function.name
            ))
        })?;
        let pieces = blocks::pieces(function.blocks);
        let mut instructions = flow::instructions(&bytes, function.address).collect::<Vec<_>>();
        let is_padding = |instruction: &Instruction| {
            matches!(instruction.mnemonic(), Mnemonic::Int3 | Mnemonic::Nop)
                && executed_at(&pieces, instruction.ip()).is_none()
        };
        while instructions.last().is_some_and(is_padding) {
            instructions.pop();
        }
        let all: u64 = instructions
            .iter()
            .filter_map(|instruction| executed_at(&pieces, instruction.ip()))
            .sum();
        let taken: BTreeMap<u64, u64> = blocks::branches(function.blocks.iter())
            .iter()
            .map(|branch| (blocks::site(branch), branch.taken))
            .collect();
        let rows = instructions.iter().map(|instruction| {
            let executed = executed_at(&pieces, instruction.ip());
            self.row(names, function, instruction, executed, all, &taken)
        });
        let lines: Vec<Row> = rows.collect();
        Ok(Annotated {
            function: function.name.clone(),
            address: format!("{:#x}", function.address),
            calls: function.calls(),
            instructions: function.instructions(),
            hottest: hottest(&lines),
            lines,
        })
    }

    fn row(
        &self,
        names: &mut Disassembler,
        function: &Function<'_>,
        instruction: &Instruction,
        executed: Option<u64>,
        all: u64,
        taken: &BTreeMap<u64, u64>,
    ) -> Row {
        let at = instruction.ip();
        let module = self.profile.symbols.module(function.address);
        let label = disasm::direct_target(instruction).map(|to| names.name(to));
        let line = self.lines.of(module, at, at + 1).into_iter().next();
        let mut inlined = self.lines.frames(module, at);
        inlined.pop();
        Row {
            address: format!("{at:#x}"),
            offset: at - function.address,
            executed,
            share: executed.unwrap_or(0) as f64 / all.max(1) as f64,
            text: names.text(instruction, label),
            taken: taken.get(&at).copied(),
            inlined: inlined.into_iter().map(|frame| frame.function).collect(),
            line: line.as_ref().map(|line| line.line),
            file: line.map(|line| line.file),
        }
    }
}

/// Runs of instructions that were executed equally often, the largest share of all instructions
/// first.
fn hottest(rows: &[Row]) -> Vec<(u64, u64, f64)> {
    let runs = rows.chunk_by(|a, b| a.executed == b.executed);
    let mut runs: Vec<(u64, u64, f64)> = runs
        .map(|run| {
            let share = run.iter().map(|row| row.share).sum();
            (run[0].offset, run[run.len() - 1].offset, share)
        })
        .filter(|run| run.2 > 0.0)
        .collect();
    runs.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
    runs.truncate(HOTTEST);
    runs
}

/// For people; cut to `width` columns and in colours if it is for a terminal.
pub fn text(found: &[Annotated], lines: &Lines, width: Option<usize>) -> String {
    let each: Vec<String> = found
        .iter()
        .map(|function| one(function, lines, width))
        .collect();
    each.join("\n")
}

fn one(function: &Annotated, lines: &Lines, width: Option<usize>) -> String {
    let mut text = format!(
        "{} at {}: {} calls, {} instructions\n",
        function.function,
        function.address,
        grouped(function.calls),
        grouped(function.instructions)
    );
    let parts: Vec<String> = function
        .hottest
        .iter()
        .map(|(from, to, share)| format!("+{from:#x}..+{to:#x} {:.1}%", share * 100.0))
        .collect();
    let _ = writeln!(text, "hottest: {}", parts.join(", "));
    let mut text = output::fit(text, width);
    let mut sources = Sources::default();
    let mut last = None;
    for (row, shown) in function.lines.iter().zip(rows(&function.lines)) {
        let place = (&row.file, row.line, &row.inlined);
        if last.replace(place) != Some(place) {
            text += &output::fit(source(row, &mut sources, lines), width);
        }
        let shown = output::fit(shown + "\n", width);
        text += &match colour(row.share).filter(|_| width.is_some()) {
            Some(colour) => format!("\x1b[{colour}m{}\x1b[0m\n", shown.trim_end()),
            None => shown,
        };
    }
    text
}

fn colour(share: f64) -> Option<&'static str> {
    std::env::var_os("NO_COLOR").is_none().then_some(())?;
    match share {
        share if share >= HOT => Some("31"),
        share if share >= WARM => Some("32"),
        _ => None,
    }
}

/// Lines of the table, without the heading of each function.
fn rows(rows: &[Row]) -> Vec<String> {
    let all: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let executed = row.executed.map_or_else(|| "-".into(), grouped);
            let share = match row.executed {
                None => String::new(),
                Some(_) => format!("{:.1}%", row.share * 100.0),
            };
            vec![
                String::new(),
                executed,
                share,
                format!("+{:#x}", row.offset),
            ]
        })
        .collect();
    let numbers = table(&all);
    let instructions = rows.iter().map(|row| match (row.taken, row.executed) {
        (Some(taken), Some(executed)) if executed > 0 => {
            format!("{}  ; taken {}", row.text, percent(taken, executed))
        }
        _ => row.text.clone(),
    });
    // Cuts off the first column, which is empty, with its two blanks.
    let numbers = numbers
        .lines()
        .map(|line| line.get(2..).unwrap_or_default().to_owned());
    numbers
        .zip(instructions)
        .map(|(number, text)| format!("{number}  {text}"))
        .collect()
}

/// `fs/read_write.c:450 (inlined fdget): text`; empty if lines are unknown.
fn source(row: &Row, sources: &mut Sources, lines: &Lines) -> String {
    let (Some(file), Some(line)) = (&row.file, row.line) else {
        return String::new();
    };
    let inlined = match row.inlined.first() {
        Some(name) => format!(" ({name})"),
        None => String::new(),
    };
    match sources.text(file, line, lines) {
        Some(text) => format!("{file}:{line}{inlined}: {text}\n"),
        None => format!("{file}:{line}{inlined}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::lines::tests::Program;
    use crate::session::blocks::functions;
    use crate::session::blocks::tests::{AT, branch, sample};
    use std::rc::Rc;

    /// cmp, nop, je +2; xor, add; ret; int3.
    const CODE: [u8; 13] = [
        0x48, 0x83, 0xf8, 0x01, 0x66, 0x90, 0x74, 0x03, 0x48, 0x31, 0xc0, 0xc3, 0xcc,
    ];

    fn annotated() -> Annotated {
        let mut profile = sample();
        profile.blocks = vec![
            branch(0, 0xb, 10, 4),
            crate::session::blocks::tests::block(0x8, 4, 2, 6),
        ];
        let found = functions(&profile.blocks, &profile.symbols);
        let mut bytes = CODE.to_vec();
        bytes.resize(0x50, 0xcc);
        let mut annotator = Annotator {
            profile: &profile,
            code: &mut (AT, bytes),
            lines: &Lines::default(),
        };
        let mut names = Disassembler::new(Rc::new(crate::kernel::symbols::Symbols::default()));
        let named = named(&found, "outer").unwrap();
        annotator.annotate(&mut names, named[0]).unwrap()
    }

    #[test]
    fn each_instruction_has_its_executions() {
        assert_eq!(
            text(&[annotated()], &Lines::default(), None),
            "outer at 0xffffffff81000000: 10 calls, 42 instructions\n\
             hottest: +0x0..+0x6 71.4%, +0x8..+0xb 28.6%\n\
             10  23.8%  +0x0  cmp $0x1,%rax\n\
             10  23.8%  +0x4  xchg %ax,%ax\n\
             10  23.8%  +0x6  je 0xffffffff8100000b  ; taken 40.0%\n\
             \u{20}6  14.3%  +0x8  xor %rax,%rax\n\
             \u{20}6  14.3%  +0xb  ret\n"
        );
        let value = serde_json::to_value(annotated()).unwrap();
        assert_eq!(value["lines"][2]["taken"], 4);
        assert_eq!(value["lines"].as_array().unwrap().len(), 5, "no padding");
    }

    #[test]
    fn code_that_has_gone_is_said_to_have() {
        let profile = sample();
        let found = functions(&profile.blocks, &profile.symbols);
        let mut annotator = Annotator {
            profile: &profile,
            code: &mut (AT, Vec::new()),
            lines: &Lines::default(),
        };
        let mut names = Disassembler::new(Rc::default());
        let failure = annotator.annotate(&mut names, &found[0]).err().unwrap();
        assert!(
            failure.message.contains("outer: /proc/kcore"),
            "{failure:?}"
        );
    }

    #[test]
    fn narrow_terminals_are_not_left() {
        let shown = text(&[annotated()], &Lines::default(), Some(40));
        for line in shown.lines() {
            let plain = line
                .replace("\x1b[31m", "")
                .replace("\x1b[32m", "")
                .replace("\x1b[0m", "");
            assert!(plain.chars().count() <= 40, "{line}");
        }
    }

    #[test]
    fn a_name_that_is_not_there_is_answered_with_the_nearest() {
        let profile = sample();
        let found = functions(&profile.blocks, &profile.symbols);
        assert_eq!(named(&found, "inner").unwrap()[0].name, "inner [nfs]");
        assert_eq!(named(&found, "inner [nfs]").unwrap().len(), 1);
        let failure = named(&found, "outr").err().unwrap();
        assert!(
            failure.message.ends_with("; the nearest name is outer"),
            "{failure:?}"
        );
    }

    #[test]
    fn source_lines_stand_above_their_instructions() {
        let program = Program::kernel("annotate");
        let lines = program.lines();
        let mut row = annotated().lines.remove(0);
        (row.file, row.line) = (Some("program.c".into()), Some(3));
        row.inlined = vec!["inner".into()];
        let mut sources = Sources::default();
        assert_eq!(source(&row, &mut sources, &lines), "program.c:3 (inner)\n");
        let file = program.dir.join("program.c").display().to_string();
        row.file = Some(file.clone());
        assert_eq!(
            source(&row, &mut sources, &lines),
            format!("{file}:3 (inner): __asm__ volatile(\"imul $3, %0, %0\" : \"+r\"(a));\n")
        );
        row.line = None;
        assert_eq!(source(&row, &mut sources, &lines), "");
    }
}
