// SPDX-License-Identifier: MIT OR Apache-2.0
//! The goals of the micro set in instructions, and whether a sheet reaches them.

use super::sheet::{Figure, Goal, NATIVE, Sheet};
use super::stats::{geomean, spread};

/// Goals for the geometric mean of a row's slowdown. Without retpolines, chains of the cache save
/// less.
struct Mean {
    key: &'static str,
    limit: f64,
    without_retpolines: f64,
}

const MEANS: &[Mean] = &[
    mean("none", 1.00, 1.02),
    mean("call", 1.03, 1.03),
    mean("block", 1.20, 1.20),
    mean("insn", 1.20, 1.20),
    mean("trace", 1.35, 1.35),
    mean("blocks", 1.35, 1.35),
    mean("lock", 1.05, 1.05),
    mean("branches", 1.35, 1.35),
    mean("mem", 3.00, 3.00),
    mean("fn-all", 1.25, 1.25),
    mean("fn-busy", 1.03, 1.03),
];

const fn mean(key: &'static str, limit: f64, without_retpolines: f64) -> Mean {
    Mean {
        key,
        limit,
        without_retpolines,
    }
}

/// With nothing inserted, no operation may be slowed down more than this.
const WORST_OF_NONE: f64 = 1.06;

/// Goal for how many times more a peer adds than JIFL's row with the same job.
const FACTORS: &[(&str, &str, f64)] = &[
    ("int3-block", "block", 50.0),
    ("int3-trace", "trace", 15.0),
    ("ftrace-trace", "trace", 5.0),
    ("opt-block", "block", 15.0),
];

/// The summary of a micro sheet. Goals exist only for the clock that counts instructions.
pub fn summary(sheet: &Sheet) -> Vec<Figure> {
    let goals = sheet.clock == "instructions";
    let mut figures = Vec::new();
    for row in sheet.rows.iter().filter(|row| row.key != NATIVE) {
        let ratios = sheet.ratios(&row.key);
        let Some(value) = geomean(&ratios) else {
            continue;
        };
        let set = MEANS.iter().find(|mean| mean.key == row.key);
        let goal = set.map(|mean| match sheet.machine.has_retpolines() {
            true => Goal::AtMost(mean.limit),
            false => Goal::AtMost(mean.without_retpolines),
        });
        let name = format!("{}: geometric mean", row.title);
        figures.push(figure(name, value, goal.filter(|_| goals)));
        let worst = (row.key == "none").then_some(Goal::AtMost(WORST_OF_NONE));
        let name = format!("{}: at worst", row.title);
        figures.push(figure(name, spread(&ratios)[1], worst.filter(|_| goals)));
    }
    figures.extend(
        FACTORS
            .iter()
            .filter_map(|factor| peer_factor(sheet, factor, goals)),
    );
    figures
}

fn figure(name: String, value: f64, goal: Option<Goal>) -> Figure {
    Figure {
        name,
        value: Some(value),
        unit: "times".into(),
        goal,
    }
}

/// The factor, over the operations that both rows have. It does not exist if JIFL's row adds
/// nothing.
fn peer_factor(
    sheet: &Sheet,
    (peer, ours, limit): &(&str, &str, f64),
    goals: bool,
) -> Option<Figure> {
    let (peer, ours) = (sheet.row(peer)?, sheet.row(ours)?);
    let native = sheet.row(NATIVE)?;
    let (mut by_peer, mut by_us) = (0.0, 0.0);
    for cell in native.cells.iter().filter(|cell| cell.is_valid()) {
        if let (Some(peer), Some(ours)) = (peer.cell(&cell.op), ours.cell(&cell.op)) {
            by_peer += peer.value - cell.value;
            by_us += ours.value - cell.value;
        }
    }
    (by_us > 0.0 && by_peer > 0.0).then(|| {
        let name = format!("{} adds, for each that {} adds", peer.title, ours.title);
        figure(
            name,
            by_peer / by_us,
            Some(Goal::AtLeast(*limit)).filter(|_| goals),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::sheet::tests::sample;
    use super::super::sheet::{Cell, Row};
    use super::*;

    fn value_of(figures: &[Figure], name: &str) -> Option<f64> {
        let found = figures.iter().find(|figure| figure.name.contains(name))?;
        found.value
    }

    #[test]
    fn means_have_the_goal_of_their_kernel() {
        let mut sheet = sample();
        let figures = summary(&sheet);
        assert_eq!(figures[0].goal, Some(Goal::AtMost(1.02)));
        assert_eq!(figures[1].value, Some(1.1));
        assert_eq!(figures[1].goal, Some(Goal::AtMost(1.06)));
        sheet.machine.spectre_v2 = "Mitigation: Retpolines".into();
        assert_eq!(summary(&sheet)[0].goal, Some(Goal::AtMost(1.00)));
        sheet.clock = "time".into();
        assert!(summary(&sheet).iter().all(|figure| figure.goal.is_none()));
    }

    #[test]
    fn void_cells_and_missing_rows_have_no_part_in_it() {
        let figures = summary(&sample());
        assert_eq!(
            value_of(&figures, "block in words: geometric mean"),
            Some(1.25)
        );
        assert_eq!(value_of(&figures, "BPF"), None);
    }

    #[test]
    fn peers_are_compared_by_what_they_add() {
        let mut sheet = sample();
        sheet.rows.push(Row {
            key: "int3-block".into(),
            title: "int3".into(),
            missing: None,
            cells: vec![Cell {
                op: "null".into(),
                value: 2600.0,
                ratio: 26.0,
                ..Cell::default()
            }],
        });
        assert_eq!(value_of(&summary(&sheet), "int3 adds"), Some(100.0));
    }
}
