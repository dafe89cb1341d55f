// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts by properties of the tasks.

use std::collections::BTreeMap;

use jifl_sys::abi::{
    self, KEY_OTHER_ADOPTED, KEY_OTHER_CALLS, KEY_OTHER_SUM, Kind, LEVELS, from_name,
};
use jifl_sys::device::Door;

use super::sheet::{Figure, Key, Line, Of, Ratio, Sheet};
use super::what::By;
use crate::base::exit::Failure;
use crate::session::report::Report;
use crate::session::table;

/// Figures of a key: calls, what was counted in them, and the same two of calls that had begun
/// before the session.
type Sums = [u64; 4];

/// The table of a door's session.
///
/// # Errors
/// The module does not give it.
pub fn sheet(door: &impl Door, kind: Kind, by: &[By], report: &Report) -> Result<Sheet, Failure> {
    // What such a task has executed is of no one CPU.
    let adopts = report.adoption.is_some() && !by.contains(&By::Cpu);
    let (sums, other) = read(door, by, report, adopts)?;
    let figures = figures(kind, adopts);
    let only = |all: &Sums| all[..figures.len()].to_vec();
    let all: Sums = (sums.values().chain([&other])).fold([0; 4], add);
    let by_tasks = all[0] == 0 && all[2] > 0;
    let mut sheet = Sheet {
        kind: kind.name(),
        keys: by.iter().map(|by| by.name()).collect(),
        lines: (sums.iter())
            .map(|(keys, sums)| Line {
                keys: keys.clone(),
                figures: only(sums),
            })
            .collect(),
        other: Some(only(&other)),
        ratio: ratio(kind, by_tasks),
        optional: if by_tasks { 0..2 } else { 2..4 },
        figures,
        beside: BTreeMap::new(),
    };
    // By what was counted, or by the calls if that is all.
    let last = sheet.figures.len().min(2) - 1;
    sheet.sort_by(|line| line.figures.iter().skip(last).step_by(2).sum());
    Ok(sheet)
}

fn add(sum: Sums, of: &Sums) -> Sums {
    std::array::from_fn(|at| sum[at].saturating_add(of[at]))
}

fn figures(kind: Kind, adopts: bool) -> Vec<Figure> {
    let figure = |name, title| Figure { name, title };
    let calls = figure("calls", "CALLS");
    let adopted = figure("adopted", "ADOPTED");
    match kind {
        Kind::Insn => vec![
            calls,
            figure("instructions", "INSNS"),
            adopted,
            figure("adopted_instructions", "INSNS"),
        ],
        Kind::Block => vec![
            calls,
            figure("blocks_executed", "EXECUTED"),
            adopted,
            figure("adopted_blocks_executed", "EXECUTED"),
        ],
        _ => vec![calls],
    }
    .into_iter()
    .take(if adopts { 4 } else { 2 })
    .collect()
}

/// `by_tasks`: no call has begun since, so that there is no mean.
fn ratio(kind: Kind, by_tasks: bool) -> Ratio {
    if by_tasks {
        return Ratio {
            title: "SHARE",
            figure: 3,
            of: Of::Total,
        };
    }
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

/// The figures of all keys, and of those without room.
fn read(
    door: &impl Door,
    by: &[By],
    report: &Report,
    adopts: bool,
) -> Result<(BTreeMap<Vec<Key>, Sums>, Sums), Failure> {
    let (all, rest) = table::read::<abi::Key>(door, "reading the counts by keys")?;
    let mut sums: BTreeMap<Vec<Key>, Sums> = BTreeMap::new();
    for key in &all {
        let keys = by.iter().map(|by| key_of(*by, key)).collect();
        let of = match key.adopted {
            0 => [key.calls, key.sum, 0, 0],
            _ => [0, 0, key.calls, key.sum],
        };
        let sum = sums.entry(keys).or_default();
        *sum = add(*sum, &of);
    }
    // The module keeps what was counted in all of them by target.
    let whole: u64 = report.rows.iter().map(|row| row.adopted_sum).sum();
    let listed: u64 = sums.values().map(|sums| sums[3]).sum();
    let without = if adopts {
        whole.saturating_sub(listed)
    } else {
        0
    };
    let other = [
        rest[KEY_OTHER_CALLS],
        rest[KEY_OTHER_SUM],
        rest[KEY_OTHER_ADOPTED],
        without,
    ];
    Ok((sums, other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;
    use crate::session::report::tests::{empty, sample};
    use crate::session::report::{Adoption, Row};
    use jifl_sys::abi::to_name;

    fn key(comm: &str, tgid: i32, calls: u64, sum: u64) -> abi::Key {
        abi::Key {
            cpu: 1,
            tgid,
            comm: to_name(comm.as_bytes()).unwrap(),
            calls,
            sum,
            level: (tgid % 3) as u32,
            adopted: 0,
        }
    }

    #[test]
    fn keys_become_columns_the_largest_sum_first() {
        let fake = Fake::default();
        fake.add_table(
            vec![key("sh", 7, 10, 100), key("ls", 8, 1, 500)],
            [2, 30, 0],
        );
        let found = sheet(&fake, Kind::Insn, &[By::Comm, By::Cpu], &empty(Kind::Insn)).unwrap();
        assert_eq!(found.keys, ["comm", "cpu"]);
        assert_eq!(
            found.lines[0].keys,
            [Key::Text("ls".into()), Key::Number(1)]
        );
        assert_eq!(found.lines[1].figures, [10, 100]);
        assert_eq!(found.total(), [13, 630]);
        let found = sheet(&fake, Kind::Call, &[By::Pid], &empty(Kind::Call)).unwrap();
        assert_eq!(found.lines[0].keys, [Key::Number(7)]);
        assert_eq!((found.lines[0].figures.len(), found.total()), (1, vec![13]));
        let found = sheet(&fake, Kind::Insn, &[By::Context], &empty(Kind::Insn)).unwrap();
        assert_eq!(found.keys, ["context"]);
        assert_eq!(found.lines[0].keys, [Key::Text("irq".into())]);
        assert_eq!(found.lines[1].keys, [Key::Text("softirq".into())]);
        assert_eq!(
            sheet(&fake, Kind::Block, &[By::Pid], &empty(Kind::Block))
                .unwrap()
                .figures[1]
                .title,
            "EXECUTED"
        );
    }

    #[test]
    fn calls_from_before_the_session_stand_apart() {
        let fake = Fake::default();
        let adopted = |comm, tgid, sum| abi::Key {
            adopted: 1,
            ..key(comm, tgid, 1, sum)
        };
        let mut report = empty(Kind::Insn);
        report.adoption = Some(Adoption::default());
        report.rows.push(Row {
            adopted_sum: 1_000,
            ..sample(Kind::Insn).rows[0].clone()
        });
        let mut keys = vec![
            adopted("kworker/0:1", 12, 700),
            adopted("kworker/0:2", 13, 200),
        ];
        fake.add_table(keys.clone(), [0, 0, 2]);
        let by = [By::Comm, By::Pid];
        let found = sheet(&fake, Kind::Insn, &by, &report).unwrap();
        assert_eq!(found.lines[0].figures, [0, 0, 1, 700]);
        // What the keys lack of the whole found no room.
        assert_eq!(found.other, Some(vec![0, 0, 2, 100]));
        assert_eq!((found.optional, found.ratio.title), (0..2, "SHARE"));
        // The same name has calls that began later: one line has both.
        let fake = Fake::default();
        keys.push(key("kworker/0:2", 13, 2, 5_000));
        fake.add_table(keys, [0; 3]);
        let found = sheet(&fake, Kind::Insn, &by, &report).unwrap();
        assert_eq!(found.lines[0].figures, [2, 5_000, 1, 200]);
        assert_eq!((found.optional, found.ratio.title), (2..4, "INSN/CALL"));
    }

    #[test]
    fn keys_are_read_to_the_last() {
        let fake = Fake::default();
        let n = 2 * table::ROOM as i32 + 1;
        fake.add_table((0..n).map(|pid| key("", pid, 1, 1)).collect(), [0; 3]);
        assert_eq!(
            read(&fake, &[By::Pid], &empty(Kind::Call), false)
                .unwrap()
                .0
                .len(),
            n as usize
        );
    }
}
