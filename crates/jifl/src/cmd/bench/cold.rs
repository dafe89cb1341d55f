// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cold set: the cost of the beginning. It measures a program's first run in a session, when
//! all kernel code that the program executes has to be translated; the cost of a translation; and
//! how much memory the code of a compile takes.

use jifl_sys::abi::Kind;

use super::instruments::{self, Instrument, Known, Live, What};
use super::programs::{Compile, Program};
use super::series::{self, Series, Trouble};
use super::sheet::{Figure, Goal, Row};
use super::stats::median;
use crate::base::environment::release;
use crate::show::output;

/// Names of the operations.
pub const OPS: [&str; 2] = ["first ls", "later ls"];

/// Goal: a first `ls` costs at most this many times its native cost.
const FIRST_LS: f64 = 5.0;
/// Goal: instructions for translating a block.
const TRANSLATION: f64 = 6000.0;
/// Goal: code and tables after a compile, in MB.
const MEMORY: f64 = 4.0;

const TIMES: usize = 5;
/// Its number.
const EXECVE: u32 = syscalls::Sysno::execve as u32;

/// Measures all rows that are sessions.
pub fn rows(rows: &[Instrument]) -> Vec<Row> {
    let ls = Program::new("ls /");
    let native = native_costs(&ls);
    let wanted = rows
        .iter()
        .filter(|row| matches!(row.what, What::Native | What::Session(..)));
    wanted
        .map(|row| {
            output::note(&format!("jifl bench: cold, {}: row {}", release(), row.key));
            let found = match (&native, row.what) {
                (Err(why), _) => Err(Trouble::Missing(why.clone())),
                (Ok(native), What::Native) => Ok([native.clone(), native.clone()]),
                (Ok(_), _) => session_costs(&ls, row.what),
            };
            let native = native.as_ref().map_or(0.0, |costs| median(costs));
            let series = match found {
                Ok(costs) => costs.map(|costs| Series::of(&costs, native)),
                Err(trouble) => [Series::without(trouble.clone()), Series::without(trouble)],
            };
            series::row(row, &[(OPS[0], &series[0]), (OPS[1], &series[1])])
        })
        .collect()
}

fn native_costs(program: &Program) -> Result<Vec<f64>, String> {
    program.cost()?;
    (0..TIMES).map(|_| program.cost()).collect()
}

/// First and second runs, each pair in a session of its own.
fn session_costs(program: &Program, what: What) -> Result<[Vec<f64>; 2], Trouble> {
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..TIMES {
        let before = instruments::translated();
        let live = Live::start(what, &Known::default()).map_err(Trouble::Missing)?;
        for costs in &mut costs {
            costs.push(program.cost().map_err(Trouble::Void)?);
        }
        let counts = live.counts(&[EXECVE]).map_err(Trouble::Void)?;
        if counts.translated <= before {
            return Err(Trouble::Void("nothing was translated".into()));
        }
        if let Some(calls) = counts.calls.first().filter(|calls| **calls < 2) {
            let why = format!("counted {calls} of 2 calls of execve");
            return Err(Trouble::Void(why));
        }
    }
    Ok(costs)
}

/// The figure of a first `ls`, and the figures of a compile with all calls counted. `exact`: the
/// clock counts instructions, for which the goals are set.
pub fn figures(rows: &[Row], exact: bool) -> (Vec<Figure>, Vec<String>) {
    let mut figures = Vec::new();
    for row in rows
        .iter()
        .filter(|row| row.key == "block" || row.key == "insn")
    {
        figures.push(Figure {
            name: format!("{}: first ls", row.title),
            value: row.cell(OPS[0]).map(|cell| cell.ratio),
            unit: "times".into(),
            goal: exact.then_some(Goal::AtMost(FIRST_LS)),
        });
    }
    match compile_figures(exact) {
        Ok(more) => figures.extend(more),
        Err(why) => {
            return (
                figures,
                vec![format!("missing: figures of a compile: {why}")],
            );
        }
    }
    (figures, Vec::new())
}

fn compile_figures(exact: bool) -> Result<Vec<Figure>, String> {
    let compile = Compile::new()?;
    compile.cost()?;
    let before = instruments::status()?;
    let live = Live::start(What::Session(Kind::Insn, 0), &Known::default())?;
    compile.cost()?;
    let after = instruments::status()?;
    drop(live);
    let blocks = after.translated_blocks - before.translated_blocks;
    let figure = |name: &str, value: f64, unit: &str, goal: Option<f64>| Figure {
        name: format!("gcc compile, instruction count: {name}"),
        value: Some(value),
        unit: unit.into(),
        goal: goal.map(Goal::AtMost),
    };
    let translation = (after.translate_ns - before.translate_ns) as f64 / blocks.max(1) as f64;
    let unit = if exact { "instructions" } else { "ns" };
    let megabytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (code, side) = (megabytes(after.code_used), megabytes(after.side_used));
    Ok(vec![
        figure("blocks translated", blocks as f64, "blocks", None),
        figure(
            "translation of a block",
            translation,
            unit,
            exact.then_some(TRANSLATION),
        ),
        figure("code cache", code, "MB", None),
        figure("side tables", side, "MB", None),
        figure("both", code + side, "MB", Some(MEMORY)),
    ])
}
