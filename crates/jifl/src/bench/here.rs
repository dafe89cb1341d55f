// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measuring the machine that this runs on: each set by each clock that can be
//! used, as a sheet.

use jifl_sys::micro::Op;

use super::clock::{self, Clock, Stopwatch};
use super::environment::Environment;
use super::sheet::{Operation, Sheet};
use super::{BenchArgs, Set, cold, goals, memory, micro, web};
use crate::exit::Failure;
use crate::output;

/// Measures what was asked for; `show` gets each sheet as soon as there is one.
pub fn measure(
    args: &BenchArgs,
    mut show: impl FnMut(&Sheet) -> Result<(), Failure>,
) -> Result<Vec<Sheet>, Failure> {
    let counts = jifl_sys::cpu::clock_counts_instructions();
    let (clock, line) = clock::usable(&args.clock, counts);
    let line = line.map(|line| format!("no {line}"));
    if let Some(line) = &line {
        output::note(&format!("jifl bench: {line}"));
    }
    let mut all = Vec::new();
    for set in args.sets() {
        if set == Set::Web && clock == Clock::Instructions {
            output::note(
                "jifl bench: no web: it is measured in time, which this machine's clock does not show",
            );
            continue;
        }
        output::note(&format!("jifl bench: {} by {}", set.name(), clock.name()));
        let mut sheet = sheet(args, set, clock)?;
        sheet.notes.extend(line.clone());
        show(&sheet)?;
        all.push(sheet);
    }
    Ok(all)
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
        }
        Set::Cold => {
            sheet.ops = cold::OPS.map(operation).into();
            sheet.rows = cold::rows(&args.rows(set));
            let exact = clock == Clock::Instructions;
            (sheet.figures, sheet.notes) = cold::figures(&sheet.rows, exact);
        }
        Set::Memory => {
            let sizes = args.sizes();
            let found = memory::measure(&args.rows(set), &sizes)?;
            sheet.ops = sizes
                .iter()
                .map(|size| operation(&memory::op_name(*size)))
                .collect();
            (sheet.rows, sheet.notes) = (found.rows, found.notes);
        }
        Set::Web => {
            sheet.ops = web::operations();
            let (requests, repeats) = (args.rounds.unwrap_or(1000), args.repeats.unwrap_or(7));
            sheet.rows = web::measure(&args.rows(set), requests, repeats);
        }
    }
    Ok(sheet)
}

fn micro_plan(args: &BenchArgs, set: Set, clock: Clock) -> Result<micro::Plan, Failure> {
    let (rounds, repeats) = match clock {
        Clock::Instructions => (200, 1),
        Clock::Time => (1000, 5),
    };
    Ok(micro::Plan {
        ops: args.ops()?,
        rows: args.rows(set),
        stopwatch: Stopwatch::new(clock),
        rounds: args.rounds.unwrap_or(rounds),
        repeats: args
            .repeats
            .filter(|_| clock == Clock::Time)
            .unwrap_or(repeats),
    })
}
