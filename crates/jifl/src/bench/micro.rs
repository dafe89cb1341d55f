// SPDX-License-Identifier: MIT OR Apache-2.0
//! The micro set: operations of few system calls each, one after the other
//! under every instrumentation, in the steady state.

use std::io;

use jifl_sys::micro::{Op, Pinned, Round};

use super::clock::Stopwatch;
use super::instruments::{self, Counts, Instrument, Live, Sites, What};
use super::series::{self, Series, Trouble};
use super::sheet::Row;
use super::stats::median;
use super::validity::{Seen, judge};
use crate::output;

/// An operation's rounds are never fewer.
const LEAST_ROUNDS: u64 = 10;
/// Sessions of a cold row.
const COLD: usize = 5;

/// What is to be measured, and how often.
pub struct Plan {
    /// Operations.
    pub ops: Vec<Op>,
    /// Rows; the first is the uninstrumented one.
    pub rows: Vec<Instrument>,
    /// Of the clock.
    pub stopwatch: Stopwatch,
    /// Rounds of an operation under an instrumentation.
    pub rounds: u64,
    /// How often all instrumentations take turns.
    pub repeats: u64,
}

/// One figure.
struct Sample {
    cost: f64,
    counted: Option<f64>,
}

/// Measures all of it. Rows that nothing could switch on are missing.
pub fn measure(plan: &Plan) -> Vec<Row> {
    // Where that is forbidden, it is noise, not an error.
    let _pinned = Pinned::here();
    let mut columns: Vec<Vec<Series>> = Vec::new();
    for (index, op) in plan.ops.iter().enumerate() {
        let of = format!("{} of {}", index + 1, plan.ops.len());
        output::note(&format!("jifl bench: {} ({of})", op.name));
        columns.push(match (op.prepare)() {
            Ok(mut round) => measure_op(plan, op, round.as_mut()),
            Err(error) => {
                let why = format!("cannot be prepared: {error}");
                vec![Series::without(Trouble::Void(why)); plan.rows.len()]
            }
        });
    }
    let rows = plan.rows.iter().enumerate();
    rows.map(|(index, row)| {
        let found = columns.iter().map(|column| &column[index]);
        let found: Vec<_> = plan.ops.iter().map(|op| op.name).zip(found).collect();
        series::row(row, &found)
    })
    .collect()
}

fn measure_op(plan: &Plan, op: &Op, round: &mut dyn Round) -> Vec<Series> {
    let sites = needed_sites(plan, round);
    let mut found = vec![Series::default(); plan.rows.len()];
    for _ in 0..plan.repeats {
        for (index, row) in plan.rows.iter().enumerate() {
            if found[index].has_failed() {
                continue;
            }
            match sample(plan, row, op, round, sites.as_ref()) {
                Ok(sample) => {
                    let native = found[0].last().filter(|_| index > 0);
                    found[index].push(sample.cost, sample.cost / native.unwrap_or(sample.cost));
                    found[index].counted = sample.counted;
                }
                Err(trouble) => found[index].fail(trouble),
            }
        }
    }
    found
}

/// Only peers need them.
fn needed_sites(plan: &Plan, round: &mut dyn Round) -> Option<Result<Sites, String>> {
    let peers = |row: &Instrument| matches!(row.what, What::Peer(..));
    plan.rows.iter().any(peers).then(|| {
        instruments::sites(&mut || {
            let _ = repeat(round, LEAST_ROUNDS);
        })
    })
}

fn sample(
    plan: &Plan,
    row: &Instrument,
    op: &Op,
    round: &mut dyn Round,
    sites: Option<&Result<Sites, String>>,
) -> Result<Sample, Trouble> {
    if let What::Cold(_) = row.what {
        return cold_sample(plan, row.what, op, round);
    }
    let failed = |error: io::Error| Trouble::Void(format!("the operation failed: {error}"));
    let rounds = (plan.rounds * op.share / 100).max(LEAST_ROUNDS);
    let numbers: Vec<u32> = op.calls.iter().map(|(nr, _)| *nr).collect();
    let translated_before = instruments::translated();
    let live = Live::start(row.what, sites).map_err(Trouble::Missing)?;
    let counts = || live.counts(&numbers).map_err(Trouble::Void);
    // As many as are measured: the kernel's own caches take their time, too.
    repeat(round, rounds).map_err(failed)?;

    let halves = [rounds / 2, rounds - rounds / 2];
    let mut costs = Vec::with_capacity(rounds as usize);
    let begin = counts()?;
    timed(plan, round, halves[0], &mut costs).map_err(failed)?;
    let middle = counts()?;
    timed(plan, round, halves[1], &mut costs).map_err(failed)?;
    let seen = Seen {
        counts: [begin, middle, counts()?],
        translated_before,
        rounds: halves,
    };
    let model = live
        .expected()
        .map(|hits| hits as f64 / LEAST_ROUNDS as f64);
    drop(live);
    judge(&seen, op.calls, model).map_err(Trouble::Void)?;
    Ok(Sample {
        cost: median(&costs),
        counted: seen.per_round().or(seen.calls_per_round()),
    })
}

/// One round in a session of its own, some times.
fn cold_sample(plan: &Plan, what: What, op: &Op, round: &mut dyn Round) -> Result<Sample, Trouble> {
    let numbers: Vec<u32> = op.calls.iter().map(|(nr, _)| *nr).collect();
    let mut costs = Vec::with_capacity(COLD);
    for _ in 0..COLD {
        let translated_before = instruments::translated();
        let live = Live::start(what, None).map_err(Trouble::Missing)?;
        let counts = || live.counts(&numbers).map_err(Trouble::Void);
        let from = counts()?;
        timed(plan, round, 1, &mut costs)
            .map_err(|error| Trouble::Void(format!("the operation failed: {error}")))?;
        let seen = Seen {
            counts: [
                without_inside(from.clone()),
                without_inside(from),
                without_inside(counts()?),
            ],
            translated_before,
            rounds: [0, 1],
        };
        judge(&seen, op.calls, None).map_err(Trouble::Void)?;
    }
    Ok(Sample {
        cost: median(&costs),
        counted: None,
    })
}

/// There is no steady state to ask for.
fn without_inside(counts: Counts) -> Counts {
    Counts {
        inside: None,
        ..counts
    }
}

fn repeat(round: &mut dyn Round, rounds: u64) -> io::Result<()> {
    for _ in 0..rounds {
        round.once()?;
        round.between()?;
    }
    Ok(())
}

fn timed(plan: &Plan, round: &mut dyn Round, rounds: u64, costs: &mut Vec<f64>) -> io::Result<()> {
    for _ in 0..rounds {
        let (cost, result) = plan.stopwatch.of(|| round.once());
        result?;
        costs.push(cost);
        round.between()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::clock::Clock;
    use super::super::instruments::INSTRUMENTS;
    use super::super::sheet::NATIVE;
    use super::*;
    use jifl_sys::micro::OPS;

    fn plan(rows: &[&str]) -> Plan {
        let named = |key: &&str| *INSTRUMENTS.iter().find(|row| row.key == *key).unwrap();
        Plan {
            ops: OPS[..2].to_vec(),
            rows: rows.iter().map(named).collect(),
            stopwatch: Stopwatch::new(Clock::Time),
            rounds: 20,
            repeats: 3,
        }
    }

    #[test]
    fn the_native_row_needs_no_module_and_a_lacking_row_is_missing() {
        let rows = measure(&plan(&[NATIVE, "bpf-call"]));
        assert_eq!(rows[0].cells.len(), 2);
        for cell in &rows[0].cells {
            assert!(
                cell.is_valid() && cell.value > 0.0 && cell.ratio == 1.0,
                "{cell:?}"
            );
        }
        let why = rows[1].missing.as_ref().unwrap();
        assert!(!why.is_empty() && !why.contains('\n'));
    }

    #[test]
    fn an_operation_that_cannot_be_prepared_is_void_and_the_others_are_measured() {
        let mut plan = plan(&[NATIVE]);
        plan.ops[0].prepare = || Err(io::ErrorKind::Unsupported.into());
        let rows = measure(&plan);
        assert!(!rows[0].cells[0].is_valid());
        assert!(rows[0].cells[1].is_valid());
    }
}
