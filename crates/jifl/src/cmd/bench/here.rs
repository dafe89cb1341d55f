// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the machine on which this program runs: each set by each clock that can be used, as a
//! sheet.

use jifl_sys::micro::Op;

use super::clock::{self, Clock, Stopwatch};
use super::pace::{PATIENCE, Pace};
use super::sheet::{Operation, Row, Sheet};
use super::{BenchArgs, Set, cold, front_end, goals, memory, micro, web};
use crate::base::environment::{Environment, release};
use crate::base::exit::Failure;
use crate::show::output;

/// Measures what was asked for; `show` gets each sheet as soon as there is one.
pub fn measure(
    args: &BenchArgs,
    mut show: impl FnMut(Sheet) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if let Some(directory) =
        front_end::directory().filter(|_| args.clock.contains(&Clock::FrontEnd))
    {
        let plan = micro_plan(args, Set::Micro, Clock::FrontEnd)?;
        let sheets = front_end::measure(&plan, directory, Set::Micro.name());
        return sheets.into_iter().try_for_each(show);
    }
    let counts = jifl_sys::cpu::clock_counts_instructions();
    let (clock, line) = clock::usable(&args.clock, counts);
    let line = line.map(|line| format!("no {line}"));
    if let Some(line) = &line {
        output::note(&format!("jifl bench: {line}"));
    }
    for set in args.sets() {
        if set == Set::Web && clock == Clock::Instructions {
            output::note(
                "jifl bench: no web: it is measured in time, which this machine's clock does not \
                 show",
            );
            continue;
        }
        output::note(&format!("jifl bench: {}", title(set, clock)));
        let mut sheet = sheet(args, set, clock)?;
        sheet.notes.extend(line.clone());
        show(sheet)?;
    }
    Ok(())
}

fn sheet(args: &BenchArgs, set: Set, clock: Clock) -> Result<Sheet, Failure> {
    let mut sheet = Sheet {
        set: set.name().into(),
        clock: clock.name().into(),
        machine: Environment::here(),
        ops: Vec::new(),
        rows: Vec::new(),
        figures: Vec::new(),
        notes: Vec::new(),
    };
    let operation = |name: &str| Operation {
        name: name.into(),
        unit: clock.unit().into(),
    };
    match set {
        Set::Micro | Set::Effect => {
            let plan = micro_plan(args, set, clock)?;
            sheet.ops = plan.ops.iter().map(|op: &Op| operation(op.name)).collect();
            sheet.rows = micro::measure(&plan);
            sheet.figures = goals::summary(&sheet);
            sheet.notes = fewer_turns(&sheet.rows);
        }
        Set::Cold => {
            sheet.ops = cold::OPS.map(operation).into();
            sheet.rows = cold::rows(&args.rows(set, clock));
            let exact = clock == Clock::Instructions;
            (sheet.figures, sheet.notes) = cold::figures(&sheet.rows, exact);
        }
        Set::Memory => {
            let sizes = args.sizes();
            let found = memory::measure(&args.rows(set, clock), &sizes)?;
            sheet.ops = sizes
                .iter()
                .map(|size| operation(&memory::op_name(*size)))
                .collect();
            (sheet.rows, sheet.notes) = (found.rows, found.notes);
        }
        Set::Web => {
            sheet.ops = web::operations();
            let plan = web::Plan {
                rows: args.rows(set, clock),
                requests: args.rounds.unwrap_or(1000),
                fixed: args.rounds.is_some(),
                repeats: args.repeats.unwrap_or(5),
            };
            sheet.rows = web::measure(&plan);
            sheet.notes = fewer_turns(&sheet.rows);
        }
    }
    Ok(sheet)
}

fn micro_plan(args: &BenchArgs, set: Set, clock: Clock) -> Result<micro::Plan, Failure> {
    let repeats = args.repeats.unwrap_or(5);
    Ok(micro::Plan {
        title: title(set, clock),
        ops: args.ops()?,
        rows: args.rows(set, clock),
        stopwatch: Stopwatch::new(clock),
        pace: match args.rounds {
            Some(rounds) => Pace::fixed(clock, rounds),
            None => Pace::of(clock),
        },
        repeats: match clock {
            Clock::Instructions | Clock::FrontEnd => 1,
            Clock::Time => repeats,
        },
        patience: args.repeats.is_none().then_some(PATIENCE),
    })
}

/// The set, kernel and clock: the beginning of each line of progress.
fn title(set: Set, clock: Clock) -> String {
    format!("{} by {}, {}", set.name(), clock.name(), release())
}

/// A line for each row that has fewer turns in some operations than others have.
fn fewer_turns(rows: &[Row]) -> Vec<String> {
    let cells = rows.iter().flat_map(|row| &row.cells);
    let all = cells.map(|cell| cell.turns).max().unwrap_or_default();
    let line = |row: &Row| {
        let fewer = row
            .cells
            .iter()
            .filter(|cell| cell.is_valid() && cell.turns < all);
        let fewer: Vec<String> = fewer
            .map(|cell| format!("{} {}", cell.op, cell.turns))
            .collect();
        let fewer = (!fewer.is_empty()).then(|| fewer.join(", "))?;
        Some(format!("turns, where not {all}: {}: {fewer}", row.title))
    };
    rows.iter().filter_map(line).collect()
}
