// SPDX-License-Identifier: MIT OR Apache-2.0
//! The third clock: events of the processor's front end, counted by a model that is a plugin of the
//! machine's QEMU (bench/frontend). Each event becomes a sheet of its own.
//!
//! A round is marked by nops that the plugin knows. The plugin writes its counts of each round to a
//! file, which this program reads: the files' directory is the host's.

use std::io;
use std::path::PathBuf;

use jifl_sys::cpu;
use jifl_sys::micro::{Op, Pinned, Round};

use super::clock::Clock;
use super::instruments::{self, Instrument, Known, Live, What};
use super::micro::{Plan, timed, warm_up};
use super::pace::Reporter;
use super::series::Trouble;
use super::sheet::{Cell, Figure, Goal, NATIVE, Operation, Row, Sheet};
use super::stats::{geomean, median};
use super::validity::{Seen, judge};
use crate::base::environment::Environment;

/// The events: the name of the sheet's clock, and a description. As in bench/frontend/model.h.
const EVENTS: [(&str, &str); 5] = [
    ("returns-16", "mispredicted returns, stack of 16"),
    ("returns-32", "mispredicted returns, stack of 32"),
    ("icache", "instruction cache misses"),
    ("itlb", "instruction TLB misses"),
    ("branches", "taken branches"),
];
/// The column after them: accesses to pages whose size the plugin did not find.
const UNSIZED: usize = EVENTS.len();
/// Behind that come instructions, for which there is another clock.
const COLUMNS: usize = UNSIZED + 2;
/// Number of rounds from which the cost of one is taken.
const FIRST: u64 = 5;

/// Means of each event in a round.
type Counts = [f64; EVENTS.len()];
type Found = Result<(Counts, u64), Trouble>;

/// The environment variable with the directory of the plugin's files.
pub const DIRECTORY: &str = "JIFL_FRONT_END";

/// That directory, in a machine whose QEMU has the plugin.
pub fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// True if a sheet's clock is one of these events.
pub fn is_event(clock: &str) -> bool {
    EVENTS.iter().any(|(name, _)| *name == clock)
}

/// Reads the plugin's files.
struct Counter {
    directory: PathBuf,
    files: u64,
}

/// Measures all operations under all rows; a sheet for each event.
pub fn measure(plan: &Plan, directory: PathBuf, set: &str) -> Vec<Sheet> {
    let _pinned = Pinned::here();
    let mut say = Reporter::new(plan.title.clone(), Clock::FrontEnd);
    let mut counter = Counter {
        directory,
        files: 0,
    };
    let mut columns = Vec::new();
    for (index, op) in plan.ops.iter().enumerate() {
        say.op(op.name, index, plan.ops.len());
        columns.push(match (op.prepare)() {
            Ok(mut round) => plan
                .rows
                .iter()
                .map(|row| {
                    say.row(row.key, 0, 1);
                    counter.sample(plan, op, row, round.as_mut())
                })
                .collect(),
            Err(error) => {
                let why = Trouble::Void(format!("cannot be prepared: {error}"));
                vec![Err(why); plan.rows.len()]
            }
        });
    }
    let events = 0..EVENTS.len();
    events
        .map(|event| sheet(plan, &columns, event, set))
        .collect()
}

impl Counter {
    fn sample(&mut self, plan: &Plan, op: &Op, row: &Instrument, round: &mut dyn Round) -> Found {
        if matches!(row.what, What::Peer(..) | What::Cold(_)) {
            let why = "not measured by this clock: sessions in the steady state are";
            return Err(Trouble::Missing(why.into()));
        }
        let failed = |error: io::Error| Trouble::Void(format!("the operation failed: {error}"));
        let numbers: Vec<u32> = op.calls.iter().map(|(nr, _)| *nr).collect();
        let translated_before = instruments::translated();
        let live = Live::start(row.what, &Known::default()).map_err(Trouble::Missing)?;
        let counts = || live.counts(&numbers).map_err(Trouble::Void);

        let mut costs = Vec::new();
        timed(plan, round, FIRST, &mut costs).map_err(failed)?;
        let rounds = plan.pace.rounds(op.share, median(&costs)).max(2);
        warm_up(round, rounds).map_err(failed)?;
        let halves = [rounds / 2, rounds - rounds / 2];
        let marked = (|| {
            let begin = counts()?;
            marked(round, halves[0]).map_err(failed)?;
            let middle = counts()?;
            marked(round, halves[1]).map_err(failed)?;
            Ok([begin, middle, counts()?])
        })();
        // After an error, too: the next measurement needs new files and a new model.
        cpu::marks::write();
        cpu::marks::stop();
        let path = self.directory.join(self.files.to_string());
        self.files += 1;
        let seen = Seen {
            counts: marked?,
            translated_before,
            rounds: halves,
        };
        judge(&seen, op.calls, None).map_err(Trouble::Void)?;
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Trouble::Void(format!("{}: {error}", path.display())))?;
        means(&text, rounds).map_err(Trouble::Void)
    }
}

fn marked(round: &mut dyn Round, rounds: u64) -> io::Result<()> {
    for _ in 0..rounds {
        cpu::marks::begin();
        let result = round.once();
        cpu::marks::end();
        result?;
        round.between()?;
    }
    Ok(())
}

/// For each event the mean of the middle half of the rounds. So rounds with an interrupt do not
/// count, and neither do the first rounds, for which the caches were empty.
fn means(text: &str, rounds: u64) -> Result<(Counts, u64), String> {
    let parse = |line: &str| -> Option<Vec<f64>> {
        let numbers = line.split(' ').map(|word| word.parse().ok());
        let numbers: Option<Vec<f64>> = numbers.collect();
        numbers.filter(|numbers| numbers.len() == COLUMNS)
    };
    let lines: Option<Vec<Vec<f64>>> = text.lines().map(parse).collect();
    let lines = lines.ok_or("what the plugin wrote is no table of counts")?;
    if lines.len() as u64 != rounds {
        return Err(format!("the plugin saw {} of {rounds} rounds", lines.len()));
    }
    let unsized_pages: f64 = lines.iter().map(|line| line[UNSIZED]).sum();
    if unsized_pages > 0.0 {
        return Err("pages were executed whose size the plugin did not find".into());
    }
    let mut counts = [0.0; EVENTS.len()];
    for (event, count) in counts.iter_mut().enumerate() {
        let mut all: Vec<f64> = lines.iter().map(|line| line[event]).collect();
        all.sort_by(f64::total_cmp);
        let quarter = all.len() / 4;
        let middle = &all[quarter..all.len() - quarter];
        *count = middle.iter().sum::<f64>() / middle.len() as f64;
    }
    Ok((counts, rounds))
}

/// `columns`: for each operation, the result of each row.
fn sheet(plan: &Plan, columns: &[Vec<Found>], event: usize, set: &str) -> Sheet {
    let (clock, unit) = EVENTS[event];
    let operation = |op: &Op| Operation {
        name: op.name.into(),
        unit: unit.into(),
    };
    let row = |(index, row): (usize, &Instrument)| {
        let missing = columns.iter().map(|column| match &column[index] {
            Err(Trouble::Missing(why)) => Some(why),
            _ => None,
        });
        let missing: Option<Vec<&String>> = missing.collect();
        if let Some(why) = missing.as_ref().and_then(|whys| whys.first()) {
            return Row::missing(row.key, row.title, *why);
        }
        let cells = plan.ops.iter().zip(columns);
        Row {
            key: row.key.into(),
            title: row.title.into(),
            missing: None,
            cells: cells
                .map(|(op, column)| cell(op.name, &column[0], &column[index], event))
                .collect(),
        }
    };
    let mut sheet = Sheet {
        set: set.into(),
        clock: clock.into(),
        machine: Environment::here(),
        ops: plan.ops.iter().map(operation).collect(),
        rows: plan.rows.iter().enumerate().map(row).collect(),
        figures: Vec::new(),
        notes: Vec::new(),
    };
    sheet.figures = summary(&sheet, event);
    sheet
}

/// If there are none natively there is no ratio. It is 0 then, or 1 if there are none at all.
fn cell(op: &str, native: &Found, found: &Found, event: usize) -> Cell {
    let (counts, rounds) = match found {
        Ok(found) => found,
        Err(Trouble::Missing(why) | Trouble::Void(why)) => return Cell::void(op, why.clone()),
    };
    let value = counts[event];
    let ratio = match native {
        Ok((native, _)) if native[event] > 0.0 => value / native[event],
        Ok(_) if value == 0.0 => 1.0,
        _ => 0.0,
    };
    Cell {
        op: op.into(),
        value,
        ratio,
        spread: [ratio; 2],
        counted: None,
        rounds: Some(*rounds),
        turns: 1,
        void: None,
    }
}

/// For each row: the largest excess of an operation over native. For misses and branches also the
/// geometric mean of the ratios. A miss may not occur at all, so 1 is added to both.
fn summary(sheet: &Sheet, event: usize) -> Vec<Figure> {
    let is_return = event < 2;
    let is_miss = matches!(EVENTS[event].0, "icache" | "itlb");
    let mut figures = Vec::new();
    for row in sheet.rows.iter().filter(|row| row.key != NATIVE) {
        let native = |cell: &Cell| Some(sheet.row(NATIVE)?.cell(&cell.op)?.value);
        let cells = row.cells.iter().filter(|cell| cell.is_valid());
        let pairs: Vec<(f64, f64)> = cells
            .filter_map(|cell| Some((native(cell)?, cell.value)))
            .collect();
        let goal = |limit, wanted: bool| {
            let has_goal = wanted && row.key == "none";
            has_goal.then_some(Goal::AtMost(limit))
        };
        let more = pairs.iter().map(|(native, value)| value - native);
        figures.push(Figure {
            name: format!("{}: more than natively, at worst", row.title),
            value: more.reduce(f64::max),
            unit: "a round".into(),
            goal: goal(0.0, is_return),
        });
        let ratios = pairs
            .iter()
            .map(|(native, value)| (value + 1.0) / (native + 1.0));
        let ratios: Vec<f64> = ratios.collect();
        if let Some(mean) = geomean(&ratios).filter(|_| !is_return) {
            figures.push(Figure {
                name: format!("{}: geometric mean, one added to each count", row.title),
                value: Some(mean),
                unit: "times".into(),
                goal: goal(1.0, is_miss),
            });
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_the_middle_half() {
        // One round has an interrupt, another has cold caches.
        let text = "9 9 90 9 9 0 8\n1 0 4 0 10 0 8\n1 0 6 0 10 0 8\n70 1 5 1 99 0 8\n";
        let (counts, rounds) = means(text, 4).unwrap();
        assert_eq!((counts, rounds), ([5.0, 0.5, 5.5, 0.5, 10.0], 4));
    }

    #[test]
    fn what_is_no_whole_table_is_refused() {
        for (text, why) in [
            ("1 2 3 4 5 0 6\n", "1 of 2 rounds"),
            ("1 2 3\n1 2 3\n", "no table"),
            ("x\nx\n", "no table"),
            ("1 2 3 4 5 0 6\n1 2 3 4 5 1 6\n", "whose size"),
        ] {
            let error = means(text, 2).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn there_is_no_ratio_to_nothing() {
        let found = |value| Ok(([value; EVENTS.len()], 4));
        for (native, value, ratio) in [
            (4.0, 2.0, 0.5),
            (0.0, 0.0, 1.0),
            (0.0, 2.0, 0.0),
            (2.0, 0.0, 0.0),
        ] {
            let cell = cell("x", &found(native), &found(value), 0);
            assert_eq!((cell.value, cell.ratio), (value, ratio));
        }
    }
}
