// SPDX-License-Identifier: MIT OR Apache-2.0
//! The micro set: operations of few system calls each, one after the other
//! under every instrumentation, in the steady state.

use std::io;
use std::time::{Duration, Instant};

use jifl_sys::micro::{Op, Pinned, Round};

use super::clock::Stopwatch;
use super::instruments::{self, Busiest, Counts, Instrument, Known, Live, Sites, What};
use super::pace::{Budget, LEAST_ROUNDS, Pace, Reporter};
use super::peers::Method;
use super::series::{self, Series, Trouble};
use super::sheet::Row;
use super::stats::median;
use super::validity::{self, Seen, judge};

/// Number of rounds from which the cost of a round is taken. It decides the number of rounds.
const FIRST: u64 = 5;
/// Maximum of further halves for which an unsteady operation is measured.
const MORE_HALVES: usize = 4;
/// Number of sessions of a cold row.
const COLD: usize = 5;

/// Time that each operation goes on while the functions are found that are called most.
const FINDING: Duration = Duration::from_millis(50);
/// Time that a session needs to learn which calls are made most (host/kernel/enter/chain.c).
const LEARNING: Duration = Duration::from_millis(50);

/// Operations and rows, and how often they are measured.
pub struct Plan {
    /// Set and kernel, for lines of progress.
    pub title: String,
    /// Operations.
    pub ops: Vec<Op>,
    /// Rows; the first is the uninstrumented one.
    pub rows: Vec<Instrument>,
    /// Measures costs by the clock.
    pub stopwatch: Stopwatch,
    /// Rounds of an operation under an instrumentation.
    pub pace: Pace,
    /// How often all instrumentations take turns.
    pub repeats: u64,
    /// Time of an operation for which a peer goes on to take turns.
    pub patience: Option<Duration>,
}

/// One figure.
struct Sample {
    cost: f64,
    counted: Option<f64>,
    rounds: Option<u64>,
}

/// Measures all. Rows that could not be switched on for any operation are missing.
pub fn measure(plan: &Plan) -> Vec<Row> {
    // If pinning is forbidden, the measurement has more noise; that is no error.
    let _pinned = Pinned::here();
    let mut columns: Vec<Vec<Series>> = Vec::new();
    let mut say = Reporter::new(plan.title.clone(), plan.pace.clock());
    let busiest = needed_busiest(plan);
    for (index, op) in plan.ops.iter().enumerate() {
        say.op(op.name, index, plan.ops.len());
        columns.push(match (op.prepare)() {
            Ok(mut round) => {
                let known = Known {
                    sites: needed_sites(plan, round.as_mut()),
                    busiest: busiest.clone(),
                };
                measure_op(plan, op, round.as_mut(), &known, &mut say)
            }
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

fn measure_op(
    plan: &Plan,
    op: &Op,
    round: &mut dyn Round,
    known: &Known,
    say: &mut Reporter,
) -> Vec<Series> {
    let mut found = vec![Series::default(); plan.rows.len()];
    let mut budget = Budget::new(plan);
    let mut measuring = Measuring { plan, op, round };
    for turn in 0..plan.repeats {
        for (index, row) in plan.rows.iter().enumerate() {
            if is_second_of_pair(plan, row) || !budget.has(index, turn) {
                continue;
            }
            say.row(row.key, turn, plan.repeats);
            let started = Instant::now();
            measuring.turn(index, known, &mut found);
            budget.spent(index, started.elapsed());
        }
    }
    found
}

/// The row of the same probes after they have become jumps. It is measured right after that of the
/// breakpoints.
fn jumps_of(plan: &Plan, row: &Instrument) -> Option<usize> {
    let What::Peer(Method::KprobeInt3, job) = row.what else {
        return None;
    };
    let jumps = What::Peer(Method::KprobeOptimised, job);
    plan.rows.iter().position(|row| row.what == jumps)
}

fn is_second_of_pair(plan: &Plan, row: &Instrument) -> bool {
    let What::Peer(Method::KprobeOptimised, job) = row.what else {
        return false;
    };
    let breakpoints = What::Peer(Method::KprobeInt3, job);
    plan.rows.iter().any(|row| row.what == breakpoints)
}

/// One operation, prepared.
struct Measuring<'a> {
    plan: &'a Plan,
    op: &'a Op,
    round: &'a mut dyn Round,
}

impl Measuring<'_> {
    /// A turn of a row, and of the row that has the same probes.
    fn turn(&mut self, index: usize, known: &Known, found: &mut [Series]) {
        let row = &self.plan.rows[index];
        let second = jumps_of(self.plan, row);
        if found[index].has_failed() && second.is_none_or(|second| found[second].has_failed()) {
            return;
        }
        if let What::Cold(_) = row.what {
            let sample = cold_sample(self.plan, row.what, self.op, self.round);
            return push(found, index, sample);
        }
        let translated_before = instruments::translated();
        let mut live = match Live::start(row.what, known) {
            Ok(live) => live,
            Err(why) => {
                for index in [Some(index), second].into_iter().flatten() {
                    found[index].fail(Trouble::Missing(why.clone()));
                }
                return;
            }
        };
        if !found[index].has_failed() {
            let sample = self.sample(&live, translated_before);
            push(found, index, sample);
        }
        if let Some(second) = second.filter(|second| !found[*second].has_failed()) {
            let sample = live.optimise().map_err(Trouble::Missing);
            let sample = sample.and_then(|()| self.sample(&live, None));
            push(found, second, sample);
        }
    }

    fn sample(&mut self, live: &Live, translated_before: Option<u64>) -> Result<Sample, Trouble> {
        let Measuring { plan, op, round } = self;
        let failed = |error: io::Error| Trouble::Void(format!("the operation failed: {error}"));
        let numbers: Vec<u32> = op.calls.iter().map(|(nr, _)| *nr).collect();
        let counts = || live.counts(&numbers).map_err(Trouble::Void);
        let mut costs = Vec::new();
        timed(plan, *round, FIRST, &mut costs).map_err(failed)?;
        let rounds = plan.pace.rounds(op.share, median(&costs));
        // As many rounds as are measured: the kernel's own caches need time to fill, too.
        warm_up(*round, rounds.saturating_sub(FIRST)).map_err(failed)?;

        let mut half = |rounds: u64| {
            let mut costs = Vec::with_capacity(rounds as usize);
            timed(plan, *round, rounds, &mut costs).map_err(failed)?;
            Ok((costs, counts()?))
        };
        let mut rounds = [rounds / 2, rounds - rounds / 2];
        let begin = counts()?;
        let (mut first, middle) = half(rounds[0])?;
        let (mut second, end) = half(rounds[1])?;
        let mut seen = Seen {
            counts: [begin, middle, end],
            translated_before,
            rounds,
        };
        // The operation may have changed its state meanwhile, or other work may have disturbed it.
        for _ in 0..MORE_HALVES {
            if validity::is_steady(&seen) {
                break;
            }
            rounds = [rounds[1]; 2];
            let (costs, end) = half(rounds[1])?;
            first = std::mem::replace(&mut second, costs);
            let [_, begin, middle] = seen.counts;
            seen.counts = [begin, middle, end];
            seen.rounds = rounds;
        }
        let model = live
            .expected()
            .map(|hits| hits as f64 / LEAST_ROUNDS as f64);
        judge(&seen, op.calls, model).map_err(Trouble::Void)?;
        first.append(&mut second);
        Ok(Sample {
            cost: median(&first),
            counted: seen.per_round().or(seen.calls_per_round()),
            rounds: Some(rounds.iter().sum()),
        })
    }
}

/// Ratios are to the first, uninstrumented row of the same turn. A row that has failed takes no
/// more turns, so its last figure is an earlier turn's.
fn push(found: &mut [Series], index: usize, sample: Result<Sample, Trouble>) {
    let sample = sample.and_then(|sample| {
        let native = match index {
            0 => Some(sample.cost),
            _ => found[0].last().filter(|_| !found[0].has_failed()),
        };
        Ok((native.ok_or_else(Trouble::alone)?, sample))
    });
    match sample {
        Ok((native, sample)) => {
            found[index].push(sample.cost, sample.cost / native);
            found[index].counted = sample.counted;
            found[index].rounds = sample.rounds;
        }
        Err(trouble) => found[index].fail(trouble),
    }
}

/// Sites are needed for peers only.
fn needed_sites(plan: &Plan, round: &mut dyn Round) -> Option<Result<Sites, String>> {
    let peers = |row: &Instrument| matches!(row.what, What::Peer(..));
    plan.rows.iter().any(peers).then(|| {
        instruments::sites(&mut || {
            let _ = repeat(round, LEAST_ROUNDS);
        })
    })
}

/// The functions that the operations call most, if each operation goes on as long as the others.
/// In a machine whose clock counts instructions, as long means as many instructions.
fn needed_busiest(plan: &Plan) -> Option<Result<Busiest, String>> {
    let busiest = |row: &Instrument| matches!(row.what, What::Busiest(_));
    plan.rows.iter().any(busiest).then(|| {
        instruments::busiest(&mut || {
            for op in &plan.ops {
                let Ok(mut round) = (op.prepare)() else {
                    continue;
                };
                let begun = Instant::now();
                while begun.elapsed() < FINDING && repeat(round.as_mut(), 1).is_ok() {}
            }
        })
    })
}

/// Measures one round in a session of its own, several times.
fn cold_sample(plan: &Plan, what: What, op: &Op, round: &mut dyn Round) -> Result<Sample, Trouble> {
    let numbers: Vec<u32> = op.calls.iter().map(|(nr, _)| *nr).collect();
    let mut costs = Vec::with_capacity(COLD);
    for _ in 0..COLD {
        let translated_before = instruments::translated();
        let live = Live::start(what, &Known::default()).map_err(Trouble::Missing)?;
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
        rounds: None,
    })
}

/// Cold rows have no steady state.
fn without_inside(counts: Counts) -> Counts {
    Counts {
        inside: None,
        ..counts
    }
}

/// Runs rounds until the steady state is reached.
pub fn warm_up(round: &mut dyn Round, rounds: u64) -> io::Result<()> {
    repeat(round, rounds)?;
    std::thread::sleep(LEARNING);
    Ok(())
}

/// Runs rounds without keeping figures.
fn repeat(round: &mut dyn Round, rounds: u64) -> io::Result<()> {
    for _ in 0..rounds {
        round.once()?;
        round.between()?;
    }
    Ok(())
}

/// Runs rounds, and adds the cost of each by the stopwatch.
pub fn timed(
    plan: &Plan,
    round: &mut dyn Round,
    rounds: u64,
    costs: &mut Vec<f64>,
) -> io::Result<()> {
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
            title: "micro".into(),
            pace: Pace::fixed(Clock::Time, 20),
            repeats: 3,
            patience: None,
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
    fn without_an_uninstrumented_figure_beside_it_a_figure_is_void() {
        let sample = |cost| Sample {
            cost,
            counted: None,
            rounds: None,
        };
        let cell = |found: &[Series], index: usize| {
            let row = series::row(&INSTRUMENTS[index], &[("x", &found[index])]);
            row.cells[0].clone()
        };
        let failed = || Err(Trouble::Void("the operation failed".into()));
        let mut found = vec![Series::default(); 3];
        push(&mut found, 0, Ok(sample(100.0)));
        push(&mut found, 1, Ok(sample(150.0)));
        assert_eq!(cell(&found, 1).ratio, 1.5);
        // The figure of the first turn must not serve for the second.
        push(&mut found, 0, failed());
        push(&mut found, 1, Ok(sample(300.0)));
        push(&mut found, 2, failed());
        let why = |index| cell(&found, index).void.unwrap();
        assert_eq!(why(0), "the operation failed");
        assert_eq!(why(1), "no uninstrumented figure beside it");
        assert_eq!(why(2), "the operation failed");
        let mut found = vec![Series::default(); 2];
        push(&mut found, 0, failed());
        push(&mut found, 1, Ok(sample(150.0)));
        assert!(!cell(&found, 1).is_valid());
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
