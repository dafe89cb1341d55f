// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts by properties of the tasks.

use std::collections::BTreeMap;

use jifl_sys::abi::{self, KEY_OTHER_CALLS, KEY_OTHER_SUM, Kind, LEVELS, from_name};
use jifl_sys::device::Door;

use super::sheet::{Figure, Key, Line, Of, Ratio, Sheet};
use super::what::By;
use crate::base::exit::Failure;
use crate::session::table;

/// The table of a door's session.
///
/// # Errors
/// The module does not give it.
pub fn sheet(door: &impl Door, kind: Kind, by: &[By]) -> Result<Sheet, Failure> {
    let (keys, other) = read(door)?;
    let figures = figures(kind);
    let only = |all: [u64; 2]| all[..figures.len()].to_vec();
    let mut sheet = Sheet {
        kind: kind.name(),
        keys: by.iter().map(|by| by.name()).collect(),
        lines: (keys.iter())
            .map(|key| Line {
                keys: by.iter().map(|by| key_of(*by, key)).collect(),
                figures: only([key.calls, key.sum]),
            })
            .collect(),
        other: Some(only(other)),
        ratio: ratio(kind),
        figures,
        beside: BTreeMap::new(),
    };
    sheet.sort(sheet.figures.len() - 1);
    Ok(sheet)
}

fn figures(kind: Kind) -> Vec<Figure> {
    let figure = |name, title| Figure { name, title };
    let calls = figure("calls", "CALLS");
    match kind {
        Kind::Insn => vec![calls, figure("instructions", "INSNS")],
        Kind::Block => vec![calls, figure("blocks_executed", "EXECUTED")],
        _ => vec![calls],
    }
}

fn ratio(kind: Kind) -> Ratio {
    let per_call = |title| Ratio {
        title,
        figure: 1,
        of: Of::Mean(0),
    };
    match kind {
        Kind::Insn => per_call("INSN/CALL"),
        Kind::Block => per_call("EXEC/CALL"),
        _ => Ratio {
            title: "SHARE",
            figure: 0,
            of: Of::Total,
        },
    }
}

fn key_of(by: By, key: &abi::Key) -> Key {
    match by {
        By::Pid => Key::Number(u64::try_from(key.tgid).unwrap_or(0)),
        By::Cpu => Key::Number(key.cpu.into()),
        By::Context => Key::Text(context(key.level)),
        By::Comm | By::Func => Key::Text(from_name(&key.comm)),
    }
}

/// The name of a level; a number for one that a newer module added.
fn context(level: u32) -> String {
    let known = LEVELS.get(level as usize);
    known.map_or_else(|| format!("level-{level}"), |name| (*name).to_owned())
}

/// All keys, and calls and sum of those without room.
fn read(door: &impl Door) -> Result<(Vec<abi::Key>, [u64; 2]), Failure> {
    let (all, rest) = table::read(door, "reading the counts by keys")?;
    Ok((all, [rest[KEY_OTHER_CALLS], rest[KEY_OTHER_SUM]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;
    use jifl_sys::abi::to_name;

    fn key(comm: &str, tgid: i32, calls: u64, sum: u64) -> abi::Key {
        abi::Key {
            cpu: 1,
            tgid,
            comm: to_name(comm.as_bytes()).unwrap(),
            calls,
            sum,
            level: (tgid % 3) as u32,
            reserved: 0,
        }
    }

    #[test]
    fn keys_become_columns_the_largest_sum_first() {
        let fake = Fake::default();
        fake.add_table(
            vec![key("sh", 7, 10, 100), key("ls", 8, 1, 500)],
            [2, 30, 0],
        );
        let found = sheet(&fake, Kind::Insn, &[By::Comm, By::Cpu]).unwrap();
        assert_eq!(found.keys, ["comm", "cpu"]);
        assert_eq!(
            found.lines[0].keys,
            [Key::Text("ls".into()), Key::Number(1)]
        );
        assert_eq!(found.lines[1].figures, [10, 100]);
        assert_eq!(found.total(), [13, 630]);
        let found = sheet(&fake, Kind::Call, &[By::Pid]).unwrap();
        assert_eq!(found.lines[0].keys, [Key::Number(7)]);
        assert_eq!((found.lines[0].figures.len(), found.total()), (1, vec![13]));
        let found = sheet(&fake, Kind::Insn, &[By::Context]).unwrap();
        assert_eq!(found.keys, ["context"]);
        assert_eq!(found.lines[0].keys, [Key::Text("irq".into())]);
        assert_eq!(found.lines[1].keys, [Key::Text("softirq".into())]);
        assert_eq!(
            sheet(&fake, Kind::Block, &[By::Pid]).unwrap().figures[1].title,
            "EXECUTED"
        );
    }

    #[test]
    fn keys_are_read_to_the_last() {
        let fake = Fake::default();
        let n = 2 * table::ROOM as i32 + 1;
        fake.add_table((0..n).map(|pid| key("", pid, 1, 1)).collect(), [0; 3]);
        assert_eq!(read(&fake).unwrap().0.len(), n as usize);
    }
}
