// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is computed from the number of executions of each basic block: branches, reads and writes
//! of memory, instructions by mnemonic, calls of functions.

use std::collections::{BTreeMap, HashMap};

use iced_x86::InstructionInfoFactory;
use jifl_sys::abi::{Count, FLAG_BRANCHES, NO_BRANCH};

use super::sheet::{Figure, Key, Line, Of, Ratio, Sheet};
use super::what::What;
use crate::kernel::memory::Memory;
use crate::session::blocks::code::{self, Code};
use crate::session::blocks::{Profile, functions, instructions};
use crate::show::text::grouped;

/// The key in a table of [`What::Opcode`] of instructions in thunks, whose code is not in the
/// block.
const THUNK: &str = "(thunk)";
/// The key of instructions whose code is unknown.
const UNKNOWN: &str = "(unknown)";

const fn figure(name: &'static str, title: &'static str) -> Figure {
    Figure { name, title }
}

/// Flags of the session.
pub fn flags(what: What) -> u32 {
    if what == What::Branch {
        FLAG_BRANCHES
    } else {
        0
    }
}

/// True if it depends on the instructions in a block.
pub fn needs_code(what: What) -> bool {
    matches!(what, What::Load | What::Store | What::Opcode)
}

/// Blocks and instructions whose code could not be read, and instructions in thunks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Dark {
    blocks: u64,
    instructions: u64,
    in_thunks: u64,
}

impl Dark {
    /// For people: empty if there are none.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.in_thunks > 0 {
            text += &format!(
                "# {} instructions are of thunks that branches lead through, not looked at\n",
                grouped(self.in_thunks)
            );
        }
        if self.blocks > 0 {
            text += &format!(
                "# {} instructions are not known: {} blocks have other code by now, or none\n",
                grouped(self.instructions),
                grouped(self.blocks)
            );
        }
        text
    }

    fn members(self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([
            ("unknown_blocks", self.blocks),
            ("unknown_instructions", self.instructions),
            ("thunk_instructions", self.in_thunks),
        ])
    }
}

/// Sums by keys.
#[derive(Default)]
struct Sums(HashMap<Vec<Key>, Vec<u64>>);

impl Sums {
    fn add(&mut self, keys: Vec<Key>, figures: &[u64]) {
        let sums = self.0.entry(keys).or_default();
        sums.resize(figures.len(), 0);
        for (sum, figure) in sums.iter_mut().zip(figures) {
            *sum += figure;
        }
    }
}

/// The table, and what it lacks.
pub fn sheet(
    what: What,
    by_func: bool,
    profile: &Profile,
    memory: Option<&mut impl Memory>,
) -> (Sheet, Dark) {
    let (sums, dark) = match memory {
        Some(memory) => decoded(what, by_func, profile, memory),
        None => (plain(what, by_func, profile), Dark::default()),
    };
    let (figures, ratio) = columns(what);
    let mut keys = if by_func { vec!["func"] } else { Vec::new() };
    if what == What::Opcode {
        keys.push("opcode");
    }
    let mut lines: Vec<Line> = (sums.0.into_iter())
        .map(|(keys, figures)| Line { keys, figures })
        .filter(|line| keys.is_empty() || line.figures.iter().any(|figure| *figure > 0))
        .collect();
    if keys.is_empty() && lines.is_empty() {
        lines.push(Line {
            keys: Vec::new(),
            figures: vec![0; figures.len()],
        });
    }
    let mut beside = BTreeMap::from([
        ("without_counter", profile.refused),
        ("instructions", profile.instructions()),
    ]);
    if needs_code(what) {
        beside.extend(dark.members());
    }
    let mut sheet = Sheet {
        kind: what.name(),
        keys,
        figures,
        ratio,
        lines,
        optional: 0..0,
        other: None,
        beside,
    };
    sheet.sort(0);
    (sheet, dark)
}

fn columns(what: What) -> (Vec<Figure>, Ratio) {
    let share = Ratio {
        title: "SHARE",
        figure: 0,
        of: Of::Total,
    };
    let per_instruction = |title| Ratio {
        title,
        figure: 0,
        of: Of::Mean(1),
    };
    let insns = figure("instructions", "INSNS");
    match what {
        What::Branch => (
            vec![
                figure("executed", "EXECUTED"),
                figure("taken", "TAKEN"),
                figure("not_taken", "NOT TAKEN"),
            ],
            Ratio {
                title: "TAKEN%",
                figure: 1,
                of: Of::Percent(0),
            },
        ),
        What::Load => (
            vec![figure("loads", "LOADS"), insns],
            per_instruction("LOADS/INSN"),
        ),
        What::Store => (
            vec![figure("stores", "STORES"), insns],
            per_instruction("STORES/INSN"),
        ),
        What::Func => (vec![figure("calls", "CALLS")], share),
        What::Insn => (vec![insns], share),
        _ => (vec![figure("executed", "EXECUTED")], share),
    }
}

fn function(profile: &Profile, block: &Count) -> Key {
    let place = profile.symbols.function(block.orig);
    Key::Text(match place {
        Some(place) => place.function().to_owned(),
        None => format!("{:#x}", block.orig),
    })
}

fn keys(profile: &Profile, block: &Count, by_func: bool) -> Vec<Key> {
    let function = by_func.then(|| function(profile, block));
    function.into_iter().collect()
}

/// Adds a block for counts that need no code.
fn plain(what: What, by_func: bool, profile: &Profile) -> Sums {
    let mut sums = Sums::default();
    if what == What::Func {
        for function in functions(&profile.blocks, &profile.symbols) {
            sums.add(vec![Key::Text(function.name.clone())], &[function.calls()]);
        }
        return sums;
    }
    for block in profile.executed() {
        let keys = keys(profile, block, by_func);
        match what {
            What::Insn => sums.add(keys, &[instructions(block)]),
            What::Branch if block.branch == NO_BRANCH => {}
            What::Branch => {
                let not_taken = block.executed.saturating_sub(block.taken);
                sums.add(keys, &[block.taken + not_taken, block.taken, not_taken]);
            }
            _ => sums.add(keys, &[block.executed]),
        }
    }
    sums
}

/// Adds a block for counts that need its code.
fn decoded(what: What, by_func: bool, profile: &Profile, memory: &mut impl Memory) -> (Sums, Dark) {
    let mut sums = Sums::default();
    let mut dark = Dark::default();
    let mut factory = InstructionInfoFactory::new();
    for block in profile.executed() {
        let keys = keys(profile, block, by_func);
        let code = code::decode(block, memory);
        match &code {
            Some(code) => dark.in_thunks += code.in_thunk * block.executed,
            None => {
                dark.blocks += 1;
                dark.instructions += instructions(block);
            }
        }
        if what == What::Opcode {
            add_opcodes(&mut sums, &keys, block, code.as_ref());
            continue;
        }
        let accesses = code.map_or(0, |code| accesses(what, &code, &mut factory));
        sums.add(keys, &[accesses * block.executed, instructions(block)]);
    }
    (sums, dark)
}

/// All instructions, including those whose code is unknown.
fn add_opcodes(sums: &mut Sums, keys: &[Key], block: &Count, code: Option<&Code>) {
    let mut add = |opcode: &str, times: u64| {
        if times > 0 {
            let keys = keys.iter().cloned().chain([Key::Text(opcode.to_owned())]);
            sums.add(keys.collect(), &[times * block.executed]);
        }
    };
    let Some(code) = code else {
        return add(UNKNOWN, block.insns.into());
    };
    for instruction in &code.instructions {
        add(&code::mnemonic(instruction), 1);
    }
    add(THUNK, code.in_thunk);
}

fn accesses(what: What, code: &Code, factory: &mut InstructionInfoFactory) -> u64 {
    let each = code.instructions.iter().map(|instruction| {
        let (reads, writes) = code::accesses(instruction, factory);
        if what == What::Load { reads } else { writes }
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::memory::Kcore;
    use crate::session::blocks::tests::{AT, block, sample};

    /// `mov (%rdi),%rax; mov %rax,(%rsi); call` with three instructions in a thunk, then `ret`.
    const CODE: [u8; 12] = [0x48, 0x8b, 0x07, 0x48, 0x89, 0x06, 0xe8, 0, 0, 0, 0, 0xc3];

    fn coded() -> Profile {
        let mut profile = sample();
        let hashed = |offset: usize, length: u32, insns, executed| Count {
            hash: code::hash(&CODE[offset..offset + length as usize]),
            ..block(offset as u64, length, insns, executed)
        };
        profile.blocks = vec![
            hashed(0, 11, 6, 10),
            hashed(11, 1, 1, 9),
            // Of these three, the first's code has changed, the second never ran, the third is
            // gone.
            Count {
                hash: 1,
                ..block(3, 3, 1, 4)
            },
            hashed(3, 3, 1, 0),
            block(0x100, 2, 2, 5),
        ];
        profile
    }

    fn rows(what: What, by_func: bool) -> (Vec<(String, Vec<u64>)>, Dark) {
        let (sheet, dark) = sheet(what, by_func, &coded(), Some(&mut (AT, CODE.to_vec())));
        let joined = |line: &Line| {
            let keys = line.keys.iter().map(|key| match key {
                Key::Text(text) => text.clone(),
                Key::Number(number) => number.to_string(),
            });
            keys.collect::<Vec<_>>().join(" ")
        };
        let rows = sheet.lines.iter();
        let rows = rows.map(|line| (joined(line), line.figures.clone()));
        (rows.collect(), dark)
    }

    fn row(name: &str, figures: &[u64]) -> (String, Vec<u64>) {
        (name.to_owned(), figures.to_vec())
    }

    const DARK: Dark = Dark {
        blocks: 2,
        instructions: 14,
        in_thunks: 30,
    };

    #[test]
    fn opcodes_are_all_instructions() {
        let (found, dark) = rows(What::Opcode, false);
        assert_eq!(
            found,
            [
                row("(thunk)", &[30]),
                row("mov", &[20]),
                row("(unknown)", &[14]),
                row("call", &[10]),
                row("ret", &[9]),
            ]
        );
        assert_eq!(dark, DARK);
        let all: u64 = found.iter().map(|(_, figures)| figures[0]).sum();
        assert_eq!(all, coded().instructions());
        let (found, _) = rows(What::Opcode, true);
        assert_eq!(found[0], row("outer (thunk)", &[30]));
        assert!(found.contains(&row("inner [nfs] (unknown)", &[10])));
    }

    #[test]
    fn loads_and_stores_are_operands() {
        let (found, dark) = rows(What::Load, false);
        assert_eq!((found, dark), (vec![row("", &[10, 83])], DARK));
        let (found, _) = rows(What::Store, true);
        assert_eq!(
            found,
            [row("outer", &[10, 73]), row("inner [nfs]", &[0, 10])]
        );
        assert!(
            DARK.text()
                .contains("# 14 instructions are not known: 2 blocks")
        );
        assert_eq!(Dark::default().text(), "");
    }

    fn plain_rows(what: What, by_func: bool) -> Vec<Line> {
        sheet(what, by_func, &sample(), None::<&mut Kcore>).0.lines
    }

    #[test]
    fn branches_go_one_way_or_the_other() {
        let all = plain_rows(What::Branch, false);
        assert_eq!(all[0].figures, [50, 49, 1]);
        let by_func = plain_rows(What::Branch, true);
        assert_eq!(by_func[0].keys, [Key::Text("inner [nfs]".into())]);
        assert_eq!(by_func[0].figures, [40, 39, 1]);
    }

    #[test]
    fn functions_are_called_where_they_begin() {
        let found = plain_rows(What::Func, true);
        let calls: Vec<u64> = found.iter().map(|line| line.figures[0]).collect();
        assert_eq!(calls, [40, 10]);
        let found = plain_rows(What::Insn, true);
        let sum: u64 = found.iter().map(|line| line.figures[0]).sum();
        assert_eq!(sum, sample().instructions());
        assert_eq!(plain_rows(What::Block, true)[0].figures, [41]);
    }

    #[test]
    fn nothing_executed_is_a_line_of_zeroes() {
        let mut profile = sample();
        profile.blocks.clear();
        let (sheet, _) = sheet(What::Branch, false, &profile, None::<&mut Kcore>);
        assert_eq!(sheet.lines[0].figures, [0, 0, 0]);
    }
}
